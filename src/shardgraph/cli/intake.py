"""`init` and `add`: a new workspace, and samples for it."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.opening import opened
from shardgraph.cli.options import ANYWHERE, Columns, Json, Machines, Where, lines
from shardgraph.cli.output import print_facts, print_json, say
from shardgraph.errors import InputError, ShardgraphError

SHOWN = 20  # unreadable samples on a terminal


def init(
    workspace: Where,
    backbone: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What makes the embeddings: precomputed (you do), efficientnet-lite0 (1, 2), minilm, "
            "hf:NAME_OR_PATH or vit:PATH.",
        ),
    ] = "precomputed",
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The root of all randomness; keep it to yourself.", show_default="drawn at random"),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,... or @FILE",
            help="The class list, or a file with one class a line.",
            show_default="the labels present at the first train",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="How tokens are stored: float16 or float32.")] = "float16",
    layer: Annotated[
        int | None, typer.Option(help="The backbone's layer that gives tokens.", show_default="the backbone's own")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Pixels of a square image.", show_default="the backbone's own")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where the backbone runs: cpu or cuda.", show_default="a GPU if there is one")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a new workspace."""
    declared = _classes(classes)
    identity = shardgraph.backbone_identity(backbone, dtype=dtype, layer=layer, size=size, device=device)
    root = secrets.randbits(32) if seed is None else seed
    with shardgraph.Workspace.create(workspace, seed=root, backbone=identity, classes=declared, dtype=dtype) as made:
        facts = {
            "workspace": str(workspace),
            "seed": root,
            "backbone": identity["name"],
            "dtype": dtype,
            "classes": None if made.config.classes is None else len(made.config.classes),
            "public_key": made.secrets.public,
        }
    if as_json:
        print_json(facts)
    else:
        print_facts("new workspace", [(name, value) for name, value in facts.items() if value is not None])


def add(
    workspace: Where,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="Arrays (.npz, .safetensors), tables (.parquet, .csv, .tsv), or folders of images by class "
            "(class/*.jpg, source/class/*.jpg).",
            show_default=False,
        ),
    ],
    column: Columns = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out what cannot be read, instead of failing in the end.")
    ] = False,
    only_new: Annotated[
        bool,
        typer.Option(
            "--only-new",
            help="Pass over samples that are here already with the same label, source, subject and split; "
            "their content is not compared.",
        ),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Leave the samples in the inbox for a later train.")] = False,
    allow_return: Annotated[
        bool, typer.Option("--allow-return", help="Let samples come back that were forgotten; the ledger records it.")
    ] = False,
    on: Machines = ANYWHERE,
    as_json: Json = False,
) -> None:
    """Add samples; after the first train, only the groups they fall in are trained again."""
    from shardgraph.cli.reading import add_path

    added, here, bad = 0, 0, dict[str, str]()
    with opened(workspace, on) as ws:
        for i, path in enumerate(paths):
            try:
                found = add_path(
                    ws, path, column or (), allow_return=allow_return, skip_bad=skip_bad, only_new=only_new
                )
            except ShardgraphError as error:
                if not i:
                    raise
                raise _after(error, added, paths[:i], paths[i:]) from error
            added, here, bad = added + found.count, here + found.here, bad | found.bad
        if ws.config.trained and not wait:
            ws.train()
        status = ws.status()
    facts = {"added": added, "here_already": here, "skipped": bad} | {
        key: status[key] for key in ("waiting", "samples", "model_digest")
    }
    print_json(facts) if as_json else _report(facts)


def _after(error: ShardgraphError, added: int, before: Sequence[Path], rest: Sequence[Path]) -> ShardgraphError:
    """The error, with what was added before it and what is to be added again."""
    done, left = (" ".join(str(path) for path in paths) for paths in (before, rest))
    words = f"{added} samples of {done} were added and wait in the inbox; add {left} again, without {done}"
    return type(error)(f"{error}; {words}", error.ids)


def _report(facts: dict[str, Any]) -> None:
    for name, why in list(facts["skipped"].items())[:SHOWN]:
        say(f"skipped {name}: {why}")
    rows = [("samples added", facts["added"])]
    if facts["here_already"]:
        rows.append(("here already", facts["here_already"]))
    if facts["skipped"]:
        rows.append(("skipped", len(facts["skipped"])))
    rows.append(("now here", "{train} train, {test} test".format(**facts["samples"])))
    if facts["waiting"]:
        rows.append(("waiting in the inbox", f"{facts['waiting']}; `shardgraph train` places them"))
    else:
        rows.append(("model", facts["model_digest"]))
    print_facts("added", rows)


def _classes(given: str | None) -> list[str] | None:
    if given is None:
        return None
    names = lines(given[1:]) if given.startswith("@") else [name.strip() for name in given.split(",")]
    if not all(names) or not names:
        raise InputError(f"a class list must hold names that are not empty, got {given!r}")
    return names
