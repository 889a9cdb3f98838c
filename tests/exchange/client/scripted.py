"""A venue on a real socket that does exactly what a test says, and a clock that tells who waits on it."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, TypeVar

import orjson
from aiohttp import WSMsgType, web

from tests import support
from tests.support import BOUND
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.streams import Frame
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.primitives.time import MILLISECOND, SECOND, ManualClock

T = TypeVar("T")
START: Final = 1_760_000_000 * SECOND


def run(main: Coroutine[Any, Any, T]) -> T:
    return support.run(main)


async def soon(awaited: Coroutine[Any, Any, T]) -> T:
    """The outcome, or a failed test where it does not come."""
    async with asyncio.timeout(BOUND):
        return await awaited


class WatchedClock(ManualClock):
    """A manual clock whose sleepers can be waited for, so that a test advances it when they are there."""

    def __init__(self, now_ns: int = START) -> None:
        super().__init__(now_ns)
        self._sleepers: dict[int, float] = {}
        self._count = 0
        self._news = asyncio.Event()

    async def sleep_until(self, deadline: float) -> None:
        self._count += 1
        number = self._count
        self._sleepers[number] = deadline
        self._news.set()
        try:
            await super().sleep_until(deadline)
        finally:
            del self._sleepers[number]

    async def asleep(self, least: float, most: float) -> float:
        """Seconds that someone sleeps from now, between the two; waits until someone does."""
        while True:
            for deadline in self._sleepers.values():
                if least <= (left := deadline - self.monotonic()) <= most:
                    return left
            self._news.clear()
            await soon(self._news.wait())

    async def pass_sleep(self, least: float, most: float) -> float:
        """Let a sleep of that length be over; returns its length."""
        seconds = await self.asleep(least, most)
        self.advance(seconds)
        return seconds


@dataclass(frozen=True, slots=True)
class Said:
    """One scripted answer."""

    status: int = 200
    body: Any = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])


Action = Literal["cut", "hang"]
Script = Said | Action


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it was received."""

    method: str
    path: str
    query: str
    body: str
    headers: dict[str, str]

    @property
    def payload(self) -> str:
        """What the signature covers and the signature: the query directly followed by the body."""
        return self.query + self.body

    @property
    def params(self) -> dict[str, str]:
        from urllib.parse import parse_qsl

        return dict(parse_qsl(self.payload))


