"""`serve` and `token`."""

from pathlib import Path
from typing import Annotated

import typer

from shardgraph.cli.opening import opened
from shardgraph.cli.options import Json, Where, Workers
from shardgraph.cli.output import print_facts, print_json, print_table, say
from shardgraph.errors import ConfigError


def serve(
    workspace: Where,
    host: Annotated[str, typer.Option(help="The address to listen on; another than loopback needs tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one and logs it.")] = 8000,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that a request can be cancelled before its erasing starts.")
    ] = 0.0,
    device: Annotated[str | None, typer.Option(help="Where groups are rebuilt: cpu or cuda.", show_default="best")] = (
        None
    ),
    record: Annotated[
        Path | None,
        typer.Option(help="A file outside the workspace and its backups that says what was asked to be forgotten."),
    ] = None,
    originals: Annotated[
        Path | None,
        typer.Option(help="A folder with the pictures or texts of the samples, by id, for the pages to show."),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Serve forget requests, predictions and proofs over HTTP, and pages for people, until Ctrl-C or SIGTERM."""
    try:
        from shardgraph.service.server import serve as run  # needs the extra "service"
    except ModuleNotFoundError as error:
        raise ConfigError(f"serving needs {error.name}: pip install 'shardgraph[service]'") from error

    with opened(workspace):
        pass  # what was interrupted is finished first, where nobody else is at it
    run(
        workspace, host=host, port=port, grace=grace, workers=workers, device=device, record=record, originals=originals
    )
    if as_json:
        print_json({"ended": True})


def token(
    workspace: Where,
    name: Annotated[str | None, typer.Argument(help="The token's name.", show_default="list them all")] = None,
    role: Annotated[str | None, typer.Option(help="Make one: owner, operator, consumer or auditor.")] = None,
    source: Annotated[list[str] | None, typer.Option("--source", help="An owner's source; may be repeated.")] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Make it worthless at once.")] = False,
    as_json: Json = False,
) -> None:
    """List the service's tokens, make one, or revoke one."""
    from shardgraph.service.auth.tokens import create_token, list_tokens, revoke_token

    making = role is not None
    if (name is None and (making or revoke)) or (name is not None and making == revoke):
        raise typer.BadParameter("give a NAME with --role to make a token, or with --revoke to end it")
    with opened(workspace) as ws:
        if name is None:
            found = list_tokens(ws.catalogue)
        elif revoke:
            revoke_token(ws.catalogue, name)
        else:
            made = create_token(ws.catalogue, name, role or "", source or ())
    if name is None:
        columns = ("name", "role", "sources", "created")
        print_json({"tokens": found}) if as_json else print_table(
            "tokens", columns, [[row[column] for column in columns] for row in found]
        )
    elif revoke:
        print_json({"revoked": name}) if as_json else say(f"{name} is worthless from now on")
    elif as_json:
        print_json({"name": name, "role": role, "token": made})
    else:
        print_facts(name, [("role", role), ("token", made)])
        say("this is shown once; keep it as you keep a password")
