"""Structured logs: one JSON object a line, without arguments that may name somebody."""

import json
import logging

from shardgraph.service.runtime.logs import LogHandler


def test_what_the_server_itself_says_is_a_line_too(capfd):
    logger = logging.getLogger("a library")
    logger.handlers = [LogHandler(logging.WARNING)]
    logger.warning("Invalid request by %s", "somebody")
    line = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (line["event"], line["says"]) == ("a library", "Invalid request by %s")
