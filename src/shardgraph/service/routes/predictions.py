"""Routes of predictions: embeddings as JSON or as an array file, images, texts. The work is done off the event loop."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, File, HTTPException, Query, Request, UploadFile
from fastapi.responses import JSONResponse

from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.readers.arrayfiles import parse_arrays
from shardgraph.embedding.readers.arrays import samples_from
from shardgraph.embedding.records import EMBEDDING, IMAGE, TEXT, UNLABELLED, Payload, Record
from shardgraph.errors import InputError, WorkspaceError
from shardgraph.forget import Config, load_backbone_of
from shardgraph.learn.ensemble import Model
from shardgraph.service.auth.access import CurrentModels, Predictor
from shardgraph.service.auth.tokens import CONSUMER, Caller
from shardgraph.service.error_responses import documented
from shardgraph.service.runtime.models import LeasedModels, Models
from shardgraph.service.schemas import (
    MAX_SAMPLES,
    MAX_TOKENS,
    MAX_TOKENS_EACH,
    Embeddings,
    Predictions,
    Texts,
)
from shardgraph.storage.samples import Samples, concatenate

MAX_FORWARD_PASSES = 2  # concurrent ones
MAX_FILES = 256
MAX_UNPACKED = 256 << 20  # bytes of arrays, once they are unpacked
router = APIRouter(prefix="/predictions", tags=["predictions"])
ERRORS = documented(401, 403, 404, 409, 413, 422, 503)
Top = Annotated[int, Query(ge=1, le=1000, description="How many classes to name, the best first.")]
Read = Callable[[Config], Samples]
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILES = {"application/zip": _BINARY, "application/octet-stream": _BINARY}
_BODY = {"requestBody": {"required": True, "description": "An .npz or .safetensors file.", "content": _FILES}}


@router.post("", response_model=Predictions, responses=ERRORS)
async def embeddings(what: Embeddings, who: Predictor, models: CurrentModels, request: Request) -> JSONResponse:
    """Predict embeddings sent as numbers."""
    return await _answer(request, models, who, what.top, lambda config: samples_from_numbers(what, config))


@router.post("/arrays", response_model=Predictions, responses=ERRORS, openapi_extra=_BODY)
async def arrays(who: Predictor, models: CurrentModels, request: Request, top: Top = 1) -> JSONResponse:
    """Predict embeddings sent as an `.npz` or `.safetensors` file with `tokens` [n, t, d] or `features` [n, d]."""
    raw = await request.body()
    return await _answer(request, models, who, top, lambda config: samples_from_file(raw, config))


@router.post("/images", response_model=Predictions, responses=ERRORS)
async def images(
    who: Predictor,
    models: CurrentModels,
    request: Request,
    files: Annotated[list[UploadFile], File(description="Encoded images, up to 256.")],
    top: Top = 1,
) -> JSONResponse:
    """Predict images, for a workspace whose backbone takes images."""
    if len(files) > MAX_FILES:
        raise HTTPException(413, f"one call takes at most {MAX_FILES} images, got {len(files)}")
    raw, backbone = [await file.read() for file in files], _backbone(request)
    return await _answer(request, models, who, top, lambda config: backbone.embed(raw, IMAGE, config))


@router.post("/texts", response_model=Predictions, responses=ERRORS)
async def texts(what: Texts, who: Predictor, models: CurrentModels, request: Request) -> JSONResponse:
    """Predict texts, for a workspace whose backbone takes texts."""
    backbone = _backbone(request)
    return await _answer(request, models, who, what.top, lambda config: backbone.embed(what.texts, TEXT, config))


async def _answer(request: Request, models: Models, who: Caller, top: int, read: Read) -> JSONResponse:
    limiter: CapacityLimiter = request.app.state.prediction_limiter
    config = request.app.state.runtime.queries.config
    return JSONResponse(await to_thread.run_sync(lambda: predict(config, models, who, top, read), limiter=limiter))


def predict(config: Config, models: Models, who: Caller, top: int, read: Read) -> dict[str, Any]:
    """The answer to one call: read all samples, then predict them with one model, for a consumer that of its right."""
    if not config.trained:
        raise WorkspaceError("there is no model yet: run `shardgraph add`, then `shardgraph train`, and try again")
    samples = read(config)

    def answer(leased: LeasedModels) -> dict[str, Any]:
        state, model = leased.id, leased.whole
        model = leased.of_right(who.name) if who.role == CONSUMER else model
        return {"state": state, "predictions": best_classes(model, model.scores(samples), top)}

    return models.use(answer)


def best_classes(model: Model, scores: np.ndarray, top: int) -> list[dict[str, Any]]:
    """The best classes of every sample, with their scores."""
    if not np.isfinite(scores).all():
        raise InputError("these embeddings give no finite score: their numbers are too large")
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [
        {"top": [{"label": model.classes[i], "score": float(row[i])} for i in best.tolist()]}
        for row, best in zip(scores, order, strict=True)
    ]


class BackboneCache:
    """The workspace's backbone, loaded when it is first needed, from `path` if one is given, and kept."""

    def __init__(self, root: Path, path: str | None = None) -> None:
        self._root, self._path = root, path
        self._backbone: Backbone | None = None
        self._lock = threading.Lock()

    def load(self, config: Config) -> None:
        """Load it now, whatever kind of data it reads."""
        with self._lock:
            self._load(config, config.backbone.get("modality", EMBEDDING))

    def embed(self, payloads: Sequence[Payload], modality: str, config: Config) -> Samples:
        """The samples of images or texts."""
        with self._lock:
            records = [Record(str(i), UNLABELLED, payload) for i, payload in enumerate(payloads)]
            return concatenate(embed(records, self._load(config, modality)))

    def _load(self, config: Config, modality: str) -> Backbone:
        if self._backbone is None or self._backbone.modality != modality:
            self._backbone = load_backbone_of(self._root, config, modality, self._path)
        return self._backbone


