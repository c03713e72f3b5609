"""Tokens: shown once, kept as hashes, worth nothing when they are changed."""

import pytest

from shardgraph.errors import InputError
from shardgraph.forget.workspace import Workspace
from shardgraph.service.auth.tokens import any_token, caller_of, create_token, list_tokens, revoke_token
from tests.cli.conftest import run
from tests.service.conftest import running
from tests.strategies import all_bytes


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
