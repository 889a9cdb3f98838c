"""The attacks, one function each: `python -m tests.judges.abuse.attacks NAME PORT SECONDS`.

Each runs in a process of its own until its time is over, without a token, against loopback alone. It prints
the answers that it must not get, a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Callable
from typing import Final

from tests.judges.abuse.desk import MARK
from tests.judges.abuse.wires import (
    CLIENT,
    ENVELOPE,
    MODERN,
    Deadline,
    connect,
    exchange,
    head,
    initialize,
    post,
    read_until,
    rpc,
)

Attack = Callable[[int, Deadline], "list[str] | None"]

MEGABYTE: Final = 1 << 20
SLOW_READER: Final = 4_096
DEEP_TEXT: Final = b"nests deeper than 64 levels"


def nested_arguments(port: int, end: Deadline) -> list[str]:
    """Post arguments nested 300 deep beside 3.9 MB of text."""
    body = b'{"y":"' + b"z" * (39 * MEGABYTE // 10) + b'","x":' + b"[" * 300 + b"]" * 300 + b"}"
    return [wrong for _ in end.rounds() for wrong in _not_refused_as_deep(port, "/tools/get_source", body)]


def nested_messages(port: int, end: Deadline) -> list[str]:
    """Send calls of both eras whose arguments are nested 1,000 deep."""
    deep = b'{"x":' + b"[" * 1_000 + b"]" * 1_000 + b"}"
    message = rpc("tools/call", {"name": "get_source", "arguments": 0, "_meta": ENVELOPE})
    modern = message.replace(b'"arguments": 0', b'"arguments": ' + deep)
    shaken = rpc("tools/call", {"name": "get_source", "arguments": 0})
    shaken = shaken.replace(b'"arguments": 0', b'"arguments": ' + deep)
    found: list[str] = []
    for _ in end.rounds():
        found += _not_refused_as_deep(port, "/mcp", modern, MODERN)
        session = initialize(port)
        if session is not None:
            found += _not_refused_as_deep(port, "/mcp", shaken, f"Mcp-Session-Id: {session}\r\n")
            exchange(port, head(port, "DELETE", "/mcp", f"Mcp-Session-Id: {session}\r\n"))
    return found


def _not_refused_as_deep(port: int, path: str, body: bytes, lines: str = "") -> list[str]:
    """The answer to a call, unless it is the refusal of its depth, or there is no room."""
    answer = exchange(port, post(port, path, body, lines), until=DEEP_TEXT)
    is_refused = DEEP_TEXT in answer or b" 503 " in answer[:32] or not answer
    return [] if is_refused else [f"{path}: {answer[:80]!r}"]


def broken_records(port: int, end: Deadline) -> None:
    """Make calls whose records the desk of this judge fails to write, by an error that nobody foresaw."""
    body = post(port, "/tools/get_source", json.dumps({"ref": MARK}).encode())
    for _ in end.rounds(pause=0.01):
        exchange(port, body)


def unread_streams(port: int, end: Deadline) -> None:
    """Ask for the long list of tools on many connections at once, and never read the stream it goes to."""
    while end.left:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            stream = held.enter_context(contextlib.closing(connect(port, SLOW_READER)))
            stream.sendall(head(port, "GET", "/mcp/sse"))
            place = read_until(stream, b"event: endpoint", b"data: ", b"\r\n")
            exchange(port, post(port, place, rpc("initialize", CLIENT)))
            burst = b"".join(post(port, place, rpc("tools/list", {}, number)) for number in range(2, 12))
            for _ in zip(range(100), end.rounds(), strict=False):
                sender = held.enter_context(contextlib.closing(connect(port)))
                sender.sendall(burst)


def pipelined_requests(port: int, end: Deadline) -> None:
    """Pipeline requests for a large page on one connection and never read an answer."""
    burst = head(port, "GET", "/openapi.json") * 50
    for _ in end.rounds():
        with contextlib.suppress(OSError), contextlib.closing(connect(port, SLOW_READER)) as connection:
            connection.settimeout(min(2.0, end.left + 0.1))
            while end.left:
                connection.sendall(burst)


def endless_trailers(port: int, end: Deadline) -> None:
    """Send trailers after a chunked body for as long as the desk takes them."""
    lines = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    start = head(port, "POST", "/tools/desk_status", lines) + b"2\r\n{}\r\n0\r\n"
    trailer = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 1_000) for number in range(64))
    for _ in end.rounds():
        with contextlib.suppress(OSError), contextlib.closing(connect(port)) as connection:
            connection.sendall(start)
            while end.left:
                connection.sendall(trailer)


def endless_chunk_extensions(port: int, end: Deadline) -> None:
    """Send a chunk whose extension does not end."""
    lines = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    start = head(port, "POST", "/tools/desk_status", lines) + b"2;"
    for _ in end.rounds():
        with contextlib.suppress(OSError), contextlib.closing(connect(port)) as connection:
            connection.sendall(start)
            while end.left:
                connection.sendall(b"e" * 65_536)


def pinged_sessions(port: int, end: Deadline) -> None:
    """Fill the table of sessions and ping each, so that none is ever idle."""
    kept: list[str] = []
    for _ in end.rounds(pause=0.5):
        while len(kept) < 50 and (session := initialize(port)) is not None:
            kept.append(session)
        alive = [name for name in kept if b" 404 " not in _ping(port, name)[:32]]
        kept = alive


def _ping(port: int, session: str) -> bytes:
    return exchange(port, post(port, "/mcp", rpc("ping", {}), f"Mcp-Session-Id: {session}\r\n"))


def idle_streams(port: int, end: Deadline) -> None:
    """Hold as many idle event streams open as the desk gives."""
    held: list[socket.socket] = []
    for _ in end.rounds(pause=0.5):
        for _ in range(60):
            with contextlib.suppress(OSError):
                connection = connect(port)
                connection.sendall(head(port, "GET", "/mcp/sse"))
                held.append(connection)
        _close_oldest(held, 300)


def half_sent_bodies(port: int, end: Deadline) -> None:
    """Announce 1,010 bodies of 80 bytes, send half of each and wait."""
    held: list[socket.socket] = []
    start = head(port, "POST", "/tools/desk_status", length=80) + b"{" + b" " * 39
    for _ in end.rounds(pause=1.0):
        for _ in range(1_010):
            with contextlib.suppress(OSError):
                connection = connect(port)
                connection.sendall(start)
                held.append(connection)
        _close_oldest(held, 1_010)


def half_sent_heads(port: int, end: Deadline) -> None:
    """Open 1,010 connections and send half a request line on each."""
    held: list[socket.socket] = []
    for _ in end.rounds(pause=1.0):
        for _ in range(1_010):
            with contextlib.suppress(OSError):
                connection = connect(port)
                connection.sendall(b"GET /hea")
                held.append(connection)
        _close_oldest(held, 1_010)


def _close_oldest(held: list[socket.socket], most: int) -> None:
    while len(held) > most:
        held.pop(0).close()


def fractions(port: int, end: Deadline) -> None:
    """Post 3.6 MB of fractions, again and again."""
    body = b'{"a":[' + b",".join([b"1.5"] * 900_000) + b"]}"
    for _ in end.rounds():
        exchange(port, post(port, "/tools/get_source", body))


def small_objects(port: int, end: Deadline) -> None:
    """Post 450,000 small objects, again and again."""
    body = b'{"a":[' + b",".join([b'{"a":1}'] * 450_000) + b"]}"
    for _ in end.rounds():
        exchange(port, post(port, "/tools/get_source", body))


def foreign_names(port: int, end: Deadline) -> list[str]:
    """Ask by hosts, origins and targets that are not the desk's."""
    own = f"127.0.0.1:{port}"
    hosts = (
        f"evil.test\\@{own}",
        f"evil.test@{own}",
        f"{own}/evil",
        f"{own}.evil.test",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        f"localhost?.evil.test:{port}",
        f"local\thost:{port}",
    )
    origins = (
        "null",
        "http://evil.test",
        f"http://127.0.0.1:{port + 1}",
        f"https://{own}",
        f"http://{own}@evil",
    )
    heads = [
        *(f"GET /openapi.json HTTP/1.1\r\nHost: {host}\r\n\r\n" for host in hosts),
        *(f"GET /openapi.json HTTP/1.1\r\nHost: {own}\r\nOrigin: {origin}\r\n\r\n" for origin in origins),
        f"GET http://evil.test/openapi.json HTTP/1.1\r\nHost: {own}\r\n\r\n",
    ]
    found: list[str] = []
    for number in end.rounds():
        asked = heads[number % len(heads)]
        if exchange(port, asked.encode())[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 500"):
            found.append(asked)
    return found


def anonymous_calls(port: int, end: Deadline) -> None:
    """Call reading tools without a token as fast as one process can."""
    body = post(port, "/tools/desk_status", b"{}") * 20
    for _ in end.rounds():
        exchange(port, body)


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        nested_arguments,
        nested_messages,
        pipelined_requests,
        endless_trailers,
        endless_chunk_extensions,
        pinged_sessions,
        idle_streams,
        unread_streams,
        half_sent_bodies,
        half_sent_heads,
        fractions,
        small_objects,
        broken_records,
        foreign_names,
    )
}


def main() -> None:
    name, port, seconds = sys.argv[1:4]
    attack = {**ATTACKS, "anonymous_calls": anonymous_calls}[name]
    print(json.dumps(attack(int(port), Deadline(float(seconds))) or []))


if __name__ == "__main__":
    main()
