"""Logging: an event is checked, redacted, told from a duplicate, and on the disk with its projections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import gmtime, monotonic, strftime
from typing import Final

from tracedesk.codegraph.etg import body, projection, rebuild, records, schema
from tracedesk.codegraph.etg.body import Facts, Prepared
from tracedesk.codegraph.etg.carrier import Carrier
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
from tracedesk.journal import Journal, JournalBusy, Stream
from tracedesk.journal.append import Transaction
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS, key
from tracedesk.journal.sqlite import Connection, Patience, plan_once
from tracedesk.journal.stream import every
from tracedesk.payloads import Payloads
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SECOND, Clock

AGAIN_NS: Final = 5 * SECOND
"""Within this, an attempt's newest event that comes once more without a time is the same one."""

BATCH: Final = 200
"""Events that one transaction of a large import takes."""

MOST_FOLDED: Final = 20_000
"""Call records that one catching up folds; what is left is for the next."""

CHECKPOINT: Final = 256
"""Events after which what was logged is carried from the write-ahead log into the file.

Each changes about fifteen pages, so that SQLite would do it after every sixtieth, and keep that one waiting.
"""
_MOST_PAGES: Final = 8_192
"""Pages in the write-ahead log at which SQLite does it by itself, whatever was written."""

SLOW_SECONDS: Final = 0.005
"""A commit that took longer was too long for who cannot wait."""

