"""Forget: a workspace that learns, predicts, forgets exactly, and can prove it.

    workspace     Workspace, the front: everything else is reached through it
    context       the open parts of one workspace, which all others share
    config        everything but the samples that the model is a function of
    status        what is here, what is served and what waits, in figures
    classifier    SafeClassifier: the same on arrays in memory, in the shape of scikit-learn
    build/        what is wanted, what is built, and making the two agree
    intake/       which samples may come in, how they are embedded, what the first training fixes
    erase/        requests, plans, carrying an erasure out, recovery, twins
    proof/        keys, certificates, the guarantee, the ledger, verification, the log outside the workspace
    queue/        requests that wait, the batches that carry them out, statistics
    rights/       which part of the data a consumer may use, and the model of that part
    privacy/      what private edges have released and what removals cost
    views/        the served model, the graph, searches

The doors (`cli`, `service`) import what this module names, and nothing below it.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Answer": "rights.model",
    "Certificate": "proof.certificate",
    "Check": "proof.verify",
    "Config": "config",
    "ForgetPlan": "erase.plan",
    "ForgetRequest": "erase.request",
    "GraphView": "views.graph_view",
    "Manifest": "build.manifest",
    "Measurement": "queue.statistics",
    "Reach": "rights.coverage",
    "Request": "queue.queue",
    "Right": "rights.rights",
    "SafeClassifier": "classifier",
    "ShardView": "views.graph_view",
    "Submission": "queue.queue",
    "Verification": "proof.verify",
    "Workspace": "workspace",
    "backbone_identity": "intake.embed",
    "check_certificate": "proof.certificate",
    "load_backbone_of": "intake.embed",
    "opens": "proof.certificate",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
