"""`train`, `evaluate` and `predict`."""

from pathlib import Path
from typing import Annotated

import typer

import shardgraph
from shardgraph.cli.flags import recipe_of, terms_of, topology_of
from shardgraph.cli.opening import opened
from shardgraph.cli.options import ANYWHERE, As, Columns, Json, Machines, Where
from shardgraph.cli.output import print_facts, print_json, print_table
from shardgraph.cli.predictions import Prediction, best, check_place, write
from shardgraph.errors import InputError

PRIVATE = "Private edges (fixed by the first train, but for the budget)"
SHOWN = 20  # predictions on a terminal

GRAPH, RECIPE = "Shard graph (fixed by the first train)", "Recipe (fixed by the first train)"


def train(
    workspace: Where,
    coarse: Annotated[int | None, typer.Option(help="Coarse shards, n_c.", rich_help_panel=GRAPH)] = None,
    fine: Annotated[int | None, typer.Option(help="Fine cliques a coarse shard, n_f.", rich_help_panel=GRAPH)] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|FILE",
            help="bilevel, bilevel-across, by-source-bilevel, by-source, random, complete, or a JSON file.",
            show_default="bilevel",
            rich_help_panel=GRAPH,
        ),
    ] = None,
    assignment: Annotated[
        str | None,
        typer.Option(
            help="hash, or balanced (the paper's; a weaker promise).", show_default="hash", rich_help_panel=GRAPH
        ),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(help="Shards of a random or complete graph.", rich_help_panel=GRAPH)
    ] = None,
    degree: Annotated[
        int | None, typer.Option(help="Others that each shard of a random graph learns from.", rich_help_panel=GRAPH)
    ] = None,
    safe: Annotated[
        list[str] | None,
        typer.Option(help="A source that by-source shards may all learn from; repeatable.", rich_help_panel=GRAPH),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="default, paper or linear.", show_default="default", rich_help_panel=RECIPE),
    ] = None,
    epochs: Annotated[int | None, typer.Option(rich_help_panel=RECIPE, help="Passes over a group's samples.")] = None,
    lr: Annotated[float | None, typer.Option(rich_help_panel=RECIPE, help="Where the cosine starts.")] = None,
    batch: Annotated[int | None, typer.Option(rich_help_panel=RECIPE, help="Samples a step.")] = None,
    loss: Annotated[str | None, typer.Option(rich_help_panel=RECIPE, help="ce or bce.")] = None,
    adapter: Annotated[str | None, typer.Option(rich_help_panel=RECIPE, help="inca or linear.")] = None,
    projection: Annotated[
        str | None, typer.Option(rich_help_panel=RECIPE, help="random, orthogonal or identity.")
    ] = None,
    heads: Annotated[int | None, typer.Option(rich_help_panel=RECIPE, help="Attention heads.")] = None,
    method: Annotated[
        str | None,
        typer.Option(rich_help_panel=RECIPE, help="Prototypes: second (second order) or safe (the paper's)."),
    ] = None,
    expansion: Annotated[
        int | None,
        typer.Option(rich_help_panel=RECIPE, help="Random token features of second-order prototypes, a dimension."),
    ] = None,
    shrinkage: Annotated[
        float | None, typer.Option(rich_help_panel=RECIPE, help="Of the second-order covariance, from 0 to 1.")
    ] = None,
    mixing: Annotated[
        float | None, typer.Option(rich_help_panel=RECIPE, help="Weight of second-order prototypes, from 0 to 1.")
    ] = None,
    no_prototypes: Annotated[
        bool, typer.Option("--no-prototypes", rich_help_panel=RECIPE, help="Leave class prototypes out.")
    ] = False,
    private_edges: Annotated[
        bool,
        typer.Option(
            "--private-edges", rich_help_panel=PRIVATE, help="Make every edge of the graph private (SAFE-DP)."
        ),
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(rich_help_panel=PRIVATE, help="What one sample may lose to other shards' adapters.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(rich_help_panel=PRIVATE, help="The chance that this fails; far below 1/n.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=PRIVATE,
            help="How far from never-saw before adapters are trained anew: default (10, 1e-3) or paper (30, 1).",
            show_default="default",
        ),
    ] = None,
    alpha_budget: Annotated[float | None, typer.Option(rich_help_panel=PRIVATE, help="The budget's alpha.")] = None,
    beta_budget: Annotated[
        float | None, typer.Option(rich_help_panel=PRIVATE, help="The budget's beta, at most 1.")
    ] = None,
    private_steps: Annotated[
        int | None, typer.Option(rich_help_panel=PRIVATE, help="Noisy steps of a build; see docs/privacy.md.")
    ] = None,
    private_rate: Annotated[
        float | None, typer.Option(rich_help_panel=PRIVATE, help="Chance of a neighbour's sample to be in a step.")
    ] = None,
    private_lr: Annotated[float | None, typer.Option(rich_help_panel=PRIVATE, help="Of the noisy steps.")] = None,
    clip: Annotated[
        float | None, typer.Option(rich_help_panel=PRIVATE, help="The most that a sample may move.")
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build everything anew, whatever is there.")] = False,
    device: Annotated[
        str | None,
        typer.Option(
            help="Where groups train: cpu or cuda; each has bytes of its own.",
            show_default="as before; at first, a GPU if there is one",
        ),
    ] = None,
    on: Machines = ANYWHERE,
    as_json: Json = False,
) -> None:
    """Place what waits in the inbox and train the groups that are missing."""
    graph = topology_of(
        topology, coarse=coarse, fine=fine, assignment=assignment, shards=shards, degree=degree, safe=safe or None
    )
    how = recipe_of(
        recipe,
        epochs=epochs,
        lr=lr,
        batch=batch,
        loss=loss,
        adapter=adapter,
        projection=projection,
        heads=heads,
        method=method,
        expansion=expansion,
        shrinkage=shrinkage,
        mixing=mixing,
        prototypes=False if no_prototypes else None,
    )
    allowed = shardgraph.budget_of(budget, alpha_budget, beta_budget)
    changes = {"steps": private_steps, "rate": private_rate, "lr": private_lr, "clip": clip}
    terms = terms_of(epsilon, delta, allowed, every=private_edges, **changes)
    if device not in (None, "cpu", "cuda"):
        raise InputError(f"device must be cpu or cuda, got {device!r}")
    with opened(workspace, on, device=device) as ws:
        manifest = ws.train(graph, how, privacy=terms, budget=allowed, rebuild=rebuild)
        samples = ws.counts()
        private = ws.config.the_privacy()
    facts = {
        "model_digest": manifest.model_digest,
        "groups": len(manifest.groups),
        "classes": len(manifest.classes),
        "lambda": manifest.weight,
        "samples": samples,
    }
    if private is not None:
        noise = private.recipe.noise
        facts["privacy"] = {
            "epsilon": private.epsilon,
            "delta": private.delta,
            "noise": noise,
            "budget": str(private.budget),
        }
    if as_json:
        print_json(facts)
    else:
        shown = facts | {"lambda": f"{manifest.weight:.3f}", "samples": f"{samples['train']} train"}
        if private is not None:
            shown["privacy"] = f"epsilon {private.epsilon:g}, delta {private.delta:g}, budget {private.budget}"
        print_facts("trained", shown.items())


