"""Events between the engine that emits them and the thread that writes them, where Python does it all."""

from __future__ import annotations

from dataclasses import dataclass

from tracedesk.backtest.model import EventType
from tracedesk.backtest.projection import Draft, Given
from tracedesk.backtest.shapes import Row


@dataclass(frozen=True, slots=True)
class Taken:
    """Events that were taken to be written."""

    drafts: list[Draft]
    bodies: list[bytes]

    @property
    def count(self) -> int:
        return len(self.drafts)


class Tape:
    """The events of one run that wait; its user holds a lock."""

    def __init__(self, full: int) -> None:
        self._full = full
        self._drafts: list[Draft] = []
        self._bodies: list[bytes] = []
        self.next = 1

    @property
    def waiting(self) -> int:
        return len(self._drafts)

    def push(
        self, kind: EventType, time: int, row: Row, body: bytes, parent: int | None, given: Given | None
    ) -> int:
        """Take an event in and return its seq, negative where the writer should be told."""
        seq = self.next
        if parent is not None and not 0 < parent < seq:
            raise ValueError(f"parent: {parent} is not an earlier event's seq; the next is {seq}")
        self.next = seq + 1
        self._drafts.append((kind, time, row, parent, len(body), given))
        self._bodies.append(body)
        waiting = len(self._drafts)
        return -seq if waiting in (1, self._full) else seq

    def take(self, most: int) -> Taken:
        """The first of the events that wait, at most so many."""
        taken = Taken(self._drafts[:most], self._bodies[:most])
        del self._drafts[:most], self._bodies[:most]
        return taken
