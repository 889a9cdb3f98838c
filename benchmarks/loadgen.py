"""A keep-alive HTTP load generator on plain sockets, the same for every server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final, cast

from benchmarks.messages import Misbehaved

HOST: Final = "127.0.0.1"
_PATIENCE: Final = 120.0
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One response and how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    wait_ns: int


def request(method: str, port: int, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A whole request to `/mcp`."""
    fields = {"Host": f"{HOST}:{port}", **headers, "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body


class _Caller(asyncio.Protocol):
    """One connection: sends its next request when the last one is answered."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._queue: list[bytes] = []
        self._sent = 0
        self._done: asyncio.Future[None] | None = None

    def start(self, requests: Sequence[bytes]) -> asyncio.Future[None]:
        self.answers = []
        self._queue = list(reversed(requests))
        self._done = asyncio.get_running_loop().create_future()
        self._next()
        return self._done

    def _next(self) -> None:
        assert self._transport is not None
        assert self._done is not None
        if self._queue:
            self._sent = perf_counter_ns()
            self._transport.write(self._queue.pop())
        else:
            self._done.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        answer = parse(self._buffer, self._sent)
        if answer is not None:
            self._buffer = b""
            self.answers.append(answer)
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(Misbehaved(f"the server closed a connection ({exc})"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def parse(data: bytes, sent: int) -> Answer | None:
    """The response in `data`; None while some of it is still on its way."""
    head, found, rest = data.partition(_END)
    if not found:
        return None
    status, headers = _head(head)
    body = _chunked(rest) if headers.get("transfer-encoding") == "chunked" else _sized(rest, headers)
    return None if body is None else Answer(status, headers, body, perf_counter_ns() - sent)


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}


def _sized(rest: bytes, headers: Mapping[str, str]) -> bytes | None:
    length = int(headers.get("content-length", "0"))
    return rest if len(rest) == length else None


def _chunked(rest: bytes) -> bytes | None:
    parts: list[bytes] = []
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if not found:
            return None
        size = int(line, 16)
        if len(rest) < size + 2:
            return None
        if size == 0:
            return b"".join(parts)
        parts.append(rest[:size])
        rest = rest[size + 2 :]


class Load:
    """Open connections to one server."""

    def __init__(self, callers: Sequence[_Caller]) -> None:
        self._callers = callers

    async def send(self, requests: Sequence[bytes]) -> list[Answer]:
        """Deal the requests out to the connections; the answers come in the order of the requests."""
        width = len(self._callers)
        hands = [requests[index::width] for index in range(width)]
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(*(c.start(h) for c, h in zip(self._callers, hands, strict=True)))
        return [self._callers[i % width].answers[i // width] for i in range(len(requests))]

    def close(self) -> None:
        for caller in self._callers:
            caller.close()


async def connect(port: int, connections: int) -> Load:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(_Caller, HOST, port) for _ in range(connections)]
    return Load([caller for _, caller in made])
