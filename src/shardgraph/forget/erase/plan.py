"""A request to forget, and its plan: which samples the request means, what would be rebuilt and what that costs.

Planning only reads; it changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from shardgraph.errors import DamagedFile, InputError, UnknownSample, check_list, check_text, some
from shardgraph.forget.build.wanted import graph_over, group_learns, labels_in
from shardgraph.forget.config import Config
from shardgraph.forget.proof.keys import Keys
from shardgraph.graph import Group, ShardGraph
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.samples import TRAIN
from shardgraph.storage.store import Store, shard_unit
from shardgraph.storage.tables import erasures, inventory
from shardgraph.storage.tables.inventory import Column, Row

if TYPE_CHECKING:
    from shardgraph.forget.privacy.charges import Charge, Spending

KINDS: dict[str, Column] = {
    "samples": "id",
    "sources": "source",
    "subjects": "subject",
    "labels": "label",
}  # kind of name -> column of the catalogue
BY_NAME = ("sources", "subjects", "labels")  # a request for these means every sample that has the name
NAMED = ("samples", "sources", "subjects", "shards", "labels")
DECISIVE = ("checks", "units", "built", "rights", "consumers", "provisioned", "sources", "privacy", "withheld", "state")
EMPTIED: tuple[tuple[str, Column], ...] = (
    ("sources", "source"),
    ("subjects", "subject"),
    ("labels", "label"),
    ("shards", "unit"),
)
Held = Mapping[str, Counter[str]]  # unit -> label -> number of samples


# The request


@dataclass(frozen=True)
class ForgetRequest:
    """What a person asks to forget: samples, and all samples of sources, subjects, shards or labels."""

    samples: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        for kind, names in self.named():
            if not isinstance(names, tuple):
                check_list(names, f"the {kind} of a request")
            if not all(map(_is_text, names)):
                check_text(names, f"the {kind} of a request")
        if not _is_text(self.reason):
            check_text((self.reason,), "the reason of a request")

    def selectors(self) -> list[tuple[str, str]]:
        """Every (kind, name) of the request, once each, sorted."""
        return sorted({(kind, name) for kind in NAMED for name in getattr(self, kind)})

    def named(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every kind with its names."""
        return [(kind, getattr(self, kind)) for kind in NAMED]

    def to_json(self) -> dict[str, Any]:
        """The request as a plain dict."""
        return asdict(self)


def _is_text(words: str) -> bool:
    """Whether the string can be encoded as UTF-8; half of a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in words)


# The plan


@dataclass(frozen=True)
class ForgetPlan:
    """What an erasure does: `rows` are erased; `groups`, which learned from them, are withdrawn and then rebuilt."""

    request: ForgetRequest
    rows: tuple[Row, ...]
    groups: tuple[str, ...]
    vanishing: tuple[str, ...]  # those of the groups with nothing left to learn, which are not rebuilt
    adapters: int  # that are rebuilt
    revisited: int  # samples that the rebuilding reads
    share: float  # of the samples that a full retraining reads
    classes: tuple[str, ...]  # classes that disappear
    sources: tuple[str, ...]  # sources that disappear
    gone: tuple[tuple[str, str], ...]  # names of the request that were forgotten before
    already: tuple[int, ...]  # the certificates of those names
    reads: tuple[str, ...]  # units that are read: those rewritten, and those of the groups rebuilt
    charges: "tuple[Charge, ...]" = ()  # of groups that used the rows privately and are kept
    spending: "Spending | None" = None  # what the charges cost; None without private edges

    def to_json(self) -> dict[str, Any]:
        """The plan's figures as a plain dict."""
        return {
            "samples": len(self.rows),
            "training_samples": sum(row.split == TRAIN for row in self.rows),
            "test_samples": sum(row.split != TRAIN for row in self.rows),
            "groups_to_rebuild": len(self.groups) - len(self.vanishing),
            "groups_that_vanish": len(self.vanishing),
            "adapters_to_rebuild": self.adapters,
            "samples_to_revisit": self.revisited,
            "share_of_full_retraining": self.share,
            "classes_that_disappear": list(self.classes),
            "sources_that_disappear": list(self.sources),
            "already_forgotten": list(self.already),
        } | ({} if self.spending is None else {"privacy": self.spending.to_json()})


