"""An exchange that wakes with orders on it: what a halt or a silence owes is done there at once."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.exchange.local.support import eventually
from tests.exchange.test_idle import Served, beating, desk, placed, resting, served
from tests.support import Client, run
from tracedesk.exchange.local.launch import ask
from tracedesk.exchange.orders.desk import OrderDesk
from tracedesk.exchange.provider import Provider
from tracedesk.primitives.time import ManualClock

LONG = 31
"""Seconds, longer than any wait between two tries to cancel everything."""
TRIES = 6
"""After so many the wait is the longest."""


def orders_of(client: Client) -> OrderDesk:
    return cast("Provider", client.desk.states["exchange"]).orders


async def order_at(client: Client) -> dict[str, str]:
    """An order that would rest."""
    price = (await client.call("orderbook_l1", {"symbol": "BTCUSDT"})).structured["best_bid"]
    order = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "LIMIT", "quantity": "0.01"}
    return {**order, "price": f"{int(float(price) * 0.98)}"}


async def rested(it: Served, client: Client) -> None:
    async with beating(it):
        order = await order_at(client)
        token = (await client.call("preview_order", order)).structured["preview_token"]
        sent = (await client.call("place_order", {**order, "preview_token": token})).structured
        assert sent["status"] == "NEW"


async def left_resting(home: Path, **table: Any) -> None:
    """An order of a desk that has closed, at an exchange that sleeps."""
    async with served(home) as it, desk(home, **table) as client:
        await rested(it, client)


@asynccontextmanager
async def woken(home: Path, account: str = "default") -> AsyncGenerator[tuple[Served, dict[str, str]]]:
    """The exchange, started by somebody else, with the order that rested there."""
    async with served(home) as it:
        yield it, await ask(home, "account", {"name": account})


async def tried_in_vain(orders: OrderDesk, clock: ManualClock) -> None:
    """Cancelling has failed so often that the next try is far away."""

    async def often() -> bool:
        clock.advance(LONG)
        await orders.look()
        sweep = orders.status()["sweep"]
        return sweep is not None and sweep["tries"] >= TRIES

    await eventually(often)
    assert orders.status()["sweep"]["confirmed"] is False


async def swept(orders: OrderDesk) -> dict[str, Any]:
    """What cancelling came to; the desk's clock stands still meanwhile."""

    async def confirmed() -> bool:
        await orders.look()
        return orders.status()["sweep"]["confirmed"]

    await eventually(confirmed)
    return orders.status()["sweep"]


@pytest.mark.parametrize("account", ["default", "another"])
def test_a_halt_is_carried_out_as_soon_as_the_exchange_wakes(tmp_path: Path, account: str) -> None:
    async def main() -> None:
        await left_resting(tmp_path, profile=account)
        clock = ManualClock(time.time_ns())
        async with desk(tmp_path, clock=clock) as client:
            (tmp_path / "exchange.halt").touch()
            await tried_in_vain(orders_of(client), clock)
            async with woken(tmp_path, account) as (it, key):
                assert (await swept(orders_of(client)))["cancelled"] == 1
                assert await resting(it.rest, key) == []

    run(main())


def test_a_desk_that_knew_the_exchange_before_it_ended_reaches_the_one_that_came_after(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        clock = ManualClock(time.time_ns())
        async with desk(tmp_path, clock=clock) as client:
            async with served(tmp_path) as it:
                await rested(it, client)
            (tmp_path / "exchange.halt").touch()
            await tried_in_vain(orders_of(client), clock)
            async with woken(tmp_path) as (it, key):
                assert (await swept(orders_of(client)))["cancelled"] == 1
                assert await resting(it.rest, key) == []

    run(main())


def test_after_a_silence_nobody_trades_at_a_woken_exchange_before_it_is_cleared(tmp_path: Path) -> None:
    async def main() -> None:
        await left_resting(tmp_path)
        clock = ManualClock(time.time_ns())
        async with desk(tmp_path, clock=clock, dead_man_seconds=LONG) as client:
            await tried_in_vain(orders_of(client), clock)
            async with woken(tmp_path) as (it, key), beating(it):
                order = await order_at(client)
                refused = (await client.call("preview_order", order)).envelope["error"]
                assert refused["code"] == "VENUE_UNAVAILABLE"
                assert "are being cancelled" in refused["message"]
                assert (await swept(orders_of(client)))["cause"] == "dead_man"
                assert await resting(it.rest, key) == []
                assert "preview_token" in (await client.call("preview_order", order)).structured

    run(main())


def test_a_halt_also_clears_what_the_ledger_does_not_know_when_the_exchange_wakes(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as it:
            await placed(it, await ask(tmp_path, "account", {"name": "default"}))
        async with desk(tmp_path, clock=ManualClock(time.time_ns())) as client:
            (tmp_path / "exchange.halt").touch()
            assert (await swept(orders_of(client)))["cancelled"] == 0
            async with woken(tmp_path) as (it, key):

                async def has_cancelled() -> bool:
                    await orders_of(client).look()
                    return orders_of(client).status()["sweep"]["cancelled"] == 1

                await eventually(has_cancelled)
                await swept(orders_of(client))
                assert await resting(it.rest, key) == []

    run(main())
