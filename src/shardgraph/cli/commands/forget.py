"""`plan`, `forget` and `repair`."""

import sys
import time
from contextlib import suppress
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.command import (
    CONTINUES,
    FAILED,
    NOT_REBUILT,
    check_threshold,
    exit_interrupted,
    open_workspace,
    print_facts,
    print_json,
    print_note,
    print_table,
)
from shardgraph.cli.commands.share import preview_grant
from shardgraph.cli.commands.twins import remaining_twins, twin_rows
from shardgraph.cli.options.shared import DEFAULT_MACHINES, NO_SELECTION, Json, Machines, Selection, WorkspacePath
from shardgraph.errors import ShardgraphError

SHOWN = 20  # nonces that are printed
STAYS = (
    "the names of these sources stay in config.json, because the graph declares them there (`train --safe`, "
    "or a graph of your own): {}; to be rid of them, add what is left to a new workspace and train it without them "
    "(docs/guarantees.md, The names of declared sources)"
)
SMALL = 1 << 18  # bytes of prototypes
NEEDS_YES = (
    "there is no terminal to ask for confirmation, and what is forgotten cannot be brought back: give --yes; "
    "`shardgraph plan` shows what would be forgotten"
)
NOT_THE_SAME = (
    "withdrawn, not rebuilt: the model was built with other numerics, `shardgraph status` names them; "
    "`shardgraph train --rebuild` builds all of it again"
)
NOT_ACCEPTED = "the request was not accepted and nothing was forgotten"


def plan(
    workspace: WorkspacePath,
    selection: Selection = NO_SELECTION,
    no_twins: Annotated[
        bool, typer.Option("--no-twins", help="Do not list the twins that would remain, only count exact copies.")
    ] = False,
    near_twins: Annotated[
        bool,
        typer.Option("--near-twins", help="Also search for near twins that would remain; reads every file of samples."),
    ] = False,
    grant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preview a grant of --source and --shard to this consumer instead."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Preview a forget: what would be rebuilt and what would disappear. Changes nothing."""
    if grant is not None:
        if selection.sample or selection.subject or selection.label or selection.from_file or selection.with_twins:
            raise typer.BadParameter("--grant can be combined with --source and --shard only")
        preview_grant(workspace, grant, selection.source or (), selection.shard or (), as_json)
        return
    if no_twins and near_twins:
        raise typer.BadParameter("--no-twins and --near-twins cannot be combined")
    request = _request(selection)
    with open_workspace(workspace, resume=False) as ws:
        found = _planned(ws, request, selection)
        figures = found.to_json() | _copies(ws, found)
        if not no_twins:
            figures["twins"] = remaining_twins(ws, found, selection.threshold, near=near_twins)
        figures["expected_cost"] = _expected_cost(ws)
    print_json(figures) if as_json else print_facts("plan", plan_rows(figures))


def forget(
    workspace: WorkspacePath,
    selection: Selection = NO_SELECTION,
    instant: Annotated[
        bool,
        typer.Option(
            "--instant", help="Withdraw the adapters that saw the samples at once; `repair` rebuilds them later."
        ),
    ] = False,
    reason: Annotated[str, typer.Option(help="Stored with the request; do not name a person here.")] = "",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required where there is no terminal.")
    ] = False,
    machines: Machines = DEFAULT_MACHINES,
    as_json: Json = False,
) -> None:
    """Forget samples; print the number of the certificate and the guarantee that holds."""
    if not yes and not _has_terminal():
        raise typer.BadParameter(NEEDS_YES, param_hint="--yes")
    accepted = False
    try:
        request = _request(selection, reason)
        with open_workspace(workspace, machines, record="honour") as ws:
            found = _planned(ws, request, selection)
            copies = _copies(ws, found)
            if found.rows and not yes:
                _confirm(found, copies["exact_copies"])
            start = time.monotonic()
            try:
                certificate = ws.forget(found, instant=instant)
            except KeyboardInterrupt:
                accepted = ws.queue.has_accepted(found)
                raise
            accepted = True
            solving = _solve(ws)
            seconds = time.monotonic() - start
            ids = [row.id for row in found.rows] or list(request.samples)
            nonces = {name: nonce for name, nonce in ws.certificates.nonces(certificate.number, ids).items()
                      if shardgraph.opens(certificate, name, nonce)}  # fmt: skip
            path = ws.certificates.path(certificate.number)
            kept = _declared(ws, found)
    except (KeyboardInterrupt, typer.Abort):
        exit_interrupted(CONTINUES if accepted else NOT_ACCEPTED)
    facts = {
        "certificate": certificate.number,
        "certificate_file": str(path),
        "already_forgotten": not found.rows,
        "event": certificate.event,
        "guarantee": certificate.guarantee,
        "model_digest": certificate.model_digest or None,
        "plan": found.to_json(),
        "seconds": round(seconds, 3),
        "solve_seconds": round(solving, 3),
        "rebuilt": certificate.event != "instant",
        **copies,
        "nonces": nonces,
    }
    print_json(facts) if as_json else _print_forgotten(facts)
    if kept:
        print_note(STAYS.format(", ".join(map(repr, kept))))
    if found.rows and not facts["rebuilt"] and not instant:
        print_note(NOT_THE_SAME)
        raise typer.Exit(NOT_REBUILT)


