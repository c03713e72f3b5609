"""`serve`, `token`, `record` and `migrate`: running a workspace as a service, and keeping it up to date."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from shardgraph.cli.command import check_finite, open_workspace, print_facts, print_json, print_note, print_table
from shardgraph.cli.options.shared import BackbonePath, Device, Json, Workers, WorkspacePath
from shardgraph.errors import ConfigError


def serve(
    workspace: WorkspacePath,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any address other than loopback requires tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 selects a free port and logs it.")] = 8000,
    grace: Annotated[
        float,
        typer.Option(min=0, help="Seconds in which a request can be cancelled before it is erased."),
    ] = 0.0,
    device: Annotated[
        Device | None,
        typer.Option(help="Where groups are rebuilt.", show_default="as the model was built"),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="A file outside the workspace and its backups that records every accepted request."),
    ] = None,
    originals: Annotated[
        Path | None,
        typer.Option(help="A folder with the images or texts of the samples, named by id, which the pages show."),
    ] = None,
    backbone_path: BackbonePath = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Serve forget requests, predictions and proofs over HTTP, and pages for a browser, until Ctrl-C or SIGTERM."""
    check_finite("--grace", grace)
    try:
        from shardgraph.service.server import serve as run  # needs the extra "service"
    except ModuleNotFoundError as error:
        raise ConfigError(f"serving needs {error.name}: pip install 'shardgraph[service]'") from error

    with open_workspace(workspace, record="leave"):
        pass  # finish an interrupted forget first
    run(
        workspace,
        host=host,
        port=port,
        grace=grace,
        workers=workers,
        device=device,
        record=record,
        originals=originals,
        backbone_path=backbone_path,
    )
    if as_json:
        print_json({"ended": True})


def token(
    workspace: WorkspacePath,
    name: Annotated[str | None, typer.Argument(help="The name of the token.", show_default="list all")] = None,
    role: Annotated[
        Literal["owner", "operator", "consumer", "auditor"] | None,
        typer.Option(
            help="Create a token with this role.",
        ),
    ] = None,
    source: Annotated[list[str] | None, typer.Option("--source", help="A source of an owner; may be repeated.")] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the token at once.")] = False,
    as_json: Json = False,
) -> None:
    """List the tokens of the service, create one, or revoke one."""
    from shardgraph.service.auth.tokens import create_token, list_tokens, revoke_token

    create = role is not None
    if (name is None and (create or revoke)) or (name is not None and create == revoke):
        raise typer.BadParameter("give NAME with --role to create a token, or with --revoke to revoke it")
    with open_workspace(workspace) as ws:
        if name is None:
            found = list_tokens(ws.context.catalogue)
        elif revoke:
            revoke_token(ws.context.catalogue, name)
        else:
            created = create_token(ws.context.catalogue, name, role or "", source or ())
    if name is None:
        columns = ("name", "role", "sources", "created")
        print_json({"tokens": found}) if as_json else print_table(
            "tokens", columns, [[row[column] for column in columns] for row in found]
        )
    elif revoke:
        print_json({"revoked": name}) if as_json else print_note(f"{name} is revoked")
    elif as_json:
        print_json({"name": name, "role": role, "token": created})
    else:
        print_facts(name, [("role", role), ("token", created)])
        print_note("the token is shown only once; keep it secret, like a password")


def record(
    workspace: WorkspacePath,
    new: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Begin a new record in this file, which must be outside the workspace."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the record of forgets outside the workspace, or begin a new one if it is lost or damaged."""
    wrong = ""
    with open_workspace(workspace, record="leave") as ws:
        if new is not None:
            wrong = ws.queue.begin_log(new)
        found = ws.queue.log_facts()
    if found is None:
        print_json({"record": None}) if as_json else print_note("no record is kept; --new FILE begins one")
        return
    facts: dict[str, object] = {"record": str(found[0]), "detail": found[1]}
    if new is not None:
        facts["wrong_with_the_old"] = wrong or None
    print_json(facts) if as_json else print_facts("record", facts.items())
    if wrong:
        print_note(
            f"the old record is lost in part: {wrong}; if this workspace was restored from a backup, the samples of "
            "requests that stood only there are here again; all that this workspace has forgotten is in the new record"
        )


def migrate(
    workspace: WorkspacePath,
    check: Annotated[bool, typer.Option("--check", help="Only list the pending migrations; change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Apply the pending migrations of the catalogue's layout, and list them."""
    from shardgraph.forget import migrate_catalogue, pending_migrations

    found = pending_migrations(workspace) if check else migrate_catalogue(workspace)
    if as_json:
        listed = [{"number": each.number, "name": each.name} for each in found]
        print_json({"pending": listed if check else [], "applied": [] if check else listed})
    elif not found:
        print_note("no migrations are pending")
    else:
        title = "pending migrations" if check else "applied migrations"
        print_table(title, ("number", "name"), [(each.number, each.name) for each in found])
