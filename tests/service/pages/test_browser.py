"""The pages in Chromium, as people use them: a request from search to proof, rights, forbidden pages, the graph."""

import json

import pytest
from playwright.sync_api import expect

from shardgraph.forget.workspace import Workspace
from shardgraph.service.pages.sessions import Sessions
from shardgraph.storage.tables import requests
from shardgraph.storage.tables.requests import withheld_ids
from tests.strategies import BY_SOURCE, ROWS, embed, many

pytestmark = pytest.mark.slow
ANN, BOB = BY_SOURCE["ann"], BY_SOURCE["bob"]
RLO = "\u202e"  # from here on to the left


def forget(page, kind, name):
    """From the search to the request's page."""
    page.get_by_role("link", name="Forget", exact=True).click()
    page.get_by_label(kind, exact=True).check()
    page.get_by_label("whose name begins with").fill(name[:-1])
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name=f"Preview forgetting {name}").click()
    expect(page.get_by_text("Nothing has changed yet")).to_be_visible()
    page.get_by_label("I am sure").check()
    page.get_by_role("button", name="Forget ").click()
    expect(page.get_by_role("heading", name="Progress")).to_be_visible()


def test_an_erasure_from_search_to_proof_and_a_forged_proof_is_refused(logged_in, tmp_path):
    page = logged_in("operator")
    forget(page, "sample", ANN[0].id)
    expect(page.locator("#now [data-state=done]")).to_be_visible(timeout=60_000)  # no reload: the states come live
    passed = page.locator(".states li.past, .states li.now")
    assert [one.get_attribute("data-name") for one in passed.all()] == [
        "received",
        "instant",
        "erasing",
        "retraining",
        "verified",
        "done",
    ]
    page.get_by_role("link", name="Show the proof").click()
    expect(page.get_by_role("heading", name="What it does not prove")).to_be_visible()
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.get_by_text("Genuine.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    good, forged = tmp_path / "good.json", tmp_path / "forged.json"
    download.value.save_as(good)
    told = json.loads(good.read_text())
    forged.write_text(json.dumps(told | {"model_digest": "0" * len(told["model_digest"])}))
    page.get_by_role("link", name="Proof", exact=True).click()
    for file, verdict in ((good, "Genuine."), (forged, "Refused.")):
        page.get_by_label("Certificate file").set_input_files(file)
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_text(verdict)).to_be_visible()


def test_a_request_that_failed_is_tried_again_and_watched_without_a_reload(service, local):
    service("POST", "/requests", json={"samples": [ANN[0].id]})
    with Workspace(service.root) as workspace, workspace.context.catalogue.transaction() as transaction:
        requests.fail_requests(transaction, [1], "its files could not be read")
    local.goto("/pages/requests/1")
    local.get_by_role("button", name="Retry").click()
    expect(local.locator("#now [data-state=instant]")).to_be_visible()
    loads = []
    local.on("load", lambda page: loads.append(page.url))
    local.wait_for_timeout(1500)
    service.work()
    expect(local.locator("#now [data-state=done]")).to_be_visible()
    assert loads == []

    def names():
        return [one.get_attribute("data-name") for one in local.locator(".states li").all()]

    tried = ["received", "instant", "failed", "received", "instant", "erasing", "retraining", "verified", "done"]
    assert names() == tried
    local.reload()
    assert names() == tried
    colours = local.evaluate(
        "() => ['failed', 'done'].map((name) =>"
        " getComputedStyle(document.querySelector(`[data-name=${name}]`), '::before').backgroundColor)"
    )
    assert colours[0] != colours[1]


def look_for(service, local, name, begins):
    """A sample of that name comes, and is looked for by how it begins."""
    with Workspace(service.root) as workspace:
        workspace.add(embed([many(1)[0]._replace(id=name)]))
    local.goto("/pages/forget")
    local.get_by_label("whose name begins with").fill(begins)
    local.get_by_role("button", name="Find").click()


def test_a_name_that_turns_the_text_around_reads_in_its_order_when_it_is_confirmed(service, local):
    odd = f"a{RLO}gnp.exe"
    look_for(service, local, odd, "a")
    local.get_by_role("button", name="Preview forgetting a⟨U+202E⟩gnp.exe").click()
    expect(local.get_by_role("heading", level=1)).to_have_text("Forget sample a⟨U+202E⟩gnp.exe?")
    assert local.locator("h1 bdi").count() == 1


def test_a_name_with_a_line_break_is_forgotten_through_the_pages(service, local):
    odd = "two\nlines\r and \t tabs"
    look_for(service, local, odd, "two")
    local.get_by_role("button", name="Preview forgetting two").click()
    local.get_by_label("I am sure").check()
    local.get_by_role("button", name="Forget ").click()
    expect(local.get_by_role("heading", name="Progress")).to_be_visible()
    with Workspace(service.root) as workspace:
        assert withheld_ids(workspace.context.catalogue) == {odd}


def test_back_reload_and_the_address_bar_work_from_find_to_preview(local):
    local.goto("/pages/forget")
    local.get_by_label("whose name begins with").fill(ANN[0].id)
    local.get_by_role("button", name="Find").click()
    local.get_by_role("button", name="Preview forgetting").click()
    expect(local.get_by_text("Nothing has changed yet")).to_be_visible()
    local.goto(local.url)
    expect(local.get_by_text("Nothing has changed yet")).to_be_visible()
    local.reload()
    expect(local.get_by_text("Nothing has changed yet")).to_be_visible()
    local.go_back()
    expect(local.get_by_role("button", name="Preview forgetting")).to_be_visible()
    local.go_forward()
    expect(local.get_by_text("Nothing has changed yet")).to_be_visible()


