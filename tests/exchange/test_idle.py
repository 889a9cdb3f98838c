"""An exchange started on demand ends by itself when nobody uses it, and never while somebody does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.local.support import eventually
from tests.exchange.test_host import get, signed, stopped
from tests.support import BOUND, Client, run
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.exchange.link import Link
from tracedesk.exchange.local import launch
from tracedesk.exchange.local.auth import Keys
from tracedesk.exchange.local.clock import Warp
from tracedesk.exchange.local.exchange import LocalExchange
from tracedesk.exchange.local.host import ExchangeHost, Ready
from tracedesk.exchange.local.launch import ID, KIND, Files, ask, ensure, running
from tracedesk.exchange.local.plan import Plan
from tracedesk.exchange.local.stage import build
from tracedesk.exchange.local.use import Use
from tracedesk.exchange.settings import read
from tracedesk.exchange.venue.store import Store
from tracedesk.hosts import Host, HostClient
from tracedesk.primitives.time import Clock, ManualClock
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving

IDLE: Final = 300
PLAN: Final = Plan(symbols=("BTCUSDT",), idle_seconds=IDLE)


@dataclass(slots=True)
class Served:
    """An exchange in a host of this process, on a clock that the test moves."""

    home: Path
    clock: ManualClock
    exchange: LocalExchange
    host: Host
    task: asyncio.Task[None]
    rest: str = ""
    streams: str = ""

    async def pass_(self, seconds: int) -> None:
        """Let time pass, beat by beat, so that sockets can answer their pings."""
        for beat in range(0, seconds, 10):
            self.clock.advance(min(10, seconds - beat))
            await eventually(self._has_heard_all)

    def _has_heard_all(self) -> bool:
        now, sockets = self.clock.monotonic(), cast("set[Any]", self.exchange.sockets)
        return all(now - socket._ponged < 30 for socket in sockets)

    async def unused(self, seconds: int) -> None:
        """Let time pass after whoever used it has gone, which may be a moment after he has his answer."""
        use = cast("Any", self.exchange.use)
        await eventually(lambda: not use._users)
        self.clock.advance(seconds)

    async def ended(self) -> None:
        async with asyncio.timeout(BOUND):
            await self.task

    async def is_there(self) -> bool:
        """Whether it still serves, once all that fell due has been done."""
        for _ in range(20):
            await asyncio.sleep(0)
        return not self.host.stopping.is_set()


@asynccontextmanager
async def served(home: Path, plan: Plan = PLAN) -> AsyncGenerator[Served]:
    clock = ManualClock(time.time_ns())
    warp = Warp(clock)
    files = Files(home)
    files.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    stage = build(plan, warp, Store(files.venue), warm_up=1)
    exchange = LocalExchange(stage.venue, stage.markets, warp, Keys(files.keys))
    behind = ExchangeHost(Ready(stage, exchange))
    host = Host(home, KIND, ID, behind.methods(), work=behind.work)
    task = asyncio.create_task(host.serve())
    it = Served(home, clock, exchange, host, task)
    try:
        await eventually(lambda: running(home) is not None)
        found = await ask(home, "address")
        it.rest, it.streams = found["rest"], found["streams"]
        yield it
    finally:
        host.stop()
        await it.ended()


async def resting(rest: str, key: dict[str, str]) -> Any:
    return await signed(rest, key, "GET", "openOrders", symbol="BTCUSDT")


async def placed(it: Served, key: dict[str, str]) -> Any:
    price = (await get(it.rest, "ticker/price?symbol=BTCUSDT"))["price"]
    order = {"symbol": "BTCUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": "0.01"}
    return await signed(it.rest, key, "POST", "order", **order, price=f"{int(float(price) * 0.9)}.00")


def test_it_ends_when_nobody_has_used_it_for_so_long_and_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as it:
            key = await ask(tmp_path, "account", {"name": "me"})
            order = await placed(it, key)
            assert order["status"] == "NEW"
            await it.unused(IDLE - 1)
            assert await it.is_there()
            await it.unused(1)
            await it.ended()
            assert running(tmp_path) is None
        async with served(tmp_path) as it:
            assert await ask(tmp_path, "account", {"name": "me"}) == key
            [kept] = await resting(it.rest, key)
            assert (kept["orderId"], kept["price"]) == (order["orderId"], order["price"])

    run(main())


def test_each_request_and_each_question_begins_the_time_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as it:
            for _ in range(3):
                await it.unused(IDLE - 1)
                assert await it.is_there()
                await get(it.rest, "ping")
                await it.unused(IDLE - 1)
                assert await it.is_there()
                await ask(tmp_path, "status")
            await it.unused(IDLE)
            await it.ended()

    run(main())


@pytest.mark.parametrize("path", ["/ws/btcusdt@trade", "/ws-api/v3"])
def test_it_never_ends_while_a_socket_is_connected(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with served(tmp_path) as it, aiohttp.ClientSession() as http:
            async with http.ws_connect(f"{it.streams}{path}") as socket:

                async def listen_on() -> None:
                    async for _ in socket:
                        pass

                hearing = asyncio.create_task(listen_on())
                await it.pass_(3 * IDLE)
                assert await it.is_there()
                hearing.cancel()
                with suppress(asyncio.CancelledError):
                    await hearing
            await it.unused(IDLE - 1)
            assert await it.is_there()
            await it.unused(1)
            await it.ended()

    run(main())


def test_it_does_not_end_while_it_owes_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as it:
            slow = it.exchange.faults.set({"kind": "delay_before", "on": "ping", "seconds": 3 * IDLE})
            asking = asyncio.create_task(get(it.rest, "ping"))
            await eventually(lambda: slow.hit == 1)
            it.clock.advance(2 * IDLE)
            assert await it.is_there()
            it.clock.advance(IDLE)
            assert await asking == {}
            assert await it.is_there()
            await it.unused(IDLE)
            await it.ended()

    run(main())


def test_one_that_was_started_by_hand_keeps_running(tmp_path: Path) -> None:
    async def main() -> None:
        by_hand = Plan(symbols=("BTCUSDT",))
        assert Plan.of(by_hand.document()) == by_hand
        async with served(tmp_path, by_hand) as it:
            it.clock.advance(10 * 86_400)
            assert await it.is_there()
            assert (await ask(tmp_path, "status"))["idleSeconds"] == 0

    run(main())


def test_only_one_that_is_started_on_demand_is_told_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = list[Plan]()

    async def start(_: Path, plan: Plan, *, or_find: bool = False) -> Any:
        plans.append(plan)

    monkeypatch.setattr(launch, "start", start)
    run(ensure(tmp_path, read({}).sim))
    run(ensure(tmp_path, read({"sim": {"idle_seconds": 0}}).sim))
    assert [plan.idle_seconds for plan in plans] == [1800, 0]


@asynccontextmanager
async def desk(home: Path, *, clock: Clock | None = None, **table: Any) -> AsyncGenerator[Client]:
    """A desk on the home's own exchange, asked by its owner."""
    settings = Settings(home=home, toolsets=("exchange",), check_output=True, tables={"exchange": table})
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener)
    async with open_desk(settings, clock=clock) as opened:
        app, token = build_app(opened, bind)
        async with serving(app, bind):
            yield Client(opened, app, listener.getsockname()[1], token).authorised()


