"""`status`, `verify`, `certificate` and `verify-certificate`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import shardgraph
from shardgraph.cli.failures import FAILED
from shardgraph.cli.opening import opened
from shardgraph.cli.options import ANYWHERE, Json, Machines, Where
from shardgraph.cli.output import as_bytes, print_facts, print_json, print_table
from shardgraph.errors import FingerprintError, InputError, UnknownSample, VerificationError

if TYPE_CHECKING:
    from shardgraph.forget.proof.verify import Check


def status(workspace: Where, as_json: Json = False) -> None:
    """What is here, what is served, what waits, and the disk it takes."""
    with opened(workspace) as ws:
        facts = ws.status() | {"sources": {name: known.to_json() for name, known in ws.sources().items()}}
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
        ("disk", as_bytes(facts["disk_bytes"])),
    ]
    print_facts(str(workspace), rows)
    if facts["privacy"]:
        _show_privacy(facts["privacy"])
    if told := {name: known for name, known in facts["sources"].items() if known["owner"] or known["terms"]
                or known["rate"] is not None}:  # fmt: skip
        print_table("sources", ("source", *next(iter(told.values()))), [(n, *k.values()) for n, k in told.items()])


def verify(
    workspace: Where,
    full: Annotated[bool, typer.Option("--full", help="Rebuild everything elsewhere and compare the bytes.")] = False,
    on: Machines = ANYWHERE,
    as_json: Json = False,
) -> None:
    """Check certificates, chain and files; with --full, that the retained samples give this very model."""
    with opened(workspace, on) as ws:
        found = ws.verify(full=full)
    if as_json:
        bad = [check.detail for check in found.checks if not check.ok]
        kind = VerificationError if found.wrong else FingerprintError
        print_json(found.to_json() | ({"error": "; ".join(bad), "kind": kind.__name__} if bad else {}))
    else:
        rows = [(_verdict(check), check.name, check.detail) for check in found.checks]
        title = "verification failed" if found.wrong else "verified" if found.ok else "not all could be compared"
        print_table(title, ("", "what", "found"), rows)
    if not found.ok:
        raise typer.Exit(FAILED)


def certificate(
    workspace: Where,
    number: Annotated[int | None, typer.Argument(min=1, help="Its number.", show_default="the last one")] = None,
    nonce_for: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Print the nonce that opens this sample's entry; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a certificate of this workspace."""
    with opened(workspace) as ws:
        last = ws.last_certificate()
        if not last:
            raise InputError(f"{workspace} has no certificate yet: nothing was forgotten")
        if number is not None and number > last:
            raise InputError(f"{workspace} has certificates 1 to {last}, got {number}")
        shown = ws.certificate(number or last)
        nonces = ws.nonces(shown.number, nonce_for or ())
    strange = [name for name, nonce in nonces.items() if not shardgraph.opens(shown, name, nonce)]
    if strange:
        raise UnknownSample(f"certificate {shown.number} does not speak of {strange[0]!r}", strange)
    if as_json:
        print_json(shown.to_json() | ({"nonces": nonces} if nonces else {}))
        return
    print_facts(f"certificate {shown.number}", _lines(shown))
    if nonces:
        print_table("nonces", ("sample", "nonce"), nonces.items())


def verify_certificate(
    file: Annotated[Path, typer.Argument(help="The certificate's JSON file.", show_default=False)],
    public_key: Annotated[
        str, typer.Option(metavar="KEY", help="The workspace's public key in hex, or its public.key file.")
    ],
    open_: Annotated[
        str | None, typer.Option("--open", metavar="ID", help="Also check that this sample was forgotten.")
    ] = None,
    nonce: Annotated[str | None, typer.Option(help="The nonce that was given to the one who asked.")] = None,
    as_json: Json = False,
) -> None:
    """Check a certificate with nothing but the public key."""
    if (open_ is None) != (nonce is None):
        raise typer.BadParameter("--open and --nonce belong together")
    shown = shardgraph.Certificate.load(file)
    shardgraph.check_certificate(shown, _key(public_key))
    if open_ is not None and nonce is not None and not shardgraph.opens(shown, open_, nonce):
        raise VerificationError(f"certificate {shown.number} does not speak of this sample, or the nonce is another's")
    if as_json:
        print_json({"ok": True, "opened": open_ is not None, "certificate": shown.to_json()})
        return
    opened_row = [("this sample", "was forgotten, says the certificate")] if open_ is not None else []
    print_facts(f"certificate {shown.number}: the signature is good", [*_lines(shown), *opened_row])


def _verdict(check: "Check") -> str:
    if check.ok:
        return "ok"
    return "WRONG" if check.compared else "not compared"


def _show_privacy(found: dict[str, Any]) -> None:
    """What private edges have cost, and how many requests each shard has left."""
    budget, loss = found["budget"], found["sample_loss"]
    note = ", vacuous in beta" if budget["vacuous"] else ""
    rows = [
        ("groups with private edges", found["groups"]),
        ("a sample has lost", f"epsilon {loss['epsilon']:.3g} at delta {found['delta']:g}, by {loss['method']}"),
        ("away from never-saw", f"({found['alpha']:.4g}, {found['beta']:.3g}), by {found['method']}"),
        ("budget", f"({budget['alpha']:g}, {budget['beta']:g}{note})"),
    ]
    print_facts("private edges", rows)
    left = [(shard, f"{each['left']} of {each['of']} requests left") for shard, each in found["shards"].items()]
    print_table(
        "single samples that may leave before those who use them privately are trained anew", ("shard", ""), left
    )


def _state(facts: dict[str, Any]) -> str:
    if not facts["trained"]:
        return "not trained yet"
    if facts["groups"]["missing"]:
        return "withdrawn groups are missing; `shardgraph repair` rebuilds them"
    return "samples wait; `shardgraph train` places them" if facts["waiting"] else "complete"


def _lines(shown: "shardgraph.Certificate") -> list[tuple[str, object]]:
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


def _key(given: str) -> str:
    """The public key, given in hex or as the file that holds it."""
    path, found, what = Path(given), given, "there is no such file"
    try:
        if path.is_file():
            found, what = path.read_text(encoding="ascii"), "that file holds something else"
    except (OSError, UnicodeDecodeError):
        found, what = "", "that file holds something else"
    if not re.fullmatch("[0-9a-f]{64}", found.strip()):
        raise InputError(f"a public key must be 64 hex digits or a file that holds them, got {given!r}: {what}")
    return found.strip()
