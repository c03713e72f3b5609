"""Proof: a request's certificate in plain words, whether it is genuine, and what it does not say."""

import json
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, UploadFile

from shardgraph.errors import DamagedFile, InputError, ShardgraphError, VerificationError
from shardgraph.forget.proof.certificate import Certificate, check_certificate, opens
from shardgraph.forget.proof.verify import Check
from shardgraph.forget.queue import queue
from shardgraph.forget.queue.queue import Entry
from shardgraph.service.access import TheOffice
from shardgraph.service.asking import certified, entry_for
from shardgraph.service.office import Office
from shardgraph.service.owning import nonces_for
from shardgraph.service.pages.following import Number
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visiting import Asker, Looker, Page, Reader, Sent, exact, text
from shardgraph.service.tokens import OWNER

ROWS = 25
router = APIRouter(prefix=f"{PREFIX}/proof", route_class=Page, include_in_schema=False)


@router.get("")
def listing(request: Request, who: Reader, office: TheOffice) -> Response:
    """The last requests that are done, and a place to check a file."""
    return _start(request, office, who.name if who.role == OWNER else None)


@router.post("/check")
async def check_file(request: Request, who: Reader, sent: Sent, office: TheOffice) -> Response:
    """Whether a certificate that somebody brings was signed here, and is as it was signed."""
    raw = await _brought(sent)
    checks = checked(office, raw, exact(sent, "sample"), text(sent, "nonce"))
    return _start(request, office, who.name if who.role == OWNER else None, checks)


@router.post("/everything")
def check_everything(request: Request, who: Looker, sent: Sent, office: TheOffice) -> Response:
    """All certificates, all files and the served model, looked at now."""
    return _start(request, office, None, office.verify().checks)


@router.get("/{number}")
def proof(
    request: Request, number: Number, who: Reader, office: TheOffice, verified: Literal["", "yes"] = ""
) -> Response:
    """A request's certificate; with `verified`, it is checked as it lies on disk now."""
    found = certified(office, number, who)
    checks = checked(office, office.reader.certificate_path(found).read_bytes()) if verified else None
    return _shown(request, office, number, found, entry_for(office, number, who), checks=checks)


@router.post("/{number}/verify")
def verify(number: Number, who: Reader, sent: Sent) -> Response:
    """Check the certificate: go where that is shown, so that Back and reload work from there."""
    return RedirectResponse(f"{PREFIX}/proof/{number}?verified=yes", 303)


@router.post("/{number}/nonce")
def nonce(request: Request, number: Number, who: Asker, sent: Sent, office: TheOffice) -> Response:
    """The nonce that opens a sample's entry, for the one who asked."""
    found, sample = certified(office, number, who), exact(sent, "sample")
    given = nonces_for(office.reader, who, found, [sample])[sample]
    return _shown(request, office, number, found, entry_for(office, number, who), opened=(sample, given))


@router.get("/{number}/certificate.json")
def download(number: Number, who: Reader, office: TheOffice) -> Response:
    """The file, as it was signed."""
    found = certified(office, number, who)
    name = f'attachment; filename="certificate-{found:06d}.json"'
    raw = office.reader.certificate_path(found).read_bytes()
    return Response(raw, media_type="application/json", headers={"Content-Disposition": name})


def checked(office: Office, raw: bytes, sample: str = "", nonce: str = "") -> tuple[Check, ...]:
    """What can be said of a certificate's file: its signature, its place in the chain, and one sample's entry."""
    try:
        shown = Certificate.parse(raw)
    except DamagedFile as error:
        return (Check("file", False, str(error)),)
    signature = _look("signature", lambda: _signature(office, shown))
    checks = [Check("file", True, f"certificate {shown.number}"), signature]
    if signature.ok:
        checks.append(_look("chain", lambda: _chain(office, shown)))
        checks += [_look("sample", lambda: _sample(shown, sample, nonce))] if sample or nonce else []
    return tuple(checks)


def _look(name: str, look: Any) -> Check:
    try:
        return Check(name, True, look())
    except ShardgraphError as error:
        return Check(name, False, str(error))


def _signature(office: Office, shown: Certificate) -> str:
    try:
        check_certificate(shown, office.reader.secrets.public)
    except (TypeError, ValueError, AttributeError):  # fields that are something else than they should be
        raise VerificationError("its fields are not those of a certificate") from None
    return "made with this workspace's key, and nothing was changed since"


def _chain(office: Office, shown: Certificate) -> str:
    """Whether it is the one that was issued under its number, and stands on the one before."""
    reader = office.reader
    if reader.certificate(shown.number).digest != shown.digest:
        raise VerificationError(f"another certificate {shown.number} was issued here")
    before = reader.certificate(shown.number - 1).digest if shown.number > 1 else ""
    if before != shown.previous:
        raise VerificationError(f"it does not follow certificate {shown.number - 1} as that is now")
    return f"follows certificate {shown.number - 1}" if before else "the first of the chain"


def _sample(shown: Certificate, sample: str, nonce: str) -> str:
    if not opens(shown, sample, nonce):
        raise VerificationError("it does not speak of this sample, or the nonce is another's")
    return "this sample is among those that were forgotten"


async def _brought(sent: FormData) -> bytes:
    file = sent.get("file")
    if isinstance(file, UploadFile) and file.size:
        return await file.read()
    if pasted := text(sent, "pasted"):
        return pasted.encode()
    raise InputError("choose a certificate's file, or paste what it holds")


def _start(request: Request, office: Office, asker: str | None, checks: tuple[Check, ...] | None = None) -> Response:
    found = queue.newest(office.reader.catalogue, states=(queue.DONE,), asker=asker, limit=ROWS)
    return render(request, "proof.html", entries=found, checks=checks, public_key=office.reader.secrets.public)


def _shown(request: Request, office: Office, number: int, found: int, entry: Entry, **more: Any) -> Response:
    certificate = office.reader.certificate(found)
    facts: dict[str, Any] = {"number": number, "entry": entry, "certificate": certificate}
    whole = json.dumps(certificate.to_json(), indent=1, sort_keys=True, ensure_ascii=False)
    return render(request, "certificate.html", **facts | {"whole": whole, "checks": None, "opened": None} | more)
