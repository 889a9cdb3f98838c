"""The call log: records queued as calls end, and committed in groups to the trace journal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tracedesk.calls.record import PREFIX, CallRecord, Outcome, bodies, is_inline, kept_name, source
from tracedesk.contract import Call, Source, Tool
from tracedesk.journal import Entry, Journal, JournalError, Reader, forgetting
from tracedesk.journal.file import SMALL_PAGE, key
from tracedesk.journal.heads import Witness
from tracedesk.journal.sqlite import Connection, SQLiteError, insert
from tracedesk.journal.stream import FORGETTABLE, every
from tracedesk.payloads import Payloads
from tracedesk.primitives import json, time
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.supervision import SupervisedThread
from tracedesk.primitives.time import Clock

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.05
GROUP_SECONDS: Final = 0.2
"""How long a read's record may wait for company; with the commit itself it stays under 250 ms."""

_GRACE_NS: Final = 86_400 * 1_000_000_000
"""A month is sealed a day after its end: desks whose clocks differ may still write to it until then."""

MOST_HELD: Final = 16 << 20
"""Bytes of ended calls that may wait for the writer: every large answer costs it a sync of the disk."""
MOST_OF_STRANGERS: Final = 4 << 20
"""The same, beyond which callers without a token wait: a token holder then finds room."""
_OVERHEAD: Final = 1_024
"""Bytes of a record beside its bodies."""
_INDEX: Final = """
CREATE TABLE IF NOT EXISTS call_index(id BLOB PRIMARY KEY, event INTEGER NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS attempt_run(
  attempt TEXT NOT NULL, event INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY(attempt, event)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS call_alias(
  holder TEXT NOT NULL, space TEXT NOT NULL, name TEXT NOT NULL, event INTEGER NOT NULL,
  PRIMARY KEY(holder, space, name)
) WITHOUT ROWID, STRICT;
"""
_INTO_CALLS: Final = "INSERT OR IGNORE INTO call_index"
_INTO_ALIASES: Final = "INSERT OR REPLACE INTO call_alias"
_INTO_ATTEMPTS: Final = "INSERT OR IGNORE INTO attempt_run"
"""Calls of one attempt that were written one after the other are one row; older desks wrote a row each."""


class RecordError(Exception):
    """A call's record that could not be written; `kind` names the exception behind it."""

    def __init__(self, message: str, kind: str = "RecordError") -> None:
        super().__init__(message)
        self.kind = kind

    @classmethod
    def of(cls, problem: BaseException) -> RecordError:
        """The error for what kept a record from the disk."""
        if isinstance(problem, RecordError):
            return problem
        text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        lost = cls(text or type(problem).__name__, type(problem).__name__)
        lost.__cause__ = problem.with_traceback(None)  # its frames hold the records
        return lost


