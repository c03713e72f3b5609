"""What later versions added to the command line, and the one value that they changed; everything else is compared.

An addition is left out of an output before its keys and values are compared with digests.json, and out of the list of
options before it is compared with surface.json. An addition that no command has any more fails
`test_additions.py`, and so does one that was there before.
"""

from typing import Any

# command -> key of its JSON output (`a.b`: key b of the object a) -> why it was added
ADDITIONS: dict[str, dict[str, str]] = {
    "init": {"backbone_path": "where the backbone lies"},
    "plan": {
        "training_samples": "how many of the samples that leave are trained on",
        "exact_copies": "how many exact copies of the samples stay",
        "test_samples": "how many of them are held out: the accuracy is then measured on fewer",
    },
    "forget": {
        "plan.training_samples": "as in plan",
        "plan.test_samples": "as in plan",
        "exact_copies": "as in plan",
        "rebuilt": "whether the groups that saw the samples were rebuilt",
        "solve_seconds": "how many of the seconds were needed to load the model and solve its prototypes",
    },
    "evaluate": {
        "macro_accuracy": "the mean of the accuracies of the classes",
        "classes": "accuracy and number of test samples by class",
    },
}

_PLACE = "where a backbone lies that was moved"

# command -> option, as `surface.commands` writes it -> why it was added
ADDED_OPTIONS: dict[str, dict[str, str]] = {
    "init": {
        "--from VALUE": "the samples of another workspace, so that nothing is embedded again",
        "--backbone-path VALUE": _PLACE,
    },
    "add": {"--backbone-path VALUE": _PLACE},
    "predict": {"--backbone-path VALUE": _PLACE},
    "serve": {"--backbone-path VALUE": _PLACE},
    "plan": {"--near-twins": "near twins were always searched for, which reads every file"},
    "train": {"--config VALUE": "options from a TOML file"},
}

# (command, key of its JSON output) -> the value now, the value then, and why it changed
CHANGED: dict[tuple[str, str], tuple[Any, Any, str]] = {
    ("plan", "twins.near"): (None, 0, "near twins are searched for with --near-twins only: that reads every file"),
}


def as_before(command: str, output: Any) -> Any:
    """A JSON output without its additions, and with the values that were changed as they were."""
    if not isinstance(output, dict):
        return output
    for key in ADDITIONS.get(command, ()):
        output = _replaced(output, key.split("."), None)
    for (name, key), (now, then, _) in CHANGED.items():
        if name == command and find(output, key) == [now]:
            output = _replaced(output, key.split("."), [then])
    return output


def find(output: Any, key: str) -> list[Any]:
    """The value at a key, in a list; an empty list if it is not there."""
    for part in key.split("."):
        if not isinstance(output, dict) or part not in output:
            return []
        output = output[part]
    return [output]


def _replaced(output: Any, path: list[str], value: list[Any] | None) -> Any:
    """The output with this value at a path, or without the key if there is none."""
    if not isinstance(output, dict) or path[0] not in output:
        return output
    if len(path) > 1:
        return output | {path[0]: _replaced(output[path[0]], path[1:], value)}
    rest = {key: inner for key, inner in output.items() if key != path[0]}
    return rest if value is None else output | {path[0]: value[0]}
