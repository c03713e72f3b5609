"""Who calls and what that caller may do.

access   tokens and roles; the caller of a request as a FastAPI dependency; what an owner may see and ask for
"""
