"""Orders over MCP: listed a page at a time, and what one that rests reserves until it is cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import run
from tests.trading.desks import agent
from tests.trading.test_tools import BUY, D, limit


def test_a_resting_order_is_listed_reserves_its_cash_and_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        # Far below the market, and exposure counts at marks.
        loose = {"max_position_weight": 10, "max_gross_leverage": 10, "max_var_95_1d": 1}
        async with agent(tmp_path, {"cash": 6000, "limits": loose}) as found:
            leg = limit(quantity=50, time_in_force="gtc")
            (placed,) = (await found.call("trade_execute", trades=[leg]))["execution"]["trades"]
            assert (placed["status"], placed["quantity"], placed["price"]) == ("open", 0, None)
            assert (placed.get("reject_code"), placed["reason"]) == (None, "NOT_MARKETABLE")
            (order,) = (await found.call("list_trade_orders"))["orders"]
            assert (order["order_id"], order["status"]) == (placed["order_id"], "open")
            assert (order["order_type"], order["time_in_force"]) == ("limit", "gtc")
            assert (order["price"], order["stop_price"]) == (D("100.00"), None)
            assert (order["quantity"], order["filled_quantity"]) == (50, 0)
            assert (order["reason"], order["placed_at"]) == ("NOT_MARKETABLE", "2012-12-03T15:30:00Z")
            error = (await found.refused("trade_execute", trades=[{**BUY, "quantity": 2}]))["error"]
            assert (error["code"], error["details"]["available"]) == ("INSUFFICIENT_FUNDS", 999.0)
            cancelled = await found.call("cancel_trade_order", "c1", order_id=placed["order_id"])
            assert cancelled["order"] == {**order, "status": "cancelled", "reason": "CANCELLED_BY_CALLER"}
            assert cancelled["source_refs"] == ["c1"]
            assert (await found.call("list_trade_orders"))["orders"] == []
            error = (await found.refused("cancel_trade_order", order_id=placed["order_id"]))["error"]
            assert (error["code"], error["details"]["status"]) == ("INVALID_INPUT", "cancelled")
            assert (await found.refused("cancel_trade_order", order_id="nope"))["error"]["code"] == (
                "INVALID_INPUT"
            )

    run(main())


def test_orders_are_paged_newest_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            legs = [limit(price=100 + n) for n in range(5)]
            await found.call("trade_execute", trades=legs)
            prices: list[Any] = []
            page: dict[str, Any] = {}
            while "nextCursor" in page or not prices:
                after = {"cursor": page["nextCursor"]} if page else {}
                page = await found.call("list_trade_orders", status="all", limit=2, **after)
                prices += [order["price"] for order in page["orders"]]
            assert prices == [104, 103, 102, 101, 100]
            assert page["truncated"] is False
            error = (await found.refused("list_trade_orders", cursor="elsewhere"))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["cursor"])

    run(main())
