"""The part of an SQLite connection that stores use, typed; `apsw` is the only engine behind it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, cast

import apsw

AuthError = apsw.AuthError
BusyError = apsw.BusyError
CantOpenError = apsw.CantOpenError
ConstraintError = apsw.ConstraintError
DiskIOError = apsw.IOError
FullError = apsw.FullError
InterruptError = apsw.InterruptError
NotADBError = apsw.NotADBError
ReadOnlyError = apsw.ReadOnlyError
SQLiteError = apsw.Error


class Keeper:
    """Keeps a connection's tables from every statement but those prepared inside its `with`.

    It does at the price of a prepared statement what triggers do at the price of a row, for a
    connection whose triggers are off; other connections meet the triggers.
    """

    def __init__(self, connection: Connection, tables: Collection[str]) -> None:
        self._tables = frozenset(tables)
        self._is_open = False
        self._engine = cast("apsw.Connection", connection)
        self._engine.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        self._engine.authorizer = self._judge

    def __enter__(self) -> None:
        self._is_open = True

    def __exit__(self, *_: object) -> None:
        self._is_open = False

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        """Judge nothing meanwhile: to judge what native code prepares, it would wait for the interpreter."""
        self._engine.authorizer = None
        try:
            yield
        finally:
            self._engine.authorizer = self._judge

    def _judge(self, action: int, one: str | None, two: str | None, database: str | None, _: Any) -> int:
        if self._is_open or action not in _WRITES or database not in ("main", None):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY if one in self._tables or two in self._tables else apsw.SQLITE_OK


_WRITES = {
    apsw.SQLITE_INSERT,
    apsw.SQLITE_UPDATE,
    apsw.SQLITE_DELETE,
    apsw.SQLITE_DROP_TABLE,
    apsw.SQLITE_CREATE_TRIGGER,
    apsw.SQLITE_DROP_TRIGGER,
    apsw.SQLITE_ALTER_TABLE,
}


class Connection(Protocol):
    """A connection; as a context manager it is a transaction (a savepoint inside one)."""

    transaction_mode: str
    transaction: Any
    """The innermost `Transaction` that is open on it, or None."""
    undone: int
    """How many transactions came to nothing on it."""

    @property
    def filename(self) -> str: ...
    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] | None = None) -> Iterator[Any]: ...
    def executemany(self, statements: str, rows: Iterable[Sequence[Any]]) -> Iterator[Any]: ...
    def pragma(self, name: str, value: Any = None) -> Any: ...
    def changes(self) -> int: ...
    def total_changes(self) -> int: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...
    def set_busy_handler(self, callable: Callable[[int], bool] | None) -> None: ...
    def set_wal_hook(self, callable: Callable[[Any, str, int], int] | None) -> None: ...
    def backup(self, databasename: str, sourceconnection: Any, sourcedatabasename: str) -> Any: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> Any: ...


class _Connection(apsw.Connection):
    transaction: Any = None
    undone: int = 0

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.undone += kind is not None
        try:
            return super().__exit__(kind, problem, trace)
        except SQLiteError:
            self.undone += kind is None
            raise


def connect(
    path: Path, *, read_only: bool = False, create: bool = True, vfs: str | None = None
) -> Connection:
    """A connection to `path`, which is made if it is not there, unless it must be."""
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    if create and not read_only:
        flags |= apsw.SQLITE_OPEN_CREATE
    return cast("Connection", _Connection(str(path), flags=flags, vfs=vfs))


def load(connection: Connection, library: str, entry: str) -> None:
    """Let a connection use an extension; statements still cannot load any."""
    engine = cast("apsw.Connection", connection)
    engine.enable_load_extension(True)
    try:
        engine.load_extension(library, entry)
    finally:
        engine.enable_load_extension(False)


def bound_memory(size: int) -> None:
    """Have all connections of this process together reuse their pages beyond `size` bytes.

    Each one's own cache is bounded too; but a desk has dozens, and reaches the sum of their bounds only after
    hours. A statement that needs more still gets it.
    """
    apsw.soft_heap_limit(size)


def plan_once(connection: Connection) -> None:
    """Have statements planned when they are prepared, and never again.

    Left to itself, SQLite plans one over a partial index anew for every value that is bound, in case that a
    better index fits the value. For connections whose statements leave no choice of index.
    """
    cast("apsw.Connection", connection).config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


BUSY_SECONDS = 5.0
_RETRY_SECONDS = 0.001


class Patience:
    """Waits for other writers in short, even steps, so that none is starved, and gives up after a bound.

    Under the engine's own `busy_timeout`, threads of one process that open a new file have been seen to wait
    for each other until it ended.
    """

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
    """Run a statement that does not consult the busy handler, such as switching a new file to WAL."""
    wait = Patience()
    attempt = 0
    while True:
        try:
            connection.execute(statement)
            return
        except BusyError:
            if not wait(attempt):
                raise
            attempt += 1


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


CHUNKS = (500, 250, 50, 8, 1)
"""Rows per statement: each statement hands the interpreter lock over, and opens its table's indexes, once."""
FEW: Final = (50, 8, 1)
"""For tables without indexes: what one statement is given stays in the processor's nearest memory."""
_LONGEST_KEPT = 16_384
"""Bytes of a statement that the engine keeps prepared; a longer one is compiled each time."""


def insert(connection: Connection, into: str, columns: Sequence[Sequence[Any]]) -> None:
    """Insert rows given as columns of equal length, many to a statement."""
    insert_flat(connection, into, len(columns), flattened(columns))


def flattened(columns: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of columns of equal length, row after row."""
    width = len(columns)
    flat: list[Any] = [None] * (width * len(columns[0]))
    for number, column in enumerate(columns):
        flat[number::width] = column
    return flat


def insert_flat(
    connection: Connection, into: str, width: int, flat: list[Any], chunks: Sequence[int] = CHUNKS
) -> None:
    """Insert rows given as their values one after the other, `width` to a row, many to a statement."""
    done = 0
    for chunk in chunks:
        step = chunk * width
        if len(flat) - done < step:
            continue
        statement = _values(into, width, chunk)
        if len(statement) > _LONGEST_KEPT and chunk > 1:
            continue
        while len(flat) - done >= step:
            connection.execute(statement, flat[done : done + step])
            done += step


@cache
def _values(into: str, width: int, rows: int) -> str:
    place = f"({','.join('?' * width)})"
    return f"{into} VALUES {','.join([place] * rows)}"
