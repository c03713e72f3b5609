"""The proof pages: a request's certificate in plain words, whether it is genuine, and what it does not prove."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, UploadFile

from shardgraph.errors import DamagedFile, InputError, ShardgraphError, VerificationError
from shardgraph.forget import Certificate, Check, check_certificate, opens
from shardgraph.service.auth.access import CurrentRuntime, certificate_number, nonces_for
from shardgraph.service.auth.tokens import OPERATOR, OWNER, Caller
from shardgraph.service.error_responses import hide_root, message_for
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.requests import Number
from shardgraph.service.pages.visitors import Asker, Form, Inspector, PageRoute, Reader, read_exact, read_text
from shardgraph.service.runtime.queries import Queries
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.storage.tables.requests import DONE

ROWS = 25
router = APIRouter(prefix=f"{PREFIX}/proof", route_class=PageRoute, include_in_schema=False)


@router.get("")
def listing(request: Request, who: Reader, runtime: CurrentRuntime) -> Response:
    """The last requests that are done, and a form to check a certificate."""
    return _show_list(request, runtime, who.name if who.role == OWNER else None)


@router.post("/check")
async def check_file(request: Request, who: Reader, form: Form, runtime: CurrentRuntime) -> Response:
    """Check a certificate that somebody uploads: signed here, and unchanged since."""
    raw = await _uploaded(form)
    checks = check(runtime, who, raw, read_exact(form, "sample"), read_text(form, "nonce"))
    return _show_list(request, runtime, who.name if who.role == OWNER else None, checks)


@router.post("/everything")
def check_everything(request: Request, who: Inspector, form: Form, runtime: CurrentRuntime) -> Response:
    """Check all certificates, all files and the served model now."""
    checks = runtime.verify().checks
    if who.role != OPERATOR:
        checks = tuple(replace(one, detail=hide_root(one.detail, runtime.root)) for one in checks)
    return _show_list(request, runtime, None, checks)


@router.get("/{number}")
def show(
    request: Request, number: Number, who: Reader, runtime: CurrentRuntime, verified: Literal["", "yes"] = ""
) -> Response:
    """A request's certificate; with `verified`, its file on disk is checked."""
    found = certificate_number(runtime, number, who)
    checks = check(runtime, who, runtime.queries.certificate_file(found)) if verified else None
    return _show_certificate(request, runtime, number, found, checks=checks)


@router.post("/{number}/verify")
def verify(number: Number, who: Reader, form: Form) -> Response:
    """Check the certificate: redirect to the page that shows the result, so that Back and reload work."""
    return RedirectResponse(f"{PREFIX}/proof/{number}?verified=yes", 303)


@router.post("/{number}/nonce")
def nonce(request: Request, number: Number, who: Asker, form: Form, runtime: CurrentRuntime) -> Response:
    """The nonce that opens a sample's entry, for the one who asked."""
    found, sample = certificate_number(runtime, number, who), read_exact(form, "sample")
    given = nonces_for(runtime, who, found, [sample])[sample]
    return _show_certificate(request, runtime, number, found, opened=(sample, given))


@router.get("/{number}/certificate.json")
def download(number: Number, who: Reader, runtime: CurrentRuntime) -> Response:
    """The certificate's file as it was signed."""
    found = certificate_number(runtime, number, who)
    name = f'attachment; filename="certificate-{found:06d}.json"'
    raw = runtime.queries.certificate_file(found)
    return Response(raw, media_type="application/json", headers={"Content-Disposition": name})


def check(runtime: Runtime, who: Caller, raw: bytes, sample: str = "", nonce: str = "") -> tuple[Check, ...]:
    """Check a certificate's file: its signature, its place in the chain, and one sample's entry."""
    try:
        shown = Certificate.parse(raw)
    except DamagedFile as error:
        return (Check("file", False, str(error)),)

    def run(name: str, look: Callable[[], str]) -> Check:
        try:
            return Check(name, True, look())
        except ShardgraphError as error:
            return Check(name, False, message_for(error, who, runtime.root))

    signature = run("signature", lambda: _check_signature(runtime.queries, shown))
    checks = [Check("file", True, f"certificate {shown.number}"), signature]
    if signature.ok:
        checks.append(run("chain", lambda: _check_chain(runtime.queries, shown)))
        checks += [run("sample", lambda: _check_sample(shown, sample, nonce))] if sample or nonce else []
    return tuple(checks)


def _check_signature(queries: Queries, shown: Certificate) -> str:
    try:
        check_certificate(shown, queries.public_key)
    except (TypeError, ValueError, AttributeError):  # fields of the wrong type
        raise VerificationError("its fields are not those of a certificate") from None
    return "made with this workspace's key, and unchanged since"


def _check_chain(queries: Queries, shown: Certificate) -> str:
    """Check that this is the certificate issued under its number, and that it follows the one before."""
    if queries.certificate(shown.number).digest != shown.digest:
        raise VerificationError(f"another certificate {shown.number} was issued here")
    before = queries.certificate(shown.number - 1).digest if shown.number > 1 else ""
    if before != shown.previous:
        raise VerificationError(f"it does not follow certificate {shown.number - 1} as that is now")
    return f"follows certificate {shown.number - 1}" if before else "the first of the chain"


def _check_sample(shown: Certificate, sample: str, nonce: str) -> str:
    if not opens(shown, sample, nonce):
        raise VerificationError("it has no entry for this sample, or the nonce is wrong")
    return "this sample is among those that were forgotten"


async def _uploaded(form: FormData) -> bytes:
    file = form.get("file")
    if isinstance(file, UploadFile) and file.size:
        return await file.read()
    if pasted := read_text(form, "pasted"):
        return pasted.encode()
    raise InputError("choose a certificate's file, or paste its contents")


def _show_list(
    request: Request, runtime: Runtime, asker: str | None, checks: tuple[Check, ...] | None = None
) -> Response:
    found = runtime.queries.newest_requests(states=(DONE,), asker=asker, limit=ROWS)
    return render(request, "proof.html", requests=found, checks=checks, public_key=runtime.queries.public_key)


def _show_certificate(request: Request, runtime: Runtime, number: int, found: int, **more: Any) -> Response:
    certificate = runtime.queries.certificate(found)
    whole = json.dumps(certificate.to_json(), indent=1, sort_keys=True, ensure_ascii=False)
    facts: dict[str, Any] = {"number": number, "certificate": certificate, "whole": whole}
    return render(request, "certificate.html", **facts | {"checks": None, "opened": None} | more)
