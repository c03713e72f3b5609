"""Proof: statements about what was forgotten, and how anyone can check them.

keys          the secret of the keyed hashes (marks), and the key that signs certificates
certificate   Certificate: what was asked and what the model is now, chained and signed
verify        whether the files on disk are those that were certified, and equal a rebuild from the retained data
erasure_log   marks of what people asked to forget, in a file outside the workspace and its backups
log_standing  how that file and the workspace stand to each other
log_file      the lines of that file, which form a chain
"""
