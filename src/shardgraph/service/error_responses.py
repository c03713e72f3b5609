"""From an exception to a response: a status code and one JSON object that says why, never a stack trace."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shardgraph.errors import (
    BackboneError,
    DamagedFile,
    DiskFull,
    InputError,
    ShardgraphError,
    UnknownConsumer,
    UnknownSample,
    WorkspaceBusy,
    WorkspaceError,
)
from shardgraph.service.auth.tokens import AUDITOR, OPERATOR, Caller
from shardgraph.service.schemas import Problem

STATUS_CODES: tuple[tuple[type[Exception], int], ...] = (
    (UnknownSample, 404),
    (UnknownConsumer, 404),
    (InputError, 422),
    (WorkspaceBusy, 503),
    (DiskFull, 503),
    (WorkspaceError, 409),
    (ShardgraphError, 409),
)
_DESCRIPTIONS = {
    401: "no token, or one that is not valid",
    403: "the role may not do this",
    404: "not found",
    409: "not possible in this state",
    413: "the body is too large",
    415: "this content type is not supported",
    422: "the input cannot be used",
    503: "not possible at the moment; try again",
}


def documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its OpenAPI description."""
    return {code: {"model": Problem, "description": _DESCRIPTIONS[code]} for code in codes}


def add_error_handlers(app: FastAPI) -> None:
    """Answer every expected error with a `Problem`; the call log answers the unexpected ones."""
    app.add_exception_handler(ShardgraphError, _answer_ours)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_invalid)


def status_of(error: Exception) -> int:
    """The status code of one of our errors."""
    return next(status for kind, status in STATUS_CODES if isinstance(error, kind))


def message_for(error: Exception, who: Caller | None) -> str:
    """The text of an error for a caller: which file is damaged, and whose data it holds, is not for everybody."""
    entitled = who is not None and who.role in (OPERATOR, AUDITOR)
    if isinstance(error, BackboneError) and not entitled:
        return "the service cannot load its backbone: tell the operator, and try again later"
    if isinstance(error, DamagedFile | DiskFull) and not entitled:
        return "the service's disk is full, or a file on it is damaged: tell the operator, and try again later"
    return str(error)


def refuse(error: HTTPException, *, close: bool = False) -> JSONResponse:
    """The response to a call that is refused; with `close`, the connection ends and no more of the call is read."""
    status = 422 if error.status_code == 400 else error.status_code  # FastAPI's status for a body that is no text
    headers = dict(error.headers or {}) | ({"Connection": "close"} if close else {})
    return _respond(status, str(error.detail), "HTTPException", headers)


def unexpected() -> JSONResponse:
    """The response to an unexpected error: it gives no detail."""
    return _respond(500, "an unexpected error occurred; the service's log names its kind", "UnexpectedError")


async def _answer_ours(request: Request, error: Exception) -> JSONResponse:
    text = message_for(error, getattr(request.state, "caller", None))
    return _respond(status_of(error), text, type(error).__name__)


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return refuse(error)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """Say where the input is wrong and why, without repeating it."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _respond(422, f"{where}: {first['msg']}", "InputError")


def _respond(status: int, text: str, kind: str, headers: dict[str, str] | None = None) -> JSONResponse:
    extra = {"Retry-After": "1"} if status == 503 else {}
    text = text.encode("utf-8", "replace").decode()
    return JSONResponse({"error": text, "kind": kind}, status, (headers or {}) | extra)
