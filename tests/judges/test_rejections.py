"""Rejections of a real engine, whose reasons have prices in them, are a few groups."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.judges.install import NAUTILUS
from tests.judges.support import ROOT
from tracedesk.backtest.rejections import code_of

pytestmark = [pytest.mark.judge, pytest.mark.timeout(300)]


def test_thousands_of_reasons_of_nautilus_have_at_most_ten_codes() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [NAUTILUS.python, "-m", "tests.backtest.adapters.nautilus_refused"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr.decode()
    rejections: list[dict[str, Any]] = json.loads(done.stdout)
    assert len({rejection["RejectionReason"] for rejection in rejections}) > 2_000
    codes = {code_of(rejection) for rejection in rejections}
    assert 3 <= len(codes) <= 10
    assert "STOP_MARKET BUY order stop px of # was in the market" in codes
