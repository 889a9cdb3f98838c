"""Journal files: their schema, and connections that are durable and bounded in waiting."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tracedesk.journal.model import JournalError
from tracedesk.journal.sqlite import BusyError, Connection, Keeper, NotADBError, connect

APPLICATION_ID: Final = 0x54444A31
"""'TDJ1' in the file's header: tells a journal from any other SQLite file."""

BUSY_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.001

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
DEFINITIONS: Final = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"


@cache
def definitions() -> Mapping[str, str]:
    """The tables and triggers that a journal must have, as SQLite writes them down."""
    blank = connect(Path(":memory:"))
    blank.execute(SCHEMA)
    found = dict(blank.execute(DEFINITIONS))
    blank.close()
    return found


def key(stream: int, seq: int) -> int:
    """The row id of an event or batch: its stream in the high bits, its seq in the low."""
    return stream << SEQ_BITS | seq


def open_writer(path: Path, *, vfs: str | None = None) -> tuple[Connection, Keeper]:
    """A connection whose commits are on the disk when they return, and what opens its journal tables.

    Makes the file if it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_private(path)
    connection = connect(path, vfs=vfs)
    with _closing_on_failure(connection):
        configure(connection)
        connection.transaction_mode = "IMMEDIATE"
        _refuse_foreign(connection)
        path.chmod(0o600)
        patiently(connection, "PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _ensure_schema(connection)
        return connection, Keeper(connection, _GUARDED)


def create_private(path: Path) -> None:
    """An empty file for its owner only, before SQLite lends the file's mode to the WAL beside it.

    It is closed before it gets its name: closing a file drops every lock this process has on it.
    """
    if path.exists():
        return
    handle, blank = tempfile.mkstemp(prefix=".", dir=path.parent)
    os.close(handle)
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(blank)
    finally:
        Path(blank).unlink()


def open_reader(path: Path) -> Connection:
    """A connection that can only read; each statement sees one consistent state."""
    if not path.exists():
        raise JournalError(f"there is no journal at {path}")
    connection = connect(path, read_only=True)
    with _closing_on_failure(connection):
        configure(connection)
        if not _is_journal(connection):
            raise NotADBError
    return connection


@contextmanager
def _closing_on_failure(connection: Connection) -> Generator[None]:
    try:
        yield
    except NotADBError:
        name = connection.filename
        connection.close()
        raise JournalError(f"{name} is not a journal") from None
    except BaseException:
        connection.close()
        raise


def configure(connection: Connection) -> None:
    """Bound what a connection waits for and what it keeps in memory."""
    connection.set_busy_handler(_Patience())
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cache_size = -8192")


class _Patience:
    """Waits for other writers in short, even steps, so that none is starved, and gives up after a bound."""

    def __init__(self) -> None:
        self._until = 0.0

    def __call__(self, attempt: int) -> bool:
        now = time.monotonic()
        if attempt == 0:
            self._until = now + BUSY_SECONDS
        if now > self._until:
            return False
        time.sleep(_RETRY_SECONDS)
        return True


def patiently(connection: Connection, statement: str) -> None:
    """Switching a new file to WAL does not consult the busy handler; so it is asked here."""
    wait = _Patience()
    attempt = 0
    while True:
        try:
            connection.execute(statement)
            return
        except BusyError:
            if not wait(attempt):
                raise
            attempt += 1


def _ensure_schema(connection: Connection) -> None:
    if _is_journal(connection):
        return
    with connection:
        if _is_journal(connection):
            return
        connection.execute(SCHEMA)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _refuse_foreign(connection: Connection) -> None:
    """Before anything is written: another program's file stays as it is."""
    connection.execute("BEGIN DEFERRED")
    used = next(connection.execute("SELECT count(*) FROM sqlite_master"))[0]
    if used and not _is_journal(connection):
        raise JournalError(f"{connection.filename} is another program's database")
    connection.execute("COMMIT")


def _is_journal(connection: Connection) -> bool:
    return connection.pragma("application_id") == APPLICATION_ID
