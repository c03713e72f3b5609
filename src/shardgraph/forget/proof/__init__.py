"""Proof: what is said about the past, and how anybody can check it.

    keys          the secret of keyed hashes (marks), and the key that signs certificates
    certificate   what was asked and what the model is now, chained and signed
    guarantee     which guarantee holds: exact, withdrawn, or (alpha, beta) with private edges
    verify        whether what is on disk is what was certified, and what the retained data gives
    erasure_log   marks of what was asked to be forgotten, in a file outside the workspace and its backups
"""
