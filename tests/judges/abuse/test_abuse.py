"""Every attack on a served desk beside a token holder, who is neither refused nor kept waiting."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.proof.record import Recorder
from tests.judges.abuse.attacks import ATTACKS
from tests.judges.served import Served, cores, pinned, serving
from tests.judges.size import Size
from tests.judges.support import ROOT

pytestmark = [
    pytest.mark.judge,
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="reads and pins processes by Linux's own means"),
]

P99_SECONDS: Final = 0.1
GROWTH_KIB: Final = 50 << 10
SETTLED_SECONDS: Final = 60


def attacked(desk: Served, name: str, seconds: int) -> dict[str, Any]:
    """The owner's notes of an attack's time, and the desk's largest memory."""
    near, far = cores()
    attack = pinned(far, "tests.judges.abuse.attacks", name, str(desk.port), str(seconds))
    owner = pinned(near, "tests.judges.abuse.owner", str(desk.port), str(seconds), name)
    with (
        subprocess.Popen(attack, cwd=ROOT) as attacker,
        subprocess.Popen(owner, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
    ):
        try:
            assert holder.stdin is not None
            holder.stdin.write(desk.token + "\n")
            holder.stdin.flush()
            most = _largest(desk, holder)
            out, _ = holder.communicate(timeout=30)
            attacker.wait(timeout=30)
        finally:
            for process in (attacker, holder):
                process.kill()
    return {**json.loads(out), "memory_kib": most}


def _largest(desk: Served, holder: subprocess.Popen[str]) -> int:
    most = 0
    while holder.poll() is None:
        most = max(most, desk.memory_kib)
        time.sleep(0.25)
    return most


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def missing(home: Path, names: list[str]) -> list[str]:
    """Those of the acknowledged changes that the ledger does not have."""
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        found = {name for (name,) in ledger.execute("SELECT tool_call_id FROM call")}
    return sorted(set(names) - found)


@pytest.mark.timeout(20 * len(ATTACKS) + 240)
def test_no_attack_is_felt_by_the_holder_of_a_token(tmp_path: Path, size: Size, prove: Recorder) -> None:
    seconds = size.of(judge=20, prove=300)
    with serving(tmp_path / "home") as desk:
        warm = attacked(desk, "anonymous_calls", seconds)
        before = desk.memory_kib
        found = {name: attacked(desk, name, seconds) for name in ATTACKS}
        until = time.monotonic() + SETTLED_SECONDS
        while desk.memory_kib > before + GROWTH_KIB and time.monotonic() < until:
            time.sleep(1)
        after = desk.memory_kib
        assert desk.process.poll() is None
        problems = [
            problem
            for name, notes in found.items()
            for problem in felt(name, notes, before, size.most(P99_SECONDS))
        ]
        acknowledged = [name for notes in (warm, *found.values()) for name in notes["acknowledged"]]
        lost = missing(desk.home, acknowledged)
    for name, notes in found.items():
        p99 = percentile(notes["latencies"], 0.99) * 1000
        grown = (notes["memory_kib"] - before) / 1024
        print(f"{name}: p99 {p99:.1f} ms of {len(notes['latencies'])} calls, +{grown:.0f} MB")
    print(
        f"memory before {before >> 10} MB, after {after >> 10} MB; {len(acknowledged)} changes acknowledged"
    )
    slowest = max(percentile(notes["latencies"], 0.99) for notes in found.values())
    largest = max(notes["memory_kib"] for notes in found.values())
    prove.record(
        "abuse-p99", round(slowest * 1000, 1), seeds=(), details={"seconds": seconds, "attacks": [*found]}
    )
    prove.record("abuse-refused", sum(len(notes["refused"]) for notes in found.values()), seeds=())
    prove.record("abuse-memory", round((largest - before) / 1024, 1), seeds=())
    prove.record("abuse-lost", len(lost), seeds=())
    assert not problems
    assert not lost
    assert after <= before + GROWTH_KIB


def felt(name: str, notes: dict[str, Any], before: int, allowed: float) -> list[str]:
    """What the owner or the machine felt of an attack."""
    problems = [f"{name}: refused {refused}" for refused in notes["refused"][:3]]
    p99 = percentile(notes["latencies"], 0.99)
    if p99 > allowed:
        problems.append(f"{name}: the owner's p99 was {p99 * 1000:.0f} ms")
    if notes["memory_kib"] > before + GROWTH_KIB:
        problems.append(f"{name}: the desk took {(notes['memory_kib'] - before) >> 10} MB more")
    return problems
