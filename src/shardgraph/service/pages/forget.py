"""The forget pages: find data, preview what a request would do, confirm it.

Names are sent in forms. In addresses, which browsers, proxies and logs keep, they are encrypted.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from shardgraph.errors import InputError
from shardgraph.service.auth.access import CurrentModels, CurrentRuntime
from shardgraph.service.auth.tokens import OWNER, Caller
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.sessions import MAX_ENCRYPTED, EncryptedAddresses
from shardgraph.service.pages.visitors import Asker, Form, PageRoute, read_exact, read_name, read_text
from shardgraph.service.routes.requests import make_submission, preview_request
from shardgraph.service.runtime.queries import KINDS
from shardgraph.service.runtime.runtime import Runtime
from shardgraph.service.schemas import NewRequest
from shardgraph.storage.tables.requests import DONE, Waiting

FIND = f"{PREFIX}/forget"
PREVIEW = f"{FIND}/preview"
ROWS, MAX_LETTERS = 50, 1024
router = APIRouter(prefix=FIND, route_class=PageRoute, include_in_schema=False)
Encrypted = Annotated[str, Query(max_length=MAX_ENCRYPTED)]


@router.get("")
def show_search(request: Request, who: Asker, runtime: CurrentRuntime, of: Encrypted = "") -> Response:
    """The search form, and what was found; an owner finds only its own data."""
    facts: dict[str, Any] = {"kinds": KINDS, "found": None, "erased_by": None, "more": False}
    search = _addresses(request).decrypt(FIND, of)
    if search is None:
        return render(request, "forget.html", **facts, kind="sample", wanted="")
    return render(request, "forget.html", **facts | search | _search(runtime, who, **search))


@router.post("/find")
def find(request: Request, who: Asker, form: Form) -> Response:
    """Search for names that begin so: redirect to the page that shows them."""
    kind, wanted = read_text(form, "kind", "sample"), read_exact(form, "wanted")
    if len(wanted) > MAX_LETTERS:
        raise InputError(f"a name has at most {MAX_LETTERS:,} letters")
    return RedirectResponse(_addresses(request).encrypt(FIND, kind=kind, wanted=wanted), 303)


@router.get("/preview")
def show_preview(
    request: Request, who: Asker, runtime: CurrentRuntime, models: CurrentModels, of: Encrypted = ""
) -> Response:
    """What the request would do; changes nothing."""
    chosen = _addresses(request).decrypt(PREVIEW, of)
    if chosen is None:
        return RedirectResponse(FIND, 303)
    kind, name, twins = chosen["kind"], chosen["name"], bool(chosen["twins"])
    searched = twins or bool(chosen["look"])
    new = make_submission(runtime, _new_request(kind, name, twins), who)
    figures = preview_request(runtime, new, who, twins=searched)
    last = models.use(lambda leased: leased.measurements(1)) if who.role != OWNER else []
    samples = runtime.queries.sample_ids(kind, name, who.sources if who.role == OWNER else None)
    facts: dict[str, Any] = {"kind": kind, "name": name, "twins": twins, "searched": searched}
    facts["waiting"] = _waiting(runtime, who, kind, [name]).get(name)
    facts |= {"of": len(samples), "originals": request.app.state.originals.show(samples)}
    facts["declared"] = kind == "source" and name in runtime.queries.config.declared_sources
    facts["accuracy"] = last[-1] if last else None
    facts["today"] = datetime.now(UTC).date().isoformat()
    return render(request, "preview.html", figures=figures, **facts)


@router.post("/preview")
def preview(request: Request, who: Asker, form: Form) -> Response:
    """Redirect to the preview. The script asks again, to have twins searched for."""
    kind, name = read_text(form, "kind"), read_name(form, "name")
    _new_request(kind, name)
    more = {field: read_text(form, field)[:3] for field in ("twins", "look")}
    return RedirectResponse(_addresses(request).encrypt(PREVIEW, kind=kind, name=name, **more), 303)


@router.post("/submit")
def submit(request: Request, who: Asker, form: Form, runtime: CurrentRuntime) -> Response:
    """Accept the request, and redirect to its page."""
    if read_text(form, "sure") != "yes":
        raise InputError("confirm that you are sure; nothing was changed")
    more = {"reason": read_text(form, "reason"), "deadline": read_text(form, "deadline")}
    new = _new_request(read_text(form, "kind"), read_name(form, "name"), bool(read_text(form, "twins")), **more)
    stored = runtime.submit(replace(make_submission(runtime, new, who, new.reason), deadline=new.deadline))
    return RedirectResponse(f"{PREFIX}/requests/{stored.number}", 303)


def _new_request(kind: str, name: str, twins: bool = False, reason: str = "", deadline: str = "") -> NewRequest:
    if kind not in KINDS:
        raise InputError(f"this page forgets a {' or a '.join(KINDS)}, got {kind!r}")
    given: dict[str, Any] = {f"{kind}s": [name], "twins": twins, "reason": reason}
    if deadline:
        given["deadline"] = f"{deadline}T23:59:59Z" if len(deadline) == 10 else deadline
    try:
        return NewRequest.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise HTTPException(422, f"{first['loc'][0]}: {first['msg']}") from error


def _search(runtime: Runtime, who: Caller, kind: str, wanted: str) -> dict[str, Any]:
    sources = who.sources if who.role == OWNER else None
    found = runtime.queries.find(kind, wanted, sources, ROWS + 1)
    if not found and wanted != wanted.strip():  # spaces around a name are more likely pasted than meant
        wanted = wanted.strip()
        found = runtime.queries.find(kind, wanted, sources, ROWS + 1)
    erased_by = None if found else _erased_by(runtime, who, kind, wanted)
    waiting = _waiting(runtime, who, kind, [one.name for one in found[:ROWS]])
    more = len(found) > ROWS
    return {"wanted": wanted, "found": found[:ROWS], "waiting": waiting, "more": more, "erased_by": erased_by}


def _waiting(runtime: Runtime, who: Caller, kind: str, names: list[str]) -> dict[str, Waiting]:
    """What waits to be forgotten already, so that nobody requests it twice without knowing; an owner sees its own."""
    asker, sources = (who.name, who.sources) if who.role == OWNER else (None, None)
    return runtime.queries.waiting_samples(kind, names, asker=asker, sources=sources)


def _erased_by(runtime: Runtime, who: Caller, kind: str, name: str) -> int | None:
    """The request, of those that the caller may see, that erased this."""
    if who.role != OWNER:
        return runtime.queries.request_that_erased(kind, name)
    number = runtime.queries.request_naming(who.name, f"{kind}s", name)
    return number if number is not None and runtime.request(number).state == DONE else None


def _addresses(request: Request) -> EncryptedAddresses:
    addresses: EncryptedAddresses = request.app.state.addresses
    return addresses
