"""Recorded calls in the order they were written: the newest, those after a point, those of an attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.journal import Reader, forgetting
from tracedesk.primitives import json

_CALLS: Final = "SELECT id, time_ns, body FROM event WHERE kind = 'call'"
_RUNS: Final = {
    "attempt_run": "SELECT event, last FROM attempt_run WHERE attempt = ?1",
    "attempt_index": "SELECT event, event FROM attempt_index WHERE attempt = ?1",
}
"""Where the calls of an attempt lie, by table; the second is of older desks."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One recorded call; `event` is its place in the file."""

    event: int
    time_ns: int
    body: dict[str, Any]


def newest(reader: Reader, count: int, attempt: str | None = None) -> list[Ended]:
    """The newest `count` calls, oldest of them first."""
    if attempt is None:
        rows = reader.connection.execute(f"{_CALLS} ORDER BY id DESC LIMIT ?", (count,))
        return _ended(rows)[::-1]
    found: list[Ended] = []
    for first, last in _runs(reader, attempt):
        found += _between(reader, first, last, count - len(found))
        if len(found) >= count:
            break
    return found[::-1]


def after(reader: Reader, event: int, attempt: str | None = None) -> list[Ended]:
    """The calls recorded after a place in the file, in order."""
    if attempt is None:
        return _ended(reader.connection.execute(f"{_CALLS} AND id > ? ORDER BY id", (event,)))
    found: list[Ended] = []
    for first, last in _runs(reader, attempt):
        if last <= event:
            break
        found += _between(reader, max(first, event + 1), last)
    return found[::-1]


def _runs(reader: Reader, attempt: str) -> Iterator[tuple[int, int]]:
    """Where the calls of an attempt lie: the first and last of those in a row, newest first."""
    there = {name for (name,) in reader.connection.execute("SELECT name FROM sqlite_master")}
    queries = [query for table, query in _RUNS.items() if table in there]
    if queries:
        yield from reader.connection.execute(f"{' UNION ALL '.join(queries)} ORDER BY 1 DESC", (attempt,))


def _between(reader: Reader, first: int, last: int, count: int = -1) -> list[Ended]:
    """At most `count` calls of a run, newest first."""
    query = f"{_CALLS} AND id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?"
    return _ended(reader.connection.execute(query, (first, last, count)))


def _ended(rows: Iterable[tuple[int, int, bytes]]) -> list[Ended]:
    """The calls of rows, but for those that were forgotten."""
    return [Ended(id, time_ns, json.loads(body)) for id, time_ns, body in rows if forgetting.of(body) is None]
