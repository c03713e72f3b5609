"""`grant`, `revoke`, `rights` and `provision`: the part of the data that a consumer may use, and a model of it."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.command import open_workspace, print_facts, print_json, print_note, print_table
from shardgraph.cli.options.shared import Json, Machines, Workers, WorkspacePath

Name = Annotated[str, typer.Argument(metavar="NAME", help="The consumer.", show_default=False)]
Sources = Annotated[
    list[str] | None, typer.Option("--source", help="All present and later samples of a source; may be repeated.")
]
Shards = Annotated[
    list[str] | None, typer.Option("--shard", help="All present and later samples of a shard; may be repeated.")
]
FIGURES = ("samples", "shards", "classes", "adapters")


def grant(
    workspace: WorkspacePath, name: Name, source: Sources = None, shard: Shards = None, as_json: Json = False
) -> None:
    """Allow a consumer to use sources and shards, in addition to those that it may use already."""
    with open_workspace(workspace, record="honour") as ws:
        facts = _facts(ws, ws.consumers.grant(name, source or (), shard or ()))
    _print("granted", facts, as_json)


def revoke(
    workspace: WorkspacePath, name: Name, source: Sources = None, shard: Shards = None, as_json: Json = False
) -> None:
    """Withdraw sources and shards from a consumer, or its whole right; the next prediction no longer uses them."""
    with open_workspace(workspace, record="honour") as ws:
        left = ws.consumers.revoke(name, source or (), shard or ())
        facts = _facts(ws, left) if left.sources or left.shards else left.to_json()
    _print("revoked", facts, as_json)


def rights(workspace: WorkspacePath, as_json: Json = False) -> None:
    """List all rights and the share of the model that each of them reaches."""
    with open_workspace(workspace) as ws:
        found = [_facts(ws, right) for right in ws.consumers.rights().values()]
    if as_json:
        print_json({"rights": found})
    elif not found:
        print_note("there are no rights; `shardgraph grant` creates one")
    else:
        print_table("rights", ("consumer", "may use", *FIGURES, "provisioned"), [_row(facts) for facts in found])


def provision(workspace: WorkspacePath, name: Name, workers: Workers = None, as_json: Json = False) -> None:
    """Train the groups that a right lacks, on the data that it allows, and keep them up to date from then on."""
    with open_workspace(workspace, Machines(workers), record="honour") as ws:
        start = time.monotonic()
        trained = ws.consumers.provision(name)
        seconds = round(time.monotonic() - start, 3)
        facts = _facts(ws, ws.consumers.rights()[name]) | {"trained": trained, "seconds": seconds}
        facts |= {"model_digest": ws.consumers.model(name).digest}
    _print("provisioned", facts, as_json)


def preview_grant(workspace: Path, name: str, sources: Sequence[str], shards: Sequence[str], as_json: bool) -> None:
    """Print what a grant would allow; changes nothing."""
    with open_workspace(workspace, resume=False) as ws:
        facts = _facts(ws, ws.consumers.preview(name, sources, shards))
    _print("a grant would allow", facts, as_json)


def _facts(ws: "shardgraph.Workspace", right: "shardgraph.Right") -> dict[str, Any]:
    """A right and its reach; the reach is None before the first training."""
    return right.to_json() | {"reach": ws.consumers.reach(right).to_json() if ws.config.trained else None}


def _print(title: str, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    rows: list[tuple[str, object]] = [("consumer", facts["consumer"]), ("may use", _parts(facts))]
    if reach := facts.get("reach"):
        rows += [(name, _share(reach, name)) for name in FIGURES]
        rows.append(("provisioned", _provisioned(reach)))
    rows += [(name, facts[name]) for name in ("trained", "seconds") if name in facts]
    rows += [("model", facts["model_digest"])] if "model_digest" in facts else []
    print_facts(title, rows)


def _row(facts: dict[str, Any]) -> list[object]:
    reach = facts["reach"]
    figures = [_share(reach, name) for name in FIGURES] if reach else ["not trained yet", "", "", ""]
    return [facts["consumer"], _parts(facts), *figures, _provisioned(reach) if reach else ""]


def _parts(facts: dict[str, Any]) -> str:
    named = [f"{kind} {name}" for kind in ("source", "shard") for name in facts[f"{kind}s"]]
    return ", ".join(named) or "nothing"


def _share(reach: dict[str, Any], name: str) -> str:
    return f"{reach[name]} of {reach[f'of_{name}']} ({reach[f'share_of_{name}']:.0%})"


def _provisioned(reach: dict[str, Any]) -> str:
    done, lacking = reach["provisioned"], reach["lacking"]
    if not lacking:
        return f"{done} groups" if done else "not needed"
    return f"{done} groups, {lacking} lacking: `shardgraph provision` trains them"
