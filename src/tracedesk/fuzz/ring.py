"""The newest events of a campaign: at most 2,500, each type with a share that no other can take."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.primitives import json
from tracedesk.primitives.time import MICROSECOND, SECOND, format

CAPACITY: Final = 2_500
QUOTAS: Final[Mapping[str, int]] = {
    "PropertyFalsified": 500,
    "CoverageIncreased": 900,
    "WorkerStarted": 100,
    "WorkerStopped": 100,
    "TransactionExecuted": 900,
}
"""What each type keeps however many events of the others come; together the whole ring."""

TYPES: Final = tuple(QUOTAS)


@dataclass(frozen=True, slots=True)
class RingEvent:
    """One event as it is shown."""

    seq: int
    time_ns: int
    kind: str
    worker: int
    data: Mapping[str, Any]

    document: json.Raw
    """The event as `read_logs` answers it: encoded once, read many times."""

    @classmethod
    def of(cls, seq: int, time_ns: int, kind: str, worker: int, data: Mapping[str, Any]) -> RingEvent:
        shown = {
            "timestamp": stamp(time_ns),
            "eventType": kind,
            "workerId": worker,
            "data": {**data, "seq": seq},
        }
        return cls(seq, time_ns, kind, worker, data, json.Raw(json.dumps(shown)))


class Ring:
    """Takes events in order; a type gives way only while it holds more than its share."""

    def __init__(self, capacity: int = CAPACITY, quotas: Mapping[str, int] = QUOTAS) -> None:
        if sum(quotas.values()) != capacity:
            raise ValueError(f"the shares add up to {sum(quotas.values())}, not to {capacity}")
        self._capacity = capacity
        self._quotas = quotas
        self._events: dict[str, deque[RingEvent]] = {kind: deque() for kind in quotas}
        self._size = 0
        self._seq = 0
        self._last_ns = 0

    def __len__(self) -> int:
        return self._size

    def push(self, kind: str, worker: int, time_ns: int, data: Mapping[str, Any]) -> RingEvent:
        """Add an event; its time is never before that of the one before."""
        self._seq += 1
        self._last_ns = max(self._last_ns, time_ns)
        event = RingEvent.of(self._seq, self._last_ns, kind, worker, data)
        self._events[kind].append(event)
        self._size += 1
        if self._size > self._capacity:
            self._events[self._widest()].popleft()
            self._size -= 1
        return event

    def _widest(self) -> str:
        """The type furthest above its share: there is one whenever the ring is too full."""
        return max(self._quotas, key=lambda kind: len(self._events[kind]) - self._quotas[kind])

    def newest(self, count: int, kind: str | None = None, worker: int | None = None) -> list[RingEvent]:
        """The newest events that pass the filters, newest first."""
        kinds = (kind,) if kind is not None else self._quotas
        found = [e for k in kinds for e in self._events[k] if worker is None or e.worker == worker]
        found.sort(key=lambda event: -event.seq)
        return found[:count]

    def answer(self, count: int, kind: str | None = None, worker: int | None = None) -> dict[str, Any]:
        """What `read_logs` says."""
        events = [event.document for event in self.newest(count, kind, worker)]
        return {"events": events, "totalCount": len(self)}


def stamp(time_ns: int) -> str:
    """UTC with microseconds and Z, always."""
    whole, rest = divmod(time_ns // MICROSECOND, SECOND // MICROSECOND)
    return f"{format(whole * SECOND).removesuffix('Z')}.{rest:06}Z"
