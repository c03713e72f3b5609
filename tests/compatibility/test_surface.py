"""Commands, options, routes, schemas and pages are those that surface.json holds."""

from tests.compatibility import surface


def test_every_command_has_the_options_and_arguments_it_had():
    assert surface.differences({"commands": surface.load()["commands"]}, {"commands": surface.commands()}) == []


def test_the_service_has_the_routes_schemas_and_pages_it_had():
    expected = {part: known for part, known in surface.load().items() if part != "commands"}
    assert surface.differences(expected, surface.service()) == []


def test_a_changed_option_and_a_lost_route_are_noticed():
    known = surface.load()
    changed = known | {"routes": known["routes"][1:], "commands": known["commands"] | {"repair": {}, "other": {}}}
    found = surface.differences(known, changed)
    assert len(found) == 3 and known["routes"][0] in found[2]
    assert surface.differences(known, known | {"commands": known["commands"] | {"migrate": {}}}) == []
    train = {"options": [*known["commands"]["train"]["options"], "--config VALUE"], "arguments": ["WORKSPACE"]}
    assert surface.differences(known, known | {"commands": known["commands"] | {"train": train}}) == []
    train["options"].append("--other VALUE")
    assert len(surface.differences(known, known | {"commands": known["commands"] | {"train": train}})) == 1
    lost = {name: properties[1:] if name == "Health" else properties for name, properties in known["schemas"].items()}
    assert surface.differences(known, known | {"schemas": lost}) != []
