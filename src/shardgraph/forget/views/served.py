"""The model that may be served now: the manifest's model without anything that saw a withheld sample.

A group is served if the manifest names it, the catalogue records that it was built from the retained data, and no
withheld sample is in its neighbourhood. The withheld samples are subtracted from the prototypes, which is exact because
the sums are integers. The model depends only on what is on disk: a restarted process serves the same model.

If a file is damaged, a model that needs it is an error. A service leaves out what is damaged instead (`Spared`), so
that everything else is served and forget requests are accepted: a damaged group is not served, and if withheld samples
cannot be subtracted, the prototypes are summed from all other files.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from shardgraph.errors import DamagedFile, InputError, WorkspaceBusy, WorkspaceError
from shardgraph.forget.build.build import SUBTRACTED, prototypes_key
from shardgraph.forget.build.wanted import (
    Manifest,
    built_as_wanted,
    damaged_groups,
    group_path,
    is_damaged,
    load_group,
    load_prototypes,
    prototypes_path,
    wanted_groups,
)
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.erase.plan import affected_groups
from shardgraph.learn.ensemble import Model, chunks
from shardgraph.learn.executors import best_device
from shardgraph.learn.inca import Adapters
from shardgraph.learn.prototypes import Prototypes, total
from shardgraph.storage.files import Stamp, file_stamp
from shardgraph.storage.samples import TRAIN, Samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import erasures, inventory, ledger, requests
from shardgraph.storage.tables.inventory import Row

ATTEMPTS, PAUSE = 400, 0.05  # attempts to load a model while another process withdraws samples; seconds between them
TORN = 40  # attempts after which a file that looks damaged is damaged: no process is replacing it
Key = tuple[str, tuple[int, ...]]
"""The digest of the manifest's model, and the requests that withhold samples."""


class Spared:
    """The damaged files that a model is assembled without, with their stamps; unless allowed, each is an error."""

    def __init__(self, allowed: bool = False) -> None:
        self.allowed = allowed
        self.files: dict[Path, Stamp | None] = {}

    @contextmanager
    def file(self, path: Path) -> Iterator[None]:
        """A block that reads this file; if it is damaged, the block ends."""
        stamp = file_stamp(path)
        try:
            yield
        except DamagedFile:
            if not self.allowed:
                raise
            self.files[path] = stamp


class LoadedParts:
    """The served parts in memory, by name and digest; parts that are no longer served are dropped with the next model.

    The manifest's sums are kept beside the served ones: after a request is cancelled they are served again.
    """

    def __init__(self) -> None:
        self._groups: dict[str, tuple[str, Adapters]] = {}
        self._sums: dict[str, Prototypes] = {}
        self._similarity: tuple[str, Callable[[Samples], Tensor]] | None = None

    def adapters(self, root: Path, groups: Mapping[str, str], spared: Spared) -> dict[str, Adapters]:
        """The adapters of these groups, read from disk if they are not in memory."""
        held = {name: held for name, held in self._groups.items() if groups.get(name) == held[0]}
        for name in groups.keys() - held.keys():
            with spared.file(group_path(root, name)):
                held[name] = groups[name], load_group(root, name, groups[name])
        self._groups = {name: held[name] for name in groups if name in held}
        return {name: adapters for name, (_, adapters) in self._groups.items()}

    def prototypes(self, root: Path, expected: str) -> Prototypes:
        """The manifest's prototypes."""
        return self._sums.get(expected) or load_prototypes(root, expected)

    def assemble(
        self, adapters: dict[str, Adapters], whole: Prototypes, rest: Prototypes, of: Config, device: str
    ) -> Model:
        """The model of the adapters and `rest`, which is `whole` without the withheld samples; both are kept."""
        same = self._similarity is not None and self._similarity[0] == rest.digest
        similarity = self._similarity[1] if self._similarity and same else None
        model = Model.assemble(adapters, rest, of.the_recipe(), of.seed, device, similarity)
        self._sums = {whole.digest: whole, rest.digest: rest}
        self._similarity = rest.digest, model.similarity
        return model

    @property
    def groups(self) -> int:
        """The number of groups in memory."""
        return len(self._groups)

    def clear(self) -> None:
        """Drop all parts."""
        self._groups, self._sums, self._similarity = {}, {}, None


