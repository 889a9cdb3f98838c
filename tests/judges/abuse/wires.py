"""Blocking sockets and HTTP bytes for attackers: nothing here is polite."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any, Final

CLIENT: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
VERSION: Final = "2026-07-28"
ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN: Final = f"MCP-Protocol-Version: {VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: get_source\r\n"
ACCEPT: Final = "Accept: application/json, text/event-stream\r\n"
PATIENCE: Final = 5.0


class Deadline:
    """The end of an attack: every loop asks it."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def rounds(self, pause: float = 0.0) -> Iterator[int]:
        """Count rounds until the end, with a pause after each."""
        number = 0
        while self.left:
            yield number
            number += 1
            time.sleep(min(pause, self.left))


def connect(port: int, receive_buffer: int | None = None) -> socket.socket:
    """Open a connection; a small receive buffer makes a reader that is slow by nature."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", port))
    return connection


def head(port: int, method: str, path: str, lines: str = "", length: int | None = None) -> bytes:
    """A request's head, with its body's length where there is one."""
    body = "" if length is None else f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{ACCEPT}{lines}{body}\r\n".encode()


def post(port: int, path: str, body: bytes, lines: str = "") -> bytes:
    return head(port, "POST", path, lines, len(body)) + body


def rpc(method: str, params: dict[str, Any], request_id: int = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


def exchange(port: int, data: bytes, until: bytes | None = None) -> bytes:
    """Send bytes and return the first part of the answer, or what comes up to a text; as far as it comes."""
    found = b""
    with contextlib.suppress(OSError), contextlib.closing(connect(port)) as connection:
        connection.sendall(data)
        while part := connection.recv(65_536):
            found += part
            if until is None or until in found:
                break
    return found


def read_until(connection: socket.socket, *marks: bytes) -> str:
    """Read until the marks have come one after the other; return the text between the last two."""
    found, last = b"", b""
    for mark in marks:
        while mark not in found:
            part = connection.recv(4_096)
            if not part:
                raise ConnectionError("the desk hung up")
            found += part
        last, _, found = found.partition(mark)
    return last.decode()


def initialize(port: int) -> str | None:
    """Open a handshake session without a token; None where the desk refuses it."""
    answer = exchange(port, post(port, "/mcp", rpc("initialize", CLIENT)))
    for line in answer.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"mcp-session-id":
            return value.strip().decode()
    return None
