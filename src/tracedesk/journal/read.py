"""Reading: events by seq, pages up to a watermark, streams and their ends; safe while others write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tracedesk.journal import seal
from tracedesk.journal.cursor import Cursor
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS, key, open_reader
from tracedesk.journal.model import Event, Head, Seal, Stream, StreamPruned, UnknownStream
from tracedesk.journal.sqlite import InterruptError
from tracedesk.journal.stream import every, find, head_of

_COLUMNS = "id, kind, time_ns, body, parent"


class Reader:
    """One read-only connection to a journal file. Not for two threads at once; open one each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = open_reader(path)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def interrupt(self) -> None:
        """Stop whatever this reader runs now; callable from another thread."""
        self.connection.interrupt()

    def streams(self) -> list[Stream]:
        return every(self.connection)

    def stream(self, name: str) -> Stream:
        found = find(self.connection, name)
        if found is None:
            raise UnknownStream(name)
        return found

    def head(self, name: str) -> Head:
        """How far the stream reaches now."""
        stream = self.stream(name)
        self._refuse_pruned(stream)
        return head_of(self.connection, stream)

    def seal(self, name: str) -> Seal | None:
        return seal.of(self.connection, self.stream(name))

    def is_pruned(self, name: str) -> bool:
        return seal.is_pruned(self.connection, self.stream(name))

    def event(self, name: str, seq: int) -> Event | None:
        """One event by its seq."""
        stream = self.stream(name)
        query = f"SELECT {_COLUMNS} FROM event WHERE id = ?"
        for row in self.connection.execute(query, (key(stream.id, seq),)):
            return _event(row)
        self._refuse_pruned(stream)
        return None

    def events(self, name: str, after: int = 0, upto: int = MAX_SEQ, limit: int = -1) -> list[Event]:
        """Events with seq in (after, upto], in order; one consistent state of the file."""
        return list(self.scan(self.stream(name), after, upto, limit))

    def scan(self, stream: Stream, after: int = 0, upto: int = MAX_SEQ, limit: int = -1) -> Iterator[Event]:
        """The same, one at a time; finish it before the call ends, for it holds the file's state."""
        query = f"SELECT {_COLUMNS} FROM event WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        span = (key(stream.id, after), key(stream.id, upto), limit)
        nothing = True
        for row in self.connection.execute(query, span):
            nothing = False
            yield _event(row)
        if nothing:
            self._refuse_pruned(stream)

    def page(self, name: str, cursor: Cursor | None, limit: int) -> tuple[list[Event], Cursor]:
        """The next events up to the cursor's watermark, and the cursor that continues.

        A new cursor's watermark is the head of now; one that has reached its watermark takes the head
        as its next one. So each event is returned exactly once, however the stream grows meanwhile.
        """
        stream = self.stream(name)
        if cursor is None or cursor.is_spent:
            head = self.head(name)
            cursor = Cursor(name, cursor.after if cursor else 0, head.seq)
        found = self.events(name, cursor.after, cursor.upto, limit)
        if not found:
            self._refuse_pruned(stream)
        return found, cursor.advanced(found[-1].seq if found else cursor.after)

    def _refuse_pruned(self, stream: Stream) -> None:
        if seal.is_pruned(self.connection, stream):
            known = seal.of(self.connection, stream)
            raise StreamPruned(stream.name, known.manifest if known else {})


def _event(row: tuple[int, str, int, bytes, int | None]) -> Event:
    return Event(row[0] & ((1 << SEQ_BITS) - 1), row[1], row[2], row[3], row[4])


def interrupted(error: BaseException) -> bool:
    """Whether a read ended because `interrupt` was called."""
    return isinstance(error, InterruptError)
