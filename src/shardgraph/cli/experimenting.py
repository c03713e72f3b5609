"""experiment: the paper's tables and figures, and ours, from records or from runs on your own cache."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.failures import GOES_ON, interrupted
from shardgraph.cli.options import Json
from shardgraph.cli.output import print_json, print_table, say
from shardgraph.errors import InputError

ROOT = Path(shardgraph.__file__).parents[2]
ANEW = "what --quick ran is not kept, it begins anew"


def experiment(
    name: Annotated[str, typer.Argument(help="Which one; 'list' names them, 'all' runs them all.")],
    cache: Annotated[
        Path | None, typer.Option(help="Embeddings to run on first: a folder that experiments/cache.py made.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run on scikit-learn's digits instead, in a minute.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write.",
            show_default="experiments/results of the source tree; experiment-results with --cache",
        ),
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
    finished, kept = _experiments("finished"), _experiments("records")
    if cache and name in finished.APART:
        raise InputError(f"{name!r} is run by itself: `{finished.command(name)}`")
    folder = out or (Path("experiment-quick") if quick else kept.YOURS if cache else page.RESULTS)
    try:
        records = _records(page, name, folder, cache, quick)
        _show_all(page, records, folder, as_json) if name == "all" else _show(page, name, records, folder, as_json)
    except KeyboardInterrupt:
        interrupted(ANEW if quick else GOES_ON)


def _records(page: Any, name: str, folder: Path, cache: Path | None, quick: bool) -> Any:
    """What was measured, after measuring what is missing."""
    if quick:
        return page.quick(list(page.EXPERIMENTS) if name == "all" else [name])
    runs = folder / "runs"
    if cache:
        _experiments("runs").run_cache(cache, runs)
    return page.Records.load(runs if cache or runs.exists() else page.RUNS)


def _show(page: Any, name: str, records: Any, folder: Path, as_json: bool) -> None:
    shown = page.show(name, records)
    written = shown.write(folder)
    print_json(_facts(shown, written)) if as_json else _tell(shown, written)


def _show_all(page: Any, records: Any, folder: Path, as_json: bool) -> None:
    """Every experiment as it comes; those without records are named."""
    no_records = _experiments("records").NoRecords
    done, left_out = [], {}
    for name in page.EXPERIMENTS:
        try:
            shown = page.show(name, records)
        except no_records as missing:
            left_out[name] = str(missing)
            continue
        written = shown.write(folder)
        done.append(_facts(shown, written))
        if not as_json:
            _tell(shown, written)
    for name, why in left_out.items():
        say(f"{name} is left out: {why}")
    if as_json:
        print_json({"shown": done, "left_out": left_out})


def _facts(shown: Any, written: list[Path]) -> dict[str, Any]:
    return {"experiment": shown.name, "files": [str(path) for path in written]}


def _tell(shown: Any, written: list[Path]) -> None:
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
