"""The pages in Chromium: accessibility, long names, and windows of all sizes."""

import pytest
from playwright.sync_api import expect

from shardgraph.forget.workspace import Workspace
from tests.service.pages.browser import DESKTOP, PHONE, troubles
from tests.strategies import embed, many

pytestmark = pytest.mark.slow


def test_labels_in_the_drawing_do_not_overlap(logged_in):
    page = logged_in("auditor")
    names = [f"a-source-with-a-long-name-{i}" for i in range(9)]
    shards = [[name, 10, name, "serving"] for name in names]
    drawn = {"groups": [{"name": "g", "label": "g", "shards": shards}], "edges": []}
    page.route("**/pages/graph.json", lambda route: route.fulfill(json=drawn))
    page.goto("/pages/graph")
    expect(page.locator("#graph")).to_have_attribute("data-nodes", "10")
    overlaps = page.evaluate(
        """() => {
            const only = { includeNodes: false, includeEdges: false, includeOverlays: false, includeUnderlays: false };
            const { cy } = document.getElementById('graph')._cyreg;
            const boxes = cy.nodes('[shard]').map((node) => node.boundingBox(only));
            const hit = (a, b) => a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2;
            return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => hit(a, b))).length;
        }"""
    )
    assert overlaps == 0


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_long_name_makes_no_page_wider_than_the_window(service, local, viewport):
    long = "n" * 127
    with Workspace(service.root) as workspace:
        workspace.add(embed([row._replace(id=f"{long}{i}", source=long) for i, row in enumerate(many(4))]))
        workspace.train()
        workspace.consumers.grant(long, sources=[long])
    service.runtime.sync()
    service("POST", "/requests", json={"samples": [f"{long}1"]})
    local.set_viewport_size(viewport)
    wrong = []
    for path in ("", "/requests", "/rights", f"/rights/of?consumer={long}", f"/graph?shard={long}", "/graph?shard=ann"):
        local.goto(f"/pages{path}")
        wrong += troubles(local)
    broken = "(link) => { const part = new Range(); part.setStart(link.firstChild, 0); part.setEnd(link.firstChild, 7);"
    local.goto("/pages/requests")
    link = local.get_by_role("link", name="Request 1")
    assert link.evaluate(broken + " return part.getClientRects().length; }") == 1, "a word is broken in two"
    for kind in ("sample", "source"):
        local.goto("/pages/forget")
        local.get_by_label(kind, exact=True).check()
        local.get_by_label("whose name begins with").fill("nnn")
        local.get_by_role("button", name="Find").click()
        wrong += troubles(local)
        local.get_by_role("button", name="Preview forgetting").first.click()
        wrong += troubles(local)
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_has_a_serious_accessibility_violation_or_scrolls_sideways(logged_in, scheme, viewport):
    page = logged_in("operator", viewport, color_scheme=scheme)
    wrong = []

    def look():
        wrong.extend(troubles(page))

    for path in ("", "/graph?shard=ann", "/forget", "/requests", "/requests/1", "/proof", "/proof/1", "/rights", "/no"):
        page.goto(f"/pages{path}")
        look()
    page.goto("/pages/rights/of?consumer=the-consumer")
    look()
    page.get_by_role("button", name="Predict").click()
    look()
    page.get_by_role("button", name="Measure").click()
    look()
    page.goto("/pages/forget")
    page.get_by_label("whose name begins with").fill("sample")
    page.get_by_role("button", name="Find").click()
    look()
    page.get_by_role("button", name="Preview").first.click()
    look()
    page.goto("/pages/proof/1")
    page.get_by_role("button", name="Verify", exact=True).click()
    look()
    page.get_by_role("button", name="Log out").click()
    look()
    assert wrong == []


SEEN = {  # pages that the navigation does not lead to, and one that the role is barred from
    "owner": ("/requests/2", "/proof/2", "/graph"),
    "auditor": ("/graph?shard=ann", "/requests/1", "/proof/1", "/rights/of?consumer=the-consumer", "/forget"),
    "consumer": ("/rights/of?consumer=the-consumer", "/requests"),
}
PRESSED = {  # buttons that show more, one after the other, and the page they are on
    "owner": {"/forget": ("Find", "Preview"), "/proof/2": ("Verify",)},
    "auditor": {"/proof/1": ("Verify",), "/rights/of?consumer=the-consumer": ("Measure",)},
    "consumer": {"/rights/of?consumer=the-consumer": ("Measure",)},
}


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
@pytest.mark.parametrize("role", SEEN)
def test_what_the_other_roles_see_is_as_accessible(logged_in, role, viewport, scheme):
    page = logged_in(role, viewport, color_scheme=scheme)
    links = page.get_by_role("navigation").get_by_role("link").all()
    wrong = []
    for path in [*(link.get_attribute("href") for link in links), *(f"/pages{path}" for path in SEEN[role])]:
        page.goto(path)
        wrong += troubles(page)
    for path, buttons in PRESSED[role].items():
        page.goto(f"/pages{path}")
        if path == "/forget":
            page.get_by_label("whose name begins with").fill("sample")
        for name in buttons:
            page.get_by_role("button", name=name).first.click()
            wrong += troubles(page)
    assert wrong == []
