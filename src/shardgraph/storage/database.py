"""Kept until every caller imports from `storage.catalogue` and `storage.tables`."""

from shardgraph.storage.catalogue import Catalogue, Row

__all__ = ["Catalogue", "Row"]