class ServedModel:
    """The model that may be served now, in memory; loaded again when the manifest or the withheld samples change."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._model: Model | None = None
        self._key: Key | None = None
        self._parts = LoadedParts()
        self.spared: Mapping[Path, Stamp | None] = {}  # the damaged files that the model is served without
        context.add_cache(self.drop, on_write=True)

    def model(self, *, spare_damaged: bool = False) -> Model:
        """The model; this waits while another process withdraws samples. With `spare_damaged` without what is damaged.

        A file that looks damaged may be one that is just being replaced, so it is read again for a while.
        """
        context = self._context
        whole = spare_damaged or not self.spared
        if self._model is not None and whole and not self.mended and self._key == served_key(context.store):
            return self._model
        for left in reversed(range(ATTEMPTS)):
            spared = Spared(spare_damaged and (bool(self.spared) or left < ATTEMPTS - TORN))
            try:
                config = Config.load(context.root)
                self._key, self._model = assemble_served(context.store, config, self._parts, best_device(), spared)
                self.spared = spared.files
                break
            except (DamagedFile, WorkspaceBusy) as error:
                if not left or (isinstance(error, DamagedFile) and left < ATTEMPTS - TORN):
                    raise
                time.sleep(PAUSE)
        assert self._model is not None
        return self._model

    def current_key(self) -> Key:
        """The key of the model that may be served now; a different key means a different model."""
        return served_key(self._context.store)

    @property
    def mended(self) -> bool:
        """Whether a damaged file that the model is served without has changed since."""
        return any(file_stamp(path) != stamp for path, stamp in self.spared.items())

    def find_damaged(self) -> dict[Path, Stamp | None]:
        """The files of the manifest's model that are damaged, with their stamps; this reads all of them.

        A file may be replaced while it is read: what looks damaged is read again.
        """
        root, found = self._context.root, set[Path]()
        for _ in range(2):
            manifest = Manifest.load(root)
            damaged = {group_path(root, name) for name in damaged_groups(root, manifest)}
            if manifest.model_digest and is_damaged(prototypes_path(root), manifest.prototypes):
                damaged.add(prototypes_path(root))
            if not damaged:
                return {}
            found = damaged & found if found else damaged
            time.sleep(PAUSE)
        return {path: file_stamp(path) for path in found}

    @property
    def key(self) -> Key | None:
        """The key of the model in memory; None if there is none."""
        return self._key

    @property
    def groups(self) -> int:
        """The number of groups of the model in memory."""
        return self._parts.groups

    def record_state(self, model: Model, withheld: Sequence[int]) -> str:
        """Record that a model is about to be served; returns the id of this state, which its predictions carry."""
        context = self._context
        with context.catalogue.transaction() as transaction:
            number = ledger.last_event_number(context.catalogue) + 1
            state = context.keys.mark("state", str(number), model.digest)[:32]
            facts = {"state": state, "adapters": len(model.average), "withheld": list(withheld)}
            ledger.add_event(transaction, "serving", facts | {"serves": context.keys.mark(model.digest)}, context.now())
        return state

    def drop(self) -> None:
        """Drop the model in memory: it may have seen the samples that are about to be erased."""
        self._model, self._key, self.spared = None, None, {}
        self._parts.clear()


def served_key(store: Store) -> Key:
    """The key of the served model, cheap to compute: the manifest's model, and the requests that withhold samples."""
    return Manifest.load(store.root).model_digest, _withholding(store)


def evaluate_model(
    context: Context, model: Model, check: Callable[[], None] = lambda: None, sources: Collection[str] | None = None
) -> dict[str, Any]:
    """The accuracy of a model on the held-out samples that are not withheld; `check` is called often, and may raise.

    With `sources`, only their samples count. `unknown` counts the samples of classes that the model does not have: it
    cannot predict them.
    """
    withheld = requests.withheld_ids(context.catalogue)
    units = [unit for unit in inventory.occupied_units(context.catalogue) if unit.startswith("test:")]

    def parts() -> Iterator[Samples]:
        for unit in units:  # one file in memory at a time
            samples = context.store.read(unit)
            chosen = set(samples.ids) - withheld
            if sources is not None:
                chosen &= {row.id for row in inventory.find_in_unit(context.catalogue, unit) if row.source in sources}
            for chunk in chunks(samples.take([i for i, sample in enumerate(samples.ids) if sample in chosen])):
                check()
                yield chunk

    return measure_accuracy(model, parts(), "" if sources is None else " in these sources")


def measure_accuracy(model: Model, parts: Iterable[Samples], where: str = "") -> dict[str, Any]:
    """The figures of `Workspace.evaluate`; one part is in memory at a time; an error if there is none."""
    counts, right = Counter[str](), Counter[str]()
    for samples in parts:
        counts.update(samples.labels)
        right.update(a for a, b in zip(model.predict(samples), samples.labels, strict=True) if a == b)
        del samples
    if not counts:
        raise InputError(f"there is no sample whose split is test{where}; add some, then train")
    classes = [
        {"label": label, "accuracy": right[label] / count, "samples": count, "correct": right[label]}
        for label, count in sorted(counts.items())
    ]
    return {
        "accuracy": right.total() / counts.total(),
        "samples": counts.total(),
        "correct": right.total(),
        "unknown": sum(count for label, count in counts.items() if label not in model.classes),
        "macro_accuracy": sum(right[label] / count for label, count in counts.items()) / len(counts),
        "classes": classes,
    }


