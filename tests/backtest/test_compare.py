"""Two runs side by side."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scripts.proof.record import Recorder as Proofs
from tests.backtest.desks import SECOND, T0, Agent, agent, record, story
from tests.backtest.streams import causal
from tests.judges.size import Size
from tests.support import run
from tracedesk.backtest import compare, sample
from tracedesk.home import Home
from tracedesk.primitives.time import DAY


def traded(
    home: Path, gains: list[int], *, size: int = 10, rejected: tuple[str, ...] = (), **options: Any
) -> str:
    """A run that opens and closes a position each day, whose realized profit changes by each of `gains`."""
    with record(home, **options) as rec:
        total = Decimal(0)
        for day, gain in enumerate(gains):
            now = T0 + day * DAY
            order = rec.order_placed(now, f"{rec.run_id[:8]}-{day}", "A", "Buy", size, price=100)
            trade = rec.trade(now, f"{rec.run_id[:8]}-{day}", "A", "Buy", size, 100, parent=order)
            rec.position(now, "A", size, 100, unrealized=Decimal("0.00"), realized=total, parent=trade)
            total += Decimal(gain) / 100
            rec.position(now, "A", 0, 0, unrealized=Decimal("0.00"), realized=total, parent=trade)
        for number, reason in enumerate(rejected):
            rec.order_rejected(T0 + len(gains) * DAY, f"r{number}", reason)
    return rec.run_id


def test_profit_win_rate_and_drawdown_are_those_of_the_textbook(tmp_path: Path) -> None:
    async def main() -> None:
        gains = [1_000, -400, 0, 250, -1_200, 333]
        one = traded(tmp_path, gains)
        async with agent(tmp_path) as desk:
            found = (await desk.call("compare_runs", runId=one, otherRunId=one))["runs"][0]
            assert found["trades"] == 6
            assert found["pnl"]["total"] == Decimal(sum(gains)) / 100
            assert (found["closings"], found["winRate"]) == (6, Decimal("0.500000"))
            curve, peak, fall = 0, 0, 0
            for gain in gains:
                curve += gain
                peak = max(peak, curve)
                fall = max(fall, peak - curve)
            assert found["maxDrawdown"] == Decimal(fall) / 100
            assert found["sharpe"] is None

    run(main())


# --- daily returns --------------------------------------------------------------------------------------


def valued(home: Path, equity: dict[int, int], bars: range | tuple[int, ...] = ()) -> str:
    """A run with bars on some days, and the account's equity where it is reported."""
    with record(home) as rec:
        for day in sorted({*bars, *equity}):
            if day in bars:
                rec.market_data(T0 + day * DAY, "A", {"Close": 1})
            if day in equity:
                rec.state_change(T0 + day * DAY, "PnL", after={"Equity": equity[day] - 5})
                rec.state_change(T0 + day * DAY + SECOND, "PnL", after={"Equity": equity[day]})
    return rec.run_id


def is_weekday(day: int) -> bool:
    """T0 is a Thursday."""
    return (day + 3) % 7 < 5


def sharpe(equity: list[int], periods: int = 252) -> float:
    returns = [after / before - 1 for before, after in pairwise(equity)]
    return statistics.mean(returns) / statistics.stdev(returns) * math.sqrt(periods)


def test_the_sharpe_ratio_is_that_of_daily_returns_on_the_equity(tmp_path: Path) -> None:
    async def main() -> None:
        dice = random.Random(1)
        equity = {0: 10_000} | {day: dice.randrange(9_000, 12_000) for day in range(1, 60) if is_weekday(day)}
        one = valued(tmp_path, equity)
        async with agent(tmp_path) as desk:
            found = await figures(desk, one)
            assert math.isclose(found["sharpe"], sharpe(list(equity.values())), rel_tol=1e-12)
            assert found["dailyReturns"]["count"] == len(equity) - 1
            assert found["dailyReturns"]["periodsPerYear"] == 252

    run(main())


