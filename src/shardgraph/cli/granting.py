"""`grant`, `revoke`, `rights`, `provision`: who may use which part of the data, and how much of the model that is."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.opening import opened
from shardgraph.cli.options import Json, Machines, Where, Workers
from shardgraph.cli.output import print_facts, print_json, print_table, say

Consumer = Annotated[str, typer.Argument(metavar="NAME", help="The consumer.", show_default=False)]
Sources = Annotated[
    list[str] | None, typer.Option("--source", help="All samples of a source, also later ones; may be repeated.")
]
Shards = Annotated[
    list[str] | None, typer.Option("--shard", help="All samples of a shard, also later ones; may be repeated.")
]


def grant(
    workspace: Where, name: Consumer, source: Sources = None, shard: Shards = None, as_json: Json = False
) -> None:
    """Let a consumer use sources and shards, beside those it may use already."""
    with opened(workspace) as ws:
        facts = _facts(ws, ws.grant(name, source or (), shard or ()))
    _print("granted", facts, as_json)


def revoke(
    workspace: Where, name: Consumer, source: Sources = None, shard: Shards = None, as_json: Json = False
) -> None:
    """Take sources and shards from a consumer, or all that it has; the next prediction is without them."""
    with opened(workspace) as ws:
        left = ws.revoke(name, source or (), shard or ())
        facts = _facts(ws, left) if left.sources or left.shards else left.to_json()
    _print("revoked", facts, as_json)


def rights(workspace: Where, as_json: Json = False) -> None:
    """List who may use what, and how much of the model each of them keeps."""
    with opened(workspace) as ws:
        found = [_facts(ws, right) for right in ws.rights().values()]
    if as_json:
        print_json({"rights": found})
    elif not found:
        say("nobody has a right over a part; `shardgraph grant` gives one")
    else:
        print_table("rights", ("consumer", "may use", *_SHOWN, "provisioned"), [_row(facts) for facts in found])


def provision(workspace: Where, name: Consumer, workers: Workers = None, as_json: Json = False) -> None:
    """Train the groups that a right lacks on what it allows, and keep them up to date from now on."""
    with opened(workspace, Machines(workers)) as ws:
        start = time.monotonic()
        trained = ws.provision(name)
        seconds = round(time.monotonic() - start, 3)
        facts = _facts(ws, ws.rights()[name]) | {"trained": trained, "seconds": seconds}
        facts |= {"model_digest": ws.model_for(name).digest}
    _print("provisioned", facts, as_json)


def preview(workspace: Path, name: str, sources: Sequence[str], shards: Sequence[str], as_json: bool) -> None:
    """What a grant would give; changes nothing."""
    with opened(workspace, resume=False) as ws:
        facts = _facts(ws, ws.planned(name, sources, shards))
    _print("a grant would give", facts, as_json)


_SHOWN = ("samples", "shards", "classes", "adapters")


def _facts(ws: "shardgraph.Workspace", right: "shardgraph.Right") -> dict[str, Any]:
    """A right and its reach; no reach before the first training."""
    return right.to_json() | {"reach": ws.reach(right).to_json() if ws.config.trained else None}


def _print(title: str, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    rows: list[tuple[str, object]] = [("consumer", facts["consumer"]), ("may use", _uses(facts))]
    if reach := facts.get("reach"):
        rows += [(name, _of(reach, name)) for name in _SHOWN]
        rows.append(("provisioned", _provisioned(facts)))
    rows += [(name, facts[name]) for name in ("trained", "seconds") if name in facts]
    rows += [("model", facts["model_digest"])] if "model_digest" in facts else []
    print_facts(title, rows)


def _row(facts: dict[str, Any]) -> list[object]:
    reach = facts["reach"]
    figures = [_of(reach, name) for name in _SHOWN] if reach else ["not trained yet", "", "", ""]
    return [facts["consumer"], _uses(facts), *figures, _provisioned(facts) if reach else ""]


def _uses(facts: dict[str, Any]) -> str:
    named = [f"{kind} {name}" for kind in ("source", "shard") for name in facts[f"{kind}s"]]
    return ", ".join(named) or "nothing"


def _of(reach: dict[str, Any], name: str) -> str:
    return f"{reach[name]} of {reach[f'of_{name}']} ({reach[f'share_of_{name}']:.0%})"


def _provisioned(facts: dict[str, Any]) -> str:
    done, lacking = facts["reach"]["provisioned"], facts["reach"]["lacking"]
    if not lacking:
        return f"{done} groups" if done else "no need"
    return f"{done} groups, {lacking} lacking: `shardgraph provision` trains them"
