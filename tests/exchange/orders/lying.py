"""A venue on the loopback that knows a few orders, and drops, delays, doubles and forgets as it is told.

It speaks as much of the wire as orders need. What truly happens is in `orders`; what is said of it is
another matter, and `lies` are told one request after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aiohttp import web

from tracedesk.exchange.units import ONE, text, units
from tracedesk.primitives.time import MILLISECOND, Clock

Lie = Literal[
    "truth",
    "drop_before",
    "drop_after",
    "error_before",
    "error_after",
    "refuse",
    "limit",
    "ban",
    "malformed",
    "page",
    "empty",
    "other_order",
    "too_much",
    "twice",
    "echo",
    "hang",
    "late",
    "unclear",
]
FILTERS: Final = [
    {
        "filterType": "PRICE_FILTER",
        "minPrice": "0.01000000",
        "maxPrice": "1000000.00000000",
        "tickSize": "0.01000000",
    },
    {"filterType": "LOT_SIZE", "minQty": "0.00001000", "maxQty": "9000.00000000", "stepSize": "0.00001000"},
    {
        "filterType": "MARKET_LOT_SIZE",
        "minQty": "0.00000000",
        "maxQty": "100.00000000",
        "stepSize": "0.00000000",
    },
    {
        "filterType": "NOTIONAL",
        "minNotional": "5.00000000",
        "applyMinToMarket": True,
        "maxNotional": "9000000.00000000",
        "applyMaxToMarket": False,
        "avgPriceMins": 5,
    },
    {
        "filterType": "PERCENT_PRICE_BY_SIDE",
        "bidMultiplierUp": "5",
        "bidMultiplierDown": "0.2",
        "askMultiplierUp": "5",
        "askMultiplierDown": "0.2",
        "avgPriceMins": 5,
    },
    {"filterType": "MAX_NUM_ORDERS", "maxNumOrders": 200},
    {"filterType": "MAX_NUM_ALGO_ORDERS", "maxNumAlgoOrders": 2},
    {"filterType": "MAX_POSITION", "maxPosition": "500.00000000"},
]
BTCUSDT: Final[dict[str, Any]] = {
    "symbol": "BTCUSDT",
    "status": "TRADING",
    "baseAsset": "BTC",
    "quoteAsset": "USDT",
    "orderTypes": [
        "LIMIT",
        "LIMIT_MAKER",
        "MARKET",
        "STOP_LOSS",
        "STOP_LOSS_LIMIT",
        "TAKE_PROFIT",
        "TAKE_PROFIT_LIMIT",
    ],
    "filters": FILTERS,
}
TOUCH: Final = units("50000")
"""What market orders trade at."""
Json = dict[str, Any]
NOW: Final = {"Retry-After": "0"}
"""A refusal that is over at once, so that no test waits for it."""


@dataclass(slots=True)
class LyingVenue:
    """Orders by client id, how often each was taken, and what to do with the next requests."""

    clock: Clock
    orders: dict[str, Json] = field(default_factory=dict[str, Json])
    taken: Counter[str] = field(default_factory=Counter[str])
    """How often an order came to exist under a client id."""
    posted: Counter[str] = field(default_factory=Counter[str])
    """How often a request for it arrived."""
    tested: int = 0
    lies: deque[Lie] = field(default_factory=deque[Lie])
    """Told of the next orders."""
    silences: int = 0
    """Queries that are answered by cutting the connection."""
    forgotten: set[str] = field(default_factory=set[str])
    """Orders that the venue says it does not have."""
    on_the_way: list[Json] = field(default_factory=list[Json])
    """Orders that were accepted by the network, and arrive when `deliver` is called."""
    balances: dict[str, tuple[str, str]] = field(
        default_factory=lambda: {
            "USDT": ("1000000.00000000", "0.00000000"),
            "BTC": ("100.00000000", "0.00000000"),
        }
    )
    cancel_lies: deque[Lie] = field(default_factory=deque[Lie])
    can_withdraw: bool = False
    blind: bool = False
    """Whether nobody can see what rests."""
    gate: asyncio.Event | None = None
    """Holds orders up until it is set."""
    cancel_gate: asyncio.Event | None = None
    """Holds the answers to cancels up until it is set."""
    cancels: int = 0
    """Requests to cancel an order that arrived."""
    number: int | None = None
    """What the venue calls the account, where it says so."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    hung: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an answer will never come, until somebody has given it up."""
    _ids: int = 0

    def now_ms(self) -> int:
        return self.clock.now_ns() // MILLISECOND

    # --- what truly happens

    def take(self, asked: Json) -> Json:
        """Trade or rest an order; raises `ValueError` for an id that is open."""
        name = asked["newClientOrderId"]
        known = self.orders.get(name)
        if known is not None and known["status"] in ("NEW", "PARTIALLY_FILLED"):
            raise ValueError("Duplicate order sent.")
        self.taken[name] += 1
        self._ids += 1
        self.orders[name] = order = self._traded(asked, name)
        return order

    def _traded(self, asked: Json, name: str) -> Json:
        quantity, kind = units(asked["quantity"]), asked["type"]
        price = units(asked.get("price", "0"))
        crosses = price >= TOUCH if asked["side"] == "BUY" else price <= TOUCH
        fills = kind == "MARKET" or (kind == "LIMIT" and crosses)
        executed = quantity if fills else 0
        expired = kind == "LIMIT" and asked.get("timeInForce") in ("IOC", "FOK") and not fills
        status = "FILLED" if fills else "EXPIRED" if expired else "NEW"
        told = {
            "symbol": asked["symbol"],
            "orderId": self._ids,
            "orderListId": -1,
            "clientOrderId": name,
            "transactTime": self.now_ms(),
            "price": text(price),
            "origQty": text(quantity),
            "executedQty": text(executed),
            "cummulativeQuoteQty": text(executed * TOUCH // ONE),
            "status": status,
            "timeInForce": asked.get("timeInForce", "GTC"),
            "type": kind,
            "side": asked["side"],
        }
        fill = {
            "price": text(TOUCH),
            "qty": text(quantity),
            "commission": "0.00000000",
            "commissionAsset": "BTC",
        }
        return {**told, "fills": [{**fill, "tradeId": self._ids}] if fills else []}

    def fill(self, name: str) -> None:
        """Somebody trades with an order that rests."""
        order = self.orders[name]
        worth = units(order["origQty"]) * units(order["price"]) // ONE
        order |= {"status": "FILLED", "executedQty": order["origQty"], "cummulativeQuoteQty": text(worth)}

    def deliver(self) -> None:
        """What was on the way arrives, unless it was signed too long ago."""
        waiting, self.on_the_way = self.on_the_way, []
        for asked in waiting:
            if self.now_ms() - int(asked["timestamp"]) <= int(asked["recvWindow"]):
                self.take(asked)

    def resting(self) -> list[Json]:
        return [order for order in self.orders.values() if order["status"] in ("NEW", "PARTIALLY_FILLED")]

    # --- what is said

    async def place(self, request: web.Request) -> web.StreamResponse:
        asked = dict(await request.post())
        self.posted[str(asked["newClientOrderId"])] += 1
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        lie: Lie = self.lies.popleft() if self.lies else "truth"
        if lie in _BEFORE:
            return await self._before(request, lie)
        if lie == "late":
            self.on_the_way.append(asked)
            return _cut(request)
        try:
            order = self.take(asked)
            if lie == "twice":
                order = self.take(asked)
        except ValueError as refusal:
            return _refusal(-2010, str(refusal))
        return await self._after(request, lie, order)

    async def _before(self, request: web.Request, lie: Lie) -> web.StreamResponse:
        match lie:
            case "drop_before":
                return _cut(request)
            case "error_before":
                return web.Response(status=502, text="<html>bad gateway</html>")
            case "limit":
                return _refusal(-1003, "Too many requests.", 429, NOW)
            case "ban":
                return _refusal(-1003, "Way too much request weight used; IP banned.", 418, NOW)
            case "unclear":
                return _refusal(-1007, "Timeout waiting for response from backend server.", 408)
            case _:
                return _refusal(-2010, "Account has insufficient balance for requested action.")

    async def _after(self, request: web.Request, lie: Lie, order: Json) -> web.StreamResponse:
        match lie:
            case "drop_after":
                return _cut(request)
            case "error_after":
                return _refusal(-1000, "An unknown error occurred.", 503)
            case "page":
                return web.Response(status=408, text="<html>request timeout</html>", content_type="text/html")
            case "malformed":
                return web.Response(
                    text='{"symbol": "BTCUSDT", "orderId": 2', content_type="application/json"
                )
            case "empty":
                return web.json_response({})
            case "other_order":
                return web.json_response({**order, "clientOrderId": "td-somebody-else"})
            case "too_much":
                return web.json_response({**order, "executedQty": "99999.00000000"})
            case "hang":
                self.hung.set()
                await asyncio.Event().wait()
            case "echo":
                return await _echoed(request, order)
            case _:
                pass
        return web.json_response(order)

    async def order(self, request: web.Request) -> web.StreamResponse:
        if self.silences:
            self.silences -= 1
            return _cut(request)
        order = self._named(request)
        if order is None or order["clientOrderId"] in self.forgotten:
            return _refusal(-2013, "Order does not exist.")
        return web.json_response({k: v for k, v in order.items() if k != "fills"})

    def _named(self, request: web.Request) -> Json | None:
        if "origClientOrderId" in request.query:
            return self.orders.get(request.query["origClientOrderId"])
        wanted = int(request.query["orderId"])
        return next((order for order in self.orders.values() if order["orderId"] == wanted), None)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        self.cancels += 1
        lie: Lie = self.cancel_lies.popleft() if self.cancel_lies else "truth"
        if lie == "drop_before":
            return _cut(request)
        order = self._named(request)
        if order is None or order not in self.resting():
            return _refusal(-2011, "Unknown order sent.")
        order["status"] = "CANCELED"
        if self.cancel_gate is not None:
            await self.cancel_gate.wait()
        if lie == "drop_after":
            return _cut(request)
        return web.json_response(_cancelled(order))

    async def cancel_all(self, request: web.Request) -> web.StreamResponse:
        lie: Lie = self.cancel_lies.popleft() if self.cancel_lies else "truth"
        if lie == "drop_before":
            return _cut(request)
        found = [order for order in self.resting() if order["symbol"] == request.query["symbol"]]
        for order in found:
            order["status"] = "CANCELED"
        return web.json_response([_cancelled(order) for order in found])

    async def open_orders(self, _: web.Request) -> web.StreamResponse:
        if self.blind:
            return _refusal(-1003, "Too many requests.", 429, {"Retry-After": "60"})
        return web.json_response(self.resting())

    async def test(self, _: web.Request) -> web.StreamResponse:
        self.tested += 1
        return web.json_response({})

    async def account(self, _: web.Request) -> web.StreamResponse:
        rates = {"maker": "0.00100000", "taker": "0.00200000", "buyer": "0.00000000", "seller": "0.00000000"}
        balances = [
            {"asset": asset, "free": free, "locked": locked}
            for asset, (free, locked) in self.balances.items()
        ]
        told: Json = {"commissionRates": rates, "canWithdraw": self.can_withdraw, "balances": balances}
        if self.number is not None:
            told["uid"] = self.number
        return web.json_response(told)

    async def time(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"serverTime": self.now_ms()})


