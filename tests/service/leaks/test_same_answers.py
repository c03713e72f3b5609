"""What an owner is told is the same whether or not another source holds the same subject, label, shard or id."""

import json
from dataclasses import replace

import pytest

from shardgraph.forget.workspace import Workspace
from shardgraph.graph import Bilevel
from shardgraph.service.auth.tokens import create_token
from shardgraph.storage.tables import inventory
from tests.service.conftest import running
from tests.service.leaks.canaries import steady, whole
from tests.service.pages.conftest import PageClient
from tests.strategies import QUICK, Row, embed

CONTESTED, RETURNING, NEVER = "zq-contested", "zq-returning", "zq-never"
MINE = [Row(f"zq-mine-{i}", ("ant", "bee")[i % 2], "ann", ("p1", "p2")[i // 2 % 2]) for i in range(8)]
MINE += [Row(RETURNING, "bee", "ann", "p1")]
# The other source holds either what ann has and asks for, or nothing of it.
SAME = [Row(CONTESTED, "ant", "bob", "p1"), *(Row(f"zq-other-{i}", "bee", "bob", "p2") for i in range(8))]
OTHER = [Row("zq-elsewhere", "cat", "bob", "p8"), *(Row(f"zq-other-{i}", "dog", "bob", "p9") for i in range(8))]

ASKED = [
    {"samples": [CONTESTED]},
    {"samples": [NEVER]},
    {"samples": ["zq-mine-0", CONTESTED]},
    {"samples": [RETURNING]},
    {"subjects": ["p1"]},
    {"subjects": ["p1", "p2"]},
    {"subjects": [NEVER]},
    {"labels": ["ant"]},
    {"labels": ["ant"], "subjects": ["p1"], "samples": ["zq-mine-3"]},
    {"labels": [NEVER]},
    {"shards": ["c0-f0"]},
    {"shards": [NEVER]},
    {"sources": ["ann"]},
    {"sources": ["bob"]},
    {"sources": ["ann"], "subjects": ["p1"]},
    {},
]


class Owner:
    """Ann, who writes down every answer that she gets."""

    def __init__(self, service, token):
        self.service, self.token, self.answers = service, token, []
        self.pages = PageClient(service)
        self.pages.log_in(token)
        self.pages.get("/pages")

    def call(self, method, path, **options):
        answer = self.service(method, path, self.token, **options)
        self.answers.append((f"{method} {path} {options}", steady(whole(answer))))
        return answer

    def look(self):
        """Every question about every name: previews, searches, requests, pages."""
        for body in ASKED:
            for twins in (False, True):
                self.call("POST", "/requests/preview", json=body | {"twins": twins})
        for body in ({"samples": [CONTESTED]}, {"subjects": [NEVER]}, {"sources": ["bob"]}):
            self.call("POST", "/requests", json=body)
        for path in ("/requests", "/requests/1", "/requests/2", "/requests/99"):
            self.call("GET", path)
        for name in (CONTESTED, NEVER, "zq-mine-0", RETURNING):
            self.call("POST", "/requests/1/nonces", json={"samples": [name]})
        for kind, names in {"sample": ("zq-", RETURNING), "subject": ("p", "p1"), "source": ("ann", "bob")}.items():
            for name in names:
                self.form("/pages/forget/find", kind=kind, wanted=name)
                self.form("/pages/forget/preview", kind=kind, name=json.dumps(name), look="yes")
        for path in ("", "/forget", "/requests", "/requests/1", "/proof", "/graph", "/rights"):
            self.note(f"GET {path}", self.pages.get(f"/pages{path}", follow_redirects=True))

    def form(self, path, **data):
        self.note(f"{path} {data}", self.pages.post(path, data, follow_redirects=True))

    def note(self, what, answer):
        self.answers.append((what, steady(whole(answer))))

    def forget(self, body):
        """Ask, have it carried out, and ask again."""
        number = self.call("POST", "/requests", json=body).json()["number"]
        self.service.work()
        self.call("GET", f"/requests/{number}")
        self.call("GET", f"/requests/{number}/events")
        self.call("POST", "/requests", json=body)
        return number


def lived(root, others, returns):
    """The answers to ann in a workspace where bob holds these, and takes her id over when she has it forgotten."""
    with Workspace.create(root, seed=0, classes=("ant", "bee", "cat", "dog"), workers=1) as workspace:
        workspace.add(embed([*MINE, *others]))
        workspace.train(Bilevel(2, 1), QUICK)
        token = create_token(workspace.context.catalogue, "ann", "owner", ("ann",))
    with running(root) as service:
        ann = Owner(service, token)
        ann.look()
        assert ann.forget({"samples": [RETURNING]}) == 1
        with Workspace(root, workers=1) as workspace:
            row = Row(RETURNING if returns else "zq-another", "bee", "bob", "p1")
            workspace.add(replace(embed([Row("x", "bee")]), ids=(row.id,), sources=("bob",)), allow_return=returns)
            workspace.train()
        service.runtime.sync()
        ann.look()
        ann.forget({"subjects": ["p1"]})
        ann.look()
        ann.forget({"labels": ["ant"]})
        ann.forget({"shards": ["c0-f0"]})
        ann.look()
        ann.forget({"sources": ["ann"]})
        ann.look()
        ann.pages.client.close()
    with Workspace(root) as workspace:
        left = {row.id for row in inventory.find_by(workspace.context.catalogue, "source", ["bob"])}
    assert left == {row.id for row in others} | {row.id}, "what is bob's stays"
    return ann.answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    return lived(folder / "with", SAME, True), lived(folder / "without", OTHER, False)


def test_every_answer_to_an_owner_is_the_same_whatever_another_source_holds(answers):
    with_same, without = answers
    assert [what for what, _ in with_same] == [what for what, _ in without]
    differ = [(what, one, two) for (what, one), (_, two) in zip(with_same, without, strict=True) if one != two]
    assert differ == []


def test_an_owner_forgets_by_subject_label_and_shard(answers):
    said = dict(answers[0])  # the last answer to every call
    again = {what: text for what, text in said.items() if what.startswith("POST /requests {'json': {")}
    for body in ({"subjects": ["p1"]}, {"labels": ["ant"]}, {"shards": ["c0-f0"]}, {"sources": ["ann"]}):
        text = again[f"POST /requests {{'json': {body}}}"]
        assert text.startswith("202") and '"state":"done"' in text, "asked again, it is done already"
