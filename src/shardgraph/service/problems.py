"""How a call fails: a status, one object that says why, and never a stack trace."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shardgraph.errors import (
    DamagedFile,
    DiskFull,
    InputError,
    ShardgraphError,
    UnknownConsumer,
    UnknownSample,
    WorkspaceBusy,
    WorkspaceError,
)
from shardgraph.service.schemas import Problem
from shardgraph.service.tokens import AUDITOR, OPERATOR, Caller

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (UnknownSample, 404),
    (UnknownConsumer, 404),
    (InputError, 422),
    (WorkspaceBusy, 503),
    (DiskFull, 503),
    (WorkspaceError, 409),
    (ShardgraphError, 409),
)
_WORDS = {
    401: "no token, or one that is not valid",
    403: "the role may not do this",
    404: "it is not here",
    409: "it cannot be done in this state",
    413: "the body is too large",
    415: "a content type that is not read here",
    422: "what was sent cannot be used",
    503: "not now; try again",
}


def documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The failures of a route, for its OpenAPI."""
    return {code: {"model": Problem, "description": _WORDS[code]} for code in codes}


def install(app: FastAPI) -> None:
    """Let every way to fail end in a `Problem`; what is unexpected ends in the gate's log."""
    app.add_exception_handler(ShardgraphError, _on_purpose)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)


def status_of(error: Exception) -> int:
    """The status of an error of ours."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


async def _on_purpose(request: Request, error: Exception) -> JSONResponse:
    text = told(error, getattr(request.state, "caller", None))
    return _answer(status_of(error), text, type(error).__name__)


def told(error: Exception, who: Caller | None) -> str:
    """What an error says to the caller: which files are damaged, and whose data they hold, is not for everybody."""
    if isinstance(error, DamagedFile | DiskFull) and (who is None or who.role not in (OPERATOR, AUDITOR)):
        return "the service's disk is full, or a file on it is damaged: tell the operator, and ask again later"
    return str(error)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return refusal(error)


def refusal(error: HTTPException, *, close: bool = False) -> JSONResponse:
    """The answer to a call that is refused; with `close` the rest of it is not waited for."""
    status = 422 if error.status_code == 400 else error.status_code  # a body that is no text, to FastAPI
    headers = dict(error.headers or {}) | ({"Connection": "close"} if close else {})
    return _answer(status, str(error.detail), "HTTPException", headers)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Where it is wrong and why, without repeating what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _answer(422, f"{where}: {first['msg']}", "InputError")


def unexpected() -> JSONResponse:
    """The answer to what nobody foresaw: it says nothing of it."""
    return _answer(500, "something unexpected happened; the log names its kind", "UnexpectedError")


def _answer(status: int, text: str, kind: str, headers: dict[str, str] | None = None) -> JSONResponse:
    extra = {"Retry-After": "1"} if status == 503 else {}
    text = text.encode("utf-8", "replace").decode()
    return JSONResponse({"error": text, "kind": kind}, status, (headers or {}) | extra)
