"""Proof that nothing was changed: every row of a journal against its chain."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from tracedesk.journal import chain, forgetting, heads
from tracedesk.journal.file import SEQ_BITS, definitions, key, open_reader
from tracedesk.journal.format import DEFINITIONS
from tracedesk.journal.model import Event, JournalError, Stream, columns
from tracedesk.journal.sqlite import BusyError, Connection, InterruptError, SQLiteError
from tracedesk.journal.stream import every, genesis_of, span
from tracedesk.primitives import json

_LOW: Final = (1 << SEQ_BITS) - 1
_DAMAGE: Final = (
    SQLiteError,
    JournalError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    struct.error,
)


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
    forgotten: int = 0
    """Bodies that were taken out and are recorded as such."""
    heads: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[Fault] = field(default_factory=list[Fault])

    @property
    def is_sound(self) -> bool:
        return not self.faults


def verify(path: Path, *, progress: Callable[[int], None] | None = None) -> Report:
    """Check a whole journal file as it is now, in memory that does not grow with it."""
    report = Report()
    with _noting(report), closing(open_reader(path)) as connection, connection:
        _check_file(connection, path, report)
        gone = forgetting.hashes(connection)
        for stream in every(connection):
            _check_stream(connection, stream, report, progress, gone)
        _check_strays(connection, report)
    return report


@contextmanager
def _noting(report: Report) -> Generator[None]:
    """What a damaged file makes the reading fail with is a fault; a busy or interrupted one is not."""
    try:
        yield
    except (BusyError, InterruptError):
        raise
    except _DAMAGE as problem:
        report.faults.append(Fault("", None, f"the file cannot be read: {problem}"))


def has_log(path: Path) -> bool:
    """Whether the file has a log that is not written back to it yet."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _check_file(connection: Connection, path: Path, report: Report) -> None:
    problems = [text for (text,) in connection.execute("PRAGMA integrity_check(1)") if text != "ok"]
    found = dict(connection.execute(DEFINITIONS))
    changed = sorted(name for name, sql in definitions().items() if found.get(name) != sql)
    changed += heads.changed_definitions(found)
    if changed:
        problems.append(f"guards are missing or changed: {', '.join(changed)}")
    # Pages that a VACUUM has let go stay in the file until the log is written back to it.
    settled = not has_log(path)
    if settled and path.stat().st_size > connection.pragma("page_count") * connection.pragma("page_size"):
        problems.append("the file is longer than the journal in it")
    report.faults += [Fault("", None, problem) for problem in problems]


def _check_stream(
    connection: Connection,
    stream: Stream,
    report: Report,
    progress: Callable[[int], None] | None,
    gone: Mapping[int, bytes],
) -> None:
    report.streams += 1
    if genesis_of(connection, stream) != chain.genesis(stream):
        report.faults.append(Fault(stream.name, None, "the stream's row was changed"))
        return
    tomb = list(connection.execute("SELECT pruned_ns, hash FROM tombstone WHERE stream = ?", (stream.id,)))
    if tomb:
        report.pruned += 1
        problem = _pruned_fault(connection, stream, *tomb[0])
    else:
        problem = _chain_fault(connection, stream, report, progress, gone)
    if problem is not None:
        report.faults.append(problem)


def _chain_fault(
    connection: Connection,
    stream: Stream,
    report: Report,
    progress: Callable[[int], None] | None,
    gone: Mapping[int, bytes],
) -> Fault | None:
    """Walk events and batches side by side, recomputing each link."""
    head, last = chain.genesis(stream), 0
    events, batches = _events(connection, stream), _batches(connection, stream)
    following = next(batches, None)
    while following is not None:
        first, end, stored = following
        following = next(batches, None)
        # The next batch bounds this one before its events are taken: a false end would take them all.
        if first != last + 1 or end < first or (following is not None and following[0] != end + 1):
            return Fault(stream.name, last + 1, "a batch is missing or out of order")
        batch = list(islice(events, end - first + 1))
        if len(batch) != end - first + 1 or any(e.seq != seq for seq, e in enumerate(batch, first)):
            return Fault(stream.name, first, "an event is missing, or one is too many")
        if any(e.parent is not None and not 0 < e.parent < e.seq for e in batch):
            return Fault(stream.name, first, "an event's parent is not an earlier event")
        hashes = [_hash(stream, event, gone) for event in batch] if stream.framing > 2 else None
        head = chain.link(stream, head, range(first, end + 1), columns(batch), hashes)
        if head != stored:
            return Fault(stream.name, first, "the batch that begins here is not what was written")
        last = end
        report.events += len(batch)
        report.forgotten += sum(key(stream.id, seq) in gone for seq in range(first, end + 1)) if gone else 0
        if progress is not None:
            progress(report.events)
    if next(events, None) is not None:
        return Fault(stream.name, last + 1, "an event is in no batch")
    report.heads[stream.name] = head.hex()
    return _seal_fault(connection, stream, head, last)


def _hash(stream: Stream, event: Event, gone: Mapping[int, bytes]) -> bytes:
    """The hash that stands for a body, also for one that was taken out, if a record says so."""
    recorded = gone.get(key(stream.id, event.seq))
    found = None if recorded is None else forgetting.of(event.body)
    return found.hash if found is not None and found.hash == recorded else chain.body_hash(event.body)


def _seal_fault(connection: Connection, stream: Stream, head: bytes, last: int) -> Fault | None:
    query = "SELECT status, ended_ns, manifest, hash FROM seal WHERE stream = ?"
    for status, ended, manifest, stored in connection.execute(query, (stream.id,)):
        if chain.seal(head, status, ended, manifest) != stored:
            return Fault(stream.name, last, "the seal was changed, or is of another chain")
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
        for table in ("event", "batch"):
            if any(
                connection.execute(f"SELECT 1 FROM {table} WHERE id BETWEEN ? AND ? LIMIT 1", span(stream))
            ):
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
