"""Settings of the C library's allocator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

LARGE: Final = 256 << 10
"""Bytes of a block that the system gets back as soon as it is freed."""
_MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h."""
HEAPS: Final = 2
"""Heaps that all threads share; the interpreter's lock lets hardly two of them allocate at once."""
_ARENA_MAX: Final = -8
"""M_ARENA_MAX."""
TRIM_SECONDS: Final = 10.0
"""Pause between two trims, each of which takes a millisecond or two of a heap of 120 MB."""


def hold_little() -> None:
    """Keep glibc from holding memory that was freed; before any thread begins.

    Its threshold of a large block grows with the largest that was freed: after one document of 4 MB, all that
    is smaller stays with the process, up to 32 MiB of each size. And each thread frees into a heap of its
    own, out of which the others take nothing.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library has no such settings
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_ARENA_MAX, HEAPS)


async def trim_heap(pause: float = TRIM_SECONDS) -> None:
    """Return the free pages of glibc's heaps to the system, again and again.

    glibc itself returns only the end of a heap: what a burst of requests freed below one block in use stays
    with the process.
    """
    trim = _malloc_trim()
    while trim is not None:
        await asyncio.sleep(pause)
        trim(0)


def _malloc_trim() -> Callable[[int], object] | None:
    """glibc's function; None where another C library has none."""
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
