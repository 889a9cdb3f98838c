"""The part of an SQLite connection that stores use, typed; `apsw` is the only engine behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, cast

import apsw

BusyError = apsw.BusyError
ConstraintError = apsw.ConstraintError
InterruptError = apsw.InterruptError
NotADBError = apsw.NotADBError
SQLiteError = apsw.Error


class Connection(Protocol):
    """A connection; as a context manager it is a transaction (a savepoint inside one)."""

    transaction_mode: str

    @property
    def filename(self) -> str: ...
    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] | None = None) -> Iterator[Any]: ...
    def executemany(self, statements: str, rows: Iterable[Sequence[Any]]) -> Iterator[Any]: ...
    def pragma(self, name: str, value: Any = None) -> Any: ...
    def changes(self) -> int: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...
    def set_busy_handler(self, callable: Callable[[int], bool] | None) -> None: ...
    def backup(self, databasename: str, sourceconnection: Any, sourcedatabasename: str) -> Any: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> Any: ...


def connect(path: Path, *, read_only: bool = False, vfs: str | None = None) -> Connection:
    """A connection to `path`, which is made if it is not there."""
    create = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    flags = apsw.SQLITE_OPEN_READONLY if read_only else create
    return cast("Connection", apsw.Connection(str(path), flags=flags, vfs=vfs))


CHUNK = 64
"""Rows per statement: each statement hands the interpreter lock over once, not once per row."""


def insert(connection: Connection, into: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of equal width, many to a statement."""
    if not rows:
        return
    place = f"({','.join('?' * len(rows[0]))})"
    whole = len(rows) - len(rows) % CHUNK
    many = f"{into} VALUES {','.join([place] * CHUNK)}"
    for start in range(0, whole, CHUNK):
        connection.execute(many, tuple(chain.from_iterable(rows[start : start + CHUNK])))
    connection.executemany(f"{into} VALUES {place}", rows[whole:])
