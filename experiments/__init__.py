"""Every table and figure of the paper, and ours, as pure functions on one cache of embeddings.

python -m experiments.cache data/cub200_s128.parquet --backbone efficientnet-lite2 --cache CACHE
shardgraph experiment accuracy --cache CACHE
"""
