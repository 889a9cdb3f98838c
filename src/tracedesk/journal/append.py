"""Writing: batches of events, each on the disk and in the chain when `append` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain as linked
from operator import ge
from pathlib import Path
from struct import error as StructError
from typing import Any, Final, Protocol

from tracedesk.journal import chain, forgetting, heads, seal
from tracedesk.journal.file import MAX_SEQ, key, open_writer
from tracedesk.journal.heads import Witness
from tracedesk.journal.model import (
    BadEntry,
    Columns,
    Entry,
    Head,
    Seal,
    SeqConflict,
    Status,
    Stream,
    StreamSealed,
    UnknownStream,
)
from tracedesk.journal.sqlite import FEW, Connection, flattened, insert, insert_flat
from tracedesk.journal.stream import FRAMING, find
from tracedesk.journal.tally import Tally
from tracedesk.journal.transaction import Part, Transaction, writing
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock, SystemClock

Beside = Callable[[Connection, int], None]
"""Work done in the same transaction as an append, given the connection and the first seq."""

_LONGEST_KIND: Final = 128
_LONGEST_NAME: Final = 256
_EARLIEST: Final = -(2**63)
_LATEST: Final = 2**63 - 1
_WIDTH: Final = len(Entry._fields)
_BATCH: Final = "INSERT INTO batch VALUES(?,?,?)"
_EVENT: Final = "INSERT INTO event(id, kind, time_ns, body, parent) VALUES(?,?,?,?,?)"


class Packed(Protocol):
    """A batch that somebody else holds, checked and ready: it tells its hash, and inserts its own rows."""

    @property
    def count(self) -> int: ...
    @property
    def tally(self) -> Tally: ...
    def link(self, previous: bytes, first: int) -> bytes:
        """The chain's hash after it, by framing 2, where its first event has this seq."""
        ...

    def insert(self, connection: Connection, first: int) -> None:
        """Insert its rows of `event`, the first under this id."""
        ...


