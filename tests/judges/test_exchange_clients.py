"""The local exchange judged by the clients people trade with: the venue's own, and ccxt with ccxt.pro.

Each client runs in its own process and environment, and is told nothing but addresses and keys.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.judges.install import EXCHANGE, LOCKS
from tracedesk.exchange.local import launch
from tracedesk.exchange.local.app import Address, serving
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.exchange import LocalExchange
from tracedesk.exchange.local.market import Message
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.stage import build
from tracedesk.exchange.units import units
from tracedesk.hosts import HostClient

pytestmark = [pytest.mark.judge, pytest.mark.timeout(240)]

BOUND: Final = 200.0
SYMBOL: Final = "BTCUSDT"
DIFFERENCES: Final = "btcusdt@depth@100ms"
SHOWN: Final = 10
"""Levels of each side that are compared."""
FUNDS: Final = {"BTC": units("10"), "USDT": units("1000000")}


@dataclass(slots=True)
class Running:
    """An exchange with a market in motion, and what a client is told of it."""

    exchange: LocalExchange
    address: Address
    given: dict[str, str]


@asynccontextmanager
async def running() -> AsyncGenerator[Running]:
    """An exchange with seeded agents in its one market."""
    stage = build(Plan(symbols=(SYMBOL,)), Warp())
    exchange = LocalExchange(stage.venue, stage.markets, stage.clock)
    stage.venue.open_account("ann", FUNDS)
    key = exchange.keys.issue("ann")
    pair_key, private_pem = _pair(exchange)
    stopping = asyncio.Event()
    trading = asyncio.create_task(stage.trading.run(stage.clock, stopping))
    try:
        async with serving(exchange) as address:
            keys = {"api_key": key.api_key, "secret": key.material}
            pair = {"pair_key": pair_key, "private_pem": private_pem}
            yield Running(exchange, address, {**address.document(), **keys, **pair})
    finally:
        stopping.set()
        await trading
        stage.venue.close()


def _pair(exchange: LocalExchange) -> tuple[str, str]:
    private = Ed25519PrivateKey.generate()
    shape = serialization.PublicFormat.SubjectPublicKeyInfo
    public_pem = private.public_key().public_bytes(serialization.Encoding.PEM, shape).decode()
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private_pem = private.private_bytes(serialization.Encoding.PEM, form, plain).decode()
    return exchange.keys.register("ann", public_pem).api_key, private_pem


async def _start(script: str, *arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    path = LOCKS / "exchange" / script
    return await asyncio.create_subprocess_exec(
        EXCHANGE.python, path, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 22
    )


async def _seen_by(given: dict[str, str], script: str, *arguments: str) -> dict[str, Any]:
    """What a client that runs to its end saw."""
    client = await _start(script, *arguments)
    out, err = await client.communicate(json.dumps(given).encode() + b"\n")
    assert client.returncode == 0, err.decode()
    return json.loads(out)


def _drive(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, BOUND))


# --- the venue's own client ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def official() -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with running() as exchange:
            return await _seen_by(exchange.given, "official.py")

    return _drive(main())


def test_the_official_client_reads_the_market(official: dict[str, Any]) -> None:
    seen = official["public"]
    assert [each["symbol"] for each in seen["info"]["symbols"]] == [SYMBOL]
    assert len(seen["depth"]["bids"]) == len(seen["depth"]["asks"]) == 50
    assert Decimal(seen["depth"]["bids"][0][0]) < Decimal(seen["depth"]["asks"][0][0])
    assert [each["id"] for each in seen["trades"]] == sorted(each["id"] for each in seen["trades"])
    assert len(seen["klines"]) == 30
    assert all(len(each) == 12 for each in seen["klines"])
    for name in ("day", "window", "trading_day"):
        assert (
            Decimal(seen[name]["lowPrice"])
            <= Decimal(seen[name]["lastPrice"])
            <= Decimal(seen[name]["highPrice"])
        )


def test_the_official_client_reads_its_account(official: dict[str, Any]) -> None:
    seen = official["private"]
    balances = {each["asset"]: each["free"] for each in seen["account"]["balances"]}
    assert balances == {"BTC": "10.00000000", "USDT": "1000000.00000000"}
    assert seen["commission"]["standardCommission"]["taker"] == "0.00100000"
    assert {each["filterType"] for each in seen["filters"]["symbolFilters"]} >= {"PRICE_FILTER", "LOT_SIZE"}
    assert [each["count"] for each in seen["counts"]] == [0, 0]


def test_the_official_client_takes_orders_through_their_life(official: dict[str, Any]) -> None:
    seen = official["life"]
    placed = seen["placed"]["orderId"]
    assert (seen["placed"]["status"], seen["queried"]["clientOrderId"]) == ("NEW", "judge-1")
    assert [each["orderId"] for each in seen["open"]] == [placed]
    assert (seen["amended"]["amendedOrder"]["qty"], seen["amended"]["amendedOrder"]["orderId"]) == (
        "0.00800000",
        placed,
    )
    assert (seen["replaced"]["cancelResult"], seen["replaced"]["newOrderResult"]) == ("SUCCESS", "SUCCESS")
    assert (seen["replaced"]["cancelResponse"]["orderId"], seen["cancelled"]["status"]) == (
        placed,
        "CANCELED",
    )
    assert (seen["filled"]["status"], seen["filled"]["executedQty"]) == ("FILLED", "0.02000000")
    assert sum(Decimal(each["qty"]) for each in seen["fills"]) == Decimal("0.02")
    assert sum(Decimal(each["quoteQty"]) for each in seen["fills"]) == Decimal(
        seen["filled"]["cummulativeQuoteQty"]
    )
    assert [each["status"] for each in seen["all"]] == ["CANCELED", "CANCELED", "FILLED"]


def test_the_official_client_understands_refusals(official: dict[str, Any]) -> None:
    assert official["refusals"] == {
        "symbol": "(-1121, 'Invalid symbol.')",
        "filter": "(-1013, 'Filter failure: PRICE_FILTER')",
        "balance": "(-2010, 'Account has insufficient balance for requested action.')",
        "unknown": "(-2011, 'Unknown order sent.')",
    }


def test_the_official_client_trades_and_listens_over_the_websocket_api(official: dict[str, Any]) -> None:
    seen = official["sockets"]
    placed = seen["placed"]["orderId"]
    assert (seen["status"]["status"], seen["cancelled"]["status"]) == ("NEW", "CANCELED")
    assert [each["orderId"] for each in seen["open"]] == [placed]
    reports = [(each["x"], each["i"]) for each in seen["events"] if "x" in each]
    assert reports == [("NEW", placed), ("CANCELED", placed)]
    positions = [each for each in seen["events"] if "B" in each]
    assert [{row["a"] for row in each["B"]} for each in positions] == [{"BTC", "USDT"}] * 2


def test_the_official_client_logs_a_session_on_with_its_key_pair(official: dict[str, Any]) -> None:
    seen = official["session"]
    assert seen["logon"]["apiKey"] == seen["status"]["apiKey"] is not None
    assert (seen["subscription"], seen["logout"].get("apiKey")) == (0, None)
    assert seen["account"]["accountType"] == "SPOT"


def test_the_official_client_hears_every_kind_of_stream(official: dict[str, Any]) -> None:
    seen = official["streams"]
    kinds = {name: seen[name]["e"] for name in seen if name not in ("bookTicker", "partial", "all")}
    assert kinds == {
        "aggTrade": "aggTrade",
        "trade": "trade",
        "kline": "kline",
        "miniTicker": "24hrMiniTicker",
        "ticker": "24hrTicker",
        "window": "1hTicker",
        "avgPrice": "avgPrice",
        "depth": "depthUpdate",
    }
    assert len(seen["partial"]["bids"]) == 5
    assert Decimal(seen["bookTicker"]["b"]) < Decimal(seen["bookTicker"]["a"])
    assert seen["depth"]["U"] <= seen["depth"]["u"]


# --- ccxt ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The exchange is a process of its own here, as `tracedesk exchange serve` starts it."""
    home = tmp_path_factory.mktemp("home")

    async def main() -> dict[str, Any]:
        info = await launch.start(home, Plan(symbols=(SYMBOL,)))
        try:
            account = await launch.ask(home, "account", {"name": "ann"})
            return await _seen_by({**await launch.ask(home, "address"), **account}, "unified.py", "trade")
        finally:
            await (await HostClient.connect(info)).stop()

    return _drive(main())


