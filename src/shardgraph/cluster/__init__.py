"""A Ray cluster for calls of pure functions, and copies of files in object storage for nodes that need them.

Nothing here is used by a command that runs on one machine only.

    cluster       Cluster: sends calls to nodes, a limited number at a time, and returns the results
    ray_session   this process's one connection to Ray
    staging       Staging: copies of shard files in object storage, deleted at the end of a run
"""