class CallLog:
    """Records calls without delaying reads: one thread writes, and only state-changing calls wait for it."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        secrets: Secrets,
        payloads: Payloads,
        witness: Witness | None = None,
    ) -> None:
        self.path = path
        self.witness = witness
        self.total = 0
        self.errors = 0
        self.unwritten = 0
        self._clock = clock
        self._secrets = secrets
        self._payloads = payloads
        self._queue: deque[CallRecord] = deque()
        self._pending: dict[str, CallRecord] = {}
        self._work = threading.Event()
        self._urgent = threading.Event()
        self._stopping = False
        self._is_stopped = False
        self._journal: Journal | None = None
        self._held = 0
        """Bytes of the records that wait or are being written."""
        self._counting = threading.Lock()
        self._taken: list[CallRecord] = []
        """Records that the writer has taken from the queue."""
        self._writer = SupervisedThread("call log", self._write, failed=self._writer_failed)

    # --- what dispatch does

    def open(self, call: Call[Any], tool: Tool, arguments: Any) -> CallRecord:
        label = call.label
        record = CallRecord(
            call.id,
            tool.name,
            tool.toolset,
            arguments,
            label,
            call.principal,
            kept_name(call.attempt) if call.attempt else label,
            self._clock.now_ns(),
            not tool.annotations.read_only,
        )
        self._pending[call.id] = record
        self.total += 1
        return record

    def close(self, record: CallRecord, outcome: Outcome, code: str | None, result: bytes, us: int) -> None:
        record.outcome, record.code, record.result, record.duration_us = outcome, code, result, us
        if outcome == "error":
            self.errors += 1
        if record.stored:
            record.arguments = None
            self._pending.pop(record.id, None)
            return
        try:
            record.seal(self._secrets)
        except Exception as problem:
            log.error("the arguments of call %s could not be kept: %s", record.id, type(problem).__name__)
            with contextlib.suppress(Exception):
                record.give_up(problem)
        finally:
            # Whatever failed: what a caller sent is never held longer than its call.
            record.arguments = None
            if record.is_sealed:
                self._count(record, _OVERHEAD + record.size)
                self._queue.append(record)
            else:
                self._lose([record], RecordError("its record could not be made"))
        if not self._work.is_set():
            self._start()

    def store(self, journal: Journal, record: CallRecord, result: bytes) -> None:
        """Write a call that is about to end well into its toolset's transaction, with its effect.

        `record.stored` is for the caller to set, once the transaction is on the disk.
        """
        now = self._clock.now_ns()
        record.outcome, record.result, record.duration_us = "ok", result, (now - record.started_ns) // 1000
        body = record.body(self._secrets)
        if not is_inline(record.result):
            self._payloads.put(record.result)
        append(journal, month(now), [record], [body])

    async def settle(self, record: CallRecord) -> None:
        """Wait until the record is on the disk, or raise what kept it from there."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        record.committed = waiter
        self._urgent.set()
        if record.id in self._pending:
            if not self._writer.is_running:
                self._start()
            await waiter
        elif record.problem is not None:
            raise record.problem

    async def room(self, *, stranger: bool) -> None:
        """Wait while so many records wait that another call could not be recorded safely."""
        while self.is_full(stranger=stranger):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    def is_full(self, *, stranger: bool) -> bool:
        return self._held >= (MOST_OF_STRANGERS if stranger else MOST_HELD)

    def _count(self, record: CallRecord, size: int) -> None:
        with self._counting:
            self._held += size - record.held
        record.held = size

    # --- what readers do

    def pending(self, ref: str) -> Source | None:
        """A call that is running, or that ended a moment ago."""
        record = self._pending.get(ref.removeprefix(PREFIX))
        if record is None:
            return None
        return source(json.loads(record.body(self._secrets)), record.started_ns)

    def stop(self) -> None:
        """Write what is queued and end the writer; a call that ends later is answered without a record."""
        self._stopping = True
        self._urgent.set()
        self._work.set()
        self._writer.join()
        self._writer.forget()
        self._is_stopped = True
        self._lose_waiting(RecordError("the desk is closing"))

    # --- the writer

    def _start(self) -> None:
        if self._is_stopped:
            self._lose_waiting(RecordError("the desk is closing"))
            return
        self._work.set()
        try:
            self._writer.start()
        except (RuntimeError, MemoryError) as problem:  # the system has no thread left
            self._writer.report(problem)
            self._lose_waiting(problem)

    def _write(self) -> None:
        if self._taken:
            self._lose_taken(RecordError("the writer failed, and its failure could not be handled"))
        while True:
            self._work.wait()
            self._urgent.wait(GROUP_SECONDS)
            self._work.clear()
            self._urgent.clear()
            self._taken = _drain(self._queue)
            if self._taken:
                self._write_taken()
            if self._stopping and not self._queue:
                break
        self._close_journal()

    def _write_taken(self) -> None:
        """Commit the records in one go; where something unexpected fails, each by itself."""
        try:
            self._commit(self._taken)
        except (SQLiteError, JournalError, OSError) as problem:
            self._writer.report(problem)
            self._lose_taken(problem)
        except BaseException as problem:
            if len(self._taken) == 1:
                raise
            log.error("%d call records are written one by one: %s", len(self._taken), type(problem).__name__)
            self._close_journal()
            while self._taken:
                self._write_alone(self._taken[0])
                del self._taken[0]
        else:
            self._writer.well()
            self._done(self._taken, None)
            self._taken = []

    def _write_alone(self, record: CallRecord) -> None:
        try:
            self._commit([record])
        except BaseException as problem:
            self._writer.report(problem)
            self._close_journal()
            self._lose([record], problem)
        else:
            self._done([record], None)

    def _writer_failed(self, problem: BaseException) -> None:
        """Answer the calls whose records were being written: nothing is known of these records any more."""
        self._work.set()  # others may wait in the queue
        self._close_journal()
        self._lose_taken(problem)

    def _lose_taken(self, problem: BaseException) -> None:
        # Only then are they let go of: who cannot answer them now is called again.
        self._lose(self._taken, problem)
        self._taken = []

    def _close_journal(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            with contextlib.suppress(Exception):
                journal.close()

    def _open(self) -> Journal:
        journal = Journal(self.path, self._clock, page=SMALL_PAGE, witness=self.witness)
        prepare(journal)
        self._seal_past_months(journal)
        return journal

    def _seal_past_months(self, journal: Journal) -> None:
        """Close the months that no desk writes to any more, so that they can be pruned."""
        oldest = month(self._clock.now_ns() - _GRACE_NS)
        for stream in every(journal.connection):
            if stream.kind == "calls" and stream.name < oldest:
                journal.seal(stream.name)

    def _commit(self, records: list[CallRecord]) -> None:
        journal = self._journal = self._journal or self._open()
        made = bodies(records, self._secrets)  # first, for it takes secrets out of results too
        for record in records:
            if record.put_off is None and record.result and not is_inline(record.result):
                self._payloads.put(record.result)
        append(journal, month(self._clock.now_ns()), records, made)

    def _lose(self, records: list[CallRecord], problem: BaseException) -> None:
        """Answer the calls whose records cannot be written."""
        if records:
            self._done(records, RecordError.of(problem))
            self.unwritten += len(records)
            log.error("%d call records could not be written: %s", len(records), problem)

    def _lose_waiting(self, problem: BaseException) -> None:
        self._lose(_drain(self._queue), problem)

    def _done(self, records: list[CallRecord], problem: RecordError | None) -> None:
        for record in records:
            # In this order: `settle` sets the waiter first and looks among the pending second.
            if problem is not None:
                record.problem = problem
            self._count(record, 0)
            self._pending.pop(record.id, None)
            waiter = record.committed
            if waiter is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and its calls are gone
                    waiter.get_loop().call_soon_threadsafe(_resolve, waiter, problem)


def append(journal: Journal, name: str, records: Sequence[CallRecord], bodies: Sequence[bytes]) -> None:
    """Write calls with these bodies to their stream, and what finds them."""
    stream, count = journal.open(name, "calls", framing=FORGETTABLE), len(records)

    def index(connection: Connection, first: int) -> None:
        base = key(stream.id, first)
        if count == 1:
            _index_one(connection, records[0], base)
        else:
            _index(connection, records, range(base, base + count))

    if count == 1:
        journal.append(name, [Entry("call", records[0].started_ns, bodies[0])], beside=index)
    else:
        starts = [record.started_ns for record in records]
        journal.append_columns(name, ["call"] * count, starts, bodies, [None] * count, beside=index)


def _index(connection: Connection, records: Sequence[CallRecord], ids: range) -> None:
    insert(connection, _INTO_CALLS, (_keys([r.id for r in records]), ids))
    runs: list[tuple[str, int, int]] = []
    done = 0
    for attempt, same in groupby(r.attempt for r in records):
        first, done = done, done + len(list(same))
        if attempt:
            runs.append((attempt, ids[first], ids[done - 1]))
    if runs:
        insert(connection, _INTO_ATTEMPTS, list(zip(*runs, strict=True)))
    for record, id in zip(records, ids, strict=True):
        if record.alias is not None and record.outcome == "ok":
            connection.execute(f"{_INTO_ALIASES} VALUES (?,?,?,?)", (*record.alias, id))


def _index_one(connection: Connection, record: CallRecord, id: int) -> None:
    connection.execute(f"{_INTO_CALLS} VALUES (?,?)", (bytes.fromhex(record.id.replace("-", "")), id))
    if record.attempt:
        connection.execute(f"{_INTO_ATTEMPTS} VALUES (?,?,?)", (record.attempt, id, id))
    if record.alias is not None and record.outcome == "ok":
        connection.execute(f"{_INTO_ALIASES} VALUES (?,?,?,?)", (*record.alias, id))


def prepare(journal: Journal) -> None:
    """Make the tables that find calls, where they are not there yet."""
    with journal.connection:
        journal.connection.execute(_INDEX)


def month(now_ns: int) -> str:
    """The stream of the calls made in the month of that moment."""
    return f"calls-{time.month(now_ns)}"


def drop_names(connection: Connection, event: int) -> None:
    """Take out the names that a forgotten call was found by."""
    if any(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'call_alias'")):
        connection.execute("DELETE FROM call_alias WHERE event = ?", (event,))


def _keys(identities: Sequence[str]) -> list[bytes]:
    """What calls are found by: the 16 bytes of each id."""
    everything = bytes.fromhex("".join(identities).replace("-", ""))
    return [everything[at : at + 16] for at in range(0, len(everything), 16)]


def _drain(queue: deque[CallRecord]) -> list[CallRecord]:
    return [queue.popleft() for _ in range(len(queue))]


def _resolve(waiter: asyncio.Future[None], problem: Exception | None) -> None:
    if waiter.done():
        return
    if problem is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(problem)


def find(reader: Reader, ref: str) -> Source | None:
    """The committed call behind a reference or a bare call id."""
    identity = ref.removeprefix(PREFIX)
    if not is_uuid(identity):
        return None
    query = (
        "SELECT event.body, event.time_ns FROM call_index JOIN event ON event.id = call_index.event "
        "WHERE call_index.id = ?"
    )
    for body, time_ns in reader.connection.execute(query, _keys([identity])):
        if forgetting.of(body) is not None:
            return None
        return source(json.loads(body), time_ns)
    return None


def named(reader: Reader, names: Sequence[tuple[str, str, str]]) -> Source | None:
    """The newest committed call that has one of these names, each a holder, a space and a name."""
    query = (
        "SELECT event.body, event.time_ns FROM call_alias JOIN event ON event.id = call_alias.event "
        "WHERE holder = ? AND space = ? AND name = ?"
    )
    there = "SELECT 1 FROM sqlite_master WHERE name = 'call_alias'"
    if not any(reader.connection.execute(there)):
        return None  # no desk of this version has written here yet
    found = (row for name in names for row in reader.connection.execute(query, name))
    rows = [row for row in found if forgetting.of(row[0]) is None]
    newest = max(rows, key=lambda row: row[1], default=None)
    return None if newest is None else source(json.loads(newest[0]), newest[1])
