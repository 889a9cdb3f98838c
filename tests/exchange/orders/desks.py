"""Order desks under test: real files, the real client, and a venue on the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from tests.exchange.confirming import Enters, enter_code
from tests.exchange.orders.lying import BTCUSDT, LyingVenue, serving
from tracedesk.calls import CallLog
from tracedesk.contract import Annotations, Call, Channel, Services, Tool
from tracedesk.errors import STANDARD, ClientCannot, ToolError
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.orders.desk import OrderDesk, Pace
from tracedesk.exchange.orders.party import Party, View
from tracedesk.exchange.settings import Caps, Exchange, read
from tracedesk.exchange.units import units
from tracedesk.home import Home
from tracedesk.journal import Reader, verify
from tracedesk.payloads import Payloads
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import ManualClock, SystemClock

START_NS: Final = 1_794_819_600_000_000_000
"""2026-11-16T09:00:00Z."""
FAST: Final = 40
"""How much faster than here the client's timers run."""
PATIENCE: Final = 1e6
"""Seconds that the client waits for an answer: as long as it takes, unless none will come."""
INSTRUMENT: Final = Instrument.of(BTCUSDT)
LIMIT: Final = {
    "symbol": "BTCUSDT",
    "side": "BUY",
    "order_type": "LIMIT",
    "quantity": "0.01",
    "price": "49900",
}
MARKET: Final = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "MARKET", "quantity": "0.01"}
NO_CAPS: Final = Caps(*[cast("Any", 0)] * 6)


class Brisk(ManualClock):
    """A clock on which waiting takes no time."""

    async def sleep_until(self, deadline: float) -> None:
        self.advance(max(0.0, deadline - self.monotonic()))
        await asyncio.sleep(0)


class Hurried(SystemClock):
    """The wall clock of another, and timers that run faster than here.

    The one that limits an answer runs off when the venue hangs, and never because the machine is slow.
    """

    def __init__(self, wall: ManualClock, venue: LyingVenue) -> None:
        self._wall = wall
        self._venue = venue

    def now_ns(self) -> int:
        return self._wall.now_ns()

    def monotonic(self) -> float:
        return super().monotonic() * FAST

    async def sleep_until(self, deadline: float) -> None:
        left = max(0.0, deadline - self.monotonic())
        if left < PATIENCE / 2:
            await asyncio.sleep(left / FAST)
        else:
            await self._venue.hung.wait()
            self._venue.hung.clear()


@dataclass(slots=True)
class User(Channel):
    """A client whose user answers as they were told to."""

    answer: Mapping[str, Any] | None = None
    """None is a client that cannot be asked."""
    asked: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    enters: Enters = enter_code
    """What its user does on the page, before the client answers."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: Any) -> None: ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        if self.answer is None:
            raise ClientCannot("elicitation")
        self.asked += requests.values()
        if self.answer == YES:
            for request in requests.values():
                await self.enters(request["params"])
        return dict.fromkeys(requests, self.answer)


YES: Final = {"action": "accept"}


@dataclass(slots=True)
class Trader:
    """One caller of one desk."""

    desk: OrderDesk
    party: Party
    venue: LyingVenue
    clock: Brisk
    calls: CallLog
    home: Path
    market: Market
    user: User = field(default_factory=User)

    def call(self, tool: str = "place_order", arguments: Any = None) -> Call[Any]:
        return make_call(self.calls, self.party.scope, self.user, tool, arguments)

    async def preview(self, order: Mapping[str, Any] = LIMIT, **changes: Any) -> dict[str, Any]:
        return await self.desk.preview(self.party, {**order, **changes}, self.call("preview_order"))

    async def place(
        self, order: Mapping[str, Any] = LIMIT, *, token: str | None = None, **changes: Any
    ) -> dict[str, Any]:
        wanted = {**order, **changes}
        chosen: str = (await self.preview(wanted))["preview_token"] if token is None else token
        return await self.desk.place(self.party, wanted, chosen, self.call(arguments=wanted))

    async def refusal(self, order: Mapping[str, Any] = LIMIT, **changes: Any) -> ToolError:
        """What placing an order fails with."""
        try:
            await self.place(order, **changes)
        except ToolError as problem:
            return problem
        raise AssertionError("the order was placed")

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """What the ledger's streams hold."""
        with Reader(self.home / "trace.db") as reader:
            streams = [stream.name for stream in reader.streams() if stream.kind == "orders"]
            return [(e.kind, json.loads(e.body)) for name in streams for e in reader.events(name)]

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.entries()]

    def as_scope(self, scope: str) -> Trader:
        return replace(self, party=replace(self.party, scope=scope))

    def assert_sound(self) -> None:
        assert verify(self.home / "trace.db").faults == []


