"""Migration of a graph file from an earlier schema, so that its projects stay searchable.

Migrated rows hold only what the earlier version stored; an index by this version replaces them.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from tracedesk.codegraph.graph.limits import SCHEMA_VERSION as VERSION
from tracedesk.codegraph.graph.schema import LEFT_OUT, create_symbol_fts, settle, symbol_fts
from tracedesk.codegraph.rank.terms import searchable
from tracedesk.journal.sqlite import Connection, insert

OLDEST: Final = 1
"""Files of an earlier schema than this one are made anew."""

_WITH_SYMBOLS: Final = 2
"""The schema from which on symbols have a full-text table."""

_ROWS_AT_ONCE: Final = 2_000
_SYMBOLS: Final = """
SELECT symbol.id, symbol.name, symbol.qualified || ' ' || symbol.signature, symbol.doc,
  coalesce(chunk.text, '')
FROM symbol LEFT JOIN chunk ON chunk.id = symbol.chunk AND chunk.symbol = symbol.id
WHERE symbol.project = ? ORDER BY symbol.id
"""


def migrate(connection: Connection) -> None:
    """Bring the tables of a file to this version's schema, in one transaction."""
    with connection:
        # Another process may have done it between the look and the lock.
        found = connection.pragma("user_version")
        if found == VERSION:
            return
        connection.execute(LEFT_OUT)
        for project in (
            [row[0] for row in connection.execute("SELECT id FROM project")] if found < _WITH_SYMBOLS else []
        ):
            _add_symbols(connection, project)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _add_symbols(connection: Connection, project: int) -> None:
    create_symbol_fts(connection, project)
    into = f"INSERT INTO {symbol_fts(project)}(rowid, name, signature, doc, body)"
    rows = iter(connection.execute(_SYMBOLS, (project,)))
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        ids, *texts = zip(*some, strict=True)
        columns: list[list[Any]] = [list(ids), *([searchable(text) for text in column] for column in texts)]
        insert(connection, into, columns)
    settle(connection, symbol_fts(project))
