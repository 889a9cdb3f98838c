"""The background flow: crowds of seeded agents that act on a clock."""

from __future__ import annotations

from collections.abc import Iterable

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local.flow.crowd import Crowd
from tracedesk.exchange.local.flow.floor import Floor
from tracedesk.exchange.local.plan import CALM
from tracedesk.exchange.venue.events import Event, TouchChanged, Traded


class Flow:
    """Everyone who trades besides the users; the same seed and clock make the same market."""

    def __init__(
        self, floor: Floor, instruments: Iterable[Instrument], *, seed: int = 1, pace: float = CALM
    ) -> None:
        if pace <= 0:
            raise ValueError(f"the pace must be above 0, not {pace}")
        self.seed = seed
        self.pace = pace
        self.crowds = {each.symbol: Crowd(seed, each, floor, pace) for each in instruments}

    def hear(self, event: Event) -> None:
        """Take an event of the venue."""
        if isinstance(event, TouchChanged):
            if (crowd := self.crowds.get(event.symbol)) is not None:
                crowd.touched(event)
        elif isinstance(event, Traded) and (crowd := self.crowds.get(event.symbol)) is not None:
            crowd.traded(event)

    def open(self, now_ns: int) -> None:
        """Lay out all books."""
        for crowd in self.crowds.values():
            crowd.open(now_ns)

    def due(self) -> int:
        """When someone acts next."""
        return min(crowd.due() for crowd in self.crowds.values())

    def act(self, now_ns: int) -> None:
        """Let everyone act whose time has come, each once; ask `due` again afterwards."""
        for crowd in self.crowds.values():
            if crowd.due() <= now_ns:
                crowd.act(now_ns)

    def resume(self, now_ns: int) -> None:
        """Go on from now after the clock was stopped or set, without making up for it."""
        for crowd in self.crowds.values():
            crowd.resume(now_ns)
