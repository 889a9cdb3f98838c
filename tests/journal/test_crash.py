"""kill -9 of a writer at any moment: what was acknowledged is there, and the journal is sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.journal.crash import Tally, kill_writers
from tests.judges.size import Size


def _assert_nothing_lost(tally: Tally, kills: int) -> None:
    print(tally)
    assert tally.problems == []
    assert tally.kills == kills
    assert tally.acknowledged_batches > 5 * kills, "workers lived long enough to prove something"
    assert tally.acknowledged_events > 20 * kills


def test_200_kills_lose_no_acknowledged_event(tmp_path: Path) -> None:
    tally = kill_writers(tmp_path, "ours", 200)
    _assert_nothing_lost(tally, 200)
    assert tally.in_flight_kept > 0, "some kills fell between the commit and its acknowledgement"


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_many_kills_lose_no_acknowledged_event(tmp_path: Path, size: Size, prove: Recorder) -> None:
    kills = size.of(judge=600, prove=2_000)
    tally = kill_writers(tmp_path, "ours", kills, seed=2)
    prove.record("journal-kills", len(tally.problems), seeds=[2], details={"kills": kills})
    _assert_nothing_lost(tally, kills)


@pytest.mark.parametrize(
    ("writer", "finding"), [("acknowledges_first", "instead of"), ("chains_later", "an event is in no batch")]
)
def test_the_harness_catches_a_naive_writer(tmp_path: Path, writer: str, finding: str) -> None:
    tally = kill_writers(tmp_path, writer, 200)
    print(tally)
    assert finding in tally.problems[0]
