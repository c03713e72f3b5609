"""`verify`, `status`, `certificate`, `verify-certificate` and `report`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import shardgraph
from shardgraph.cli.command import (
    FAILED,
    format_bytes,
    open_workspace,
    print_facts,
    print_json,
    print_note,
    print_table,
)
from shardgraph.cli.options.shared import DEFAULT_MACHINES, Json, Machines, WorkspacePath
from shardgraph.errors import FingerprintError, InputError, UnknownSample, VerificationError

if TYPE_CHECKING:
    from shardgraph.forget import Check


def verify(
    workspace: WorkspacePath,
    full: Annotated[
        bool, typer.Option("--full", help="Also rebuild everything separately and compare the bytes.")
    ] = False,
    machines: Machines = DEFAULT_MACHINES,
    as_json: Json = False,
) -> None:
    """Check certificates, their chain and all files; with --full, rebuild the model and compare it."""
    with open_workspace(workspace, machines, record="leave") as ws:
        found = ws.verify(full=full)
    if as_json:
        bad = [check.detail for check in found.checks if not check.ok]
        kind = VerificationError if found.wrong else FingerprintError
        print_json(found.to_json() | ({"error": "; ".join(bad), "kind": kind.__name__} if bad else {}))
    else:
        rows = [(_verdict(check), check.name, check.detail) for check in found.checks]
        title = "verification failed" if found.wrong else "verified" if found.ok else "not everything was compared"
        print_table(title, ("", "check", "result"), rows)
    if not found.ok:
        raise typer.Exit(FAILED)


def rekey(
    workspace: WorkspacePath,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Replace secret.key, so that nobody can tell any more what was forgotten; forgotten samples can return then."""
    if not yes:
        typer.confirm("Replace secret.key? What was forgotten will not be recognised any more.", err=True, abort=True)
    with open_workspace(workspace, record="leave") as ws:
        ws.replace_secret()
    if as_json:
        print_json({"rekeyed": True})
    else:
        print_note("secret.key is new: what was forgotten before cannot be recognised any more")


def status(workspace: WorkspacePath, as_json: Json = False) -> None:
    """Show the samples, the served model, the pending work and the disk usage."""
    with open_workspace(workspace, record="leave") as ws:
        facts = ws.status() | {"sources": {name: known.to_json() for name, known in ws.sources.terms().items()}}
    if as_json:
        print_json(facts)
        return
    samples, groups = facts["samples"], facts["groups"]
    rows = [
        ("model", facts["model_digest"] or "none yet"),
        ("state", _state(facts)),
        ("samples", f"{samples['train']} train, {samples['test']} test, {facts['waiting']} of them in the inbox"),
        ("classes", facts["classes"]),
        ("shards", facts["shards"]),
        ("groups", f"{groups['serving']} serving, {groups['missing']} missing"),
        ("lambda", f"{facts['lambda']:.3f}"),
        ("requests", ", ".join(f"{count} {state}" for state, count in sorted(facts["requests"].items())) or "none"),
        ("numerics", facts["numerics"]),
        ("disk", format_bytes(facts["disk_bytes"])),
    ]
    if record := facts.get("record"):
        rows.append(("record", record["detail"] if record["ok"] else f"WRONG: {record['detail']}"))
    print_facts(str(workspace), rows)
    if facts["privacy"]:
        _print_privacy(facts["privacy"])
    described = {
        name: known
        for name, known in facts["sources"].items()
        if known["owner"] or known["terms"] or known["rate"] is not None
    }
    if described:
        columns = ("source", *next(iter(described.values())))
        print_table("sources", columns, [(name, *known.values()) for name, known in described.items()])


