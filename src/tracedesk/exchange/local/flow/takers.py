"""Agents that take: those without a plan, those who follow a trend, those who see a bargain."""

from __future__ import annotations

from math import exp
from random import Random
from typing import Final

from tracedesk.exchange.local.flow.character import Character
from tracedesk.exchange.local.flow.floor import Side, Sight

SAME: Final = 0.68
"""How often a taking order goes the way of the one before."""
EXCITES: Final = 0.9
"""How much of an order more each taking order brings about, on average over its echo."""
ECHO: Final = 0.5
"""Seconds in which the excitement of one order falls to 37 %."""
_BASIS: Final = 10_000


class Noise:
    """Traders without a plan; their orders come in clusters."""

    def __init__(self, sight: Sight, character: Character, pace: float, random: Random) -> None:
        self._sight = sight
        self._character = character
        self._random = random
        self._base = character.takers * pace
        self.busy = 1.0
        """How busy everyone is, 1 being usual."""
        self._heat = 0.0
        self._heated_at = 0
        self._buying = True

    def wait(self, now_ns: int) -> int:
        """When to look again: often enough for the rate of this moment."""
        return now_ns + int(self._random.expovariate(self.rate(now_ns)) * 1e9)

    def rate(self, now_ns: int) -> float:
        """Orders per second that come now."""
        return self._base * self.busy + self._warmth(now_ns)

    def act(self, now_ns: int) -> None:
        """Send one order."""
        self._heat = min(self._warmth(now_ns) + EXCITES * self._random.random() / ECHO, 12 * self._base)
        self._heated_at = now_ns
        if self._random.random() > SAME:
            self._buying = self._random.random() < self._tilt()
        worth = self._character.taker_worth * self._random.lognormvariate(0.0, self._character.taker_spread)
        worth = min(max(worth, 6.0), self._character.most_worth)
        side: Side = "BUY" if self._buying else "SELL"
        self._sight.floor.flow_market(self._sight.symbol, side, self._sight.quantity(worth))

    def _warmth(self, now_ns: int) -> float:
        return self._heat * exp(-max(now_ns - self._heated_at, 0) / (ECHO * 1e9))

    def _tilt(self) -> float:
        """How likely a buyer is: more so while the market stands below what is fair."""
        sight = self._sight
        gap = (sight.reserve - sight.mid) * _BASIS / max(sight.reserve, 1)
        return min(max(0.5 + 0.25 * gap, 0.05), 0.95)


class Trend:
    """Traders who compare a quick average of the price with a slow one and go with the difference."""

    QUICK: Final = 5.0
    SLOW: Final = 40.0
    ENOUGH: Final = 2.0
    """The difference, in 1e-4 of the price, at which they act."""
    REST: Final = 20.0
    """Seconds after a run of orders in which there is no other."""

    def __init__(self, sight: Sight, character: Character, random: Random) -> None:
        self._sight = sight
        self._character = character
        self._random = random
        self._quick = self._slow = 0.0
        self._seen_at = 0
        self._until = 0
        self._left = 0
        self._side: Side = "BUY"

    def look(self, now_ns: int) -> None:
        """See the price, and take part in a run while one lasts."""
        mid = float(self._sight.mid)
        seconds = max(now_ns - self._seen_at, 0) / 1e9
        if not self._seen_at:
            self._quick = self._slow = mid
        else:
            self._quick += (mid - self._quick) * (1 - exp(-seconds / self.QUICK))
            self._slow += (mid - self._slow) * (1 - exp(-seconds / self.SLOW))
        self._seen_at = now_ns
        self._decide(now_ns)

    def _decide(self, now_ns: int) -> None:
        gap = (self._quick - self._slow) * _BASIS / max(self._slow, 1.0)
        if not self._left and now_ns >= self._until and abs(gap) >= self.ENOUGH:
            self._left = 2 + int(self._random.random() * 5)
            self._side = "BUY" if gap > 0 else "SELL"
            self._until = now_ns + int(self.REST * 1e9)
        if self._left and self._random.random() < 0.3:
            self._left -= 1
            worth = 8 * self._character.taker_worth * self._random.lognormvariate(0.0, 0.8)
            self._sight.floor.flow_market(self._sight.symbol, self._side, self._sight.quantity(worth))


def take_mispriced(sight: Sight, margin: int, worth: float) -> None:
    """Buy what is offered below the fair price by more than the margin, or sell to who pays above it."""
    most = sight.quantity(worth)
    if sight.ask and sight.ask[0] < sight.reserve - margin:
        sight.floor.flow_market(sight.symbol, "BUY", min(sight.ask[1], most))
    elif sight.bid and sight.bid[0] > sight.reserve + margin:
        sight.floor.flow_market(sight.symbol, "SELL", min(sight.bid[1], most))
