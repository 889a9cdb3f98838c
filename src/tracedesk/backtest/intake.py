"""One run on its way in from a file: lines become events in batches, their ids become seqs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.backtest import runs, validation
from tracedesk.backtest.ids import event_id, guid_bytes, guid_text
from tracedesk.backtest.lines import Fault, Line, fault, foreign
from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY, RAW
from tracedesk.backtest.projection import Given
from tracedesk.backtest.runs import Plan
from tracedesk.backtest.scribe import Columns, Scribe, scribe
from tracedesk.home import Home
from tracedesk.journal import Journal, Stream
from tracedesk.journal.file import key
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json
from tracedesk.primitives.time import SystemClock

BATCH: Final = 4_096
"""Lines a transaction takes."""

_PLACES: Final = 512


@dataclass(slots=True)
class Intake:
    """A run's file while lines come in."""

    id: str
    name: str
    journal: Journal
    stream: Stream
    scribe: Scribe[Any]
    events: int = 0
    typed: int = 0
    """Lines that are an event of a known type, however malformed its properties."""
    malformed: int = 0
    invalid: int = 0
    waiting: list[Line] = field(default_factory=list[Line])
    latest_ns: int | None = None

    @classmethod
    def begin(cls, home: Home, id: str, plan: Plan) -> Intake:
        """A new run in a home."""
        journal, stream = runs.create(home, id, plan, clock=SystemClock())
        return cls(id, plan.name, journal, stream, scribe(journal, stream))

    def add(self, line: Line) -> None:
        self.waiting.append(line)
        if len(self.waiting) >= BATCH:
            self._write()

    def finish(self, source: Mapping[str, Any]) -> None:
        """Write what waits, and end the run."""
        self._write()
        count = "SELECT count(*) FROM fault"
        self.invalid = next(self.journal.connection.execute(count))[0]
        told = {**source, "invalid": self.invalid, "malformed": self.malformed}
        runs.seal(self.journal, self.stream, "ended", {"source": told})

    def close(self) -> None:
        self.scribe.close()
        self.journal.close()

    def _write(self) -> None:
        if not self.waiting:
            return
        found, self.waiting = self.waiting, []
        times = self._times(found)
        names = _Names(self.journal.connection, self.stream, self.id, self.events)
        names.look_up(found)
        first = self.events + 1
        settled = [self._settled(line, names) for line in found]
        columns = Columns(
            types=[line.type for line in found],
            times=times,
            rows=[line.properties for line in found],
            bodies=[line.body for line in found],
            parents=[parent for parent, _ in settled],
            given={seq: given for seq, (_, given) in enumerate(settled, first) if given is not None},
        )
        self.scribe.write_columns(columns, first)
        self.events += len(found)

    def _times(self, found: list[Line]) -> list[int]:
        """Each event's time; one without has that of the event before it, or of the first that has any."""
        known = next((line.time_ns for line in found if line.time_ns is not None), 0)
        times: list[int] = []
        for line in found:
            if line.time_ns is not None:
                self.latest_ns = line.time_ns
            times.append(known if self.latest_ns is None else self.latest_ns)
        return times

    def _settled(self, line: Line, names: _Names) -> tuple[int | None, Given | None]:
        """An event's parent, and what it is given beside its properties."""
        guid, parent = names.settle(line)
        self.typed += line.is_typed
        self.malformed += RAW in line.properties
        severity = None if line.severity == DEFAULT_SEVERITY[line.type] else line.severity
        category = None if line.category == DEFAULT_CATEGORY[line.type] else line.category
        faults = _undoubled(line)
        given = Given(severity, category, guid, json.dumps(faults) if faults else None)
        return parent, given if any(given) else None


def _undoubled(line: Line) -> list[Fault]:
    """The faults that come along, less those that the event's properties show anyway."""
    if not line.faults:
        return []
    shown = [*validation.faults_of(line.type, line.properties), validation.TOO_LARGE]
    return [one for one in line.faults if dict(one) not in shown]


# --- ids --------------------------------------------------------------------------------------


class _Names:
    """Which seq an id names, for one batch: ids of the batch itself, and those of earlier ones it needs."""

    def __init__(self, connection: Connection, stream: Stream, run: str, done: int) -> None:
        self._connection = connection
        self._base = key(stream.id, 0)
        self._run = run
        self._next = done + 1
        self._known: dict[bytes, int] = {}
        self._head = guid_bytes(event_id(run, 1))[:10]

    def _own(self, seq: int) -> bytes:
        """The id that an event has when it brings none."""
        return self._head + seq.to_bytes(6)

    def look_up(self, found: Sequence[Line]) -> None:
        """Find the earlier events that the batch's ids and parents name, in a few statements."""
        wanted = {id for line in found for id in (line.guid, line.parent) if id is not None}
        nameless = [seq for seq, line in enumerate(found, self._next) if line.guid is None]
        wanted |= {self._own(seq) for seq in nameless}
        derived = {id: int.from_bytes(id[10:]) for id in wanted if id[:10] == self._head}
        for row, guid in self._rows("guid", list(wanted)):
            self._known[guid] = row - self._base
        renamed = {row for row, _ in self._rows("event", [self._base + seq for seq in derived.values()])}
        for id, seq in derived.items():
            if 0 < seq < self._next and self._base + seq not in renamed:
                self._known.setdefault(id, seq)

    def _rows(self, column: str, values: list[Any]) -> Iterable[tuple[int, bytes]]:
        """The events that brought an id, by their ids or their rows."""
        for start in range(0, len(values), _PLACES):
            part = values[start : start + _PLACES]
            places = ",".join("?" * len(part))
            query = f"SELECT event, guid FROM given WHERE guid IS NOT NULL AND {column} IN ({places})"
            yield from self._connection.execute(query, part)

    def settle(self, line: Line) -> tuple[bytes | None, int | None]:
        """The id that the next event keeps, and its parent's seq; what cannot be, becomes a fault."""
        seq, self._next = self._next, self._next + 1
        parent = self._parent(line)
        own = self._own(seq)
        guid = line.guid or own
        if guid in self._known:
            words = f"{guid_text(guid)} is the id of event {self._known[guid]} already; it has one of its own"
            if line.guid is not None:
                line.faults.append(fault("EventId", words))
            guid = own if own not in self._known else foreign(f"event {seq} of {self._run}")
        self._known[guid] = seq
        return (None if guid == own else guid), parent

    def _parent(self, line: Line) -> int | None:
        if line.parent is None:
            return None
        seq = self._known.get(line.parent)
        if seq is None:
            words = f"{guid_text(line.parent)} is not an earlier event of this run"
            line.faults.append(fault("ParentEventId", words))
        return seq