def certificate(
    workspace: WorkspacePath,
    number: Annotated[
        int | None, typer.Argument(min=1, help="The number of the certificate.", show_default="the last one")
    ] = None,
    nonce_for: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Print the nonce that opens the entry of this sample; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a certificate of this workspace."""
    with open_workspace(workspace) as ws:
        last = ws.certificates.last()
        if not last:
            raise InputError(f"{workspace} has no certificates yet: nothing was forgotten")
        if number is not None and number > last:
            raise InputError(f"{workspace} has certificates 1 to {last}, got {number}")
        shown = ws.certificates.load(number or last)
        nonces = ws.certificates.nonces(shown.number, nonce_for or ())
    unknown = [name for name, nonce in nonces.items() if not shardgraph.opens(shown, name, nonce)]
    if unknown:
        raise UnknownSample(f"certificate {shown.number} has no entry for {unknown[0]!r}", unknown)
    if as_json:
        print_json(shown.to_json() | ({"nonces": nonces} if nonces else {}))
        return
    print_facts(f"certificate {shown.number}", _certificate_rows(shown))
    if nonces:
        print_table("nonces", ("sample", "nonce"), nonces.items())


def verify_certificate(
    file: Annotated[Path, typer.Argument(help="The JSON file of the certificate.", show_default=False)],
    public_key: Annotated[
        str, typer.Option(metavar="KEY", help="The public key of the workspace in hex, or its public.key file.")
    ],
    open_: Annotated[
        str | None, typer.Option("--open", metavar="ID", help="Also check that this sample was forgotten.")
    ] = None,
    nonce: Annotated[str | None, typer.Option(help="The nonce of this sample, which `forget` printed.")] = None,
    as_json: Json = False,
) -> None:
    """Check a certificate with the public key alone."""
    if (open_ is None) != (nonce is None):
        raise typer.BadParameter("--open and --nonce must be given together")
    shown = shardgraph.Certificate.load(file)
    shardgraph.check_certificate(shown, _public_key(public_key))
    if open_ is not None and nonce is not None and not shardgraph.opens(shown, open_, nonce):
        raise VerificationError(
            f"certificate {shown.number} has no entry for this sample, or the nonce belongs to another sample"
        )
    if as_json:
        print_json({"ok": True, "opened": open_ is not None, "certificate": shown.to_json()})
        return
    opened = [("this sample", "was forgotten")] if open_ is not None else []
    print_facts(f"certificate {shown.number}: the signature is valid", [*_certificate_rows(shown), *opened])


def report(
    workspace: WorkspacePath,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write an HTML page with the shard graph, the accuracy, the cost of forgetting and the certificates."""
    from shardgraph.cli.report.page import page
    from shardgraph.cli.report.summary import summarize

    if not out.parent.is_dir():
        raise InputError(f"a report must be written to an existing folder, {out.parent} does not exist")
    with open_workspace(workspace) as ws:
        content = summarize(ws, workspace.resolve().name)
    text = page(content)
    out.write_text(text, encoding="utf-8")
    facts = {"report": str(out), "bytes": len(text.encode())}
    print_json(facts) if as_json else print_facts("written", facts.items())


def _verdict(check: "Check") -> str:
    if check.ok:
        return "ok"
    return "WRONG" if check.compared else "not compared"


def _state(facts: dict[str, Any]) -> str:
    if not facts["trained"]:
        return "not trained yet"
    if damaged := facts.get("damaged"):
        return f"{damaged} damaged or missing files of the model; `shardgraph repair` builds them again"
    if facts["groups"]["missing"]:
        return "withdrawn groups are missing; `shardgraph repair` rebuilds them"
    return "samples wait in the inbox; `shardgraph train` assigns them" if facts["waiting"] else "complete"


def _print_privacy(found: dict[str, Any]) -> None:
    """Print the privacy loss of private edges and the requests that each shard has left."""
    budget, loss = found["budget"], found["sample_loss"]
    note = ", vacuous in beta" if budget["vacuous"] else ""
    rows = [
        ("groups with private edges", found["groups"]),
        (
            "privacy loss of a sample",
            f"epsilon {loss['epsilon']:.3g} at delta {found['delta']:g}, by {loss['method']}",
        ),
        ("distance from never-saw", f"({found['alpha']:.4g}, {found['beta']:.3g}), by {found['method']}"),
        ("budget", f"({budget['alpha']:g}, {budget['beta']:g}{note})"),
    ]
    print_facts("private edges", rows)
    left = [(shard, f"{each['left']} of {each['of']} requests left") for shard, each in found["shards"].items()]
    print_table(
        "single samples that can be forgotten before the groups that use them privately are rebuilt",
        ("shard", ""),
        left,
    )


def _certificate_rows(shown: "shardgraph.Certificate") -> list[tuple[str, object]]:
    return [
        ("event", shown.event),
        ("time", shown.time),
        ("samples", len(shown.entries)),
        ("guarantee", shown.guarantee),
        ("model", shown.model_digest or "none yet"),
        ("groups missing", shown.missing),
        *([("provisioned groups", f"{shown.provisioned} had learned from it")] if shown.provisioned else []),
        ("configuration", shown.config),
        ("graph", shown.graph or "none yet"),
        ("shardgraph", shown.version),
        ("numerics", ", ".join(f"{name} {value}" for name, value in sorted(shown.fingerprint.items()))),
        ("public key", shown.public_key),
    ]


def _public_key(given: str) -> str:
    """The public key, given in hex or as a file."""
    path, found, problem = Path(given), given, "there is no such file"
    try:
        if path.is_file():
            found, problem = path.read_text(encoding="ascii"), "the file does not hold a public key"
    except (OSError, UnicodeDecodeError):
        found, problem = "", "the file does not hold a public key"
    if not re.fullmatch("[0-9a-f]{64}", found.strip()):
        raise InputError(f"a public key must be 64 hex digits or a file that holds them, got {given!r}: {problem}")
    return found.strip()
