"""Clients that call a service over and over from one thread, so that the order in which answers end is known exactly.

Answers end in an order that clocks of several threads cannot tell: the service sends the last answers of the old model
immediately before its 202. So one thread reads all connections. When it has read a 202, it first takes every answer
that lies complete in the kernel: the service had sent these before. All that come later ended after the 202.
"""

import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Call:
    """A call that is made again and again, and what of its answer a model made."""

    name: str
    raw: bytes
    figure: Callable[[str], object]


@dataclass(frozen=True)
class Ended:
    """An answer: how many requests had been accepted when its call was sent, and when it ended."""

    call: str
    status: int
    body: str
    begun: int
    ended: int
    settled: bool  # no request was under way while it was computed


def call_bytes(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A call as it is sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Connection:
    """One connection that is kept open; `receive` returns a status and a body once they are complete."""

    def __init__(self, port: int, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self._received = b""

    def send(self, raw: bytes) -> None:
        self.socket.setblocking(True)
        self.socket.sendall(raw)
        self.socket.setblocking(False)

    def receive(self) -> tuple[int, str] | None:
        while True:
            try:
                part = self.socket.recv(1 << 20)
            except BlockingIOError:
                break
            if not part:
                raise ConnectionError("the service closed the connection")
            self._received += part
        head, found, rest = self._received.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        if not found or len(rest) < length:
            return None
        self._received = rest[length:]
        return int(head.split(b" ")[1]), rest[:length].decode()


def wait_for(connection: Connection, seconds: float = 60) -> tuple[int, str]:
    """The next answer of a connection."""
    end = time.monotonic() + seconds
    while (answer := connection.receive()) is None:
        assert time.monotonic() < end, "no answer"
        time.sleep(0.005)
    return answer


@dataclass
class Caller:
    """A client: the call that it makes over and over, and what was true when it was sent."""

    call: Call
    connection: Connection
    begun: int = 0
    settled: bool = True


@dataclass
class Crowd:
    """Clients against forget requests."""

    port: int
    calls: list[Call]
    size: int = 20
    ended: list[Ended] = field(default_factory=list)
    accepted: int = 0
    under_way: bool = False

    def run(self, requests: list[bytes], settle: float = 0.0, seconds: float = 120) -> list[Ended]:
        """Submit the requests one after the other, each when every call was answered in between, and `settle` seconds
        later."""
        with selectors.DefaultSelector() as selector:
            callers = [Caller(self.calls[i % len(self.calls)], Connection(self.port)) for i in range(self.size)]
            for caller in callers:
                selector.register(caller.connection.socket, selectors.EVENT_READ, caller)
                self._send(caller)
            end = time.monotonic() + seconds
            for request in [*requests, None]:
                while self._unanswered():
                    assert time.monotonic() < end, f"not answered in time: {self._unanswered()}"
                    self._read(selector)
                calm = time.monotonic() + settle
                while time.monotonic() < calm:
                    self._read(selector)
                if request is not None:
                    for caller in callers:
                        caller.settled = False
                    self._submit(request, selector)
            for caller in callers:
                caller.connection.socket.close()
        return self.ended

    def _submit(self, request: bytes, selector: selectors.BaseSelector) -> None:
        """Submit a request; the calls go on until it is accepted."""
        self.under_way, asker = True, Connection(self.port)  # a new one: the service closes those that are idle
        asker.send(request)
        while (answer := asker.receive()) is None:
            self._read(selector, 0.005)
        assert answer[0] == 202, answer
        self._read(selector, 0)  # what the service sent before the 202 is here already
        self.accepted, self.under_way = self.accepted + 1, False
        asker.socket.close()

    def _unanswered(self) -> set[str]:
        """The calls without an answer that was computed since the last 202."""
        done = {one.call for one in self.ended if one.settled and one.begun == self.accepted and one.status == 200}
        return {call.name for call in self.calls} - done

    def _read(self, selector: selectors.BaseSelector, timeout: float = 0.05) -> None:
        for key, _ in selector.select(timeout):
            caller = key.data
            if caller is not None and (answer := caller.connection.receive()) is not None:
                settled = caller.settled and not self.under_way
                self.ended.append(Ended(caller.call.name, *answer, caller.begun, self.accepted, settled))
                self._send(caller)

    def _send(self, caller: Caller) -> None:
        caller.begun, caller.settled = self.accepted, not self.under_way
        caller.connection.send(caller.call.raw)


def forget_bytes(token: str, **what: list[str]) -> bytes:
    """A forget request as it is sent."""
    sent = json.dumps(what).encode()
    return call_bytes("POST", "/requests", sent, Authorization=f"Bearer {token}", Content_Type="application/json")
