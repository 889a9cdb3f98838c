"""Journal files: their schema, and connections that are durable and bounded in waiting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from tracedesk.journal.model import JournalError
from tracedesk.journal.sqlite import BusyError, Connection, connect

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
  meta BLOB NOT NULL
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


def _immutable(table: str, stream: str) -> str:
    """Rows are never changed, and go only with a whole stream that has its tombstone."""
    pruned = f"EXISTS(SELECT 1 FROM tombstone WHERE stream = {stream})" if stream else "0"
    return f"""
CREATE TRIGGER {table}_is_never_changed BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'journal rows are immutable'); END;
CREATE TRIGGER {table}_is_never_removed BEFORE DELETE ON {table} WHEN NOT {pruned}
BEGIN SELECT RAISE(ABORT, 'journal rows are immutable'); END;
"""


_GUARDS: Final = "".join(
    (
        _immutable("event", f"OLD.id >> {SEQ_BITS}"),
        _immutable("batch", f"OLD.id >> {SEQ_BITS}"),
        _immutable("stream", ""),
        _immutable("seal", ""),
        _immutable("tombstone", ""),
        f"""
CREATE TRIGGER a_sealed_stream_takes_no_event BEFORE INSERT ON batch
WHEN EXISTS(SELECT 1 FROM seal WHERE stream = NEW.id >> {SEQ_BITS})
BEGIN SELECT RAISE(ABORT, 'the stream is sealed'); END;
CREATE TRIGGER only_a_sealed_stream_is_pruned BEFORE INSERT ON tombstone
WHEN NOT EXISTS(SELECT 1 FROM seal WHERE stream = NEW.stream)
BEGIN SELECT RAISE(ABORT, 'only a sealed stream can be pruned'); END;
""",
    )
)

SCHEMA: Final = _TABLES + _GUARDS


def guards() -> frozenset[str]:
    """The names of the triggers that a journal must have."""
    words = _GUARDS.split()
    return frozenset(
        words[i + 2] for i, word in enumerate(words) if word == "CREATE" and words[i + 1] == "TRIGGER"
    )


def key(stream: int, seq: int) -> int:
    """The row id of an event or batch: its stream in the high bits, its seq in the low."""
    return stream << SEQ_BITS | seq


def open_writer(path: Path) -> Connection:
    """A connection whose commits are on the disk when they return; makes the file if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    connection = connect(path)
    try:
        _configure(connection)
        connection.transaction_mode = "IMMEDIATE"
        _patiently(connection, "PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _ensure_schema(connection)
    except BaseException:
        connection.close()
        raise
    path.chmod(0o600)
    return connection


def open_reader(path: Path) -> Connection:
    """A connection that can only read; each statement sees one consistent state."""
    if not path.exists():
        raise JournalError(f"there is no journal at {path}")
    connection = connect(path, read_only=True)
    try:
        _configure(connection)
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: Connection) -> None:
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


def _patiently(connection: Connection, statement: str) -> None:
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
    if connection.pragma("application_id") == APPLICATION_ID:
        return
    with connection:
        if connection.pragma("application_id") == APPLICATION_ID:
            return
        if next(connection.execute("SELECT count(*) FROM sqlite_master"))[0]:
            raise JournalError(f"{connection.filename} is another program's database")
        connection.execute(SCHEMA)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _check(connection: Connection) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise JournalError(f"{connection.filename} is not a journal")
