"""Draft of a run: events in memory, which are recorded or thrown away later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracedesk.backtest.adapters.guard import Guard

Event = tuple[str, int, Mapping[str, Any], int | None]


class Draft:
    """A sink that numbers events from one and keeps them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._incomplete: str | None = None

    def emit(
        self, type: str, time: int, properties: Mapping[str, Any], /, *, parent: int | None = None
    ) -> int:
        self._events.append((type, time, properties, parent))
        return len(self._events)

    def claim(self, run: object) -> object:
        return run

    def mark_incomplete(self, reason: str) -> None:
        self._incomplete = self._incomplete or reason

    def play(self, guard: Guard) -> None:
        """Record the events as those of one run of an engine."""
        guard.attempt(lambda: self._play(guard))

    def _play(self, guard: Guard) -> None:
        if not self._events or not guard.claim():
            return
        seqs = [0]
        for kind, time, properties, parent in self._events:
            seqs.append(guard.tape.copy(kind, time, properties, None if parent is None else seqs[parent]))
        if self._incomplete is not None:
            guard.mark_incomplete(self._incomplete)
