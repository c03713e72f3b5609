"""Structured logs: one JSON object a line on standard error, without anything that names a person or a sample."""

import json
import logging
import sys
import threading
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

_lock = threading.Lock()


def write_log(event: str, **fields: object) -> None:
    """Write one line. Fields are counts, kinds, routes and times; never an id, a text or an address.

    A line that cannot be written (its reader is gone, for example) does not fail the call that writes it.
    """
    line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event} | fields)
    with _lock, suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")  # one write: the worker process shares this stream
        sys.stderr.flush()


def write_error(event: str, error: BaseException) -> None:
    """Write a line about an error: its kind and its origin. Its text is left out, for it may hold what was sent."""
    write_log(event, kind=type(error).__name__, where=origin_of(error))


class LogHandler(logging.Handler):
    """Writes a library's log records as our lines: the message without its arguments, which may name somebody."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        write_log(record.name, level=record.levelname.lower(), says=str(record.msg).strip())


def origin_of(error: BaseException) -> str:
    """The file and line that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
