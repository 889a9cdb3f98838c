from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegraph.rank.cases import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.close()
