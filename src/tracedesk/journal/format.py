"""Formats of our SQLite files: how one is told from another, and opened durable and bounded in waiting."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tracedesk.journal.sqlite import (
    Connection,
    NotADBError,
    Patience,
    connect,
    create_private,
    patiently,
)

DEFINITIONS: Final = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file: its name in messages, its mark in the file's header, and its schema."""

    noun: str
    application_id: int
    schema: str
    error: type[Exception]
    """What a file that cannot be opened as this kind is refused with."""
    page: int = 4096
    """Bytes of a page of a new file: larger ones suit rows that come in batches and stay."""

    def open_writer(self, path: Path, *, vfs: str | None = None, page: int | None = None) -> Connection:
        """A connection whose commits are on the disk when they return; makes the file if it is not there.

        `page` is for a new file that is not like most of its kind; a file keeps the pages it has.
        """
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_private(path)
        connection = connect(path, vfs=vfs)
        with self._closing_on_failure(connection):
            _configure(connection)
            connection.transaction_mode = "IMMEDIATE"
            self._refuse_foreign(connection)
            path.chmod(0o600)
            connection.execute(f"PRAGMA page_size = {page or self.page}")
            patiently(connection, "PRAGMA journal_mode = WAL")
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
                if self._is_empty(connection):
                    raise self.error(f"there is no {self.noun} at {path} yet; its next writer makes it")
                raise NotADBError
        return connection

    def definitions(self) -> Mapping[str, str]:
        """The tables, indexes and triggers that a file must have, as SQLite writes them down."""
        return definitions_of(self.schema)

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
        if not self._is_empty(connection) and not self._is_marked(connection):
            raise self.error(f"{connection.filename} is another program's database")
        connection.execute("COMMIT")

    def _is_empty(self, connection: Connection) -> bool:
        """Whether nobody has made anything in the file: whoever began to was killed."""
        return next(connection.execute("SELECT count(*) FROM sqlite_master"))[0] == 0

    def _is_marked(self, connection: Connection) -> bool:
        return connection.pragma("application_id") == self.application_id


@cache
def definitions_of(schema: str) -> Mapping[str, str]:
    """Tables, indexes and triggers of a schema, as SQLite writes them down."""
    blank = connect(Path(":memory:"))
    blank.execute(schema)
    found = dict(blank.execute(DEFINITIONS))
    blank.close()
    return found


def _configure(connection: Connection) -> None:
    """Bound what a connection waits for and what it keeps in memory."""
    connection.set_busy_handler(Patience())
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cache_size = -8192")
