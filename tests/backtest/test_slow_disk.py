"""The benchmark's slow disk: slow for both writers, and only for what was opened on it."""

from __future__ import annotations

from pathlib import Path

import apsw

from benchmarks import backtest_disk
from benchmarks.backtest import slow_claims


def test_on_a_slow_disk_each_commit_waits_for_its_sync_and_the_usual_disk_is_back_afterwards(
    tmp_path: Path,
) -> None:
    usual = apsw.vfs_names()
    found = backtest_disk.compare(tmp_path / "slow", 0.02, 2, 3_000, 5)
    assert found.sync >= 0.02
    assert sum(found.theirs.events) == 10
    assert all(seconds >= 5 * 0.02 for seconds in found.theirs.seconds)
    assert all(seconds >= 0.02 for seconds in found.ours.seconds)
    assert apsw.vfs_names() == usual
    (claim,) = slow_claims(found)
    assert claim["bar"] is None
    assert claim["against"].endswith("at least 20 ms")
    # A batch shares a sync that every event of the other pays for.
    assert claim["ratio"] > 10
