"""Runs are written natively and by Python alone; what is promised of one is promised of the other."""

from __future__ import annotations

from typing import Final

import pytest

from tracedesk.backtest import native
from tracedesk.primitives.natively import SWITCH

BOTH: Final = ("test_recorder", "test_recording", "test_import", "test_shadow", "test_sequence")
"""Modules whose tests run both ways; the others take what is installed."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.stem in BOTH:
        metafunc.fixturenames.append("way")
        metafunc.parametrize("way", ["natively", "by Python"], indirect=True)


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by Python":
        monkeypatch.setenv(SWITCH, "off")
    elif native.core() is None:
        pytest.skip("the native part is not installed")
    return request.param
