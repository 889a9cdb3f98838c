"""kill -9 of a desk while it trades: nothing acknowledged is lost, and no id is ever done twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.judges.size import Size
from tests.trading.crash import Tally, kill_desks


def _assert_nothing_lost_or_doubled(tally: Tally, kills: int) -> None:
    print(tally)
    assert tally.problems == []
    assert tally.kills == kills
    assert tally.acknowledged > 2 * kills, "desks lived long enough to prove something"
    assert tally.repeated > tally.acknowledged, "the same ids were sent again"
    assert tally.in_flight_kept > kills // 50, "some kills fell between the commit and its acknowledgement"
    for kind in ("trade", "refusal", "event", "cancel", "clock", "fill", "order", "dividend", "split"):
        assert tally.kinds[kind] > 0, f"no kill was near an entry of kind {kind}"


def test_200_kills_while_trading_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    _assert_nothing_lost_or_doubled(kill_desks(tmp_path, "ours", 200), 200)


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_many_kills_while_trading_lose_nothing_and_double_nothing(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    kills = size.of(judge=500, prove=2_000)
    tally = kill_desks(tmp_path, "ours", kills, seed=2)
    prove.record("trading-kills", len(tally.problems), seeds=[2], details={"kills": kills})
    _assert_nothing_lost_or_doubled(tally, kills)


@pytest.mark.parametrize(
    ("executor", "finding"), [("fills_first", "2 times: doubled"), ("records_first", "0 times: lost")]
)
def test_the_harness_catches_an_executor_in_two_transactions(
    tmp_path: Path, executor: str, finding: str
) -> None:
    tally = kill_desks(tmp_path, executor, 200)
    print(tally)
    assert finding in tally.problems[0]
    assert tally.problems[0].split()[2] == "trade_execute"
