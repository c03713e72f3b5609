"""What a person or a script gets to read: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 120  # where there is no terminal, so that a digest stays on its line


def print_json(value: Any) -> None:
    """One JSON object on a line of its own."""
    with _to_standard_output():
        print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def say(text: str) -> None:
    """A remark, on standard error."""
    print(text, file=sys.stderr, flush=True)


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """A small table of names and values."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(str(value)))
    _print(title, table)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A small table with a head."""
    table = Table(*columns, box=None, padding=(0, 2, 0, 2))
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    _print(title, table)


def _print(title: str, table: Table) -> None:
    out = console()
    with _to_standard_output():
        out.print(Text(title, style="bold"))
        out.print(table)


@contextmanager
def _to_standard_output() -> Iterator[None]:
    """Let an error say that it is standard output that cannot be written, not a file."""
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def console(*, stderr: bool = False) -> Console:
    """A console that prints what it is given: no markup, no guessed colours."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, markup=False, highlight=False, width=None if terminal else PIPE_WIDTH)


def as_bytes(count: int) -> str:
    """A number of bytes as a person says it."""
    size, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{count} bytes" if count < 1000 else f"{size:.1f} {units[0]}"
