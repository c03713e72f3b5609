"""`source`: who gave the data, on what terms, and how much of it may be asked back."""

from typing import Annotated

import typer

from shardgraph.cli.opening import opened
from shardgraph.cli.options import Json, Where
from shardgraph.cli.output import print_facts, print_json


def source(
    workspace: Where,
    name: Annotated[str, typer.Argument(help="The source.", show_default=False)],
    owner: Annotated[str | None, typer.Option(help="Who gave it.")] = None,
    terms: Annotated[str | None, typer.Option(help="On what terms: a licence, a contract, a consent.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="The share of its samples expected to be asked back in a year, from 0 to 1.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Drop what is kept about it; its samples stay.")] = False,
    as_json: Json = False,
) -> None:
    """Describe a source, or show what is known about it."""
    if clear and (owner, terms, rate) != (None, None, None):
        raise typer.BadParameter("--clear goes alone")
    with opened(workspace) as ws:
        if clear:
            ws.clear_source(name)
            facts = {"source": name, "cleared": True}
        else:
            facts = {"source": name} | ws.describe_source(name, owner=owner, terms=terms, rate=rate).to_json()
    print_json(facts) if as_json else print_facts("source", facts.items())
