"""Who calls and what that caller may do.

    tokens   tokens and roles: create, list, revoke, look up
    access   the caller of a request as a FastAPI dependency; what an owner may see and ask for

The command line uses `tokens` without FastAPI.
"""
