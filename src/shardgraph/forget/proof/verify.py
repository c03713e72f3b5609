"""Verification: do the files on disk match what was certified, and do they equal a build from the retained data?

The plain check recomputes every digest. The full check also rebuilds every group and the prototypes, in scratch files
and from the retained samples alone, and compares the bytes; it can take as long as training. For groups with private
edges both check only the files: their training draws new noise each time, and each training would be one more release.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardgraph.errors import FingerprintError, ShardgraphError, VerificationError, WorkspaceBusy, WorkspaceError, some
from shardgraph.forget.build.build import check_manifest, sum_prototypes
from shardgraph.forget.build.wanted import (
    Manifest,
    group_path,
    load_classes,
    load_group,
    tasks_for,
    wanted_groups,
)
from shardgraph.forget.context import Context
from shardgraph.forget.proof.certificate import Certificate, certificate_path, check_certificate
from shardgraph.forget.rights.provision import check_provisioned, find_different
from shardgraph.forget.rights.rights import rights_by_consumer
from shardgraph.learn.executors import GroupTask
from shardgraph.learn.numerics import difference
from shardgraph.storage.files import destroy, scratch_file
from shardgraph.storage.samples import TEST
from shardgraph.storage.store import shard_unit, test_unit
from shardgraph.storage.tables import erasures, inventory, ledger

ATTEMPTS = 5  # to compare all groups while other processes write
PAUSE = 0.5  # seconds, while another process holds the lock
PROMISED = ("shards", "heldout", "models")  # folders whose bytes depend on the retained data alone


@dataclass(frozen=True)
class Check:
    """The result of one check; if `compared` is False, it could not be done here, and nothing was found wrong."""

    name: str
    ok: bool
    detail: str
    compared: bool = True


@dataclass(frozen=True)
class Verification:
    """The results of all checks."""

    checks: tuple[Check, ...]
    full: bool

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def wrong(self) -> bool:
        """Whether a check found something wrong; checks that could not be done do not count."""
        return any(check.compared and not check.ok for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The result as a plain dict."""
        checks = [{"name": c.name, "ok": c.ok, "detail": c.detail, "compared": c.compared} for c in self.checks]
        return {"ok": self.ok, "full": self.full, "checks": checks}


@dataclass(frozen=True)
class Rebuild:
    """The groups to rebuild in scratch files and the digests that they must have, read while the lock was held."""

    groups: dict[str, str]
    missing: int
    tasks: tuple[GroupTask, ...]
    private: int = 0  # groups with private edges, which are not rebuilt: that would be one more release


def find_problems(context: Context, units: Iterable[str], groups: Collection[str]) -> str:
    """What is wrong with what an erasure wrote: these units, these groups, prototypes and manifest; "" if nothing.

    The manifest is compared with the catalogue. Bytes that the erasure did not write are not read: if they are damaged,
    what reads them fails, and not the requests of this erasure.
    """
    looks = (("samples", lambda b: _catalogued(b, units)), ("model", lambda b: _model(b, groups)))
    wrong = [check for check in (_look(name, look, context) for name, look in looks) if not check.ok]
    return "; ".join(f"{check.name}: {check.detail}" for check in wrong)


def run_checks(context: Context, *, full: bool) -> Verification:
    """Run all checks except the rebuild of the groups; a failed check says what it found. Needs the lock."""
    looks: list[tuple[str, Callable[[Context], str]]] = [
        ("certificates", _all_certificates),
        ("samples", _samples),
        ("model", _model),
        ("files", _files),
        ("configuration", _configuration),
        ("keys", _keys),
        ("numerics", _numerics),
    ]
    if context.keeps_log:
        from shardgraph.forget.proof.log_standing import describe

        looks.append(("record", describe))
    if inventory.is_provisioning(context.catalogue):
        looks.append(("rights", _rights))
        looks += [("rights rebuilt", _rights_rebuilt)] if full else []
    if full:
        looks += [("placement", _placement), ("prototypes rebuilt", _prototypes)]
    return Verification(tuple(_look(name, look, context) for name, look in looks), full)


def compare_groups(context: Context, take: Callable[[], Rebuild]) -> Check:
    """Rebuild the groups in scratch files and compare their bytes, without the lock, so that erasures need not wait.

    A process that writes meanwhile removes the scratch files; then `take` is called again, and the comparison restarts.
    """

    def compare(context: Context) -> str:
        left = ATTEMPTS
        while True:
            try:
                return _compared(context, take())
            except VerificationError:
                raise
            except WorkspaceBusy:
                time.sleep(PAUSE)
            except WorkspaceError:  # a file was rewritten, or the scratch files were removed
                left -= 1
                if not left:
                    raise

    return _look("groups rebuilt", compare, context)


