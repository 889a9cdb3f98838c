"""Forty and more projects that would take the machine: each ends, within its limits, and says why."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests.fuzz.evil.table import EVERY, Evil
from tests.support import ROOT

PATIENCE = 120.0
"""Seconds for a machine that is very busy; what ends a project is its limits."""


class Trying:
    """A process with the memory of a host, which tries one project after the other."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ends(self, evil: Evil) -> dict[str, Any]:
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{evil.name}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            self.close()
            pytest.fail(f"{evil.name} does not end")
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._process = None
            pytest.fail(f"{evil.name} ended the process: {code}")
        return json.loads(line)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _started() -> subprocess.Popen[str]:
    environment = {**os.environ, "EVIL_SECRET": "x"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.evil"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def trying() -> Generator[Trying]:
    process = Trying()
    yield process
    process.close()


def test_there_are_more_than_forty_and_each_has_a_name_of_its_own() -> None:
    assert len(EVERY) > 40
    assert len({evil.name for evil in EVERY}) == len(EVERY)


@pytest.mark.parametrize("evil", EVERY, ids=[evil.name for evil in EVERY])
def test_an_evil_project_ends_at_a_limit_and_says_which(evil: Evil, trying: Trying) -> None:
    told = trying.ends(evil)
    assert re.search(evil.ends, told["words"], re.DOTALL), told["words"][:2_000]
    assert "TAKEN" not in told["words"]
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", told["words"])
    assert told["peak"] < 1024 * 1024
    # Of processor time, which other processes do not make longer; the judge of evil hosts has the clock's.
    assert told["seconds"] < evil.least_seconds + 2
