"""Projections made from the journal, in short transactions, so that nobody who logs waits for long."""

from __future__ import annotations

from typing import Final

from tracedesk.codegraph.etg import body, marks, projection, schema
from tracedesk.codegraph.etg.model import STREAM_KIND
from tracedesk.journal import forgetting
from tracedesk.journal.append import Transaction
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS, key
from tracedesk.journal.sqlite import Connection

_EVENTS: Final = 200
_ATTEMPTS: Final = 50
_GONE: Final = "stream IN (SELECT stream FROM tombstone)"


def resume(connection: Connection) -> None:
    """Take in what is left; whoever comes next goes on where a killed one stopped."""
    while waiting := marks.behind(connection, STREAM_KIND):
        with Transaction(connection):
            fill(connection, waiting[0].stream)


def fill(connection: Connection, stream: int) -> None:
    """Take the next events of a stream in, from the mark as this transaction sees it."""
    query = "SELECT id, kind, time_ns, body FROM event WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
    span = (key(stream, marks.of(connection, stream)), key(stream, MAX_SEQ), _EVENTS)
    rows = list(connection.execute(query, span))
    if not rows:
        return
    events = [body.read(*row) for row in rows if forgetting.of(row[3]) is None]
    taken = _taken(connection, rows[0][0], rows[-1][0])
    taking = projection.Taking(connection)
    for event in events:
        if event.event not in taken:
            taking.apply(event)
    taking.settle()
    marks.move(connection, rows[-1][0])


def _taken(connection: Connection, first: int, last: int) -> set[int]:
    """Events that are in the tables already: desks of before there were marks leave none."""
    query = "SELECT event FROM attempt_event WHERE event BETWEEN ? AND ?"
    return {event for (event,) in connection.execute(query, (first, last))}


def forget(connection: Connection) -> int:
    """Work out anew the attempts that pruned streams had a part in; say how many those were."""
    done = 0
    if not schema.exists(connection):
        return done
    query = f"SELECT DISTINCT attempt FROM attempt_stream WHERE {_GONE} LIMIT {_ATTEMPTS}"
    while attempts := [attempt for (attempt,) in connection.execute(query)]:
        with Transaction(connection):
            for attempt in attempts:
                _forget(connection, attempt)
        done += len(attempts)
    return done


def _forget(connection: Connection, attempt: int) -> None:
    gone = f"attempt = ? AND event >> {SEQ_BITS} IN (SELECT stream FROM tombstone)"
    for table in ("attempt_event", "attempt_file", "tool_call"):
        connection.execute(f"DELETE FROM {table} WHERE {gone}", (attempt,))
    connection.execute(f"DELETE FROM attempt_stream WHERE attempt = ? AND {_GONE}", (attempt,))
    if any(connection.execute("SELECT 1 FROM attempt WHERE id = ?", (attempt,))):
        projection.refold(connection, attempt)


def forget_for_good(connection: Connection) -> int:
    """The same, and the words of what went are written out of the full-text index too."""
    done = forget(connection)
    if done:
        with Transaction(connection):
            connection.execute("INSERT INTO attempt_fts(attempt_fts) VALUES('optimize')")
    return done
