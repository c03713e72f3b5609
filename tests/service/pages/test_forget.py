"""The forget pages: find, preview, confirm; no address holds a name."""

import json
from datetime import UTC, datetime, timedelta

from shardgraph.forget.workspace import Workspace
from shardgraph.service.pages.sessions import EncryptedAddresses
from shardgraph.storage.tables.requests import withheld_ids
from tests.service.pages.conftest import ANN, entered, forget, found, preview
from tests.strategies import ROWS, embed, many


def test_find_shows_what_begins_so_and_preview_what_it_would_cost(visit):
    me = visit()
    page = found(me, "sample", ANN[:8]).text
    assert ANN in page and "Preview" in page
    for kind, name in (("source", "ann"), ("subject", "p1"), ("sample", ANN)):
        assert name in found(me, kind, name[:2]).text
        answer = preview(me, kind, name)
        assert answer.status_code == 200 and "samples to read again" in answer.text, answer.text
        assert "No twins" in preview(me, kind, name, look="yes").text


def test_no_address_holds_the_name_of_a_sample(service, visit):
    me = visit()
    for answer in (found(me, "sample", ANN), preview(me, "sample", ANN), forget(me, "sample", ANN)):
        assert answer.status_code in (200, 303)
        assert ANN not in str(answer.url) + answer.headers.get("location", "")


def test_an_address_of_a_preview_is_good_for_this_service_and_this_page_alone(service, visit):
    me = visit()
    place = str(preview(me, "sample", ANN).url)
    assert me.get(place).status_code == 200
    elsewhere = (place.replace("/preview", ""), place[:-3], "/pages/forget/preview", "/pages/forget/preview?of=é")
    assert "Found" not in me.get(elsewhere[0]).text
    for wrong in elsewhere[1:]:
        assert me.get(wrong).headers["location"] == "/pages/forget", wrong
    service.app.state.addresses = EncryptedAddresses()  # as after a restart
    assert me.get(place).headers["location"] == "/pages/forget"


def test_what_waits_already_is_said_where_it_is_found_and_previewed(tokens, visit):
    operator, owner = entered(visit, tokens["operator"]), entered(visit, tokens["owner"])
    assert "already requested" not in found(operator, "sample", ANN).text + preview(operator, "sample", ANN).text
    forget(operator, "sample", ANN)
    for page in (found(operator, "sample", ANN).text, preview(operator, "sample", ANN).text):
        assert 'already requested in <a href="/pages/requests/1">request 1</a>' in page
        assert "Nothing has changed yet" not in page
    for page in (found(operator, "source", "ann").text, preview(operator, "source", "ann").text):
        assert f"1 of {sum(row.source == 'ann' for row in ROWS)} samples already requested" in page
    for page in (found(owner, "sample", ANN).text, preview(owner, "sample", ANN).text):
        assert "already requested" in page and "/pages/requests/1" not in page, "it is not hers to see"
    assert "already requested" not in found(operator, "source", "bob").text
    assert forget(operator, "sample", ANN).headers["location"] == "/pages/requests/2"


def test_a_deadline_is_today_at_the_earliest(visit):
    today = datetime.now(UTC).date()
    page = preview(visit(), "sample", ANN).text
    assert any(f'type="date" min="{day}"' in page for day in (today, today + timedelta(days=1)))


def test_a_form_that_is_not_confirmed_changes_nothing(service, visit):
    me = visit()
    me.get("/pages/forget")
    assert me.post("/pages/forget/submit", {"kind": "sample", "name": json.dumps(ANN)}).status_code == 422
    assert service("GET", "/requests").json()["requests"] == []


def test_a_name_that_ends_in_a_space_is_another(root, visit):
    plain, spaced = many(2)[0]._replace(id="x"), many(2)[1]._replace(id="x ")
    with Workspace(root) as workspace:
        workspace.add(embed([plain, spaced]))
        workspace.train()
    me = visit()
    assert "<bdi>x⟨U+0020⟩</bdi>" in found(me, "sample", "x ").text
    assert "<bdi>x</bdi>" in found(me, "sample", " x").text
    assert forget(me, "sample", "x ").status_code == 303
    with Workspace(root) as workspace:
        withheld = withheld_ids(workspace.context.catalogue)
    assert withheld == {"x "}
