"""The projections of `trace.db` that attempts are read from: made of the events, soon after those.

`event` is the row id of the journal's event that a row comes from; by custom, pruning removes the rows of
removed events by it.
"""

from __future__ import annotations

from typing import Final

from tracedesk.codegraph.rank.terms import TOKENIZER
from tracedesk.journal.sqlite import Connection

FORMAT: Final = f"4 {TOKENIZER}"
"""What the tables mean and how they are filled; others are made anew."""

TABLES: Final = (
    "attempt",
    "attempt_event",
    "tool_call",
    "attempt_file",
    "attempt_stream",
    "summary",
    "attempt_fts",
    "etg_mark",
)

_META: Final = "CREATE TABLE IF NOT EXISTS etg_meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"

_SCHEMA: Final = f"""
CREATE TABLE attempt(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  project TEXT NOT NULL,
  certainty INTEGER NOT NULL,
  started_ns INTEGER NOT NULL,
  last_ns INTEGER NOT NULL,
  graph_version TEXT,
  latest INTEGER NOT NULL,
  events INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  evidence INTEGER NOT NULL,
  source TEXT,
  query_key INTEGER
) STRICT;
CREATE INDEX attempt_by_start ON attempt(started_ns);
CREATE INDEX attempt_by_project ON attempt(project, started_ns);
CREATE INDEX attempt_by_query ON attempt(query_key, started_ns) WHERE query_key IS NOT NULL;
CREATE TABLE attempt_event(
  event INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  kind TEXT NOT NULL,
  event_id TEXT NOT NULL,
  digest INTEGER NOT NULL,
  tool TEXT,
  speaks INTEGER NOT NULL,
  query TEXT,
  said TEXT,
  summary TEXT,
  outcome TEXT
) STRICT;
CREATE INDEX attempt_event_in_order ON attempt_event(attempt, time_ns);
CREATE INDEX attempt_event_by_id ON attempt_event(event_id);
CREATE INDEX attempt_event_of_tool ON attempt_event(attempt, tool, time_ns) WHERE tool IS NOT NULL;
CREATE INDEX attempt_event_that_speaks ON attempt_event(attempt, time_ns) WHERE speaks;
CREATE TABLE tool_call(
  event INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  tool TEXT NOT NULL,
  call_id TEXT,
  start INTEGER,
  finish INTEGER,
  start_ns INTEGER,
  end_ns INTEGER,
  status TEXT,
  duration_us INTEGER,
  output_ref TEXT,
  origin TEXT NOT NULL CHECK(origin IN ('client', 'desk', 'self')),
  pairing TEXT NOT NULL CHECK(pairing IN ('open', 'exact', 'inferred', 'orphan', 'record')),
  checks INTEGER NOT NULL,
  spoken TEXT CHECK(spoken IN ('failed', 'broken', 'passed')),
  judged TEXT GENERATED ALWAYS AS (CASE
    WHEN status IS NOT 'ok' THEN status
    WHEN spoken = 'failed' AND checks >= 0 OR spoken = 'broken' AND checks > 0 THEN 'error'
    WHEN spoken IS NULL AND checks = 2 THEN 'unclear'
    ELSE status
  END) VIRTUAL
) STRICT;
CREATE INDEX tool_call_of_attempt ON tool_call(attempt, tool);
CREATE INDEX tool_call_open ON tool_call(attempt, tool, start_ns) WHERE finish IS NULL;
CREATE INDEX tool_call_orphan ON tool_call(attempt, tool, call_id) WHERE start IS NULL;
CREATE INDEX tool_call_failed ON tool_call(attempt, end_ns) WHERE judged IN ('error', 'timeout');
CREATE TABLE attempt_file(
  attempt INTEGER NOT NULL,
  path TEXT NOT NULL,
  event INTEGER NOT NULL,
  role TEXT NOT NULL CHECK(role IN ('changed', 'read', 'cited')),
  PRIMARY KEY(attempt, path, event)
) WITHOUT ROWID, STRICT;
CREATE INDEX attempt_file_by_path ON attempt_file(path, attempt);
CREATE TABLE attempt_stream(
  stream INTEGER NOT NULL, attempt INTEGER NOT NULL, PRIMARY KEY(stream, attempt)
) WITHOUT ROWID, STRICT;
CREATE TABLE summary(
  attempt INTEGER PRIMARY KEY,
  text TEXT NOT NULL,
  source TEXT NOT NULL,
  evidence TEXT NOT NULL,
  paths TEXT NOT NULL
) STRICT;
CREATE VIRTUAL TABLE attempt_fts USING fts5(
  text, paths, content='', contentless_delete=1, tokenize='{TOKENIZER}'
);
CREATE TABLE etg_mark(stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
"""


def prepare(connection: Connection) -> None:
    """Make the tables, where they are not there or of another format."""
    if _value(connection, "format") != FORMAT:
        with connection:
            if _value(connection, "format") != FORMAT:
                empty(connection)


def exists(connection: Connection) -> bool:
    """Whether attempts can be read from this file."""
    return _value(connection, "format") == FORMAT


def empty(connection: Connection) -> None:
    """Begin anew: the tables are made empty, to be filled by whoever comes next."""
    for table in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute(_META)
    connection.execute(_SCHEMA)
    _set(connection, "format", FORMAT)


def _value(connection: Connection, key: str) -> str | None:
    if not any(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'etg_meta'")):
        return None
    for (value,) in connection.execute("SELECT value FROM etg_meta WHERE key = ?", (key,)):
        return value
    return None


def _set(connection: Connection, key: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO etg_meta VALUES(?,?)", (key, value))
