"""How patient an order desk is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds."""

    asks: tuple[float, ...] = (0.0, 0.25, 1.0)
    """The waits before each time that the venue is asked for an order without an answer."""
    arrives: float = 30.0
    """How long after its intent an order that the venue does not have may still turn up there.

    The venue refuses what was signed more than 5 seconds ago; the rest is for clocks and its own lookups.
    """
    fresh: float = 10.0
    """An order that was not sent so soon after it was judged is not sent."""
    watch: float = 1.0
    """How often the switch's file and the dead man's timer are looked at."""
    settle: float = 2.0
    """How often orders of unknown outcome are asked about."""
    sweep: float = 1.0
    """How soon cancelling everything is tried again where it failed; later each time."""
    confirms: float = 45.0
    """Seconds that a call waits for the person on the page before it is answered."""
    answer: float = 2.0
    """How long before its deadline a call is answered that still waits for the venue."""
