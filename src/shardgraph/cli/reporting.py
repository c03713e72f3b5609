"""`report`: a workspace as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from shardgraph.cli.opening import opened
from shardgraph.cli.options import Json, Where
from shardgraph.cli.output import print_facts, print_json
from shardgraph.errors import InputError


def report(
    workspace: Where,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write a page to look at: the shard graph, accuracy, what forgetting costs, the certificates."""
    from shardgraph.cli.report.page import page
    from shardgraph.cli.report.workspace import described

    if not out.parent.is_dir():
        raise InputError(f"a report must go to a folder that exists, {out.parent} does not: make it first")
    with opened(workspace) as ws:
        content = described(ws, workspace.resolve().name)
    text = page(content)
    out.write_text(text, encoding="utf-8")
    facts = {"report": str(out), "bytes": len(text.encode())}
    print_json(facts) if as_json else print_facts("written", facts.items())
