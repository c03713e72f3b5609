"""Carrying out an erasure: accept it in one transaction, then finish it from wherever a crash left it.

    accept    move the samples' rows to the journal; remove the groups that saw them from the built ones  (one commit)
    withdraw  write prototypes without the samples and a manifest without those groups: nothing that saw the samples
              is served
    erase     rewrite the shard files; destroy the old bytes and the adapters
    rebuild   build and publish the missing groups                                  (left to `repair` if instant)
    close     write the certificate and the marks of what was forgotten, empty the journal, truncate the catalogue's log

Every step checks the current state and can be repeated, so recovery runs the same steps again.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from shardgraph.digest import canonical_json
from shardgraph.errors import DamagedFile, VerificationError, WorkspaceError
from shardgraph.forget.build.build import (
    SUBTRACTED,
    build,
    build_prototypes,
    check_manifest,
    confirm_prototypes,
    drop_unwanted,
    prototypes_key,
    publish,
    write_prototypes,
)
from shardgraph.forget.build.wanted import (
    Manifest,
    damaged_groups,
    destroy_group,
    group_path,
    is_damaged,
    load_prototypes,
    prototypes_path,
    wanted_groups,
)
from shardgraph.forget.context import CATALOGUE, Context
from shardgraph.forget.erase.plan import BY_NAME, DECISIVE, ForgetPlan, check_rows, emptied_names, names_left
from shardgraph.forget.proof.certificate import Certificate, draft_certificate, issue, load_intact
from shardgraph.forget.proof.keys import certificate_leaf
from shardgraph.forget.proof.verify import find_problems
from shardgraph.forget.queue import queue
from shardgraph.forget.rights.provision import FOLDER as PROVISIONED
from shardgraph.forget.rights.provision import destroy_strays, provisioned_groups
from shardgraph.learn.prototypes import Prototypes
from shardgraph.storage.catalogue import Transaction
from shardgraph.storage.checksums import request_part
from shardgraph.storage.files import check_room, destroy, file_size, in_background
from shardgraph.storage.samples import TRAIN, Samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import erasures, inventory, ledger, parties, requests
from shardgraph.storage.tables.erasures import Leaving

ROOM = 1 << 20  # bytes for what is small: a certificate, folders, blocks that are not full


def carry_out(context: Context, plan: ForgetPlan, instant: bool, numbers: Sequence[int] = ()) -> Certificate:
    """Accept a plan and finish the erasure. `numbers` are the requests of the queue that it carries out, if any."""
    gone = {row.id for row in plan.rows} | {name for _, name in emptied_names(context.store, plan.rows)}
    contents = inventory.contents_of(context.catalogue, [row.id for row in plan.rows]).values()
    gone |= {content for content in contents if content}
    return finish(context, accept(context, plan, instant, numbers), gone)


def check_inputs(context: Context, plan: ForgetPlan, *, instant: bool) -> None:
    """Raise before anything changes if the disk has no room, or a file that will be read is damaged."""
    check_disk(context, plan, instant=instant)
    if last := ledger.last_certificate(context.catalogue):
        load_intact(context.root, last)  # the next certificate holds its digest
    rewritten = {row.unit for row in plan.rows}
    for unit in plan.reads if not instant else rewritten & set(plan.reads):
        context.store.read(unit)  # which checks the digest
    destroyed = [unit for unit in rewritten if unit.startswith("shard:") and unit not in plan.reads]
    digests = inventory.unit_digests(context.catalogue)
    if any(is_damaged(context.store.path(unit), digests[unit]) for unit in destroyed):
        for unit in digests.keys() - set(destroyed):  # instead of a subtraction, the prototypes are summed again
            if unit.startswith("shard:"):
                context.store.read(unit)


def check_disk(context: Context, plan: ForgetPlan, *, instant: bool) -> None:
    """Raise `DiskFull` unless there is room for all that an erasure writes before it destroys what that replaces."""
    root, store = context.root, context.store
    rewritten = {row.unit for row in plan.rows}
    wanted = ROOM + 3 * file_size(root / CATALOGUE)  # what the journal adds, its log, and the copy that VACUUM makes
    wanted += file_size(prototypes_path(root)) + 2 * file_size(root / "manifest.json")
    wanted += max((file_size(store.path(unit)) for unit in rewritten), default=0)  # they are rewritten one by one
    if not instant:
        wanted += sum(file_size(group_path(root, name)) for name in plan.groups)
        if inventory.is_provisioning(context.catalogue):  # parts of units are copied to train on them
            kept = [one for one in provisioned_groups(context.catalogue) if rewritten.intersection(one.units)]
            wanted += sum(file_size(one.path(root)) for one in kept)
            wanted += sum(file_size(store.path(unit)) for unit in plan.reads)
    check_room(root, wanted)


def accept(context: Context, plan: ForgetPlan, instant: bool, numbers: Sequence[int] = ()) -> int:
    """Remove a plan's samples from the catalogue, in one transaction; returns the number of the erasure."""
    catalogue, units = context.catalogue, {row.unit for row in plan.rows}
    if inventory.find_by(catalogue, "id", [row.id for row in plan.rows]) != list(plan.rows):
        raise WorkspaceError("the plan is stale: the workspace changed since; plan again")
    check_rows(catalogue, plan)
    check_manifest(context)
    catalogue.check("requests", sorted(set(map(request_part, numbers))))
    number = erasures.last_erasure(catalogue) + 1
    provisioned = [
        (group.consumer, group.name) for group in parties.provisioned_groups(catalogue) if units & set(group.units)
    ]
    opening = _opening(context, plan) | _counted(len(provisioned))
    cost = {"revisited": plan.revisited, "of": inventory.count_in_shards(catalogue)}
    with catalogue.transaction() as transaction:
        erasures.accept_erasure(
            transaction,
            number,
            plan.rows,
            instant=instant,
            received=context.now().isoformat(),
            reason=plan.request.reason,
            opening=canonical_json(opening).decode(),
        )
        inventory.remove_groups(transaction, plan.groups)
        parties.remove_provisioned(transaction, provisioned)
        parties.drop_empty_sources(transaction, {row.source for row in plan.rows} | {*plan.request.sources})
        parties.drop_empty_rights(transaction, plan.rows)
        if numbers:
            queue.start(transaction, numbers, number)
        counted = {"request": number, "samples": len(plan.rows)} | cost | _counted(len(provisioned))
        ledger.add_event(transaction, "accepted", counted | _charge(context, transaction, plan), context.now())
        logged = not numbers and context.keeps_log  # the queue logs its requests when it takes them
        if logged:
            from shardgraph.forget.proof import erasure_log

            erasure_log.append(context, transaction, [row.id for row in plan.rows])
    if logged:
        erasure_log.confirm(context)
    context.record_identity()
    return number


