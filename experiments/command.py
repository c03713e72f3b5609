"""How `python -m experiments.NAME` ends: 0 when it is done, else a line that says why."""

import sys
from collections.abc import Callable

from shardgraph.errors import ShardgraphError

FAILED, INTERRUPTED = 1, 130


def answered(main: Callable[[], None]) -> None:
    """Run a command; what a person can mend is told in one line."""
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
