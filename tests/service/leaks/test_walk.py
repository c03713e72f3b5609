"""All routes and pages, by callers of every kind, before and after a source is forgotten: who reads which names."""

import pytest

from tests.service.conftest import running
from tests.service.leaks.canaries import (
    ALPHA,
    CALLERS,
    CONSUMERS,
    EVERYTHING,
    IDS,
    LABEL,
    LABELS,
    NAMES,
    OWNERS,
    PLACE,
    SOURCE_OF,
    SOURCES,
    SUBJECT,
    SUBJECTS,
    accuracy_of,
    api_calls,
    create,
    page_calls,
    page_routes,
    walk,
)

REQUEST = {"owner-one": 1, "owner-two": 2}  # the request whose pages a caller walks; the others walk the first


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """By time and caller, every call with its answer; and the accuracies of the whole model that were recorded."""
    root = tmp_path_factory.mktemp("leaks") / PLACE / "ws"
    root.parent.mkdir()
    tokens, answers = create(root), {}
    accuracies = list(accuracy_of(root))
    with running(root) as service:
        known = set(service("GET", "/openapi.json").json()["paths"])
        for name in OWNERS:
            made = service("POST", "/requests", tokens[name], json={"sources": [SOURCE_OF[name]]}).json()["number"]
            assert service("POST", f"/requests/{made}/cancel", tokens[name]).status_code == 200
        for name in CALLERS:
            answers["before", name] = list(walk(service, tokens[name], REQUEST.get(name, 1)))
        asked = service("POST", "/requests", tokens["owner-one"], json={"sources": [ALPHA]})
        assert asked.status_code == 202 and service.work() == [asked.json()["number"]]
        accuracies += accuracy_of(root)
        for name in CALLERS:
            number = 2 if name == "owner-two" else asked.json()["number"]
            answers["after", name] = list(walk(service, tokens[name], number))
    return answers, accuracies, known


def told(name, time):
    """The names that a caller may read."""
    present = [source for source in SOURCES if time == "before" or source != ALPHA]
    if name == "operator":
        return {PLACE, SUBJECT, LABEL, *(canary for source in present for canary in NAMES[source])}
    if name == "auditor":  # no names of samples and subjects
        return {LABEL, *present, *(LABELS[source] for source in present)}
    source = SOURCE_OF.get(name)
    if source is None or (source == ALPHA and time == "after"):
        return set()
    own = {source, LABEL, LABELS[source]}
    return own | {SUBJECT, SUBJECTS[source], IDS[source]} if name in OWNERS else own


@pytest.mark.parametrize("time", ["before", "after"])
@pytest.mark.parametrize("name", CALLERS)
def test_no_answer_holds_a_name_that_is_not_the_callers(walked, name, time):
    answers, _, _ = walked
    hidden = set(EVERYTHING) - told(name, time)
    wrong = [
        (call.method, call.path, canary)
        for call, text in answers[time, name]
        for canary in hidden
        if canary in text and canary not in call.sent
    ]
    assert wrong == []


@pytest.mark.parametrize("time", ["before", "after"])
@pytest.mark.parametrize("name", [*OWNERS, *CONSUMERS, "nobody", "stranger"])
def test_the_accuracy_of_the_whole_model_is_for_operators_and_auditors(walked, name, time):
    answers, accuracies, _ = walked
    wrong = [(c.method, c.path) for c, text in answers[time, name] if any(figure in text for figure in accuracies)]
    assert wrong == []
    assert any(accuracies[0] in text for _, text in answers["before", "operator"]), "it is there to be found"


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_consumer_reads_no_figure_of_the_whole_workspace(walked, name):
    answers, _, _ = walked
    pages = [text for call, text in answers["before", name] if call.route.startswith("/pages/rights")]
    assert any("adapters used" in text for text in pages) and any('id="accuracy"' in text for text in pages)
    assert [text for text in pages if 'class="of"' in text or "complete model" in text] == []
    states = [text for call, text in answers["before", name] if call.route == "/states/{state}"]
    assert '"withheld":null' in states[0]


def test_the_walk_passes_every_route_and_every_page(walked):
    _, _, known = walked
    assert len(known) >= 20 and {call.route for call in api_calls("", 1, "x")} == known
    assert len(api_calls("", 1, "x")) > 25
    visited = {(call.method, call.route) for call in page_calls("", 1, "x")}
    assert visited == page_routes() and len(visited) > 25


def test_what_is_said_is_not_nothing(walked):
    """The names are where they may be: the walk would notice an answer that held them."""
    answers, _, _ = walked
    for name in ("operator", "auditor", *SOURCE_OF):
        text = "".join(text for _, text in answers["before", name])
        assert {canary for canary in told(name, "before") - {PLACE} if canary not in text} == set(), name
