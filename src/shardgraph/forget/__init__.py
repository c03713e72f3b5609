"""Forget: a workspace that learns, predicts, forgets exactly, and can prove it.

    workspace     Workspace: the entry point to everything below
    context       Context: the open parts of one workspace, which all modules share
    config        Config: everything that determines the model, except the samples
    migration     changes a workspace of an earlier catalogue layout to the current one
    status        figures about a workspace: what it holds, what is served, what waits
    learned       Learned: samples in memory and the model of them
    classifier    SafeClassifier: a scikit-learn classifier over them
    build/        which groups are wanted, which are built, and training the missing ones
    intake/       which samples are admitted, how they are embedded, what the first training fixes
    erase/        requests, plans, carrying out an erasure, recovery, twins
    proof/        keys, certificates, verification, the erasure log outside the workspace
    queue/        waiting requests, the batches that carry them out, statistics
    rights/       which part of the data a consumer may use, and the model of that part
    privacy/      what private edges have released, what removals cost, the guarantee in numbers
    views/        the served model, the graph, searches

`cli` and `service` import the names that this module exports; they do not import its submodules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Answer": "rights.model",
    "backbone_identity": "intake.embed",
    "backbone_location": "intake.embed",
    "Certificate": "proof.certificate",
    "Check": "proof.verify",
    "check_certificate": "proof.certificate",
    "Config": "config",
    "Costs": "queue.statistics",
    "costs": "queue.statistics",
    "Deadlines": "queue.statistics",
    "deadlines": "queue.statistics",
    "due_requests": "queue.queue",
    "evaluate_model": "views.served",
    "find_names": "views.search",
    "find_repeated": "queue.queue",
    "ForgetPlan": "erase.plan",
    "ForgetRequest": "erase.plan",
    "forgotten_as": "views.search",
    "Found": "views.search",
    "GraphView": "views.graph_view",
    "hide_withdrawn": "queue.statistics",
    "Key": "views.served",
    "last_forgetting": "queue.statistics",
    "load_backbone_of": "intake.embed",
    "measure": "queue.statistics",
    "Measurement": "queue.statistics",
    "measurements": "queue.statistics",
    "migrate_catalogue": "migration",
    "opens": "proof.certificate",
    "pending_migrations": "migration",
    "queries_at": "intake.inputs",
    "Reach": "rights.coverage",
    "Request": "queue.queue",
    "Right": "rights.rights",
    "right_of": "rights.rights",
    "SafeClassifier": "classifier",
    "SEARCHABLE": "views.search",
    "select_within": "erase.plan",
    "ShardSummary": "views.graph_view",
    "ShardView": "views.graph_view",
    "Submission": "queue.queue",
    "Verification": "proof.verify",
    "Workspace": "workspace",
}

__all__ = [
    "SEARCHABLE",
    "Answer",
    "Certificate",
    "Check",
    "Config",
    "Costs",
    "Deadlines",
    "ForgetPlan",
    "ForgetRequest",
    "Found",
    "GraphView",
    "Key",
    "Measurement",
    "Reach",
    "Request",
    "Right",
    "SafeClassifier",
    "ShardSummary",
    "ShardView",
    "Submission",
    "Verification",
    "Workspace",
    "backbone_identity",
    "backbone_location",
    "check_certificate",
    "costs",
    "deadlines",
    "due_requests",
    "evaluate_model",
    "find_names",
    "find_repeated",
    "forgotten_as",
    "hide_withdrawn",
    "last_forgetting",
    "load_backbone_of",
    "measure",
    "measurements",
    "migrate_catalogue",
    "opens",
    "pending_migrations",
    "queries_at",
    "right_of",
    "select_within",
]

if TYPE_CHECKING:
    from shardgraph.forget.classifier import SafeClassifier
    from shardgraph.forget.config import Config
    from shardgraph.forget.erase.plan import ForgetPlan, ForgetRequest, select_within
    from shardgraph.forget.intake.embed import backbone_identity, backbone_location, load_backbone_of
    from shardgraph.forget.intake.inputs import queries_at
    from shardgraph.forget.migration import migrate_catalogue, pending_migrations
    from shardgraph.forget.proof.certificate import Certificate, check_certificate, opens
    from shardgraph.forget.proof.verify import Check, Verification
    from shardgraph.forget.queue.queue import Request, Submission, due_requests, find_repeated
    from shardgraph.forget.queue.statistics import (
        Costs,
        Deadlines,
        Measurement,
        costs,
        deadlines,
        hide_withdrawn,
        last_forgetting,
        measure,
        measurements,
    )
    from shardgraph.forget.rights.coverage import Reach
    from shardgraph.forget.rights.model import Answer
    from shardgraph.forget.rights.rights import Right, right_of
    from shardgraph.forget.views.graph_view import GraphView, ShardSummary, ShardView
    from shardgraph.forget.views.search import SEARCHABLE, Found, find_names, forgotten_as
    from shardgraph.forget.views.served import Key, evaluate_model
    from shardgraph.forget.workspace import Workspace


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
