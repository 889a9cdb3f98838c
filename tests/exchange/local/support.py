"""A local exchange on a real port of this machine, with a few orders in its book, and raw clients of it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from tests.support import BOUND
from tracedesk.exchange.local.app import Address, serving
from tracedesk.exchange.local.auth import Key, Keys, Permission
from tracedesk.exchange.local.exchange import LocalExchange
from tracedesk.exchange.local.limits import Limits
from tracedesk.exchange.local.market import Markets
from tracedesk.exchange.units import units
from tracedesk.exchange.venue import listings
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.venue import Venue
from tracedesk.primitives.time import MILLISECOND, SECOND, Clock, ManualClock

START: Final = 1_760_000_000 * SECOND
BATCH: Final = 100 * MILLISECOND
"""The time over which changes of the book are gathered."""
FUNDS: Final = {"BTC": units("10"), "USDT": units("1000000")}
BIDS: Final = (("50000.00", "1"), ("49999.00", "2"), ("49990.00", "5"))
ASKS: Final = (("50001.00", "1"), ("50002.00", "2"), ("50010.00", "5"))
LIMIT: Final = {"symbol": "BTCUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC"}


@dataclass(slots=True)
class Reply:
    """What a REST request got."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass(slots=True)
class Bench:
    """An exchange on the wire, the clock it runs on, and a session to ask it with."""

    exchange: LocalExchange
    clock: Clock
    address: Address
    http: aiohttp.ClientSession
    key: Key

    def pulse(self) -> None:
        """Publish what falls due by now."""
        self.exchange.market.pulse(self.clock.now_ns())

    def advance(self, seconds: float) -> None:
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(seconds)
        self.pulse()

    def stamp(self) -> int:
        return self.clock.now_ns() // MILLISECOND

    async def ask(self, verb: str, path: str, query: str = "", **more: Any) -> Reply:
        """Send a request exactly as it is written."""
        import yarl

        url = yarl.URL(f"{self.address.rest}/api/v3/{path}{'?' + query if query else ''}", encoded=True)
        async with asyncio.timeout(BOUND), self.http.request(verb, url, **more) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, json.loads(await response.read()), headers)

    async def get(self, path: str, **sent: Any) -> Reply:
        return await self.ask("GET", path, urlencode(sent))

    async def signed(self, verb: str, path: str, key: Key | None = None, /, **sent: Any) -> Reply:
        """Send a request with a signature of the key."""
        key = key or self.key
        query = urlencode({**sent, "timestamp": sent.get("timestamp", self.stamp())})
        headers = {"X-MBX-APIKEY": key.api_key}
        return await self.ask(verb, path, f"{query}&signature={sign(key, query)}", headers=headers)

    async def limit(self, price: str, quantity: str, **more: Any) -> Reply:
        return await self.signed("POST", "order", **{**LIMIT, "price": price, "quantity": quantity, **more})


def sign(key: Key, payload: str) -> str:
    return hmac.new(key.material.encode(), payload.encode(), hashlib.sha256).hexdigest()


def build(clock: Clock, store: Store | None = None, limits: Limits | None = None) -> LocalExchange:
    """An exchange with the default symbols, a book in BTCUSDT, and an account `ann`."""
    listed = listings.default()
    venue = Venue(listed, clock, store)
    markets = Markets([listing.instrument for listing in listed], clock)
    venue.listen(markets.hear)
    venue.open_account("ann", FUNDS)
    venue.open_account("bob", FUNDS)
    for side, levels in (("BUY", BIDS), ("SELL", ASKS)):
        for price, quantity in levels:
            venue.flow_limit("BTCUSDT", "BUY" if side == "BUY" else "SELL", units(price), units(quantity))
    return LocalExchange(venue, markets, clock, Keys(), limits)


@asynccontextmanager
async def bench(
    clock: Clock | None = None, limits: Callable[[Clock], Limits] | None = None
) -> AsyncGenerator[Bench]:
    clock = clock or ManualClock(START - BATCH)
    exchange = build(clock, limits=None if limits is None else limits(clock))
    if isinstance(clock, ManualClock):
        # What was placed above is published before anyone listens.
        clock.advance(ns=BATCH)
    key = exchange.keys.issue("ann")
    async with serving(exchange) as address, aiohttp.ClientSession() as http:
        exchange.market.pulse(clock.now_ns())
        yield Bench(exchange, clock, address, http, key)


# --- sockets ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Wire:
    """A WebSocket of a test; every wait is bounded."""

    socket: aiohttp.ClientWebSocketResponse
    bench: Bench
    ids: int = field(default=0)

    async def read(self) -> Any:
        message = await self.socket.receive(BOUND)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return json.loads(message.data)

    async def ends(self) -> aiohttp.WSMessage:
        """The frame that closes the connection, after whatever comes before it."""
        closing = (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.CLOSING,
            aiohttp.WSMsgType.ERROR,
        )
        while (message := await self.socket.receive(BOUND)).type not in closing:
            pass
        return message

    async def say(self, document: Any) -> Any:
        """Send a document and return the next one that comes."""
        await self.socket.send_str(document if isinstance(document, str) else json.dumps(document))
        return await self.read()

    async def call(self, method: str, **params: Any) -> Any:
        """A request of the WebSocket API, past any event before its answer."""
        self.ids += 1
        answer = await self.say({"id": self.ids, "method": method, "params": params})
        while answer.get("id") != self.ids:
            answer = await self.read()
        return answer

    async def signed(self, method: str, key: Key | None = None, /, **params: Any) -> Any:
        key = key or self.bench.key
        sent = {**params, "apiKey": key.api_key, "timestamp": params.get("timestamp", self.bench.stamp())}
        payload = "&".join(f"{name}={_plain(value)}" for name, value in sorted(sent.items()))
        return await self.call(method, **sent, signature=sign(key, payload))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@asynccontextmanager
async def connected(bench: Bench, path: str, **options: Any) -> AsyncGenerator[Wire]:
    connect: Any = bench.http.ws_connect
    socket: aiohttp.ClientWebSocketResponse = await connect(f"{bench.address.streams}{path}", **options)
    try:
        yield Wire(socket, bench)
    finally:
        await socket.close()


async def eventually(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Let other tasks work until something holds; an upper bound makes the wait a failure."""
    async with asyncio.timeout(BOUND):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.002)


def only(*permissions: Permission) -> tuple[Permission, ...]:
    return permissions