def repair(workspace: WorkspacePath, machines: Machines = DEFAULT_MACHINES, as_json: Json = False) -> None:
    """Rebuild what `forget --instant` withdrew, and files of the model that are damaged."""
    with open_workspace(workspace, machines, record="honour") as ws:
        certificate = ws.repair()
        status = ws.status()
    number = certificate.number if certificate else None
    if as_json:
        facts = {"repaired": certificate is not None, "certificate": number, "model_digest": status["model_digest"]}
        print_json(facts)
    elif certificate is None:
        print_note("nothing to repair")
    else:
        rows = [("certificate", number), ("guarantee", certificate.guarantee), ("model", status["model_digest"])]
        print_facts("repaired", rows)


def plan_rows(figures: dict[str, Any]) -> list[tuple[str, object]]:
    """The figures of a plan as rows of a table."""
    rows: list[tuple[str, object]] = [
        ("samples", _counted(figures)),
        ("groups rebuilt", figures["groups_to_rebuild"]),
        ("adapters rebuilt", figures["adapters_to_rebuild"]),
        ("samples revisited", figures["samples_to_revisit"]),
        ("share of a full retraining", f"{figures['share_of_full_retraining']:.1%}"),
    ]
    for name in ("classes_that_disappear", "sources_that_disappear", "already_forgotten"):
        if figures[name]:
            words = "already forgotten, certificate" if name == "already_forgotten" else name.replace("_", " ")
            rows.append((words, ", ".join(map(str, figures[name]))))
    if figures["groups_that_vanish"]:
        rows.append(("groups that vanish", figures["groups_that_vanish"]))
    rows += _privacy_rows(figures["privacy"]) if "privacy" in figures else []
    rows += _copy_rows(figures)
    rows += twin_rows(figures["twins"]) if "twins" in figures else []
    if expected := figures.get("expected_cost"):
        weighted = "the sources' rates" if expected["by_rates"] else "a random sample"
        rows.append((f"average cost, by {weighted}", f"{expected['samples']:.0f} samples, {expected['share']:.1%}"))
    return rows


def _counted(figures: dict[str, Any]) -> str:
    """How many samples of each split leave."""
    train, test = figures["training_samples"], figures["test_samples"]
    note = "; later accuracies are measured without these test samples" if test else ""
    return f"{figures['samples']}: {train} train, {test} test{note}"


def _request(selection: Selection, reason: str = "") -> "shardgraph.ForgetRequest":
    """The forget request of a selection, without twins."""
    check_threshold(selection.threshold)
    listed: list[str] = []
    if selection.from_file:
        from shardgraph.cli.reading import read_lines

        listed = read_lines(selection.from_file)
    return shardgraph.ForgetRequest(
        samples=(*(selection.sample or ()), *listed),
        sources=tuple(selection.source or ()),
        subjects=tuple(selection.subject or ()),
        shards=tuple(selection.shard or ()),
        labels=tuple(selection.label or ()),
        reason=reason,
    )


def _planned(
    ws: "shardgraph.Workspace", request: "shardgraph.ForgetRequest", selection: Selection
) -> "shardgraph.ForgetPlan":
    """The plan of a request, with twins if they are selected."""
    return ws.plan(ws.with_twins(request, selection.threshold) if selection.with_twins else request)


def _expected_cost(ws: "shardgraph.Workspace") -> dict[str, Any] | None:
    """The average cost of a forget, weighted by the rates of the sources if there are any."""
    if not ws.config.trained:
        return None
    found = ws.views.graph()
    share = found.expected / found.samples if found.samples else 0.0
    return {"samples": found.expected, "share": share, "by_rates": found.by_rates}


