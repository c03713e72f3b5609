"""Shard files: the samples of one shard, in canonical order, as one tensor file.

    ids.bytes, ids.ends        the sample ids, sorted as UTF-8 bytes
    table.bytes, table.ends    the labels that occur, sorted
    labels    [n] int32        each sample's place in the table
    tokens    [sum t_i, D]     token embeddings laid end to end
    offsets   [n + 1] int64    sample i owns tokens[offsets[i] : offsets[i + 1]]
    features  [n, F] float32   pooled features

The bytes are a function of the samples alone: not of the order in which they came, nor of any that left.
Sources, subjects and splits stay in the catalogue.
"""

from mmap import mmap

import numpy as np

from shardgraph.data.samples import Samples
from shardgraph.data.tensorfile import pack, pack_strings, unpack, unpack_strings
from shardgraph.digest import Raw


def to_bytes(samples: Samples) -> bytes:
    """The file of these samples."""
    samples = samples.canonical()
    table = sorted(set(samples.labels))
    place = {label: i for i, label in enumerate(table)}
    return pack(
        {
            "labels": np.array([place[label] for label in samples.labels], np.int32),
            "tokens": samples.tokens,
            "offsets": samples.offsets,
            "features": samples.features,
        }
        | pack_strings("ids", samples.ids)
        | pack_strings("table", table)
    )


def from_bytes(raw: Raw | mmap) -> Samples:
    """The samples of a file, as views into `raw`."""
    tensors = unpack(raw)
    table = unpack_strings("table", tensors)
    return Samples(
        ids=unpack_strings("ids", tensors),
        labels=tuple(table[i] for i in tensors["labels"].tolist()),
        tokens=tensors["tokens"],
        offsets=tensors["offsets"],
        features=tensors["features"],
    )
