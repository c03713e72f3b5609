"""Forgetting, step by step: find, look at what it would cost, confirm.

Names travel in forms, and in addresses, which browsers, proxies and logs keep, only sealed.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from shardgraph.errors import InputError
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.queue.statistics import measurements
from shardgraph.forget.views.search import COLUMNS, find, forgotten_as
from shardgraph.service.access import TheOffice
from shardgraph.service.asking import chosen, previewed
from shardgraph.service.office import Office
from shardgraph.service.owning import may_know
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.requested import requested
from shardgraph.service.pages.sealing import MOST, the_seal
from shardgraph.service.pages.visiting import Asker, Page, Sent, exact, named, text
from shardgraph.service.schemas import Ask
from shardgraph.service.tokens import OWNER, Caller

HOME = f"{PREFIX}/forget"
PREVIEW = f"{HOME}/preview"
MOST_SHOWN, MOST_LETTERS = 50, 1024
router = APIRouter(prefix=HOME, route_class=Page, include_in_schema=False)
Sealed = Annotated[str, Query(max_length=MOST)]


@router.get("")
def begin(request: Request, who: Asker, office: TheOffice, of: Sealed = "") -> Response:
    """Where somebody says what is looked for, and what was found; an owner finds its own."""
    facts: dict[str, Any] = {"kinds": tuple(COLUMNS), "found": None, "before": None, "more": False}
    looked = the_seal(request).open(HOME, of)
    if looked is None:
        return render(request, "forget.html", **facts, kind="sample", wanted="")
    return render(request, "forget.html", **facts | looked | _found(office, who, **looked))


@router.post("/find")
def look(request: Request, who: Asker, sent: Sent) -> Response:
    """Look for what begins so: go where it is shown."""
    kind, wanted = text(sent, "kind", "sample"), exact(sent, "wanted")
    if len(wanted) > MOST_LETTERS:
        raise InputError(f"a name has at most {MOST_LETTERS:,} letters")
    return RedirectResponse(the_seal(request).address(HOME, kind=kind, wanted=wanted), 303)


@router.get("/preview")
def preview(request: Request, who: Asker, office: TheOffice, of: Sealed = "") -> Response:
    """What forgetting it would do; changes nothing."""
    looked = the_seal(request).open(PREVIEW, of)
    if looked is None:
        return RedirectResponse(HOME, 303)
    kind, name, twins = looked["kind"], looked["name"], bool(looked["twins"])
    asked = chosen(office, _ask(kind, name, twins), who)
    facts = previewed(office, asked, who, twins=twins or bool(looked["look"]))
    last = measurements(office.reader.catalogue, 1) if who.role != OWNER else []
    samples = _samples(office, kind, name)
    waiting = requested(office.reader.catalogue, who, kind, [name]).get(name)
    of_page: dict[str, Any] = {"kind": kind, "name": name, "twins": twins, "looked": looked["look"] or twins}
    of_page |= {"waiting": waiting, "of": len(samples), "originals": request.app.state.originals.show(samples)}
    of_page["accuracy"] = last[-1] if last else None
    of_page["today"] = datetime.now(UTC).date().isoformat()
    return render(request, "preview.html", facts=facts, **of_page)


@router.post("/preview")
def look_closer(request: Request, who: Asker, sent: Sent) -> Response:
    """Go to the preview. The script asks again, to have the twins looked for, too."""
    kind, name = text(sent, "kind"), named(sent, "name")
    _ask(kind, name)
    more = {field: text(sent, field)[:3] for field in ("twins", "look")}
    return RedirectResponse(the_seal(request).address(PREVIEW, kind=kind, name=name, **more), 303)


@router.post("/submit")
def confirm(request: Request, who: Asker, sent: Sent, office: TheOffice) -> Response:
    """Accept the request, and go where it can be watched."""
    if text(sent, "sure") != "yes":
        raise InputError("tick that you are sure; nothing was changed")
    more = {"reason": text(sent, "reason"), "deadline": text(sent, "deadline")}
    ask = _ask(text(sent, "kind"), named(sent, "name"), bool(text(sent, "twins")), **more)
    entry = office.submit(Submission(chosen(office, ask, who, ask.reason), who.name, ask.deadline))
    return RedirectResponse(f"{PREFIX}/requests/{entry.number}", 303)


def _ask(kind: str, name: str, twins: bool = False, reason: str = "", deadline: str = "") -> Ask:
    if kind not in COLUMNS:
        raise InputError(f"one can forget a {' or a '.join(COLUMNS)} here, got {kind!r}")
    given: dict[str, Any] = {f"{kind}s": [name], "twins": twins, "reason": reason}
    if deadline:
        given["deadline"] = f"{deadline}T23:59:59Z" if len(deadline) == 10 else deadline
    try:
        return Ask.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise HTTPException(422, f"{first['loc'][0]}: {first['msg']}") from error


def _found(office: Office, who: Caller, kind: str, wanted: str) -> dict[str, Any]:
    catalogue, sources = office.reader.catalogue, who.sources if who.role == OWNER else None
    found = find(catalogue, kind, wanted, sources, MOST_SHOWN + 1)
    if not found and wanted != wanted.strip():  # more likely pasted than meant
        wanted = wanted.strip()
        found = find(catalogue, kind, wanted, sources, MOST_SHOWN + 1)
    before = None if found else _before(office, who, kind, wanted)
    shown, more = found[:MOST_SHOWN], len(found) > MOST_SHOWN
    waiting = requested(catalogue, who, kind, [one.name for one in shown])
    return {"wanted": wanted, "found": shown, "waiting": waiting, "more": more, "before": before}


def _samples(office: Office, kind: str, name: str) -> list[str]:
    rows = office.reader.catalogue.rows(COLUMNS[kind], [name])
    return [row.id for row in rows]


def _before(office: Office, who: Caller, kind: str, name: str) -> int | None:
    """The request, of those that the caller may see, whose certificate says that this was forgotten."""
    certificate = forgotten_as(office.reader.catalogue, office.reader.secrets, kind, name)
    if certificate is None or not may_know(office.reader, who, f"{kind}s", name):
        return None
    mine = who.name if who.role == OWNER else None
    sql = "SELECT number FROM queue WHERE certificate = ? AND state = 'done' AND (? IS NULL OR asker = ?)"
    row = office.reader.catalogue.one(sql, certificate, mine, mine)
    return row[0] if row else None
