"""Carrying out a forget: accept it in one transaction, then finish it from wherever a crash left it.

    accept    the samples' rows move to the journal, the groups that saw them leave the built ones     (one commit)
    withdraw  prototypes without them, a manifest without those groups: nothing that saw them is served
    erase     shard files rewritten, old bytes and adapters destroyed
    rebuild   the missing groups are built and published                     (left to `repair` when instant)
    close     certificate, marks of what was forgotten, journal emptied, the catalogue's log truncated

Every step looks at what is there and can be repeated, so recovery is just running them.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from shardgraph.digest import canonical_json
from shardgraph.errors import DamagedFile, VerificationError, WorkspaceError
from shardgraph.forget.bench import Bench
from shardgraph.forget.build.build import PROTOTYPES, build_prototypes, confirm_prototypes, publish, wanted_groups
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.erase.plan import ForgetPlan, emptied
from shardgraph.forget.erase.withdraw import erase, withdraw
from shardgraph.forget.intake.sources import forget_terms
from shardgraph.forget.privacy.charges import Book
from shardgraph.forget.proof import erasure_log
from shardgraph.forget.proof.certificate import Certificate, issue
from shardgraph.forget.proof.guarantee import stated
from shardgraph.forget.proof.keys import entry
from shardgraph.forget.queue import queue
from shardgraph.forget.rights.provision import that_saw
from shardgraph.forget.rights.rights import forget_rights
from shardgraph.storage.files import beside, destroy

UNDER_WAY = "('accepted', 'erasing', 'retraining')"


def accept(bench: Bench, plan: ForgetPlan, instant: bool, entries: Sequence[int] = ()) -> int:
    """Take a plan's samples out of the desired state, in one transaction; returns the request's number.

    `entries` are those of the queue that this carries out, if it came through the queue.
    """
    store = bench.store
    if store.catalogue.rows("id", [row.id for row in plan.rows]) != list(plan.rows):
        raise WorkspaceError("the plan is stale: the workspace changed since; plan again")
    last = store.catalogue.one("SELECT max(number) FROM requests")
    number = (last[0] or 0) + 1 if last else 1
    provisioned = that_saw(store.catalogue, {row.unit for row in plan.rows})
    opening = canonical_json(_opening(bench, plan) | _counted(len(provisioned))).decode()
    received = (
        number,
        "accepted",
        int(instant),
        bench.now().isoformat(),
        len(plan.rows),
        plan.request.reason,
        opening,
    )
    ids, cost = [(row.id,) for row in plan.rows], _cost(bench, plan)
    with store.catalogue.transaction() as db:
        db.execute(
            "INSERT INTO requests (number, state, instant, received, samples, reason, opening) VALUES (?,?,?,?,?,?,?)",
            received,
        )
        leaving = [(row.id, number, row.unit, row.split) for row in plan.rows]
        db.executemany("INSERT INTO leaving VALUES (?, ?, ?, ?)", leaving)
        db.executemany("DELETE FROM samples WHERE id = ?", ids)
        forget_terms(db, {row.source for row in plan.rows} | {*plan.request.sources})
        db.executemany("UPDATE units SET dirty = 1 WHERE name = ?", sorted({(row.unit,) for row in plan.rows}))
        db.executemany("DELETE FROM built WHERE name = ?", [(f"group:{name}",) for name in plan.groups])
        db.executemany("DELETE FROM provisioned WHERE consumer = ? AND name = ?", provisioned)
        forget_rights(db, plan.rows)
        queue.start(db, entries, number)
        counted = {"request": number, "samples": len(plan.rows)} | cost | _counted(len(provisioned))
        bench.note(db, "accepted", counted | _charge(bench, db, plan))
        if not entries:  # the queue has recorded its own
            erasure_log.note(store.root, bench.secrets, db, [row.id for row in plan.rows])
    return number


def _charge(bench: Bench, db: sqlite3.Connection, plan: ForgetPlan) -> dict:
    """Charge the groups that used the samples privately and stay, in the transaction that accepts the request."""
    if bench.config.privacy is None or plan.spending is None:
        return {}
    charged = Book.load(bench.store.catalogue).settled(plan.groups).charged(plan.charges)
    shards = {unit.removeprefix("shard:") for (unit,) in db.execute("SELECT DISTINCT unit FROM samples")}
    charged.present(shards).save(db)
    return {"spending": plan.spending.to_json()}


def carry_out(bench: Bench, plan: ForgetPlan, instant: bool, entries: Sequence[int] = ()) -> Certificate:
    """Accept a plan, and finish it."""
    gone = {row.id for row in plan.rows} | {name for _, name in emptied(bench.store, plan.rows)}
    return finish(bench, accept(bench, plan, instant, entries), gone)


def finish(bench: Bench, number: int, gone: Collection[str] | None = None, *, recovering: bool = False) -> Certificate:
    """Do what is left of an accepted request; the certificate is written when it is true.

    `gone` are the names that leave the catalogue, if they are known: after a crash they are not. Should training fail
    once more while `recovering`, the request ends as an instant one, for others wait: what it was about is erased, and
    nothing that saw it is served. `repair` builds the rest, or says what is in its way.
    """
    instant, opening = _request(bench, number)
    before = json.loads(opening)
    leaving = bench.store.catalogue.all("SELECT id, unit, split FROM leaving WHERE request = ?", number)
    old: list[Path] = []
    lacking = "the numerics are others, `shardgraph train --rebuild` builds all anew"
    classes = withdraw(bench, leaving, old) if bench.config.trained else None
    _enter(bench, number, "erasing")
    erase(bench, sorted({unit for _, unit, _ in leaving}), before["groups"])
    if classes is not None:
        confirm_prototypes(bench.store, bench.config)
    with beside() as later:  # training waits for no disk
        for path in old:
            later(destroy, path)
        if bench.config.trained and not instant and bench.same_numerics:
            _enter(bench, number, "retraining")
            lacking = _rebuild(bench, classes, recovering)
        manifest = Manifest.load(bench.store.root)
    _check(bench, number, {unit for _, unit, _ in leaving})
    certificate = _close(bench, number, before, manifest, [sample for sample, _, _ in leaving], lacking)
    bench.store.catalogue.scrub(gone)
    queue.settle(bench.store.catalogue)
    return certificate


def _rebuild(bench: Bench, classes: tuple[str, ...] | None, recovering: bool) -> str:
    """Build what is missing; while recovering, why that could not be."""
    try:
        bench.build(classes)
    except Exception as error:
        if not recovering:
            raise
        return f"{queue.reason(error)}; then `shardgraph repair`"
    return ""


def repair(bench: Bench) -> Certificate | None:
    """Build the groups that were withdrawn; a certificate says so, unless nothing was missing."""
    waiting = bench.store.catalogue.one("SELECT 1 FROM requests WHERE state = 'instant'")
    if not waiting and not Manifest.load(bench.store.root).missing:
        return None
    manifest = bench.build()
    number = last_certificate(bench) + 1
    draft = _draft(bench, number, "repair", manifest, entries=(), asked=(), inputs="", before="")
    certificate = issue(bench.store.root, bench.secrets, draft)
    with bench.store.catalogue.transaction() as db:
        bench.note(db, "repaired", {"certificate": number, "model": bench.secrets.mark(manifest.model_digest)})
        db.execute("UPDATE requests SET state = 'done' WHERE state = 'instant'")
    bench.store.catalogue.scrub()
    return certificate


def mend(bench: Bench) -> None:
    """Publish what is there, if an interrupted training left a manifest that names something else."""
    with suppress(DamagedFile):  # which `train --rebuild` mends
        if not torn(bench):
            return
        build_prototypes(bench.store, bench.config, bench.progress, bench.numerics)
        numerics = Manifest.load(bench.store.root).fingerprint or bench.numerics
        if torn(bench):
            wanted = wanted_groups(bench.store, bench.config, numerics)
            publish(bench.store, bench.config, wanted, numerics, bench.announce)


def torn(bench: Bench) -> bool:
    """Whether the manifest names other prototypes than those that are there, or these are half written."""
    row = bench.store.catalogue.one("SELECT key, digest FROM built WHERE name = ?", PROTOTYPES)
    with suppress(DamagedFile):
        named = Manifest.load(bench.store.root).prototypes
        return bool(named and row and (not row[0] or row[1] != named))
    return False


def under_way(bench: Bench) -> list[int]:
    """Requests that were accepted and not finished: a process was interrupted."""
    sql = f"SELECT number FROM requests WHERE state IN {UNDER_WAY} ORDER BY number"
    return [number for (number,) in bench.store.catalogue.all(sql)]


def _opening(bench: Bench, plan: ForgetPlan) -> dict:
    """What the certificate will say of the state before, said in HMACs now while it can be read."""
    digests = bench.store.catalogue.unit_digests()
    inputs = [part for unit in sorted({row.unit for row in plan.rows}) for part in (unit, digests[unit])]
    return {
        "groups": list(plan.groups),
        "asked": sorted(bench.secrets.mark(kind, name) for kind, name in plan.request.selectors()),
        "emptied": sorted(bench.secrets.mark(kind, name) for kind, name in emptied(bench.store, plan.rows)),
        "inputs": bench.secrets.mark("inputs", *inputs),
        "before": bench.secrets.mark("model", Manifest.load(bench.store.root).model_digest),
    }


def _close(bench: Bench, number: int, before: dict, manifest: Manifest, ids: list[str], lacking: str) -> Certificate:
    """Certificate first, then, in one transaction, the end of the request and of its journal."""
    whole = not manifest.missing
    certificate_number = last_certificate(bench) + 1
    entries = tuple(sorted(entry(bench.secrets.nonce(certificate_number, sample), sample) for sample in ids))
    facts = {"entries": entries, "asked": tuple(before["asked"])} | {k: before[k] for k in ("inputs", "before")}
    facts |= _counted(before.get("provisioned", 0))
    draft = _draft(bench, certificate_number, "forget" if whole else "instant", manifest, **facts)
    certificate = issue(bench.store.root, bench.secrets, draft)
    marks = {bench.secrets.mark("samples", sample) for sample in ids} | {*before["asked"], *before.get("emptied", ())}
    with bench.store.catalogue.transaction() as db:
        state = "done" if whole else "instant"
        db.executemany(
            "INSERT OR REPLACE INTO forgotten VALUES (?, ?)", [(m, certificate_number) for m in sorted(marks)]
        )
        db.execute("DELETE FROM leaving WHERE request = ?", (number,))
        db.execute(
            "UPDATE requests SET state = ?, finished = ?, opening = '{}' WHERE number = ?",
            (state, bench.now().isoformat(), number),
        )
        queue.close(db, number, certificate_number, lacking="" if whole else lacking or "`shardgraph repair` does it")
        model = bench.secrets.mark(manifest.model_digest)
        bench.note(db, state, {"request": number, "certificate": certificate_number, "model": model})
        bench.store.catalogue.soil(db)
    return certificate


def _draft(bench: Bench, number: int, event: str, manifest: Manifest, **facts: object) -> dict:
    return {
        "number": number,
        "time": bench.now().isoformat(),
        "event": event,
        **stated(bench.store, bench.config, manifest, bench.numerics),
        "model_digest": manifest.model_digest,
        "missing": len(manifest.missing),
        "config": bench.config.digest,
        "graph": bench.graph().digest if bench.config.trained else "",
        "fingerprint": manifest.fingerprint or bench.numerics,
        **facts,
    }


def last_certificate(bench: Bench) -> int:
    """The number of the last certificate that the ledger knows; 0 before the first."""
    last = bench.store.catalogue.one("SELECT max(json_extract(detail, '$.certificate')) FROM ledger")
    return (last[0] or 0) if last else 0


def _counted(provisioned: int) -> dict[str, int]:
    """How many provisioned groups a forget reached, where it reached any."""
    return {"provisioned": provisioned} if provisioned else {}


def _request(bench: Bench, number: int) -> tuple[bool, str]:
    found = bench.store.catalogue.one("SELECT instant, opening FROM requests WHERE number = ?", number)
    assert found is not None
    return bool(found[0]), found[1]


def _enter(bench: Bench, number: int, state: str) -> None:
    with bench.store.catalogue.transaction() as db:
        db.execute("UPDATE requests SET state = ? WHERE number = ?", (state, number))
        queue.follow(db, number, state)


def _check(bench: Bench, number: int, units: set[str]) -> None:
    """Verify what came through the queue; if something is wrong its entries fail, and nothing else waits for them."""
    catalogue = bench.store.catalogue
    if not catalogue.one("SELECT 1 FROM queue WHERE request = ?", number):
        return
    problem = bench.check(bench, units)
    with catalogue.transaction() as db:
        if problem:
            db.execute("UPDATE requests SET state = 'unverified' WHERE number = ?", (number,))
            entries = db.execute("SELECT number FROM queue WHERE request = ?", (number,)).fetchall()
            told = "erased, but not verified: `shardgraph verify` says what is wrong"  # and names what is
            queue.fail(db, [entry for (entry,) in entries], told)
        else:
            queue.follow(db, number, queue.VERIFIED)
    if problem:
        raise VerificationError(f"request {number} is erased, but not verified: {problem}")


def _cost(bench: Bench, plan: ForgetPlan) -> dict[str, int]:
    """What a forget reads again, beside what a full retraining would."""
    return {"revisited": plan.revisited, "of": bench.store.catalogue.count("unit LIKE 'shard:%'")}
