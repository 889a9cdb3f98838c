"""An execution trace graph on a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.codegraph.etg.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Generator[Bench]:
    opened = Bench(tmp_path)
    yield opened
    opened.etg.close()