def assemble_served(
    store: Store, config: Config, parts: LoadedParts, device: str, spared: Spared | None = None
) -> tuple[Key, Model]:
    """The model that may be served, in memory, and its key; raises `WorkspaceBusy` while samples are being removed.

    The model is valid for a moment between call and return; later changes show in a different key.
    """
    manifest = Manifest.load(store.root)
    if not manifest.model_digest:
        raise WorkspaceError(f"{store.root} has no model yet; run: shardgraph train {store.root}")
    with store.catalogue.reading():
        rows, withholding = withheld_rows(store), _withholding(store)
        groups = _clean_groups(store, config, manifest, rows)
        _check_settled(store, config, manifest, rows)
    spared = spared or Spared()
    whole, rest = _sums(store, config, parts, manifest, rows, device, spared)
    model = parts.assemble(parts.adapters(store.root, groups, spared), whole, rest, config, device)
    complete = not rows and not spared.files and groups == manifest.groups
    if complete and model.digest != manifest.model_digest:
        raise DamagedFile(
            f"manifest.json of {store.root} is torn or was changed; `shardgraph train --rebuild` writes it again"
        )
    return (manifest.model_digest, withholding), model


def _withholding(store: Store) -> tuple[int, ...]:
    """The requests that withhold samples."""
    return requests.withholding_requests(store.catalogue)


def withheld_rows(store: Store) -> tuple[Row, ...]:
    """The rows of the withheld samples."""
    return tuple(requests.withheld_rows(store.catalogue))


def _clean_groups(store: Store, config: Config, manifest: Manifest, rows: tuple[Row, ...]) -> dict[str, str]:
    built = built_as_wanted(store, wanted_groups(store, config, manifest.fingerprint))
    saw = {group.name for group in affected_groups(store, config, rows)} if rows else set()
    clean = {name: value for name, value in manifest.groups.items() if name in built and name not in saw}
    if any(built[name].digest != value for name, value in clean.items()):
        raise DamagedFile("manifest.json is torn or was changed; `shardgraph train --rebuild` writes it again")
    return clean


def _check_settled(store: Store, config: Config, manifest: Manifest, rows: tuple[Row, ...]) -> None:
    """Raise `WorkspaceBusy` unless the prototypes are those of the samples that the catalogue lists."""
    found = inventory.built_prototypes(store.catalogue)
    leaving = erasures.any_erasure_in(store.catalogue, erasures.ACCEPTED)
    current = found is not None and found.digest == manifest.prototypes
    if rows and current and found is not None:
        current = found.key in (SUBTRACTED, prototypes_key(store, config))
    if leaving or not current:
        raise WorkspaceBusy(f"samples of {store.root} are being moved or withdrawn just now; try again")


def _sums(
    store: Store,
    config: Config,
    parts: LoadedParts,
    manifest: Manifest,
    rows: Sequence[Row],
    device: str,
    spared: Spared,
) -> tuple[Prototypes, Prototypes]:
    """The manifest's prototypes, and these without the withheld samples.

    If a file that this needs is damaged and may be spared, both are the sums of all other files, withheld samples
    excluded.
    """
    try:
        whole = parts.prototypes(store.root, manifest.prototypes)
        return whole, whole.without(_withheld_samples(store, rows))
    except DamagedFile:
        if not spared.allowed:
            raise
    with spared.file(prototypes_path(store.root)):
        load_prototypes(store.root, manifest.prototypes)
    recipe = config.the_recipe()
    samples = _other_samples(store, rows, spared)
    rest = total(samples, second_order=recipe.second_order, expansion=recipe.expansion, device=device)
    return rest, rest


def _other_samples(store: Store, rows: Sequence[Row], spared: Spared) -> Iterator[Samples]:
    """All samples of shards that are not withheld, unit by unit, without damaged files."""
    gone = {row.id for row in rows}
    for unit in sorted(unit for unit in inventory.unit_digests(store.catalogue) if unit.startswith("shard:")):
        samples = None
        with spared.file(store.path(unit)):
            samples = store.read(unit)
        if samples is not None:
            yield samples.take([i for i, sample in enumerate(samples.ids) if sample not in gone])


def _withheld_samples(store: Store, rows: Sequence[Row]) -> Iterator[Samples]:
    """The samples of these rows that the prototypes include, unit by unit."""
    counted = [row for row in rows if row.split == TRAIN and row.unit.startswith("shard:")]
    for unit in sorted({row.unit for row in counted}):
        gone = {row.id for row in counted if row.unit == unit}
        samples = store.read(unit)
        found = samples.take([i for i, sample in enumerate(samples.ids) if sample in gone])
        if len(found) != len(gone):  # erased after the rows were read: the sums will change, too
            raise WorkspaceBusy(f"samples of {store.root} are being erased just now; try again")
        yield found
