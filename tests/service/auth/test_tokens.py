"""Tokens: shown once, kept as hashes, worth nothing when they are changed."""

import json

import pytest

from shardgraph.errors import InputError
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.workspace import Workspace
from shardgraph.graph import BySource
from shardgraph.service.auth.tokens import any_token, caller_of, create_token, list_tokens, revoke_token
from shardgraph.storage.tables import parties
from tests.cli.conftest import run
from tests.service.conftest import running
from tests.strategies import QUICK, ROWS, Row, all_bytes, embed


def test_a_token_is_its_callers_and_is_nowhere_on_disk(catalogue, tmp_path):
    assert not any_token(catalogue)
    token = create_token(catalogue, "ann-1", "owner", ["ann"])
    caller = caller_of(catalogue, token)
    assert caller and (caller.name, caller.role, caller.sources) == ("ann-1", "owner", ("ann",))
    assert any_token(catalogue)
    secret = token.rsplit(".", 1)[1].encode()
    assert not [name for name, raw in all_bytes(tmp_path).items() if secret in raw]


def test_what_is_not_quite_a_token_is_nobodys(catalogue):
    token = create_token(catalogue, "op", "operator")
    for wrong in (
        "",
        "sg",
        "sg.op",
        "sg.op.",
        token[:-1],
        token + "x",
        token.replace("sg", "gs"),
        "sg.no." + token[6:],
    ):
        assert caller_of(catalogue, wrong) is None
    revoke_token(catalogue, "op")
    assert caller_of(catalogue, token) is None


def test_two_tokens_of_one_name_never_stand_beside_each_other(catalogue):
    first = create_token(catalogue, "op", "operator")
    with pytest.raises(InputError, match="already"):
        create_token(catalogue, "op", "operator")
    revoke_token(catalogue, "op")
    assert create_token(catalogue, "op", "operator") != first


@pytest.mark.parametrize(
    ("name", "role", "sources"),
    [
        ("", "operator", ()),
        ("a.b", "operator", ()),
        ("x", "king", ()),
        ("x", "owner", ()),
        ("x", "auditor", ("ann",)),
        ("local", "owner", ("ann",)),
        ("record", "operator", ()),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(catalogue, name, role, sources):
    with pytest.raises(InputError):
        create_token(catalogue, name, role, sources)
    assert list_tokens(catalogue) == []


def test_the_command_makes_lists_and_revokes(root):
    made = run("token", root, "ann-1", "--role", "owner", "--source", "ann", "--json").json
    assert made["token"].startswith("sg.ann-1.")
    listed = run("token", root, "--json").json["tokens"]
    assert [(one["name"], one["role"], one["sources"]) for one in listed] == [("ann-1", "owner", ["ann"])]
    assert "hash" not in listed[0]
    assert "ann-1" in run("token", root).out
    assert run("token", root, "ann-1", "--revoke", "--json").json == {"revoked": "ann-1"}
    assert run("token", root, "ann-1", "--revoke").code == 1
    assert run("token", root, "ann-1").code == 2 and run("token", root, "--revoke").code == 2


def test_once_there_was_a_token_nobody_is_let_in_without(root):
    with Workspace(root) as workspace:
        create_token(workspace.context.catalogue, "op", "operator")
        revoke_token(workspace.context.catalogue, "op")
        assert list_tokens(workspace.context.catalogue) == []
    with running(root) as service:
        assert service("GET", "/status").status_code == 401
        assert service("POST", "/requests", json={"labels": ["ant"]}).status_code == 401


@pytest.mark.parametrize("safe", [(), ("ann",)])
def test_a_forgotten_source_leaves_the_tokens_and_every_file_that_does_not_declare_it(create, safe):
    named = "zoë-the-source"  # JSON may write it in two ways
    safe = tuple(named for _ in safe)
    workspace = create()
    workspace.add(embed([row._replace(source=named if row.source == "ann" else row.source) for row in ROWS]))
    workspace.train(BySource(safe), QUICK)
    catalogue = workspace.context.catalogue
    token = create_token(catalogue, "a", "owner", [named, "bob"])
    alone = create_token(catalogue, "b", "owner", [named])
    workspace.forget(ForgetRequest(sources=(named,)))
    assert caller_of(catalogue, token).sources == ("bob",), "the rest stays"
    assert caller_of(catalogue, alone).sources == ()
    forms = (named.encode(), json.dumps(named)[1:-1].encode())
    where = [name for name, raw in all_bytes(workspace.root).items() if any(form in raw for form in forms)]
    assert where == (["config.json"] if safe else [])
    assert named not in json.dumps(workspace.status(), ensure_ascii=False)


def test_a_revoked_token_keeps_no_source(catalogue):
    create_token(catalogue, "ann-1", "owner", ["ann"])
    revoke_token(catalogue, "ann-1")
    assert parties.find_token(catalogue, "ann-1").sources == () and catalogue.dirty


def test_an_owner_whose_source_is_forgotten_reaches_its_requests_and_nothing_else(root, tokens):
    with running(root) as service:
        owner = tokens["owner"]
        assert service("POST", "/requests", owner, json={"sources": ["ann"]}).status_code == 202
        service.work()
        assert service("GET", "/requests/1", owner).json()["state"] == "done"
        assert service("GET", "/requests/1/certificate", owner).status_code == 200
        with Workspace(root, workers=1) as workspace:  # somebody gives samples under the same name
            workspace.add(embed([Row("new", "ant", "ann"), Row("newer", "bee", "ann")]))
            workspace.train()
        assert service("POST", "/requests/preview", owner, json={"samples": ["new"]}).status_code == 404
        assert service("POST", "/requests", owner, json={"sources": ["ann"]}).json()["certificate"] == 1
