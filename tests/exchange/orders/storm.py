"""Orders in a storm: a desk, the local exchange in a process of its own, and everything going wrong between.

Several accounts place orders at once while the exchange is killed and started again, its clock is set wrong,
it bans, breaks and times out, its streams carry garbage, and the network loses what it carries. Afterwards
the exchange's own books are the truth that ledger and answers are held to.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.process import free_port
from tests.exchange.orders.desks import NO_CAPS, User, make_call
from tests.exchange.orders.network import TROUBLES, Network
from tracedesk.calls import CallLog
from tracedesk.errors import ToolError
from tracedesk.exchange.book.sync import levels
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.rest import Rest
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.feeds.feeds import Feeds
from tracedesk.exchange.local import launch
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.orders.desk import OrderDesk, Pace
from tracedesk.exchange.orders.identity import of_key
from tracedesk.exchange.orders.party import Party, View
from tracedesk.exchange.settings import Exchange
from tracedesk.exchange.units import decimal, units
from tracedesk.home import Home
from tracedesk.hosts import HostError
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SystemClock

SYMBOL: Final = "BTCUSDT"
PACE: Final = Pace(asks=(0.0, 0.2), arrives=15.0, watch=0.5, settle=1.0)
SKEW_MS: Final = 10_000
FAULTS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "drop_before"},
    {"kind": "drop_after"},
    {"kind": "error_before", "status": 502},
    {"kind": "error_after", "status": 503},
    {"kind": "timeout_before"},
    {"kind": "timeout_after"},
    {"kind": "limit", "seconds": 1},
    {"kind": "ban", "seconds": 1},
)
"""What the exchange itself does to orders."""
GARBAGE: Final[dict[str, Any]] = {"kind": "malformed", "on": f"{SYMBOL.lower()}@*", "times": 5}
"""What it sends on its streams, when they are up."""
_READS: Final = (
    {"kind": "error_before", "on": "order.status"},
    {"kind": "drop_before", "on": "account.status"},
)


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller was told of an order that was written down."""

    account: str
    name: str
    code: str
    """The status of the answer, or the code of the error."""
    executed: str | None = None


