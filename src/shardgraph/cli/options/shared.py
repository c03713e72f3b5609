"""The options and option groups that several commands share. Nothing here runs: commands read the values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

Device = Literal["cpu", "cuda"]
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
        help="The name of a table's column: id, image, path, text, embedding, label, source, subject or split; "
        "may be repeated.",
    ),
]
BackbonePath = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Where the backbone lies: a folder, a file, or python:MODULE:FUNCTION; its identity must be the same.",
        show_default="SHARDGRAPH_BACKBONE, else where it was",
    ),
]
Consumer = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Use the model of this consumer's right.")]
Samples = Annotated[list[str] | None, typer.Option("--sample", metavar="ID", help="A sample; may be repeated.")]
Threshold = Annotated[
    float,
    typer.Option(
        help="Samples are near twins if the cosine of their pooled features is at least this, above 0 and at most 1."
    ),
]


@dataclass(frozen=True)
class Machines:
    """Where a command's work runs. The resulting bytes do not depend on it."""

    workers: Workers = None
    executor: Annotated[
        Literal["serial", "processes", "ray"] | None,
        typer.Option(
            "--executor",
            help="Where groups are trained.",
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
