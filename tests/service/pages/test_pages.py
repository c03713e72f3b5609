"""The pages without a browser: what each shows, to whom, and how it fails."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from PIL import Image

from shardgraph.forget.queue.statistics import costs, measure, measurements
from shardgraph.forget.workspace import Workspace
from shardgraph.service.pages.drawing import elements
from shardgraph.service.pages.originals import Originals
from shardgraph.service.pages.rendering import named
from shardgraph.service.pages.sealing import Seal
from tests.service.conftest import BY_SOURCE, ROWS
from tests.service.pages.conftest import forget, found, preview
from tests.strategies import embed, many

PAGES = {
    "/pages": {"operator", "auditor", "owner"},
    "/pages/graph": {"operator", "auditor"},
    "/pages/graph.json": {"operator", "auditor"},
    "/pages/graph/shard?name=ann": {"operator", "auditor"},
    "/pages/forget": {"operator", "owner"},
    "/pages/requests": {"operator", "auditor", "owner"},
    "/pages/proof": {"operator", "auditor", "owner"},
    "/pages/rights": {"operator", "auditor"},  # a consumer is led to its own
}
ANN, BOB = BY_SOURCE["ann"][0].id, BY_SOURCE["bob"][0].id


def entered(visit, token):
    me = visit()
    me.log_in(token)
    return me


@pytest.mark.parametrize("role", ["operator", "auditor", "owner", "consumer"])
def test_a_role_sees_its_pages_and_no_other(tokens, visit, role):
    me = entered(visit, tokens[role])
    for path, roles in PAGES.items():
        answer = me.get(path)
        wanted = 200 if role in roles else 303 if (path, role) == ("/pages/rights", "consumer") else 403
        assert answer.status_code == wanted, (path, answer.text)
        assert wanted == 303 or "html" in answer.headers["content-type"] or path.endswith("json")


def test_pages_of_an_empty_workspace_say_so(tmp_path):
    from fastapi.testclient import TestClient

    from shardgraph.service.app import create_app
    from tests.service.conftest import ByHand

    root = tmp_path / "ws"
    Workspace.create(root, seed=0).close()
    with TestClient(create_app(root, ByHand(root)), base_url="http://localhost") as client:
        for path in ("", "/graph", "/forget", "/requests", "/proof", "/rights"):
            answer = client.get(f"/pages{path}")
            assert answer.status_code == 200, path
            assert 'class="' in answer.text
        assert "There is no graph yet" in client.get("/pages/graph").text


def test_the_first_address_leads_to_the_pages_and_an_unknown_one_to_a_page_that_says_so(visit):
    me = visit()
    assert me.get("/").headers["location"] == "/pages"
    answer = me.get("/pages/nowhere")
    assert answer.status_code == 404 and "there is no such page" in answer.text


def test_names_are_escaped(service, visit):
    answer = found(visit(), "sample", "<script>alert(1)</script>")
    assert answer.status_code == 200 and "<script>alert" not in answer.text and "&lt;script&gt;" in answer.text


def test_find_shows_what_begins_so_and_preview_what_it_would_cost(visit):
    me = visit()
    page = found(me, "sample", ANN[:8]).text
    assert ANN in page and "Preview" in page
    for kind, name in (("source", "ann"), ("subject", "p1"), ("sample", ANN)):
        assert name in found(me, kind, name[:2]).text
        answer = preview(me, kind, name)
        assert answer.status_code == 200 and "samples to read again" in answer.text, answer.text
        assert "No twin" in preview(me, kind, name, look="yes").text


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
    service.app.state.seal = Seal()  # as one that starts anew has
    assert me.get(place).headers["location"] == "/pages/forget"


def test_addresses_that_take_forms_alone_lead_to_where_the_form_is(visit):
    forms = {
        "/forget/find": "/forget",
        "/forget/preview": "/forget",
        "/forget/submit": "/forget",
        "/requests/7/cancel": "/requests/7",
        "/proof/check": "/proof",
        "/proof/7/verify": "/proof/7",
        "/rights/measure": "/rights",
        "/logout": "",
    }
    for path, place in forms.items():
        assert visit().get(f"/pages{path}").headers["location"] == f"/pages{place}", path


@pytest.mark.parametrize(
    ("path", "place"), [("/", ""), ("/graph/", "/graph"), ("//evil.example/", "/evil.example"), ("///", "")]
)
def test_an_address_with_a_slash_too_many_leads_to_the_page(visit, path, place):
    assert visit().get(f"/pages{path}").headers["location"] == f"/pages{place}"


def test_a_form_that_is_too_large_is_refused_with_a_page(visit):
    me = visit()
    me.get("/pages/proof")
    answer = me.post("/pages/proof/check", {"pasted": "x" * (5 << 20)})
    assert answer.status_code == 413 and "<h1>Too large</h1>" in answer.text
    assert answer.headers["x-frame-options"] == "DENY"


def test_a_request_is_watched_to_its_end_and_proved(service, visit):
    me = visit()
    place = forget(me, "sample", ANN).headers["location"]
    assert "Take it back" in me.get(place).text
    assert me.get(place.replace("requests", "proof")).status_code == 409
    service.work()
    events = me.get(f"{place}/events").text
    names = [line.removeprefix("event: ") for line in events.splitlines() if line.startswith("event: ")]
    assert names == ["received", "instant", "erasing", "retraining", "verified", "done"]
    proof = place.replace("requests", "proof")
    assert "byte for byte" in me.get(proof).text
    verified = me.post(f"{proof}/verify", follow_redirects=True)
    assert "Genuine" in verified.text and "Genuine" in me.get(str(verified.url)).text
    assert "forgotten already" in found(me, "sample", ANN).text


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


def test_a_right_says_when_not_all_sources_can_be_chosen(root, visit):
    rows = [row._replace(id=f"s{i}", source=f"source-{i:03d}") for i, row in enumerate(many(201))]
    with Workspace(root) as workspace:
        workspace.add(embed(rows))
        workspace.grant("acme", sources=["ann"])
    me = visit()
    assert "The first 200 of 204" in me.get("/pages/rights").text
    assert "The first 200 of 203" in me.get("/pages/rights/of?consumer=acme").text


def test_a_form_that_is_not_confirmed_changes_nothing(service, visit):
    me = visit()
    me.get("/pages/forget")
    assert me.post("/pages/forget/submit", {"kind": "sample", "name": json.dumps(ANN)}).status_code == 422
    assert service("GET", "/requests").json()["requests"] == []


def test_a_request_can_be_taken_back(service, visit):
    me = visit()
    place = forget(me, "sample", ANN).headers["location"]
    me.get(place)
    assert me.post(f"{place}/cancel").status_code == 303
    assert 'data-state="cancelled"' in me.get(place).text


def certificate(service, me):
    place = forget(me, "sample", ANN).headers["location"]
    service.work()
    return place, me.get(f"{place.replace('requests', 'proof')}/certificate.json")


def test_a_certificate_that_was_tampered_with_is_refused(service, visit):
    me = visit()
    _, got = certificate(service, me)
    assert "attachment" in got.headers["content-disposition"]
    me.get("/pages/proof")
    assert "Genuine" in me.post("/pages/proof/check", {"pasted": got.text}).text
    good = got.json()
    for wrong in (
        good | {"time": "2020-01-01T00:00:00+00:00"},
        good | {"entries": []},
        good | {"entries": [1, None]},
        good | {"signature": 7},
        good | {"signature": "00" * 64},
        good | {"public_key": "00" * 32},
        good | {"number": "1"},
        good | {"more": 1},
        {},
        [],
    ):
        answer = me.post("/pages/proof/check", {"pasted": json.dumps(wrong)})
        assert answer.status_code == 200 and "Refused" in answer.text and "Genuine" not in answer.text, wrong
    file = {"file": ("c.json", b"\xff no json", "application/json")}
    assert "Refused" in me.post("/pages/proof/check", files=file).text


def test_verify_looks_at_the_file_on_disk(root, service, visit):
    me = visit()
    place, _ = certificate(service, me)
    path = root / "certificates" / "000001.json"
    path.write_bytes(path.read_bytes().replace(b'"forget"', b'"repair"'))
    proof = place.replace("requests", "proof")
    me.get(proof)
    assert "Refused" in me.post(f"{proof}/verify", follow_redirects=True).text


def test_one_sample_is_found_in_a_certificate_by_its_nonce_alone(root, service, visit):
    me = visit()
    _, got = certificate(service, me)
    assert me.post("/pages/proof/1/nonce", {"sample": BOB}).status_code == 404
    shown = me.post("/pages/proof/1/nonce", {"sample": ANN})
    with Workspace(root) as workspace:
        nonce = workspace.nonces(1, [ANN])[ANN]
    assert nonce in shown.text
    sent = {"pasted": got.text, "sample": ANN}
    assert "Genuine" in me.post("/pages/proof/check", sent | {"nonce": nonce}).text
    assert "Refused" in me.post("/pages/proof/check", sent | {"nonce": "00"}).text


def test_the_whole_workspace_is_verified(service, visit):
    me = visit()
    certificate(service, me)
    me.get("/pages/proof")
    assert "Genuine" in me.post("/pages/proof/everything").text


def test_an_owner_is_barred_from_what_is_not_its_own(tokens, service, visit):
    operator, owner = entered(visit, tokens["operator"]), entered(visit, tokens["owner"])
    place = forget(operator, "sample", BOB).headers["location"]
    proof = place.replace("requests", "proof")
    service.work()
    for path in (place, f"{place}/events", proof, f"{proof}/certificate.json", "/pages/graph", "/pages/rights"):
        assert owner.get(path).status_code in (403, 404), path
    assert "Request 1" not in owner.get("/pages/requests").text + owner.get("/pages/proof").text
    page = found(owner, "sample", "sample").text
    assert BOB not in page and ANN in page
    other = BY_SOURCE["bob"][1].id
    assert preview(owner, "sample", other).status_code == forget(owner, "sample", other).status_code == 404
    assert owner.post(f"{place}/cancel").status_code == 404
    assert owner.post(f"{place}/retry").status_code == 403
    assert owner.post("/pages/proof/everything").status_code == 403
    assert forget(owner, "source", "ann").status_code == 303


def test_an_auditor_changes_nothing(tokens, visit):
    me = entered(visit, tokens["auditor"])
    me.get("/pages")
    for path in ("forget/submit", "forget/find", "rights/grant", "rights/revoke", "rights/provision", "rights/ask"):
        assert me.post(f"/pages/{path}", {"consumer": "acme", "source": "ann"}).status_code == 403, path


def test_rights_are_given_asked_about_and_taken(visit):
    me = visit()
    me.get("/pages/rights")
    granted = me.post("/pages/rights/grant", {"consumer": "acme & co", "source": ['"ann"', '"bob"']})
    assert granted.status_code == 303
    assert "adapters kept" not in me.get(granted.headers["location"]).text
    assert "adapters kept" in me.get(granted.headers["location"] + "&reach=yes").text
    acme = {"of": '"acme & co"'}
    asked = acme | {"sample": json.dumps(ROWS[24].id)}
    before = me.post("/pages/rights/ask", asked).text
    assert "is labelled" in before
    assert 'id="accuracy"' in me.post("/pages/rights/measure", acme).text
    assert me.post("/pages/rights/revoke", acme | {"source": '"bob"'}).status_code == 303
    after = me.post("/pages/rights/ask", asked).text
    answers = [text.split("<tbody>")[1].split("</tbody>")[0] for text in (before, after)]
    assert answers[0] != answers[1]
    assert me.post("/pages/rights/provision", acme).status_code == 303
    assert me.post("/pages/rights/revoke", acme).status_code == 422
    everything = me.post("/pages/rights/revoke", acme | {"everything": "yes"})
    assert everything.headers["location"] == "/pages/rights"
    assert "Nobody was granted" in me.get("/pages/rights").text


def test_a_consumer_sees_its_own_right_and_no_sample(root, tokens, visit):
    with Workspace(root) as workspace:
        workspace.grant("the-consumer", sources=["ann"])
        workspace.grant("other", sources=["bob"])
    me = entered(visit, tokens["consumer"])
    own = me.get(me.get("/pages/rights").headers["location"])
    assert "Right of the-consumer" in own.text and "sample-0" not in own.text
    assert me.get("/pages/rights/of?consumer=other").status_code == 404
    assert me.post("/pages/rights/measure", {"of": '"other"'}).status_code == 404
    assert me.post("/pages/rights/measure", {"of": '"the-consumer"'}).status_code == 200
    assert me.post("/pages/rights/ask", {"of": '"the-consumer"', "sample": '"x"'}).status_code == 403


def test_only_held_out_samples_can_be_asked_about(visit):
    me = visit()
    me.get("/pages/rights")
    me.post("/pages/rights/grant", {"consumer": "acme", "source": '"ann"'})
    assert me.post("/pages/rights/ask", {"of": '"acme"', "sample": json.dumps(ANN)}).status_code == 422


def test_the_office_keeps_no_model_for_a_right(service, visit):
    me = visit()
    me.get("/pages/rights")
    me.post("/pages/rights/grant", {"consumer": "acme", "source": '"ann"'})
    assert me.post("/pages/rights/measure", {"of": '"acme"'}).status_code == 200
    counter = service.app.state.office._counter
    assert not counter._servings and counter._model is None


def test_the_ledger_knows_what_forgetting_cost_and_how_accurate_the_model_was(root, service, visit):
    me = visit()
    forget(me, "sample", ANN)
    service.work()
    with Workspace(root) as workspace:
        found = costs(workspace.catalogue)
        assert (found.forgets, found.retraining) == (1, 24) and 0 < found.revisited < 24
        for _ in range(2):  # the second time there is nothing new to say
            measure(workspace.catalogue, workspace.secrets, workspace.model().digest, workspace.evaluate)
        assert [one.accuracy for one in measurements(workspace.catalogue)] == [workspace.evaluate()["accuracy"]]
    page = me.get("/pages").text
    assert "1 forget read" in page and "<polyline" in page


def test_the_drawing_has_every_shard_once_and_no_arrow_within_a_group(root):
    with Workspace(root) as workspace:
        drawn = elements(workspace.portrait())
    names = [shard[0] for group in drawn["groups"] for shard in group["shards"]]
    assert sorted(names) == ["ann", "bob", "web"]
    assert all(source != target for source, target, _ in drawn["edges"])


def test_an_original_is_shown_small_and_never_from_outside_of_its_folder(tmp_path):
    folder = tmp_path / "originals"
    (folder / "sub").mkdir(parents=True)
    Image.new("L", (900, 600), 200).save(folder / "sub" / "a.png")
    (folder / "b.txt").write_text("dear all")
    (folder / "c.png").write_text("no picture")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    found = Originals(folder).show(
        ["sub/a.png", "sub/a", "b", "c.png", "../secret.txt", "/etc/passwd", "link", "x\0", "no"]
    )
    assert [(one.sample, bool(one.picture), one.text) for one in found] == [
        ("sub/a.png", True, ""),
        ("sub/a", True, ""),
        ("b", False, "dear all"),
    ]
    assert Originals().show(["b"]) == []


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
        withheld = {sample for (sample,) in workspace.catalogue.all("SELECT id FROM withheld")}
    assert withheld == {"x "}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\u202egnp.exe", "a⟨U+202E⟩gnp.exe"),
        ("a\u200bb\nc\x00", "a⟨U+200B⟩b⟨U+000A⟩c⟨U+0000⟩"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        (" a b  ", "⟨U+0020⟩a b⟨U+0020⟩⟨U+0020⟩"),
        (" ", "⟨U+0020⟩"),
        ("<b>", "&lt;b&gt;"),
        ("שלום é 名", "שלום é 名"),
    ],
)
def test_nothing_hides_in_a_name(name, shown):
    assert named(name) == f"<bdi>{shown}</bdi>"


def test_a_name_is_as_visible_where_it_is_confirmed_as_where_it_is_found(root, visit):
    row = many(1)[0]._replace(id="a\u202eb", source="s\u202et", label="ant")
    with Workspace(root) as workspace:
        workspace.add(embed([row]))
        workspace.grant("c\u202ed", sources=["s\u202et"])
    me = visit()
    pages = [
        found(me, "sample", "a\u202e"),
        found(me, "source", "s"),
        preview(me, "sample", row.id),
        preview(me, "source", row.source),
        me.get("/pages/rights"),
        me.get("/pages/rights/of", params={"consumer": "c\u202ed"}),
    ]
    for page in pages:
        assert page.status_code == 200 and "⟨U+202E⟩" in page.text, page.url
        assert "\u202e" not in page.text.replace('value="a\u202e"', ""), page.url


def test_half_a_character_is_refused_with_a_page(service, visit):
    me = visit()
    forget(me, "sample", ANN)
    service.work()
    whole = json.loads(me.get("/pages/proof/1/certificate.json").content) | {"number": "\ud800"}
    answer = me.post("/pages/proof/check", {"pasted": json.dumps(whole)})
    assert answer.status_code == 200 and "Refused" in answer.text and "Genuine" not in answer.text
    answer = me.post("/pages/proof/1/nonce", {"sample": b"\xed\xa0\x80"})
    assert answer.status_code in (404, 422) and "<h1>" in answer.text
    assert preview(me, "sample", "\ud800").status_code == 422


def test_a_picture_that_pillow_chokes_on_is_not_shown(tmp_path):
    path = tmp_path / "a.png"
    Image.effect_noise((300, 300), 80).save(path)
    raw = bytearray(path.read_bytes())
    second = raw.index(b"IDAT", raw.index(b"IDAT") + 4) if raw.count(b"IDAT") > 1 else raw.index(b"IDAT")
    raw[second : second + 4] = b"\x00\x01\x02\x03"
    path.write_bytes(raw)
    assert Originals(tmp_path).show(["a"]) == []