@asynccontextmanager
async def beating(it: Served) -> AsyncGenerator[None]:
    """Let the exchange's time run, about as fast as here."""

    async def beat() -> None:
        while True:
            it.clock.advance(0.05)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_it_never_ends_under_a_desk_whose_dead_mans_timer_is_armed(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as it:
            async with desk(tmp_path, dead_man_seconds=3600) as client:
                async with beating(it):
                    price = (await client.call("orderbook_l1", {"symbol": "BTCUSDT"})).structured["best_bid"]
                    order = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "LIMIT", "quantity": "0.01"}
                    order["price"] = f"{int(float(price) * 0.98)}"
                    token = (await client.call("preview_order", order)).structured["preview_token"]
                    sent = (await client.call("place_order", {**order, "preview_token": token})).structured
                    assert sent["status"] == "NEW"
                status = (await client.call("provider_status", {})).structured
                assert status["orders"]["dead_man"]["armed"] is True
                await it.pass_(3 * IDLE)
                assert await it.is_there()
            await it.unused(IDLE)
            await it.ended()
        async with served(tmp_path) as it:
            key = await ask(tmp_path, "account", {"name": "default"})
            assert [row["clientOrderId"] for row in await resting(it.rest, key)] == [sent["client_order_id"]]

    run(main())


