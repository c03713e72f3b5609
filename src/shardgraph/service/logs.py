"""Structured logs: one JSON object a line on standard error, with nothing that names a person or a sample."""

import json
import sys
import threading
from datetime import UTC, datetime

_lock = threading.Lock()


def log(event: str, **facts: object) -> None:
    """Write a line. Facts are counts, kinds, routes and times; never an id, a text or an address."""
    line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event} | facts)
    with _lock:
        print(line, file=sys.stderr, flush=True)
