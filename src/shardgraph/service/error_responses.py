"""From an exception to a response: a status code and one JSON object that says why, never a stack trace.

The operator is told everything. An auditor is told everything but where the workspace lies on the server. Others are
told what is wrong with what they sent, and of everything else the kind and what to do: the text of such an error may
name files, and data of others. No text with a path of the server reaches anybody but the operator.
"""

import re
from pathlib import Path
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
    NothingToServe,
    ShardgraphError,
    UnknownConsumer,
    UnknownSample,
    VerificationError,
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
TOLD = (WorkspaceError, WorkspaceBusy, NothingToServe, VerificationError)  # to everybody, unless they name a file
_DISK = "the service's disk is full, or a file on it is damaged: tell the operator, and try again later"
WITHHELD: tuple[tuple[type[Exception], str], ...] = (  # what is said instead of a text that is not told
    (DamagedFile, _DISK),
    (DiskFull, _DISK),
    (WorkspaceBusy, "the workspace is being changed just now: try again in a moment"),
    (BackboneError, "the service cannot load the backbone that it needs for this: tell the operator"),
    (InputError, "this cannot be used: check what was sent, or ask the operator"),
    (ShardgraphError, "this is not possible in the present state of the workspace: ask the operator"),
)
_ABSOLUTE = re.compile(r"""(?<![\w:/.<])(/|[A-Za-z]:\\)[^\s/\\'",;]+[/\\]""")  # a path begins here, and no address
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


def message_for(error: Exception, who: Caller | None, root: Path) -> str:
    """The text of an error for a caller of the service of the workspace at `root`."""
    if who is not None and who.role == OPERATOR:
        return str(error)
    text = hide_root(str(error), root)
    if who is not None and who.role == AUDITOR:
        tellable = True
    else:
        tellable = text == str(error) and (isinstance(error, InputError) or type(error) in TOLD)
    if tellable and not names_path(text):
        return text
    return next(words for kind, words in WITHHELD if isinstance(error, kind))


def hide_root(text: str, root: Path) -> str:
    """A text in which files of the workspace are named by their path within it."""
    for place in {str(root.absolute()), str(root.resolve()), str(root)} - {"."}:
        text = re.sub(rf"(?<![\w/.-]){re.escape(place)}(/|\\)", "", text)
        text = re.sub(rf"(?<![\w/.-]){re.escape(place)}(?![\w-])", "the workspace", text)
    return text


def names_path(text: str) -> bool:
    """Whether a text contains an absolute path of a file."""
    return _ABSOLUTE.search(text) is not None


def refuse(error: HTTPException, *, close: bool = False) -> JSONResponse:
    """The response to a call that is refused; with `close`, the connection ends and no more of the call is read."""
    status = 422 if error.status_code == 400 else error.status_code  # FastAPI's status for a body that is no text
    headers = dict(error.headers or {}) | ({"Connection": "close"} if close else {})
    return _respond(status, str(error.detail), "HTTPException", headers)


def unexpected() -> JSONResponse:
    """The response to an unexpected error: it gives no detail."""
    return _respond(500, "an unexpected error occurred; the service's log names its kind", "UnexpectedError")


async def _answer_ours(request: Request, error: Exception) -> JSONResponse:
    text = message_for(error, getattr(request.state, "caller", None), request.app.state.runtime.root)
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