class Journal:
    """One journal file open for writing. Not for two threads at once; open one each."""

    def __init__(
        self,
        path: Path,
        clock: Clock | None = None,
        *,
        vfs: str | None = None,
        page: int | None = None,
        witness: Witness | None = None,
    ) -> None:
        """`page` is the size of a new file's pages, where they should be other than batches like them.

        `witness` is given what this journal commits, and stores beside it the heads of another file.
        """
        self.path = path
        self._clock = clock or SystemClock()
        self._connection, self._keeper = open_writer(path, vfs=vfs, page=page)
        self._streams: dict[str, Stream] = {}
        self._tallies: dict[int, Tally] = {}
        self._undone = 0
        self._witness = witness
        if witness is not None:
            self._prepare_heads()

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

    def open(
        self, name: str, kind: str, meta: Mapping[str, Any] | None = None, *, framing: int | None = None
    ) -> Stream:
        """The stream of that name, made now if it is new; `FORGETTABLE` lets its bodies be taken out."""
        known = self._known(name)
        if known is not None:
            return known
        if not 0 < len(name) <= _LONGEST_NAME:
            raise BadEntry(f"a stream's name has 1 to {_LONGEST_NAME} characters")
        with self._writing(), self._keeper:
            found = find(self._connection, name)
            return found or self._create(name, kind, meta or {}, framing or FRAMING)

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
        if len(entries) == 1:
            return self._appended(name, 1, partial(self._write_one, entries[0]), expect, beside)
        values = list(linked.from_iterable(entries))
        write = partial(self._write, [values[column::_WIDTH] for column in range(_WIDTH)], values)
        return self._appended(name, len(entries), write, expect, beside)

    def append_columns(
        self,
        name: str,
        kinds: Sequence[str],
        times: Sequence[int],
        bodies: Sequence[bytes],
        parents: Sequence[int | None],
        *,
        expect: int | None = None,
        beside: Beside | None = None,
    ) -> range:
        """`append` for whoever has the batch by columns, of equal lengths: no entry is made only for this."""
        columns = (kinds, times, bodies, parents)
        if any(len(column) != len(kinds) for column in columns):
            raise BadEntry("the columns of a batch differ in length")
        return self._appended(name, len(kinds), partial(self._write, columns, None), expect, beside)

    def append_packed(
        self, name: str, packed: Packed, *, expect: int | None = None, beside: Beside | None = None
    ) -> range:
        """`append` for a batch that inserts itself."""
        with self._keeper.away():
            return self._appended(name, packed.count, partial(self._write_packed, packed), expect, beside)

    def _appended(
        self,
        name: str,
        count: int,
        write: Callable[[Stream, Head], bytes],
        expect: int | None,
        beside: Beside | None,
    ) -> range:
        if not count:
            return range(0)
        writing = self._writing()
        with writing as connection:
            stream = self._stream(name)
            head = seal.open_head(connection, stream)
            if head is None:
                raise StreamSealed(name)
            first = head.seq + 1
            if expect is not None and expect != first:
                raise SeqConflict(name, expect, first)
            link = write(stream, head)
            if beside is not None:
                beside(connection, first)
            if self._witness is not None:
                self._witness.store(connection)
                committed = self._witness.own.committed
                writing.afterwards(partial(committed, name, Head(head.seq + count, link)))
            return range(first, first + count)

    def _write(
        self, columns: Sequence[Sequence[Any]], values: list[Any] | None, stream: Stream, head: Head
    ) -> bytes:
        """Write a batch given by columns, and perhaps its values row after row."""
        seqs = range(head.seq + 1, head.seq + 1 + len(columns[0]))
        link = _link(stream, head, seqs, columns)
        with self._keeper:
            self._connection.execute(_BATCH, (key(stream.id, seqs[0]), seqs[-1], link))
            _insert(self._connection, stream, head, seqs, values or flattened(columns))
        return link

    def _write_packed(self, packed: Packed, stream: Stream, head: Head) -> bytes:
        first, last = head.seq + 1, head.seq + packed.count
        if last > MAX_SEQ or stream.framing != 2:
            raise BadEntry("the stream is full" if last > MAX_SEQ else "a packed batch needs framing 2")
        link = packed.link(head.hash, first)
        self._connection.execute(_BATCH, (key(stream.id, first), last, link))
        packed.insert(self._connection, key(stream.id, first))
        # As long as all of a stream's events come packed, its seal need not count them.
        known = self._tallies.setdefault(stream.id, Tally())
        if known.events == head.seq:
            known.add(packed.tally)
        return link

    def _write_one(self, entry: Entry, stream: Stream, head: Head) -> bytes:
        """The same for a single entry, without what pays only where there are many."""
        seq = head.seq + 1
        refusal = _refusal(entry, seq)
        if refusal is not None:
            raise refusal
        link = chain.link_one(stream, head.hash, seq, entry)
        row = key(stream.id, seq)
        with self._keeper:
            self._connection.execute(_BATCH, (row, seq, link))
            self._connection.execute(_EVENT, (row, *entry))
        return link

    def seal(self, name: str, status: Status = "ended", extra: Mapping[str, Any] | None = None) -> Seal:
        """End a stream; sealing it again returns the seal it has."""
        with self._writing() as connection, self._keeper:
            stream = self._stream(name)
            tally = self._tallies.get(stream.id)
            return seal.close(connection, stream, status, extra or {}, self._clock.now_ns(), tally)

    def prune(self, name: str) -> Seal:
        """Remove a sealed stream's events, leaving its manifest and a tombstone."""
        with self._writing() as connection, self._keeper:
            return seal.bury(connection, self._stream(name), self._clock.now_ns())

    def forget(self, places: Sequence[tuple[str, int]], facts: Mapping[str, Any]) -> None:
        """Replace the bodies of events by their hashes, and record that with these facts.

        The file may hold copies of a body in free pages until it is rewritten.
        """
        with self._writing() as connection:
            now = self._clock.now_ns()
            gone = [forgetting.place_of(connection, self._stream(name), seq) for name, seq in places]
            for place in gone:
                with self._keeper:
                    forgetting.bury(connection, place, now)
            self.open(forgetting.STREAM, forgetting.KIND)
            self.append(forgetting.STREAM, [forgetting.entry(gone, facts, now)])

    def _writing(self) -> Transaction | Part:
        return writing(self._connection)

    def _create(self, name: str, kind: str, meta: Mapping[str, Any], framing: int) -> Stream:
        identifier = next(self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM stream"))[0]
        row = (identifier, name, kind, self._clock.now_ns(), json.dumps(meta))
        stream = Stream(*row, framing=framing)
        self._connection.execute("INSERT INTO stream VALUES(?,?,?,?,?,?)", (*row, chain.genesis(stream)))
        return stream

    def _prepare_heads(self) -> None:
        try:
            heads.prepare(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def _known(self, name: str) -> Stream | None:
        """A stream that was appended to before; none where a transaction was undone that may have made it."""
        undone = self._connection.undone
        if undone != self._undone:
            self._undone = undone
            self._streams.clear()
            self._tallies.clear()
        return self._streams.get(name)

    def _stream(self, name: str) -> Stream:
        known = self._known(name)
        if known is None:
            known = find(self._connection, name)
            if known is None:
                raise UnknownStream(name)
            self._streams[name] = known
        return known


def _link(stream: Stream, head: Head, seqs: range, columns: Sequence[Sequence[Any]]) -> bytes:
    """The chain's hash after a batch that can be appended."""
    batch = _checked(seqs, *columns)
    if batch is not None:
        try:
            return chain.link(stream, head.hash, seqs, batch)
        except StructError:  # a time that has no 64 bits, or is no integer
            if not any(_refusals(seqs, columns)):
                raise
    raise next(filter(None, _refusals(seqs, columns)))


def _checked(
    seqs: range,
    kinds: Sequence[str],
    times: Sequence[int],
    bodies: Sequence[bytes],
    named: Sequence[int | None],
) -> Columns | None:
    """The batch as the chain takes it, checked without a loop; None for a bad one."""
    if seqs[-1] > MAX_SEQ:
        return None
    parents = [parent or 0 for parent in named]
    forward = any(map(ge, parents, seqs)) or min(parents) < 0 or 0 in named
    lengths = {len(kind) for kind in set(kinds)}
    if forward or min(lengths) < 1 or max(lengths) > _LONGEST_KIND:
        return None
    return Columns(kinds, times, bodies, parents)


def _refusals(seqs: range, columns: Sequence[Sequence[Any]]) -> Iterator[BadEntry | None]:
    return map(_refusal, map(Entry._make, zip(*columns, strict=True)), seqs)


def _insert(connection: Connection, stream: Stream, head: Head, seqs: range, values: list[Any]) -> None:
    """Insert a batch of events.

    Where no other stream's are behind the stream's last, the engine numbers them itself: each row gets
    the number after the table's last, and it need not look whether that is taken.
    """
    last = next(connection.execute("SELECT max(id) FROM event"))[0]
    if last == key(stream.id, head.seq):
        insert_flat(connection, "INSERT INTO event(kind, time_ns, body, parent)", _WIDTH, values, FEW)
        return
    ids = range(key(stream.id, seqs[0]), key(stream.id, seqs[-1]) + 1)
    columns = (ids, *(values[column::_WIDTH] for column in range(_WIDTH)))
    insert(connection, "INSERT INTO event(id, kind, time_ns, body, parent)", columns)


def _refusal(entry: Entry, seq: int) -> BadEntry | None:
    kind, time_ns, _, parent = entry
    if seq > MAX_SEQ:
        return BadEntry("the stream is full")
    if parent is not None and not 0 < parent < seq:
        return BadEntry(f"event {seq} names {parent} as its parent, which is not an earlier event")
    if not 0 < len(kind) <= _LONGEST_KIND:
        return BadEntry(f"event {seq} needs a kind of 1 to {_LONGEST_KIND} characters")
    if not _EARLIEST <= time_ns <= _LATEST:
        return BadEntry(f"event {seq} has a time outside 64-bit nanoseconds")
    return None
