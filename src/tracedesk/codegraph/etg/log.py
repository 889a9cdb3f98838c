"""Logging: an event is checked, redacted, told from a duplicate, and on the disk.

The tables that attempts are read from follow: with the event, or, for who cannot wait, when there is time.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from tracedesk.codegraph.etg import body, marks, projection, rebuild, records, schema
from tracedesk.codegraph.etg.again import repeated
from tracedesk.codegraph.etg.body import Facts, Prepared, Stored
from tracedesk.codegraph.etg.checks import check
from tracedesk.codegraph.etg.model import (
    IDLE_NS,
    STREAM_KIND,
    Logged,
    NewEvent,
    Unindexed,
    World,
    canonical,
    event_ref,
)
from tracedesk.codegraph.etg.tail import Known, Tail
from tracedesk.journal import Journal, JournalBusy, JournalError, Stream
from tracedesk.journal.append import Transaction
from tracedesk.journal.carrier import Carrier
from tracedesk.journal.file import SMALL_PAGE, key
from tracedesk.journal.heads import Witness
from tracedesk.journal.sqlite import Connection, Patience, SQLiteError, plan_once
from tracedesk.journal.stream import FORGETTABLE, every
from tracedesk.payloads import Payloads
from tracedesk.primitives import time
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SECOND, Clock

log = logging.getLogger(__name__)

BATCH: Final = 200
"""Events that one transaction of a large import takes."""

MOST_FOLDED: Final = 20_000
"""Call records that one catching up folds; what is left is for the next."""

CARRY_PAGES: Final = 7_680
"""Pages in the write-ahead log, of some 850 events, at which what was logged is carried into the file.

