"""The desk's call records as tool calls of the attempts they name: folded in afterwards, not logged twice."""

from __future__ import annotations

from typing import Any, Final

from tracedesk.calls.attempt import is_name
from tracedesk.codegraph.etg import marks, projection
from tracedesk.codegraph.etg.model import DEFAULT_PROJECT, FAILING, canonical
from tracedesk.journal import forgetting
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS, key
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json

STREAM_KIND: Final = "calls"

BATCH: Final = 100
"""Records that one transaction folds."""

_OWN: Final = ("codegraph", "desk")
"""Toolsets whose calls ask about the work and are not part of it."""

_STRANGERS: Final = ("anonymous", "session:")
"""How the scopes begin that callers over HTTP have without a token; with one, they have a principal."""

_TIMEOUTS: Final = ("QUERY_TIMEOUT", "EXECUTION_TIMEOUT")


def fold(connection: Connection, stream: int) -> int:
    """Fold the next records of a stream, from the mark as this transaction sees it; say how many."""
    after = marks.of(connection, stream)
    query = "SELECT id, time_ns, body FROM event WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
    span = (key(stream, after), key(stream, MAX_SEQ), BATCH)
    rows = list(connection.execute(query, span))
    stale = {attempt for row in rows if (attempt := _take(connection, *row)) is not None}
    for attempt in sorted(stale):
        projection.refresh(connection, attempt)
    if rows:
        marks.move(connection, rows[-1][0])
    return len(rows)


def _take(connection: Connection, event: int, time_ns: int, body: bytes) -> int | None:
    """Take a record in; the attempt, when the call changes its words."""
    if forgetting.of(body) is not None:
        return None
    call = json.loads(body)
    name = call.get("attempt")
    if not is_name(name) or _is_of_a_stranger(call):
        return None
    end_ns = time_ns + call["us"] * 1000
    origin = "self" if call.get("toolset") in _OWN else "desk"
    attempt = _attempt(connection, canonical(name), time_ns, end_ns, int(origin == "desk"))
    projection.belong(connection, event >> SEQ_BITS, attempt)
    status = _status(call)
    row: tuple[Any, ...] = (event, attempt, call["tool"], call["id"], event, event, time_ns, end_ns, status)
    connection.execute(
        "INSERT OR IGNORE INTO tool_call VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,0,NULL)",
        (*row, call["us"], _output(call), origin, "record"),
    )
    return attempt if origin == "desk" and status in FAILING else None


def _is_of_a_stranger(call: dict[str, Any]) -> bool:
    """Whether nobody knows who called; a desk that is older than this rule may have noted their attempt."""
    return "principal" not in call and call["scope"].startswith(_STRANGERS)


def _attempt(connection: Connection, name: str, start_ns: int, end_ns: int, counts: int) -> int:
    query = "SELECT id FROM attempt WHERE name = ?"
    for (attempt,) in connection.execute(query, (name,)):
        projection.begin_by(connection, attempt, start_ns)
        connection.execute(
            "UPDATE attempt SET last_ns = max(last_ns, ?), calls = calls + ?, evidence = max(evidence, ?) "
            "WHERE id = ?",
            (end_ns, counts, counts, attempt),
        )
        return attempt
    row = (name, DEFAULT_PROJECT, 2, start_ns, end_ns, counts, counts)
    connection.execute("INSERT INTO attempt VALUES(NULL,?,?,?,?,?,NULL,0,0,?,?,NULL,NULL)", row)
    return next(iter(connection.execute("SELECT last_insert_rowid()")))[0]


def _status(call: dict[str, Any]) -> str:
    if call["outcome"] == "error":
        return "timeout" if call.get("code") in _TIMEOUTS else "error"
    return call["outcome"]


def _output(call: dict[str, Any]) -> str | None:
    result: dict[str, Any] = call.get("result") or {}
    digest = result.get("sha256")
    return f"tracedesk://payloads/{digest}" if digest else None
