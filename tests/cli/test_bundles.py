"""Bundles: what the command line shows is flat, in its place, and a command gets it as one value."""

import inspect
from dataclasses import dataclass

import typer
from typer.testing import CliRunner

from shardgraph.cli.bundles import unbundled
from shardgraph.cli.options import Json, Workers


@dataclass(frozen=True)
class Pair:
    workers: Workers = None
    as_json: Json = False


def act(name: str, pair: Pair = Pair(), last: str = "z") -> None:  # noqa: B008 (frozen)
    print(name, pair, last)


def test_the_fields_stand_where_the_bundle_stood():
    assert list(inspect.signature(unbundled(act)).parameters) == ["name", "workers", "as_json", "last"]


def test_a_command_gets_what_was_given_and_the_defaults_of_the_rest():
    app = typer.Typer()
    app.command()(unbundled(act))
    assert CliRunner().invoke(app, ["a", "--workers", "2"]).stdout == f"a {Pair(workers=2)} z\n"
    assert CliRunner().invoke(app, ["a", "--json", "--last", "y"]).stdout == f"a {Pair(as_json=True)} y\n"
    assert CliRunner().invoke(app, ["a", "--workers", "0"]).exit_code == 2
