"""Routes of predictions: embeddings as JSON or as an array file, images, texts. The work is done off the event loop."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, File, HTTPException, Query, Request, UploadFile
from fastapi.responses import JSONResponse

from shardgraph.embedding.records import IMAGE, TEXT
from shardgraph.errors import InputError, WorkspaceError
from shardgraph.forget.config import Config
from shardgraph.learn.ensemble import Model
from shardgraph.service.access import Predictor, TheOffice
from shardgraph.service.inputs import from_arrays_file, from_numbers
from shardgraph.service.office import Office
from shardgraph.service.problems import documented
from shardgraph.service.schemas import Embeddings, Predictions, Texts
from shardgraph.service.tokens import CONSUMER, Caller
from shardgraph.storage.samples import Samples

AT_ONCE = 2  # forward passes side by side
MOST_FILES = 256
router = APIRouter(prefix="/predictions", tags=["predictions"])
FAILS = documented(401, 403, 404, 409, 413, 422, 503)
Top = Annotated[int, Query(ge=1, le=1000, description="How many classes to name, the best first.")]
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILES = {"application/zip": _BINARY, "application/octet-stream": _BINARY}
_BODY = {"requestBody": {"required": True, "description": "An .npz or .safetensors file.", "content": _FILES}}


@router.post("", response_model=Predictions, responses=FAILS)
async def embeddings(what: Embeddings, who: Predictor, office: TheOffice, request: Request) -> JSONResponse:
    """Predict embeddings sent as numbers."""
    return await _answer(request, office, who, what.top, lambda config: from_numbers(what, config))


@router.post("/arrays", response_model=Predictions, responses=FAILS, openapi_extra=_BODY)
async def arrays(who: Predictor, office: TheOffice, request: Request, top: Top = 1) -> JSONResponse:
    """Predict embeddings sent as an `.npz` or `.safetensors` file with `tokens` [n, t, d] or `features` [n, d]."""
    raw = await request.body()
    return await _answer(request, office, who, top, lambda config: from_arrays_file(raw, config))


@router.post("/images", response_model=Predictions, responses=FAILS)
async def images(
    who: Predictor,
    office: TheOffice,
    request: Request,
    files: Annotated[list[UploadFile], File(description="Encoded images, up to 256.")],
    top: Top = 1,
) -> JSONResponse:
    """Predict images, for a workspace whose backbone takes images."""
    if len(files) > MOST_FILES:
        raise HTTPException(413, f"one call takes at most {MOST_FILES} images, got {len(files)}")
    raw = [await file.read() for file in files]
    return await _answer(request, office, who, top, lambda config: request.app.state.eye.see(raw, IMAGE, config))


@router.post("/texts", response_model=Predictions, responses=FAILS)
async def texts(what: Texts, who: Predictor, office: TheOffice, request: Request) -> JSONResponse:
    """Predict texts, for a workspace whose backbone takes texts."""
    return await _answer(
        request, office, who, what.top, lambda config: request.app.state.eye.see(what.texts, TEXT, config)
    )


async def _answer(
    request: Request, office: Office, who: Caller, top: int, read: Callable[[Config], Samples]
) -> JSONResponse:
    limiter: CapacityLimiter = request.app.state.limiter
    return JSONResponse(await to_thread.run_sync(lambda: predicted(office, who, top, read), limiter=limiter))


def predicted(office: Office, who: Caller, top: int, read: Callable[[Config], Samples]) -> dict[str, Any]:
    """The answer to one call: everything is read first, then predicted in one state, by the caller's right."""
    if not office.reader.config.trained:
        raise WorkspaceError("there is no model yet: run `shardgraph add`, then `shardgraph train`, and ask again")
    samples = read(office.reader.config)
    with office.served.lease() as state:
        model = office.model_for(who.name) if who.role == CONSUMER else state.model
        return {"state": state.id, "predictions": best(model, model.scores(samples), top)}


def best(model: Model, scores: np.ndarray, top: int) -> list[dict[str, Any]]:
    """The best classes of every sample, with their scores."""
    if not np.isfinite(scores).all():
        raise InputError("these embeddings give no finite score: their numbers are too large")
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [
        {"top": [{"label": model.classes[i], "score": float(row[i])} for i in chosen.tolist()]}
        for row, chosen in zip(scores, order, strict=True)
    ]
