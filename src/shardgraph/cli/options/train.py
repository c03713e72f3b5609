"""The option groups of `train`, and the library values that they stand for; None if no option of a group is given."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.command import checking_options
from shardgraph.errors import InputError

_GRAPH = "Shard graph (fixed by the first training)"
_RECIPE = "Recipe (fixed by the first training)"
_PRIVACY = "Private edges (fixed by the first training, except the budget)"
_BILEVEL = ("bilevel", "bilevel-across", "by-source-bilevel")


@dataclass(frozen=True)
class GraphOptions:
    """The shard graph: a kind with its parameters, or a file."""

    coarse: Annotated[int | None, typer.Option(help="Number of coarse shards, n_c.", rich_help_panel=_GRAPH)] = None
    fine: Annotated[
        int | None, typer.Option(help="Number of fine cliques per coarse shard, n_f.", rich_help_panel=_GRAPH)
    ] = None
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|FILE",
            help="bilevel, bilevel-across, by-source-bilevel, by-source, random, complete, or a JSON file.",
            show_default="bilevel",
            rich_help_panel=_GRAPH,
        ),
    ] = None
    assignment: Annotated[
        str | None,
        typer.Option(
            help="How samples are assigned to shards: hash, or balanced (as in the paper; guarantees less).",
            show_default="hash",
            rich_help_panel=_GRAPH,
        ),
    ] = None
    shards: Annotated[
        int | None, typer.Option(help="Number of shards of a random or complete graph.", rich_help_panel=_GRAPH)
    ] = None
    degree: Annotated[
        int | None,
        typer.Option(
            help="Number of other shards that each shard of a random graph learns from.", rich_help_panel=_GRAPH
        ),
    ] = None
    safe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="A source from which all shards of a by-source graph may learn; may be repeated.",
            rich_help_panel=_GRAPH,
        ),
    ] = None


@dataclass(frozen=True)
class RecipeOptions:
    """The recipe: a name, and changes to it."""

    recipe: Annotated[
        str | None, typer.Option(help="default, paper or linear.", show_default="default", rich_help_panel=_RECIPE)
    ] = None
    epochs: Annotated[int | None, typer.Option(rich_help_panel=_RECIPE, help="Passes over a group's samples.")] = None
    lr: Annotated[
        float | None, typer.Option(rich_help_panel=_RECIPE, help="Initial learning rate (cosine schedule).")
    ] = None
    batch: Annotated[int | None, typer.Option(rich_help_panel=_RECIPE, help="Samples per step.")] = None
    loss: Annotated[
        str | None,
        typer.Option(rich_help_panel=_RECIPE, help="ce (cross-entropy) or bce (one binary problem per adapter)."),
    ] = None
    adapter: Annotated[
        str | None,
        typer.Option(rich_help_panel=_RECIPE, help="Kind of the adapters: inca, linear or none (prototypes alone)."),
    ] = None
    projection: Annotated[
        str | None,
        typer.Option(rich_help_panel=_RECIPE, help="Frozen matrices of the attention: random, orthogonal or identity."),
    ] = None
    heads: Annotated[int | None, typer.Option(rich_help_panel=_RECIPE, help="Number of attention heads.")] = None
    method: Annotated[
        str | None,
        typer.Option(rich_help_panel=_RECIPE, help="Prototypes: second (second order) or safe (as in the paper)."),
    ] = None
    expansion: Annotated[
        int | None,
        typer.Option(rich_help_panel=_RECIPE, help="Random features per token dimension, for second-order prototypes."),
    ] = None
    shrinkage: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_RECIPE, help="Shrinkage of the covariance of second-order prototypes, from 0 to 1."
        ),
    ] = None
    mixing: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_RECIPE, help="Weight of second-order prototypes against the adapters, from 0 to 1."
        ),
    ] = None
    no_prototypes: Annotated[
        bool, typer.Option("--no-prototypes", rich_help_panel=_RECIPE, help="Use no class prototypes.")
    ] = False


@dataclass(frozen=True)
class PrivacyOptions:
    """Private edges and their budget."""

    private_edges: Annotated[
        bool,
        typer.Option(
            "--private-edges", rich_help_panel=_PRIVACY, help="Make every edge of the graph private (SAFE-DP)."
        ),
    ] = False
    epsilon: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_PRIVACY, help="Privacy loss of one sample to the adapters of other shards, epsilon."
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(rich_help_panel=_PRIVACY, help="Probability that epsilon does not hold; far below 1/n."),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_PRIVACY,
            help="Distance from a model that never saw the forgotten samples at which adapters are rebuilt: "
            "default (10, 1e-3) or paper (30, 1).",
            show_default="default",
        ),
    ] = None
    alpha_budget: Annotated[float | None, typer.Option(rich_help_panel=_PRIVACY, help="Alpha of the budget.")] = None
    beta_budget: Annotated[
        float | None, typer.Option(rich_help_panel=_PRIVACY, help="Beta of the budget, at most 1.")
    ] = None
    private_steps: Annotated[
        int | None, typer.Option(rich_help_panel=_PRIVACY, help="Noisy steps per build; see docs/privacy.md.")
    ] = None
    private_rate: Annotated[
        float | None,
        typer.Option(rich_help_panel=_PRIVACY, help="Probability that a neighbour's sample is in a step."),
    ] = None
    private_lr: Annotated[
        float | None, typer.Option(rich_help_panel=_PRIVACY, help="Learning rate of the noisy steps.")
    ] = None
    clip: Annotated[
        float | None, typer.Option(rich_help_panel=_PRIVACY, help="Largest norm of a sample's gradient in a step.")
    ] = None


DEFAULT_GRAPH, DEFAULT_RECIPE, NO_PRIVACY = GraphOptions(), RecipeOptions(), PrivacyOptions()


def topology_of(options: GraphOptions) -> "shardgraph.Topology | None":
    """The topology: by kind and parameters, or from a JSON file (of a topology, or of a graph)."""
    given = _given(options)
    if not given:
        return None
    kind = given.pop("topology", "bilevel")
    if kind.endswith(".json") or Path(kind).is_file():
        if given:
            raise typer.BadParameter(
                f"the parameters of a topology must be in {kind} or in options, got both: {[*given]}"
            )
        if not Path(kind).is_file():
            raise typer.BadParameter(f"the file of a topology must exist, {kind} does not", param_hint="--topology")
        return shardgraph.Topology.from_json(_read(Path(kind)))
    if kind in _BILEVEL and ("coarse" in given or "fine" in given):
        given = {"coarse": 1, "fine": 1} | given
    with checking_options():
        return shardgraph.Topology.from_json({"kind": kind} | given)


def recipe_of(options: RecipeOptions) -> "shardgraph.Recipe | None":
    """The recipe: by name, with changes."""
    given = _given(options)
    name, no_prototypes = given.pop("recipe", None), given.pop("no_prototypes")
    changes = given | ({"prototypes": False} if no_prototypes else {})
    if name is None and not changes:
        return None
    with checking_options():
        return shardgraph.recipe(name or "default", **changes)


def privacy_of(options: PrivacyOptions) -> "tuple[shardgraph.PrivacyTerms | None, shardgraph.Budget | None]":
    """The terms of private edges, and their budget, which may also change later on its own."""
    if options == NO_PRIVACY:
        return None, None
    with checking_options():
        return _privacy_of(options)


def _privacy_of(options: PrivacyOptions) -> "tuple[shardgraph.PrivacyTerms | None, shardgraph.Budget | None]":
    budget = shardgraph.budget_of(options.budget, options.alpha_budget, options.beta_budget)
    named = {
        "steps": options.private_steps, "rate": options.private_rate, "lr": options.private_lr, "clip": options.clip
    }  # fmt: skip
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if options.epsilon is None or options.delta is None:
        if options.private_edges or changes or options.epsilon is not None or options.delta is not None:
            raise InputError("private edges need --epsilon and --delta, for example --epsilon 2 --delta 1e-11")
        return None, budget
    terms = shardgraph.PrivacyTerms(
        options.epsilon, options.delta, every=options.private_edges, recipe=shardgraph.PrivateRecipe(**changes)
    )
    return (terms if budget is None else replace(terms, budget=budget)), budget


def _given(options: GraphOptions | RecipeOptions) -> dict[str, Any]:
    """The options that have a value."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: value for name, value in values.items() if value is not None and value != []}


def _read(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"the file of a topology must be JSON, {path} is not: {error}") from error
    is_graph = isinstance(value, dict) and set(value) == {"shards", "edges"}
    return {"kind": "graph", "own": value} if is_graph else value