_BEFORE: Final = ("drop_before", "error_before", "limit", "ban", "unclear", "refuse")


def _cancelled(order: Json) -> Json:
    told = {k: v for k, v in order.items() if k != "fills"}
    return {**told, "origClientOrderId": order["clientOrderId"], "clientOrderId": "cancel-request"}


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _echoed(request: web.Request, order: Json) -> web.StreamResponse:
    """The answer, and the same once more: a client that goes on may read it as its next one."""
    response = web.json_response(order)
    await response.prepare(request)
    await response.write_eof()
    assert request.transport is not None
    body = json.dumps(order).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    request.transport.write(head.encode() + body)
    return response


def _refusal(
    code: int, message: str, status: int = 400, headers: dict[str, str] | None = None
) -> web.Response:
    return web.json_response({"code": code, "msg": message}, status=status, headers=headers)


async def _weighed(_: web.Request, response: web.StreamResponse) -> None:
    """No request weighs anything here."""
    response.headers["X-MBX-USED-WEIGHT-1M"] = "1"


@asynccontextmanager
async def serving(venue: LyingVenue) -> AsyncGenerator[str]:
    """Put the venue on a loopback port; gives its address."""
    app = web.Application()
    app.on_response_prepare.append(_weighed)
    app.add_routes(
        [
            web.get("/api/v3/time", venue.time),
            web.get("/api/v3/account", venue.account),
            web.get("/api/v3/openOrders", venue.open_orders),
            web.delete("/api/v3/openOrders", venue.cancel_all),
            web.get("/api/v3/order", venue.order),
            web.post("/api/v3/order", venue.place),
            web.delete("/api/v3/order", venue.cancel),
            web.post("/api/v3/order/test", venue.test),
        ]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
