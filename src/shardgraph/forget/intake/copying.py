"""New workspaces: an empty one, or one with the samples of another one, so that nothing is embedded twice.

A copy is made in a folder below its own, and moved up when it is complete, `config.json` last. So a process
that is killed leaves no workspace: `discard_incomplete` destroys what it left.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shardgraph.errors import DamagedFile, InputError, WorkspaceError
from shardgraph.forget.config import Config
from shardgraph.forget.context import Context
from shardgraph.forget.erase.recovery import writing
from shardgraph.forget.intake.embed import LOCATION, save_location
from shardgraph.forget.proof.keys import Keys
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import WriteLock, check_room, destroy_below, sync_folder
from shardgraph.storage.samples import Samples
from shardgraph.storage.tables import inventory, requests

if TYPE_CHECKING:
    from shardgraph.forget.workspace import Workspace

INCOMPLETE = ".shardgraph-copy"
_PARTS = {"inbox", "scratch", "lock", "secret.key", "signing.key", "public.key", "catalog.sqlite", LOCATION}
_DECISIVE = ("checks", "samples", "units", "withheld")  # tables that decide what is copied
OnLeftOut = Callable[[int], None]


def new_folder(root: Path) -> Path:
    """The folder of a new workspace; an error unless it is new or empty."""
    discard_incomplete(root)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise WorkspaceError(
            f"a new workspace needs a new or empty folder, {root} is a file or not empty; choose another one"
        )
    return root


def write_empty(root: Path, config: Config, location: str | None) -> None:
    """Write the files of an empty workspace, config.json last."""
    root.mkdir(parents=True, exist_ok=True)
    Keys.create(root)
    Catalogue(root / "catalog.sqlite").close()
    if location is not None:
        save_location(root, location)
    config.save(root)


def discard_incomplete(root: Path) -> None:
    """Destroy what an interrupted copy left in this folder; a folder with anything else stays as it is."""
    if (root / INCOMPLETE).is_dir() and {path.name for path in root.iterdir()} <= _PARTS | {INCOMPLETE}:
        with WriteLock(root / INCOMPLETE):  # an error if another process copies just now
            destroy_below(root)


def take_over(
    root: Path, source: "Workspace", make: Callable[[Path], "Workspace"], on_left_out: OnLeftOut | None = None
) -> None:
    """Make a workspace at `root` that holds the samples of `source`: completely, or not at all.

    Ids, labels, sources, subjects, splits and embeddings are copied, and nothing else. Samples whose request to be
    forgotten waits are left out, and `on_left_out` is called with their number. The lock of `source` is held, so that
    nothing is forgotten there meanwhile.
    """
    if source.root.resolve() in (root.resolve(), *root.resolve().parents):
        raise InputError(f"a new workspace must not be within the one that it is copied from, got {root}")
    new = not root.exists()
    building = root / INCOMPLETE
    building.mkdir(parents=True)
    try:
        with writing(source.context), make(building) as made, writing(made.context):
            check_room(root, 2 * _size(source.context) + (1 << 20))
            waiting = {row.id for row in requests.withheld_rows(source.context.catalogue)}
            for samples in _retained(source.context, waiting, made.context.progress):
                made.add(samples)
            detail = {"samples": inventory.count_samples(made.context.catalogue), "left_out": len(waiting)}
            made.context.record_event("copied", detail)
        _move_up(building, root)
    except BaseException:
        destroy_below(root)
        if new:
            root.rmdir()
        raise
    if on_left_out is not None:
        on_left_out(len(waiting))


def _retained(context: Context, waiting: set[str], progress: Callable[[str, int, int], None]) -> Iterator[Samples]:
    """The samples of a workspace without those in `waiting`, unit by unit; checked against digests and checksums."""
    for table in _DECISIVE:
        context.catalogue.check(table)
    units = inventory.occupied_units(context.catalogue)
    for done, unit in enumerate(units):
        progress("copying", done, len(units))
        samples = context.store.read(unit, settled=True)
        rows = {row.id: row for row in inventory.find_in_unit(context.catalogue, unit)}
        if {*zip(samples.ids, samples.labels, strict=True)} != {(row.id, row.label) for row in rows.values()}:
            raise DamagedFile(f"{context.store.path(unit)} does not hold what the catalogue lists: restore a backup")
        known = [rows[sample] for sample in samples.ids]
        named = replace(
            samples,
            sources=tuple(row.source for row in known),
            subjects=tuple(row.subject for row in known),
            splits=tuple(row.split for row in known),
        )
        kept = [i for i, sample in enumerate(samples.ids) if sample not in waiting]
        if kept:
            yield named.take(kept)
    progress("copying", len(units), len(units))


def _size(context: Context) -> int:
    return sum(context.store.path(unit).stat().st_size for unit in inventory.occupied_units(context.catalogue))


def _move_up(building: Path, root: Path) -> None:
    """Move everything to the workspace's folder, config.json last."""
    last = "config.json"
    for name in [*sorted(path.name for path in building.iterdir() if path.name != last), last]:
        if name == last:
            sync_folder(root)  # what was moved before is durable
        (building / name).rename(root / name)
    building.rmdir()
    sync_folder(root)
