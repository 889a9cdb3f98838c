"""kill -9 of an index or update at any moment: the graph is the one before or the one after, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.codegraph.graph.kills import Tally, kill_indexes
from tests.judges.size import Size


def _assert_whole(tally: Tally) -> None:
    print(tally)
    assert tally.problems == []
    assert tally.before > 0, "some kills fell before the change was made"
    assert tally.after > 0, "some indexes got as far as their change"


def test_40_killed_indexes_leave_a_whole_graph(tmp_path: Path) -> None:
    _assert_whole(kill_indexes(tmp_path, ("in place", "anew", "update", "large update"), 40))


@pytest.mark.judge
@pytest.mark.timeout(1_800)
def test_many_killed_indexes_leave_a_whole_graph(tmp_path: Path, size: Size, prove: Recorder) -> None:
    kills = size.of(judge=500, prove=1_000)
    tally = kill_indexes(tmp_path, ("in place", "anew", "update", "large update"), kills, seed=5)
    prove.record("codegraph-kills-index", len(tally.problems), seeds=[5], details={"kills": kills})
    _assert_whole(tally)


def test_the_harness_catches_a_naive_writer(tmp_path: Path) -> None:
    tally = kill_indexes(tmp_path, ("naive",), 200)
    print(tally)
    assert tally.problems
