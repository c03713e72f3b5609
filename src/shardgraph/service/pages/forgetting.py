"""Forgetting, step by step: find, look at what it would cost, confirm.

Names travel in forms and never in addresses, which browsers, proxies and logs keep.
"""

from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from starlette.datastructures import FormData

from shardgraph.errors import InputError
from shardgraph.forget.charges import Spending
from shardgraph.forget.finding import COLUMNS, find, forgotten_as
from shardgraph.forget.history import measurements
from shardgraph.forget.queue import Submission
from shardgraph.forget.request import ForgetRequest
from shardgraph.service.access import TheOffice
from shardgraph.service.asking import chosen, previewed
from shardgraph.service.office import Office
from shardgraph.service.owning import may_know
from shardgraph.service.pages.rendering import PREFIX, render
from shardgraph.service.pages.visiting import Asker, Page, Sent, exact, text
from shardgraph.service.schemas import Ask
from shardgraph.service.tokens import OWNER, Caller

MOST_SHOWN = 50
router = APIRouter(prefix=f"{PREFIX}/forget", route_class=Page, include_in_schema=False)


@router.get("")
def begin(request: Request, who: Asker) -> Response:
    """Where somebody says what is looked for."""
    return render(
        request, "forget.html", kinds=tuple(COLUMNS), kind="sample", wanted="", found=None, before=None, more=False
    )


@router.post("/find")
def look(request: Request, who: Asker, sent: Sent, office: TheOffice) -> Response:
    """What begins so; an owner finds its own."""
    kind, wanted = text(sent, "kind", "sample"), exact(sent, "wanted")
    reader, sources = office.reader, who.sources if who.role == OWNER else None
    found = find(reader.catalogue, kind, wanted, sources, MOST_SHOWN + 1)
    if not found and wanted != wanted.strip():  # more likely pasted than meant
        wanted = wanted.strip()
        found = find(reader.catalogue, kind, wanted, sources, MOST_SHOWN + 1)
    before = None if found else _before(office, who, kind, wanted)
    facts: dict[str, Any] = {"kinds": tuple(COLUMNS), "kind": kind, "wanted": wanted, "before": before}
    return render(request, "forget.html", **facts, found=found[:MOST_SHOWN], more=len(found) > MOST_SHOWN)


@router.post("/preview")
def look_closer(request: Request, who: Asker, sent: Sent, office: TheOffice) -> Response:
    """What forgetting it would do; changes nothing. The script asks again, to have the twins looked for, too."""
    kind, name, twins = text(sent, "kind"), exact(sent, "name"), bool(text(sent, "twins"))
    looked = twins or bool(text(sent, "look"))
    asked = chosen(office, _ask(sent), who)
    facts = previewed(office, asked, who, twins=looked)
    last = measurements(office.reader.catalogue, 1) if who.role != OWNER else []
    shown = request.app.state.originals.show(_samples(office, kind, name))
    facts_of_page: dict[str, Any] = {"kind": kind, "name": name, "twins": twins, "looked": looked, "originals": shown}
    facts_of_page |= {"spending": _spending(office, asked), "accuracy": last[-1] if last else None}
    return render(request, "preview.html", facts=facts, **facts_of_page)


@router.post("/submit")
def confirm(request: Request, who: Asker, sent: Sent, office: TheOffice) -> Response:
    """Accept the request, and go where it can be watched."""
    if text(sent, "sure") != "yes":
        raise InputError("tick that you are sure; nothing was changed")
    ask = _ask(sent)
    entry = office.submit(Submission(chosen(office, ask, who, ask.reason), who.name, ask.deadline))
    return RedirectResponse(f"{PREFIX}/requests/{entry.number}", 303)


def _ask(sent: FormData) -> Ask:
    kind, name = text(sent, "kind"), exact(sent, "name")
    if kind not in COLUMNS:
        raise InputError(f"one can forget a {' or a '.join(COLUMNS)} here, got {kind!r}")
    given: dict[str, Any] = {f"{kind}s": [name], "twins": bool(text(sent, "twins")), "reason": text(sent, "reason")}
    if deadline := text(sent, "deadline"):
        given["deadline"] = f"{deadline}T23:59:59Z" if len(deadline) == 10 else deadline
    try:
        return Ask.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise HTTPException(422, f"{first['loc'][0]}: {first['msg']}") from error


def _spending(office: Office, asked: ForgetRequest) -> Spending | None:
    """What the request would spend of the budget of private edges."""
    return office.reader.plan(asked).spending if office.reader.config.privacy is not None else None


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
