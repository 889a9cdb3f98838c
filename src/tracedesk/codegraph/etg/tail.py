"""What was logged and is not in the tables yet, as far as it takes to know it again."""

from __future__ import annotations

from typing import Final, NamedTuple

from tracedesk.codegraph.etg import body, marks
from tracedesk.codegraph.etg.model import STREAM_KIND
from tracedesk.journal import forgetting
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS, key
from tracedesk.journal.sqlite import Connection

MOST: Final = 1_000
"""Events that may be left for later; taking them in takes about a fifth of a second."""


class Known(NamedTuple):
    """An event by which another is known again."""

    event: int
    event_id: str
    digest: int
    time_ns: int


class Tail:
    """The newest events of one file, told by the file and by the one who logs them.

    What somebody has taken in meanwhile may still be here: the answer of the tables is asked for as well.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        """The file's, as long as nobody else has written to it."""
        self._starts: dict[int, int] = {}
        """Of each stream, the seq after which all of its events are here."""
        self._heads: dict[int, int] = {}
        """Of each stream, the seq up to which its events are here."""
        self._count = 0
        self._newest: dict[str, Known] = {}
        self._by_id: dict[tuple[str, str], Known] = {}
        self._by_time: dict[tuple[str, int, int], Known] = {}

    def __len__(self) -> int:
        return self._count

    def follow(self, connection: Connection) -> bool:
        """Learn what others have logged; False when more is left than is kept here. In a transaction."""
        version = next(iter(connection.execute("PRAGMA data_version")))[0]
        if version != self._version:
            if not self._learn(connection):
                return False
            self._version = version
        return self._count < MOST

    def _learn(self, connection: Connection) -> bool:
        for stream, seq, last in marks.behind(connection, STREAM_KIND):
            if seq < self._starts.setdefault(stream, seq):
                return False  # the tables were made anew
            after = max(seq, self._heads.get(stream, 0))
            if self._count + last - after > MOST:
                return False
            self._read(connection, stream, after)
        return True

    def _read(self, connection: Connection, stream: int, after: int) -> None:
        query = "SELECT id, kind, time_ns, body FROM event WHERE id > ? AND id <= ? ORDER BY id"
        for row in connection.execute(query, (key(stream, after), key(stream, MAX_SEQ))):
            if forgetting.of(row[3]) is not None:
                self._pass(row[0])
                continue
            event = body.read(*row)
            self.add(event.attempt, Known(event.event, event.event_id, event.digest, event.time_ns))

    def add(self, attempt: str, known: Known) -> None:
        """Keep an event that is in the journal."""
        event, event_id, digest, time_ns = known
        self._pass(event)
        newest = self._newest.get(attempt)
        if newest is None or newest.event < event:
            self._newest[attempt] = known
        self._by_id.setdefault((attempt, event_id), known)
        self._by_time.setdefault((attempt, time_ns, digest), known)

    def _pass(self, event: int) -> None:
        stream, seq = event >> SEQ_BITS, event & MAX_SEQ
        self._starts.setdefault(stream, seq - 1)
        self._heads[stream] = seq
        self._count += 1

    def newest(self, attempt: str) -> Known | None:
        """The attempt's last event, where that is here."""
        return self._newest.get(attempt)

    def by_id(self, attempt: str, event_id: str) -> Known | None:
        """The attempt's event with that id."""
        return self._by_id.get((attempt, event_id))

    def by_time(self, attempt: str, time_ns: int, digest: int) -> Known | None:
        """The attempt's first event of that time that says the same."""
        return self._by_time.get((attempt, time_ns, digest))