@dataclass(slots=True)
class Market:
    """The book that orders are judged on, as a test sets it."""

    bids: list[tuple[str, str]] = field(default_factory=lambda: [("49999", "1"), ("49990", "5")])
    asks: list[tuple[str, str]] = field(default_factory=lambda: [("50001", "1"), ("50010", "5")])
    synced: bool = True
    age_ms: int = 5
    average: str | None = "50000"
    instrument: Instrument = INSTRUMENT

    async def look(self, symbol: str) -> View:
        if symbol != self.instrument.symbol:
            raise ToolError("INVALID_SYMBOL", f"symbol: {symbol} is not listed.", {"symbol": symbol})
        return self.view()

    def view(self) -> View:
        return View(
            self.instrument,
            [(units(price), units(quantity)) for price, quantity in self.bids],
            [(units(price), units(quantity)) for price, quantity in self.asks],
            self.synced,
            self.age_ms,
            None if self.average is None else units(self.average),
        )


def settings(**table: Any) -> Exchange:
    """The settings of an `[exchange]` table, with caps only where it names them."""
    found = read(table)
    return found if "caps" in table or found.mode == "live" else replace(found, caps=NO_CAPS)


LIVE: Final = Exchange(mode="live", live_trading=True, profile="main", allowed_symbols=("BTCUSDT",))


@asynccontextmanager
async def trader(
    home: Path,
    *,
    of: Exchange | None = None,
    venue: LyingVenue | None = None,
    clock: Brisk | None = None,
    profile: str | None = "main",
    pace: Pace | None = None,
    **table: Any,
) -> AsyncGenerator[Trader]:
    """A desk with one account at a lying venue; `venue` and `clock` of an earlier desk go on."""
    clock = clock or Brisk(START_NS)
    venue = venue or LyingVenue(clock)
    chosen = of or settings(**table)
    Home.open(home)
    calls = CallLog(home / "trace.db", clock, Secrets(), Payloads(home / "payloads"))
    market = Market()
    async with serving(venue) as address:
        client = Client(
            Endpoints("sim", address, "ws://127.0.0.1:1", "ws://127.0.0.1:1/ws-api/v3"),
            clock=Hurried(clock, venue),
            timeout=PATIENCE,
        )
        rest = client.signed(Credentials.of("k" * 64, "s" * 64))
        party = Party("stdio:1", f"{chosen.venue}/main", profile, rest, market.look)
        desk = OrderDesk(home, chosen, clock, calls, lambda: [party], pace=pace or Pace(asks=(0.0,)))
        await desk.reconcile()
        try:
            yield Trader(desk, party, venue, clock, calls, home, market)
        finally:
            await desk.stop()
            await client.close()
            calls.stop()


def make_call(calls: CallLog, scope: str, user: User, tool: str, arguments: Any = None) -> Call[Any]:
    """A call as dispatch opens it."""
    call: Call[Any] = Call(uuid7(), scope, None, 0.0, None, user, cast("Services", None), None)
    call.deadline = asyncio.get_running_loop().time() + 60
    call.record = calls.open(call, _tool(tool), arguments)
    return call


def _tool(name: str) -> Tool:
    async def handler(_: Any, __: Any) -> Any: ...

    return Tool(
        name=name,
        toolset="exchange",
        description="",
        input={},
        output=None,
        annotations=Annotations(read_only=name == "preview_order"),
        scope="trade",
        family=STANDARD,
        deadline=60.0,
        handler=handler,
    )