class Peer:
    """The venue's end of one socket."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.path = request.path
        self.socket = socket
        self._request = request
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.pongs: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def next(self) -> Any:
        return await soon(self.heard.get())

    async def say(self, document: Any) -> None:
        await self.socket.send_str(orjson.dumps(document).decode())

    async def event(self, stream: str, data: dict[str, Any]) -> None:
        await self.say({"stream": stream, "data": data})

    async def accept(self) -> list[str]:
        """Confirm the next change of subscriptions; returns its names."""
        message = await self.next()
        await self.say({"result": None, "id": message["id"]})
        return message["params"]

    def cut(self) -> None:
        """End the connection without a farewell."""
        assert self._request.transport is not None
        self._request.transport.abort()


class ScriptedVenue:
    """REST answers by script, and sockets that the test speaks for."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.skew_ms = 0
        """How far the venue's clock is ahead."""
        self.asked: list[Asked] = []
        self.peers: asyncio.Queue[Peer] = asyncio.Queue()
        self.hung = asyncio.Event()
        self._scripts: dict[tuple[str, str], deque[Script]] = defaultdict(deque)
        self._standing: dict[tuple[str, str], Callable[[Asked], Script]] = {}
        self.release = asyncio.Event()

    def script(self, method: str, path: str, *answers: Script) -> None:
        """Answer the next requests so, one after the other."""
        self._scripts[method, path].extend(answers)

    def always(self, method: str, path: str, answer: Callable[[Asked], Script]) -> None:
        self._standing[method, path] = answer

    def count(self, method: str, path: str) -> int:
        return sum((each.method, each.path) == (method, path) for each in self.asked)

    def last(self, method: str, path: str) -> Asked:
        return [each for each in self.asked if (each.method, each.path) == (method, path)][-1]

    async def peer(self) -> Peer:
        """The next socket that is opened."""
        return await soon(self.peers.get())

    async def rest(self, request: web.Request) -> web.StreamResponse:
        query = request.raw_path.partition("?")[2]
        path = request.path.removeprefix("/api/v3/")
        asked = Asked(request.method, path, query, await request.text(), dict(request.headers))
        self.asked.append(asked)
        script = self._next(asked)
        if isinstance(script, Said):
            raw = script.body if isinstance(script.body, bytes) else orjson.dumps(script.body)
            return web.Response(status=script.status, body=raw, headers=script.headers)
        if script == "hang":
            self.hung.set()
            await self.release.wait()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _next(self, asked: Asked) -> Script:
        key = (asked.method, asked.path)
        if self._scripts[key]:
            return self._scripts[key].popleft()
        if key in self._standing:
            return self._standing[key](asked)
        if asked.path == "time":
            return Said(body={"serverTime": self.clock.now_ns() // MILLISECOND + self.skew_ms})
        return Said()

    async def sockets(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        peer = Peer(request, socket)
        await self.peers.put(peer)
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                await peer.heard.put(orjson.loads(message.data))
            elif message.type == WSMsgType.PONG:
                await peer.pongs.put(message.data)
            elif message.type == WSMsgType.PING:
                await socket.pong(message.data)
        peer.closed.set()
        return socket


@dataclass(slots=True)
class Bench:
    """The scripted venue, the clock, and a client of it."""

    venue: ScriptedVenue
    clock: WatchedClock
    client: Client


@asynccontextmanager
async def bench(**settings: Any) -> AsyncGenerator[Bench, None]:
    """A scripted venue on a port of this machine, and a client with a seeded chance."""
    clock = WatchedClock()
    venue = ScriptedVenue(clock)
    async with served(venue) as endpoints:
        client = Client(endpoints, clock=clock, random=Random(7), **settings)
        try:
            yield Bench(venue, clock, client)
        finally:
            await client.close()


@asynccontextmanager
async def served(venue: ScriptedVenue, port: int = 0) -> AsyncGenerator[Endpoints, None]:
    app = web.Application()
    app.router.add_route("*", "/api/v3/{path:.*}", venue.rest)
    app.router.add_get("/stream", venue.sockets)
    app.router.add_get("/ws-api/v3", venue.sockets)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    chosen = runner.addresses[0][1]
    try:
        yield Endpoints(
            "sim",
            f"http://127.0.0.1:{chosen}",
            f"ws://127.0.0.1:{chosen}",
            f"ws://127.0.0.1:{chosen}/ws-api/v3",
        )
    finally:
        venue.release.set()
        await runner.cleanup()


class Ear:
    """A sink that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def frame(self, frame: Frame) -> None:
        self.told.put_nowait(("frame", frame))

    def event(self, data: dict[str, Any], received_ns: int) -> None:
        self.told.put_nowait(("event", data))

    def live(self) -> None:
        self.told.put_nowait(("live", None))

    def lost(self, reason: str) -> None:
        self.told.put_nowait(("lost", reason))

    def refused(self, refusal: Any) -> None:
        self.told.put_nowait(("refused", refusal))

    async def next(self) -> tuple[str, Any]:
        return await soon(self.told.get())

    async def data(self) -> dict[str, Any]:
        """The next thing told, which must be an event."""
        kind, frame = await self.next()
        assert kind == "frame", (kind, frame)
        return frame.data


def trade(id: int) -> dict[str, Any]:
    return {
        "e": "trade",
        "E": 1_760_000_000_000 + id,
        "s": "BTCUSDT",
        "t": id,
        "p": "1",
        "q": "1",
        "T": 0,
        "m": True,
    }


def depth(first: int, last: int) -> dict[str, Any]:
    return {
        "e": "depthUpdate",
        "E": 1_760_000_000_000,
        "s": "BTCUSDT",
        "U": first,
        "u": last,
        "b": [],
        "a": [],
    }
