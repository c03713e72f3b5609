"""The plan of a forget: what would be rebuilt and what it would cost. It reads, and changes nothing."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from shardgraph.data.catalogue import Row
from shardgraph.data.samples import TRAIN
from shardgraph.data.store import Store, shard_unit
from shardgraph.errors import InputError, UnknownSample, some
from shardgraph.forget.build import current_graph
from shardgraph.forget.config import Config
from shardgraph.forget.request import KINDS, ForgetRequest
from shardgraph.forget.secrets import Secrets


@dataclass(frozen=True)
class ForgetPlan:
    """Orders for a forget. `rows` leave; `groups` saw them and are withdrawn, then rebuilt if anything is left."""

    request: ForgetRequest
    rows: tuple[Row, ...]
    groups: tuple[str, ...]
    vanishing: tuple[str, ...]  # groups with nothing left to learn
    adapters: int  # to rebuild
    revisited: int  # samples that the rebuilding reads
    share: float  # of the samples that a full retraining reads
    classes: tuple[str, ...]  # classes that disappear
    sources: tuple[str, ...]  # sources that disappear
    already: tuple[int, ...]  # certificates of what was forgotten before

    def to_json(self) -> dict[str, Any]:
        """The plan's figures, for a person or a script."""
        return {
            "samples": len(self.rows),
            "groups_to_rebuild": len(self.groups) - len(self.vanishing),
            "groups_that_vanish": len(self.vanishing),
            "adapters_to_rebuild": self.adapters,
            "samples_to_revisit": self.revisited,
            "share_of_full_retraining": self.share,
            "classes_that_disappear": list(self.classes),
            "sources_that_disappear": list(self.sources),
            "already_forgotten": list(self.already),
        }


def plan(store: Store, config: Config, secrets: Secrets, request: ForgetRequest) -> ForgetPlan:
    """What `request` would do; an error if it names something that was never here."""
    rows, already = _select(store, secrets, request)
    groups, vanishing, adapters, revisited, share = _cost(store, config, rows)
    return ForgetPlan(
        request=request,
        rows=rows,
        groups=groups,
        vanishing=vanishing,
        adapters=adapters,
        revisited=revisited,
        share=share,
        classes=_exhausted(store, rows, "label"),
        sources=_exhausted(store, rows, "source"),
        already=already,
    )


def _select(store: Store, secrets: Secrets, request: ForgetRequest) -> tuple[tuple[Row, ...], tuple[int, ...]]:
    if not request.selectors():
        raise InputError("a request must name at least one sample, source, subject, shard or label")
    found: dict[str, Row] = {}
    already, unknown = set(), []
    for kind, name in request.selectors():
        column, value = (KINDS[kind], name) if kind in KINDS else ("unit", shard_unit(name))
        rows = store.catalogue.rows(column, [value])
        found |= {row.id: row for row in rows}
        if not rows:
            before = store.catalogue.one("SELECT certificate FROM forgotten WHERE mark = ?", secrets.mark(kind, name))
            already |= {before[0]} if before else set()
            unknown += [] if before else [(kind, name)]
    if unknown:
        names = [name for _, name in unknown]
        raise UnknownSample(f"never seen here: {unknown[0][0].removesuffix('s')} {some(names)}", names)
    return tuple(sorted(found.values(), key=lambda row: row.id.encode())), tuple(sorted(already))


def _cost(
    store: Store, config: Config, rows: tuple[Row, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], int, int, float]:
    if not config.trained:
        return (), (), 0, 0, 0.0
    counts = {unit: Counter(labels) for unit, labels in store.catalogue.unit_labels().items()}
    total = sum(sum(c.values()) for unit, c in counts.items() if unit.startswith("shard:"))
    touched = {row.unit for row in rows if row.split == TRAIN and row.unit.startswith("shard:")}
    for row in rows:
        counts[row.unit][row.label] -= 1
    left = {unit: +count for unit, count in counts.items()}
    affected = current_graph(store, config).affected(unit.removeprefix("shard:") for unit in touched)
    vanishing, adapters, revisited = [], 0, set()
    for group in affected:
        units = [u for u in map(shard_unit, group.neighbourhood) if left.get(u)]
        mine = {label for u in map(shard_unit, group.members) for label in left.get(u, ())}
        if not mine or len({label for u in units for label in left[u]}) < 2:
            vanishing.append(group.name)
            continue
        adapters += len(mine)
        revisited |= set(units)
    samples = sum(sum(left[unit].values()) for unit in revisited)
    return (
        tuple(g.name for g in affected),
        tuple(vanishing),
        adapters,
        samples,
        samples / total if total else 0.0,
    )


def _exhausted(store: Store, rows: tuple[Row, ...], column: str) -> tuple[str, ...]:
    leaving = Counter(getattr(row, column) for row in rows if row.split == TRAIN)
    names = []
    for name, count in sorted(leaving.items()):
        here = store.catalogue.one(f"SELECT count(*) FROM samples WHERE {column} = ? AND split = 'train'", name)
        if name and here and here[0] == count:
            names.append(name)
    return tuple(names)
