"""How samples and classes are dealt to coarse and fine shards: keyed hashes, so that nobody moves another.

A sample's place depends on its own id, source and label, on the seed and on the declared classes. No count
and no other sample enters, so a sample that leaves moves none of those that stay.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from shardgraph.digest import keyed_hash
from shardgraph.errors import GraphError, some
from shardgraph.graph import checks


def coarse_of(sample_id: str, source: str, *, coarse: int, seed: int) -> int:
    """The coarse shard of a sample: a number below `coarse`, uniform over samples."""
    return keyed_hash(seed, "coarse", source, sample_id) % coarse


@lru_cache(maxsize=1024)  # keeps class names, which the configuration holds anyway, and never a sample
def deal(seed: int, c: int, fine: int, classes: tuple[str, ...]) -> Mapping[str, int]:
    """Deals the declared classes evenly to the fine cliques of coarse shard c, in an order of its own."""
    checks.names(classes, "class")
    if len(classes) < fine:
        raise GraphError(f"fine must be at most the number of classes, got {fine} for {len(classes)} classes")
    order = sorted(classes, key=lambda label: (keyed_hash(seed, "fine", c, label), label))
    return MappingProxyType({label: position % fine for position, label in enumerate(order)})


def fine_of(label: str, dealt: Mapping[str, int], *, c: int, fine: int, seed: int) -> int:
    """The fine clique of a label: as dealt, or by its own hash when it was not declared."""
    known = dealt.get(label)
    return keyed_hash(seed, "fine-late", c, label) % fine if known is None else known


def balanced(ids: Sequence[str], sources: Sequence[str], labels: Sequence[str], *, coarse: int, seed: int) -> list[int]:
    """The paper's class-balanced split: coarse shards, with every class spread evenly over them.

    Each class is put in the order of a keyed hash of (source, id) and dealt round robin, from a start of
    its own, so that small classes do not all meet in shard 0. A sample's place then depends on the others
    of its class: the map is made once, is part of the graph and stays; "never saw x" means given that
    map without x. Samples that arrive later are placed by hash. The order of the input does not matter.
    """
    check_columns(ids, sources, labels)
    _check_unique(ids)
    checks.whole("coarse", coarse, 1)
    rows: dict[str, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        rows[label].append(row)
    found = [0] * len(ids)
    for label, mine in rows.items():
        start = keyed_hash(seed, "balanced-start", label)
        mine.sort(key=lambda i: (keyed_hash(seed, "balanced", sources[i], ids[i]), sources[i], ids[i]))
        for position, row in enumerate(mine):
            found[row] = (start + position) % coarse
    return found


def check_columns(ids: Sequence[str], sources: Sequence[str], labels: Sequence[str]) -> None:
    """Raises GraphError unless there is one source and one label for each id."""
    lengths = (len(ids), len(sources), len(labels))
    if len(set(lengths)) > 1:
        raise GraphError(f"ids, sources and labels must be equally many, got {', '.join(map(str, lengths))}")


def _check_unique(ids: Sequence[str]) -> None:
    twice = sorted(i for i, times in Counter(ids).items() if times > 1)
    if twice:
        raise GraphError(f"ids must be unique, got {some(twice)} more than once", twice)