def finish(
    context: Context, number: int, gone: Collection[str] | None = None, *, recovering: bool = False
) -> Certificate:
    """Do the remaining steps of an accepted erasure, and write its certificate when its content is true.

    `gone` are the names that leave the catalogue, if they are known; after a crash they are not. If training fails
    again while `recovering`, the erasure ends as an instant one, so that other requests need not wait: its samples are
    erased, and nothing that saw them is served. `repair` builds the missing groups, or reports why it cannot.
    """
    erasure = erasures.find_erasure(context.catalogue, number)
    assert erasure is not None
    before = json.loads(erasure.opening)
    if recovering:
        for table in ("leaving", "erasures", *DECISIVE):
            context.catalogue.check(table)
    leaving = erasures.leaving(context.catalogue, number)
    old: list[Path] = []
    lacking = "the numerics differ, `shardgraph train --rebuild` builds everything again"
    classes = withdraw(context, leaving, old) if context.config.trained else None
    rebuilt = {*before["groups"], *Manifest.load(context.root).missing}
    _enter(context, number, erasures.ERASING)
    erase(context.store, sorted({sample.unit for sample in leaving}), before["groups"])
    if classes is not None:
        confirm_prototypes(context.store, context.config)
    with in_background() as later:  # training does not wait for the disk
        for path in old:
            later(destroy, path)
        if context.config.trained and not erasure.instant and context.same_numerics:
            _enter(context, number, erasures.RETRAINING)
            lacking = _rebuild(context, classes, recovering)
        manifest = Manifest.load(context.root)
    _verify(context, number, {sample.unit for sample in leaving}, rebuilt)
    _check_gone(context, before, [sample.id for sample in leaving])
    certificate = _close(context, number, before, manifest, [sample.id for sample in leaving], lacking)
    context.catalogue.scrub(gone)
    if erasures.any_closed_request(context.catalogue):
        queue.settle(context.catalogue)
    return certificate