def test_days_with_bars_on_which_the_equity_is_not_reported_count_with_the_last_equity(
    tmp_path: Path,
) -> None:
    """Engines report the equity when it changes: before the first trade and while flat they report none."""

    async def main() -> None:
        days = list(filter(is_weekday, range(70)))
        values = {day: 10_000 + 17 * day * (day % 3 - 1) for day in days[10:20] + days[30:40]}
        one = valued(tmp_path, values, tuple(days))
        now, closes = values[days[10]] - 5, list[int]()
        for day in days:
            now = values.get(day, now)
            closes.append(now)
        async with agent(tmp_path) as desk:
            found = await figures(desk, one)
            assert found["dailyReturns"]["count"] == len(days) - 1
            assert math.isclose(found["sharpe"], sharpe(closes), rel_tol=1e-12)

    run(main())


def test_days_before_the_first_equity_are_left_out_once_something_was_executed(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for day in range(5):
                rec.market_data(T0 + day * DAY, "A", {"Close": 1})
            rec.trade(T0, "o", "A", "Buy", 1, 1)
            rec.state_change(T0 + 3 * DAY, "PnL", after={"Equity": 100})
        async with agent(tmp_path) as desk:
            assert (await figures(desk, rec.run_id))["dailyReturns"]["count"] == 1

    run(main())


def test_a_market_without_weekends_has_365_returns_a_year(tmp_path: Path) -> None:
    async def main() -> None:
        equity = {day: 10_000 + 13 * day * (day % 3 - 1) for day in range(60)}
        one = valued(tmp_path, equity)
        async with agent(tmp_path) as desk:
            found = await figures(desk, one)
            assert found["dailyReturns"]["periodsPerYear"] == 365
            assert math.isclose(found["sharpe"], sharpe(list(equity.values()), 365), rel_tol=1e-12)

    run(main())


@pytest.mark.parametrize(("days", "is_annualised"), [(8, False), (30, False), (31, True)])
def test_nothing_is_annualised_below_thirty_daily_returns(
    tmp_path: Path, days: int, is_annualised: bool
) -> None:
    async def main() -> None:
        one = valued(tmp_path, {day: 10_000 + day * (day % 3) for day in range(days)})
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=one)
            assert found["runs"][0]["dailyReturns"]["count"] == days - 1
            assert (found["runs"][0]["sharpe"] is not None) is is_annualised
            assert (found["difference"]["sharpe"] is not None) is is_annualised
            said = [text for text in found["metadata"].get("warnings", ()) if "below 30" in text]
            assert bool(said) is not is_annualised

    run(main())


@pytest.mark.parametrize(("step", "said"), [(2, "2 days apart"), (7, "7 days apart"), (30, "30 days apart")])
def test_returns_that_are_not_daily_are_not_annualised_as_if_they_were(
    tmp_path: Path, step: int, said: str
) -> None:
    async def main() -> None:
        one = valued(tmp_path, {day * step: 10_000 + day * (day % 3) for day in range(60)})
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=one)
            assert (found["runs"][0]["sharpe"], found["difference"]["sharpe"]) == (None, None)
            assert any(said in warning for warning in found["metadata"]["warnings"])

    run(main())


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([100, 0, 50, 60], "not always positive"),
        ([100, -5, 50, 60], "not always positive"),
        ([100] * 40, "all daily returns are equal"),
    ],
)
def test_an_equity_without_defined_returns_has_no_sharpe_ratio(
    tmp_path: Path, values: list[int], why: str
) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for day, value in enumerate(values):
                rec.state_change(T0 + day * DAY, "PnL", after={"Equity": value})
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=rec.run_id, otherRunId=rec.run_id)
            assert found["runs"][0]["sharpe"] is None
            assert any(why in text for text in found["metadata"]["warnings"])

    run(main())


