"""The end of `python -m experiments.NAME`: exit code 0, or another one and a line with the reason."""

import sys
from collections.abc import Callable

from shardgraph.errors import ShardgraphError

FAILED, INTERRUPTED = 1, 130


def run_command(main: Callable[[], None]) -> None:
    """Run a command; errors that a person can fix are printed in one line."""
    try:
        main()
    except ShardgraphError as error:
        _end(f"error: {error}", FAILED)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        _end(f"error: {error.strerror or error}{where}", FAILED)
    except KeyboardInterrupt:
        _end("interrupted: what was written down is kept", INTERRUPTED)


def _end(message: str, code: int) -> None:
    print(message, file=sys.stderr, flush=True)
    sys.exit(code)
