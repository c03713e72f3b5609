"""The file of `train --config`: TOML whose keys are the long names of the options of `train`."""

import difflib
import tomllib
from inspect import Parameter
from pathlib import Path
from typing import Any, get_args

import typer

LEFT_OUT = ("config", "json", "help")  # options that stand on the command line alone
_KINDS = {list: "a list of texts", bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def read_options(path: Path, known: dict[str, Parameter]) -> dict[str, Any]:
    """The values in the file by parameter; `known` holds the parameters by the long names of their options."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} must be a file in TOML, got {error}", param_hint="--config") from error
    names = [name for name in known if name not in LEFT_OUT]
    found = {}
    for key, value in values.items():
        if key not in names:
            nearest = difflib.get_close_matches(key, names, n=1, cutoff=0)[0]
            told = f"{path} has the key {key!r}, which is no option of this command; the nearest one is {nearest!r}"
            raise typer.BadParameter(told, param_hint="--config")
        found[known[key].name] = _checked(path, key, value, known[key])
    return found


def _checked(path: Path, key: str, value: Any, parameter: Parameter) -> Any:
    """The value; an error if it is of another kind than the option. Without this, 2.5 epochs would count as 2."""
    kind = _kind(parameter)
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    right = right or (kind is float and type(value) is int)
    if not right or (kind is list and not all(isinstance(each, str) for each in value)):
        raise typer.BadParameter(f"{path}: {key} must be {_KINDS[kind]}, got {value!r}", param_hint="--config")
    return value


def _kind(parameter: Parameter) -> type:
    """The kind of an option's value: `Annotated[list[str] | None, ...]` is a list."""
    given = get_args(parameter.annotation)[0]
    kinds = [each for each in (given, *get_args(given)) if each is not type(None)]
    return next((kind for kind in _KINDS if any(each is kind or _origin(each) is kind for each in kinds)), str)


def _origin(kind: Any) -> Any:
    return getattr(kind, "__origin__", None)
