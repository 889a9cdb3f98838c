"""The tables of `graph.db`: an index of code that can be rebuilt at any time.

A row of a file's content has the file's id in the high bits of its own, so a file's rows lie together and are
found, and removed, as one range. Full text is per project, so that its statistics are the project's own.
"""

from __future__ import annotations

from typing import Final

from tracedesk.codegraph.graph.limits import MAX_ROWS, ROW_BITS
from tracedesk.codegraph.graph.limits import SCHEMA_VERSION as VERSION
from tracedesk.codegraph.rank.terms import TOKENIZER
from tracedesk.journal.format import Format
from tracedesk.journal.sqlite import Connection

APPLICATION_ID: Final = 0x54444731
"""'TDG1' in the file's header."""

SYMBOL_REFERENCES_SYMBOL: Final = 1
FILE_IMPORTS_FILE: Final = 2

LEFT_OUT: Final = """
CREATE TABLE IF NOT EXISTS left_out(
  project INTEGER NOT NULL,
  path TEXT NOT NULL,
  reason TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  PRIMARY KEY(project, path)
) STRICT, WITHOUT ROWID;
"""
"""Files that the graph looked at and did not take, as they were then."""

SCHEMA: Final = f"""
CREATE TABLE project(
  id INTEGER PRIMARY KEY,
  root TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('building', 'current', 'obsolete')),
  graph_version TEXT,
  extractor TEXT NOT NULL,
  indexed_ns INTEGER,
  updated_ns INTEGER,
  whole INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX project_current ON project(root) WHERE state = 'current';
CREATE TABLE report(
  project INTEGER PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
CREATE TABLE version(
  graph_version TEXT PRIMARY KEY,
  root TEXT NOT NULL,
  first_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE file(
  id INTEGER PRIMARY KEY,
  project INTEGER NOT NULL,
  path TEXT NOT NULL,
  language TEXT NOT NULL,
  hint TEXT,
  sha256 BLOB NOT NULL,
  leaf BLOB NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  doc TEXT NOT NULL,
  problem TEXT,
  stem TEXT NOT NULL,
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX file_by_path ON file(project, path);
CREATE INDEX file_by_stem ON file(project, stem);
CREATE TABLE symbol(
  id INTEGER PRIMARY KEY,
  project INTEGER NOT NULL,
  name TEXT NOT NULL,
  qualified TEXT NOT NULL,
  kind TEXT NOT NULL,
  start INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  start_byte INTEGER NOT NULL,
  end_byte INTEGER NOT NULL,
  signature TEXT NOT NULL,
  doc TEXT NOT NULL,
  exported INTEGER NOT NULL,
  parent INTEGER,
  scope INTEGER NOT NULL,
  chunk INTEGER,
  file INTEGER GENERATED ALWAYS AS (id >> {ROW_BITS}) VIRTUAL
) STRICT;
CREATE INDEX symbol_by_name ON symbol(project, name, scope);
CREATE TABLE reference(
  id INTEGER PRIMARY KEY,
  project INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  line INTEGER NOT NULL,
  holder INTEGER,
  file INTEGER GENERATED ALWAYS AS (id >> {ROW_BITS}) VIRTUAL
) STRICT;
CREATE INDEX reference_by_name ON reference(project, name, holder);
CREATE TABLE import(
  id INTEGER PRIMARY KEY,
  module TEXT NOT NULL,
  names TEXT NOT NULL,
  line INTEGER NOT NULL,
  file INTEGER GENERATED ALWAYS AS (id >> {ROW_BITS}) VIRTUAL
) STRICT;
CREATE TABLE wanted(
  project INTEGER NOT NULL,
  stem TEXT NOT NULL,
  import INTEGER NOT NULL,
  PRIMARY KEY(project, stem, import)
) STRICT, WITHOUT ROWID;
{LEFT_OUT}
CREATE TABLE edge(
  kind INTEGER NOT NULL,
  src INTEGER NOT NULL,
  dst INTEGER NOT NULL,
  PRIMARY KEY(kind, src, dst)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_by_dst ON edge(kind, dst, src);
CREATE TABLE chunk(
  id INTEGER PRIMARY KEY,
  symbol INTEGER,
  start INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  key BLOB NOT NULL,
  text TEXT NOT NULL,
  file INTEGER GENERATED ALWAYS AS (id >> {ROW_BITS}) VIRTUAL
) STRICT;
PRAGMA user_version = {VERSION};
"""


class GraphError(Exception):
    """A graph file that cannot be used, with why."""


FORMAT: Final = Format("code graph", APPLICATION_ID, SCHEMA, GraphError)


def file_fts(project: int) -> str:
    """The full-text table of a project's file texts; its rowid is the file's id."""
    return f"file_fts_{project}"


def name_fts(project: int) -> str:
    """The full-text table of a project's paths and symbol names; its rowid is the file's id."""
    return f"name_fts_{project}"


def chunk_fts(project: int) -> str:
    """The full-text table of a project's chunks; its rowid is the chunk's id."""
    return f"chunk_fts_{project}"


def symbol_fts(project: int) -> str:
    """The full-text table of a project's symbols; its rowid is the symbol's id."""
    return f"symbol_fts_{project}"


def rows_of(file: int) -> tuple[int, int]:
    """The first and the last id that a row of this file can have."""
    first = file << ROW_BITS
    return first, first | (MAX_ROWS - 1)


_FTS: Final = (
    (file_fts, "text"),
    (name_fts, "path, symbols"),
    (chunk_fts, "text"),
    (symbol_fts, "name, signature, doc, body"),
)
_HASH_BYTES: Final = 8 << 20
_MOST_SEGMENTS: Final = 64
_SEGMENTS_PER_MERGE: Final = 4


def create_fts(connection: Connection, project: int) -> None:
    """The full-text tables of a new project. Their text is not kept: chunks have theirs, files are there.

    While they are filled they merge nothing, and so no part of them twice.
    """
    for table, columns in _FTS:
        _create(connection, table(project), columns)


def create_symbol_fts(connection: Connection, project: int) -> None:
    """The symbols' full-text table of a project that has the others."""
    connection.execute(f"DROP TABLE IF EXISTS {symbol_fts(project)}")
    _create(connection, symbol_fts(project), dict(_FTS)[symbol_fts])


def _create(connection: Connection, table: str, columns: str) -> None:
    options = f"content='', contentless_delete=1, tokenize='{TOKENIZER}'"
    connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, {options})")
    for option, value in (
        ("automerge", 0),
        ("crisismerge", _MOST_SEGMENTS),
        ("hashsize", _HASH_BYTES),
    ):
        _configure(connection, table, option, value)


def settle_fts(connection: Connection, project: int) -> None:
    """Make each full-text table that is filled one segment, which updates leave alone for long."""
    for table, _ in _FTS:
        settle(connection, table(project))


def settle(connection: Connection, table: str) -> None:
    """Make a full-text table one segment, and merge as usual from now on."""
    connection.execute(f"INSERT INTO {table}({table}) VALUES('optimize')")
    _configure(connection, table, "automerge", _SEGMENTS_PER_MERGE)


def _configure(connection: Connection, table: str, option: str, value: int) -> None:
    connection.execute(f"INSERT INTO {table}({table}, rank) VALUES(?, ?)", (option, value))


def drop_fts(connection: Connection, project: int) -> None:
    """Remove a project's full-text tables."""
    for table, _ in _FTS:
        connection.execute(f"DROP TABLE IF EXISTS {table(project)}")
