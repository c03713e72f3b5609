"""Commands, options, routes, schemas and pages are those that surface.json holds."""

from tests.compatibility import surface


def test_every_command_has_the_options_and_arguments_it_had():
    assert surface.differences({"commands": surface.load()["commands"]}, {"commands": surface.commands()}) == []


def test_the_service_has_the_routes_schemas_and_pages_it_had():
    """A schema's own name is in no request and no answer: what counts is which properties there are together."""
    expected = {part: known for part, known in surface.load().items() if part != "commands"}
    found = surface.service()
    assert sorted(expected.pop("schemas").values()) == sorted(found.pop("schemas").values())
    assert surface.differences(expected, found) == []


def test_a_changed_option_and_a_lost_route_are_noticed():
    known = surface.load()
    changed = known | {"routes": known["routes"][1:], "commands": known["commands"] | {"repair": {}, "other": {}}}
    found = surface.differences(known, changed)
    assert len(found) == 3 and known["routes"][0] in found[2]
    assert surface.differences(known, known | {"commands": known["commands"] | {"migrate": {}}}) == []