def repair(context: Context) -> Certificate | None:
    """Build what was withdrawn, is missing or damaged, and certify it; None if there was nothing to build."""
    withdrawn = _withdraw_damaged(context)
    if (
        not withdrawn
        and not erasures.any_erasure_in(context.catalogue, erasures.INSTANT)
        and not Manifest.load(context.root).missing
    ):
        return None
    manifest = build(context)
    number = ledger.last_certificate(context.catalogue) + 1
    draft = draft_certificate(context, number, "repair", manifest, entries=(), asked=(), inputs="", before="")
    certificate = issue(context.root, context.keys, draft)
    model = context.keys.mark(manifest.model_digest)
    with context.catalogue.transaction() as transaction:
        ledger.add_event(transaction, "repaired", {"certificate": number, "model": model}, context.now())
        erasures.complete_instant(transaction)
    context.catalogue.scrub()
    return certificate


def _withdraw_damaged(context: Context) -> bool:
    """Let files of the model that are damaged count as not built, and destroy them; whether there are any."""
    store, manifest = context.store, Manifest.load(context.root)
    groups = damaged_groups(store.root, manifest)
    sums = bool(manifest.model_digest) and is_damaged(prototypes_path(store.root), manifest.prototypes)
    kept = provisioned_groups(store.catalogue)
    own = [(one.consumer, one.name) for one in kept if is_damaged(one.path(store.root), one.digest)]
    with store.catalogue.transaction() as transaction:
        inventory.remove_groups(transaction, groups)
        parties.remove_provisioned(transaction, own)
        if sums:
            inventory.set_prototypes_key(transaction, "")
    for name in groups:
        destroy_group(store.root, name)
    if own:
        destroy_strays(store)
    return bool(groups or sums or own)


# Steps of `finish`: take out of service, and remove from the disk


def withdraw(context: Context, leaving: Sequence[Leaving], old: list[Path]) -> tuple[str, ...] | None:
    """Take everything that saw the samples out of service; returns the remaining classes, if subtraction sufficed.

    If the prototypes cannot be computed by subtraction, they are summed again, and this returns None. The path of the
    replaced prototypes, which are large, is added to `old`; the caller destroys them.
    """
    store, config = context.store, context.config
    rest = _prototypes_without(context, [sample for sample in leaving if sample.split == TRAIN])
    if rest is not None:
        write_prototypes(store, rest, SUBTRACTED, old)
    else:
        store.remove(sorted({sample.unit for sample in leaving}))
        build_prototypes(context)
    numerics = Manifest.load(store.root).fingerprint or context.numerics
    wanted = wanted_groups(store, config, numerics)
    classes = rest.classes if rest else None
    publish(context, wanted, numerics, classes)
    drop_unwanted(store, wanted)  # a group may have had another name when it saw the samples
    return classes


def erase(store: Store, units: Sequence[str], groups: Sequence[str]) -> None:
    """Rewrite these units without the erased samples, and destroy the adapters of these groups."""
    store.remove(units)
    store.drop_empty_inbox()
    if (store.root / PROVISIONED).is_dir():
        destroy_strays(store)
    built = inventory.built_groups(store.catalogue)
    for name in groups:
        if name not in built:
            destroy_group(store.root, name)


def _prototypes_without(context: Context, leaving: Sequence[Leaving]) -> Prototypes | None:
    """The prototypes minus the leaving samples; None if a crash left nothing to subtract from."""
    store = context.store
    row = inventory.built_prototypes(store.catalogue)
    if row is None or row.key != prototypes_key(store, context.config):
        return None
    try:
        whole = load_prototypes(store.root, row.digest)
    except DamagedFile:
        with store.catalogue.transaction() as transaction:
            inventory.set_prototypes_key(transaction, "")  # they are summed again
        return None
    try:
        return whole.without(_leaving_samples(store, leaving), reuse=True)
    except DamagedFile:
        return None


def _leaving_samples(store: Store, leaving: Sequence[Leaving]) -> Iterator[Samples]:
    """The leaving samples that the prototypes include, unit by unit."""
    for unit in sorted({sample.unit for sample in leaving if sample.unit.startswith("shard:")}):
        samples = store.read(unit, settled=True)  # the samples that are subtracted must be those that were added
        gone = {sample.id for sample in leaving if sample.unit == unit}
        yield samples.take([i for i, sample in enumerate(samples.ids) if sample in gone])


# Steps of `finish`: rebuild, verify, close


def _enter(context: Context, number: int, state: str) -> None:
    with context.catalogue.transaction() as transaction:
        erasures.set_erasure_state(transaction, number, state)
        if erasures.carries_requests(context.catalogue, number):
            queue.follow(transaction, number, state)


