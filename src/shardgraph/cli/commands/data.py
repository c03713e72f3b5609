"""`init`, `add` and `source`: a new workspace, samples for it, and what is known about their sources."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import shardgraph
from shardgraph.cli.command import (
    ProgressBars,
    check_finite,
    checking_options,
    open_workspace,
    print_facts,
    print_json,
    print_note,
)
from shardgraph.cli.options.shared import (
    DEFAULT_MACHINES,
    BackbonePath,
    Columns,
    Device,
    Json,
    Machines,
    WorkspacePath,
)
from shardgraph.errors import ShardgraphError

SHOWN = 20  # skipped samples that are printed one by one


def init(
    workspace: WorkspacePath,
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="precomputed",
            help="The network that computes embeddings: precomputed (none, you bring embeddings), efficientnet-lite0 "
            "(1, 2), minilm, hf:NAME_OR_PATH, vit:PATH, timm:NAME or python:MODULE:FUNCTION.",
        ),
    ] = None,
    backbone_path: BackbonePath = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The seed of all randomness; keep it secret.", show_default="drawn at random"),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,... or @FILE",
            help="The class list, or a file with one class per line.",
            show_default="the labels present at the first training",
        ),
    ] = None,
    dtype: Annotated[
        Literal["float16", "float32"] | None, typer.Option(help="How tokens are stored.", show_default="float16")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="The layer of the backbone that gives tokens.", show_default="by the backbone")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Side of the square images, in pixels.", show_default="by the backbone")
    ] = None,
    device: Annotated[
        Device | None,
        typer.Option(help="Where the backbone runs.", show_default="a GPU if there is one"),
    ] = None,
    copy_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OLD",
            help="Take over the samples of another workspace, with its backbone and dtype, so that nothing is embedded "
            "again; not its keys, certificates, models and requests.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a workspace in a new or empty folder."""
    import secrets

    from shardgraph.forget import backbone_location

    declared = _class_list(classes)
    root = secrets.randbits(32) if seed is None else seed
    left_out: list[int] = []
    given: dict[str, Any] = {}
    bars = ProgressBars()
    location = None
    if copy_from is None:
        name, kind = backbone or "precomputed", dtype or "float16"
        _check_backbone(name)
        how: dict[str, Any] = {"dtype": kind, "layer": layer, "size": size, "device": device}
        location = backbone_location(name, backbone_path)
        given = {"backbone": shardgraph.backbone_identity(name, path=backbone_path, **how), "dtype": kind}
        given["backbone_path"] = location
    elif any(each is not None for each in (backbone, backbone_path, dtype, layer, size, device)):
        raise typer.BadParameter(
            "--from takes over backbone and dtype: "
            "give no --backbone, --backbone-path, --dtype, --layer, --size, --device"
        )
    else:
        given = {"copy_from": copy_from, "on_left_out": left_out.append, "progress": bars}
    try:
        made = shardgraph.Workspace.create(workspace, seed=root, classes=declared, **given)
    finally:
        bars.close()
    with made:
        facts: dict[str, Any] = {
            "workspace": str(workspace),
            "seed": root,
            "backbone": made.config.backbone["name"],
            "backbone_path": location,
            "dtype": made.config.dtype,
            "classes": None if made.config.classes is None else len(made.config.classes),
            "public_key": made.context.keys.public,
        }
        if copy_from is not None:
            facts |= {"samples": made.status()["samples"], "left_out": left_out[0]}
    if as_json:
        print_json(facts)
    else:
        shown = facts | ({"samples": "{train} train, {test} test".format(**facts["samples"])} if copy_from else {})
        print_facts("new workspace", [(name, value) for name, value in shown.items() if value is not None])


