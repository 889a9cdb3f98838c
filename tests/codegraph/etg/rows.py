"""Every row of the projections, by what it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracedesk.journal import Reader

_BY_NAME = {
    "attempt": "SELECT name, project, certainty, started_ns, last_ns, graph_version, latest, events, calls, "
    "source, evidence, query_key FROM attempt ORDER BY name",
    "attempt_event": "SELECT t.*, name FROM attempt_event t JOIN attempt a ON a.id = t.attempt ORDER BY 1",
    "tool_call": "SELECT t.*, name FROM tool_call t JOIN attempt a ON a.id = t.attempt ORDER BY event",
    "attempt_file": "SELECT name, path, event, role FROM attempt_file t JOIN attempt a ON a.id = t.attempt "
    "ORDER BY 1, 2, 3",
    "attempt_stream": "SELECT stream, name FROM attempt_stream t JOIN attempt a ON a.id = t.attempt "
    "ORDER BY 1, 2",
    "summary": "SELECT name, text, t.source, t.evidence, paths FROM summary t "
    "JOIN attempt a ON a.id = t.attempt ORDER BY 1",
    "attempt_fts": "SELECT name FROM attempt_fts t JOIN attempt a ON a.id = t.rowid "
    "WHERE attempt_fts MATCH 'parser OR py' ORDER BY 1",
}


def tables(path: Path) -> dict[str, list[Any]]:
    """Every row, by its attempt's name: the numbers of attempts come from the order they are first seen."""
    with Reader(path) as reader:
        found = {table: list(reader.connection.execute(query)) for table, query in _BY_NAME.items()}
    for table in ("attempt_event", "tool_call"):
        found[table] = [(row[0], *row[2:]) for row in found[table]]
    return found
