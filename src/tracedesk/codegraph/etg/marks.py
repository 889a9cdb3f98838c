"""How far the tables go: of each stream, the seq up to which its events were taken in.

A mark moves in the transaction that takes the events in, so that whoever is killed leaves the two together.
"""

from __future__ import annotations

from typing import NamedTuple

from tracedesk.journal.file import MAX_SEQ, SEQ_BITS
from tracedesk.journal.sqlite import Connection


class Mark(NamedTuple):
    """How far the tables go in a stream, and how far it goes itself."""

    stream: int
    seq: int
    last: int

    @property
    def is_behind(self) -> bool:
        return self.seq < self.last


def every(connection: Connection, kind: str) -> list[Mark]:
    """The marks of all streams of a kind."""
    query = """
        SELECT id, coalesce((SELECT seq FROM etg_mark WHERE stream = s.id), 0), coalesce((
          SELECT last FROM batch WHERE batch.id BETWEEN (s.id << ?) AND (s.id << ? | ?)
          ORDER BY batch.id DESC LIMIT 1), 0)
        FROM stream s WHERE kind = ? ORDER BY id
    """
    return [Mark(*row) for row in connection.execute(query, (SEQ_BITS, SEQ_BITS, MAX_SEQ, kind))]


def behind(connection: Connection, kind: str) -> list[Mark]:
    """Those with events to take in. Pruned streams have none."""
    return [mark for mark in every(connection, kind) if mark.is_behind]


def of(connection: Connection, stream: int) -> int:
    """The mark of a stream."""
    query = "SELECT seq FROM etg_mark WHERE stream = ?"
    return next(iter(connection.execute(query, (stream,))), (0,))[0]


def move(connection: Connection, event: int) -> None:
    """Everything up to this event of its stream was taken in."""
    mark = (event >> SEQ_BITS, event & MAX_SEQ)
    connection.execute("INSERT OR REPLACE INTO etg_mark VALUES(?,?)", mark)
