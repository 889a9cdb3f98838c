"""Two runs side by side."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.backtest.desks import T0, agent, record, story
from tests.support import run
from tracedesk.primitives.time import DAY


def traded(
    home: Path, gains: list[int], *, size: int = 10, rejected: tuple[str, ...] = (), **options: Any
) -> str:
    """A run with one trade a day, whose realized profit changes by each of `gains`."""
    with record(home, **options) as rec:
        total = Decimal(0)
        for day, gain in enumerate(gains):
            now = T0 + day * DAY
            order = rec.order_placed(now, f"{rec.run_id[:8]}-{day}", "A", "Buy", size, price=100)
            trade = rec.trade(now, f"{rec.run_id[:8]}-{day}", "A", "Buy", size, 100, parent=order)
            total += Decimal(gain) / 100
            rec.position(now, "A", size, 100, unrealized=Decimal("0.00"), realized=total, parent=trade)
        for number, reason in enumerate(rejected):
            rec.order_rejected(T0 + len(gains) * DAY, f"r{number}", reason)
    return rec.run_id


def test_profit_win_rate_drawdown_and_sharpe_are_those_of_the_textbook(tmp_path: Path) -> None:
    async def main() -> None:
        gains = [1_000, -400, 0, 250, -1_200, 333]
        one = traded(tmp_path, gains)
        async with agent(tmp_path) as desk:
            found = (await desk.call("compare_runs", runId=one, otherRunId=one))["runs"][0]
            assert found["trades"] == 6
            assert found["pnl"]["total"] == Decimal(sum(gains)) / 100
            assert (found["closings"], found["winRate"]) == (5, Decimal("0.600000"))
            curve, peak, fall = 0, 0, 0
            for gain in gains:
                curve += gain
                peak = max(peak, curve)
                fall = max(fall, peak - curve)
            assert found["maxDrawdown"] == Decimal(fall) / 100
            changes = [gain / 100 for gain in gains]
            sharpe = statistics.mean(changes) / statistics.stdev(changes) * math.sqrt(252)
            assert math.isclose(float(found["sharpe"]), sharpe, rel_tol=1e-9)

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
