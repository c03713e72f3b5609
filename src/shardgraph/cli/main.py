"""The `shardgraph` command: every command with its panel of the help."""

from functools import partial

import typer

from shardgraph.cli.command import Group, SingleCommand, as_command, global_options, run_app
from shardgraph.cli.commands import data, demo, experiment, forget, learn, prove, serve, share, twins

app = typer.Typer(
    name="shardgraph",
    cls=Group,
    help="Train on a shard graph, predict, forget samples exactly, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS = {
    "Learn": (data.init, data.add, data.source, learn.train, learn.evaluate, learn.predict),
    "Forget": (twins.twins, forget.plan, forget.forget, forget.repair),
    "Share": (share.grant, share.revoke, share.rights, share.provision),
    "Prove": (prove.verify, prove.status, prove.certificate, prove.verify_certificate, prove.rekey, prove.report),
    "Serve": (serve.serve, serve.token, serve.record, serve.migrate),
    "Try": (demo.demo, experiment.experiment),
}
for _panel, _functions in _PANELS.items():
    for _function in _functions:
        app.command(cls=SingleCommand, rich_help_panel=_panel)(as_command(_function))
app.callback()(global_options)
main = partial(run_app, app)

if __name__ == "__main__":
    main()
