"""Our provider on the real yfinance: without a network, and against Yahoo's wire on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.judges.install import YAHOO
from tests.judges.support import ROOT
from tests.trading.sources.parts import at
from tracedesk.market import calendar

pytestmark = pytest.mark.judge


def _play(scene: str, folder: Path) -> dict[str, Any]:
    script = Path(__file__).parent / "yahoo_scene.py"
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [YAHOO.python, script, scene, folder], env=surroundings, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_without_a_network_every_question_is_a_network_error(tmp_path: Path) -> None:
    kinds = ("quotes", "daily", "history", "intraday", "news", "fundamentals")
    assert _play("unreachable", tmp_path) == {kind: {"ACME": "NETWORK_ERROR"} for kind in kinds}


def test_the_real_package_s_answers_and_refusals_are_told_apart(tmp_path: Path) -> None:
    refusals = {"BUSY": "RATE_LIMITED", "GONE": "INVALID_SYMBOL", "VOID": "DATA_UNAVAILABLE"}
    seen = _play("loopback", tmp_path)
    traded = at("2026-03-04T15:59:30Z")
    assert seen["quotes"] == {"ACME": f"121.33 120.10 4321 {traded}", **refusals}
    assert seen["daily"] == {"ACME": "5 2026-03-03 60.05", **refusals}
    last = calendar.open_ns(date(2026, 3, 3))
    assert seen["history"] == {"ACME": f"5 {last} 120.10 60.05"}
    week = calendar.open_ns(date(2026, 2, 23))
    assert seen["weeks"]["ACME"].split()[1] == str(week)
