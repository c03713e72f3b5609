"""Structured logs: one JSON object a line on standard error, with nothing that names a person or a sample."""

import json
import logging
import sys
import threading
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

_lock = threading.Lock()


def log(event: str, **facts: object) -> None:
    """Write a line. Facts are counts, kinds, routes and times; never an id, a text or an address.

    A log that cannot be written (its reader is gone, say) does not fail the call that it tells of.
    """
    line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event} | facts)
    with _lock, suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")  # at once: the worker writes to the same place
        sys.stderr.flush()


class Lines(logging.Handler):
    """What a library has to say, as a line of ours: its words without what was filled in."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it."""
        log(record.name, level=record.levelname.lower(), says=str(record.msg).strip())


def place_of(error: BaseException) -> str:
    """Where an error came from, file and line alone: its text may hold what was sent."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
