"""Ways around the limits that are closed: resting orders, other providers' prices, histories too short."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import run
from tests.trading.desks import Agent, agent
from tracedesk.market import Move, ReplayClock, calendar
from tracedesk.primitives.time import ManualClock, parse
from tracedesk.trading import clockwork
from tracedesk.trading.limits import Day, Rests, Tail, judge, reductions, rests
from tracedesk.trading.model import Order, OrderState, Portfolio, Position, Trade
from tracedesk.trading.settings import Limits

FILES: Final = {"quotes": ["files"], "history": ["files"]}
SHARE: Final = 10**9


def leg(symbol: str, action: str, quantity: Any, kind: str = "market", **more: Any) -> dict[str, Any]:
    return {"symbol": symbol, "action": action, "quantity": quantity, "order_type": kind, **more}


def resting(symbol: str, action: str, quantity: Any, price: Any, tif: str = "gtc") -> dict[str, Any]:
    return leg(symbol, action, quantity, "limit", price=price, time_in_force=tif)


async def code(found: Agent, *trades: dict[str, Any], id: str | None = None) -> str | None:
    """What a call is refused with, if it is."""
    reply = await found.raw("trade_execute", id, trades=list(trades))
    return reply.envelope["error"]["code"] if b'"isError":true' in reply.body else None


async def broken(found: Agent, *trades: dict[str, Any]) -> list[str]:
    error = (await found.refused("trade_execute", trades=list(trades)))["error"]
    assert error["code"] == "RISK_LIMIT_EXCEEDED", error
    return [violation["limit"] for violation in error["details"]["violations"]]


async def move(found: Agent, step: Callable[[ReplayClock], Move]) -> None:
    trader = found.trader
    payloads, settings = trader.desk.payloads, trader.settings
    await trader.commit(lambda ledger: clockwork.advance(ledger, payloads, settings, step))


def bars(home: Path, symbol: str, price: int, last: date = date(2012, 12, 31)) -> None:
    """Daily bars of a share that swings a little around a price."""
    folder = home / "market" / "bars"
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["date,open,high,low,close,volume"]
    for index, session in enumerate(calendar.sessions(date(2012, 1, 3), last)):
        at = price + index % 3
        rows.append(f"{session},{at},{at + 2},{at - 2},{at},1000000")
    (folder / f"{symbol}.csv").write_text("\n".join(rows) + "\n")


async def weights(found: Agent) -> dict[str, Decimal]:
    shown = (await found.call("get_portfolio"))["portfolio"]
    return {row["symbol"]: Decimal(row["weight"]) for row in shown["positions"]}


# --- resting orders ------------------------------------------------------------------------------


def test_resting_orders_of_separate_calls_count_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            assert await code(found, resting("IBM", "buy", 50, 189)) is None
            assert await broken(found, resting("IBM", "buy", 50, 189)) == ["max_position_weight"]
            assert await broken(found, leg("IBM", "buy", 50)) == ["max_position_weight"]
            for _ in range(30):
                await move(found, ReplayClock.to_close)
            assert (await weights(found))["IBM"] < Decimal("0.15")

    run(main())


def test_resting_sales_of_what_is_not_held_count_together(tmp_path: Path) -> None:
    async def main() -> None:
        table = {"short_selling": True, "limits": {"max_position_weight": 10, "max_gross_leverage": "0.15"}}
        async with agent(tmp_path, table) as found:
            assert await code(found, resting("IBM", "sell", 49, 195)) is None
            assert await broken(found, resting("MSFT", "sell", 360, 27)) == ["max_gross_leverage"]

    run(main())


def test_a_sale_that_may_never_fill_is_credited_with_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("AAPL", 16)
            sale = resting("AAPL", "sell", 16, 620)
            assert await broken(found, sale, leg("AAPL", "buy", 16)) == ["max_position_weight"]
            dust = [resting("AAPL", "sell", 0.001, 9_999_000) for _ in range(20)]
            assert await broken(found, *dust, *[leg("IBM", "buy", 45)] * 2) == ["max_position_weight"]
            # By itself it only reduces.
            assert await code(found, sale) is None

    run(main())


def test_a_resting_order_is_judged_again_when_it_would_fill(tmp_path: Path) -> None:
    """Both orders fit the account when they are placed; in between it is spent on something else."""

    async def main() -> None:
        limits = {"max_position_weight": 1, "max_gross_leverage": "0.5", "max_order_notional": 100_000}
        async with agent(tmp_path, {"limits": {**limits, "max_var_95_1d": 1}}) as found:
            order = (await found.call("trade_execute", trades=[resting("IBM", "buy", 150, 190)]))["execution"]
            async with _limits(found, max_gross_leverage=Decimal(1)):
                await found.buy("AAPL", 80)
            await move(found, ReplayClock.to_close)
            (ended,) = [
                row
                for row in (await found.call("list_trade_orders", status="all"))["orders"]
                if row["order_id"] == order["trades"][0]["order_id"]
            ]
            assert (ended["status"], ended["reason"]) == ("cancelled", "RISK_LIMIT_EXCEEDED")
            assert set(await weights(found)) == {"AAPL"}

    run(main())


@pytest.mark.parametrize("limit", ["max_position_weight", "max_gross_leverage", "max_var_95_1d"])
def test_each_limit_of_the_portfolio_holds_a_resting_order_back(tmp_path: Path, limit: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.call("trade_execute", trades=[resting("IBM", "buy", 50, 190)])
            async with _limits(found, **{limit: Decimal("0.0001")}):
                await move(found, ReplayClock.to_close)
            (row,) = (await found.call("list_trade_orders", status="all"))["orders"]
            assert (row["status"], row["reason"]) == ("cancelled", "RISK_LIMIT_EXCEEDED")

    run(main())


class _limits:
    """Other limits for a while, as their owner may set them."""

    def __init__(self, found: Agent, **limits: Any) -> None:
        self._trader, self._limits = found.trader, limits
        self._before = self._trader.settings

    async def __aenter__(self) -> None:
        before = self._before
        self._trader.settings = replace(before, limits=replace(before.limits, **self._limits))

    async def __aexit__(self, *_: object) -> None:
        self._trader.settings = self._before


def test_exposure_is_the_larger_of_all_buys_and_all_sells() -> None:
    both = Rests()
    both.buys["X"], both.sells["X"] = 5, 20
    assert [both.exposure("X", held) for held in (0, 10, 30, -10)] == [-20, 15, 35, -30]
    assert [both.free("X", held) for held in (10, 30, -3, -30)] == [0, 10, 0, -25]


def test_what_an_open_order_is_about_to_close_cannot_be_closed_again() -> None:
    held = Portfolio("a", 0, {"X": Position("X", 10, 0)})
    sale = Trade("X", "sell", 6)
    resting = rests([(Order("o", "a", sale), OrderState("o", "open", 1))])
    assert reductions(held, [sale, Trade("X", "sell", 4)]) == [True, True]
    assert reductions(held, [sale], resting) == [False]
    assert reductions(held, [Trade("X", "sell", 5)], resting) == [True]


def test_a_batch_is_not_refused_for_what_rested_before_it() -> None:
    heavy = Rests()
    heavy.buys["X"] = 900 * SHARE
    portfolio = Portfolio("a", 100_000_00)
    found = judge(
        Limits(max_order_notional=Decimal(10**9)),
        "ACTIVE",
        before=portfolio,
        after=Portfolio("a", 99_900_00, {"Y": Position("Y", SHARE, 0)}),
        marks={"X": 100 * 10**6, "Y": 100 * 10**6},
        trades=[Trade("Y", "buy", SHARE)],
        prices=[100 * 10**6],
        tail=Tail(0.0),
        day=Day(100_000_00),
        orders_last_minute=0,
        short_selling=False,
        rested=heavy,
        resting=heavy,
    )
    assert found.violations == []


# --- where prices come from ----------------------------------------------------------------------


@pytest.mark.parametrize("tif", ["day", "gtc"])
def test_orders_rest_only_where_the_embedded_bars_price_them(tmp_path: Path, tif: str) -> None:
    bars(tmp_path, "AAPL", 10)

    async def main() -> None:
        async with agent(tmp_path, {"providers": FILES}) as found:
            error = (await found.refused("trade_execute", trades=[resting("AAPL", "buy", 1, 9, tif)]))[
                "error"
            ]
            assert error["code"] == "INVALID_INPUT"
            assert error["details"]["path"] == ["trades", 0, "time_in_force"]
            assert "priced by files" in error["message"]

    run(main())


def test_embedded_dividends_leave_positions_alone_that_others_price(tmp_path: Path) -> None:
    bars(tmp_path, "IBM", 10)
    providers = {"quotes": ["files", "embedded"], "history": ["files", "embedded"]}

    async def main() -> tuple[Decimal, Decimal]:
        async with agent(tmp_path, {"providers": providers, "clock": "2012-12-03T15:30:00Z"}) as found:
            await found.buy("IBM", 10)
            await found.buy("MSFT", 100)
            before = await _cash(found)
            # IBM goes ex on 2013-02-06, MSFT on 2013-02-19.
            await move(found, lambda clock: clock.set(parse("2013-02-20T15:00:00Z").ns))
            return before, await _cash(found)

    before, after = run(main())
    assert after - before == Decimal("23.00")  # 100 MSFT at 0.23, and nothing for IBM


async def _cash(found: Agent) -> Decimal:
    return await found.trader.ledger(lambda ledger: Decimal(ledger.portfolio("default").cash) / 100)


def test_orders_do_not_rest_by_the_systems_clock(tmp_path: Path) -> None:
    bars(tmp_path, "ZZZ", 100)
    clock = ManualClock(parse("2012-12-03T15:30:00Z").ns)

    async def main() -> None:
        async with agent(tmp_path, {"clock": "system", "providers": FILES}, clock=clock) as found:
            error = (await found.refused("trade_execute", trades=[resting("ZZZ", "buy", 1, 99, "day")]))[
                "error"
            ]
            assert error["code"] == "INVALID_INPUT"
            assert error["details"]["path"] == ["trades", 0, "time_in_force"]
            assert "[trading] clock" in error["message"]
            assert await code(found, leg("ZZZ", "buy", 1)) is None

    run(main())


def test_a_price_of_an_earlier_session_is_not_traded_at(tmp_path: Path) -> None:
    bars(tmp_path, "ZZZ", 100, last=date(2012, 11, 30))

    async def main() -> None:
        async with agent(tmp_path, {"providers": FILES}) as found:
            error = (await found.refused("trade_execute", trades=[leg("ZZZ", "buy", 1)]))["error"]
            assert error["code"] == "DATA_UNAVAILABLE"
            assert error["details"]["as_of"] == "2012-11-30T21:00:00Z"
            assert error["details"]["path"] == ["trades", 0, "symbol"]

    run(main())


def test_a_holding_without_a_price_stops_growth_and_not_the_way_out(tmp_path: Path) -> None:
    bars(tmp_path, "ZZZ", 100)

    async def main() -> None:
        both = {"quotes": ["files", "embedded"], "history": ["files", "embedded"]}
        async with agent(tmp_path, {"providers": both}) as found:
            await found.buy("ZZZ", 1, "z")
            await found.buy("IBM", 2, "i")
        alone = {"quotes": ["embedded"], "history": ["embedded"]}
        async with agent(tmp_path, {"providers": alone}) as found:
            error = (await found.refused("trade_execute", "more", trades=[leg("IBM", "buy", 1)]))["error"]
            assert (error["code"], error["details"]["holding"]) == ("DATA_UNAVAILABLE", "ZZZ")
            sold = await found.call("trade_execute", "less", trades=[leg("IBM", "sell", 1)])
            assert sold["execution"]["portfolio_after"]["unpriced"] == ["ZZZ"]
        async with agent(tmp_path, {"providers": both}) as found:
            # Nothing was kept under the id.
            assert await code(found, leg("IBM", "buy", 1), id="more") is None

    run(main())


# --- histories that are too short ----------------------------------------------------------------


def test_risk_is_judged_without_what_has_no_history_while_that_weighs_little(tmp_path: Path) -> None:
    async def main() -> None:
        limits = {"max_var_95_1d": "0.001", "max_order_notional": 100_000}
        async with agent(tmp_path, {"clock": "2012-06-01T15:00:00Z", "limits": limits}) as found:
            told = (await found.call("trade_execute", trades=[leg("FB", "buy", 10)]))["execution"]
            (skipped,) = told["limits_not_judged"]
            assert skipped["limit"] == "max_var_95_1d"
            assert "without FB" in skipped["reason"]
            assert await broken(found, leg("AAPL", "buy", 20)) == ["max_var_95_1d"]
            assert await broken(found, leg("FB", "buy", 600)) == ["max_position_weight", "max_var_95_1d"]
            assert await code(found, leg("FB", "sell", 10)) is None

    run(main())


@pytest.mark.parametrize("symbol", ["AAPL", "FB", "GOOG", "IBM", "MSFT"])
def test_the_first_trade_of_a_new_desk_works_in_every_symbol(tmp_path: Path, symbol: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            told = await found.buy(symbol, 10)
            assert told["execution"]["trades"][0]["status"] == "filled"
            assert "limits_not_judged" not in told["execution"]

    run(main())


# --- what a call is told -------------------------------------------------------------------------


def test_a_deadline_during_the_commit_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            # What a first call loads is loaded: the short time is spent waiting for the commit.
            await found.call("trade_simulate", trades=[{"symbol": "IBM", "action": "buy", "quantity": 1}])
            tool = found.client.desk.registry.tools["trade_execute"]
            usual, done = tool.deadline, threading.Event()
            object.__setattr__(tool, "deadline", 1.0)
            busy = asyncio.create_task(found.trader.commit(lambda _: done.wait(30)))
            try:
                assert await code(found, leg("IBM", "buy", 1), id="late") == "OUTCOME_UNKNOWN"
            finally:
                object.__setattr__(tool, "deadline", usual)
                done.set()
            await busy
            again = await found.buy("IBM", 1, "late")
            assert again["execution"]["trades"][0]["status"] == "filled"
            assert (await found.call("get_portfolio"))["portfolio"]["positions"][0]["quantity"] == 1

    run(main())


def test_the_currency_cannot_be_traded(tmp_path: Path) -> None:
    bars(tmp_path, "USD", 100)

    async def main() -> None:
        async with agent(tmp_path, {"providers": FILES}) as found:
            assert await code(found, leg("USD", "buy", 1)) == "INVALID_SYMBOL"
            simulated = [{"symbol": "USD", "action": "buy", "quantity": 1}]
            error = (await found.refused("trade_simulate", trades=simulated))["error"]
            assert (error["code"], error["details"]["trade_index"]) == ("INVALID_SYMBOL", 0)

    run(main())


def test_after_the_calendars_end_that_is_said(tmp_path: Path) -> None:
    bars(tmp_path, "ZZZ", 100)
    clock = ManualClock(parse("2028-02-01T15:30:00Z").ns)

    async def main() -> None:
        async with agent(tmp_path, {"clock": "system", "providers": FILES}, clock=clock) as found:
            simulated = [{"symbol": "ZZZ", "action": "buy", "quantity": 1}]
            for tool, trades in (("trade_execute", [leg("ZZZ", "buy", 1)]), ("trade_simulate", simulated)):
                error = (await found.refused(tool, trades=trades))["error"]
                assert error["code"] == "DATA_UNAVAILABLE"
                assert "2027-12-31" in error["message"]

    run(main())


def test_at_the_replays_end_no_next_open_is_promised(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2013-03-01T22:00:00Z"}) as found:
            error = (await found.refused("trade_execute", trades=[leg("IBM", "buy", 1)]))["error"]
            assert (error["code"], error["details"]["next_open"]) == ("MARKET_CLOSED", None)
            assert "replay ends" in error["message"]

    run(main())


def test_an_order_placed_since_the_simulation_unbinds_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            trades = [{"symbol": "AAPL", "action": "buy", "quantity": 5}]
            await found.call("trade_simulate", "sim", trades=trades)
            await found.call("trade_execute", trades=[resting("AAPL", "buy", 1, 500)])
            bound = [leg("AAPL", "buy", 5)]
            error = (await found.refused("trade_execute", trades=bound, simulation_ref="sim"))["error"]
            assert [v["limit"] for v in error["details"]["violations"]] == ["simulation_orders"]

    run(main())
