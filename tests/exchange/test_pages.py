"""Long answers: whole rows within the token budget, and a cursor that misses and repeats nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.exchange.desks import Agent, agent
from tests.support import run
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.units import units
from tracedesk.primitives.tokens import estimate
from tracedesk.wire.encode import Limits

BUDGET = Limits().max_tokens


async def rested(client: Agent, symbol: str, count: int, quantity: str = "0.001") -> list[int]:
    """Orders that rest, of the account itself, as if another program had sent them."""
    key = client.market.key
    rest = (await client.provider.site()).client.signed(Credentials.of(key.api_key, key.material))
    sent = [
        await rest.new_order(
            symbol=symbol,
            side="BUY",
            type="LIMIT",
            timeInForce="GTC",
            quantity=quantity,
            price=f"{45000 + number}.00" if symbol == "BTCUSDT" else f"0.0{4000 + number}",
        )
        for number in range(count)
    ]
    return [order["orderId"] for order in sent]


async def pages(client: Agent, tool: str, rows: str, **arguments: Any) -> list[list[Any]]:
    """Every page of an answer, each within the budget of the desk."""
    budget = client.client.desk.settings.max_tokens
    found: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await client.raw(tool, **arguments, **cursor)
        told = reply.structured
        assert estimate(reply.json["result"]["content"][0]["text"]) <= budget + 30  # the cursor itself
        found.append(told[rows])
        if "nextCursor" not in told:
            assert told["truncated"] is False
            return found
        cursor = {"cursor": told["nextCursor"]}
        assert len(found) < 100


def test_many_open_orders_come_in_pages_that_fit_the_default_budget(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            ids = await rested(client, "BTCUSDT", 80)
            assert client.client.desk.settings.max_tokens == BUDGET
            for tool, asked in (
                ("get_open_orders", {}),
                ("get_open_orders", {"symbol": "BTCUSDT"}),
                ("get_all_orders", {"symbol": "BTCUSDT", "limit": 1000}),
            ):
                found = await pages(client.owner(), tool, "orders", **asked)
                assert len(found) > 1
                assert [order["order_id"] for page in found for order in page] == ids

    run(main())


def test_open_orders_go_on_after_the_last_one_though_others_are_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, max_tokens=400) as client:
            ids = await rested(client, "BTCUSDT", 6)
            first = await client.owner().call("get_open_orders")
            shown = [order["order_id"] for order in first["orders"]]
            assert shown == ids[: len(shown)]
            assert first["truncated"] is True
            await client.owner().call("cancel_order", symbol="BTCUSDT", order_id=shown[0])
            second = await client.owner().call("get_open_orders", cursor=first["nextCursor"])
            assert second["orders"][0]["order_id"] == ids[len(shown)]

    run(main())


def test_open_orders_of_several_symbols_are_told_once_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, max_tokens=400) as client:
            bitcoin = await rested(client, "BTCUSDT", 3)
            ether = await rested(client, "ETHBTC", 3, "0.1")
            found = await pages(client.owner(), "get_open_orders", "orders")
            told = [(order["symbol"], order["order_id"]) for page in found for order in page]
            assert told == [*(("BTCUSDT", id) for id in bitcoin), *(("ETHBTC", id) for id in ether)]

    run(main())


def test_balances_go_on_after_the_last_asset(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            whole = (await client.owner().call("get_account"))["balances"]
        async with agent(tmp_path, max_tokens=110) as client:
            found = await pages(client.owner(), "get_account", "balances")
            assert len(found) == len(whole) > 1
            assert [row["asset"] for page in found for row in page] == sorted(row["asset"] for row in whole)
            error = await client.owner().refused("get_account", cursor="")
            assert (error["code"], error["details"]["field"]) == ("INVALID_PARAMETER", "cursor")

    run(main())


def test_own_and_public_trades_go_on_where_a_page_was_cut(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"caps": {"max_orders_per_minute": 0}}, max_tokens=300) as client:
            owner = client.owner()
            for _ in range(7):
                await owner.placed(quantity="0.001", price="50010.00")
                client.market.exchange.venue.flow_market("BTCUSDT", "SELL", units("0.01"))
            site = await client.provider.site()
            raw = await site.client.public.trades("BTCUSDT", 1000)
            found = await pages(client, "get_recent_trades", "rows", symbol="BTCUSDT", limit=1000)
            assert len(found) > 1
            assert [row[0] for page in found for row in page] == [trade["id"] for trade in raw]
            found = await pages(owner, "get_my_trades", "rows", symbol="BTCUSDT", limit=1000)
            own = [row for page in found for row in page]
            assert len(found) > 1
            assert len(own) == 7
            assert [row[0] for row in own] == sorted({row[0] for row in own})
            found = await pages(owner, "get_my_trades", "rows", symbol="BTCUSDT", limit=2, from_id=own[1][0])
            assert [row for page in found for row in page] == own[1:]

    run(main())


def test_candles_go_on_to_the_end_of_their_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, max_tokens=150) as client:
            market = client.market.exchange.venue
            opened = set[str]()
            while len(opened) < 3:
                market.flow_market("BTCUSDT", "BUY", units("0.001"))
                newest = await client.call("get_klines", symbol="BTCUSDT", interval="1s", limit=1)
                opened |= {row[0] for row in newest["rows"]}
            end = max(opened)
            asked = {"symbol": "BTCUSDT", "interval": "1s", "limit": 1000, "end_time": end}
            found = await pages(client, "get_klines", "rows", **asked)
            times = [row[0] for page in found for row in page]
            assert len(found) > 1
            assert times == sorted(set(times))
            assert times[-1] == end
            assert opened <= set(times)

    run(main())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_open_orders", {}),
        ("get_all_orders", {"symbol": "BTCUSDT"}),
        ("get_my_trades", {"symbol": "BTCUSDT"}),
        ("get_recent_trades", {"symbol": "BTCUSDT"}),
        ("get_klines", {"symbol": "BTCUSDT", "interval": "1m"}),
        ("get_exchange_info", {}),
    ],
)
def test_a_cursor_of_ones_own_making_is_refused(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for cursor in ("", "-1", "x", "BTCUSDT:", "BTCUSDT:-1", ":5", "٣", "9" * 5000, "1" * 19):
                error = await client.owner().refused(tool, **arguments, cursor=cursor)
                assert (error["code"], error["details"]["field"]) == ("INVALID_PARAMETER", "cursor"), cursor
                assert "nextCursor" in error["message"]

    run(main())
