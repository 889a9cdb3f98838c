"""Which position an update is about: its symbol's one, or one of several that are held side by side.

Where every update of a symbol names its position, each of these is a position of its own; where one names
none, the symbol has a single position, whatever the others call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tracedesk.backtest.model import POSITION, SYMBOL, EventType, canonical
from tracedesk.backtest.query import Recording


class Held(NamedTuple):
    """A position: its symbol, and its id where the symbol may have several."""

    symbol: str
    id: str | None = None


class Positions:
    """Tells the positions of a run's updates apart."""

    def __init__(self, single: Iterable[str]) -> None:
        self._single = frozenset(single)

    @classmethod
    def of(cls, recording: Recording) -> Positions:
        """By all updates that the run has now."""
        query = (
            "SELECT DISTINCT t.value FROM slot s JOIN text t ON t.id = s.symbol "
            "WHERE s.type = ? AND s.params = ''"
        )
        values = (EventType.PositionUpdate.value,)
        return cls(symbol for (symbol,) in recording.connection.execute(query, values))

    def held(self, properties: Mapping[str, Any]) -> Held:
        """The position that an update with these properties is about."""
        symbol = canonical(properties.get(SYMBOL)) or ""
        return Held(symbol) if symbol in self._single else Held(symbol, named(properties))


def named(properties: Mapping[str, Any]) -> str | None:
    """The id of the position that an update names."""
    return canonical(properties.get(POSITION))
