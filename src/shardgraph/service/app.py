"""The application: routes, gates and what lives as long as they do."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI

from shardgraph import __version__
from shardgraph.service import asking, entitling, events, predicting, proving, running
from shardgraph.service.crew import Hands, Watcher
from shardgraph.service.door import Door
from shardgraph.service.inputs import Eye
from shardgraph.service.limits import BodyLimit, Journal
from shardgraph.service.metrics import Metrics
from shardgraph.service.office import Office
from shardgraph.service.pages.headers import Headers
from shardgraph.service.pages.opening import open_pages
from shardgraph.service.problems import install

ABOUT = """Forget requests, predictions and proofs of one workspace.

From the moment a request is accepted no prediction is made with anything that saw its data, but for groups that read
it through private edges: those stay within their budget, and the preview and the certificate say how much of it is
spent. Every prediction carries an opaque state id, and the ledger says what was served under it."""


def create_app(root: Path, worker: Hands, originals: Path | None = None, *, grace: float = 0.0) -> FastAPI:
    """The service of a workspace, which `worker` carries requests out for. The caller holds its serving lock.

    `originals` is a folder with the pictures or texts that samples were made of, for the pages to show; `grace` is how
    long the worker lets a request wait.
    """
    office = Office(root, wake=worker.call, grace=grace)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.limiter = CapacityLimiter(predicting.AT_ONCE)
        app.state.watcher = watcher = Watcher(office, worker)
        worker.start()
        watcher.start()
        yield
        app.state.ending.set()
        await to_thread.run_sync(watcher.end)
        await to_thread.run_sync(worker.stop)
        await to_thread.run_sync(office.close)

    about: dict[str, Any] = {"title": "shardgraph", "version": __version__, "description": ABOUT}
    app = FastAPI(**about, lifespan=lifespan, docs_url=None, redoc_url=None)  # their pages load scripts from elsewhere
    app.state.office, app.state.worker, app.state.metrics = office, worker, Metrics(office)
    app.state.eye, app.state.ending = Eye(), threading.Event()
    for part in (asking, events, predicting, entitling, proving, running):
        app.include_router(part.router)
    open_pages(app, originals)
    install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(Door)
    app.add_middleware(Headers)
    app.add_middleware(Journal, metrics=app.state.metrics)
    return app
