"""Items that the desks of one home share for a while: simulations, previews, used consents.

The file is of one run of the system, so it needs no fsync: a commit survives the end of its process, and
after a power loss there is another file. It lies in `run/`, which backups leave out.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from tracedesk.hooks import SUBJECT
from tracedesk.journal.sqlite import Connection, Patience, SQLiteError, connect, create_private, patiently
from tracedesk.primitives.time import Clock

log = logging.getLogger(__name__)
T = TypeVar("T")

LARGEST: Final = 1 << 18
"""Bytes of one item."""

_KEPT_AFTER_TRIM: Final = 0.9
"""Share of a bound that trimming leaves, so that not every item at the bound has to trim."""

_EXPIRY_EVERY: Final = 64
"""Items between two removals of what has expired; until then it only takes room."""

_STALE_SECONDS: Final = 86_400.0
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS item(
  holder TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  is_subject INTEGER NOT NULL,
  made REAL NOT NULL,
  until REAL NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY(holder, kind, name)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS held(
  holder TEXT NOT NULL, kind TEXT NOT NULL, is_subject INTEGER NOT NULL,
  items INTEGER NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY(holder, kind)
) WITHOUT ROWID, STRICT;
CREATE TRIGGER IF NOT EXISTS item_in AFTER INSERT ON item BEGIN
  INSERT INTO held VALUES(new.holder, new.kind, new.is_subject, 1, length(new.body))
    ON CONFLICT DO UPDATE SET items = items + 1, bytes = bytes + length(new.body);
END;
CREATE TRIGGER IF NOT EXISTS item_out AFTER DELETE ON item BEGIN
  UPDATE held SET items = items - 1, bytes = bytes - length(old.body)
    WHERE holder = old.holder AND kind = old.kind;
  DELETE FROM held WHERE holder = old.holder AND kind = old.kind AND items = 0;
END;
"""
_NAMED: Final = "holder = ? AND kind = ? AND name = ?"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most items, and most bytes of items; the oldest make room for the newest."""

    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Quotas:
    """Bounds of one holder's items of one kind, of all subjects, and of all scopes without a subject.

    Subjects and scopes never push each other out: a stranger cannot take the owner's items away.
    """

    holder: Bounds = Bounds(2_000, 8 << 20)
    subjects: Bounds = Bounds(40_000, 128 << 20)
    scopes: Bounds = Bounds(2_000, 8 << 20)


class SharedStore:
    """The items of one home. Any thread may use it; each method is one transaction."""

    def __init__(self, folder: Path, clock: Clock, quotas: Quotas | None = None) -> None:
        """`folder` is the home's `run`."""
        self.path = folder / f"shared-{boot()}.db"
        self._clock = clock
        self._quotas = quotas or Quotas()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, "shared-store")
        self._puts = 0
        self._scopes: set[str] = set()
        """Scopes of this desk that may hold items."""

    async def run(self, work: Callable[[SharedStore], T]) -> T:
        """Run `work` on this store in its own thread, to its end even where the caller gives up."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, work, self))

    def put(self, holder: str, kind: str, name: str, body: bytes, seconds: float) -> None:
        """Store an item for so long, instead of the one that had its name."""
        if len(body) > LARGEST:
            raise ValueError(f"an item of {len(body)} bytes is too large to share; at most {LARGEST} fit")
        with self._writing() as connection:
            self._put(connection, holder, kind, name, body, seconds)

    def get(self, holder: str, kind: str, name: str) -> bytes | None:
        """The item of that name; None where there is none, or its time is over."""
        with self._lock:
            return self._get(self._open(), holder, kind, name)

    def replace(self, holder: str, kind: str, name: str, body: bytes, seconds: float) -> bool:
        """Change an item that is still there; False where it is not."""
        with self._writing() as connection:
            if self._get(connection, holder, kind, name) is None:
                return False
            self._put(connection, holder, kind, name, body, seconds)
            return True

    def remove(self, holder: str, kind: str, name: str) -> None:
        """Remove an item; no desk finds it from then on."""
        with self._writing() as connection:
            connection.execute(f"DELETE FROM item WHERE {_NAMED}", (holder, kind, name))

    def claim(self, holder: str, kind: str, name: str, seconds: float) -> bool:
        """Take a name that nobody has taken; of several desks that try, one is answered True."""
        with self._writing() as connection:
            if self._get(connection, holder, kind, name) is not None:
                return False
            self._put(connection, holder, kind, name, b"", seconds)
            return True

    def forget(self, holder: str) -> None:
        """Remove everything that a holder has."""
        with self._writing() as connection:
            connection.execute("DELETE FROM item WHERE holder = ?", (holder,))
        self._scopes.discard(holder)

    def ended(self, scope: str) -> None:
        """Remove the items of a scope that has ended, soon and in the background."""
        if scope in self._scopes and not self._closed:
            self._thread.submit(self._forget_quietly, scope)

    def close(self) -> None:
        """Finish what was begun, and close the file."""
        self._thread.shutdown(wait=True)
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # --- inside a transaction

    def _get(self, connection: Connection, holder: str, kind: str, name: str) -> bytes | None:
        query = f"SELECT body FROM item WHERE {_NAMED} AND until >= ?"
        rows = connection.execute(query, (holder, kind, name, self._clock.monotonic()))
        return next((body for (body,) in rows), None)

    def _put(
        self, connection: Connection, holder: str, kind: str, name: str, body: bytes, seconds: float
    ) -> None:
        now, is_subject = self._clock.monotonic(), int(holder.startswith(SUBJECT))
        if self._puts % _EXPIRY_EVERY == 0:
            connection.execute("DELETE FROM item WHERE until < ?", (now,))
        self._puts += 1
        connection.execute(f"DELETE FROM item WHERE {_NAMED}", (holder, kind, name))
        row = (holder, kind, name, is_subject, now, now + seconds, body)
        connection.execute("INSERT INTO item VALUES(?,?,?,?,?,?,?)", row)
        if not is_subject:
            self._scopes.add(holder)
        group = self._quotas.subjects if is_subject else self._quotas.scopes
        _trim(connection, "holder = ? AND kind = ?", (holder, kind), self._quotas.holder)
        _trim(connection, "is_subject = ?", (is_subject,), group)

    # --- the file

    @contextmanager
    def _writing(self) -> Generator[Connection]:
        with self._lock:
            connection = self._open()
            with connection:
                yield connection

    def _open(self) -> Connection:
        if self._closed:
            raise SQLiteError("the desk is closing")
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_stale(self.path)
            create_private(self.path)
            opened = connect(self.path)
            opened.set_busy_handler(Patience())
            patiently(opened, "PRAGMA journal_mode = WAL")
            # Another run of the system has another file; where it cannot be told from this one, sync.
            opened.pragma("synchronous", "OFF" if boot() else "FULL")
            opened.transaction_mode = "IMMEDIATE"
            with opened:
                for _ in opened.execute(_SCHEMA):
                    pass
            self._connection = opened
        return self._connection

    def _forget_quietly(self, scope: str) -> None:
        try:
            self.forget(scope)
        except (SQLiteError, OSError) as problem:
            log.warning("items of an ended session stay until they expire: %s", problem)


def _trim(connection: Connection, where: str, bindings: tuple[str | int, ...], bounds: Bounds) -> None:
    """Remove the oldest of these items where there are more than their bounds allow."""
    usage = f"SELECT coalesce(sum(items), 0), coalesce(sum(bytes), 0) FROM held WHERE {where}"
    while True:
        items, size = next(connection.execute(usage, bindings))
        if items <= bounds.items and size <= bounds.bytes:
            return
        excess = items - int(bounds.items * _KEPT_AFTER_TRIM)
        count = max(1, min(excess, items - 1) if items > bounds.items else items // 10)
        oldest = f"SELECT holder, kind, name FROM item WHERE {where} ORDER BY made LIMIT ?"
        connection.execute(f"DELETE FROM item WHERE (holder, kind, name) IN ({oldest})", (*bindings, count))


def _remove_stale(path: Path) -> None:
    """Remove the files of earlier runs of the system, once nobody can be using them."""
    for file in path.parent.glob("shared-*.db*"):
        if not file.name.startswith(path.name):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                    file.unlink()


@cache
def boot() -> str:
    """Short name of this run of the system, which monotonic times belong to; empty where none is known."""
    try:
        named = _BOOT.read_bytes()
    except OSError:
        named = _boot_of_macos() if sys.platform == "darwin" else b""
    return hashlib.sha256(named.strip()).hexdigest()[:16] if named else ""


def _boot_of_macos() -> bytes:
    buffer = ctypes.create_string_buffer(64)
    length = ctypes.c_size_t(len(buffer))
    failed = ctypes.CDLL(None).sysctlbyname(
        b"kern.bootsessionuuid", buffer, ctypes.byref(length), None, ctypes.c_size_t(0)
    )
    return b"" if failed else buffer.value
