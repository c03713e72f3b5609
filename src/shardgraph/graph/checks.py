"""What names and numbers must hold before they may shape a graph."""

from collections import Counter
from collections.abc import Iterable

from shardgraph.errors import GraphError, some


def names(values: Iterable[str], what: str = "shard") -> tuple[str, ...]:
    """The names as a tuple, if they are distinct strings that are not empty and can be written as UTF-8."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise GraphError(f"{what} names must be a list of strings, got {values!r}")
    given = tuple(values)
    odd = [name for name in given if not isinstance(name, str)]
    if odd:
        raise GraphError(f"{what} names must be strings, got {odd[0]!r} ({type(odd[0]).__name__})")
    if "" in given:
        raise GraphError(f"{what} names must not be empty, got ''")
    if len(set(given)) < len(given):
        twice = sorted(name for name, times in Counter(given).items() if times > 1)
        raise GraphError(f"{what} names must be unique, got {some(twice)} more than once")
    _check_utf8(given, what)
    return given


def whole(what: str, value: int, least: int, most: int | None = None) -> int:
    """The value, if it is a whole number from `least` to `most`."""
    wanted = f"at least {least}" if most is None else f"from {least} to {most}"
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):
        raise GraphError(f"{what} must be a whole number {wanted}, got {value!r}")
    return value


def _check_utf8(given: tuple[str, ...], what: str) -> None:
    try:
        "".join(given).encode()
    except UnicodeEncodeError:
        bad = [name for name in given if any("\ud800" <= letter <= "\udfff" for letter in name)]
        raise GraphError(f"{what} names must be valid text, got {some(bad)}") from None
