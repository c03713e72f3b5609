"""The OpenAPI document: complete, with examples; whatever it allows gets an answer it describes, and never a 5xx."""

from contextlib import suppress

import pytest
import schemathesis
from hypothesis import Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from shardgraph.forget.workspace import Workspace
from shardgraph.service.auth.tokens import create_token
from tests.service.conftest import running
from tests.strategies import ROWS

ANSWERS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
)


@pytest.fixture(scope="module")
def documented(module_root):
    """A service with requests in several states, and the operator's token."""
    with Workspace(module_root) as workspace:
        token = create_token(workspace.context.catalogue, "op", "operator")
    with running(module_root) as service:
        for row in ROWS[:4]:
            assert service("POST", "/requests", token, json={"samples": [row.id]}).status_code == 202
        service("POST", "/requests/1/cancel", token)
        while service.work():
            pass
        yield service, token


@pytest.fixture(scope="module")
def document(documented):
    return documented[0]("GET", "/openapi.json").json()


def operations(document):
    return [(f"{m.upper()} {p}", one) for p, ms in document["paths"].items() for m, one in ms.items()]


def test_every_operation_is_described_and_every_failure_too(document):
    for name, operation in operations(document):
        assert operation.get("description"), name
        assert operation["tags"], name
        guarded = "security" in operation
        codes = set(operation["responses"])
        assert {"401", "403"} <= codes if guarded else not {"401", "403"} & codes, name


def test_whatever_takes_a_body_may_find_it_too_large(document):
    for name, operation in operations(document):
        assert "413" in operation["responses"] or not name.startswith("POST"), name


def test_every_body_and_every_path_parameter_has_an_example(document):
    schemas = document["components"]["schemas"]
    for name, operation in operations(document):
        for kind, body in operation.get("requestBody", {}).get("content", {}).items():
            if kind == "application/json":
                model = body["schema"]["$ref"].rsplit("/", 1)[1]
                assert schemas[model].get("examples"), (name, model)
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                assert parameter["schema"].get("examples") or parameter.get("examples"), (name, parameter["name"])


def fuzz(documented, examples):
    """Call every operation with what the document allows, and with what it does not."""
    service, token = documented
    schema = schemathesis.openapi.from_url(f"{service.base}/openapi.json")
    rules = settings(max_examples=examples, phases=[Phase.explicit, Phase.generate], derandomize=True)
    for found in schema.get_all_operations():
        for mode in GenerationMode:
            strategy = found.ok().as_strategy(generation_mode=mode)
            with suppress(Unsatisfiable):  # an operation that takes nothing cannot be sent anything wrong
                given(case=strategy)(rules(answered(token, mode)))()


def answered(token, mode):
    """A call is answered as the document says; nothing that is sent makes it fail."""

    def call(case):
        response = case.call(headers={"Authorization": f"Bearer {token}"}, timeout=20)
        case.validate_response(response, checks=ANSWERS if mode == GenerationMode.POSITIVE else ANSWERS[:1])

    return call


def test_what_the_document_allows_is_answered_as_it_says(documented):
    fuzz(documented, 5)


@pytest.mark.slow
def test_what_the_document_allows_is_answered_as_it_says_many_times(documented):
    fuzz(documented, 60)
