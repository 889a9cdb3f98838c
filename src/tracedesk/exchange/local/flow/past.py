"""A past for a market that has just begun: candles drawn from what the asset was worth.

Nothing was traded then. The prices are those the agents would have traded around, the amounts are drawn
from the same figures as theirs, and both depend on the seed and the time alone, so that a market that
begins again shows the same past.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local.flow.crowd import Crowd
from tracedesk.exchange.local.flow.value import key_of, mix
from tracedesk.exchange.local.market.candles import Candle, joined
from tracedesk.exchange.local.market.intervals import DAY, MINUTE, SECOND, opening
from tracedesk.exchange.units import ONE

DAYS: Final = 8
"""Days of minutes: the longest window of a ticker is seven."""
COARSE: Final = 8
"""Minutes between two whose price is looked up; those between lie near the straight line."""
SECONDS: Final = 10 * MINUTE
"""How far back seconds are known."""
_NEAR: Final = 4
"""How near that is, in 1e-4 of the price."""
_MS: Final = 1_000_000
_THOUSAND: Final = 1_000
_BASIS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Past:
    """Minutes, and the seconds of the last of them; `trades` trades in all."""

    minutes: list[Candle]
    seconds: list[Candle]
    trades: int


def past(seed: int, instrument: Instrument, crowd: Crowd, until_ns: int) -> Past:
    """Candles up to the second that holds the instant."""
    until = opening(until_ns // _MS, "1s")
    recent = opening(until - SECONDS, "1m")
    draw = _Draw(seed, instrument, crowd, until_ns)
    minutes = draw.candles(recent - DAYS * DAY, recent, MINUTE, COARSE)
    seconds = draw.candles(recent, until, SECOND)
    return Past(minutes + joined(seconds, "1m"), seconds, draw.trades)


def number(past: Past, last_id: int) -> None:
    """Give the trades of a past the ids that end with `last_id`."""
    shift = last_id - past.trades
    for candle in (*past.minutes, *past.seconds):
        if candle.count:
            candle.first += shift
            candle.last += shift


class _Draw:
    """Draws candles in order of time, counting their trades."""

    def __init__(self, seed: int, instrument: Instrument, crowd: Crowd, until_ns: int) -> None:
        self._rate = crowd.rate
        self._tick = instrument.tick or 1
        self._step = instrument.step or 1
        self._key = key_of(seed, f"{instrument.symbol} past")
        self._per_second = crowd.trades_per_second
        self._worth = crowd.mean_worth * ONE * ONE // self._rate.dollars(until_ns) * ONE
        """The mean worth of an order in the quote asset, in 1e-16."""
        self.trades = 0

    def candles(self, since: int, until: int, length: int, every: int = 1) -> list[Candle]:
        made: list[Candle] = []
        price = self._price(since)
        for opened, closing in zip(
            range(since, until, length), self._closings(since, until, length, every), strict=True
        ):
            made.append(self._candle(opened, length, price, closing))
            price = made[-1].close
        return made

    def _closings(self, since: int, until: int, length: int, every: int) -> Iterator[int]:
        """The price at the end of each candle, looked up at whole multiples of `every` lengths alone."""
        stretch = every * length
        first = since // stretch * stretch
        price = self._price(first)
        for node in range(first, until, stretch):
            target = self._price(node + stretch)
            for index in range(1, every + 1):
                if since < node + index * length <= until:
                    yield self._between(price, target, index, every, node)
            price = target

    def _between(self, price: int, target: int, index: int, every: int, node: int) -> int:
        if index == every:
            return target
        stray = mix(self._key ^ (node + index)) % (2 * _NEAR + 1) - _NEAR
        between = price + (target - price) * index // every
        return (between + between * stray // _BASIS) // self._tick * self._tick

    def _price(self, ms: int) -> int:
        return self._rate.at(ms * _MS) // self._tick * self._tick

    def _candle(self, opened: int, length: int, open: int, close: int) -> Candle:
        random = mix(self._key ^ opened)
        candle = Candle.flat(opened, opened + length, open)
        if count := self._count(random, length):
            candle.close = close
            # Within the candle the price strays by up to half of its way and a tick.
            stray = (abs(close - open) // 2 // self._tick + 1) * self._tick
            candle.high = max(open, close) + (random >> 16 & 1) * stray
            candle.low = max(min(open, close) - (random >> 17 & 1) * stray, self._tick)
            self._amounts(candle, count, random)
        return candle

    def _count(self, random: int, length: int) -> int:
        """Trades in a candle: between half and one and a half of the usual number."""
        thousandths = int(self._per_second * _THOUSAND) * length // SECOND
        drawn = thousandths * (500 + (random & 0xFFFF) * _THOUSAND // 0x10000) // _THOUSAND
        # What is left of a whole trade happens as often as it says.
        return drawn // _THOUSAND + ((random >> 48) % _THOUSAND < drawn % _THOUSAND)

    def _amounts(self, candle: Candle, count: int, random: int) -> None:
        middle = (candle.open + candle.close) // 2
        each = self._worth // middle
        share = 300 + (random >> 32 & 0xFF) * 400 // 0x100
        volume = max(count * each * (500 + (random >> 40 & 0xFF) * 4) // _THOUSAND // self._step, count)
        candle.volume = volume * self._step
        candle.bought = volume * share // _THOUSAND * self._step
        candle.quote, candle.bought_quote = candle.volume * middle, candle.bought * middle
        candle.count, candle.first = count, self.trades + 1
        self.trades += count
        candle.last = self.trades
