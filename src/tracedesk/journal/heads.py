"""Heads that one file of a home stores of another, so that a file replaced by an older copy is found.

Each of the two files stores the other's latest hash in a table of its own, in a transaction that writes
events anyway. A stored head is a lower bound: it names a state that the other file had on the disk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tracedesk.journal import chain, seal
from tracedesk.journal.file import key
from tracedesk.journal.format import definitions_of
from tracedesk.journal.model import Head
from tracedesk.journal.sqlite import Connection
from tracedesk.journal.stream import find

log = logging.getLogger(__name__)

SCHEMA: Final = """
CREATE TABLE remembered_head(
  stream TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER remembered_head_never_goes_back BEFORE UPDATE ON remembered_head
WHEN NEW.stream <> OLD.stream OR NEW.seq < OLD.seq OR (NEW.seq = OLD.seq AND NEW.hash <> OLD.hash)
BEGIN SELECT RAISE(ABORT, 'a remembered head never goes back'); END;
CREATE TRIGGER remembered_head_is_never_removed BEFORE DELETE ON remembered_head
BEGIN SELECT RAISE(ABORT, 'a remembered head is never removed'); END;
"""
_TABLE: Final = "remembered_head"
_HAS_TABLE: Final = f"SELECT 1 FROM sqlite_master WHERE name = '{_TABLE}'"
_STORED: Final = f"SELECT seq, hash FROM {_TABLE} WHERE stream = ?"
_STORE: Final = (
    f"INSERT INTO {_TABLE} VALUES(?,?,?) "
    "ON CONFLICT(stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash"
)

Contradiction = Callable[[str, Head], str | None]
"""`(stream, head) -> the reason why the other file cannot have had that head, or None`.

Raises `Unreadable` where the file cannot be asked."""


class Unreadable(Exception):
    """The other file cannot be asked now."""


class Heads:
    """The newest heads that this process has committed to one file; any thread may use it.

    Nothing is read from the file: a commit that another process was killed in can be visible to readers
    before it is on the disk, and a power loss would then take it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: dict[str, Head] = {}
        self.version = 0

    def committed(self, stream: str, head: Head) -> None:
        """Take note of a head whose commit has returned."""
        with self._lock:
            known = self._heads.get(stream)
            if known is None or known.seq < head.seq:
                self._heads[stream] = head
                self.version += 1

    def snapshot(self) -> tuple[int, Mapping[str, Head]]:
        """The heads, and the version that they are of."""
        with self._lock:
            return self.version, dict(self._heads)


@dataclass(slots=True)
class Witness:
    """Both directions for one file: the heads it commits, and the other file's heads that it stores."""

    own: Heads
    other: Heads
    contradiction: Contradiction
    """Looks a stored head up in the other file."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stored: dict[str, Head] = field(default_factory=dict[str, Head])
    _version: int = 0
    _refused: set[str] = field(default_factory=set[str])

    def store(self, connection: Connection) -> None:
        """Store the other file's newest heads, inside the transaction that is open for other reasons."""
        if self.other.version == self._version:
            return
        with self._lock:
            self._version, heads = self.other.snapshot()
            for stream, head in heads.items():
                if self._stored.get(stream) != head:
                    self._store(connection, stream, head)

    def _store(self, connection: Connection, stream: str, head: Head) -> None:
        known = next((Head(*row) for row in connection.execute(_STORED, (stream,))), None)
        if known is not None and known.seq >= head.seq:
            return  # another process stored a later one
        if known is not None and known != self._stored.get(stream) and not self._follows(stream, known):
            return
        connection.execute(_STORE, (stream, *head))
        self._stored[stream] = head

    def _follows(self, stream: str, known: Head) -> bool:
        """True when the other file still has a head that another process stored.

        If it has not, the stored head is the only proof of what was lost, and must not be overwritten.
        """
        try:
            problem = self.contradiction(stream, known)
        except Unreadable as fault:
            log.info("the head of %s is stored with a later commit: %s", stream, fault)
            self._version = -1
            return False
        if problem is None:
            return True
        if stream not in self._refused:
            self._refused.add(stream)
            log.critical("stream %s is not the one that was written before: %s", stream, problem)
        return False


def prepare(connection: Connection) -> None:
    """Make the table, if the file has none."""
    if any(connection.execute(_HAS_TABLE)):
        return
    with connection:
        if not any(connection.execute(_HAS_TABLE)):
            connection.execute(SCHEMA)


def stored(connection: Connection) -> dict[str, Head]:
    """The other file's heads that this one stores."""
    if not any(connection.execute(_HAS_TABLE)):
        return {}
    rows = connection.execute(f"SELECT stream, seq, hash FROM {_TABLE} ORDER BY stream")
    return {stream: Head(seq, digest) for stream, seq, digest in rows}


def definitions() -> Mapping[str, str]:
    """The table and guards that `prepare` makes."""
    return definitions_of(SCHEMA)


def changed_definitions(found: Mapping[str, str]) -> list[str]:
    """The table and guards that are not as `prepare` makes them; none in a file that never had them."""
    wanted = definitions()
    if not any(name in found for name in wanted):
        return []
    return sorted(name for name, sql in wanted.items() if found.get(name) != sql)


def contradiction(connection: Connection, name: str, head: Head) -> str | None:
    """The reason why a journal's stream cannot have had that head; None if it had, as far as is known."""
    stream = find(connection, name)
    if stream is None:
        return f"the stream is missing; {head.seq} events of it were written"
    if seal.is_pruned(connection, stream):
        return _pruned_contradiction(seal.manifest(connection, stream), head)
    query = "SELECT last, hash FROM batch WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"
    bounds = (key(stream.id, 0), key(stream.id, head.seq))
    last, digest = next(iter(connection.execute(query, bounds)), (0, chain.genesis(stream)))
    return compared(head, Head(last, digest))


def compared(head: Head, found: Head) -> str | None:
    """Compare a head with the last one that a chain has up to the same seq."""
    if found.seq < head.seq:
        return f"it ends at {found.seq}, and {head.seq} were written"
    return None if found == head else f"number {head.seq} is not the one that was written"


def _pruned_contradiction(facts: Mapping[str, object], head: Head) -> str | None:
    """Of a pruned stream only the last head is left."""
    events = facts.get("events")
    if not isinstance(events, int) or events < head.seq:
        return f"it was pruned at {events}, and {head.seq} were written"
    same = events > head.seq or facts.get("head") == head.hash.hex()
    return None if same else f"number {head.seq} is not the one that was written"
