"""A data service on the loopback that does as it is told: answers, refuses, hangs, breaks off, lies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tracedesk.primitives import json

Act = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]

_REASONS: Final = {200: "OK", 302: "Found", 404: "Not Found", 429: "Too Many Requests", 503: "Unavailable"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the last part of its path, and its query."""

    kind: str
    query: dict[str, str]

    @property
    def symbols(self) -> list[str]:
        return self.query["symbols"].split(",")


def reply(status: int, body: bytes = b"", **headers: str) -> Act:
    """Answer with a status and a body."""

    async def act(asked: Asked, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode("ascii") + body)
        await writer.drain()

    return act


def ok(answer: Any) -> Act:
    """Answer with JSON; a function is given the request."""

    async def act(asked: Asked, writer: asyncio.StreamWriter) -> None:
        value = answer(asked) if callable(answer) else answer
        await reply(200, json.dumps(value), Content_Type="application/json")(asked, writer)

    return act


async def hang(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def close(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Break off without a word."""


async def break_off(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Break off in the middle of a body."""
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{"symbols"')
    await writer.drain()


garbage = reply(200, b"<html>maintenance</html>")


@dataclass(slots=True)
class Service:
    """The service: what it was asked, and what it will do; the last act is repeated."""

    script: list[Act]
    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(head.split(b" ")[1].decode("ascii"))
            query = {name: values[0] for name, values in parse_qs(target.query).items()}
            asked = Asked(target.path.rpartition("/")[2], query)
            self.asked.append(asked)
            act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            await act(asked, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(*script: Act) -> AsyncGenerator[Service]:
    """Serve on a free port of the loopback until the block ends."""
    service = Service(list(script))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(service.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/market"
    try:
        yield service
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