def plan_forget(store: Store, config: Config, keys: Keys, request: ForgetRequest) -> ForgetPlan:
    """The plan of `request`; an error if it names something that the workspace never held."""
    rows, before = select_rows(store, keys, request)
    held = {unit: Counter(labels) for unit, labels in inventory.unit_labels(store.catalogue).items()}
    left = _left(held, rows)
    affected, charges, spending = _reached(store, config, held, left, rows)
    built = inventory.built_groups(store.catalogue)
    learned = [group for group in affected if group_learns(group, held) or group.name in built]
    rebuilt = [group for group in learned if group_learns(group, left)]
    revisited = {unit for group in rebuilt for unit in map(shard_unit, _read(group)) if unit in left}
    samples, whole = _training(left, revisited), _training(held, held)
    return ForgetPlan(
        request=request,
        rows=rows,
        groups=tuple(sorted(group.name for group in learned)),
        vanishing=tuple(group.name for group in learned if group not in rebuilt),
        adapters=sum(len(labels_in(group.members, left)) for group in rebuilt),
        revisited=samples,
        share=samples / whole if whole else 0.0,
        classes=tuple(sorted(_all_labels(held) - _all_labels(left))),
        sources=_exhausted(store, rows),
        gone=tuple(before),
        already=tuple(sorted(set(before.values()))),
        reads=tuple(sorted((revisited | {row.unit for row in rows}) & left.keys())),
        charges=charges,
        spending=spending,
    )


# The samples that a request names


def select_rows(store: Store, keys: Keys, request: ForgetRequest) -> tuple[tuple[Row, ...], dict[tuple[str, str], int]]:
    """The samples that a request means, and the certificates of those of its names that were forgotten before."""
    _check_names(request)
    found: dict[str, Row] = {}
    absent: list[tuple[str, str]] = []
    for kind, named in groupby(request.selectors(), key=itemgetter(0)):
        column: Column = KINDS.get(kind, "unit")
        values = {name if kind in KINDS else shard_unit(name): name for _, name in named}
        rows = inventory.find_by(store.catalogue, column, list(values), scan=kind in BY_NAME)
        found |= {row.id: row for row in rows}
        here = {getattr(row, column) for row in rows}
        absent += [(kind, name) for value, name in values.items() if value not in here]
    already = forgotten_before(store.catalogue, keys, absent)
    if unknown := [one for one in absent if one not in already]:
        names = [name for _, name in unknown]
        raise UnknownSample(f"never seen here: {unknown[0][0].removesuffix('s')} {some(names)}", names)
    return tuple(sorted(found.values(), key=lambda row: row.id.encode())), already


def named_rows(store: Store, request: ForgetRequest) -> list[Row]:
    """The samples that have one of the request's sources, subjects or labels, found without an index."""
    found = []
    for kind in BY_NAME:
        if names := getattr(request, kind):
            found += inventory.find_by(store.catalogue, KINDS[kind], names, scan=True)
    return found


def check_rows(catalogue: Catalogue, plan: ForgetPlan) -> None:
    """Raise unless everything in the catalogue that decided the plan is what was written there.

    A request for all samples of a source, a subject or a label depends on every row, since a changed row may be one
    that it means; other requests depend on the rows of the units that they name.
    """
    for table in DECISIVE:
        catalogue.check(table)
    every = any(kind in BY_NAME for kind, _ in plan.request.selectors())
    catalogue.check("samples", None if every else sorted({row.unit for row in plan.rows}))


