"""From flags to the topology and the recipe that a training is given; None where no flag was."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import shardgraph
from shardgraph.errors import InputError

_LEVELLED = ("bilevel", "bilevel-across", "by-source-bilevel")


def topology_of(kind_or_file: str | None, **parameters: Any) -> "shardgraph.Topology | None":
    """A topology by its kind and its parameters, or out of a JSON file (a topology's, or a graph's own)."""
    given = {name: value for name, value in parameters.items() if value is not None}
    if kind_or_file is None and not given:
        return None
    kind = kind_or_file or "bilevel"
    if kind.endswith(".json") or Path(kind).is_file():
        if given:
            raise InputError(f"a topology's parameters must stand in {kind} or be given as flags, got both: {[*given]}")
        return shardgraph.Topology.from_json(_read(Path(kind)))
    if kind in _LEVELLED and ("coarse" in given or "fine" in given):
        given = {"coarse": 1, "fine": 1} | given
    return shardgraph.Topology.from_json({"kind": kind} | given)


def recipe_of(name: str | None, **changes: Any) -> "shardgraph.Recipe | None":
    """A recipe by its name, with changes."""
    given = {key: value for key, value in changes.items() if value is not None}
    if name is None and not given:
        return None
    return shardgraph.recipe(name or "default", **given)


def terms_of(
    epsilon: float | None, delta: float | None, budget: "shardgraph.Budget | None", *, every: bool, **changes: Any
) -> "shardgraph.PrivacyTerms | None":
    """The terms of private edges; None where no flag asks for any."""
    given = {key: value for key, value in changes.items() if value is not None}
    if epsilon is None or delta is None:
        if every or given or epsilon is not None or delta is not None:
            raise InputError("private edges need --epsilon and --delta, both of them (say --epsilon 2 --delta 1e-11)")
        return None
    terms = shardgraph.PrivacyTerms(epsilon, delta, every=every, recipe=shardgraph.PrivateRecipe(**given))
    return terms if budget is None else replace(terms, budget=budget)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"a topology's file must be JSON, {path} is not: {error}") from error
    is_graph = isinstance(value, dict) and set(value) == {"shards", "edges"}
    return {"kind": "graph", "own": value} if is_graph else value