SQLite would do it sooner and keep somebody waiting; and those wait as well who log while it is done.
"""
MOST_PAGES: Final = 8_192
"""Pages that the log has room for, and at which it is to begin anew."""

SLOW_SECONDS: Final = 0.005
"""A commit that took longer was too long for who cannot wait."""

_WARY_SECONDS: Final = (0.1, 60.0)
"""How long nobody commits at once on a slow disk: twice as long each time, half after a quick commit."""

_RECENT: Final = 8
"""Commits of which half must have been slow to make a slow disk: on a busy machine some always are."""
_GRACE_NS: Final = 86_400 * SECOND
_MOST_KNOWN: Final = 10_000

With = Callable[[Journal, Logged], None]
"""Work in the transaction of an event, such as appending the record of the call that logs it."""


class Etg:
    """The execution trace graph of one home, open for writing; any thread may log."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        secrets: Secrets,
        payloads: Payloads,
        world: World | None = None,
        *,
        opened: Callable[[Journal], None] | None = None,
        left: Callable[[], None] | None = None,
        witness: Witness | None = None,
    ) -> None:
        """`opened` is given the journal each time it is opened, to make what a `beside` needs in it.

        `left` is called after an event that `log_at_once` has left for the next `catch_up` to take in.
        """
        self.path = path
        self._on_open = opened
        self._on_left = left
        self._witness = witness
        self.world: World = world or Unindexed()
        self._clock = clock
        self._secrets = secrets
        self._payloads = payloads
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        self._stream: Stream | None = None
        self._carrier: Carrier | None = None
        self._tail = Tail()
        self._slow_until = 0.0
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self._wary, _ = _WARY_SECONDS
        self._known: set[str] = set()
        """Attempts that were logged here: their project and first version are settled."""

    def close(self) -> None:
        """Take in what is left, as a favour to the next one, and close."""
        with self._lock:
            try:
                if self._journal is not None and len(self._tail):
                    with _at_once(self._journal.connection):
                        rebuild.resume(self._journal.connection)
            except (JournalError, SQLiteError) as problem:
                log.info("the last events are left for the next desk to take in: %s", problem)
            finally:
                self._shut()

    # --- logging

    def log(self, event: NewEvent, *, by: str | None = None, beside: With | None = None) -> Logged:
        """Log one event; when this returns, it is on the disk. `by` is the call that logs it.

        `beside` runs in the same transaction, so what it appends and the event exist together or not at
        all; for a duplicate it runs as well.
        """
        return self._log([self._prepared(event, by)], beside)[0]

    def log_at_once(
        self, event: NewEvent, *, by: str | None = None, beside: With | None = None
    ) -> Logged | None:
        """As `log`, for who cannot wait for others; None when he would have to, and nothing has happened.

        It takes as long as the disk does; when that was long again and again, it says None for a while. The
        event is in the tables after the next `catch_up`, or when somebody logs otherwise.
        """
        if monotonic() < self._slow_until or not self._lock.acquire(blocking=False):
            return None
        try:
            journal, stream = self._journal, self._stream
            if journal is None or stream is None or stream.name != month(self._clock.now_ns()):
                return None
            return self._logged_here(journal, stream, self._prepared(event, by), beside)
        finally:
            self._lock.release()

    def _logged_here(
        self, journal: Journal, stream: Stream, prepared: Prepared, beside: With | None
    ) -> Logged | None:
        began = monotonic()
        with self._whole(), _at_once(journal.connection):
            try:
                logged = self._left(journal, stream, prepared, beside)
            except JournalBusy:
                return None
        self._learn(monotonic() - began)
        return logged

    def _left(
        self, journal: Journal, stream: Stream, prepared: Prepared, beside: With | None
    ) -> Logged | None:
        """Commit an event and leave the tables for later; None when too much is left already."""
        seq = None
        with Transaction(journal.connection):
            if not self._tail.follow(journal.connection):
                return None
            logged = repeated(journal.connection, self._tail, prepared)
            if logged is None:
                (seq,) = journal.append(stream.name, [prepared.entry])
                logged = _logged(prepared, event_ref(stream.name, seq))
            if beside is not None:
                beside(journal, logged)
        if seq is not None:
            place = key(stream.id, seq)
            known = Known(place, prepared.event_id, prepared.digest, prepared.entry.time_ns)
            self._tail.add(prepared.attempt, known)
            if self._on_left is not None:
                self._on_left()
        self._remember([prepared])
        return logged

    def _learn(self, took: float) -> None:
        """On a disk that is slow again and again, hardly anybody is kept waiting by it."""
        least, most = _WARY_SECONDS
        self._recent.append(took > SLOW_SECONDS)
        if took > SLOW_SECONDS and 2 * sum(self._recent) >= _RECENT:
            self._slow_until = monotonic() + self._wary
            self._wary = min(2 * self._wary, most)
        else:
            self._wary = max(self._wary / 2, least)

    def log_many(self, events: Sequence[NewEvent]) -> list[Logged]:
        """Log events in order, many to a transaction; a flawed one keeps its whole batch out."""
        done: list[Logged] = []
        for start in range(0, len(events), BATCH):
            batch = [self._prepared(event, None) for event in events[start : start + BATCH]]
            done += self._log(batch, None)
        return done

    def _prepared(self, event: NewEvent, by: str | None) -> Prepared:
        check(event, lambda: self.world.version(event.project))
        return body.prepare(event, self._facts(event, by), self._secrets, self._payloads)

    def _facts(self, event: NewEvent, by: str | None) -> Facts:
        now = self._clock.now_ns()
        time_ns = now if event.timestamp_ns is None else event.timestamp_ns
        version = event.payload.get("graph_version") if event.kind == "checkpoint" else None
        owner = self.world.project_of(version) if version is not None else None
        hint, graph = self._first_facts(event, owner)
        return Facts(
            event_id=event.event_id or uuid7(),
            received_ns=now,
            hint=hint,
            graph=graph,
            known=None if version is None else owner is not None,
            skewed=event.source != "git" and abs(time_ns - now) > IDLE_NS,
            by=by,
        )

    def _first_facts(self, event: NewEvent, owner: str | None) -> tuple[str | None, str | None]:
        """The probable project and the graph's version, which count when the event begins its attempt."""
        hint = owner if event.project is None else None
        if event.attempt_id in self._known or event.source == "git":
            return hint, None
        if event.project is None and hint is None:
            hint = self.world.only_project()
        return hint, self.world.version(event.project or hint)

    def _log(self, batch: Sequence[Prepared], beside: With | None) -> list[Logged]:
        with self._lock, self._whole() as journal:
            stream = self._current(journal)
            while (logged := self._taken(journal, stream, batch, beside)) is None:
                self._resume(journal)
            self._tail = Tail()  # nothing is left
        return logged

    def _resume(self, journal: Journal) -> None:
        rebuild.resume(journal.connection)
        self._tail = Tail()

    def _taken(
        self, journal: Journal, stream: Stream, batch: Sequence[Prepared], beside: With | None
    ) -> list[Logged] | None:
        """Commit a batch and take it in; None when the tables are behind, which comes first."""
        with Transaction(journal.connection):
            if marks.behind(journal.connection, STREAM_KIND):
                return None
            logged = _Batch(journal, stream).log(batch)
            if beside is not None:
                beside(journal, logged[0])
        self._remember(batch)
        return logged

    @contextmanager
    def _whole(self) -> Generator[Journal]:
        """The journal; it is opened anew after a failure, whatever that has left in memory."""
        try:
            yield self._opened()
        except BaseException:
            self._shut()
            raise

    def _shut(self) -> None:
        if self._carrier is not None:
            self._carrier.close()
        if self._journal is not None:
            self._journal.close()
        self._journal = self._stream = self._carrier = None
        self._tail = Tail()

    def _remember(self, batch: Sequence[Prepared]) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(prepared.event.attempt_id for prepared in batch)

    def knows(self, attempt: str) -> bool:
        """Whether an attempt of that name is there."""
        with self._lock, self._whole() as journal:
            self._resume(journal)
            query = "SELECT 1 FROM attempt WHERE name = ?"
            return any(journal.connection.execute(query, (canonical(attempt),)))

    # --- keeping up

    def catch_up(self) -> bool:
        """Make the tables what they should be: filled, without what was pruned, with the desk's calls.

        False when so many calls were waiting that some still are.
        """
        with self._lock, self._whole() as journal:
            self._resume(journal)
            rebuild.forget(journal.connection)
        return self._fold_all(MOST_FOLDED)

    def _fold_all(self, most: int | None) -> bool:
        """Fold call records; those who log come between two transactions."""
        folded = 0
        while most is None or folded < most:
            with self._lock, self._whole() as journal:
                waiting = marks.behind(journal.connection, records.STREAM_KIND)
                if not waiting:
                    return True
                with Transaction(journal.connection):
                    folded += records.fold(journal.connection, waiting[0].stream)
        return False

    def rebuild(self) -> None:
        """Make every projection anew from the journal."""
        with self._lock, self._whole() as journal:
            with Transaction(journal.connection):
                schema.empty(journal.connection)
            self._resume(journal)
        self._fold_all(None)

    def _opened(self) -> Journal:
        if self._journal is None:
            journal = Journal(self.path, self._clock, page=SMALL_PAGE, witness=self._witness)
            try:
                plan_once(journal.connection)
                schema.prepare(journal.connection)
                if self._on_open is not None:
                    self._on_open(journal)
                self._seal_past_months(journal)
            except BaseException:
                journal.close()
                raise
            self._journal, self._carrier = journal, Carrier(self.path)
            self._carrier.follow(journal.connection, CARRY_PAGES, MOST_PAGES)
        return self._journal

    def _current(self, journal: Journal) -> Stream:
        """The stream of this month."""
        name = month(self._clock.now_ns())
        if self._stream is None or self._stream.name != name:
            self._stream = journal.open(name, STREAM_KIND, framing=FORGETTABLE)
            self._seal_past_months(journal)
        return self._stream

    def _seal_past_months(self, journal: Journal) -> None:
        """Close the months that no desk logs to any more, so that they can be pruned."""
        oldest = month(self._clock.now_ns() - _GRACE_NS)
        for stream in every(journal.connection):
            if stream.kind == STREAM_KIND and stream.name < oldest:
                journal.seal(stream.name)