def _declared(ws: "shardgraph.Workspace", found: "shardgraph.ForgetPlan") -> list[str]:
    """The sources of a forget that have no sample left and stay in config.json, because the graph declares them."""
    declared = ws.config.declared_sources
    asked = {row.source for row in found.rows} | set(found.request.sources)
    return sorted((asked & declared) - ws.sources.terms().keys()) if asked & declared else []


def _has_terminal() -> bool:
    """Whether a person can be asked: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _copies(ws: "shardgraph.Workspace", found: "shardgraph.ForgetPlan") -> dict[str, int]:
    """How many exact copies of the samples stay; a note says what could not be compared."""
    copies = ws.exact_copies(found)
    if copies.unknown:
        print_note(
            f"{copies.unknown} samples are in damaged files and were not compared; `shardgraph verify` names them"
        )
    return {"exact_copies": len(copies.rows)}


def _copy_rows(figures: dict[str, Any]) -> list[tuple[str, object]]:
    if "exact_copies" not in figures:
        return []
    count = figures["exact_copies"]
    return [("exact copies that stay", f"{count}; `shardgraph twins` names them" if count else 0)]


def _confirm(found: "shardgraph.ForgetPlan", copies: int) -> None:
    """Ask for confirmation on the terminal."""
    share = f"{found.share:.1%} of a full retraining"
    if copies:
        print_note(f"{copies} exact copies stay: their content is not forgotten; --with-twins selects them, too")
    if not typer.confirm(f"Forget {len(found.rows)} samples permanently ({share})?", err=True):
        print_note("nothing was forgotten")
        raise typer.Exit(FAILED)


def _solve(ws: "shardgraph.Workspace") -> float:
    """Load the model and solve its prototypes, as the next prediction does; the seconds that this took, or 0.

    The time of a forget would otherwise leave out work that it causes. Small sums are solved within a few hundredths of
    a second and left out; so is the model of a running service, which loads its own.
    """
    sums = ws.root / "prototypes.safetensors"
    if not sums.exists() or sums.stat().st_size < SMALL or ws.context.is_served:
        return 0.0
    start = time.monotonic()
    with suppress(ShardgraphError):  # the samples are forgotten, whether the model can be loaded or not
        ws.model()
    return time.monotonic() - start


def _privacy_rows(spending: dict[str, Any]) -> list[tuple[str, object]]:
    """What a forget spends of the budget of private edges, as rows of a table."""
    before, after, budget = spending["before"], spending["after"], spending["budget"]
    steps = " -> ".join(f"({each['alpha']:.4g}, {each['beta']:.3g})" for each in (before, after))
    words = f"{steps} of ({budget['alpha']:g}, {budget['beta']:g}), by {after['method']}"
    rows: list[tuple[str, object]] = [("groups charged", spending["groups_charged"]), ("(alpha, beta)", words)]
    if spending["groups_over_budget"]:
        rows.append(("rebuilt, over the budget", spending["groups_over_budget"]))
    return rows


def _print_forgotten(facts: dict[str, Any]) -> None:
    rows: list[tuple[str, object]] = [
        ("certificate", f"{facts['certificate']}, in {facts['certificate_file']}"),
        ("guarantee", facts["guarantee"]),
        ("model", facts["model_digest"] or "none yet"),
    ]
    seconds, copies = str(facts["seconds"]), {"exact_copies": facts["exact_copies"]}
    if facts["solve_seconds"]:
        seconds += f", {facts['solve_seconds']} of them to load the model as the next prediction does"
    if facts["already_forgotten"]:
        print_facts("already forgotten", rows)
    elif facts["rebuilt"]:
        print_facts("forgotten", [*plan_rows(facts["plan"] | copies), ("seconds", seconds), *rows])
    else:
        withdrawn = facts["plan"]["groups_to_rebuild"]
        done = [("samples", _counted(facts["plan"])), ("groups withdrawn, not rebuilt", withdrawn)]
        print_facts("forgotten: withdrawn, not rebuilt", [*done, *_copy_rows(copies), ("seconds", seconds), *rows])
    nonces = list(facts["nonces"].items())
    if nonces and len(nonces) <= SHOWN:
        print_table("nonces: each opens the entry of one sample in the certificate", ("sample", "nonce"), nonces)
    elif nonces:
        print_note(f"{len(nonces)} nonces: --json prints all, `shardgraph certificate --nonce-for ID` prints one")
