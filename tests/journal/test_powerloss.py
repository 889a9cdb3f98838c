"""Power lost at any write or sync: what was acknowledged is there, and the journal is sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journal.powerloss import JOURNAL, Losses, lose_power, workload
from tracedesk.journal import Journal

COMMITS = 44


def _lose_power(tmp_path: Path, synchronous: str | None = None, enough: int | None = None) -> Losses:
    def work(journal: Journal, acknowledge: Callable[[], None]) -> None:
        workload(journal, acknowledge, COMMITS)

    return lose_power(JOURNAL, tmp_path, work, pages=25, synchronous=synchronous, enough=enough)


def test_no_power_loss_at_any_write_or_sync_loses_an_acknowledged_commit(tmp_path: Path) -> None:
    result = _lose_power(tmp_path)
    assert result.problems == []
    assert result.lost == 0
    assert result.commits == COMMITS
    assert result.images > 500


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_harness_bites_when_commits_are_not_synced(tmp_path: Path, synchronous: str) -> None:
    assert _lose_power(tmp_path, synchronous, enough=100).lost == 100