def test_ccxt_reads_market_and_account(unified: dict[str, Any]) -> None:
    assert (unified["precision"]["price"], unified["precision"]["amount"]) == (0.01, 1e-05)
    assert unified["book"]["bids"][0][0] < unified["book"]["asks"][0][0]
    assert (unified["trades"], unified["candles"]) == (20, 10)
    assert unified["balance"] == {"free": 100000.0, "used": 0.0, "total": 100000.0}
    assert abs(unified["skew"]) < 5000


def test_ccxt_takes_orders_through_their_life(unified: dict[str, Any]) -> None:
    seen = unified["orders"]
    assert (seen["resting"], seen["found"], len(seen["open"])) == ("open", "open", 1)
    assert (seen["edited"], seen["cancelled"]) == (["open", 0.02], "canceled")
    assert seen["market"][:2] == ["closed", 0.01]
    assert seen["stop"][2]
    assert {(mine, side) for mine, _, side in seen["trades"]} == {(True, "buy")}


def test_ccxt_pro_trades_and_listens(unified: dict[str, Any]) -> None:
    seen = unified["pro"]
    assert (seen["placed"], seen["seen"]) == ("open", [[True, "open"], [True, "canceled"]])
    assert seen["balance"]["used"] == 0.0
    assert seen["trades"] > 0
    assert seen["ticker"]
    assert seen["candles"] > 0


