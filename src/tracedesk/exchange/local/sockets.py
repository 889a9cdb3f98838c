"""What every WebSocket of the exchange does: pings, a life of 24 hours, a bounded queue out."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from tracedesk.exchange.local import errors
from tracedesk.exchange.local.market import Unit
from tracedesk.primitives import json

if TYPE_CHECKING:
    from tracedesk.exchange.local.exchange import LocalExchange

PING_S: Final = 20
PONG_S: Final = 60
LIFE_S: Final = 24 * 3600
QUEUE: Final = 20_000
"""Frames that may wait for a client; one that reads more slowly is cut."""
LARGEST: Final = 1 << 20
UNITS: Final[dict[str, Unit]] = {"MILLISECOND": "ms", "MICROSECOND": "us"}


def unit_of(text: str) -> Unit:
    """The unit that a time unit in a header or URL names."""
    try:
        return UNITS[text.upper()]
    except KeyError:
        raise errors.invalid_time_unit() from None


class Socket(ABC):
    """One connection of a client; subclasses say what its messages mean."""

    per_second: int | None = None
    """Messages that a client may send each second."""

    def __init__(self, exchange: LocalExchange, request: web.Request) -> None:
        self.exchange = exchange
        self.address = request.remote or ""
        self.unit: Unit = unit_of(request.query.get("timeUnit", "MILLISECOND"))
        self.connected_ms = exchange.now_ms()
        self._request = request
        self._socket = web.WebSocketResponse(
            autoping=False, autoclose=True, max_msg_size=LARGEST, compress=False
        )
        self._out: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._heard: deque[float] = deque()
        self._ponged = exchange.clock.monotonic()

    async def serve(self) -> web.WebSocketResponse:
        """Speak with the client until either side ends it."""
        await self._socket.prepare(self._request)
        self.exchange.sockets.add(self)
        tasks = [asyncio.create_task(work) for work in (self._write(), self._tend())]
        try:
            await self.opened()
            async for message in self._socket:
                if not await self._take(message):
                    break
        finally:
            self.exchange.sockets.discard(self)
            self.closed()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._socket

    # --- for subclasses -------------------------------------------------------------------------

    @abstractmethod
    async def opened(self) -> None:
        """The client is connected."""

    @abstractmethod
    async def heard(self, text: str) -> None:
        """The client sent a text."""

    @abstractmethod
    def closed(self) -> None:
        """The client is gone."""

    @abstractmethod
    def farewell(self) -> object:
        """What is said before the server shuts down."""

    # --- out ------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Queue a text frame; a client that does not keep up is cut."""
        try:
            self._out.put_nowait(frame)
        except asyncio.QueueFull:
            self.cut()

    def send_json(self, document: object) -> None:
        self.send(json.dumps(document))

    def cut(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def shut_down(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_frame(json.dumps(self.farewell()), WSMsgType.TEXT)
        await self._close(WSCloseCode.GOING_AWAY, "server is shutting down")

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await self._socket.send_frame(await self._out.get(), WSMsgType.TEXT)

    async def _close(self, code: WSCloseCode, reason: str) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.close(code=code, message=reason.encode())

    # --- in -------------------------------------------------------------------------------------

    async def _take(self, message: WSMessage) -> bool:
        """Act on a frame; false when the connection is over."""
        if message.type is WSMsgType.ERROR:
            return False
        if self._is_too_much():
            await self._close(WSCloseCode.POLICY_VIOLATION, "Too many requests")
            return False
        if message.type is WSMsgType.PING:
            await self._socket.pong(message.data)
        elif message.type is WSMsgType.PONG:
            self._ponged = self.exchange.clock.monotonic()
        elif message.type is WSMsgType.TEXT:
            await self.heard(message.data)
        return True

    def _is_too_much(self) -> bool:
        if self.per_second is None:
            return False
        now = self.exchange.clock.monotonic()
        self._heard.append(now)
        while now - self._heard[0] >= 1:
            self._heard.popleft()
        return len(self._heard) > self.per_second

    # --- life -----------------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Ping every 20 seconds; end with the client's silence or the connection's life."""
        clock = self.exchange.clock
        begun = clock.monotonic()
        beats = LIFE_S // PING_S
        for beat in range(1, beats + 1):
            await clock.sleep_until(begun + beat * PING_S)
            if clock.monotonic() - self._ponged >= PONG_S:
                return self.cut()
            if beat < beats:
                with contextlib.suppress(ConnectionError):
                    await self._socket.ping(str(self.exchange.now_ms()).encode())
        await self._close(WSCloseCode.OK, "the connection is 24 hours old")
        return None
