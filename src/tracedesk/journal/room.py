"""Room in the write-ahead log, made before commits need it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 20
"""Bytes between two syncs: a commit that comes meanwhile waits for no more than these."""

_PLENTY: Final = 8
"""How many times the room must be free on the disk: where space is short, it is for what is written."""


def log_size(page: int, pages: int) -> int:
    """The bytes of a log of so many pages: each has a header, and so has the log."""
    return 32 + pages * (24 + page)


def make_room(path: Path, size: int, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Have the log of a file that is open for writing take `size` bytes on the disk, while that is wanted.

    A commit that lengthens its log waits for the file system to note the length as well, which takes as long
    again as all else it does; one that overwrites what is there does not. The log keeps its length until
    somebody truncates it, or closes its last connection.

    Nobody is locked out: what is added is always behind the end, wherever a commit has put that, and the next
    commits overwrite it. Zeros are no frame of a log, so nobody reads them. Nobody has a lock on the log
    itself either, which closing it would take away.
    """
    log = os.open(path.with_name(f"{path.name}-wal"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        _check_disk(log, size)
        while is_wanted() and (left := size - os.fstat(log).st_size) > 0:
            os.write(log, bytes(min(left, _PIECE)))
            os.fsync(log)
    finally:
        os.close(log)


def _check_disk(log: int, size: int) -> None:
    disk = os.fstatvfs(log)
    if disk.f_bavail * disk.f_frsize < _PLENTY * size:
        raise OSError(errno.ENOSPC, f"less than {_PLENTY} times the {size} bytes are free")
