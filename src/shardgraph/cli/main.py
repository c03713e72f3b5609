"""The `shardgraph` command."""

import os
from typing import Annotated

import typer

from shardgraph import __version__
from shardgraph.cli import (
    checking,
    demo,
    experimenting,
    forgetting,
    granting,
    intake,
    learning,
    reporting,
    serving,
    sourcing,
    twinning,
)
from shardgraph.cli.bundles import unbundled
from shardgraph.cli.failures import DEBUG, INTERRUPTED, guarded
from shardgraph.cli.output import say

app = typer.Typer(
    name="shardgraph",
    help="Learn on a shard graph, predict, forget exactly, prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS = {
    "Learn": (intake.init, intake.add, sourcing.source, learning.train, learning.evaluate, learning.predict),
    "Forget": (twinning.twins, forgetting.plan, forgetting.forget, forgetting.repair),
    "Share": (granting.grant, granting.revoke, granting.rights, granting.provision),
    "Prove": (checking.verify, checking.status, checking.certificate, checking.verify_certificate, reporting.report),
    "Serve": (serving.serve, serving.token),
    "Try": (demo.demo, experimenting.experiment),
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(guarded(unbundled(_command)))


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of an unexpected error (also: {DEBUG}=1).")
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


def main() -> None:
    """Run the command line; the exit codes are those of `failures`."""
    try:
        app(prog_name="shardgraph")
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
