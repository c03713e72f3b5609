"""How a command fails: one clear line, an exit code, and a traceback only for those who ask.

0    done (also: forgotten already)
1    it could not be done; the message says what was asked, what was found and what to do
2    the command line makes no sense
130  Ctrl-C; the next command goes on where this one stopped, and a forget says whether it was accepted
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import typer

from shardgraph.cli.output import print_json, say
from shardgraph.errors import ShardgraphError

FAILED, INTERRUPTED = 1, 130
GOES_ON = "nothing is lost, the next command goes on where this one stopped"
NOT_ACCEPTED = "the request was not accepted, nothing of it was forgotten: ask again to forget it"
DEBUG = "SHARDGRAPH_DEBUG"


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with every way to fail turned into its message and its exit code."""

    @wraps(command)
    def run(*values: Any, **options: Any) -> None:
        as_json = bool(options.get("as_json"))
        try:
            command(*values, **options)
        except (typer.Exit, typer.BadParameter, BrokenPipeError):
            raise  # Typer's own
        except (KeyboardInterrupt, typer.Abort):
            interrupted()
        except ShardgraphError as error:
            ids = {"ids": list(error.ids)} if error.ids else {}
            _fail(as_json, str(error), type(error).__name__, ids)
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            _fail(as_json, _unexpected(error), type(error).__name__, {})

    return run


def interrupted(state: str = GOES_ON) -> NoReturn:
    """End after a Ctrl-C, saying in which state it left things."""
    say(f"interrupted: {state}")
    raise typer.Exit(INTERRUPTED) from None


def _fail(as_json: bool, message: str, kind: str, more: dict[str, Any]) -> NoReturn:
    if not (as_json and _printed({"error": message, "kind": kind} | more)):
        say(f"error: {message}")
    raise typer.Exit(FAILED) from None


def _printed(value: dict[str, Any]) -> bool:
    """Print a failure as JSON; whether standard output took it."""
    try:
        print_json(value)
    except BrokenPipeError:
        raise  # Typer's own
    except OSError:
        return False
    return True


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return f"unexpected {type(error).__name__}: {error} (`shardgraph --debug ...` shows where)"
