"""Erase: from a request to bytes that are gone.

    request     what should be forgotten
    plan        which samples that means, what would be rebuilt, what it costs; it changes nothing
    execute     carrying a plan out, step by step, each of which can be repeated
    withdraw    taking what saw the samples out of service, and its bytes off the disk
    recovery    the write lock, and finishing what an interrupted process left
    twins       other samples that hold the same content
"""
