"""One string where a list of names must be is refused: its letters are nobody's names."""

import pytest

from shardgraph.errors import InputError
from shardgraph.forget.classifier import SafeClassifier
from shardgraph.forget.erase.plan import NAMED, ForgetRequest
from shardgraph.forget.rights.rights import Right
from tests.strategies import LABELS, QUICK, Row, embed

ROWS = [Row(str(i), LABELS[i % 4], "ab"[i // 2 % 2]) for i in range(1, 13)]
LETTERS = ["12", b"12"]


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("names", LETTERS)
def test_a_request_takes_no_string_for_a_list(kind, names):
    with pytest.raises(InputError, match=f"the {kind} of a request must be a list of names, got b?'12'"):
        ForgetRequest(**{kind: names})


@pytest.mark.parametrize("names", [*LETTERS, 12])
def test_a_classifier_forgets_nobody_for_a_string(names):
    samples = embed(ROWS, most_tokens=1)
    model = SafeClassifier(recipe=QUICK).fit(samples.features, samples.labels, ids=samples.ids)
    before = model.digest_
    for act in (model.forget, model.plan_forget):
        with pytest.raises(InputError, match="must be a list of names"):
            act(names)
    assert model.digest_ == before


@pytest.mark.parametrize("kind", ["sources", "shards"])
def test_a_right_is_given_and_taken_by_lists(workspace, kind):
    for act in (workspace.consumers.grant, workspace.consumers.preview):
        with pytest.raises(InputError, match=f"the {kind} of a right must be a list"):
            act("eve", **{kind: "ab"})
    assert workspace.consumers.rights() == {}
    held = workspace.consumers.grant("eve", **{kind: ["a", "b"]})
    with pytest.raises(InputError, match=f"the {kind} of a right must be a list"):
        workspace.consumers.revoke("eve", **{kind: "ab"})
    assert workspace.consumers.rights() == {"eve": held}
    other = {"sources": (), "shards": (), kind: "ab"}
    for act in (Right("eve").plus, Right("eve").minus):
        with pytest.raises(InputError, match="must be a list"):
            act(**other)


@pytest.mark.parametrize("names", LETTERS)
def test_twins_are_looked_for_by_lists(workspace, names):
    with pytest.raises(InputError, match="twins are looked for must be a list"):
        workspace.twins(names)


def test_a_workspace_takes_no_string_for_its_classes(create):
    with pytest.raises(InputError, match="the classes of a workspace must be a list"):
        create("new", classes="ab")
