"""Power lost at any write or sync: what was acknowledged is there, and the journal is sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journal.powerloss import History, Losses, examine, recording, workload
from tracedesk.journal import Journal

COMMITS = 44


def _lose_power(tmp_path: Path, synchronous: str | None = None, enough: int | None = None) -> Losses:
    images = tmp_path / "images"
    images.mkdir()
    with recording("recorded") as disk, Journal(tmp_path / "journal.db", vfs="recorded") as journal:
        history = History(journal, disk)
        # Small checkpoints, so that pages move from the WAL to the file many times on the way.
        journal.connection.execute("PRAGMA wal_autocheckpoint = 25")
        if synchronous:
            journal.connection.execute(f"PRAGMA synchronous = {synchronous}")
        workload(history, journal, COMMITS)
    result = examine(history, disk.steps, images, enough=enough)
    print(f"{len(disk.steps)} steps, {result.moments} moments, {result.images} images: {result.lost} lost")
    return result


def test_no_power_loss_at_any_write_or_sync_loses_an_acknowledged_commit(tmp_path: Path) -> None:
    result = _lose_power(tmp_path)
    assert result.problems == []
    assert result.lost == 0
    assert result.commits == COMMITS
    assert result.images > 500


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_harness_bites_when_commits_are_not_synced(tmp_path: Path, synchronous: str) -> None:
    assert _lose_power(tmp_path, synchronous, enough=100).lost == 100
