"""Rights: which part of the data a consumer may use, and the model of that part.

rights        a consumer's right, and changes to it
coverage      which part of a workspace a right covers, and how much that is
provision     groups that are trained only on the data that a right allows
sums          prototypes of the samples that a right allows, updated exactly
model         the model of a right, held in memory
shared_pass   several models evaluated in one forward pass
consumers     Consumers: grant, revoke, provision, model, scores
"""
