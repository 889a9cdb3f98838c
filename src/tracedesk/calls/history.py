"""Recorded calls in the order they were written: the newest, those after a point, those of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracedesk.journal import Reader
from tracedesk.primitives import json

_CALLS = "SELECT event.id, event.time_ns, event.body FROM event"
_ALL = f"{_CALLS} WHERE event.kind = 'call'"
_OF_ATTEMPT = f"{_CALLS} JOIN attempt_index ON attempt_index.event = event.id WHERE attempt_index.attempt = ?"


@dataclass(frozen=True, slots=True)
class Ended:
    """One recorded call; `event` is its place in the file."""

    event: int
    time_ns: int
    body: dict[str, Any]


def newest(reader: Reader, count: int, attempt: str | None = None) -> list[Ended]:
    """The newest `count` calls, oldest of them first."""
    query, bindings = _query(attempt)
    rows = reader.connection.execute(f"{query} ORDER BY event.id DESC LIMIT ?", (*bindings, count))
    return [_ended(row) for row in rows][::-1]


def after(reader: Reader, event: int, attempt: str | None = None) -> list[Ended]:
    """The calls recorded after a place in the file, in order."""
    query, bindings = _query(attempt)
    rows = reader.connection.execute(f"{query} AND event.id > ? ORDER BY event.id", (*bindings, event))
    return [_ended(row) for row in rows]


def _query(attempt: str | None) -> tuple[str, tuple[str, ...]]:
    return (_ALL, ()) if attempt is None else (_OF_ATTEMPT, (attempt,))


def _ended(row: tuple[int, int, bytes]) -> Ended:
    return Ended(row[0], row[1], json.loads(row[2]))