def samples_from_numbers(sent: Embeddings, config: Config) -> Samples:
    """The samples of a JSON body."""
    given = {name: value for name, value in (("tokens", sent.tokens), ("features", sent.features)) if value is not None}
    try:
        arrays = {name: np.array(value, np.float64) for name, value in given.items()}
    except ValueError as error:
        raise InputError("tokens and features must be rectangular: as many numbers for every sample") from error
    _check_shapes({name: array.shape for name, array in arrays.items()}, config)
    return samples_from(arrays, config.dtype)


def samples_from_file(raw: bytes, config: Config) -> Samples:
    """The samples of an .npz or .safetensors file."""
    arrays = parse_arrays(raw, MAX_UNPACKED, lambda shapes: _check_shapes(shapes, config))
    return samples_from(arrays, config.dtype)


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], config: Config) -> None:
    """Raise if arrays of these shapes do not fit this workspace, or are more than one call may send."""
    takes = config.backbone.get("modality", EMBEDDING)
    if takes != EMBEDDING:
        raise InputError(f"this workspace's backbone takes {takes}s, no embeddings from elsewhere")
    samples = max((shape[0] for shape in shapes.values() if shape), default=0)
    if samples > MAX_SAMPLES:
        raise InputError(f"one call predicts at most {MAX_SAMPLES:,} samples, got {samples:,}")
    tokens, features = shapes.get("tokens", ()), shapes.get("features", ())
    if len(tokens) == 3:
        _check_tokens(tokens[0], tokens[1])
    if len(tokens) == 3 or len(features) == 2:  # other shapes are refused when the arrays are read
        dims = ((tokens or features)[-1], (features or tokens)[-1])
        if dims != config.dims:
            raise InputError(f"this workspace holds tokens and features of {config.dims} dimensions, got {dims}")


def _check_tokens(samples: int, each: int) -> None:
    if each > MAX_TOKENS_EACH:
        raise InputError(f"a sample must have at most {MAX_TOKENS_EACH:,} tokens, got {each:,}")
    if samples * each > MAX_TOKENS:
        raise InputError(f"one call predicts at most {MAX_TOKENS:,} tokens, got {samples * each:,}: send fewer samples")


def _backbone(request: Request) -> BackboneCache:
    cache: BackboneCache = request.app.state.backbone_cache
    return cache
