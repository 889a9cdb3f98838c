"""Settings of the C library's allocator."""

from __future__ import annotations

import contextlib
from typing import Final

LARGE: Final = 256 << 10
"""Bytes of a block that the system gets back as soon as it is freed."""
_MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h."""


def give_back_large_blocks() -> None:
    """Keep glibc from holding freed blocks of a size that was freed before, up to 32 MiB of each.

    Its own threshold grows with the largest block that was freed: after one document of 4 MB, all that is
    smaller stays with the process.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library has no such setting
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE)
