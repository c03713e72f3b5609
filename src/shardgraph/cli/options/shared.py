"""The options and option groups that several commands share, and the checks of their values.

A wrong value ends the command with exit code 2 before anything is opened.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shardgraph.errors import ShardgraphError


@contextmanager
def checking_options() -> Iterator[None]:
    """Within it, an error of the library is about the value of an option: exit code 2."""
    try:
        yield
    except ShardgraphError as error:
        raise typer.BadParameter(str(error)) from error


def one_of(*names: str) -> Callable[[str | None], str | None]:
    """A check that an option has one of these values, or none."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"must be one of {', '.join(names)}, got {value!r}")
        return value

    return check


def share(value: float | None) -> float | None:
    """A check that an option is a share from 0 to 1, or has no value."""
    if value is not None and not 0 <= value <= 1:
        raise typer.BadParameter(f"must be a share from 0 to 1, got {value}")
    return value


def positive_share(value: float) -> float:
    """A check that an option is above 0 and at most 1."""
    if not 0 < value <= 1:
        raise typer.BadParameter(f"must be above 0 and at most 1, got {value}")
    return value


def finite(value: float | None) -> float | None:
    """A check that an option is a finite number, or has no value."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, got {value}")
    return value


on_device = one_of("cpu", "cuda")

_MACHINES = "Where the work runs (the resulting bytes do not depend on it)"

WorkspacePath = Annotated[Path, typer.Argument(metavar="WORKSPACE", help="The workspace's folder.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Processes that train groups; the resulting bytes do not depend on it.", show_default="one per core"
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="MEANING=NAME",
        help="The name of a table's column: id, image, path, text, label, source, subject or split; may be repeated.",
    ),
]
Consumer = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Use the model of this consumer's right.")]
Samples = Annotated[list[str] | None, typer.Option("--sample", metavar="ID", help="A sample; may be repeated.")]
Threshold = Annotated[
    float,
    typer.Option(
        callback=positive_share, help="Samples are near twins if the cosine of their pooled features is at least this."
    ),
]


@dataclass(frozen=True)
class Machines:
    """Where a command's work runs. The resulting bytes do not depend on it."""

    workers: Workers = None
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            metavar="KIND",
            callback=one_of("serial", "processes", "ray"),
            help="serial, processes or ray.",
            show_default="by the amount of work",
            rich_help_panel=_MACHINES,
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|auto",
            help="An existing Ray cluster that this machine is a node of.",
            show_default="RAY_ADDRESS, else a cluster on this machine",
            rich_help_panel=_MACHINES,
        ),
    ] = None
    ray_storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Object storage (s3://..., gs://...) through which the nodes read shard files during training.",
            show_default="the workspace's own path",
            rich_help_panel=_MACHINES,
        ),
    ] = None
    gpu_memory: Annotated[
        float | None,
        typer.Option(
            metavar="GIB",
            min=0.001,
            callback=finite,
            help="The most memory to use on a GPU; groups that do not fit together are trained in turn.",
            show_default="what is free",
            rich_help_panel=_MACHINES,
        ),
    ] = None


DEFAULT_MACHINES = Machines()


@dataclass(frozen=True)
class Selection:
    """The samples that `plan` and `forget` select."""

    sample: Samples = None
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="NAME", help="All samples of a source; may be repeated.")
    ] = None
    subject: Annotated[
        list[str] | None,
        typer.Option("--subject", metavar="NAME", help="All samples about a subject; may be repeated."),
    ] = None
    shard: Annotated[
        list[str] | None, typer.Option("--shard", metavar="NAME", help="All samples of a shard; may be repeated.")
    ] = None
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME", help="All samples of a class; may be repeated.")
    ] = None
    from_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with one sample id per line; '-': standard input.")
    ] = None
    with_twins: Annotated[
        bool, typer.Option("--with-twins", help="Also all samples with the same content, exactly or nearly.")
    ] = False
    threshold: Threshold = 0.98


NO_SELECTION = Selection()
