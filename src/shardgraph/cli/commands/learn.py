"""`train`, `evaluate` and `predict`."""

import csv
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardgraph.cli.command import (
    as_command,
    checking_options,
    open_workspace,
    print_facts,
    print_json,
    print_note,
    print_table,
)
from shardgraph.cli.options.shared import (
    DEFAULT_MACHINES,
    BackbonePath,
    Columns,
    Consumer,
    Device,
    Json,
    Machines,
    WorkspacePath,
)
from shardgraph.cli.options.train import (
    DEFAULT_GRAPH,
    DEFAULT_RECIPE,
    NO_PRIVACY,
    GraphOptions,
    PrivacyOptions,
    RecipeOptions,
    privacy_of,
    recipe_of,
    topology_of,
)
from shardgraph.errors import InputError, WorkspaceBusy

if TYPE_CHECKING:
    import numpy as np

    from shardgraph.forget import Workspace
    from shardgraph.learn.ensemble import Model

SHOWN = 20  # predictions that are printed
CLASSES = 100  # whose accuracy is printed


def _take_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the values of a file as the defaults of the other options."""
    if path is not None and not context.resilient_parsing:
        from shardgraph.cli.options.config_file import read_options

        parameters = inspect.signature(as_command(train)).parameters
        long = {opt[2:]: each.name for each in context.command.params for opt in each.opts if opt.startswith("--")}
        known = {name: parameters[own] for name, own in long.items() if own in parameters}
        context.default_map = read_options(path, known)
    return path


def train(
    workspace: WorkspacePath,
    graph: GraphOptions = DEFAULT_GRAPH,
    recipe: RecipeOptions = DEFAULT_RECIPE,
    privacy: PrivacyOptions = NO_PRIVACY,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild everything.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            is_eager=True,
            callback=_take_config,
            help="A TOML file with options of this command; options on the command line win.",
        ),
    ] = None,
    device: Annotated[
        Device | None,
        typer.Option(
            help="Where groups are trained; the resulting bytes depend on it.",
            show_default="as the model was built; at first, a GPU if there is one",
        ),
    ] = None,
    machines: Machines = DEFAULT_MACHINES,
    as_json: Json = False,
) -> None:
    """Assign the samples in the inbox to shards and train the groups that are missing."""
    topology, how, (terms, budget) = topology_of(graph), recipe_of(recipe), privacy_of(privacy)
    from shardgraph.storage.tables import inventory

    with open_workspace(workspace, machines, device=device, record="honour") as ws:
        manifest = ws.train(topology, how, privacy=terms, budget=budget, rebuild=rebuild)
        samples = inventory.count_by_split(ws.context.catalogue)
        private = ws.config.the_privacy()
    facts: dict[str, object] = {
        "model_digest": manifest.model_digest,
        "groups": len(manifest.groups),
        "classes": len(manifest.classes),
        "lambda": manifest.weight,
        "samples": samples,
    }
    shown = facts | {"lambda": f"{manifest.weight:.3f}", "samples": f"{samples['train']} train"}
    if private is not None:
        facts["privacy"] = {
            "epsilon": private.epsilon,
            "delta": private.delta,
            "noise": private.recipe.noise,
            "budget": str(private.budget),
        }
        shown["privacy"] = f"epsilon {private.epsilon:g}, delta {private.delta:g}, budget {private.budget}"
    print_json(facts) if as_json else print_facts("trained", shown.items())


def evaluate(workspace: WorkspacePath, consumer: Consumer = None, as_json: Json = False) -> None:
    """Print the accuracy on the samples whose split is test."""
    with open_workspace(workspace) as ws:
        model = ws.model() if consumer is None else ws.consumers.model(consumer)
        facts = ws.evaluate(consumer) | {"model_digest": model.digest}
        _check_same(ws, model, consumer)
    if as_json:
        print_json(facts)
        return
    rows = [
        ("accuracy", f"{facts['accuracy']:.2%} ({facts['correct']} of {facts['samples']})"),
        ("macro accuracy", f"{facts['macro_accuracy']:.2%} (mean over {len(facts['classes'])} classes)"),
    ]
    if facts["unknown"]:
        rows.append(("samples of classes that the model does not have", facts["unknown"]))
    print_facts("evaluated", [*rows, ("model", facts["model_digest"])])
    table = [(one["label"], f"{one['accuracy']:.2%}", one["correct"], one["samples"]) for one in facts["classes"]]
    print_table("by class", ("class", "accuracy", "correct", "of"), table[:CLASSES])
    if len(table) > CLASSES:
        print_note(f"and {len(table) - CLASSES} more classes: --json gives all")


def predict(
    workspace: WorkspacePath,
    data: Annotated[
        Path | None,
        typer.Argument(help="Data as for `add`, without labels, or one image.", show_default=False, path_type=str),
    ] = None,
    text: Annotated[list[str] | None, typer.Option(help="A text, instead of data; may be repeated.")] = None,
    column: Columns = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of classes per sample.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all predictions to a .csv or .json file.")
    ] = None,
    consumer: Consumer = None,
    backbone_path: BackbonePath = None,
    as_json: Json = False,
) -> None:
    """Predict the classes of samples."""
    from shardgraph.cli.reading import named_columns, queries, texts

    with checking_options():
        named_columns(column or ())
    if (data is None) == (not text):
        raise typer.BadParameter("give either data or --text")
    if out is not None:
        _check_writable(out)
    with open_workspace(workspace, backbone_path=backbone_path) as ws:
        model = ws.model() if consumer is None else ws.consumers.model(consumer)
        batches = texts(ws, text or ()) if data is None else queries(ws, str(data), column or ())
        scored = ((batch, ws.scores(batch, consumer)) for batch in batches)
        predictions = [each for batch, scores in scored for each in _best(batch.ids, scores, model.classes, top_k)]
        _check_same(ws, model, consumer)
    if out is not None:
        _write(predictions, out)
    if as_json:
        facts: dict[str, object] = {"model_digest": model.digest, "samples": len(predictions)}
        print_json(facts | ({"out": str(out)} if out else {"predictions": [each.to_json() for each in predictions]}))
    elif out is not None:
        print_facts("predicted", [("samples", len(predictions)), ("written to", out)])
    else:
        _print_predictions(predictions)


def _check_same(ws: "Workspace", model: "Model", consumer: str | None) -> None:
    """Raise if another process changed what may be served since the model was loaded: its answers are not printed."""
    if ws.model(consumer).digest != model.digest:
        raise WorkspaceBusy("the model changed while it was used, by a forget or a training; run the command again")


@dataclass(frozen=True)
class Prediction:
    """The best classes of one sample with their scores SAFE(z), best first."""

    id: str
    top: tuple[tuple[str, float], ...]

    def to_json(self) -> dict[str, Any]:
        """The prediction as a plain dict."""
        label, score = self.top[0]
        top = [{"label": label, "score": score} for label, score in self.top]
        return {"id": self.id, "label": label, "score": score} | ({"top": top} if len(top) > 1 else {})


def _best(ids: Sequence[str], scores: "np.ndarray", classes: Sequence[str], k: int) -> list[Prediction]:
    """The `k` best classes of every row of scores [n, K]."""
    order = (-scores).argsort(axis=1, kind="stable")[:, :k]
    return [
        Prediction(name, tuple((classes[j], float(row[j])) for j in chosen.tolist()))
        for name, row, chosen in zip(ids, scores, order, strict=True)
    ]


def _check_writable(path: Path) -> None:
    """Raise unless predictions can be written to `path`, before they are computed."""
    if path.suffix not in (".csv", ".json"):
        raise typer.BadParameter(f"predictions must be written to a .csv or .json file, got {path}", param_hint="--out")
    if not path.parent.is_dir():
        raise InputError(f"predictions must be written to an existing folder, {path.parent} does not exist")


def _write(predictions: Sequence[Prediction], path: Path) -> None:
    """Write predictions: one row per sample and rank (.csv), or a list (.json)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".json":
            json.dump([prediction.to_json() for prediction in predictions], file, ensure_ascii=False)
            return
        rows = csv.writer(file)
        rows.writerow(("id", "rank", "label", "score"))
        for prediction in predictions:
            rows.writerows((prediction.id, rank, *found) for rank, found in enumerate(prediction.top, start=1))


def _print_predictions(predictions: list[Prediction]) -> None:
    rows = [(p.id, ", ".join(f"{label} ({score:.3f})" for label, score in p.top)) for p in predictions[:SHOWN]]
    if more := len(predictions) - len(rows):
        rows.append((f"and {more} more", "--out FILE or --json gives all"))
    print_table("predicted", ("sample", "class (score)"), rows)