def _look(name: str, look: Callable[[Context], str], context: Context) -> Check:
    try:
        return Check(name, True, look(context))
    except FingerprintError as error:
        return Check(name, False, f"not compared: {error}", compared=False)
    except ShardgraphError as error:
        return Check(name, False, str(error))


def _certificates(context: Context) -> str:
    previous, count = "", 0
    for number in range(1, ledger.last_certificate(context.catalogue) + 1):
        certificate = Certificate.load(certificate_path(context.root, number))
        check_certificate(certificate, context.keys.public)
        if certificate.number != number or certificate.previous != previous:
            raise VerificationError(f"the chain of certificates is broken at number {number}")
        previous, count = certificate.digest, count + 1
    return f"{count} signed and chained"


def _all_certificates(context: Context) -> str:
    """The certificates of the ledger; an error if there are more of them. No erasure is under way here."""
    found, last = _certificates(context), ledger.last_certificate(context.catalogue)
    named = erasures.last_forgotten_certificate(context.catalogue)
    if certificate_path(context.root, last + 1).exists() or named > last:
        raise VerificationError(f"the ledger's last certificate is number {last}, but there are later ones")
    return found


def _keys(context: Context) -> str:
    """Check that public.key, which auditors get, is the public half of the signing key."""
    path = context.root / "public.key"
    if not path.exists() or path.read_bytes().strip() != context.keys.public.encode():
        raise VerificationError(f"{path} is not the public half of signing.key: give auditors {context.keys.public}")
    return f"public key {context.keys.public[:16]}"


def _numerics(context: Context) -> str:
    """Whether groups built here would have equal bytes; different numerics are not an error of the files."""
    built = Manifest.load(context.root).fingerprint
    if not built:
        return "no model yet"
    if built == context.numerics:
        return "those that the model was built with"
    return f"not those that the model was built with, its groups cannot be compared here: {_others(context)}"


def _others(context: Context) -> str:
    told = difference(context.numerics, Manifest.load(context.root).fingerprint)
    return f"{told}; `shardgraph train --rebuild` builds everything again"


def _files(context: Context) -> str:
    """Check that the folders of samples and adapters hold no file that the catalogue does not list."""
    store, root = context.store, context.root
    groups = set(inventory.built_groups(store.catalogue))
    if context.config.trained:
        groups |= set(wanted_groups(store, context.config, context.numerics))
    known = {store.path(unit) for unit in inventory.unit_digests(store.catalogue)} | {
        group_path(root, name) for name in groups
    }
    here = [path for folder in PROMISED for path in (root / folder).rglob("*") if not path.is_dir()]
    if strays := sorted(str(path.relative_to(root)) for path in here if path not in known):
        raise VerificationError(f"every file must be in the catalogue, {len(strays)} are not: {some(strays)}")
    return f"{len(here)} files, all of them in the catalogue"


def _samples(context: Context) -> str:
    if left := erasures.count_leaving(context.catalogue):
        raise VerificationError(f"an erasure of {left} samples is under way; any command finishes it")
    rows = context.catalogue.check_all()
    return f"{_catalogued(context, inventory.unit_digests(context.catalogue))}, {rows} rows as written"


def _catalogued(context: Context, units: Iterable[str]) -> str:
    store, count = context.store, 0
    here = inventory.unit_digests(store.catalogue)
    if odd := [unit for unit in units if unit not in here and store.path(unit).exists()]:
        raise VerificationError(f"the file of {odd[0]} is still there, but the catalogue does not list it")
    for unit in here.keys() & set(units):
        rows, held = (
            {(row.id, row.label) for row in inventory.find_by(store.catalogue, "unit", [unit])},
            store.read(unit),
        )
        if set(zip(held.ids, held.labels, strict=True)) != rows:
            raise VerificationError(f"{unit} holds other samples or labels than the catalogue lists")
        count += len(rows)
    return f"{count} samples, every file as catalogued"


