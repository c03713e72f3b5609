"""Machine unlearning with shard graphs: learn, predict, forget exactly, prove it."""

__version__ = "0.1.0"
