"""Machine unlearning with shard graphs: learn, predict, forget exactly, prove it.

Public names are loaded when they are first used, so that `import shardgraph` costs next to nothing.
"""
# ruff: noqa: F401 (what type checkers see below is what `__getattr__` gives)

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Bilevel": "graph",
    "BilevelAcross": "graph",
    "BySource": "graph",
    "BySourceBilevel": "graph",
    "Complete": "graph",
    "Group": "graph",
    "OwnGraph": "graph",
    "RandomDegree": "graph",
    "ShardGraph": "graph",
    "Topology": "graph",
    "Samples": "data.samples",
    "from_arrays": "data.samples",
    "read_arrays": "data.readers.arrays",
    "Budget": "learn.private.budget",
    "PrivacyTerms": "learn.private.terms",
    "PrivateRecipe": "learn.private.recipe",
    "budget_of": "learn.private.terms",
    "Recipe": "learn.recipe",
    "recipe": "learn.recipe",
    "backbone_identity": "forget.arrivals",
    "Certificate": "forget.certificate",
    "check_certificate": "forget.certificate",
    "opens": "forget.certificate",
    "ForgetPlan": "forget.plan",
    "ForgetRequest": "forget.request",
    "Reach": "forget.reach",
    "Right": "forget.rights",
    "SafeClassifier": "forget.classifier",
    "Verification": "forget.verify",
    "Workspace": "forget.workspace",
    "ShardgraphError": "errors",
}

__all__ = [*_HOMES, "__version__"]

if TYPE_CHECKING:
    from shardgraph.data.readers.arrays import read_arrays
    from shardgraph.data.samples import Samples, from_arrays
    from shardgraph.errors import ShardgraphError
    from shardgraph.forget.arrivals import backbone_identity
    from shardgraph.forget.certificate import Certificate, check_certificate, opens
    from shardgraph.forget.classifier import SafeClassifier
    from shardgraph.forget.plan import ForgetPlan
    from shardgraph.forget.reach import Reach
    from shardgraph.forget.request import ForgetRequest
    from shardgraph.forget.rights import Right
    from shardgraph.forget.verify import Verification
    from shardgraph.forget.workspace import Workspace
    from shardgraph.graph import (
        Bilevel,
        BilevelAcross,
        BySource,
        BySourceBilevel,
        Complete,
        Group,
        OwnGraph,
        RandomDegree,
        ShardGraph,
        Topology,
    )
    from shardgraph.learn.private.budget import Budget
    from shardgraph.learn.private.recipe import PrivateRecipe
    from shardgraph.learn.private.terms import PrivacyTerms, budget_of
    from shardgraph.learn.recipe import Recipe, recipe


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