@dataclass(slots=True)
class Storm:
    """One run, and what came of it."""

    home: Path
    rounds: int
    accounts: int
    kills: int
    random: Random
    port: int = 0
    told: list[Told] = field(default_factory=list[Told])
    held_back: Counter[str] = field(default_factory=Counter[str])
    """Orders that were not sent, by the reason they were refused with."""
    killed: int = 0
    skewed: int = 0
    hits: Counter[str] = field(default_factory=Counter[str])
    networks: list[Network] = field(default_factory=list[Network])
    parties: list[Party] = field(default_factory=list[Party])
    truths: dict[str, Rest] = field(default_factory=dict[str, Rest])
    """The exchange without a network between, by account."""
    desk: OrderDesk = field(init=False)
    feeds: Feeds = field(init=False)
    public: Rest = field(init=False)
    calls: CallLog = field(init=False)

    @property
    def is_over(self) -> bool:
        """Whether so many orders were written down, and everything has gone wrong that can."""
        met = all(self.hits[fault["kind"]] >= self.rounds // 50 for fault in FAULTS)
        met = met and self.hits[GARBAGE["kind"]] > 0
        enough = len(self.told) >= self.rounds and self.killed >= self.kills
        return (enough and met) or len(self.told) >= 4 * self.rounds

    # --- the exchange

    async def start(self) -> None:
        self.port = self.port or free_port()
        await launch.start(self.home, Plan(port=self.port, symbols=(SYMBOL,), pace=0.05))

    async def kill(self) -> None:
        """The exchange dies with orders in its hands, and comes back."""
        where = self.random.choice(("delay_before", "delay_after"))
        await self.fault({"kind": where, "on": "order.place", "times": 0, "seconds": 0.3})
        await asyncio.sleep(self.random.uniform(0.1, 0.5))
        info = launch.running(self.home)
        assert info is not None
        os.kill(info.pid, signal.SIGKILL)
        self.killed += 1
        while launch.running(self.home) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await self.start()

    async def fault(self, *faults: Mapping[str, Any], **more: Any) -> None:
        found = await launch.ask(self.home, "faults", {"clear": True, **more})
        assert found["faults"] == []
        found = await launch.ask(self.home, "faults", {"set": list(faults), **more})
        assert len(found["faults"]) == len(faults)

    async def calm(self) -> None:
        """Count what the faults did, and end them."""
        for fault in (await launch.ask(self.home, "faults", {}))["faults"]:
            self.hits[fault["kind"]] += fault["hit"]
        await self.fault()

    # --- the weather

    async def weather(self) -> None:
        """One fault after the other, and the kills spread over the rounds."""
        while not self.is_over:
            if self.killed < self.kills and len(self.told) * self.kills >= self.killed * self.rounds:
                await self.kill()
            elif self.random.random() < 0.25:
                await self._skew()
            else:
                await self._gust()

    async def _gust(self) -> None:
        fewest = min(self.hits[fault["kind"]] for fault in FAULTS)
        chosen = self.random.choice([fault for fault in FAULTS if self.hits[fault["kind"]] == fewest])
        faults = [{"on": "order.place", "times": 4, **chosen}, self.random.choice(_READS)]
        if self.random.random() < 0.3:
            faults.append(GARBAGE)
        await self.fault(*faults)
        await asyncio.sleep(0.4)
        await self.calm()

    async def _skew(self) -> None:
        self.skewed += 1
        await self.fault(skew_ms=self.random.choice((SKEW_MS, -SKEW_MS)), cut=self.random.random() < 0.3)
        await asyncio.sleep(0.6)
        await self.fault()

    # --- the traders

    async def trade(self, party: Party, network: Network) -> None:
        """Place one order after the other, whatever happens to them."""
        user = User()
        while not self.is_over:
            order = await self._order(party)
            if order is None:
                await asyncio.sleep(0.2)
                continue
            try:
                call = make_call(self.calls, party.scope, user, "preview_order")
                shown = await self.desk.preview(party, order, call)
            except ToolError as problem:
                self.held_back[_reason(problem)] += 1
                await asyncio.sleep(0.2)
                continue
            network.trouble = self.random.choice((*TROUBLES, *("none",) * len(TROUBLES)))  # type: ignore[arg-type]
            await self._place(party, order, shown, user)
            network.trouble = "none"

    async def _place(
        self, party: Party, order: Mapping[str, str], shown: Mapping[str, Any], user: User
    ) -> None:
        name = shown["client_order_id"]
        call = make_call(self.calls, party.scope, user, "place_order", dict(order))
        try:
            placed = await self.desk.place(party, order, shown["preview_token"], call)
        except ToolError as problem:
            if self.desk.ledger.order(name) is None:
                self.held_back[_reason(problem)] += 1
                await asyncio.sleep(0.2)
            else:
                self.told.append(Told(party.account, name, problem.code))
        else:
            self.told.append(Told(party.account, name, placed["status"], placed["executed_quantity"]))

    async def _order(self, party: Party) -> dict[str, str] | None:
        """A market order, one that trades at once, or one that rests."""
        with suppress(ToolError):
            view = await party.look(SYMBOL)
            if view.mid2 is None:
                return None
            order = {"symbol": SYMBOL, "side": self.random.choice(("BUY", "SELL")), "quantity": "0.001"}
            match self.random.choice(("market", "ioc", "rest")):
                case "market":
                    return {**order, "order_type": "MARKET"}
                case "ioc":
                    far = view.mid2 * (101 if order["side"] == "BUY" else 99) // 200
                    return {**order, "order_type": "LIMIT", "time_in_force": "IOC", "price": _tick(view, far)}
                case _:
                    far = view.mid2 * (97 if order["side"] == "BUY" else 103) // 200
                    return {**order, "order_type": "LIMIT", "price": _tick(view, far)}
        return None

    async def look(self, symbol: str) -> View:
        """The followed book, or one that is asked for while the streams are being repaired."""
        market = self.feeds.market(symbol)
        assert market is not None
        status = market.status()
        if status.synced:
            bids, asks = market.sync.book.top(1_000)
            return View(market.instrument, bids, asks, True, status.age_ms or 0)
        told = await self.public.depth(symbol, 100)
        return View(market.instrument, levels(told["bids"]), levels(told["asks"]), True, 0)

    # --- the end

    async def clear_up(self) -> None:
        """The weather is fine again, and more time passes at the exchange than any order can take."""
        if launch.running(self.home) is None:
            await self.start()
        await self.fault(skew_ms=round(PACE.arrives * 1000) + SKEW_MS)
        for network in self.networks:
            network.trouble = "none"
        for _ in range(20):
            if not (await self.desk.reconcile())["unresolved"]:
                return
            await asyncio.sleep(0.3)
        raise AssertionError(f"orders are still unknown: {self.desk.ledger.unresolved()}")

    async def books(self) -> dict[str, list[dict[str, Any]]]:
        """The exchange's own orders, by account."""
        return {account: await rest.all_orders(SYMBOL, limit=1000) for account, rest in self.truths.items()}


def _reason(problem: ToolError) -> str:
    return f"{problem.code}: {problem.message[:24]}"


def _tick(view: View, price: int) -> str:
    return str(decimal(price - price % view.instrument.tick))


@asynccontextmanager
async def storm(home: Path, *, rounds: int, accounts: int, kills: int, seed: int) -> AsyncGenerator[Storm]:
    """Let it rage until so many orders were written down, and clear up."""
    Home.open(home)
    it = Storm(home, rounds, accounts, kills, Random(seed))
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        await it.start()
        stack.push_async_callback(_end, home)
        endpoints = Endpoints.sim(await launch.ask(home, "address"))
        direct = Client(endpoints, timeout=5.0)
        it.feeds = Feeds(direct)
        it.public = direct.public
        stack.push_async_callback(direct.close)
        stack.push_async_callback(it.feeds.close)
        market = await it.feeds.acquire(SYMBOL, "storm")
        assert await market.ready(20.0)
        it.calls = CallLog(home / "trace.db", clock, Secrets(), Payloads(home / "payloads"))
        stack.callback(it.calls.stop)
        for number in range(accounts):
            await _join(it, stack, number, endpoints)
        it.desk = OrderDesk(home, Exchange(caps=NO_CAPS), clock, it.calls, lambda: it.parties, pace=PACE)
        await it.desk.start()
        stack.push_async_callback(it.desk.stop)
        trading = [it.trade(*pair) for pair in zip(it.parties, it.networks, strict=True)]
        await asyncio.gather(it.weather(), *trading)
        await it.clear_up()
        yield it


async def _join(it: Storm, stack: AsyncExitStack, number: int, endpoints: Endpoints) -> None:
    """One more account, with a network and an address of its own."""
    name = f"trader-{number}"
    key = await launch.ask(it.home, "account", {"name": name})
    credentials = Credentials.of(key["api_key"], key["secret"])
    network = Network("127.0.0.1", it.port, f"127.0.{number // 200 + 1}.{number % 200 + 2}")
    address = await stack.enter_async_context(network.serving())
    client = Client(Endpoints("sim", address, endpoints.streams, endpoints.ws_api), timeout=2.0)
    stack.push_async_callback(client.close)
    own = Client(endpoints, timeout=5.0, patience=70.0)  # reading all books may use a minute up
    stack.push_async_callback(own.close)
    it.networks.append(network)
    it.truths[f"sim/{name}"] = own.signed(credentials)
    marks = (of_key(credentials.api_key),)
    party = Party(
        f"session:{number}", f"sim/{name}", name, client.signed(credentials), it.look, marks, "venue"
    )
    it.parties.append(party)


async def _end(home: Path) -> None:
    """Stop the exchange that this run has started."""
    info = launch.running(home)
    if info is not None:
        with suppress(ProcessLookupError, HostError):
            os.kill(info.pid, signal.SIGTERM)
    while launch.running(home) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def check(it: Storm) -> Counter[str]:
    """Hold ledger and answers to the exchange's own books; returns what became of the orders."""
    books = await it.books()
    fates: Counter[str] = Counter()
    known: set[str] = set()
    for account, orders in books.items():
        named = Counter(order["clientOrderId"] for order in orders)
        assert all(times == 1 for times in named.values()), f"an order was doubled: {named.most_common(1)}"
        for order in orders:
            known.add(order["clientOrderId"])
            kept = it.desk.ledger.order(order["clientOrderId"])
            assert kept is not None, f"an order was lost: {order}"
            assert kept.account == account
            assert kept.state.status == order["status"], (kept, order)
            assert kept.state.executed == units(order["executedQty"])
    assert len(known) == sum(map(len, books.values()))
    for told in it.told:
        kept = it.desk.ledger.order(told.name)
        assert kept is not None
        status = kept.state.status
        assert (status in ("REFUSED", "NEVER_ARRIVED")) == (told.name not in known), (told, kept)
        _check_told(told, status, told.name in known)
        fates[f"{told.code if told.executed is None else 'placed'} -> {status}"] += 1
    assert it.desk.ledger.unresolved() == []
    return fates


def _check_told(told: Told, status: str, is_there: bool) -> None:
    """A caller was told the truth, or that it was not known."""
    if told.executed is not None:
        assert is_there
        assert told.code in (status, "NEW", "PARTIALLY_FILLED"), (told, status)
    elif told.code != "OUTCOME_UNKNOWN":
        assert not is_there, f"told {told.code} of an order that is there"
        assert status == "REFUSED", (told, status)
