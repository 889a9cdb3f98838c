"""What was logged carried from the write-ahead log into its file, while others go on logging."""

from __future__ import annotations

import logging
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tracedesk.journal.room import log_size, make_room
from tracedesk.journal.sqlite import Connection, Patience, SQLiteError, connect
from tracedesk.primitives.supervision import SupervisedThread

log = logging.getLogger(__name__)

_PASSES: Final = 4
"""Tries to carry also what was logged meanwhile: only when nothing is left does the log begin anew."""


_STAYS: Final = "what was logged stays in the write-ahead log for now: %s"


class Carrier:
    """Carries in a thread and by a connection of its own, so that nobody who logs waits for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        """How long the log should be, 0 to carry; at last nothing."""
        self._thread = SupervisedThread("journal carrier", self._work)
        self._pages = 0
        """How long the log of the followed connection was after its last commit."""
        self._is_open = True

    def follow(self, connection: Connection, soon: int, now: int) -> None:
        """Make room for `now` pages each time this connection's log begins, and carry at `soon` pages.

        A log begins anew only when nobody is ahead, which nobody can see to who does not write himself: at
        `now` pages the one who commits carries what has come since.
        """
        page = int(connection.pragma("page_size"))

        def grown(connection: Connection, _: str, pages: int) -> int:
            before, self._pages = self._pages, pages
            try:
                if pages >= now:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                elif before < soon <= pages:
                    self.ask()
                elif not before < pages:
                    self.make_room(log_size(page, now))
            except Exception as problem:
                # It must not look as if the commit had failed, which is on the disk.
                log.info(_STAYS, problem)
            return 0

        self._pages = now  # so that the first commit begins one
        connection.set_wal_hook(grown)

    def ask(self) -> None:
        """Have it done now; who asks does not wait. Not for two threads at once."""
        self._ask(0)

    def make_room(self, size: int) -> None:
        """Have the log lengthened before its events do it, as a favour: it may not come about."""
        self._ask(size)

    def _ask(self, size: int) -> None:
        self._asked.put(size)
        self._thread.start()

    def close(self) -> None:
        """End the thread after what was asked, but for room that nobody will need."""
        self._is_open = False
        self._asked.put(None)
        self._thread.join()
        self._thread.forget()

    def _work(self) -> None:
        connection: Connection | None = None
        while (size := self._asked.get()) is not None:
            if size:
                self._lengthen(size)
                continue
            try:
                connection = connection or _connected(self._path)
                _carry(connection)
                self._thread.well()
            except SQLiteError as problem:
                # Nothing is lost: it is tried again, also by whoever commits to a long log.
                log.warning(_STAYS, problem)
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _lengthen(self, size: int) -> None:
        """Make room in the log; where that cannot be, events do."""
        try:
            make_room(self._path, size, lambda: self._is_open)
        except OSError as problem:
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
