"""A journal, and the path it is at."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tracedesk.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Generator[Journal]:
    with Journal(path) as opened:
        yield opened
