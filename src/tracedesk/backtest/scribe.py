"""Who writes a run: events wait in a tape and become rows in batches, natively where that can be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from tracedesk.backtest import native, schema
from tracedesk.backtest.guids import Guids
from tracedesk.backtest.model import EventType
from tracedesk.backtest.projection import Batch, Given, Projector, has_given, write_given
from tracedesk.backtest.rebuild import projector
from tracedesk.backtest.shapes import Row
from tracedesk.backtest.tape import Taken, Tape
from tracedesk.journal import Journal, Stream
from tracedesk.journal.carrier import Carrier
from tracedesk.journal.sqlite import Connection
from tracedesk.journal.tally import Tally

_NOW: Final = 8
_SOON: Final = 1_024
"""Events after which a thread that emits lets the writer have the interpreter: while it is in Python, and
while it waits for the disk."""

_CARRIED: Final = 16_384
"""Events after which what was written is carried from the write-ahead log into the file, by a thread."""
_MOST_PAGES: Final = 8_000
"""Pages in the log at which the writer does that itself: it begins anew only when nobody is ahead."""

_NAMES: Final = {kind: kind.name for kind in EventType}

T = TypeVar("T", bound="Sized")


class Sized(Protocol):
    """What a scribe takes at a time."""

    @property
    def count(self) -> int: ...


class Columns(NamedTuple):
    """Events that lie ready, by columns; what is given is by seq."""

    types: Sequence[EventType]
    times: Sequence[int]
    rows: Sequence[Row]
    bodies: Sequence[bytes]
    parents: Sequence[int | None]
    given: Mapping[int, Given]


class Scribe(Protocol, Generic[T]):
    """Takes the events of one run in, and writes them."""

    quick: Callable[[Any, Any, Any, Any], int]
    """Takes a common event in at once: its seq, negative where the writer should be told, 0 for another."""

    @property
    def waiting(self) -> int: ...
    @property
    def next(self) -> int: ...
    def push(
        self, kind: EventType, time: int, row: Row, body: bytes, parent: int | None, given: Given | None
    ) -> int:
        """Take any event in; the caller holds the recorder's lock."""
        ...

    def take(self, most: int) -> T:
        """The first of the events that wait, of which there are some."""
        ...

    def write(self, taken: T, first: int, room: Callable[[], None] | None = None) -> None:
        """Write what was taken, in one transaction; `room` is called once its memory is free."""
        ...

    def write_columns(self, columns: Columns, first: int) -> None: ...
    def close(self) -> None:
        """Let go of the file, before its journal is closed."""
        ...

    def stop(self) -> None:
        """Take nothing in by `quick` any more."""
        ...


def scribe(journal: Journal, stream: Stream, *, full: int = 1, most: int = 1) -> Scribe[Any]:
    """For a new run whose tables are there: `full` events make a batch, `most` may wait."""
    core = native.core() if schema.version(journal.connection) == schema.PACKED else None
    if core is None:
        return PythonScribe(journal, stream, full)
    return NativeScribe(core, journal, stream, full, most)


# --- by Python -----------------------------------------------------------------------------------


def _odd(*_: Any) -> int:
    return 0


class PythonScribe:
    """Everything in Python, with a row of `fact` and of its indexes for every event."""

    def __init__(self, journal: Journal, stream: Stream, full: int) -> None:
        self.quick: Callable[[Any, Any, Any, Any], int] = _odd
        self._journal = journal
        self._stream = stream
        self._tape = Tape(full)
        self._guids = Guids(stream.name)
        is_fast = bool(stream.meta.get("fast"))
        self._projector = None if is_fast else Projector.of(stream)
        self.push = self._tape.push
        self.take = self._tape.take

    @property
    def waiting(self) -> int:
        return self._tape.waiting

    @property
    def next(self) -> int:
        return self._tape.next

    def stop(self) -> None:
        """Nothing is quick here."""

    def close(self) -> None:
        """The file is the journal's alone."""

    def write(self, taken: Taken, first: int, room: Callable[[], None] | None = None) -> None:
        batch = Batch.of(taken.drafts)
        if has_given(batch):
            given = {seq: one for seq, one in enumerate(batch.given, first) if one is not None}
            settled = self._guids.settled(self._journal.connection, given)
            batch = batch._replace(given=tuple(map(settled.get, range(first, first + taken.count))))
        self._append(batch, taken.bodies, first, room)

    def write_columns(self, columns: Columns, first: int) -> None:
        types, times, rows, bodies, parents, given = columns
        dense = tuple(map(given.get, range(first, first + len(types))))
        sizes = tuple(map(len, bodies))
        batch = Batch(tuple(types), tuple(times), tuple(rows), tuple(parents), sizes, dense)
        self._append(batch, bodies, first, None)

    def _append(
        self, batch: Batch, bodies: Sequence[bytes], first: int, room: Callable[[], None] | None
    ) -> None:
        columns = (list(map(_NAMES.__getitem__, batch.types)), batch.times, bodies, batch.parents)

        def beside(connection: Connection, first: int) -> None:
            if has_given(batch):
                given = {seq: one for seq, one in enumerate(batch.given, first) if one is not None}
                write_given(connection, self._stream, given)
            if self._projector is not None:
                self._projector.write(connection, first, batch, taken=room)

        if self._projector is None and room is not None:
            room()
        self._journal.append_columns(self._stream.name, *columns, expect=first, beside=beside)


