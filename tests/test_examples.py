"""Every example runs as its own text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

EXPECTED = {"ask_the_desk.py": ["tools: desk_status, get_source, trace", "traced: call desk_status ok"]}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs_and_prints_what_it_promises(path: Path) -> None:
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=True)
    for line in EXPECTED[path.name]:
        assert line in done.stdout.splitlines()
