"""Proof that nothing was changed: every row of a journal against its chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tracedesk.journal import chain
from tracedesk.journal.file import APPLICATION_ID, SEQ_BITS, guards, open_reader
from tracedesk.journal.model import Event, JournalError, Stream
from tracedesk.journal.sqlite import Connection, SQLiteError
from tracedesk.journal.stream import every, span
from tracedesk.primitives import json

_LOW = (1 << SEQ_BITS) - 1


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing found wrong in a stream, and where."""

    stream: str
    seq: int | None
    problem: str


@dataclass(slots=True)
class Report:
    """What was checked, and what was found."""

    streams: int = 0
    events: int = 0
    pruned: int = 0
    heads: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[Fault] = field(default_factory=list[Fault])

    @property
    def is_sound(self) -> bool:
        return not self.faults


def verify(path: Path, *, progress: Callable[[int], None] | None = None) -> Report:
    """Check a whole journal file in one pass, in memory that does not grow with it."""
    report = Report()
    try:
        connection = open_reader(path)
    except (SQLiteError, JournalError) as problem:
        report.faults.append(Fault("", None, f"the file cannot be opened: {problem}"))
        return report
    with connection:
        try:
            _check_file(connection, report)
            for stream in every(connection):
                _check_stream(connection, stream, report, progress)
            _check_strays(connection, report)
        except (SQLiteError, ValueError, TypeError) as problem:
            report.faults.append(Fault("", None, f"the file is damaged: {problem}"))
    connection.close()
    return report


def _check_file(connection: Connection, report: Report) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        report.faults.append(Fault("", None, "the file is not a journal"))
    present = {
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    }
    missing = sorted(guards() - present)
    if missing:
        report.faults.append(Fault("", None, f"guards are missing: {', '.join(missing)}"))


def _check_stream(
    connection: Connection, stream: Stream, report: Report, progress: Callable[[int], None] | None
) -> None:
    report.streams += 1
    tomb = list(connection.execute("SELECT pruned_ns, hash FROM tombstone WHERE stream = ?", (stream.id,)))
    if tomb:
        report.pruned += 1
        problem = _pruned_fault(connection, stream, *tomb[0])
    else:
        problem = _chain_fault(connection, stream, report, progress)
    if problem is not None:
        report.faults.append(problem)


def _chain_fault(
    connection: Connection, stream: Stream, report: Report, progress: Callable[[int], None] | None
) -> Fault | None:
    """Walk events and batches side by side, recomputing each link."""
    head, last = chain.genesis(stream), 0
    events = _events(connection, stream)
    for first, end, stored in _batches(connection, stream):
        if first != last + 1 or end < first:
            return Fault(stream.name, last + 1, "a batch is missing or out of order")
        batch = _take(events, end - first + 1)
        if [e.seq for e in batch] != list(range(first, end + 1)):
            return Fault(stream.name, first, "an event is missing, or one is too many")
        head = chain.link(head, first, end, batch)
        if head != stored:
            return Fault(stream.name, first, "the batch that begins here is not what was written")
        last = end
        report.events += len(batch)
        if progress is not None:
            progress(report.events)
    if next(events, None) is not None:
        return Fault(stream.name, last + 1, "an event is in no batch")
    report.heads[stream.name] = head.hex()
    return _seal_fault(connection, stream, head, last)


def _seal_fault(connection: Connection, stream: Stream, head: bytes, last: int) -> Fault | None:
    query = "SELECT status, ended_ns, manifest, hash FROM seal WHERE stream = ?"
    for status, ended, manifest, stored in connection.execute(query, (stream.id,)):
        facts = json.loads(manifest)
        if facts.get("head") != head.hex() or facts.get("events") != last:
            return Fault(stream.name, last, "the seal is of another chain")
        if chain.seal(head, status, ended, manifest) != stored:
            return Fault(stream.name, last, "the seal was changed")
    return None


def _pruned_fault(connection: Connection, stream: Stream, pruned_ns: int, stored: bytes) -> Fault | None:
    query = "SELECT status, ended_ns, manifest, hash FROM seal WHERE stream = ?"
    for status, ended, manifest, sealed in connection.execute(query, (stream.id,)):
        facts = json.loads(manifest)
        if facts.get("genesis") != chain.genesis(stream).hex():
            return Fault(stream.name, None, "the stream's row is not the sealed one's")
        if chain.seal(bytes.fromhex(facts["head"]), status, ended, manifest) != sealed:
            return Fault(stream.name, None, "the seal was changed")
        if chain.tombstone(sealed, pruned_ns) != stored:
            return Fault(stream.name, None, "the tombstone was changed")
        if any(connection.execute("SELECT 1 FROM event WHERE id BETWEEN ? AND ? LIMIT 1", span(stream))):
            return Fault(stream.name, None, "a pruned stream has events")
        return None
    return Fault(stream.name, None, "a tombstone stands without its seal")


def _check_strays(connection: Connection, report: Report) -> None:
    """Rows that belong to no stream."""
    for table, stream in (
        ("event", f"id >> {SEQ_BITS}"),
        ("batch", f"id >> {SEQ_BITS}"),
        ("seal", "stream"),
        ("tombstone", "stream"),
    ):
        query = f"SELECT {stream} FROM {table} WHERE {stream} NOT IN (SELECT id FROM stream) LIMIT 1"
        if any(connection.execute(query)):
            report.faults.append(Fault("", None, f"the table {table} has rows of no stream"))


def _events(connection: Connection, stream: Stream) -> Iterator[Event]:
    query = "SELECT id, kind, time_ns, body, parent FROM event WHERE id BETWEEN ? AND ? ORDER BY id"
    for identifier, kind, time_ns, body, parent in connection.execute(query, span(stream)):
        yield Event(identifier & _LOW, kind, time_ns, body, parent)


def _batches(connection: Connection, stream: Stream) -> Iterator[tuple[int, int, bytes]]:
    query = "SELECT id, last, hash FROM batch WHERE id BETWEEN ? AND ? ORDER BY id"
    for identifier, last, digest in connection.execute(query, span(stream)):
        yield identifier & _LOW, last, digest


def _take(events: Iterable[Event], count: int) -> list[Event]:
    taken: list[Event] = []
    source = iter(events)
    while len(taken) < count:
        event = next(source, None)
        if event is None:
            break
        taken.append(event)
    return taken
