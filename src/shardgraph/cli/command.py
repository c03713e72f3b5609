"""How a command runs: its option groups, its workspace, its output, its errors and its exit code.

A command prints results on standard output, notes and progress bars on standard error.

exit code 0    success; also if the samples had already been forgotten
          1    failure; the message says what was asked, what was found and what to do
          2    invalid command line: an unknown option, a wrong value, no --yes where nobody can be asked
          4    `forget` only: forgotten and withdrawn, but not rebuilt, because the numerics differ
          130  interrupted by Ctrl-C; the next command continues the work, and `forget` says whether it was accepted
"""

import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import shardgraph
from shardgraph.cli.options.shared import DEFAULT_MACHINES, Machines
from shardgraph.errors import ShardgraphError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

FAILED, NOT_REBUILT, INTERRUPTED = 1, 4, 130
CONTINUES = "nothing is lost, the next command continues the work"
DEBUG = "SHARDGRAPH_DEBUG"  # the environment variable that shows tracebacks
WIDTH = 120  # of the output where there is no terminal, so that a digest stays on one line
Command = Callable[..., None]


# Running a command


def _without_types(parameters: list[Any]) -> list[Any]:
    """The parameters, of which flags show no type in the help: they take no value."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


class SingleCommand(TyperCommand):
    """A command whose flags show no type in the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters."""
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """All commands; its own flags show no type in the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters."""
        return _without_types(super().get_params(ctx))


def run_app(app: typer.Typer) -> None:
    """Run the command line; this module lists the exit codes."""
    try:
        app(prog_name="shardgraph")
    except KeyboardInterrupt:
        print_note("interrupted")
        raise SystemExit(INTERRUPTED) from None


def _print_version(asked: bool) -> None:
    if asked:
        print(shardgraph.__version__)
        raise typer.Exit


def global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of an unexpected error (also: {DEBUG}=1).")
    ] = False,
) -> None:
    """The options before a command's name."""
    if debug:
        os.environ[DEBUG] = "1"


def as_command(function: Command) -> Command:
    """The function as Typer runs it: option groups become single options, errors become messages and exit codes."""
    return _with_exit_codes(_with_single_options(function))


@contextmanager
def open_workspace(
    path: Path,
    machines: Machines = DEFAULT_MACHINES,
    *,
    device: str | None = None,
    backbone_path: str | None = None,
    resume: bool = True,
    record: Literal["check", "honour", "leave"] = "check",
) -> Iterator["shardgraph.Workspace"]:
    """The workspace at `path`, after finishing interrupted forgets; print results only after it is closed.

    Until then progress bars may be on the terminal. `record` says what happens if a record outside the workspace holds
    requests that the workspace, restored from a backup, lacks: an error (check), or they are carried out first
    (honour), or the command itself looks at the record (leave).
    """
    check_finite("--gpu-memory", machines.gpu_memory)
    if machines.executor != "ray" and (given := machines.ray_address or machines.ray_storage):
        raise typer.BadParameter(f"--ray-address and --ray-storage need --executor ray, got {given!r} without it")
    bars = ProgressBars()
    memory = machines.gpu_memory and int(machines.gpu_memory * 2**30)
    options = vars(machines) | {"gpu_memory": memory, "device": device, "progress": bars}
    options["backbone_path"] = backbone_path
    redirected = redirect_stdout(sys.stderr) if machines.executor == "ray" else nullcontext()  # Ray prints to stdout
    try:
        with redirected, shardgraph.Workspace(path, **options) as workspace:
            for certificate in workspace.resume() if resume else ():
                bars.close()
                print_note(f"finished a forget that had been interrupted: certificate {certificate.number}")
            try:
                _look_at_record(workspace, record)
                yield workspace
            finally:
                bars.close()
                for note in workspace.context.notes:
                    print_note(note)
    finally:
        bars.close()


def _look_at_record(workspace: "shardgraph.Workspace", how: str) -> None:
    if how == "check":
        workspace.context.check_log()
    elif how == "honour" and workspace.context.keeps_log:
        workspace.queue.honour_log(full=True)


