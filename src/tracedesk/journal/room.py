"""Room in the write-ahead log, made before commits need it."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Final

from tracedesk.journal.sqlite import Connection, connect
from tracedesk.primitives.disk import sync

_NAP_SECONDS: Final = 0.001
_TRIES: Final = 50


def make_room(path: Path, size: int, used: int = 0) -> None:
    """Have the log of a file that is open for writing take `size` bytes on the disk, `used` of them so far.

    A commit that lengthens its log waits for the file system to note the length as well, which takes as long
    again as all else it does; one that overwrites what is there does not. The log keeps its length until the
    last connection is closed. Whoever writes is waited for but briefly; then this raises a `BusyError`.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size >= size:
        return
    with closing(connect(path, create=False)) as connection:
        connection.set_busy_handler(_is_patient)
        _fill(connection, size - used)
        sync(log)  # nobody has a lock on it, so that closing it takes none away


def _is_patient(tries: int) -> bool:
    time.sleep(_NAP_SECONDS)
    return tries < _TRIES


def _fill(connection: Connection, size: int) -> None:
    """Write pages to the log that are never committed: the next commits overwrite them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE room(filler BLOB)")
        connection.execute("INSERT INTO room VALUES(zeroblob(?))", (size,))
        connection.cache_flush()
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
