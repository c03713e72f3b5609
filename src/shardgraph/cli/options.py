"""The options that several commands share, and the request that the selectors make."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.errors import InputError

Where = Annotated[Path, typer.Argument(metavar="WORKSPACE", help="The workspace's folder.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else there.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that train groups; the bytes do not depend on it.", show_default="one a core"),
]
_WHERE = "Where it runs (the bytes do not depend on it)"
ExecutorKind = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="KIND",
        help="serial, processes or ray.",
        show_default="what fits the work",
        rich_help_panel=_WHERE,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT|auto",
        help="An existing Ray cluster, of which this machine is a node.",
        show_default="RAY_ADDRESS, else a cluster on this machine",
        rich_help_panel=_WHERE,
    ),
]
RayStorage = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Storage (s3://..., gs://...) that lends the nodes shard files while they train.",
        show_default="the workspace's own path",
        rich_help_panel=_WHERE,
    ),
]


GpuMemory = Annotated[
    float | None,
    typer.Option(
        metavar="GIB",
        min=0.001,
        help="The most of a GPU's memory to use; groups go through it in waves.",
        show_default="what is free",
        rich_help_panel=_WHERE,
    ),
]


@dataclass(frozen=True)
class Machines:
    """Where a command's work runs; the bytes do not depend on it."""

    workers: Workers = None
    executor: ExecutorKind = None
    ray_address: RayAddress = None
    ray_storage: RayStorage = None
    gpu_memory: GpuMemory = None

    def options(self) -> dict[str, Any]:
        """As `shardgraph.Workspace` takes them."""
        return vars(self) | {"gpu_memory": self.gpu_memory and int(self.gpu_memory * 2**30)}


ANYWHERE = Machines()

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="MEANING=NAME",
        help="A table's column: id, image, path, text, label, source, subject or split; may be repeated.",
    ),
]

As = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Answer by the model of this consumer's right.")]

Sample = Annotated[list[str] | None, typer.Option("--sample", metavar="ID", help="A sample; may be repeated.")]
Source = Annotated[list[str] | None, typer.Option("--source", help="All samples of a source; may be repeated.")]
Subject = Annotated[list[str] | None, typer.Option("--subject", help="All samples about a subject; may be repeated.")]
Shard = Annotated[list[str] | None, typer.Option("--shard", help="All samples of a shard; may be repeated.")]
Label = Annotated[list[str] | None, typer.Option("--label", help="All samples of a class; may be repeated.")]
WithTwins = Annotated[
    bool, typer.Option("--with-twins", help="Also the samples that hold the same content, exactly or nearly.")
]
Threshold = Annotated[float, typer.Option(help="The cosine of pooled features from which samples are near twins.")]
FromFile = Annotated[str | None, typer.Option(metavar="FILE", help="Samples, one id a line; '-' reads standard input.")]


def request_of(
    sample: list[str] | None,
    source: list[str] | None,
    subject: list[str] | None,
    shard: list[str] | None,
    label: list[str] | None,
    from_file: str | None,
    reason: str = "",
) -> "shardgraph.ForgetRequest":
    """The request that the selectors make."""
    return shardgraph.ForgetRequest(
        samples=(*(sample or ()), *(lines(from_file) if from_file else ())),
        sources=tuple(source or ()),
        subjects=tuple(subject or ()),
        shards=tuple(shard or ()),
        labels=tuple(label or ()),
        reason=reason,
    )


def lines(path: str) -> list[str]:
    """The lines of a text file ('-': of standard input) that are not empty."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a text file in UTF-8, got {error}") from error
    return [line.rstrip("\r") for line in text.split("\n") if line.rstrip("\r")]
