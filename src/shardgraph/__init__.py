"""Machine unlearning with shard graphs: learn, predict, forget exactly, prove it.

Public names are loaded when they are first used, so that `import shardgraph` costs next to nothing.
"""

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
    "Samples": "storage.samples",
    "from_arrays": "storage.samples",
    "read_arrays": "embedding.readers.arrays",
    "register_backbone": "embedding.backbones.registered",
    "Budget": "learn.private.accounting.budget",
    "PrivacyTerms": "learn.private.accounting.terms",
    "PrivateRecipe": "learn.private.private_recipe",
    "budget_of": "learn.private.accounting.terms",
    "Recipe": "learn.recipe",
    "recipe": "learn.recipe",
    "backbone_identity": "forget.intake.embed",
    "Certificate": "forget.proof.certificate",
    "check_certificate": "forget.proof.certificate",
    "opens": "forget.proof.certificate",
    "ForgetPlan": "forget.erase.plan",
    "ForgetRequest": "forget.erase.plan",
    "Reach": "forget.rights.coverage",
    "Right": "forget.rights.rights",
    "SafeClassifier": "forget.classifier",
    "Verification": "forget.proof.verify",
    "Workspace": "forget.workspace",
    "ShardgraphError": "errors",
}

__all__ = [
    "Bilevel",
    "BilevelAcross",
    "Budget",
    "BySource",
    "BySourceBilevel",
    "Certificate",
    "Complete",
    "ForgetPlan",
    "ForgetRequest",
    "Group",
    "OwnGraph",
    "PrivacyTerms",
    "PrivateRecipe",
    "RandomDegree",
    "Reach",
    "Recipe",
    "Right",
    "SafeClassifier",
    "Samples",
    "ShardGraph",
    "ShardgraphError",
    "Topology",
    "Verification",
    "Workspace",
    "__version__",
    "backbone_identity",
    "budget_of",
    "check_certificate",
    "from_arrays",
    "opens",
    "read_arrays",
    "recipe",
    "register_backbone",
]

if TYPE_CHECKING:
    from shardgraph.embedding.backbones.registered import register_backbone
    from shardgraph.embedding.readers.arrays import read_arrays
    from shardgraph.errors import ShardgraphError
    from shardgraph.forget.classifier import SafeClassifier
    from shardgraph.forget.erase.plan import ForgetPlan, ForgetRequest
    from shardgraph.forget.intake.embed import backbone_identity
    from shardgraph.forget.proof.certificate import Certificate, check_certificate, opens
    from shardgraph.forget.proof.verify import Verification
    from shardgraph.forget.rights.coverage import Reach
    from shardgraph.forget.rights.rights import Right
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
    from shardgraph.learn.private.accounting.budget import Budget
    from shardgraph.learn.private.accounting.terms import PrivacyTerms, budget_of
    from shardgraph.learn.private.private_recipe import PrivateRecipe
    from shardgraph.learn.recipe import Recipe, recipe
    from shardgraph.storage.samples import Samples, from_arrays


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