def add(
    workspace: WorkspacePath,
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="Arrays (.npz, .safetensors), tables (.parquet, .csv, .tsv, .jsonl), or folders of images by class "
            "(class/*.jpg, source/class/*.jpg): paths or URLs.",
            show_default=False,
            path_type=str,
        ),
    ],
    column: Columns = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out samples that cannot be read, instead of failing at the end.")
    ] = False,
    only_new: Annotated[
        bool,
        typer.Option(
            "--only-new",
            help="Skip samples that are already present with the same label, source, subject and split; "
            "the content is not compared.",
        ),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Leave the samples in the inbox and do not train yet.")] = False,
    allow_return: Annotated[
        bool, typer.Option("--allow-return", help="Accept samples that were forgotten before; the ledger records it.")
    ] = False,
    backbone_path: BackbonePath = None,
    machines: Machines = DEFAULT_MACHINES,
    as_json: Json = False,
) -> None:
    """Add samples; after the first training, also train the groups that they belong to."""
    from shardgraph.cli.reading import add_path, named_columns

    paths = [str(path) for path in data]  # they are strings already: a Path would lose a slash of a URL
    with checking_options():
        named_columns(column or ())
    added, present, bad = 0, 0, dict[str, str]()
    with open_workspace(workspace, machines, backbone_path=backbone_path, record="honour") as ws:
        for i, path in enumerate(paths):
            try:
                found = add_path(
                    ws, path, column or (), allow_return=allow_return, skip_bad=skip_bad, only_new=only_new
                )
            except ShardgraphError as error:
                if not i:
                    raise
                raise _naming_added(error, added, paths[:i], paths[i:]) from error
            added, present, bad = added + found.count, present + found.present, bad | found.bad
        if ws.config.trained and not wait:
            ws.train()
        status = ws.status()
    facts = {"added": added, "here_already": present, "skipped": bad} | {
        key: status[key] for key in ("waiting", "samples", "model_digest")
    }
    print_json(facts) if as_json else _print_added(facts)


def source(
    workspace: WorkspacePath,
    name: Annotated[str, typer.Argument(help="The source.", show_default=False)],
    owner: Annotated[str | None, typer.Option(help="The person or organisation that provided it.")] = None,
    terms: Annotated[str | None, typer.Option(help="The terms of use: a licence, a contract, a consent.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="The share of its samples that is expected to be forgotten per year, from 0 to 1."
        ),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the description; the samples stay.")] = False,
    as_json: Json = False,
) -> None:
    """Describe a source, or show its description."""
    check_finite("--rate", rate)
    if clear and (owner, terms, rate) != (None, None, None):
        raise typer.BadParameter("--clear cannot be combined with --owner, --terms or --rate")
    with open_workspace(workspace, record="honour") as ws:
        if clear:
            ws.sources.clear(name)
            facts = {"source": name, "cleared": True}
        else:
            facts = {"source": name} | ws.sources.describe(name, owner=owner, terms=terms, rate=rate).to_json()
    print_json(facts) if as_json else print_facts("source", facts.items())


def _check_backbone(name: str) -> None:
    """Raise if no backbone has this name."""
    from shardgraph.embedding.backbones.registry import names

    known = ["precomputed", *names()]
    if name.partition(":")[0] not in {each.partition(":")[0] for each in known}:
        raise typer.BadParameter(f"must be one of {', '.join(known)}, got {name!r}", param_hint="--backbone")


def _class_list(given: str | None) -> list[str] | None:
    if given is None:
        return None
    if given.startswith("@"):
        from shardgraph.cli.reading import read_lines

        names = read_lines(given[1:])
    else:
        names = [name.strip() for name in given.split(",")]
    if not all(names) or not names:
        raise typer.BadParameter(
            f"a class list must hold names that are not empty, got {given!r}", param_hint="--classes"
        )
    return names


def _naming_added(error: ShardgraphError, added: int, done: Sequence[str], left: Sequence[str]) -> ShardgraphError:
    """The error, naming the files that were added before it and those that are still to be added."""
    from shardgraph.embedding.remote import without_secrets

    before, rest = (without_secrets(" ".join(paths)) for paths in (done, left))
    advice = f"{added} samples of {before} were added and wait in the inbox; add {rest} again, without {before}"
    return type(error)(f"{error}; {advice}", error.ids)


def _print_added(facts: dict[str, Any]) -> None:
    for name, why in list(facts["skipped"].items())[:SHOWN]:
        print_note(f"skipped {name}: {why}")
    rows = [("samples added", facts["added"])]
    if facts["here_already"]:
        rows.append(("already present", facts["here_already"]))
    if facts["skipped"]:
        rows.append(("skipped", len(facts["skipped"])))
    rows.append(("samples now", "{train} train, {test} test".format(**facts["samples"])))
    if facts["waiting"]:
        rows.append(("waiting in the inbox", f"{facts['waiting']}; `shardgraph train` assigns them to shards"))
    else:
        rows.append(("model", facts["model_digest"]))
    print_facts("added", rows)