def exit_interrupted(state: str = CONTINUES) -> NoReturn:
    """End the command after Ctrl-C and print the state of its work."""
    print_note(f"interrupted: {state}")
    raise typer.Exit(INTERRUPTED) from None


# Checking the values of options


@contextmanager
def checking_options() -> Iterator[None]:
    """Within it, an error of the library is about the value of an option: exit code 2."""
    try:
        yield
    except ShardgraphError as error:
        raise typer.BadParameter(str(error)) from error


def check_finite(option: str, value: float | None) -> None:
    """Raise if a number is infinite or not a number, which no range excludes."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, got {value}", param_hint=option)


def check_threshold(value: float) -> None:
    """Raise unless a cosine is above 0 and at most 1."""
    if not 0 < value <= 1:
        raise typer.BadParameter(f"must be above 0 and at most 1, got {value}", param_hint="--threshold")


# Printing


def print_json(value: Any) -> None:
    """Print one JSON object on one line."""
    with _standard_output():
        print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def print_note(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """Print names and their values as a table without a header."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(str(value)))
    _print(title, table)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with a header."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, padding=(0, 2, 0, 2))
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    _print(title, table)


def format_bytes(count: int) -> str:
    """A number of bytes with a decimal unit: "512 bytes", "1.5 MB"."""
    size, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{count} bytes" if count < 1000 else f"{size:.1f} {units[0]}"


class ProgressBars:
    """A workspace's `progress(what, done, of)`: one bar per kind of work, removed at the end; only on a terminal."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, of: int) -> None:
        if not sys.stderr.isatty() or not of:
            return
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=of)
        self._progress.update(self._tasks[what], completed=done, total=of)

    def close(self) -> None:
        """Remove the bars from the terminal."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._tasks = None, {}


# Option groups, errors and exit codes


def _with_single_options(function: Command) -> Command:
    """The function with the fields of a dataclass as parameters, in place of a parameter of that type."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}
    single = [part for each in parameters for part in _single(each)]

    @wraps(function)
    def run(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        function(**options)

    run.__signature__ = inspect.Signature(single)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in single}
    return run


def _single(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    if not is_dataclass(parameter.annotation):
        yield parameter
        return
    for field in fields(parameter.annotation):
        yield parameter.replace(name=field.name, default=field.default, annotation=field.type)


def _with_exit_codes(function: Command) -> Command:
    """The function, with every exception turned into a message and an exit code."""

    @wraps(function)
    def run(*values: Any, **options: Any) -> None:
        as_json = bool(options.get("as_json"))
        try:
            function(*values, **options)
        except (typer.Exit, typer.BadParameter, BrokenPipeError):
            raise  # handled by Typer
        except (KeyboardInterrupt, typer.Abort):
            exit_interrupted()
        except ShardgraphError as error:
            ids = {"ids": list(error.ids)} if error.ids else {}
            _fail(as_json, str(error), type(error).__name__, ids)
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            _fail(as_json, _unexpected(error), type(error).__name__, {})

    return run


def _fail(as_json: bool, message: str, kind: str, more: dict[str, Any]) -> NoReturn:
    if not (as_json and _printed({"error": message, "kind": kind} | more)):
        print_note(f"error: {message}")
    raise typer.Exit(FAILED) from None


def _printed(value: dict[str, Any]) -> bool:
    """Print an error as JSON; False if standard output cannot be written."""
    try:
        print_json(value)
    except BrokenPipeError:
        raise  # handled by Typer
    except OSError:
        return False
    return True


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return f"unexpected {type(error).__name__}: {error} (`shardgraph --debug ...` shows the traceback)"


# Consoles


def _print(title: str, table: "Table") -> None:
    from rich.text import Text

    console = _console()
    with _standard_output():
        console.print(Text(title, style="bold"))
        console.print(table)


def _console(*, stderr: bool = False) -> "Console":
    """A console that prints text as it is, without markup or highlighting."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, markup=False, highlight=False, width=None if terminal else WIDTH)


@contextmanager
def _standard_output() -> Iterator[None]:
    """Name standard output in an OSError, which otherwise would name no file."""
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def _new_progress() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=_console(stderr=True), transient=True)
