"""Turns on a core, read back from the kernel."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys

import pytest

from tracedesk.primitives.scheduling import LONG_NS, take_long_turns

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="asks the kernel by number"
)
_GET = 315


def _told(process: int) -> tuple[int, int, int]:
    """The policy, niceness and turn of a process."""
    found = ctypes.create_string_buffer(56)
    assert ctypes.CDLL(None).syscall(ctypes.c_long(_GET), process, found, 56, 0) == 0
    _, policy, _, nice, _, runtime = struct.unpack_from("=IIQiIQ", found.raw)
    return policy, nice, runtime


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in platform.release().split(".")[:2])


def test_a_process_that_takes_long_turns_keeps_its_niceness_and_hands_both_on() -> None:
    code = "import subprocess, sys; sys.stdin.read(1); subprocess.run(['sh', '-c', 'echo $$; read x'])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        take_long_turns(process.pid, 5)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        for pid in (process.pid, child):
            policy, nice, turn = _told(pid)
            assert (policy, nice) == (os.SCHED_BATCH, 5)
            if _release() >= (6, 12):
                assert turn == LONG_NS
        process.kill()
        os.kill(child, 9)


def test_a_process_that_is_not_there_is_told_of() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(ProcessLookupError):
        take_long_turns(process.pid, 5)
