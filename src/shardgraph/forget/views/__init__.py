"""Views: what may be seen of a workspace now.

    served       the model that may be served: without anything that saw a sample whose forgetting was asked for
    graph_view   the shard graph with sizes, sources and what is served; one shard looked at closely
    search       samples, subjects and sources by the beginning of their name
    views        Views: all of this for one workspace
"""
