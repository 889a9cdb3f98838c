"""Telling processes apart by pid and start time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tracedesk.hosts.processes import LinuxProcesses, Processes, PsProcesses, system_processes

REAL: list[Processes] = [system_processes()]
if shutil.which("ps"):
    REAL.append(PsProcesses())


def _proc(root: Path, *, name: str = "python", state: str = "S", ticks: int = 4711, boot: str = "b1") -> None:
    fields = ["1"] * 18
    (root / "77").mkdir(parents=True, exist_ok=True)
    (root / "77" / "stat").write_text(f"77 ({name}) {state} {' '.join(fields)} {ticks} 0 0\n")
    (root / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (root / "sys/kernel/random/boot_id").write_text(f"{boot}\n")


def test_linux_names_a_process_by_boot_and_ticks(tmp_path: Path) -> None:
    _proc(tmp_path)
    assert LinuxProcesses(tmp_path).started(77) == "b1:4711"
    assert LinuxProcesses(tmp_path).started(78) is None


def test_the_same_ticks_after_another_boot_are_another_process(tmp_path: Path) -> None:
    _proc(tmp_path, boot="b1")
    before = LinuxProcesses(tmp_path).started(77)
    _proc(tmp_path, boot="b2")
    assert LinuxProcesses(tmp_path).started(77) != before


def test_a_process_may_call_itself_anything(tmp_path: Path) -> None:
    _proc(tmp_path, name="a) Z 1 2 (b")
    assert LinuxProcesses(tmp_path).started(77) == "b1:4711"


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_dead_process_that_nobody_waited_for_is_dead(tmp_path: Path, state: str) -> None:
    _proc(tmp_path, state=state)
    assert LinuxProcesses(tmp_path).started(77) is None


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Ss   Sat Nov 14 09:15:02 2026\n", "Sat Nov 14 09:15:02 2026"),
        ("R+   Sat Nov  7 09:15:02 2026\n", "Sat Nov 7 09:15:02 2026"),
        ("Z    Sat Nov 14 09:15:02 2026\n", None),
        ("", None),
    ],
)
def test_elsewhere_ps_is_asked(printed: str, expected: str | None) -> None:
    asked: list[Sequence[str]] = []

    def ps(words: Sequence[str]) -> str:
        asked.append(words)
        return printed

    assert PsProcesses(ps).started(77) == expected
    assert asked == [("-o", "stat=", "-o", "lstart=", "-p", "77")]


@pytest.mark.parametrize("processes", REAL, ids=lambda p: type(p).__name__)
def test_a_real_process_has_one_start_until_it_ends(processes: Processes) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        began = processes.started(child.pid)
        assert began is not None
        assert processes.started(child.pid) == began
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.started(child.pid) is None, "a zombie is dead"
    assert processes.started(child.pid) is None
