"""`plan`, `forget` and `repair`."""

import sys
import time
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.failures import GOES_ON, NOT_ACCEPTED, interrupted
from shardgraph.cli.granting import preview
from shardgraph.cli.opening import opened
from shardgraph.cli.options import (
    ANYWHERE,
    FromFile,
    Json,
    Label,
    Machines,
    Sample,
    Shard,
    Source,
    Subject,
    Threshold,
    Where,
    WithTwins,
    request_of,
)
from shardgraph.cli.output import print_facts, print_json, print_table, say
from shardgraph.cli.twinning import twin_rows, twins_of

SHOWN = 20  # nonces on a terminal


def plan(
    workspace: Where,
    sample: Sample = None,
    source: Source = None,
    subject: Subject = None,
    shard: Shard = None,
    label: Label = None,
    from_file: FromFile = None,
    with_twins: WithTwins = False,
    threshold: Threshold = 0.98,
    no_twins: Annotated[
        bool, typer.Option("--no-twins", help="Do not look for twins, which reads every file of samples.")
    ] = False,
    grant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preview a grant of --source and --shard to this consumer instead."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Preview a forget: what would be rebuilt, what disappears. Changes nothing."""
    if grant is not None:
        if sample or subject or label or from_file or with_twins:
            raise typer.BadParameter("a grant is of sources and shards: --grant goes with --source and --shard alone")
        preview(workspace, grant, source or (), shard or (), as_json)
        return
    request = request_of(sample, source, subject, shard, label, from_file)
    with opened(workspace, resume=False) as ws:
        orders = ws.plan(ws.with_twins(request, threshold) if with_twins else request)
        figures = orders.to_json()
        if not no_twins:
            figures["twins"] = twins_of(ws, orders, threshold)
        figures["expected_cost"] = _expected(ws)
    print_json(figures) if as_json else print_facts("plan", plan_rows(figures))


def forget(
    workspace: Where,
    sample: Sample = None,
    source: Source = None,
    subject: Subject = None,
    shard: Shard = None,
    label: Label = None,
    from_file: FromFile = None,
    with_twins: WithTwins = False,
    threshold: Threshold = 0.98,
    instant: Annotated[
        bool, typer.Option("--instant", help="Withdraw what saw the data at once; leave rebuilding to `repair`.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Kept with the request; name nobody here.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    on: Machines = ANYWHERE,
    as_json: Json = False,
) -> None:
    """Forget samples and print the certificate's number; it says which guarantee holds."""
    accepted = False
    try:
        request = request_of(sample, source, subject, shard, label, from_file, reason)
        with opened(workspace, on) as ws:
            orders = ws.plan(ws.with_twins(request, threshold) if with_twins else request)
            if orders.rows and not yes:
                _confirm(orders)
            start = time.monotonic()
            try:
                certificate = ws.forget(orders, instant=instant)
            except KeyboardInterrupt:
                accepted = _accepted(ws, orders)
                raise
            accepted, seconds = True, time.monotonic() - start
            ids = [row.id for row in orders.rows] or list(request.samples)
            nonces = {name: nonce for name, nonce in ws.nonces(certificate.number, ids).items()
                      if shardgraph.opens(certificate, name, nonce)}  # fmt: skip
            path = ws.certificate_path(certificate.number)
    except (KeyboardInterrupt, typer.Abort):
        interrupted(GOES_ON if accepted else NOT_ACCEPTED)
    facts = {
        "certificate": certificate.number,
        "certificate_file": str(path),
        "already_forgotten": not orders.rows,
        "event": certificate.event,
        "guarantee": certificate.guarantee,
        "model_digest": certificate.model_digest or None,
        "plan": orders.to_json(),
        "seconds": round(seconds, 3),
        "nonces": nonces,
    }
    print_json(facts) if as_json else _report(facts)


def repair(
    workspace: Where,
    on: Machines = ANYWHERE,
    as_json: Json = False,
) -> None:
    """Rebuild what `forget --instant` withdrew."""
    with opened(workspace, on) as ws:
        certificate = ws.repair()
        status = ws.status()
    number = certificate.number if certificate else None
    facts = {"repaired": certificate is not None, "certificate": number, "model_digest": status["model_digest"]}
    if as_json:
        print_json(facts)
    elif certificate is None:
        say("nothing was missing")
    else:
        rows = [("certificate", number), ("guarantee", certificate.guarantee), ("model", status["model_digest"])]
        print_facts("repaired", rows)


def plan_rows(figures: dict[str, Any]) -> list[tuple[str, object]]:
    """A plan's figures in words."""
    rows: list[tuple[str, object]] = [
        ("samples", figures["samples"]),
        ("groups rebuilt", figures["groups_to_rebuild"]),
        ("adapters rebuilt", figures["adapters_to_rebuild"]),
        ("samples revisited", figures["samples_to_revisit"]),
        ("share of a full retraining", f"{figures['share_of_full_retraining']:.1%}"),
    ]
    for name in ("classes_that_disappear", "sources_that_disappear", "already_forgotten"):
        if figures[name]:
            words = "forgotten before, by certificate" if name == "already_forgotten" else name.replace("_", " ")
            rows.append((words, ", ".join(map(str, figures[name]))))
    if figures["groups_that_vanish"]:
        rows.append(("groups that vanish", figures["groups_that_vanish"]))
    rows += privacy_rows(figures["privacy"]) if "privacy" in figures else []
    rows += twin_rows(figures["twins"]) if "twins" in figures else []
    if expected := figures.get("expected_cost"):
        by = "the sources' rates" if expected["by_rates"] else "a sample at random"
        rows.append(("expected, by " + by, f"{expected['samples']:.0f} samples, {expected['share']:.1%}"))
    return rows


def privacy_rows(spending: dict[str, Any]) -> list[tuple[str, object]]:
    """What a forget spends of the budget of private edges, in words."""
    before, after, budget = spending["before"], spending["after"], spending["budget"]
    steps = " -> ".join(f"({each['alpha']:.4g}, {each['beta']:.3g})" for each in (before, after))
    words = f"{steps} of ({budget['alpha']:g}, {budget['beta']:g}), by {after['method']}"
    rows: list[tuple[str, object]] = [("groups charged", spending["groups_charged"]), ("(alpha, beta)", words)]
    if spending["groups_over_budget"]:
        rows.append(("rebuilt, being over the budget", spending["groups_over_budget"]))
    return rows


def _expected(ws: "shardgraph.Workspace") -> dict[str, Any] | None:
    """What a forget costs on average, by the rates of the sources where there are any."""
    if not ws.config.trained:
        return None
    found = ws.portrait()
    share = found.expected / found.samples if found.samples else 0.0
    return {"samples": found.expected, "share": share, "by_rates": found.by_rates}


def _confirm(orders: "shardgraph.ForgetPlan") -> None:
    """Ask, on a terminal; a script is taken at its word."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    share = f"{orders.share:.1%} of a full retraining"
    if not typer.confirm(f"Forget {len(orders.rows)} samples for good ({share})?", err=True):
        say("nothing was forgotten")
        raise typer.Exit(1)


def _accepted(ws: "shardgraph.Workspace", orders: "shardgraph.ForgetPlan") -> bool:
    """Whether the samples have left, or wait in a service's queue: either is kept in one transaction."""
    queued = {sample for (sample,) in ws.catalogue.all("SELECT id FROM withheld")}
    return ws.catalogue.known(row.id for row in orders.rows) <= queued


def _report(facts: dict[str, Any]) -> None:
    rows: list[tuple[str, object]] = [
        ("certificate", f"{facts['certificate']}, in {facts['certificate_file']}"),
        ("guarantee", facts["guarantee"]),
        ("model", facts["model_digest"] or "none yet"),
    ]
    if facts["already_forgotten"]:
        print_facts("forgotten already", rows)
    else:
        print_facts("forgotten", [*plan_rows(facts["plan"]), ("seconds", facts["seconds"]), *rows])
    nonces = list(facts["nonces"].items())
    if nonces and len(nonces) <= SHOWN:
        print_table("nonces: each opens a sample's entry in the certificate", ("sample", "nonce"), nonces)
    elif nonces:
        say(f"{len(nonces)} nonces: --json prints them all, `shardgraph certificate --nonce-for ID` prints one")
