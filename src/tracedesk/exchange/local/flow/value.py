"""What an asset is worth: a path that is a function of the seed and the time alone.

It is a sum of noise of doubling periods, from one second to twelve days, whose swings grow with the root
of the period: over any span between, it moves about as far as a random walk would. Any instant can be
asked for at once, so that a past needs no simulation and a restart goes on where the clock is.
"""

from __future__ import annotations

from hashlib import blake2b
from math import isqrt
from typing import Final

from tracedesk.exchange.units import ONE

OCTAVES: Final = 21
PARTS: Final = 10**12
"""A swing is counted in parts of this of the price."""
SWING: Final = 80_000_000
"""The swing of the one-second noise: about 1 hundredth of a percent a second over all octaves."""
DOLLARS: Final = frozenset({"USDT", "USDC", "FDUSD", "TUSD", "USD"})
REFERENCE: Final = {"BTC": 60_000 * ONE, "ETH": 2_600 * ONE, "BNB": 550 * ONE, "SOL": 150 * ONE}
"""What the assets are worth in dollars when nothing swings; others are worth one."""
_SECOND: Final = 1_000_000_000
_WORD: Final = (1 << 64) - 1
_HALF: Final = 1 << 63


def mix(number: int) -> int:
    """Sixty-four bits that look random (splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _WORD
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _WORD
    return number ^ (number >> 31)


def key_of(seed: int, name: str) -> int:
    """A number for a seed and a name, the same in every process."""
    return int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=8).digest())


class Noise:
    """Noise of one period, linear between its nodes."""

    __slots__ = ("_at", "_key", "_left", "_period", "_right", "_swing")

    def __init__(self, key: int, octave: int) -> None:
        self._key = mix(key + octave)
        self._period = _SECOND << octave
        self._swing = isqrt(SWING * SWING << octave)
        self._at: int | None = None
        self._left = self._right = 0

    def at(self, ns: int) -> int:
        """The noise in parts, from minus the swing to the swing."""
        node, into = divmod(ns, self._period)
        if node != self._at:
            self._at, self._left, self._right = node, self._node(node), self._node(node + 1)
        return self._left + (self._right - self._left) * into // self._period

    def _node(self, index: int) -> int:
        return (mix(self._key ^ (index & _WORD)) - _HALF) * self._swing // _HALF


class Value:
    """What one asset is worth in dollars."""

    def __init__(self, seed: int, asset: str) -> None:
        self._reference = REFERENCE.get(asset, ONE)
        key = key_of(seed, asset)
        self._noises = () if asset in DOLLARS else tuple(Noise(key, octave) for octave in range(OCTAVES))

    def at(self, ns: int) -> int:
        """The value in units; it never falls below a tenth of the reference."""
        parts = max(sum(noise.at(ns) for noise in self._noises), -PARTS * 9 // 10)
        return self._reference * (PARTS + parts) // PARTS


class Rate:
    """What a symbol's base asset is worth in its quote asset."""

    def __init__(self, seed: int, base: str, quote: str) -> None:
        self._base = Value(seed, base)
        self._quote = Value(seed, quote)

    def at(self, ns: int) -> int:
        """The price in units, between ticks."""
        return self._base.at(ns) * ONE // self._quote.at(ns)

    def dollars(self, ns: int) -> int:
        """What one of the quote asset is worth in dollars, in units."""
        return self._quote.at(ns)