def test_a_shard_that_is_chosen_after_the_session_ended_leads_to_the_log_in_and_back(service, tokens, local):
    local.goto("/pages/graph")
    local.get_by_label("Token").fill(tokens["operator"])
    local.get_by_role("button", name="Log in").click()
    expect(local.locator("#graph[data-nodes]")).to_be_visible()
    service.app.state.sessions = Sessions()  # as after a restart
    local.get_by_role("link", name="bob").click()
    expect(local.get_by_role("heading", name="Log in")).to_be_visible()
    expect(local.locator("#panel")).to_have_count(0)
    local.get_by_label("Token").fill(tokens["operator"])
    local.get_by_role("button", name="Log in").click()
    expect(local.locator("#panel")).to_contain_text("Shard bob")


def test_a_right_is_revoked_and_the_prediction_changes(logged_in):
    page = logged_in("operator")
    page.get_by_role("link", name="Rights").click()
    page.get_by_label("Consumer", exact=True).fill("acme")
    page.get_by_label("bob", exact=True).check()
    page.get_by_label("web", exact=True).check()
    page.get_by_role("button", name="Grant").click()
    expect(page.get_by_role("heading", name="Right of acme")).to_be_visible()

    def ask():
        page.get_by_label("Held-out sample").select_option(ROWS[24].id)
        page.get_by_role("button", name="Predict").click()
        return [one.inner_text() for one in page.locator("#answer td[data-side=right]").all()]

    before = ask()
    page.get_by_label("web", exact=True).first.check()
    page.get_by_role("button", name="Revoke selected").click()
    expect(page.locator("fieldset").first).not_to_contain_text("web")
    after = ask()
    assert before and after and before != after


def test_an_owner_sees_her_own_and_is_barred_from_the_rest(logged_in):
    operator, owner = logged_in("operator"), logged_in("owner")
    forget(operator, "sample", BOB[0].id)
    place = operator.url
    names = [one.inner_text() for one in owner.get_by_role("navigation").get_by_role("link").all()]
    assert names == ["Overview", "Forget", "Requests", "Proof"]
    for path in (place, place.replace("requests", "proof")):
        owner.goto(path)
        expect(owner.get_by_role("heading", name="Not found")).to_be_visible()
    owner.goto("/pages/graph")
    expect(owner.get_by_role("heading", name="Not allowed")).to_be_visible()
    owner.get_by_role("link", name="Forget", exact=True).click()
    owner.get_by_label("whose name begins with").fill(BOB[1].id)
    owner.get_by_role("button", name="Find").click()
    expect(owner.get_by_text("No sample of your sources has a name that begins like this")).to_be_visible()
    forget(owner, "sample", ANN[1].id)
    expect(owner.locator("#now [data-state=done]")).to_be_visible(timeout=60_000)


def test_a_shard_is_chosen_by_pointer_and_by_keyboard(logged_in):
    page = logged_in("auditor")
    page.get_by_role("link", name="Graph", exact=True).click()
    expect(page.locator("#graph[data-nodes]")).to_be_visible()
    assert int(page.locator("#graph").get_attribute("data-nodes")) >= 3
    page.get_by_role("link", name="bob").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_contain_text("Shard bob")
    expect(page.locator("#panel")).to_contain_text("samples to read again")
    canvas = page.locator("#graph")
    place = canvas.evaluate("(box) => box._cyreg.cy.nodes('[shard = \"web\"]').renderedPosition()")
    canvas.click(position=place)
    expect(page.locator("#panel")).to_contain_text("Shard web")
    expect(page.locator("#panel")).to_contain_text("Learned from by")


def test_hundreds_of_shards_stay_fluid_and_groups_fold(logged_in):
    page = logged_in("auditor")
    groups = [
        {
            "name": f"g{i:03d}",
            "label": f"g{i:03d}",
            "shards": [[f"g{i:03d}-{j}", 10 + j, f"g{i:03d}-{j}", "serving"] for j in range(4)],
        }
        for i in range(200)
    ]
    many = {"groups": groups, "edges": [[f"g{i:03d}", "g000", False] for i in range(1, 200)]}
    page.route("**/pages/graph.json", lambda route: route.fulfill(json=many))
    page.goto("/pages/graph")
    expect(page.locator("#graph")).to_have_attribute("data-nodes", "200")  # so many begin folded
    page.get_by_role("button", name="Unfold groups").click()
    expect(page.locator("#graph")).to_have_attribute("data-nodes", "1000")
    page.locator("#graph").scroll_into_view_if_needed()
    box = page.locator("#graph").bounding_box()
    before = page.evaluate("() => document.getElementById('graph')._cyreg.cy.pan().x")
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.evaluate(
        """() => {
            window.frames_ = [];
            let last = performance.now();
            const step = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(step); };
            requestAnimationFrame(step);
        }"""
    )
    for i in range(40):
        page.mouse.move(box["x"] + 8 + 5 * i, box["y"] + 8 + 3 * i)
    frames = sorted(page.evaluate("() => window.frames_"))
    page.mouse.up()
    assert page.evaluate("() => document.getElementById('graph')._cyreg.cy.pan().x") > before + 100
    assert len(frames) > 5 and frames[len(frames) // 2] < 100, frames  # ten a second, drawn by one busy core
    page.get_by_role("button", name="Fold groups", exact=True).click()
    expect(page.locator("#graph")).to_have_attribute("data-nodes", "200")


def test_times_are_in_the_readers_zone(logged_in):
    page = logged_in("auditor", timezone_id="Asia/Tokyo", locale="en-GB")
    page.goto("/pages/requests")
    shown = page.locator("td time").first
    zoned = shown.evaluate(
        "(time) => new Date(time.dateTime).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'})"
    )
    expect(shown).to_contain_text(zoned)