def test_the_profit_of_one_security_is_no_equity_of_the_account(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for day in range(3):
                rec.state_change(T0 + day * DAY, "PnL", after={"Equity": 100 + day})
                rec.state_change(T0 + day * DAY, "PnL", after={"Equity": 7}, SecuritySymbol="A")
        async with agent(tmp_path) as desk:
            assert (await figures(desk, rec.run_id))["dailyReturns"]["mean"] > 0

    run(main())


def test_the_difference_is_the_second_minus_the_first_with_rejections_by_reason(tmp_path: Path) -> None:
    async def main() -> None:
        one = traded(tmp_path, [100, 100], rejected=("margin", "margin"))
        other = traded(tmp_path, [100, 100, -50], rejected=("margin", "halted"), config={"x": 1})
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=other)
            change = found["difference"]
            assert (change["trades"], change["totalPnL"], change["rejections"]) == (1, Decimal("-0.5"), 0)
            assert change["rejectionsByReason"] == {"margin": -1, "halted": 1}
            assert change["maxDrawdown"] == Decimal("0.5")
            assert found["metadata"]["sameConfig"] is False
            assert "do not cover the same time" in found["metadata"]["warnings"][0]

    run(main())


def test_runs_that_decide_alike_do_not_part_whatever_their_order_ids_are(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = traded(tmp_path, [1, 2, 3]), traded(tmp_path, [1, 2, 3])
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=other)
            assert found["firstDivergence"] is None
            assert found["metadata"]["sameConfig"] is True

    run(main())


def test_the_first_divergence_is_the_earliest_decision_that_differs(tmp_path: Path) -> None:
    async def main() -> None:
        def decided(size: int, extra: bool) -> str:
            with record(tmp_path) as rec:
                for number in range(2_500):
                    rec.order_placed(T0 + number, number, "A", "Buy", 1)
                    quantity = size if number == 2_400 else Decimal("1.0" if extra else "1.00")
                    rec.trade(T0 + number, number, "A", "Buy", quantity, 1)
                if extra:
                    rec.order_cancelled(T0 + 2_450, 2_450)
            return rec.run_id

        one, other = decided(1, False), decided(2, True)
        async with agent(tmp_path) as desk:
            found = (await desk.call("compare_runs", runId=one, otherRunId=other))["firstDivergence"]
            assert found["eventType"] == "TradeExecution"
            assert found["time"] == "2025-01-02T14:30:00.000002400Z"
            assert "bought 1 A" in found["run"]["text"]
            assert "bought 2 A" in found["other"]["text"]
            source = await desk.call("get_source", ref=found["other"]["ref"])
            assert source["body"]["properties"]["Quantity"] == 2

    run(main())


def test_runs_part_at_their_first_difference_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the ends of the blocks that hashes are taken of, and where one run has no more."""
    monkeypatch.setattr(compare, "_BATCH", 5)

    async def main() -> None:
        def decided(count: int, other: int | None) -> str:
            with record(tmp_path) as rec:
                for number in range(count):
                    rec.order_placed(T0 + number, number, "A", "Buy", 2 if number == other else 1)
            return rec.run_id

        one = decided(17, None)
        async with agent(tmp_path) as desk:
            for place in range(17):
                for is_shorter in (False, True):
                    other = decided(place, None) if is_shorter else decided(17, place)
                    there = None if is_shorter else place + 1
                    for runs, seqs in (
                        ((one, other), [place + 1, there]),
                        ((other, one), [there, place + 1]),
                    ):
                        found = await desk.call("compare_runs", runId=runs[0], otherRunId=runs[1])
                        rows = [found["firstDivergence"][name] for name in ("run", "other")]
                        assert [row and row["seq"] for row in rows] == seqs, (place, is_shorter)
            same = await desk.call("compare_runs", runId=one, otherRunId=decided(17, None))
            assert same["firstDivergence"] is None

    run(main())


def test_runs_part_where_minus_one_became_minus_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python hashes both to the same number."""
    monkeypatch.setattr(compare, "_BATCH", 5)

    async def main() -> None:
        def decided(last: Any) -> str:
            with record(tmp_path) as rec:
                for number in range(7):
                    rec.order_placed(T0 + number, number, "A", "Buy", 1, price=last if number == 6 else -1)
            return rec.run_id

        one = decided(-1)
        async with agent(tmp_path) as desk:
            for last in (-2, Decimal(-2)):
                found = await desk.call("compare_runs", runId=one, otherRunId=decided(last))
                assert found["firstDivergence"]["run"]["seq"] == 7

    run(main())


