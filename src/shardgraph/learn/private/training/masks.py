"""Which adapter learns from which sample, and how: the two masks of SAFE-DP, and the owners of adapters.

The masks are the paper's A_direct and A_DP (appendix "DP-SAFE"), [C, n] over adapters and samples. An owner is a shard:
all its adapters use the same samples in the same way, and are dropped together if one of its own samples is forgotten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shardgraph.digest import generator
from shardgraph.errors import ConfigError, InputError, some


@dataclass(frozen=True)
class Owner:
    """A shard with its adapters (rows of the masks) and its own samples (columns, in canonical order)."""

    name: str
    adapters: np.ndarray  # [c] int64
    own: np.ndarray  # rows of the samples learned from directly


@dataclass(frozen=True)
class Masks:
    """Checked masks: the owners, and which samples are used privately by which adapters."""

    owners: tuple[Owner, ...]
    owner: np.ndarray  # [C] int64, index of each adapter's owner
    private: np.ndarray  # [n'] rows of the samples used privately
    used: np.ndarray  # [n', C] bool, by which adapter


def checked_masks(
    direct: np.ndarray, private: np.ndarray, names: Sequence[str], classes: Sequence[str], count: int, readers: int
) -> Masks:
    """The masks; an error if training with them would not be private."""
    shape = (len(classes), count)
    for mask, what in ((direct, "direct"), (private, "private")):
        if mask.shape != shape or mask.dtype != bool:
            raise InputError(f"the {what} mask must be bool {shape}, got {mask.dtype} {mask.shape}")
    if len(names) != len(classes):
        raise InputError(f"every adapter must have an owner, got {len(names)} for {len(classes)} adapters")
    if (direct & private).any():
        raise InputError("no adapter may use a sample both directly and privately: the direct use would void the other")
    for mask, what in ((direct, "own samples"), (private, "neighbours")):
        bare = [label for label, row in zip(classes, mask, strict=True) if not row.any()]
        if bare:
            raise InputError(f"every private adapter must have {what}, {some(bare)} has none: an empty neighbourhood")
    owners = tuple(_owner(name, direct, private, names) for name in sorted(set(names)))
    index = {owner.name: i for i, owner in enumerate(owners)}
    _check_readers(private[[owner.adapters[0] for owner in owners]], readers)
    rows = np.flatnonzero(private.any(axis=0))
    return Masks(owners, np.array([index[name] for name in names]), rows, np.ascontiguousarray(private[:, rows].T))


def own_batches(owner: Owner, group: str, batch: int, seed: int) -> Iterator[np.ndarray]:
    """Endless batches of the owner's own samples (positions in `own`), which depend on their number and the names."""
    rng = generator(seed, "private-order", group, owner.name)
    waiting = np.empty(0, np.int64)
    while True:
        while len(waiting) < batch:
            waiting = np.concatenate([waiting, rng.permutation(len(owner.own))])
        yield waiting[:batch]
        waiting = waiting[batch:]


def _owner(name: str, direct: np.ndarray, private: np.ndarray, names: Sequence[str]) -> Owner:
    adapters = np.array([i for i, other in enumerate(names) if other == name])
    for mask in (direct, private):
        if (mask[adapters] != mask[adapters[0]]).any():
            raise InputError(f"all adapters of one owner must see the same samples, those of {name!r} do not")
    return Owner(name, adapters, np.flatnonzero(direct[adapters[0]]))


def _check_readers(private: np.ndarray, readers: int) -> None:
    most = int(private.sum(axis=0).max())
    if most > readers:
        raise ConfigError(
            f"readers must be at least the number of owners that use one sample privately, got {readers} for {most}"
        )
