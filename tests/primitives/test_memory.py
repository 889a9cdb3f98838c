"""Memory that large documents took goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import BOUND

_BLOCKS = """
from pathlib import Path
from tracedesk.primitives.memory import hold_little

def resident():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) >> 10

hold_little()
bytearray(30 << 20)  # glibc raises its threshold when this is freed
before = resident()
blocks = [bytearray(b"x") * (4 << 20) for _ in range(20)]
last = bytearray(b"x") * (300 << 10)  # what lies above keeps the heap from shrinking
del blocks
print(resident() - before)
"""

_HEAP = """
import asyncio
from pathlib import Path
from tracedesk.primitives.memory import trim_heap

def resident():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) >> 10

before = resident()
blocks = [bytearray(b"x") * (64 << 10) for _ in range(1_000)]
kept = blocks[-1]  # what lies above keeps the heap from shrinking
del blocks

async def trimmed():
    trims = asyncio.ensure_future(trim_heap(0))
    while resident() - before > 5:
        await asyncio.sleep(0)
    trims.cancel()

most = resident() - before
asyncio.run(asyncio.wait_for(trimmed(), 60))
print(most)
"""

needs_glibc = pytest.mark.skipif(
    sys.platform != "linux" or not any(Path("/lib").glob("*/libc.so.6")), reason="the setting is glibc's"
)


@needs_glibc
def test_freed_blocks_of_large_documents_go_back_to_the_system() -> None:
    words = [sys.executable, "-c", _BLOCKS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND, check=True)
    assert int(done.stdout) <= 5  # megabytes; without the setting 80 stay


@needs_glibc
def test_pages_that_are_free_below_a_block_in_use_go_back_to_the_system() -> None:
    words = [sys.executable, "-c", _HEAP]
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND, check=True)
    assert int(done.stdout) > 40  # megabytes that would have stayed