@pytest.mark.judge
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_four_comparisons_of_large_runs_at_once_are_answered_in_ten_seconds(
    tmp_path: Path, size: Size, prove: Proofs
) -> None:
    """Nothing has been computed before, and the runs decide alike, so that every decision is compared."""
    events = size.of(judge=100_000, prove=1_000_000)
    runs: list[str] = []
    for _ in range(2):
        with record(tmp_path) as rec:
            for sample_ in causal(events, 1):
                rec.emit(sample_.type, sample_.time_ns, sample_.properties, parent=sample_.parent)
        runs.append(rec.run_id)

    async def main() -> None:
        async with agent(tmp_path) as desk:
            began = time.monotonic()
            pairs = [(a, b) for a in runs for b in runs]
            calls = (desk.call("compare_runs", runId=a, otherRunId=b) for a, b in pairs)
            for found in await asyncio.gather(*calls):
                assert found["firstDivergence"] is None
            spent = time.monotonic() - began
            prove.record("backtest-compare", round(spent, 2), seeds=[1])
            size.at_most(10, spent, "four comparisons, s")
            began = time.monotonic()
            await desk.call("compare_runs", runId=runs[0], otherRunId=runs[1])
            again = time.monotonic() - began
            prove.record("backtest-compare-again", round(1_000 * again, 1), seeds=[1])
            size.at_most(1_000, 1_000 * again, "a comparison again, ms")

    asyncio.run(main())


def test_a_run_that_stops_earlier_parts_where_the_other_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = traded(tmp_path, [1, 2]), traded(tmp_path, [1, 2, 3])
        async with agent(tmp_path) as desk:
            found = (await desk.call("compare_runs", runId=one, otherRunId=other))["firstDivergence"]
            assert found["run"] is None
            assert found["eventType"] == "OrderPlaced"
            back = (await desk.call("compare_runs", runId=other, otherRunId=one))["firstDivergence"]
            assert back["other"] is None

    run(main())


