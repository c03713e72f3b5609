"""Rights: which part of the data a consumer may use, and the model of that part.

    rights        a consumer's right, and changes to it
    coverage      what of a workspace a right covers, and how much that is
    provision     groups trained on what a right allows and nothing else
    sums          prototypes of the samples that a right allows, updated exactly
    model         the model of a right, whole in memory
    shared_pass   several models answered from one forward pass
    consumers     Consumers: grant, revoke, provision, model, scores
"""
