"""kill -9 of a logger at any moment: what was acknowledged is there, with the projections it belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.codegraph.etg.crash import Tally, kill_loggers
from tests.judges.size import Size


def _assert_nothing_lost(tally: Tally, kills: int) -> None:
    print(tally)
    assert tally.problems == []
    assert tally.kills == kills
    assert tally.acknowledged > 3 * kills, "loggers lived long enough to prove something"


def test_40_kills_lose_no_acknowledged_event_and_leave_whole_projections(tmp_path: Path) -> None:
    _assert_nothing_lost(kill_loggers(tmp_path, "ours", 40), 40)


def test_20_kills_while_events_are_carried_into_the_file_lose_none(tmp_path: Path) -> None:
    _assert_nothing_lost(kill_loggers(tmp_path, "ours_carrying", 20), 20)


def test_40_kills_while_the_tables_follow_the_events_leave_them_whole(tmp_path: Path) -> None:
    _assert_nothing_lost(kill_loggers(tmp_path, "ours_at_once", 40), 40)


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_many_kills_lose_no_acknowledged_event_and_leave_whole_projections(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    kills = size.of(judge=500, prove=1_000)
    tally = kill_loggers(tmp_path, "ours", kills, seed=2)
    prove.record("codegraph-kills-log", len(tally.problems), seeds=[2], details={"kills": kills})
    _assert_nothing_lost(tally, kills)
    assert tally.in_flight_kept > 0, "some kills fell between the commit and its acknowledgement"


@pytest.mark.parametrize(
    ("writer", "finding"),
    [("acknowledges_first", "instead of"), ("marks_first", "the projections are not")],
)
def test_the_harness_catches_a_naive_logger(tmp_path: Path, writer: str, finding: str) -> None:
    tally = kill_loggers(tmp_path, writer, 120)
    print(tally)
    assert finding in tally.problems[0]