def month(now_ns: int) -> str:
    """The stream of the events that arrive in the month of that moment."""
    return f"etg-{time.month(now_ns)}"


@contextmanager
def _at_once(connection: Connection) -> Generator[None]:
    """While this holds, a transaction does not wait for other writers."""
    connection.set_busy_handler(None)
    try:
        yield
    finally:
        connection.set_busy_handler(Patience())


class _Batch:
    """Events of one transaction, told from duplicates where those can no longer come from elsewhere."""

    def __init__(self, journal: Journal, stream: Stream) -> None:
        self._journal = journal
        self._connection = journal.connection
        self._stream = stream
        self._taking = projection.Taking(journal.connection)
        self._answers: list[Logged | None] = []
        self._fresh: dict[int, Prepared] = {}
        """What is to be appended, by its place among the answers."""

    def log(self, batch: Sequence[Prepared]) -> list[Logged]:
        """Append what is new; an attempt's next event is looked at when the one before it is there."""
        names: set[str] = set()
        for place, prepared in enumerate(batch):
            if prepared.attempt in names:
                self._append()
                names.clear()
            known = repeated(self._connection, _NOTHING_LEFT, prepared)
            self._answers.append(known)
            if known is None:
                self._fresh[place] = prepared
                names.add(prepared.attempt)
        self._append()
        self._taking.settle()
        return [answer for answer in self._answers if answer is not None]

    def _append(self) -> None:
        if not self._fresh:
            return
        entries = [prepared.entry for prepared in self._fresh.values()]
        seqs = self._journal.append(self._stream.name, entries)
        for seq, (place, prepared) in zip(seqs, self._fresh.items(), strict=True):
            self._taking.apply(_stored(self._stream, seq, prepared))
            self._answers[place] = _logged(prepared, event_ref(self._stream.name, seq))
        marks.move(self._connection, key(self._stream.id, seqs[-1]))
        self._fresh.clear()


_NOTHING_LEFT: Final = Tail()


def _stored(stream: Stream, seq: int, prepared: Prepared) -> Stored:
    """The event as it is read back from its journal row."""
    entry = prepared.entry
    return body.read(key(stream.id, seq), entry.kind, entry.time_ns, entry.body)


def _logged(prepared: Prepared, ref: str) -> Logged:
    facts, warnings = prepared.facts, list[str]()
    if facts.known is False:
        warnings.append("payload.graph_version: no graph here has or had this version (known: false).")
    if facts.skewed:
        warnings.append("timestamp: more than 24 hours from this desk's clock.")
    if prepared.cut:
        warnings.append("payload: larger than 65536 bytes; a shortened one is kept, the whole as a payload.")
    return Logged(facts.event_id, prepared.attempt, ref, False, tuple(warnings))
