"""experiment: the paper's tables and figures, and ours, from records or from runs on your own cache."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.options import Json
from shardgraph.cli.output import print_json, print_table, say
from shardgraph.errors import InputError

ROOT = Path(shardgraph.__file__).parents[2]


def experiment(
    name: Annotated[str, typer.Argument(help="Which one; 'list' names them, 'all' runs them all.")],
    cache: Annotated[
        Path | None, typer.Option(help="Embeddings to run on first: a folder that experiments/cache.py made.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run on scikit-learn's digits instead, in a minute.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where to write.", show_default="experiments/results of the source tree")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a table or figure of the paper, or of ours, and write it as CSV, JSON, PNG and SVG."""
    page = _experiments("page")
    if name == "list":
        known = list(page.EXPERIMENTS)
        print_json({"experiments": known}) if as_json else print("\n".join(known))
        return
    if name != "all" and name not in page.EXPERIMENTS:
        raise InputError(f"an experiment must be one of {', '.join(page.EXPERIMENTS)}, got {name!r}")
    if quick and cache:
        raise InputError("--quick runs on its own data, --cache on yours: give one of them")
    names = list(page.EXPERIMENTS) if name == "all" else [name]
    folder = out or (Path("experiment-quick") if quick else page.RESULTS)
    if quick:
        records = page.quick(names)
    else:
        runs = folder / "runs"
        if cache:
            _experiments("runs").run_cache(cache, runs)
        records = page.Records.load(runs if runs.exists() else page.RUNS)
    for shown in page.show(names, records):
        written = shown.write(folder)
        if as_json:
            print_json({"experiment": shown.name, "files": [str(path) for path in written]})
            continue
        say(f"{shown.name}: {shown.about}")
        for table in shown.tables:
            print_table(table.title, table.columns, table.rows)
        say(f"written to {written[0].parent}")


def _experiments(module: str) -> Any:
    """A module of the experiments, which live in the source tree beside the package, not in it."""
    if not (ROOT / "experiments" / "page.py").exists():
        raise InputError(
            f"experiments must lie beside the package in its source tree, there are none in {ROOT}: clone it"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"experiments.{module}")
