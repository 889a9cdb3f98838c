"""Caps: each refuses by name and value, and what lies on the limit passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.exchange.orders.desks import LIMIT, MARKET, trader
from tests.support import run
from tracedesk.errors import ToolError

STOP = {**LIMIT, "order_type": "STOP_LOSS_LIMIT", "side": "SELL", "stop_price": "45000", "price": "49900"}


async def _refused(it: Any, order: Any = LIMIT, **changes: Any) -> tuple[str, Any, Any]:
    refused: ToolError = await it.refusal(order, **changes)
    assert refused.code == "LIMIT_EXCEEDED"
    details = refused.details or {}
    assert str(details["cap"]) in refused.message
    return details["cap"], str(details["limit"]), str(details["value"])


def test_an_order_may_be_worth_so_much(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_order_notional": 499}) as it:
            assert (await it.place())["status"] == "NEW"
            assert await _refused(it, price="49900.01") == ("max_order_notional", "499", "499.0001")
            assert (await _refused(it, MARKET))[0] == "max_order_notional"

    run(main())


def test_a_seller_is_held_to_what_the_book_gives_and_not_to_a_lower_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_order_notional": 499, "collar_bps": 9000}) as it:
            cheap = {**LIMIT, "side": "SELL", "price": "10500", "time_in_force": "IOC"}
            assert await _refused(it, cheap) == ("max_order_notional", "499", "499.99")
            assert (await it.place(cheap, quantity="0.00998"))["status"] == "FILLED"

    run(main())


def test_a_day_is_held_to_what_orders_were_judged_by_or_to_what_was_traded_where_that_is_more(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_day_notional": 1000, "collar_bps": 0}) as it:
            cheap = {**LIMIT, "side": "SELL", "price": "10500"}
            assert (await it.preview(cheap))["notional"] == "499.99"
            it.market.bids = [("20000", "9")]
            assert (await it.place(cheap))["quote_quantity"] == "500"
            assert await _refused(it, price="50001") == ("max_day_notional", "1000", "1000.01")

    run(main())


def test_what_a_cap_refuses_by_is_decimal_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_order_notional": "498.5", "collar_bps": 9000}) as it:
            details = (await it.refusal()).details or {}
            assert (details["limit"], details["value"]) == ("498.5", "499")

    run(main())


def test_the_orders_of_a_day_may_be_worth_so_much_and_refused_ones_do_not_count(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_day_notional": 1000}) as it:
            await it.place()
            it.venue.lies.append("refuse")
            await it.refusal()
            await it.place()
            assert await _refused(it) == ("max_day_notional", "1000", "1497")
            it.clock.advance(15 * 3600)
            assert (await it.place())["status"] == "NEW"

    run(main())


def test_so_many_orders_go_out_in_a_minute_refused_ones_included(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_orders_per_minute": 2}) as it:
            await it.place()
            it.venue.lies.append("refuse")
            await it.refusal()
            assert await _refused(it) == ("max_orders_per_minute", "2", "3")
            it.clock.advance(60)
            assert (await it.place())["status"] == "NEW"

    run(main())


def test_the_caps_over_time_hold_for_previews_that_were_made_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_orders_per_minute": 1}) as it:
            tokens = [(await it.preview())["preview_token"] for _ in range(2)]
            await it.place(token=tokens[0])
            assert (await _refused(it, token=tokens[1]))[0] == "max_orders_per_minute"
            assert sum(it.venue.posted.values()) == 1

    run(main())


def test_so_many_orders_may_rest(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_open_orders": 1}) as it:
            first = await it.place()
            assert await _refused(it) == ("max_open_orders", "1", "2")
            it.venue.fill(first["client_order_id"])
            assert (await it.place())["status"] == "NEW"

    run(main())


def test_a_price_lies_within_the_collar_on_either_side(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"collar_bps": 20}) as it:
            assert (await it.place())["status"] == "NEW"
            assert await _refused(it, price="49899.99") == ("collar_bps", "20", "20.002")
            assert (await _refused(it, price="50100.01", side="SELL"))[0] == "collar_bps"
            assert (await _refused(it, STOP))[0] == "collar_bps"
            assert (await it.place(MARKET))["status"] == "FILLED"

    run(main())


def test_a_market_order_may_slip_so_far_and_never_through_the_whole_book(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_slippage_bps": 1, "max_order_notional": 0}) as it:
            assert (await it.place(MARKET, quantity="1"))["status"] == "FILLED"
            cap, limit, value = await _refused(it, MARKET, quantity="2")
            assert (cap, limit, value) == ("max_slippage_bps", "1", "1.1")
            assert (await _refused(it, MARKET, quantity="7", side="SELL"))[0] == "max_slippage_bps"

    run(main())


def test_a_market_order_for_more_than_the_book_holds_passes_no_cap_on_slippage(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(
            tmp_path, caps={"max_slippage_bps": 5000, "max_order_notional": 0, "max_day_notional": 0}
        ) as it:
            assert (await it.place(MARKET, quantity="6"))["status"] == "FILLED"
            found = await _refused(it, MARKET, quantity="6.00001")
            assert found == ("max_slippage_bps", "5000", "more than the whole book")

    run(main())


def test_only_listed_symbols_are_traded(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, allowed_symbols=["ETHUSDT"]) as it:
            assert (await _refused(it))[0] == "allowed_symbols"
            assert not it.venue.posted

    run(main())


@pytest.mark.parametrize("order", [LIMIT, MARKET])
def test_a_cap_of_zero_is_none(tmp_path: Path, order: dict[str, str]) -> None:
    async def main() -> None:
        off = {
            "max_order_notional": 0,
            "max_day_notional": 0,
            "max_orders_per_minute": 0,
            "max_open_orders": 0,
            "collar_bps": 0,
            "max_slippage_bps": 0,
        }
        async with trader(tmp_path, caps=off) as it:
            assert (await it.place(order, quantity="3"))["client_order_id"]

    run(main())
