"""What a local exchange is to do: run seeded flow, or replay recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tracedesk.exchange.local.limits import By
from tracedesk.exchange.venue.queue import QueueModel

CALM: Final = 0.3
"""The pace of a market that nothing else was said of: three tenths of the recorded one."""
WARM_UP: Final = 30
"""Seconds of trading that are run through before the exchange opens."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How an exchange is run; everything in it travels to the host as JSON."""

    port: int = 0
    """0 takes any free port."""
    seed: int = 1
    pace: float = CALM
    """How lively the seeded flow is, 1 being a lively day of BTCUSDT."""
    symbols: tuple[str, ...] = ()
    """The markets; none is all that are listed, or those of the recordings."""
    replay: tuple[str, ...] = ()
    """Recordings to play instead of seeded flow, one for each market."""
    speed: float = 1.0
    loop: bool = False
    as_recorded: bool = False
    """Whether replayed events keep their own times, and the exchange's clock with them."""
    queue: QueueModel = "risk-averse"
    """How users' orders queue behind recorded quantities."""
    idle_seconds: int = 0
    """How long nobody uses it before it ends by itself; 0 keeps it running."""
    limits: By = "account"
    """By whom requests are counted."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Plan:
        return cls(
            port=int(document["port"]),
            seed=int(document["seed"]),
            pace=float(document["pace"]),
            symbols=tuple(document["symbols"]),
            replay=tuple(document["replay"]),
            speed=float(document["speed"]),
            loop=bool(document["loop"]),
            as_recorded=bool(document["as_recorded"]),
            queue=document.get("queue", "risk-averse"),
            idle_seconds=int(document["idle_seconds"]),
            limits=document.get("limits", "account"),
        )

    def document(self) -> dict[str, Any]:
        return asdict(self)
