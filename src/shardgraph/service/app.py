"""The application: routes, pages, middleware, and what lives as long as they do."""

from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI

from shardgraph import __version__
from shardgraph.service.error_responses import add_error_handlers
from shardgraph.service.middleware import add_middleware
from shardgraph.service.pages.router import add_pages
from shardgraph.service.routes import operation, predictions, proofs, requests, rights
from shardgraph.service.runtime.metrics import Metrics
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.service.runtime.supervisor import Supervisor, Worker

ABOUT = """Forget requests, predictions and proofs of one workspace.

From the moment a request is accepted, no answer is sent that used anything that saw its data. Groups that read the data
through private edges are the exception: they stay in service within their budget, and the preview and the certificate
say how much of it is spent. Every prediction carries a state id, and the ledger says what was served under it."""


def create_app(
    root: Path,
    worker: Worker,
    originals: Path | None = None,
    *,
    grace: float = 0.0,
    backbone: predictions.BackboneCache | None = None,
) -> FastAPI:
    """The service of a workspace; `worker` carries its requests out. The caller holds the serving lock.

    `originals` is a folder with the images or texts that samples were made from, for the pages to show. `grace` is how
    many seconds the worker lets a request wait. `backbone` embeds images and texts; by default it is loaded from where
    the workspace says.
    """
    runtime = Runtime(root, wake_worker=worker.wake, grace=grace)
    supervisor = Supervisor(runtime, worker)
    about: dict[str, Any] = {"title": "shardgraph", "version": __version__, "description": ABOUT}
    # no docs_url and redoc_url: their pages load scripts from other sites
    # no redirect_slashes: it would send a caller to whatever host its own Host header names
    app = FastAPI(**about, lifespan=supervisor.lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.runtime, app.state.supervisor, app.state.metrics = runtime, supervisor, Metrics(runtime)
    app.state.backbone_cache = backbone or predictions.BackboneCache(root)
    app.state.prediction_limiter = CapacityLimiter(predictions.MAX_FORWARD_PASSES)
    for module in (requests, predictions, rights, proofs, operation):
        app.include_router(module.router)
    add_pages(app, originals)
    add_error_handlers(app)
    add_middleware(app, app.state.metrics)
    return app
