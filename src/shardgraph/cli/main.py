"""The `shardgraph` command: every command with its panel of the help."""

import os
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from shardgraph import __version__
from shardgraph.cli.command import DEBUG, INTERRUPTED, as_command, print_note
from shardgraph.cli.commands import data, demo, experiment, forget, learn, prove, serve, share, twins


def _without_types(parameters: list[Any]) -> list[Any]:
    """The parameters, of which flags show no type in the help: they take no value."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


app = typer.Typer(
    name="shardgraph",
    cls=_Group,
    help="Train on a shard graph, predict, forget samples exactly, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS = {
    "Learn": (data.init, data.add, data.source, learn.train, learn.evaluate, learn.predict),
    "Forget": (twins.twins, forget.plan, forget.forget, forget.repair),
    "Share": (share.grant, share.revoke, share.rights, share.provision),
    "Prove": (prove.verify, prove.status, prove.certificate, prove.verify_certificate, prove.report),
    "Serve": (serve.serve, serve.token, serve.migrate),
    "Try": (demo.demo, experiment.experiment),
}
for _panel, _functions in _PANELS.items():
    for _function in _functions:
        app.command(cls=_Command, rich_help_panel=_panel)(as_command(_function))


def _print_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of an unexpected error (also: {DEBUG}=1).")
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


def main() -> None:
    """Run the command line; `command.py` lists the exit codes."""
    try:
        app(prog_name="shardgraph")
    except KeyboardInterrupt:
        print_note("interrupted")
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
