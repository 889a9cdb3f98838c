"""Journal files: their schema and its guards, the ids of their rows, and how they are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tracedesk.journal.format import Format
from tracedesk.journal.model import JournalError
from tracedesk.journal.sqlite import Connection, Keeper

APPLICATION_ID: Final = 0x54444A31
"""'TDJ1' in the file's header: tells a journal from any other SQLite file."""

SMALL_PAGE: Final = 4096
"""Bytes of a page for files whose events come one by one: a commit writes every page it touches whole."""

SEQ_BITS: Final = 40
MAX_SEQ: Final = (1 << SEQ_BITS) - 1

_TABLES: Final = """
CREATE TABLE stream(
  id INTEGER PRIMARY KEY CHECK(id BETWEEN 1 AND 8388607),
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  meta BLOB NOT NULL,
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;
CREATE TABLE event(
  id INTEGER PRIMARY KEY,
  time_ns INTEGER NOT NULL,
  parent INTEGER,
  kind TEXT NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE TABLE batch(
  id INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;
CREATE TABLE seal(
  stream INTEGER PRIMARY KEY,
  status TEXT NOT NULL CHECK(status IN ('ended', 'crashed')),
  ended_ns INTEGER NOT NULL,
  manifest BLOB NOT NULL,
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;
CREATE TABLE tombstone(
  stream INTEGER PRIMARY KEY,
  pruned_ns INTEGER NOT NULL,
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;
"""


def immutable(table: str, taken: str, pruned: str = "0") -> str:
    """Rows are never changed, and go only with a whole stream that has its tombstone.

    Inserting needs a guard too: SQLite removes the old row of a REPLACE without asking the other two.
    """
    refused = "BEGIN SELECT RAISE(ABORT, 'journal rows are immutable, and a sealed stream is complete'); END;"
    return f"""
CREATE TRIGGER {table}_is_never_changed BEFORE UPDATE ON {table}
{refused}
CREATE TRIGGER {table}_is_never_removed BEFORE DELETE ON {table} WHEN NOT ({pruned})
{refused}
CREATE TRIGGER {table}_is_never_replaced BEFORE INSERT ON {table} WHEN {taken}
{refused}
"""


def _exists(table: str, condition: str) -> str:
    return f"EXISTS(SELECT 1 FROM {table} WHERE {condition})"


def _of_a_stream(table: str) -> str:
    # IN and not EXISTS: SQLite looks the key up directly, which halves what the guard costs an append.
    taken = f"NEW.id >> {SEQ_BITS} IN (SELECT stream FROM seal) OR NEW.id IN (SELECT id FROM {table})"
    return immutable(table, taken, f"OLD.id >> {SEQ_BITS} IN (SELECT stream FROM tombstone)")


_GUARDS: Final = "".join(
    (
        _of_a_stream("event"),
        _of_a_stream("batch"),
        immutable("stream", _exists("stream", "id = NEW.id OR name = NEW.name")),
        immutable("seal", _exists("seal", "stream = NEW.stream")),
        immutable("tombstone", _exists("tombstone", "stream = NEW.stream")),
        f"""
CREATE TRIGGER only_a_sealed_stream_is_pruned BEFORE INSERT ON tombstone
WHEN NOT {_exists("seal", "stream = NEW.stream")}
BEGIN SELECT RAISE(ABORT, 'only a sealed stream can be pruned'); END;
""",
    )
)

_GUARDED: Final = ("stream", "event", "batch", "seal", "tombstone")
SCHEMA: Final = _TABLES + _GUARDS
FORMAT: Final = Format("journal", APPLICATION_ID, SCHEMA, JournalError, page=8192)
definitions = FORMAT.definitions
open_reader = FORMAT.open_reader


def key(stream: int, seq: int) -> int:
    """The row id of an event or batch: its stream in the high bits, its seq in the low."""
    return stream << SEQ_BITS | seq


def open_writer(path: Path, *, vfs: str | None = None, page: int | None = None) -> tuple[Connection, Keeper]:
    """A connection whose commits are on the disk when they return, and what opens its journal tables.

    Makes the file if it is not there.
    """
    connection = FORMAT.open_writer(path, vfs=vfs, page=page)
    return connection, Keeper(connection, _GUARDED)