def names_left(catalogue: Catalogue, keys: Keys, asked: Iterable[str], kinds: Iterable[str]) -> int:
    """How many names of these kinds still have samples although a request asked to forget them, by their marks."""
    marks = set(asked)
    return sum(keys.mark(kind, name) in marks for kind in kinds for name in inventory.all_names(catalogue, KINDS[kind]))


def select_within(
    catalogue: Catalogue, request: ForgetRequest, sources: Sequence[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """For every (kind, name) of a request, the ids of its samples in these sources; empty where there are none."""
    _check_names(request)
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for kind, names in request.named():
        column: Column = KINDS.get(kind, "unit")
        values = {name if kind in KINDS else shard_unit(name): name for name in names}
        ids: dict[str, list[str]] = {name: [] for name in names}
        for row in inventory.find_within(catalogue, column, list(values), sources):
            ids[values[getattr(row, column)]].append(row.id)
        found |= {(kind, name): tuple(mine) for name, mine in ids.items()}
    return found


def _check_names(request: ForgetRequest) -> None:
    if not request.selectors():
        raise InputError("a request must name at least one sample, source, subject, shard or label")
    if nameless := [kind for kind, name in request.selectors() if not name]:
        raise InputError(f"a request must not contain an empty name, got one among its {nameless[0]}")


def forgotten_before(catalogue: Catalogue, keys: Keys, named: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Those of the (kind, name) pairs that were forgotten before, with the number of the certificate."""
    marks = {keys.mark(kind, name): (kind, name) for kind, name in named}
    found = erasures.certificates_of(catalogue, list(marks))
    return {marks[mark]: found[mark] for mark in marks if mark in found}


def emptied_names(store: Store, rows: tuple[Row, ...]) -> list[tuple[str, str]]:
    """Every (kind, name) of a source, subject, label or shard that has no samples but these rows."""
    found = []
    for kind, column in EMPTIED:
        leaving = Counter(getattr(row, column) for row in rows)
        asked = sorted(value for value in leaving if value and (kind != "shards" or value.startswith("shard:")))
        here = inventory.count_by(store.catalogue, column, asked)
        last = [value for value in asked if here.get(value) == leaving[value]]
        found += [(kind, value.removeprefix("shard:") if kind == "shards" else value) for value in last]
    return found


# Exact copies


@dataclass(frozen=True)
class Copies:
    """Samples that hold exactly what leaving samples hold, and stay; `unknown`: in damaged files, not compared."""

    rows: tuple[Row, ...] = ()
    unknown: int = 0


def exact_copies(store: Store, keys: Keys, rows: tuple[Row, ...]) -> Copies:
    """The exact copies of these rows that stay, by the hashes of contents in the catalogue.

    Files are read only if they hold samples of an earlier version whose content was not hashed yet.
    """
    leaving, unknown = {row.id for row in rows}, 0
    contents = inventory.contents_of(store.catalogue, sorted(leaving))
    read: dict[str, str] = {}
    for unit in inventory.unhashed_units(store.catalogue) if rows else ():
        try:
            samples = store.read(unit)
            read |= zip(samples.ids, keys.contents(samples), strict=True)
        except DamagedFile:
            unknown += len(inventory.find_in_unit(store.catalogue, unit))
    wanted = {content for sample in leaving if (content := contents.get(sample) or read.get(sample))}
    found = inventory.find_by(store.catalogue, "content", sorted(wanted))
    found += inventory.find_by_id(store.catalogue, [sample for sample, content in read.items() if content in wanted])
    copies = {row.id: row for row in found if row.id not in leaving}
    return Copies(tuple(copies.values()), unknown)


# The groups that the removal of samples affects


def affected_groups(store: Store, config: Config, rows: tuple[Row, ...]) -> tuple[Group, ...]:
    """The groups that may not be served once the rows leave: they could have used them, or have no budget left."""
    held = {unit: Counter(labels) for unit, labels in inventory.unit_labels(store.catalogue).items()}
    return _reached(store, config, held, _left(held, rows), rows)[0]


def groups_by_request(
    store: Store, config: Config, leaving: Mapping[int, tuple[Row, ...]]
) -> dict[int, tuple[Group, ...]]:
    """`affected_groups` for the rows of every request, each as if it were the only one; the units are counted once."""
    held = {unit: Counter(labels) for unit, labels in inventory.unit_labels(store.catalogue).items()}
    graph = graph_over(held, config) if config.trained else None
    return {
        number: _reached(store, config, held, _left(held, rows), rows, graph)[0] for number, rows in leaving.items()
    }


def _reached(
    store: Store, config: Config, held: Held, left: Held, rows: tuple[Row, ...], graph: ShardGraph | None = None
) -> "tuple[tuple[Group, ...], tuple[Charge, ...], Spending | None]":
    """The groups that must be withdrawn when the rows leave, the charges of the others, and what those spend.

    Without adapters there are none: the rows are subtracted from the prototypes.
    """
    if config.trained and not config.the_recipe().has_adapters:
        return (), (), None
    if graph is None and config.trained:
        graph = graph_over(held, config)
    affected = _affected(graph, rows, left) if graph else ()
    charges, spending = _spent(store, config, rows, [group.name for group in affected])
    over = set(spending.over) if spending else set()
    affected += tuple(group for group in graph.groups() if group.name in over) if graph and over else ()
    return affected, charges, spending


def _affected(graph: ShardGraph, rows: tuple[Row, ...], left: Held) -> tuple[Group, ...]:
    """The groups that could have used the rows directly, and those that lose their last private neighbour or class."""
    shards = set(_leaving(rows))
    direct = graph.affected(shards)
    bare = (g for g in graph.charged(shards) if not group_learns(g, left) or not labels_in(g.private, left))
    return (*direct, *(group for group in bare if group not in direct))


def _spent(
    store: Store, config: Config, rows: tuple[Row, ...], dropped: list[str]
) -> "tuple[tuple[Charge, ...], Spending | None]":
    """The charges of the groups that used the rows privately and are kept, and what those spend."""
    terms = config.the_privacy()
    if terms is None:
        return (), None
    from shardgraph.forget.privacy.charges import load_charges, spend  # imported only if there are private edges

    served = inventory.built_groups(store.catalogue)
    return spend(load_charges(store.catalogue), terms, _leaving(rows), list(served), dropped)


# Counting samples


def _left(held: Held, rows: tuple[Row, ...]) -> Held:
    """What the units hold after the rows have left."""
    gone: dict[str, Counter[str]] = {}
    for row in rows:
        gone.setdefault(row.unit, Counter())[row.label] += 1
    left = {unit: labels - gone[unit] if unit in gone else labels for unit, labels in held.items()}
    return {unit: labels for unit, labels in left.items() if labels}


def _leaving(rows: tuple[Row, ...]) -> Counter[str]:
    """How many samples leave each shard."""
    return Counter(row.unit.removeprefix("shard:") for row in rows if row.unit.startswith("shard:"))


def _read(group: Group) -> tuple[str, ...]:
    """The shards that a build of the group reads."""
    return group.neighbourhood + group.private


def _all_labels(held: Held) -> set[str]:
    return {label for unit, labels in held.items() if not unit.startswith("test:") for label in labels}


def _training(held: Held, units: Iterable[str]) -> int:
    return sum(held[unit].total() for unit in units if unit.startswith("shard:"))


def _exhausted(store: Store, rows: tuple[Row, ...]) -> tuple[str, ...]:
    """The sources that lose their last training sample."""
    leaving = Counter(row.source for row in rows if row.split == TRAIN and row.source)
    here = inventory.count_training_by_source(store.catalogue, sorted(leaving))
    return tuple(name for name in sorted(leaving) if here.get(name) == leaving[name])
