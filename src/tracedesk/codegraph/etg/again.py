"""An event told from one that was logged before, where that is still possible: in the transaction."""

from __future__ import annotations

from typing import Any, Final

from tracedesk.codegraph.etg.body import Prepared
from tracedesk.codegraph.etg.model import Logged, event_ref
from tracedesk.codegraph.etg.tail import Known, Tail
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.time import SECOND

AGAIN_NS: Final = 5 * SECOND
"""Within this, an attempt's newest event that comes once more without a time is the same one."""

_OTHER: Final = "event_id: an event with this id was logged before and said something else; that one stays."


def repeated(connection: Connection, tail: Tail, prepared: Prepared) -> Logged | None:
    """The event that this one repeats, as it was answered then; None for a new one."""
    if prepared.event.event_id is not None:
        known = _by_id(connection, tail, prepared)
    elif prepared.is_timed:
        known = _by_time(connection, tail, prepared)
    else:
        known = _newest(connection, tail, prepared)
    if known is None:
        return None
    query = "SELECT name FROM stream WHERE id = ?"
    stream = next(iter(connection.execute(query, (known.event >> SEQ_BITS,))))[0]
    ref = event_ref(stream, known.event & MAX_SEQ)
    warnings = () if known.digest == prepared.digest else (_OTHER,)
    return Logged(known.event_id, prepared.attempt, ref, True, warnings)


_COLUMNS: Final = "SELECT e.event, e.event_id, e.digest, e.time_ns FROM"

_BY_ID: Final = f"""
    {_COLUMNS} attempt_event e CROSS JOIN attempt a ON a.id = e.attempt
    WHERE e.event_id = ? AND a.name = ? LIMIT 1
"""
"""In this order: an attempt may have very many events, an id has one or two."""

_BY_TIME: Final = f"""
    {_COLUMNS} attempt a JOIN attempt_event e ON e.attempt = a.id
    WHERE a.name = ? AND e.time_ns = ? AND e.digest = ? ORDER BY e.event LIMIT 1
"""

_NEWEST: Final = f"{_COLUMNS} attempt a JOIN attempt_event e ON e.event = a.latest WHERE a.name = ?"


def _by_id(connection: Connection, tail: Tail, prepared: Prepared) -> Known | None:
    id, attempt = prepared.facts.event_id, prepared.attempt
    return _first(connection, _BY_ID, (id, attempt)) or tail.by_id(attempt, id)


def _by_time(connection: Connection, tail: Tail, prepared: Prepared) -> Known | None:
    place = (prepared.attempt, prepared.entry.time_ns, prepared.digest)
    return _first(connection, _BY_TIME, place) or tail.by_time(*place)


def _newest(connection: Connection, tail: Tail, prepared: Prepared) -> Known | None:
    # Of two streams, either may have the newer one, and either's may be in the tables.
    both = (_first(connection, _NEWEST, (prepared.attempt,)), tail.newest(prepared.attempt))
    found = max((known for known in both if known is not None), default=None)
    if found is None or found.digest != prepared.digest:
        return None
    return found if abs(found.time_ns - prepared.entry.time_ns) <= AGAIN_NS else None


def _first(connection: Connection, query: str, values: tuple[Any, ...]) -> Known | None:
    for row in connection.execute(query, values):
        return Known(*row)
    return None
