"""What was logged carried from the write-ahead log into its file, while others go on logging."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from tracedesk.journal.room import make_room
from tracedesk.journal.sqlite import Connection, Patience, SQLiteError, connect

log = logging.getLogger(__name__)

_PASSES: Final = 4
"""Tries to carry also what was logged meanwhile: only when nothing is left does the log begin anew."""


class Room(NamedTuple):
    """How long a log should be, and how much of that is used."""

    size: int
    used: int


class Carrier:
    """Carries in a thread and by a connection of its own, so that nobody who logs waits for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked: SimpleQueue[tuple[Room | None] | None] = SimpleQueue()
        """Room to be made, none to carry; at last nothing."""
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Have it done now; who asks does not wait. Not for two threads at once."""
        self._ask(None)

    def make_room(self, room: Room) -> None:
        """Have the log lengthened before its events do it, as a favour: it may not come about."""
        self._ask(room)

    def _ask(self, room: Room | None) -> None:
        self._asked.put((room,))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="carry events", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread after what was asked."""
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        connection: Connection | None = None
        while (asked := self._asked.get()) is not None:
            (room,) = asked
            if room is not None:
                lengthen(self._path, room)
                continue
            try:
                connection = connection or _connected(self._path)
                _carry(connection)
            except SQLiteError as problem:
                # Nothing is lost: it is tried again, and the engine carries by itself a long log.
                log.warning("what was logged stays in the write-ahead log for now: %s", problem)
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()


def lengthen(path: Path, room: Room) -> None:
    """Make room in a file's log; where that cannot be, its events do."""
    try:
        make_room(path, room.size, room.used)
    except (SQLiteError, OSError) as problem:
        log.info("no room was made in the write-ahead log: %s", problem)


def _connected(path: Path) -> Connection:
    connection = connect(path, create=False)
    connection.set_busy_handler(Patience())
    return connection


def _carry(connection: Connection) -> None:
    """Stop when all is carried, or another process is at it."""
    for _ in range(_PASSES):
        is_busy, logged, carried = next(connection.execute("PRAGMA wal_checkpoint(PASSIVE)"))
        if is_busy or logged == carried:
            return
