"""Views: read access to the current state of a workspace.

served       the model that may be served: nothing in it saw a sample that a request names
graph_view   the shard graph with sizes, sources and what is served; the details of one shard
search       samples, subjects and sources by the beginning of their name
views        Views: all of this for one workspace
"""
