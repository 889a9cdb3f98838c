"""Evil projects as people start them: each command ends soon after its time, in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.proof.record import Recorder
from tests.fuzz.desks import no_host_left
from tests.fuzz.evil.table import ENDLESS, EVERY, Evil
from tests.judges.size import Size

TIMEOUT = 4
"""Seconds that each campaign gets; whoever asks counts them from the start of the command."""
LATE = 2.0
MEMORY = 1024
"""MiB of any process of a command. Compilers have 4,096, and none of the table takes as much."""
SHARE = 6
"""One in so many rows of the table is tried by the judge."""
_PROGRAM = Path(sys.executable).with_name("tracedesk")


def _ran(evil: Evil, folder: Path) -> tuple[float, float, str]:
    """Seconds after the campaign's time, the most memory of any process in MiB, and what was said."""
    place, home = folder / "project", folder / "home"
    place.mkdir(parents=True)
    home.mkdir()
    evil.build(place)
    # The time of the command alone is to end it.
    limits = {**evil.limits, "deploy_gas": ENDLESS, "deploy_seconds": 600, "compile_seconds": 600}
    rows = [f"{name} = {value}" for name, value in limits.items()]
    (home / "tracedesk.toml").write_text("\n".join(("[fuzz.limits]", *rows)))
    config: dict[str, Any] = {"seed": 1, "workers": 1, "testLimit": ENDLESS >> 9, **evil.config}
    (folder / "echidna.yaml").write_text(json.dumps(config))
    words = ["--config", str(folder / "echidna.yaml"), "--timeout", str(TIMEOUT)]
    words += ["--trust-project"] if evil.trusted else []
    command = [str(_PROGRAM), "--home", str(home), "fuzz", "run", evil.path, *words]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    late = time.monotonic() - began - TIMEOUT
    return late, used.ru_maxrss / 1024, said


@pytest.mark.judge
@pytest.mark.alone
@pytest.mark.timeout(1_200)
def test_every_evil_project_ends_within_two_seconds_of_its_time_in_less_than_a_gibibyte(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    found: dict[str, tuple[float, float]] = {}
    for number, evil in enumerate(EVERY[:: size.of(judge=SHARE, prove=1)]):
        folder = tmp_path / str(number)
        with no_host_left(folder / "home"):
            late, memory, said = _ran(evil, folder)
        assert "Traceback" not in said, (evil.name, said[-2_000:])
        found[evil.name] = (late, memory)
    latest = max(found, key=lambda name: found[name][0])
    largest = max(found, key=lambda name: found[name][1])
    size.at_most(LATE, found[latest][0], f"{latest}: seconds after its time")
    assert found[largest][1] < MEMORY, largest
    details = {"projects": len(found), "latest": latest, "largest": largest, "seconds": TIMEOUT}
    prove.record("fuzz-evil-late", round(found[latest][0], 2), details=details, seeds=())
    prove.record("fuzz-evil-memory", round(found[largest][1]), details=details, seeds=())
