"""Every attack on a served desk beside a token holder, who is neither refused nor kept waiting."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final
from urllib.request import urlopen

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
KEPT_KIB: Final = 25 << 10
"""Growth that may be left when the attacks are over: the allocator returns memory by whole arenas."""
SETTLED_SECONDS: Final = 60


def attacked(desk: Served, name: str, seconds: int) -> dict[str, Any]:
    """The owner's notes of an attack's time, answers the attacker must not get, the desk's largest memory."""
    near, far = cores()
    attack = pinned(far, "tests.judges.abuse.attacks", name, str(desk.port), str(seconds))
    owner = pinned(near, "tests.judges.abuse.owner", str(desk.port), str(seconds), name)
    # Into files: a pipe that nobody reads yet would hold a process that has much to say.
    with (
        TemporaryFile("w+") as taken,
        TemporaryFile("w+") as noted,
        subprocess.Popen(attack, cwd=ROOT, stdout=taken) as attacker,
        subprocess.Popen(owner, cwd=ROOT, stdout=noted, stdin=subprocess.PIPE, text=True) as holder,
    ):
        try:
            assert holder.stdin is not None
            holder.stdin.write(desk.token + "\n")
            holder.stdin.flush()
            most = _largest(desk, holder)
            attacker.wait(timeout=30)
        finally:
            for process in (attacker, holder):
                process.kill()
        assert (attacker.returncode, holder.returncode) == (0, 0), name
        for file in (taken, noted):
            file.seek(0)
        return {**json.load(noted), "taken": json.load(taken), "memory_kib": most}


def _largest(desk: Served, holder: subprocess.Popen[str]) -> int:
    most = 0
    while holder.poll() is None:
        most = max(most, desk.memory_kib)
        time.sleep(0.05)
    return most


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def missing(home: Path, found: list[dict[str, Any]]) -> list[str]:
    """The acknowledged changes that the ledger does not have, and the answered calls without a record."""
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        changes = {name for (name,) in ledger.execute("SELECT tool_call_id FROM call")}
    with closing(sqlite3.connect(home / "trace.db")) as trace:
        calls = {id.hex() for (id,) in trace.execute("SELECT id FROM call_index")}
    lost = {name for notes in found for name in notes["acknowledged"]} - changes
    refs = {ref for notes in found for ref in notes["recorded"]}
    return sorted(lost | {ref for ref in refs if ref.rpartition("/")[2].replace("-", "") not in calls})


def health(desk: Served) -> dict[str, Any]:
    with urlopen(f"{desk.url}/health") as answer:
        return json.load(answer)


@pytest.mark.timeout(20 * len(ATTACKS) + 240)
def test_no_attack_is_felt_by_the_holder_of_a_token(tmp_path: Path, size: Size, prove: Recorder) -> None:
    seconds = size.of(judge=20, prove=300)
    with serving(tmp_path / "home", module="tests.judges.abuse.desk") as desk:
        warm = attacked(desk, "anonymous_calls", seconds)
        before = desk.memory_kib
        found = {name: attacked(desk, name, seconds) for name in ATTACKS}
        until = time.monotonic() + SETTLED_SECONDS
        while desk.memory_kib > before + KEPT_KIB and time.monotonic() < until:
            time.sleep(1)
        after = desk.memory_kib
        assert desk.process.poll() is None
        status = health(desk)["status"]
    lost = missing(desk.home, [warm, *found.values()])
    for name, notes in found.items():
        p99 = percentile(notes["latencies"], 0.99) * 1000
        grown = (notes["memory_kib"] - before) / 1024
        print(f"{name}: p99 {p99:.1f} ms of {len(notes['latencies'])} calls, +{grown:.0f} MB")
    acknowledged = sum(len(notes["acknowledged"]) for notes in (warm, *found.values()))
    recorded = sum(len(notes["recorded"]) for notes in (warm, *found.values()))
    print(
        f"memory before {before >> 10} MB, after {after >> 10} MB; {acknowledged} changes, {recorded} records"
    )
    slowest = max(percentile(notes["latencies"], 0.99) for notes in found.values())
    largest = max(notes["memory_kib"] for notes in found.values())
    prove.record(
        "abuse-p99", round(slowest * 1000, 1), seeds=(), details={"seconds": seconds, "attacks": [*found]}
    )
    prove.record("abuse-refused", sum(len(notes["refused"]) for notes in found.values()), seeds=())
    prove.record("abuse-memory", round((largest - before) / 1024, 1), seeds=())
    prove.record("abuse-lost", len(lost), seeds=())
    allowed = size.most(P99_SECONDS)
    assert not [problem for name, notes in found.items() for problem in felt(name, notes, before, allowed)]
    assert not lost
    assert after <= before + KEPT_KIB
    assert status == "ok"


def felt(name: str, notes: dict[str, Any], before: int, allowed: float) -> list[str]:
    """What the owner or the machine felt of an attack, and what its attacker got."""
    problems = [f"{name}: refused {refused}" for refused in notes["refused"][:3]]
    problems += [f"{name}: not refused {taken}" for taken in notes["taken"][:3]]
    p99 = percentile(notes["latencies"], 0.99)
    if p99 > allowed:
        problems.append(f"{name}: the owner's p99 was {p99 * 1000:.0f} ms")
    if notes["memory_kib"] > before + GROWTH_KIB:
        problems.append(f"{name}: the desk took {(notes['memory_kib'] - before) >> 10} MB more")
    return problems
