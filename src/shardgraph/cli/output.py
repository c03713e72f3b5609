"""What a command prints: results on standard output, notes and progress bars on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

WIDTH = 120  # of the output where there is no terminal, so that a digest stays on one line


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


def _new_progress() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=_console(stderr=True), transient=True)


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
