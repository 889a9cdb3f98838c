"""Formats of our SQLite files: how one is told from another, and opened durable and bounded in waiting."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tracedesk.journal.sqlite import BusyError, Connection, NotADBError, connect

BUSY_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.001

DEFINITIONS: Final = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file: its name in messages, its mark in the file's header, and its schema."""

    noun: str
    application_id: int
    schema: str
    error: type[Exception]
    """What a file that cannot be opened as this kind is refused with."""

    def open_writer(self, path: Path, *, vfs: str | None = None) -> Connection:
        """A connection whose commits are on the disk when they return; makes the file if it is not there."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _create_private(path)
        connection = connect(path, vfs=vfs)
        with self._closing_on_failure(connection):
            _configure(connection)
            connection.transaction_mode = "IMMEDIATE"
            self._refuse_foreign(connection)
            path.chmod(0o600)
            _patiently(connection, "PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._ensure_schema(connection)
        return connection

    def open_reader(self, path: Path) -> Connection:
        """A connection that can only read, also while others write; a statement sees one consistent state."""
        if not path.exists():
            raise self.error(f"there is no {self.noun} at {path}")
        connection = connect(path, read_only=True)
        with self._closing_on_failure(connection):
            _configure(connection)
            if not self._is_marked(connection):
                raise NotADBError
        return connection

    def definitions(self) -> Mapping[str, str]:
        """The tables, indexes and triggers that a file must have, as SQLite writes them down."""
        return _definitions(self.schema)

    @contextmanager
    def _closing_on_failure(self, connection: Connection) -> Generator[None]:
        try:
            yield
        except NotADBError:
            name = connection.filename
            connection.close()
            raise self.error(f"{name} is not a {self.noun}") from None
        except BaseException:
            connection.close()
            raise

    def _ensure_schema(self, connection: Connection) -> None:
        if self._is_marked(connection):
            return
        with connection:
            if not self._is_marked(connection):
                connection.execute(self.schema)
                connection.execute(f"PRAGMA application_id = {self.application_id}")

    def _refuse_foreign(self, connection: Connection) -> None:
        """Before anything is written: another program's file stays as it is."""
        connection.execute("BEGIN DEFERRED")
        used = next(connection.execute("SELECT count(*) FROM sqlite_master"))[0]
        if used and not self._is_marked(connection):
            raise self.error(f"{connection.filename} is another program's database")
        connection.execute("COMMIT")

    def _is_marked(self, connection: Connection) -> bool:
        return connection.pragma("application_id") == self.application_id


@cache
def _definitions(schema: str) -> Mapping[str, str]:
    blank = connect(Path(":memory:"))
    blank.execute(schema)
    found = dict(blank.execute(DEFINITIONS))
    blank.close()
    return found


def _create_private(path: Path) -> None:
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


def _configure(connection: Connection) -> None:
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
