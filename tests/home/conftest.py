"""A real home for each test, and journals to fill it with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.home.filling import Filled
from tracedesk.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


@pytest.fixture
def filled(home: Home) -> Filled:
    return Filled(home)
