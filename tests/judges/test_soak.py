"""Six clients on one desk for minutes: no answer is a fault of ours, and memory does not grow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.proof.record import Recorder
from tests.judges.served import Served, cores, pinned, serving
from tests.judges.size import Size
from tests.judges.support import ROOT

pytestmark = [
    pytest.mark.judge,
    pytest.mark.skipif(sys.platform != "linux", reason="reads a process's memory by Linux's own means"),
]

WARM_SECONDS: Final = 600
MB_A_MINUTE: Final = 0.1
EXPECTED: Final = frozenset({"RISK_LIMIT_EXCEEDED", "INSUFFICIENT_POSITION"})
"""The trader reaches 60 orders a minute, and then sells what it could not buy."""
BANK: Final = "class Bank:\n    def withdraw(self, amount):\n        self.balance -= amount\n"


def cli(home: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tracedesk.cli", "--home", str(home), *words, "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def sampled(desk: Served, clients: subprocess.Popen[str]) -> list[tuple[float, float]]:
    """Minutes and megabytes, once a second until the clients end."""
    found: list[tuple[float, float]] = []
    began = time.monotonic()
    while clients.poll() is None:
        found.append(((time.monotonic() - began) / 60, desk.memory_kib / 1024))
        time.sleep(1)
    return found


def slope(samples: list[tuple[float, float]]) -> float:
    """Megabytes a minute by least squares."""
    count = len(samples)
    at = sum(minute for minute, _ in samples) / count
    level = sum(size for _, size in samples) / count
    over = sum((minute - at) ** 2 for minute, _ in samples)
    return sum((minute - at) * (size - level) for minute, size in samples) / over


@pytest.mark.timeout(420)
def test_six_clients_meet_no_fault_and_memory_does_not_grow(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    seconds = size.of(judge=180, prove=1_200)
    home, project = tmp_path / "home", tmp_path / "bank"
    project.mkdir()
    (project / "bank.py").write_text(BANK)
    run = cli(home, "backtest", "sample")
    cli(home, "graph", "index", str(project))
    with serving(home, "--root", str(project)) as desk:
        soak = ("tests.judges.soak_clients", str(desk.port), str(seconds), str(project), run["runId"])
        with subprocess.Popen(
            pinned(cores()[1], *soak), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as clients:
            assert clients.stdin is not None
            clients.stdin.write(desk.token + "\n")
            clients.stdin.flush()
            samples = sampled(desk, clients)
            out, _ = clients.communicate()
        assert desk.process.poll() is None
        log = (tmp_path / "desk.log").read_text(encoding="utf-8")
    counts: dict[str, int] = json.loads(out)
    late = [sample for sample in samples if sample[0] * 60 > min(WARM_SECONDS, seconds / 2)]
    print(
        f"{sum(counts.values())} calls; {samples[0][1]:.0f} MB at first, {samples[-1][1]:.0f} at last,",
        end=" ",
    )
    print(f"{slope(late):.2f} MB a minute in the last {late[-1][0] - late[0][0]:.1f} minutes")
    odd = {what: count for what, count in counts.items() if " 200 " not in what and not _is_expected(what)}
    assert odd == {}, counts
    assert not re.search(r"Traceback|ERROR", log), log[-4_000:]
    assert len({what.split()[0] for what in counts}) >= 12
    if seconds > WARM_SECONDS:
        prove.record("soak-memory", round(slope(late), 3), seeds=(), details={"seconds": seconds})
        assert slope(late) <= MB_A_MINUTE


def _is_expected(what: str) -> bool:
    return what.split()[-1] in EXPECTED