def evaluate(workspace: Where, as_: As = None, as_json: Json = False) -> None:
    """Accuracy on the samples whose split is test."""
    with opened(workspace) as ws:
        model = ws.model() if as_ is None else ws.model_for(as_)
        facts = ws.evaluate(as_) | {"model_digest": model.digest}
    if as_json:
        print_json(facts)
    else:
        right = f"{facts['accuracy']:.2%} ({facts['correct']} of {facts['samples']})"
        strange = [("of classes that the model does not have", facts["unknown"])] if facts["unknown"] else []
        print_facts("evaluated", [("accuracy", right), *strange, ("model", facts["model_digest"])])


def predict(
    workspace: Where,
    data: Annotated[
        Path | None, typer.Argument(help="Data as for `add`, labels not needed, or an image.", show_default=False)
    ] = None,
    text: Annotated[list[str] | None, typer.Option(help="A text instead of data; may be repeated.")] = None,
    column: Columns = None,
    top_k: Annotated[int, typer.Option(min=1, help="How many classes a sample.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all of them to a .csv or .json file.")] = None,
    as_: As = None,
    as_json: Json = False,
) -> None:
    """Predict the classes of samples."""
    from shardgraph.cli.reading import queries, texts

    if (data is None) == (not text):
        raise typer.BadParameter("give data to predict, or --text, one of them")
    if out is not None:
        check_place(out)
    with opened(workspace) as ws:
        model = ws.model() if as_ is None else ws.model_for(as_)
        asked = texts(ws, text or ()) if data is None else queries(ws, data, column or ())
        parts = ((part, ws.scores(part, as_)) for part in asked)
        predictions = [p for part, scores in parts for p in best(part.ids, scores, model.classes, top_k)]
    if out is not None:
        write(predictions, out)
    if as_json:
        facts: dict[str, object] = {"model_digest": model.digest, "samples": len(predictions)}
        print_json(facts | ({"out": str(out)} if out else {"predictions": [p.to_json() for p in predictions]}))
    elif out is not None:
        print_facts("predicted", [("samples", len(predictions)), ("written to", out)])
    else:
        _show(predictions)


def _show(predictions: list[Prediction]) -> None:
    rows = [(p.id, ", ".join(f"{label} ({score:.3f})" for label, score in p.top)) for p in predictions[:SHOWN]]
    if more := len(predictions) - len(rows):
        rows.append((f"and {more} more", "--out FILE or --json gives all"))
    print_table("predicted", ("sample", "class (score)"), rows)
