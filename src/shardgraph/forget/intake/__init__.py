"""Intake: from what somebody brings to samples in their shards.

    admission        which samples may come in
    embed            a reader's records on their way through a backbone, in parts, resumable
    first_training   what the first training fixes, and which file every sample belongs in
    sources          who gave the data, on what terms, and how much of it may be asked back
"""