def _model(context: Context, groups: Collection[str] | None = None) -> str:
    """Check the manifest against the catalogue and the files; with `groups`, of the adapters only their files."""
    root, manifest = context.root, check_manifest(context)
    if not manifest.model_digest:
        return "no model yet"
    for name, expected in manifest.groups.items():
        if groups is None or name in groups:
            load_group(root, name, expected)
    if manifest.classes != load_classes(root, manifest.prototypes):
        raise VerificationError(f"manifest.json names the classes {some(manifest.classes)}, the prototypes have others")
    return f"{len(manifest.groups)} groups, model {manifest.model_digest[:16]}"


def _configuration(context: Context) -> str:
    """Check that config.json is the one that the model was trained with."""
    trained_with = ledger.last_trained_config(context.catalogue)
    if trained_with and trained_with != context.keys.mark("config", context.config.basis):
        raise VerificationError("config.json is not the one that the model was trained with")
    return "the same as in training" if trained_with else "no training has fixed it yet"


def _rights(context: Context) -> str:
    return f"{check_provisioned(context.store)} provisioned groups as recorded"


def _rights_rebuilt(context: Context) -> str:
    if not context.same_numerics:
        raise FingerprintError(f"built with other numerics: {_others(context)}")
    count = 0
    for right in rights_by_consumer(context.catalogue).values():
        found, wrong = find_different(context, right)
        if wrong:
            raise VerificationError(f"{len(wrong)} provisioned groups differ from their rebuild: {wrong[:3]}")
        count += found
    return f"{count} provisioned groups, equal bytes"


def _placement(context: Context) -> str:
    config, moved = context.config, 0
    if not config.trained:
        return "not trained yet"
    topology = config.the_topology()
    if config.topology and config.topology.get("assignment") == "balanced":
        return "balanced: the assignment of samples to shards is part of the graph"
    rows = inventory.placed_rows(context.catalogue)
    for row in rows:
        if row.split == TEST:
            wanted = test_unit(row.id, config.seed)
        else:
            place = topology.place(row.id, row.source, row.label, seed=config.seed, classes=config.classes or ())
            wanted = shard_unit(place)
        moved += wanted != row.unit
    if moved:
        raise VerificationError(f"{moved} samples are in other shards than their ids determine")
    return f"{len(rows)} samples in the shards that their ids determine"


def _prototypes(context: Context) -> str:
    manifest = Manifest.load(context.root)
    if not manifest.model_digest:
        return "no model yet"
    if sum_prototypes(context).digest != manifest.prototypes:
        raise VerificationError("the prototypes are not the sums of the retained samples")
    return "equal bytes"


def rebuild_of(context: Context) -> Rebuild:
    """The tasks that rebuild all served groups, and the digests expected. Needs the lock, to read complete files."""
    manifest = Manifest.load(context.root)
    if not manifest.model_digest:
        return Rebuild({}, 0, ())
    if manifest.fingerprint != context.numerics:
        raise FingerprintError(f"built with other numerics: {_others(context)}")
    wanted = wanted_groups(context.store, context.config, context.numerics)
    if unwanted := set(manifest.groups) - set(wanted):
        raise VerificationError(f"{len(unwanted)} groups are served that the retained samples do not give")
    private = sum(bool(wanted[name].private) for name in manifest.groups)
    groups = [wanted[name] for name in sorted(manifest.groups) if not wanted[name].private]
    tasks = tasks_for(context.store, context.config, groups, lambda: str(scratch_file(context.root)))
    return Rebuild(manifest.groups, len(manifest.missing), tuple(tasks), private)


def _compared(context: Context, rebuild: Rebuild) -> str:
    tasks, wrong = rebuild.tasks, []
    outputs = {task.name: Path(task.output) for task in tasks}
    try:
        for done, result in enumerate(context.choose_executor(tasks).run(tasks) if tasks else (), start=1):
            destroy(outputs[result.name])  # it learned from samples that may be forgotten later
            wrong += [result.name] if result.digest != rebuild.groups[result.name] else []
            context.progress("verifying", done, len(tasks))
    finally:
        for path in outputs.values():
            destroy(path)
    if wrong:
        raise VerificationError(f"{len(wrong)} groups differ from their rebuild: {sorted(wrong)[:3]}")
    if not (tasks or rebuild.missing or rebuild.private):
        return "no group to rebuild"
    waiting = f", {rebuild.missing} withdrawn" if rebuild.missing else ""
    noisy = f"; {rebuild.private} with private edges, whose files alone were checked: their noise is not kept"
    return f"{len(tasks)} groups, equal bytes{waiting}{noisy if rebuild.private else ''}"
