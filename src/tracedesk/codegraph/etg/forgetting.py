"""Events whose bodies were taken out: their attempts are worked out anew without them."""

from __future__ import annotations

from collections.abc import Sequence

from tracedesk.codegraph.etg import projection, schema
from tracedesk.journal.sqlite import Connection

_TABLES = ("attempt_event", "attempt_file", "tool_call")


def drop(connection: Connection, events: Sequence[int]) -> None:
    """Take what was made of these events out of the tables, in the transaction that takes their bodies."""
    if not schema.exists(connection):
        return
    attempts: set[int] = set()
    for event in events:
        for table in ("attempt_event", "tool_call"):
            found = connection.execute(f"SELECT attempt FROM {table} WHERE event = ?", (event,))
            attempts.update(attempt for (attempt,) in found)
        connection.execute("DELETE FROM tool_call WHERE start = ?1 OR finish = ?1", (event,))
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table} WHERE event = ?", (event,))
    for attempt in sorted(attempts):
        projection.refold(connection, attempt)


def write_out(connection: Connection) -> None:
    """Write words that no attempt has any more out of the full-text index."""
    if schema.exists(connection):
        connection.execute("INSERT INTO attempt_fts(attempt_fts) VALUES('optimize')")
