"""How a command runs: its option groups, its workspace, its errors and its exit code.

exit code 0    success; also if the samples had already been forgotten
          1    failure; the message says what was asked, what was found and what to do
          2    invalid command line (Typer's own)
          130  interrupted by Ctrl-C; the next command continues the work, and `forget` says whether it was accepted
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import typer

import shardgraph
from shardgraph.cli.options.shared import DEFAULT_MACHINES, Machines
from shardgraph.cli.output import ProgressBars, print_json, print_note
from shardgraph.errors import ShardgraphError

FAILED, INTERRUPTED = 1, 130
CONTINUES = "nothing is lost, the next command continues the work"
DEBUG = "SHARDGRAPH_DEBUG"  # the environment variable that shows tracebacks

Command = Callable[..., None]


def as_command(function: Command) -> Command:
    """The function as Typer runs it: option groups become single options, errors become messages and exit codes."""
    return _with_exit_codes(_with_single_options(function))


@contextmanager
def open_workspace(
    path: Path, machines: Machines = DEFAULT_MACHINES, *, device: str | None = None, resume: bool = True
) -> Iterator["shardgraph.Workspace"]:
    """The workspace at `path`, after finishing interrupted forgets; print results only after it is closed.

    Until then progress bars may be on the terminal.
    """
    bars = ProgressBars()
    memory = machines.gpu_memory and int(machines.gpu_memory * 2**30)
    options = vars(machines) | {"gpu_memory": memory, "device": device, "progress": bars}
    redirected = redirect_stdout(sys.stderr) if machines.executor == "ray" else nullcontext()  # Ray prints to stdout
    try:
        with redirected, shardgraph.Workspace(path, **options) as workspace:
            for certificate in workspace.resume() if resume else ():
                bars.close()
                print_note(f"finished a forget that had been interrupted: certificate {certificate.number}")
            yield workspace
    finally:
        bars.close()


def exit_interrupted(state: str = CONTINUES) -> NoReturn:
    """End the command after Ctrl-C and print the state of its work."""
    print_note(f"interrupted: {state}")
    raise typer.Exit(INTERRUPTED) from None


def _with_single_options(function: Command) -> Command:
    """The function with the fields of a dataclass as parameters, in place of a parameter of that type."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}
    single = [part for each in parameters for part in _single(each)]

    @wraps(function)
    def run(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        function(**options)

    run.__signature__ = inspect.Signature(single)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in single}
    return run


def _single(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    if not is_dataclass(parameter.annotation):
        yield parameter
        return
    for field in fields(parameter.annotation):
        yield parameter.replace(name=field.name, default=field.default, annotation=field.type)


def _with_exit_codes(function: Command) -> Command:
    """The function, with every exception turned into a message and an exit code."""

    @wraps(function)
    def run(*values: Any, **options: Any) -> None:
        as_json = bool(options.get("as_json"))
        try:
            function(*values, **options)
        except (typer.Exit, typer.BadParameter, BrokenPipeError):
            raise  # handled by Typer
        except (KeyboardInterrupt, typer.Abort):
            exit_interrupted()
        except ShardgraphError as error:
            ids = {"ids": list(error.ids)} if error.ids else {}
            _fail(as_json, str(error), type(error).__name__, ids)
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            _fail(as_json, _unexpected(error), type(error).__name__, {})

    return run


def _fail(as_json: bool, message: str, kind: str, more: dict[str, Any]) -> NoReturn:
    if not (as_json and _printed({"error": message, "kind": kind} | more)):
        print_note(f"error: {message}")
    raise typer.Exit(FAILED) from None


def _printed(value: dict[str, Any]) -> bool:
    """Print an error as JSON; False if standard output cannot be written."""
    try:
        print_json(value)
    except BrokenPipeError:
        raise  # handled by Typer
    except OSError:
        return False
    return True


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return f"unexpected {type(error).__name__}: {error} (`shardgraph --debug ...` shows the traceback)"