_WARY_SECONDS: Final = (0.1, 60.0)
"""How long nobody commits at once after a slow commit: twice as long after each, half after a quick one."""
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
    ) -> None:
        """`opened` is given the journal each time it is opened, to make what a `beside` needs in it."""
        self.path = path
        self._on_open = opened
        self.world: World = world or Unindexed()
        self._clock = clock
        self._secrets = secrets
        self._payloads = payloads
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        self._stream: Stream | None = None
        self._carrier: Carrier | None = None
        self._ahead = 0
        """Events logged here since what was logged was last carried into the file."""
        self._slow_until = 0.0
        self._wary, _ = _WARY_SECONDS
        self._known: set[str] = set()
        """Attempts that were logged here: their project and first version are settled."""

    def close(self) -> None:
        with self._lock:
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

        It takes as long as the disk does. When that was long, it says None for a while, longer each time.
        """
        if monotonic() < self._slow_until or not self._lock.acquire(blocking=False):
            return None
        try:
            journal, stream = self._journal, self._stream
            if journal is None or stream is None or stream.name != month(self._clock.now_ns()):
                return None
            return self._logged_here(journal, stream, event, by, beside)
        finally:
            self._lock.release()

    def _logged_here(
        self, journal: Journal, stream: Stream, event: NewEvent, by: str | None, beside: With | None
    ) -> Logged | None:
        batch = [self._prepared(event, by)]
        began = monotonic()
        with self._whole(), _at_once(journal.connection):
            try:
                logged = self._taken(journal, stream, batch, beside)
            except JournalBusy:
                return None
        self._learn(monotonic() - began)
        return None if logged is None else logged[0]

    def _learn(self, took: float) -> None:
        """On a disk that is slow again and again, hardly anybody is kept waiting by it."""
        least, most = _WARY_SECONDS
        if took > SLOW_SECONDS:
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
                rebuild.resume(journal.connection)
        return logged

    def _taken(
        self, journal: Journal, stream: Stream, batch: Sequence[Prepared], beside: With | None
    ) -> list[Logged] | None:
        """Commit a batch; None when the tables are behind, which comes first."""
        with Transaction(journal.connection):
            if schema.is_behind(journal.connection):
                return None
            logged = _Batch(journal, stream).log(batch)
            if beside is not None:
                beside(journal, logged[0])
        self._remember(batch)
        self._count(len(batch))
        return logged

    def _count(self, events: int) -> None:
        """Have what was logged carried into the file, now and then."""
        self._ahead += events
        if self._ahead >= CHECKPOINT and self._carrier is not None:
            self._ahead = 0
            self._carrier.ask()

    @contextmanager
    def _whole(self) -> Generator[Journal]:
        """The journal; it is opened anew after a failure, for it remembers streams that were undone."""
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

    def _remember(self, batch: Sequence[Prepared]) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(prepared.event.attempt_id for prepared in batch)

    def knows(self, attempt: str) -> bool:
        """Whether an attempt of that name is there."""
        with self._lock, self._whole() as journal:
            query = "SELECT 1 FROM attempt WHERE name = ?"
            return any(journal.connection.execute(query, (canonical(attempt),)))

    # --- keeping up

    def catch_up(self) -> bool:
        """Make the tables what they should be: filled, without what was pruned, with the desk's calls.

        False when so many calls were waiting that some still are.
        """
        with self._lock, self._whole() as journal:
            rebuild.resume(journal.connection)
            rebuild.forget(journal.connection)
        return self._fold_all(MOST_FOLDED)

    def _fold_all(self, most: int | None) -> bool:
        """Fold call records; those who log come between two transactions."""
        folded = 0
        while most is None or folded < most:
            with self._lock, self._whole() as journal:
                waiting = records.behind(journal.connection)
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
            rebuild.resume(journal.connection)
        self._fold_all(None)

    def _opened(self) -> Journal:
        if self._journal is None:
            journal = Journal(self.path, self._clock)
            try:
                plan_once(journal.connection)
                schema.prepare(journal.connection)
                journal.connection.pragma("wal_autocheckpoint", _MOST_PAGES)
                if self._on_open is not None:
                    self._on_open(journal)
                self._seal_past_months(journal)
            except BaseException:
                journal.close()
                raise
            self._journal, self._carrier = journal, Carrier(self.path)
        return self._journal

    def _current(self, journal: Journal) -> Stream:
        """The stream of this month."""
        name = month(self._clock.now_ns())
        if self._stream is None or self._stream.name != name:
            self._stream = journal.open(name, STREAM_KIND)
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
    return strftime("etg-%Y-%m", gmtime(now_ns // SECOND))


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
            known = self._duplicate(prepared)
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
        for seq, entry in zip(seqs, entries, strict=True):
            stored = body.read(key(self._stream.id, seq), entry.kind, entry.time_ns, entry.body)
            self._taking.apply(stored)
        for seq, (place, prepared) in zip(seqs, self._fresh.items(), strict=True):
            self._answers[place] = _logged(prepared, event_ref(self._stream.name, seq))
        self._fresh.clear()

    def _duplicate(self, prepared: Prepared) -> Logged | None:
        if prepared.event.event_id is not None:
            return self._by_id(prepared)
        if prepared.is_timed:
            query = "e.time_ns = ? AND e.digest = ? ORDER BY e.event LIMIT 1"
            return self._same(prepared, query, (prepared.entry.time_ns, prepared.digest))
        query = "e.event = a.latest AND e.digest = ? AND abs(e.time_ns - ?) <= ?"
        return self._same(prepared, query, (prepared.digest, prepared.entry.time_ns, AGAIN_NS))

    def _by_id(self, prepared: Prepared) -> Logged | None:
        query = (
            "SELECT e.event, e.digest FROM attempt_event e JOIN attempt a ON a.id = e.attempt "
            "WHERE e.event_id = ? AND a.name = ?"
        )
        for event, digest in self._connection.execute(query, (prepared.facts.event_id, prepared.attempt)):
            same = digest == prepared.digest
            return self._repeated(event, prepared.facts.event_id, prepared, () if same else (_OTHER,))
        return None

    def _same(self, prepared: Prepared, condition: str, values: tuple[int, ...]) -> Logged | None:
        query = (
            "SELECT e.event, e.event_id FROM attempt a JOIN attempt_event e ON e.attempt = a.id "
            f"WHERE a.name = ? AND {condition}"
        )
        for event, event_id in self._connection.execute(query, (prepared.attempt, *values)):
            return self._repeated(event, event_id, prepared, ())
        return None

    def _repeated(self, event: int, event_id: str, prepared: Prepared, warnings: tuple[str, ...]) -> Logged:
        query = "SELECT name FROM stream WHERE id = ?"
        stream = next(iter(self._connection.execute(query, (event >> SEQ_BITS,))))[0]
        return Logged(event_id, prepared.attempt, event_ref(stream, event & MAX_SEQ), True, warnings)


_OTHER: Final = "event_id: an event with this id was logged before and said something else; that one stays."


def _logged(prepared: Prepared, ref: str) -> Logged:
    facts, warnings = prepared.facts, list[str]()
    if facts.known is False:
        warnings.append("payload.graph_version: no graph here has or had this version (known: false).")
    if facts.skewed:
        warnings.append("timestamp: more than 24 hours from this desk's clock.")
    if prepared.cut:
        warnings.append("payload: larger than 65536 bytes; a shortened one is kept, the whole as a payload.")
    return Logged(facts.event_id, prepared.attempt, ref, False, tuple(warnings))