# --- natively ------------------------------------------------------------------------------------


class NativeScribe:
    """Everything native: events are encoded as they come, and packed into zones of `fact`."""

    def __init__(self, core: native.Core, journal: Journal, stream: Stream, full: int, most: int) -> None:
        native.attach(journal.connection)
        self._core = core
        self._journal = journal
        self._stream = stream
        self._tape = core.Tape(EventType, full, most)
        self._guids = Guids(stream.name)
        self._projector = None if stream.meta.get("fast") else projector(core, stream)
        self._carrier = Carrier(journal.path)
        self._ahead = 0
        """Events that may still be in the write-ahead log."""
        journal.connection.execute(f"PRAGMA wal_autocheckpoint = {_MOST_PAGES}")
        self.quick: Callable[[Any, Any, Any, Any], int] = self._tape.emit
        self.take = self._tape.take
        self.stop = self._tape.stop

    @property
    def waiting(self) -> int:
        return self._tape.waiting

    @property
    def next(self) -> int:
        return self._tape.next

    def push(
        self, kind: EventType, time: int, row: Row, body: bytes, parent: int | None, given: Given | None
    ) -> int:
        if parent is not None and not 0 < parent < self.next:
            raise ValueError(f"parent: {parent} is not an earlier event's seq; the next is {self.next}")
        return self._tape.push(kind, time, body, parent or 0, given)

    def write(self, taken: native.Packed, first: int, room: Callable[[], None] | None = None) -> None:
        if room is not None:
            room()
        given = {first + place: Given(*row) for place, row in taken.given}
        if given:
            given = self._guids.settled(self._journal.connection, given)
            taken.give([(seq - first, one) for seq, one in given.items()])
        self._tape.turns(_NOW)
        try:
            if self._projector is not None:
                self._projector.begin(taken, first)
            self._append(taken, given, first)
        finally:
            self._tape.turns(0)

    def write_columns(self, columns: Columns, first: int) -> None:
        types, times, _, bodies, parents, given = columns
        rows = [(seq - first, one) for seq, one in given.items()]
        packed = self._core.pack(types, times, bodies, [parent or 0 for parent in parents], rows)
        self._append(packed, given, first)

    def _append(self, packed: native.Packed, given: Mapping[int, Given], first: int) -> None:
        def beside(connection: Connection, first: int) -> None:
            if given:
                write_given(connection, self._stream, given)
            if self._projector is not None:
                native.call(connection, "runs_write", self._projector.handle, packed.handle, first)
            self._tape.turns(_SOON)

        self._journal.append_packed(self._stream.name, _Rows(packed), expect=first, beside=beside)
        self._ahead += packed.count
        if self._ahead >= _CARRIED:
            self._ahead = 0
            self._carrier.ask()

    def close(self) -> None:
        self._carrier.close()


class _Rows:
    """A native batch as the journal takes it."""

    def __init__(self, packed: native.Packed) -> None:
        self._packed = packed
        self.count = packed.count
        self.link = packed.link

    @property
    def tally(self) -> Tally:
        counts, first_ns, last_ns = self._packed.tally
        return Tally(Counter(dict(counts)), first_ns, last_ns)

    def insert(self, connection: Connection, first: int) -> None:
        native.call(connection, "runs_append", self._packed.handle, first)
