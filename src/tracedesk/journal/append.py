"""Writing: batches of events, each on the disk and in the chain when `append` returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain as linked
from operator import ge
from pathlib import Path
from struct import error as StructError
from types import TracebackType
from typing import Any, Final

from tracedesk.journal import chain, seal
from tracedesk.journal.file import MAX_SEQ, key, open_writer
from tracedesk.journal.model import (
    BadEntry,
    Columns,
    Entry,
    Head,
    JournalBusy,
    Seal,
    SeqConflict,
    Status,
    Stream,
    StreamSealed,
    UnknownStream,
)
from tracedesk.journal.sqlite import BusyError, Connection, SQLiteError, insert, insert_flat
from tracedesk.journal.stream import find, head_of
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock, SystemClock

Beside = Callable[[Connection, int], None]
"""Work done in the same transaction as an append, given the connection and the first seq."""

_LONGEST_KIND: Final = 128
_LONGEST_NAME: Final = 256
_EARLIEST: Final = -(2**63)
_LATEST: Final = 2**63 - 1
_WIDTH: Final = len(Entry._fields)


class Journal:
    """One journal file open for writing. Not for two threads at once; open one each."""

    def __init__(self, path: Path, clock: Clock | None = None, *, vfs: str | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._connection, self._keeper = open_writer(path, vfs=vfs)
        self._streams: dict[str, Stream] = {}

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """For the projections that a toolset keeps in the same file."""
        return self._connection

    def open(self, name: str, kind: str, meta: Mapping[str, Any] | None = None) -> Stream:
        """The stream of that name, made now if it is new."""
        if not 0 < len(name) <= _LONGEST_NAME:
            raise BadEntry(f"a stream's name has 1 to {_LONGEST_NAME} characters")
        with self._writing(), self._keeper:
            found = find(self._connection, name)
            return found or self._create(name, kind, meta or {})

    def append(
        self,
        name: str,
        entries: Sequence[Entry],
        *,
        expect: int | None = None,
        beside: Beside | None = None,
    ) -> range:
        """Append a batch and return its seqs; when this returns, the batch is on the disk.

        `expect` is the first seq a sole writer counts on. `beside` runs in the same transaction, so
        what it writes and the events exist together or not at all.
        """
        if not entries:
            return range(0)
        with self._writing() as connection:
            stream = self._stream(name)
            if seal.is_sealed(connection, stream):
                raise StreamSealed(name)
            head = head_of(connection, stream)
            first = head.seq + 1
            if expect is not None and expect != first:
                raise SeqConflict(name, expect, first)
            seqs = range(first, first + len(entries))
            values = list(linked.from_iterable(entries))
            link = _link(stream, head, seqs, entries, values)
            with self._keeper:
                connection.execute("INSERT INTO batch VALUES(?,?,?)", (key(stream.id, first), seqs[-1], link))
                _insert(connection, stream, head, seqs, values)
            if beside is not None:
                beside(connection, first)
            return seqs

    def seal(self, name: str, status: Status = "ended", extra: Mapping[str, Any] | None = None) -> Seal:
        """End a stream; sealing it again returns the seal it has."""
        with self._writing() as connection, self._keeper:
            stream = self._stream(name)
            return seal.close(connection, stream, status, extra or {}, self._clock.now_ns())

    def prune(self, name: str) -> Seal:
        """Remove a sealed stream's events, leaving its manifest and a tombstone."""
        with self._writing() as connection, self._keeper:
            return seal.bury(connection, self._stream(name), self._clock.now_ns())

    def _writing(self) -> Transaction:
        return Transaction(self._connection)

    def _create(self, name: str, kind: str, meta: Mapping[str, Any]) -> Stream:
        identifier = next(self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM stream"))[0]
        row = (identifier, name, kind, self._clock.now_ns(), json.dumps(meta))
        stream = Stream(*row)
        self._connection.execute("INSERT INTO stream VALUES(?,?,?,?,?,?)", (*row, chain.genesis(stream)))
        return stream

    def _stream(self, name: str) -> Stream:
        known = self._streams.get(name)
        if known is None:
            known = find(self._connection, name)
            if known is None:
                raise UnknownStream(name)
            self._streams[name] = known
        return known


class Transaction:
    """A short write transaction: begun at once, so that what it reads is what it writes on.

    What ends it early is what its user hears of, also where SQLite has undone everything by itself, as it
    does on a full disk, and refuses to undo it again.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Connection:
        try:
            self._connection.__enter__()
        except BusyError:
            raise JournalBusy("other writers held the journal for five seconds; try again") from None
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        outside = sys.exception()
        try:
            self._connection.__exit__(kind, problem, trace)
        except SQLiteError as fault:
            if self._connection.in_transaction:
                raise
            if problem is None:
                raise _first(fault, outside) from None


def _first(fault: BaseException, outside: BaseException | None) -> BaseException:
    """What began a row of failures, each met while the one before it was handled."""
    while fault.__context__ is not None and fault.__context__ is not outside:
        fault = fault.__context__
    return fault


def _link(stream: Stream, head: Head, seqs: range, entries: Sequence[Entry], values: list[Any]) -> bytes:
    """The chain's hash after a batch of entries that can be appended."""
    batch = _columns(seqs, values)
    if batch is not None:
        try:
            return chain.link(stream, head.hash, seqs, batch)
        except StructError:  # a time that has no 64 bits, or is no integer
            if not any(map(_refusal, entries, seqs)):
                raise
    raise next(filter(None, map(_refusal, entries, seqs)))


def _columns(seqs: range, values: list[Any]) -> Columns | None:
    """The batch by columns, which is how it is checked and hashed, without a loop; None for a bad one."""
    if seqs[-1] > MAX_SEQ:
        raise BadEntry("the stream is full")
    kinds, times, bodies, named = (values[column::_WIDTH] for column in range(_WIDTH))
    parents = [parent or 0 for parent in named]
    forward = any(map(ge, parents, seqs)) or min(parents) < 0 or 0 in named
    lengths = {len(kind) for kind in set(kinds)}
    if forward or min(lengths) < 1 or max(lengths) > _LONGEST_KIND:
        return None
    return Columns(kinds, times, bodies, parents)


def _insert(connection: Connection, stream: Stream, head: Head, seqs: range, values: list[Any]) -> None:
    """Insert a batch of events.

    Where no other stream's are behind the stream's last, the engine numbers them itself: each row gets
    the number after the table's last, and it need not look whether that is taken.
    """
    last = next(connection.execute("SELECT max(id) FROM event"))[0]
    if last == key(stream.id, head.seq):
        insert_flat(connection, "INSERT INTO event(kind, time_ns, body, parent)", _WIDTH, values)
        return
    ids = range(key(stream.id, seqs[0]), key(stream.id, seqs[-1]) + 1)
    columns = (ids, *(values[column::_WIDTH] for column in range(_WIDTH)))
    insert(connection, "INSERT INTO event(id, kind, time_ns, body, parent)", columns)


def _refusal(entry: Entry, seq: int) -> BadEntry | None:
    if entry.parent is not None and not 0 < entry.parent < seq:
        return BadEntry(f"event {seq} names {entry.parent} as its parent, which is not an earlier event")
    if not 0 < len(entry.kind) <= _LONGEST_KIND:
        return BadEntry(f"event {seq} needs a kind of 1 to {_LONGEST_KIND} characters")
    if not _EARLIEST <= entry.time_ns <= _LATEST:
        return BadEntry(f"event {seq} has a time outside 64-bit nanoseconds")
    return None
