"""How lively a market is and how deep: the figures its agents are drawn from.

They were taken from recordings of BTCUSDT and ETHUSDT of 8 August 2024 (347 s each): about 280 update ids a
second in the median, nine taking orders a second worth 214 dollars in the median and 6,200 in the upper
tenth, one tick of spread nine times in ten, and about 60,000 dollars at the touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Ring:
    """A group of a market maker's orders at a distance from the touch; distances in 1e-4 of the price."""

    orders: int
    nearest: float
    furthest: float
    """The bounds of the distance; it is exponential with the mean of the two where `steep` is set."""
    steep: bool
    share: float
    """How many of all changes are of this ring."""
    size: float
    """The median worth of an order in dollars."""
    spread: float
    """The deviation of the logarithm of that worth."""
    most: float
    """How many times the median an order is worth at most."""


RINGS: Final = (
    Ring(7, 0.0, 0.0, False, 0.12, 7_500, 0.8, 3.0),
    Ring(30, 0.05, 5.0, True, 0.62, 10_000, 1.2, 6.0),
    Ring(40, 3.0, 40.0, False, 0.16, 25_000, 1.5, 40.0),
    Ring(24, 40.0, 300.0, False, 0.10, 60_000, 1.5, 40.0),
)
"""From the touch outwards."""


@dataclass(frozen=True, slots=True)
class Character:
    """The rates of one market at pace 1, per second."""

    changes: float = 34.0
    """Orders that market makers move."""
    takers: float = 4.5
    """Orders that take, before they excite each other."""
    taker_worth: float = 214.0
    """Their median worth in dollars."""
    taker_spread: float = 2.6
    """The deviation of the logarithm of that worth."""
    most_worth: float = 250_000.0
    size: float = 1.0
    """The worth of resting orders relative to BTCUSDT's."""
    pace: float = 1.0


CHARACTERS: Final[Mapping[str, Character]] = MappingProxyType(
    {
        "BTCUSDT": Character(),
        "ETHUSDT": Character(takers=3.5, taker_worth=110.0, size=0.5),
        "BNBUSDT": Character(takers=2.5, taker_worth=110.0, size=0.25, pace=0.5),
        "SOLUSDT": Character(takers=2.5, taker_worth=110.0, size=0.25, pace=0.5),
        "ETHBTC": Character(takers=1.0, taker_worth=150.0, size=0.5, pace=0.3),
    }
)
OTHERS: Final = Character(takers=1.0, taker_worth=110.0, size=0.1, pace=0.3)


def character(symbol: str) -> Character:
    return CHARACTERS.get(symbol, OTHERS)
