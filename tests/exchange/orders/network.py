"""A network between a client and its venue that loses, delays and spoils the requests for orders."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal

Trouble = Literal[
    "none",
    "cut_request",
    "cut_within",
    "cut_answer",
    "half_answer",
    "garbage",
    "gateway_before",
    "gateway_after",
    "stall",
    "late",
]
TROUBLES: Final[tuple[Trouble, ...]] = (
    "none",
    "cut_request",
    "cut_within",
    "cut_answer",
    "half_answer",
    "garbage",
    "gateway_before",
    "gateway_after",
    "stall",
    "late",
)
LATE_S: Final = 1.5
_ORDER: Final = b"POST /api/v3/order "
_BAD_GATEWAY: Final = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 20\r\n\r\n<html>502</html>\r\n\r"
)


@dataclass(slots=True)
class Network:
    """Passes requests on one by one; the next order meets `trouble`."""

    host: str
    port: int
    source: str
    """The address that the venue sees, by which it counts."""
    trouble: Trouble = "none"
    met: Counter[str] = field(default_factory=Counter[str])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._relay(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection(self.host, self.port, local_addr=(self.source, 0))
        try:
            while True:
                request = _for(f"{self.host}:{self.port}", await _message(reader))
                if request.startswith(_ORDER) and self.trouble != "none":
                    trouble, self.trouble = self.trouble, "none"
                    self.met[trouble] += 1
                    return await self._spoil(trouble, request, writer, upstream)
                writer.write(await _asked(request, upstream))
                await writer.drain()
        finally:
            upstream[1].transport.abort()

    async def _spoil(
        self,
        trouble: Trouble,
        request: bytes,
        writer: asyncio.StreamWriter,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Do what the trouble says with one order; the connection ends after it."""
        match trouble:
            case "cut_request" | "none":
                return
            case "cut_within":
                upstream[1].write(request[: len(request) // 2])
                await upstream[1].drain()
                return
            case "gateway_before":
                writer.write(_BAD_GATEWAY)
                await writer.drain()
                return
            case "late":
                writer.transport.abort()
                await asyncio.sleep(LATE_S)
            case _:
                pass
        answer = await _asked(request, upstream)
        await _answered(trouble, answer, writer)


async def _answered(trouble: Trouble, answer: bytes, writer: asyncio.StreamWriter) -> None:
    """What of the answer to an order comes back."""
    head, _, body = answer.partition(b"\r\n\r\n")
    match trouble:
        case "half_answer":
            writer.write(answer[: len(answer) - len(body) // 2])
        case "garbage":
            writer.write(head + b"\r\n\r\n" + b"\xff" * len(body))
        case "gateway_after":
            writer.write(_BAD_GATEWAY)
        case "stall":
            await asyncio.Event().wait()
        case _:
            return
    await writer.drain()


async def _asked(request: bytes, upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    upstream[1].write(request)
    await upstream[1].drain()
    return await _message(upstream[0])


def _for(host: str, request: bytes) -> bytes:
    """The request with the venue's own host, as a reverse proxy sends it on."""
    return re.sub(rb"(?i)(\r\nhost:)[^\r]*", rb"\1 " + host.encode(), request, count=1)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One request or answer, whose length is in its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    return head + await reader.readexactly(length)
