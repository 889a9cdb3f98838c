"""The agents of one market, and when each of them acts."""

from __future__ import annotations

from math import exp
from random import Random
from typing import Final

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local.flow.character import Character, character
from tracedesk.exchange.local.flow.floor import Floor, Sight
from tracedesk.exchange.local.flow.ladder import Ladder
from tracedesk.exchange.local.flow.makers import Makers
from tracedesk.exchange.local.flow.takers import Noise, Trend, take_mispriced
from tracedesk.exchange.local.flow.value import Rate, key_of
from tracedesk.exchange.units import ONE
from tracedesk.exchange.venue.events import TouchChanged, Traded

LOOK: Final = 0.1
"""Seconds between two looks at what the asset is worth."""
BAND: Final = 0.25
"""How far the fair price may be off at pace 1, in 1e-4 of it, before market makers follow."""
IMPACT: Final = 0.12
"""What taking as much as usually stands at the touch moves the fair price, in 1e-4 of it."""
FADES: Final = 30.0
"""Seconds in which the impact falls to 37 %."""
MOST_IMPACT: Final = 30.0
TOUCH_WORTH: Final = 60_000.0
"""Dollars that usually stand at BTCUSDT's touch."""
EXCITED: Final = 1.2
"""How many more orders are moved per taking order above the usual."""
MOOD: Final = 0.6
"""The deviation of the logarithm of how busy everyone is, and the seconds in which it changes."""
MOOD_LASTS: Final = 5.0
MISPRICED: Final = 1.5
"""How far an offer must be off, in 1e-4, to be taken at sight."""
_BASIS: Final = 10_000
_NS: Final = 1_000_000_000


class Crowd:
    """Makers and takers around one symbol's price."""

    def __init__(self, seed: int, instrument: Instrument, floor: Floor, pace: float) -> None:
        self.symbol = instrument.symbol
        self.character: Character = character(instrument.symbol)
        self.rate = Rate(seed, instrument.base, instrument.quote)
        self._pace = pace * self.character.pace
        self._random = Random(key_of(seed, instrument.symbol))
        self._sight = Sight(floor, instrument)
        self._makers = Makers(self._sight, self.character, self._random)
        self._ladder = Ladder(
            self._sight, self.character, Random(key_of(seed, f"{instrument.symbol} ladder"))
        )
        self._noise = Noise(self._sight, self.character, self._pace, self._random)
        self._trend = Trend(self._sight, self.character, self._random)
        self._band = BAND / min(self._pace, 1.0) ** 0.5
        self._impact = 0.0
        self._mood = 0.0
        self._looked_at = 0
        self._next_look = self._next_change = self._next_taker = 0

    def open(self, now_ns: int) -> None:
        """Begin: the book is laid out around what the asset is worth."""
        self._see(now_ns)
        self._sight.reserve = self.rate.at(now_ns)
        self._ladder.open()
        self._makers.open()
        self._next_look = now_ns + int(LOOK * _NS)
        self._next_change = self._after(now_ns, self._changes(now_ns))
        self._next_taker = self._noise.wait(now_ns)

    def due(self) -> int:
        """When someone acts next."""
        urgent = self._makers.due()
        first = min(self._next_look, self._next_change, self._next_taker)
        return first if urgent is None else min(first, urgent)

    def act(self, now_ns: int) -> None:
        """Let everyone act whose time has come."""
        self._makers.move_urgent(now_ns)
        if now_ns >= self._next_change:
            self._makers.move_one()
            self._ladder.move_some()
            self._next_change = self._after(now_ns, self._changes(now_ns))
        if now_ns >= self._next_taker:
            self._noise.act(now_ns)
            self._next_taker = self._noise.wait(now_ns)
        if now_ns >= self._next_look:
            self._look(now_ns)
            self._next_look = now_ns + int(LOOK * _NS)

    def traded(self, event: Traded) -> None:
        """Anyone's trade: it moves what is held for fair, and may have filled a quote."""
        worth = event.price * event.quantity // ONE * self._sight.dollars // ONE / ONE
        push = IMPACT * worth / (TOUCH_WORTH * self.character.size)
        moved = self._impact + (-push if event.buyer_is_maker else push)
        self._impact = min(max(moved, -MOST_IMPACT), MOST_IMPACT)
        self._makers.filled(event, event.ns)
        self._ladder.filled(event)

    def touched(self, event: TouchChanged) -> None:
        self._sight.bid, self._sight.ask = event.bid, event.ask

    def resume(self, now_ns: int) -> None:
        """Go on from now after the clock was stopped or set, without making up for it."""
        shift = now_ns - self.due()
        self._next_look += shift
        self._next_change += shift
        self._next_taker += shift
        self._makers.shift(shift)

    @property
    def trades_per_second(self) -> float:
        """Trades of a usual second: excited takers included, and the several makers that each may meet."""
        return self.character.takers * self._pace * 4

    @property
    def mean_worth(self) -> int:
        """What a taking order is worth on average, in whole dollars."""
        spread = self.character.taker_spread
        return int(self.character.taker_worth * exp(spread * spread / 2) / 2)

    def _look(self, now_ns: int) -> None:
        sight = self._sight
        self._see(now_ns)
        fair = self.rate.at(now_ns)
        fair += int(fair * self._impact / _BASIS)
        if abs(fair - sight.reserve) >= max(fair * self._band / _BASIS, sight.tick):
            sight.reserve = fair
            self._makers.reprice(now_ns)
            self._ladder.reprice()
        self._ladder.refill()
        margin = max(int(sight.reserve * MISPRICED / _BASIS), 2 * sight.tick)
        take_mispriced(sight, margin, TOUCH_WORTH * self.character.size)
        self._trend.look(now_ns)
        self._swing()

    def _see(self, now_ns: int) -> None:
        self._sight.dollars = self.rate.dollars(now_ns)
        self._impact *= exp(-max(now_ns - self._looked_at, 0) / (FADES * _NS))
        self._looked_at = now_ns

    def _swing(self) -> None:
        """Let the mood wander, back to the middle in the long run."""
        step = LOOK / MOOD_LASTS
        self._mood += -self._mood * step + (2 * step) ** 0.5 * self._random.gauss(0.0, 1.0)
        self._noise.busy = exp(MOOD * self._mood)

    def _changes(self, now_ns: int) -> float:
        """Orders that are moved per second now: more while there is much taking."""
        usual = self.character.changes * self._pace
        excess = self._noise.rate(now_ns) / (self.character.takers * self._pace) - 1
        return usual * self._noise.busy * max(1 + EXCITED * excess, 0.3)

    def _after(self, now_ns: int, per_second: float) -> int:
        return now_ns + int(self._random.expovariate(max(per_second, 0.1)) * _NS)