def test_ccxt_knows_what_refusals_mean(unified: dict[str, Any]) -> None:
    assert unified["refused"] == {
        "balance": "InsufficientFunds",
        "unknown": "OrderNotFound",
        "missing": "OrderNotFound",
        "small": "BadRequest",
    }


# --- ccxt.pro's own book ------------------------------------------------------------------------


@dataclass(slots=True)
class Truth:
    """What the book showed after each published difference, from the publisher's side of any fault."""

    bids: dict[Decimal, Decimal]
    asks: dict[Decimal, Decimal]
    after: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])

    def take(self, message: Message) -> None:
        event = message.data()
        for side, rows in ((self.bids, event["b"]), (self.asks, event["a"])):
            for price, quantity in rows:
                _set(side, Decimal(price), Decimal(quantity))
        self.after[event["u"]] = _best(self.bids, True), _best(self.asks, False)


def _set(side: dict[Decimal, Decimal], price: Decimal, quantity: Decimal) -> None:
    if quantity:
        side[price] = quantity
    else:
        side.pop(price, None)


def _best(side: dict[Decimal, Decimal], falling: bool) -> list[tuple[Decimal, Decimal]]:
    return sorted(side.items(), reverse=falling)[:SHOWN]


def _rows(levels: list[list[str]]) -> list[tuple[Decimal, Decimal]]:
    return [(Decimal(price), Decimal(quantity)) for price, quantity in levels]


@dataclass(slots=True)
class Watcher:
    """ccxt.pro in its process, state by state."""

    client: asyncio.subprocess.Process
    truth: Truth
    agreed: int = 0
    lost: list[str] = field(default_factory=list[str])

    async def agree(self, times: int) -> None:
        """Read until the book was right so many times more; a wrong one fails at once."""
        wanted = self.agreed + times
        while self.agreed < wanted:
            await self._next()

    async def lose(self) -> None:
        """Read until ccxt says that it lost its place."""
        before = len(self.lost)
        while len(self.lost) == before:
            await self._next()

    async def _next(self) -> None:
        assert self.client.stdout is not None
        line = await asyncio.wait_for(self.client.stdout.readline(), 30)
        assert line, "the client ended"
        state = json.loads(line)
        if "lost" in state:
            self.lost.append(state["lost"])
        elif state["nonce"] in self.truth.after:
            shown = _rows(state["bids"]), _rows(state["asks"])
            assert shown == self.truth.after[state["nonce"]], state["nonce"]
            self.agreed += 1


@asynccontextmanager
async def watching(exchange: Running) -> AsyncGenerator[Watcher]:
    begun = exchange.exchange.market.of(SYMBOL).depth(5000)
    truth = Truth(dict(_rows(begun["bids"])), dict(_rows(begun["asks"])))
    cancel = exchange.exchange.market.subscribe(DIFFERENCES, truth.take)
    client = await _start("unified.py", "watch")
    assert client.stdin is not None
    try:
        client.stdin.write(json.dumps(exchange.given).encode() + b"\n")
        yield Watcher(client, truth)
    finally:
        client.stdin.close()
        await asyncio.wait_for(client.communicate(), 30)
        cancel()


async def _through(fault: dict[str, Any] | None, *, loses: bool) -> None:
    async with running() as exchange, watching(exchange) as watcher:
        await watcher.agree(10)
        if fault is not None:
            exchange.exchange.faults.set({"on": "btcusdt@depth*", **fault})
        if loses:
            await watcher.lose()
        await watcher.agree(20)
        assert bool(watcher.lost) == loses, watcher.lost


def test_ccxt_pro_keeps_the_book_that_the_exchange_has() -> None:
    _drive(_through(None, loses=False))


@pytest.mark.parametrize(
    ("fault", "loses"),
    [
        ({"kind": "drop_event"}, True),
        ({"kind": "duplicate_event", "times": 5, "every": 2}, False),
        ({"kind": "reorder_event"}, True),
    ],
    ids=["dropped", "duplicated", "reordered"],
)
def test_ccxt_pro_finds_its_place_again_after_bad_differences(fault: dict[str, Any], loses: bool) -> None:
    _drive(_through(fault, loses=loses))


def test_ccxt_pro_finds_its_place_again_after_a_cut_and_a_stale_snapshot() -> None:
    async def main() -> None:
        async with running() as exchange, watching(exchange) as watcher:
            await watcher.agree(10)
            exchange.exchange.faults.set({"kind": "stale_snapshot", "on": SYMBOL, "times": 2})
            exchange.exchange.cut()
            await watcher.lose()
            await watcher.agree(20)
            await exchange.exchange.shut_down()
            await watcher.lose()
            await watcher.agree(20)

    _drive(main())
