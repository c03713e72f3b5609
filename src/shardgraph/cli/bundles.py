"""Options that go together, stated once: a command takes a dataclass, the command line shows its fields."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any


def unbundled(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: in place of a parameter that is a dataclass stand the dataclass's fields."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    bundles: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in own if is_dataclass(parameter.annotation)
    }
    shown = [each for parameter in own for each in _shown(parameter)]

    @wraps(command)
    def run(**options: Any) -> None:
        for name, kind in bundles.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
        command(**options)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run


def _shown(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    if not is_dataclass(parameter.annotation):
        yield parameter
        return
    for field in fields(parameter.annotation):
        yield parameter.replace(name=field.name, default=field.default, annotation=field.type)