def _rebuild(context: Context, classes: tuple[str, ...] | None, recovering: bool) -> str:
    """Build what is missing; returns "", or while recovering the reason why it failed."""
    try:
        build(context, classes)
    except Exception as error:
        if not recovering:
            raise
        return f"{queue.failure_reason(error)}; then run `shardgraph repair`"
    return ""


def _verify(context: Context, number: int, units: set[str], groups: set[str]) -> None:
    """Verify what an erasure that carries requests of the queue wrote; if a check fails, its requests fail, no others.

    `units` are those that it rewrote, and `groups` those that it rebuilt.
    """
    if not erasures.carries_requests(context.catalogue, number):
        return
    problem = find_problems(context, units, groups)
    with context.catalogue.transaction() as transaction:
        if problem:
            erasures.set_erasure_state(transaction, number, erasures.UNVERIFIED)
            reason = "erased, but not verified: `shardgraph verify` says what is wrong"  # it must name nothing
            queue.fail(transaction, requests.requests_of_erasure(context.catalogue, number), reason)
        else:
            queue.follow(transaction, number, requests.VERIFIED)
    if problem:
        raise VerificationError(f"erasure {number} is carried out, but not verified: {problem}")


def _check_gone(context: Context, before: dict[str, Any], ids: list[str]) -> None:
    """Raise if the catalogue still lists one of the samples, or a name all of whose samples were to be forgotten."""
    left = len(inventory.known_ids(context.catalogue, ids))
    left += names_left(context.catalogue, context.keys, before["asked"], before.get("kinds", ()))
    if left:
        raise VerificationError(f"{left} names were to be forgotten and are still here; no certificate was written")


def _close(
    context: Context, number: int, before: dict[str, Any], manifest: Manifest, ids: list[str], lacking: str
) -> Certificate:
    """Write the certificate; then, in one transaction, finish the erasure and empty its journal."""
    whole, keys = not manifest.missing, context.keys
    issued = ledger.last_certificate(context.catalogue) + 1
    leaves = tuple(sorted(certificate_leaf(keys.nonce(issued, sample), sample) for sample in ids))
    facts = {"entries": leaves, "asked": tuple(before["asked"])} | {k: before[k] for k in ("inputs", "before")}
    facts |= _counted(before.get("provisioned", 0))
    certificate = issue(
        context.root, keys, draft_certificate(context, issued, "forget" if whole else "instant", manifest, **facts)
    )
    marks = {keys.mark("samples", sample) for sample in ids} | {*before["asked"], *before.get("emptied", ())}
    with context.catalogue.transaction() as transaction:
        state = erasures.DONE if whole else erasures.INSTANT
        finished = context.now().isoformat()
        erasures.finish_erasure(transaction, number, state, finished=finished, certificate=issued, marks=marks)
        if erasures.carries_requests(context.catalogue, number):
            lacks = "" if whole else lacking or "run `shardgraph repair`"
            queue.close(transaction, number, issued, lacking=lacks)
        ledger.drop_measurements(transaction)
        detail = {"request": number, "certificate": issued, "model": keys.mark(manifest.model_digest)}
        ledger.add_event(transaction, state, detail, context.now())
    return certificate


# The content of journal, certificate and ledger


def _opening(context: Context, plan: ForgetPlan) -> dict[str, Any]:
    """HMACs of the state before the erasure, for the certificate; computed while the data can still be read."""
    digests, mark = inventory.unit_digests(context.catalogue), context.keys.mark
    inputs = [part for unit in sorted({row.unit for row in plan.rows}) for part in (unit, digests[unit])]
    kinds = sorted({kind for kind, _ in plan.request.selectors() if kind in BY_NAME})
    return {
        "groups": list(plan.groups),
        "kinds": kinds,
        "asked": sorted(mark(kind, name) for kind, name in plan.request.selectors()),
        "emptied": sorted(mark(kind, name) for kind, name in emptied_names(context.store, plan.rows)),
        "inputs": mark("inputs", *inputs),
        "before": mark("model", Manifest.load(context.root).model_digest),
    }


def _charge(context: Context, transaction: Transaction, plan: ForgetPlan) -> dict[str, Any]:
    """Charge the groups that used the samples privately and are kept, in the transaction that accepts the erasure."""
    if context.config.privacy is None or plan.spending is None:
        return {}
    from shardgraph.forget.privacy.charges import charge_removal

    charge_removal(context.catalogue, transaction, plan.groups, plan.charges)
    return {"spending": plan.spending.to_json()}


def _counted(provisioned: int) -> dict[str, int]:
    """The number of provisioned groups that an erasure affected, as a key; no key if there are none."""
    return {"provisioned": provisioned} if provisioned else {}
