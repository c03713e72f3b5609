"""Intake: from a person's data to samples in their shards.

admission        which samples are admitted
copying          takes over the samples of another workspace
embed            embeds a reader's records with a backbone, in parts; resumable
inputs           what a person passes to a Workspace (paths, URLs, frames, arrays, names), as our own values
stream           parts of samples that are added together, all of them or none
first_training   what the first training fixes, and which file every sample belongs in
sources          who gave the data, on what terms, and the share expected to be withdrawn in a year
"""