@pytest.mark.judge
def test_a_desk_whose_exchange_has_ended_starts_it_again(tmp_path: Path) -> None:
    """In real processes, with the shortest time there is."""

    async def main() -> None:
        async with desk(tmp_path, sim={"idle_seconds": 1}) as client:
            assert "balances" in (await client.call("get_account", {})).structured
            first = running(tmp_path)
            assert first is not None
            await eventually(lambda: running(tmp_path) is None)
            status = (await client.call("provider_status", {})).structured
            assert status["venue"] == {"name": "sim", "connected": False}
            assert running(tmp_path) is None
            for _ in range(100):
                reply = await client.call("get_account", {})
                if not reply.json["result"]["isError"]:
                    break
                assert reply.envelope["error"]["code"] == "VENUE_UNAVAILABLE"
                await asyncio.sleep(0.1)
            again = running(tmp_path)
            assert again is not None
            assert again.pid != first.pid
            await stopped(again)

    run(main())


def test_an_exchange_that_is_just_ending_is_waited_for_and_not_taken_for_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, asked = list[str](), vars(Link)["_asked"]

    async def counted(*of: Any) -> Any:
        try:
            return await asked(*of)
        except Exception as fault:
            tries.append(str(fault))
            raise

    monkeypatch.setattr(Link, "_asked", counted)

    async def main() -> None:
        held = asyncio.Event()

        async def slow(*_: Any) -> None:
            await held.wait()

        async with served(tmp_path) as it:
            it.host.run_beside(slow())
            async with desk(tmp_path, sim={"idle_seconds": 0}) as client:
                async with await HostClient.connect(it.host.info) as host:
                    await host.call("stop")
                asking = asyncio.create_task(client.call("get_account", {}))
                await eventually(lambda: bool(tries))
                assert "The host is ending" in tries[0]
                held.set()
                await it.ended()
                assert "balances" in (await asking).structured
                after = running(tmp_path)
                assert after is not None
                assert after.pid != it.host.info.pid
                await stopped(after)

    run(main())


def test_use_is_counted_while_it_lasts() -> None:
    clock = ManualClock()
    use = Use(clock)
    clock.advance(5)
    assert use.idle() == 5
    with use.busy():
        clock.advance(50)
        with use.busy():
            clock.advance(50)
        assert use.idle() == 0
    assert use.idle() == 0
    clock.advance(2)
    assert use.idle() == 2


class Waking(ManualClock):
    """A clock that counts who waits for it."""

    waits = 0

    async def sleep_until(self, deadline: float) -> None:
        """Wait, but not for ever a wait that is over before it begins."""
        self.waits += 1
        assert self.waits < 3, "it waits again and again for what is no time"
        await super().sleep_until(deadline)


@given(st.integers(0, 10**13))
def test_unused_time_ends_whatever_the_fractions_of_its_clock(began_ns: int) -> None:
    clock = Waking()
    clock.advance(ns=began_ns)
    use = Use(clock)
    clock.advance(IDLE)
    run(use.ends(IDLE))
