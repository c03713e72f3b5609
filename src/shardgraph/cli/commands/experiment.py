"""`experiment`: the tables and figures of the paper and of this project, from records or from new runs."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.command import CONTINUES, exit_interrupted, print_json, print_note, print_table
from shardgraph.cli.options.shared import Json
from shardgraph.errors import InputError

ROOT = Path(shardgraph.__file__).parents[2]
NOT_KEPT = "the results of --quick are not kept, it starts from the beginning"


def experiment(
    name: Annotated[str, typer.Argument(help="The experiment; 'list' lists the names, 'all' selects all of them.")],
    cache: Annotated[
        Path | None,
        typer.Option(help="First run it on these embeddings: a folder that experiments/cache.py created."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run it on scikit-learn's digits, in about a minute.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write to.",
            show_default="experiments/results of the source tree; experiment-results with --cache",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a table or figure of the paper or of this project, and write it as CSV, JSON, PNG and SVG."""
    page = _module("page")
    if name == "list":
        known = list(page.EXPERIMENTS)
        print_json({"experiments": known}) if as_json else print("\n".join(known))
        return
    if name != "all" and name not in page.EXPERIMENTS:
        raise typer.BadParameter(f"an experiment must be one of {', '.join(page.EXPERIMENTS)}, got {name!r}")
    if quick and cache:
        raise typer.BadParameter("--quick and --cache cannot be combined")
    finished, kept = _module("finished"), _module("records")
    if cache and name in finished.APART:
        raise InputError(f"{name!r} has a command of its own: `{finished.command(name)}`")
    folder = out or (Path("experiment-quick") if quick else kept.YOURS if cache else page.RESULTS)
    try:
        records = _records(page, name, folder, cache, quick)
        _show_all(page, records, folder, as_json) if name == "all" else _show(page, name, records, folder, as_json)
    except KeyboardInterrupt:
        exit_interrupted(NOT_KEPT if quick else CONTINUES)


def _records(page: Any, name: str, folder: Path, cache: Path | None, quick: bool) -> Any:
    """The records, after running what is missing."""
    if quick:
        return page.quick(list(page.EXPERIMENTS) if name == "all" else [name])
    runs = folder / "runs"
    if cache:
        _module("runs").run_cache(cache, runs)
    return page.Records.load(runs if cache or runs.exists() else page.RUNS)


def _show(page: Any, name: str, records: Any, folder: Path, as_json: bool) -> None:
    shown = page.show(name, records)
    written = shown.write(folder)
    print_json(_facts(shown, written)) if as_json else _print(shown, written)


def _show_all(page: Any, records: Any, folder: Path, as_json: bool) -> None:
    """Show every experiment that has records, and name the others."""
    no_records = _module("records").NoRecords
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
            _print(shown, written)
    for name, why in left_out.items():
        print_note(f"{name} is left out: {why}")
    if as_json:
        print_json({"shown": done, "left_out": left_out})


def _facts(shown: Any, written: list[Path]) -> dict[str, Any]:
    return {"experiment": shown.name, "files": [str(path) for path in written]}


def _print(shown: Any, written: list[Path]) -> None:
    print_note(f"{shown.name}: {shown.about}")
    for table in shown.tables:
        print_table(table.title, table.columns, table.rows)
    print_note(f"written to {written[0].parent}")


def _module(name: str) -> Any:
    """A module of the experiments, which are in the source tree beside the package, not in it."""
    if not (ROOT / "experiments" / "page.py").exists():
        raise InputError(f"experiments need the source tree, {ROOT} has none: clone the repository")
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"experiments.{name}")
