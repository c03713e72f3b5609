"""Where the workspace lies on the server is told to the operator alone, whatever is damaged there."""

from pathlib import Path

import pytest

from shardgraph import errors
from shardgraph.forget.workspace import Workspace
from shardgraph.service.auth.tokens import ROLES, Caller
from shardgraph.service.error_responses import message_for, status_of
from tests.service.conftest import running
from tests.service.leaks.canaries import BETA, CALLERS, GAMMA, PLACE, create, walk

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ShardgraphError)]
TEXTS = (
    "{root} is being written just now; try again",
    "the certificate {root}/certificates/000001.json is missing",
    "'/srv/models/vit.safetensors' must be a readable file",
    "[Errno 2] No such file or directory: '/home/ann/data'",
    "samples of {root}, where shard:bob lies",
)


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """By damage and caller, every call with its answer."""
    answers = {}
    root = tmp_path_factory.mktemp("paths") / PLACE / "ws"
    root.parent.mkdir()
    tokens = create(root)
    with Workspace(root) as workspace:
        shards = [workspace.context.store.path(f"shard:{name}") for name in (BETA, GAMMA)]
    with running(root) as service:
        request = service("POST", "/requests", tokens["owner-two"], json={"samples": ["zqid-of-beta-3"]}).json()
        assert service.work() == [request["number"]]
        (certificate,) = (root / "certificates").glob("*")
        for path in (*shards, certificate):
            path.write_bytes(path.read_bytes()[:-9])
        for name in CALLERS:
            answers["files", name] = list(walk(service, tokens[name], request["number"]))
        certificate.unlink()
        (root / "manifest.json").unlink()
        (root / "config.json").write_text("{}")
        for name in CALLERS:
            answers["configuration", name] = list(walk(service, tokens[name], request["number"]))
    return answers


@pytest.mark.parametrize("damage", ["files", "configuration"])
@pytest.mark.parametrize("name", [name for name in CALLERS if name != "operator"])
def test_no_answer_says_where_the_workspace_lies(walked, name, damage):
    assert [(call.method, call.path) for call, text in walked[damage, name] if PLACE in text] == []


@pytest.mark.parametrize("damage", ["files", "configuration"])
def test_the_operator_is_told(walked, damage):
    assert any(PLACE in text for _, text in walked[damage, "operator"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["/srv/tenants/ann/ws", "ws"])
def test_no_text_of_any_error_names_a_file_to_others(kind, place):
    root = Path(place)
    for text in TEXTS:
        error = kind(text.format(root=root))
        for who in (None, *(Caller("x", role) for role in ROLES)):
            told = message_for(error, who, root)
            if who is not None and who.role == "operator":
                assert told == str(error)
            else:
                assert told and "/srv/" not in told and "/home/" not in told and "ws/" not in told and status_of(error)
            if who is None or who.role in ("owner", "consumer"):
                assert place not in told.split() and "bob" not in told


def test_what_is_wrong_with_what_was_sent_is_told_to_everybody():
    root, owner = Path("/srv/ws"), Caller("ann", "owner", ("ann",))
    for error in (
        errors.InputError("tokens and features must be rectangular: as many numbers for every sample"),
        errors.WorkspaceError("request 3 is done: it can be cancelled until erasing starts"),
        errors.WorkspaceBusy("too many previews are under way; try again in a moment"),
        errors.InputError("this workspace holds features of 8 dimensions, got 1/2, see https://example.org/a/b"),
    ):
        assert message_for(error, owner, root) == str(error)