def test_the_profit_curve_follows_state_changes_of_the_equity_where_a_run_tells_it(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for day, equity in enumerate((10_000, 10_500, 9_900, 10_200)):
                rec.state_change(T0 + day * DAY, "PnL", after={"Equity": equity})
        async with agent(tmp_path) as desk:
            found = (await desk.call("compare_runs", runId=rec.run_id, otherRunId=story(tmp_path)))["runs"][0]
            assert found["maxDrawdown"] == 600

    run(main())


# --- won and lost -------------------------------------------------------------------------------------


async def figures(desk: Agent, id: str) -> dict[str, Any]:
    return (await desk.call("compare_runs", runId=id, otherRunId=id))["runs"][0]


def test_a_trade_wins_when_it_gains_after_the_costs_of_both_its_sides(tmp_path: Path) -> None:
    """Three round trips, each a gain of ten before fees: of one, of four and of six on either side."""

    async def main() -> None:
        with record(tmp_path) as rec:
            realized = Decimal(0)
            for number, fee in enumerate((1, 4, 6)):
                now = T0 + number * DAY
                realized -= fee
                rec.position(now, "A", 5, 100, unrealized=0, realized=realized)
                realized += 10 - fee
                rec.position(now + 1, "A", 0, 0, unrealized=0, realized=realized)
        async with agent(tmp_path) as desk:
            found = await figures(desk, rec.run_id)
            assert (found["closings"], found["winRate"]) == (3, Decimal("0.666667"))

    run(main())


@pytest.mark.parametrize(
    ("quantities", "closings"),
    [((5, 3, 0), 1), ((5, 8), 0), ((5, -5), 1), ((5, -5, 0), 2), ((-5, -2), 0), ((-5, -9), 0), ((5, 5), 0)],
)
def test_a_trade_is_closed_when_its_position_is_flat_or_turns(
    tmp_path: Path, quantities: tuple[int, ...], closings: int
) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number, quantity in enumerate(quantities):
                rec.position(T0 + number, "A", quantity, 1, realized=number)
        async with agent(tmp_path) as desk:
            assert (await figures(desk, rec.run_id))["closings"] == closings

    run(main())


def test_what_executions_say_that_they_realised_is_believed_over_the_positions(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number, gain in enumerate((None, 7, None, -2, 0)):
                more = {} if gain is None else {"RealizedPnL": gain}
                rec.trade(T0 + number, "o", "A", "Buy", 1, 1, **more)
                rec.position(T0 + number, "A", number % 2, 1, realized=number)
        async with agent(tmp_path) as desk:
            found = await figures(desk, rec.run_id)
            assert (found["closings"], found["winRate"]) == (2, Decimal("0.5"))

    run(main())


# Side, units, fee and profit before costs of each execution; then how many trades were closed and won.
EXECUTIONS = [
    ([("Buy", 5, 6, None), ("Sell", 5, 6, 10)], 1, 0),
    ([("Buy", 5, 4, None), ("Sell", 5, 5, 10)], 1, 1),
    ([("Buy", 5, 4, None), ("Sell", 2, 1, 4), ("Sell", 3, 1, 3)], 1, 1),
    ([("Buy", 5, 4, None), ("Sell", 2, 1, 4), ("Sell", 3, 1, 2)], 1, 0),
    ([("Buy", 5, 0, None), ("Sell", 5, 0, 0)], 1, 0),
    ([("Buy", 5, 1, None), ("Sell", 20, 8, 4), ("Buy", 15, 0, 6)], 2, 1),
    ([("Buy", 5, 1, None), ("Sell", 20, 8, 2), ("Buy", 15, 0, 7)], 2, 1),
    ([("Buy", 5, 0, 0), ("Buy", 5, 0, 0), ("Sell", 5, 0, 3)], 0, 0),
    ([("Short", 5, 1, None), ("Long", 5, 1, 3)], 1, 1),
]


@pytest.mark.parametrize(("executions", "closings", "wins"), EXECUTIONS)
def test_executions_are_round_trips_less_the_costs_of_each_of_them(
    tmp_path: Path, executions: list[tuple[str, int, int, int | None]], closings: int, wins: int
) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number, (side, units, fee, profit) in enumerate(executions):
                more = {} if profit is None else {"RealizedPnL": profit}
                rec.trade(T0 + number, number, "A", side, units, 1, commission=fee, **more)
        async with agent(tmp_path) as desk:
            found = await figures(desk, rec.run_id)
            won = None if found["winRate"] is None else found["winRate"] * closings
            assert (found["closings"], won) == (closings, wins if closings else None)

    run(main())


def test_trades_that_the_engine_itself_reports_are_believed_over_everything_else(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number, profit in enumerate((None, -1, 2, 0)):
                more = {} if profit is None else {"TradePnL": profit}
                rec.trade(T0 + number, number, "A", "Sell", 1, 1, RealizedPnL=50)
                rec.position(T0 + number, "A", 5 - number, 1, realized=100 + number, **more)
        async with agent(tmp_path) as desk:
            found = await figures(desk, rec.run_id)
            assert (found["closings"], found["winRate"]) == (3, Decimal("0.333333"))

    run(main())


def test_the_sample_ends_holding_all_it_bought_so_no_trade_of_it_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        id = sample.bring_in(Home.open(tmp_path)).id
        async with agent(tmp_path) as desk:
            found = await figures(desk, id)
            assert (found["closings"], found["winRate"]) == (0, None)
            assert found["dailyReturns"]["count"] == 440

    run(main())


# --- rejections -----------------------------------------------------------------------------------------


def test_more_than_ten_reasons_are_subtracted_in_full_before_the_largest_changes_are_shown(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        common = tuple(f"reason {chr(97 + n)}" for n in range(12) for _ in range(20 - n))
        one = traded(tmp_path, [1], rejected=common)
        other = traded(tmp_path, [1], rejected=common + ("reason l",) * 21)
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=other)
            assert found["difference"]["rejectionsByReason"] == {"reason l": 21}
            assert len(found["runs"][0]["rejectionsByReason"]) == 10
            assert found["runs"][1]["rejectionsByReason"][0] == {"reason": "reason l", "count": 30}
            assert found["metadata"]["truncated"] is True
            assert found["metadata"]["omittedReasons"] == {"run": 2, "other": 2}

    run(main())


def test_reasons_that_begin_alike_are_counted_apart(tmp_path: Path) -> None:
    async def main() -> None:
        long = "x" * 125
        one = traded(tmp_path, [1], rejected=(long + "a", long + "b", long + "b"))
        other = traded(tmp_path, [1])
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=other)
            counts = [(row["reason"][:9], row["count"]) for row in found["runs"][0]["rejectionsByReason"]]
            assert counts == [("x" * 9, 2), ("x" * 9, 1)]
            assert sorted(found["difference"]["rejectionsByReason"].values()) == [-2, -1]

    run(main())


def test_of_hundreds_of_codes_the_further_ones_are_counted_as_one(tmp_path: Path) -> None:
    async def main() -> None:
        dice = random.Random(1)
        letters = "abcdefghijklmnopqrstuvwxyz"
        one = traded(tmp_path, [1], rejected=tuple("".join(dice.choices(letters, k=9)) for _ in range(400)))
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=one)
            first = found["runs"][0]["rejectionsByReason"][0]
            assert (first["reason"], first["count"]) == ("(further codes)", 150)
            assert found["runs"][0]["rejections"] == 400

    run(main())


# --- what parts two runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["StopPrice", "LimitPrice", "OrderType"])
def test_orders_that_differ_in_their_terms_alone_part_two_runs(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        def placed(value: str) -> str:
            with record(tmp_path) as rec:
                rec.emit("OrderPlaced", T0, {"OrderId": "o", "Quantity": 1, name: value})
            return rec.run_id

        one, other = placed("90"), placed("95")
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=other)
            assert found["firstDivergence"]["eventType"] == "OrderPlaced"
            assert found["firstDivergence"]["differs"] == [name]

    run(main())


@pytest.mark.parametrize("name", ["Reason", "CancelReason"])
def test_orders_that_are_cancelled_for_another_reason_part_two_runs(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        def cancelled(reason: str) -> str:
            with record(tmp_path) as rec:
                rec.emit("OrderCancelled", T0, {"OrderId": "o", name: reason})
            return rec.run_id

        one, other = cancelled("Expired"), cancelled("Replaced")
        async with agent(tmp_path) as desk:
            found = await desk.call("compare_runs", runId=one, otherRunId=other)
            parting = found["firstDivergence"]
            assert parting["differs"] == [name]
            assert "Expired" in parting["run"]["text"]
            assert "Replaced" in parting["other"]["text"]

    run(main())


def _hedged(home: Path, *, named: bool) -> str:
    """Two positions of one symbol at once: one gains 30 and closes, then the other loses 10 and closes."""
    with record(home) as rec:
        for step, (id, size, realized, unrealized) in enumerate(
            [("a", 5, 0, 0), ("b", -5, 0, 0), ("a", 5, 0, 20), ("a", 0, 30, 0), ("b", 0, -10, 0)]
        ):
            gains = {"realized": realized, "unrealized": unrealized}
            rec.position(T0 + step * DAY, "A", size, 1, position_id=id if named else None, **gains)
    return rec.run_id


def test_positions_that_are_held_side_by_side_are_counted_each_on_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = _hedged(tmp_path, named=True), _hedged(tmp_path, named=False)
        async with agent(tmp_path) as desk:
            left, right = (await desk.call("compare_runs", runId=one, otherRunId=other))["runs"]
            assert (left["pnl"]["total"], left["closings"], left["winRate"]) == (20, 2, Decimal("0.500000"))
            assert left["maxDrawdown"] == 10
            assert (right["pnl"]["total"], right["maxDrawdown"]) == (-10, 40)

    run(main())
