"""À-la-carte models: the model of a consumer's right, made only of adapters and sums that the right covers.

The model of a right is the ensemble of the adapters whose whole neighbourhood the right allows, with prototypes, class
list and mixing weight of the allowed samples, and a digest of its own. It depends only on the retained data and on the
right; except for provisioned groups, no part of it is stored on disk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardgraph.errors import NothingToServe, WorkspaceError
from shardgraph.forget.build.wanted import Manifest, built_as_wanted, load_group
from shardgraph.forget.config import Config
from shardgraph.forget.rights.coverage import Available, allowed_ids, available_groups
from shardgraph.forget.rights.provision import Provisioned, provisioned_groups
from shardgraph.forget.rights.rights import Right, right_of
from shardgraph.forget.rights.sums import RightSums, sum_allowed
from shardgraph.learn.ensemble import Model
from shardgraph.learn.inca import Adapters
from shardgraph.storage.store import Store
from shardgraph.storage.tables import erasures, inventory, requests


@dataclass(frozen=True)
class Stamp:
    """What a right's model depends on, cheap to compute: equal stamps mean equal models."""

    right: Right
    model_digest: str
    provisioned: tuple[Provisioned, ...]
    erasure: int  # the last one that was accepted
    withholding: tuple[int, ...]  # the requests that withhold samples


@dataclass(frozen=True)
class RightModel:
    """A right's model in memory, and its adapters by group."""

    stamp: Stamp
    model: Model
    adapters: Mapping[str, Adapters]
    sums: RightSums
    settled: bool  # whether no file was being moved; only then it may be kept until the stamp changes


@dataclass(frozen=True)
class Answer:
    """The scores [n, K] of the model of one right for some samples, in the order of its classes."""

    classes: tuple[str, ...]
    scores: np.ndarray[Any, np.dtype[Any]]
    digest: str

    def labels(self) -> list[str]:
        """The class with the highest score, for every sample."""
        return [self.classes[i] for i in self.scores.argmax(axis=1).tolist()]


def stamp_of(store: Store, consumer: str) -> Stamp:
    """The stamp that a consumer's model would have now."""
    catalogue = store.catalogue
    with catalogue.reading():
        right = right_of(catalogue, consumer)
        provisioned = tuple(provisioned_groups(catalogue, consumer))
        last = erasures.last_erasure(catalogue)
        withholding = requests.withholding_requests(catalogue)
    return Stamp(right, Manifest.load(store.root).model_digest, provisioned, last, withholding)


def assemble_model(
    store: Store, config: Config, stamp: Stamp, device: str, before: RightSums | None = None
) -> RightModel:
    """The model of a right, in memory; its sums are computed from `before` where that saves work."""
    right, manifest = stamp.right, Manifest.load(store.root)
    if not manifest.model_digest:
        raise WorkspaceError(f"{store.root} has no model yet; run: shardgraph train {store.root}")
    with store.catalogue.reading():
        held_back = _held_back(store)
        found = available_groups(store, config, manifest.fingerprint, right)
        groups, own = _clean(store, manifest, found, stamp.provisioned, set(held_back))
        ids = _ids(store, right, found, held_back)
        settled = _settled(store, manifest)
    if not ids:
        raise NothingToServe(
            f"the right of {right.consumer!r} covers no training sample: nothing is left to serve; grant it more",
            [right.consumer],
        )
    adapters = {name: load_group(store.root, name, value) for name, value in groups.items()}
    adapters |= {group.name: group.load(store.root) for group in own}
    recipe = config.the_recipe()
    sums = sum_allowed(store, ids, recipe, before)
    model = Model.assemble(adapters, sums.prototypes, recipe, config.seed, device)
    return RightModel(stamp, model, adapters, sums, settled)


def _clean(
    store: Store, manifest: Manifest, found: Available, provisioned: Iterable[Provisioned], held_back: set[str]
) -> tuple[dict[str, str], list[Provisioned]]:
    """Groups of the workspace that a right keeps, by name and digest, and groups that are provisioned for it.

    A group is served if it is built as wanted from the retained data, if the manifest (or a row of this right) names
    it, and if no unit that it learned from holds a withheld sample.
    """
    built = built_as_wanted(store, found.kept)
    kept = {
        name: manifest.groups[name]
        for name, group in found.kept.items()
        if name in built and built[name].digest == manifest.groups.get(name) and not held_back.intersection(group.files)
    }
    own = [
        group
        for group in provisioned
        if group.name in found.lacking
        and found.lacking[group.name].key == group.key
        and not held_back.intersection(group.units)
    ]
    return kept, own


def _settled(store: Store, manifest: Manifest) -> bool:
    """Whether no unit is being rewritten, and everything that the manifest names is built."""
    built = {name: group.digest for name, group in inventory.built_groups(store.catalogue).items()}
    published = all(built.get(name) == value for name, value in manifest.groups.items())
    return published and not inventory.any_unit_dirty(store.catalogue)


def _held_back(store: Store) -> dict[str, set[str]]:
    """The withheld samples, by unit."""
    found: dict[str, set[str]] = {}
    for row in requests.withheld_rows(store.catalogue):
        found.setdefault(row.unit, set()).add(row.id)
    return found


def _ids(store: Store, right: Right, found: Available, held_back: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The samples that may be used, by unit."""
    units = {unit: allowed_ids(store.catalogue, right, unit) for unit in sorted(found.view.labels)}
    left = {unit: ids - held_back.get(unit, set()) for unit, ids in units.items()}
    return {unit: ids for unit, ids in left.items() if ids}
