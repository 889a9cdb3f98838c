"""A seeded market with injected episodes, made to move like the recordings.

Updates of a second are lognormal around 285 with a deviation of 0.9 of the logarithm and some memory; one in
thirty is a trade; about four in ten change the book for longer than the second; the rest is taken back.
Level changes are gathered every 100 ms as the venue does; touches and prints come as they happen, touches
some milliseconds late.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from tests.exchange.analytics.markets import EVER, Market, instrument
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.book.tape import Tape
from tracedesk.exchange.units import ONE
from tracedesk.primitives.time import MILLISECOND, SECOND

Kind = Literal["QuoteStuffing", "SpoofLike", "IcebergOrder"]

START = 1_700_000_000 * SECOND
BATCH = 100 * MILLISECOND
MEDIAN_RATE = 240.0
RATE_SIGMA = 0.9
RATE_MEMORY = 0.35
TICK = ONE // 100
MID = 61_000 * 100
"""The first mid, in ticks."""
DEEP = 3_000
"""Ticks behind the touch within which orders rest."""


@dataclass(frozen=True, slots=True)
class Episode:
    """What was injected, when, and at which price."""

    kind: Kind
    from_ns: int
    to_ns: int
    price: int | None = None


class Flow:
    """The market while it runs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.book = Book()
        self.tape = Tape(10**7)
        self.episodes: list[Episode] = []
        self.executed = 0
        """Orders put up to be withdrawn that mostly traded instead."""
        self.now = START
        self._id = 1_000_000
        self._trade = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0
        self._before: dict[tuple[int, int], int] = {}
        """Quantities at the beginning of the batch, of the levels it changed."""
        self._pinned: dict[tuple[int, int], int] = {}
        """Quantities of injected orders, which the background never cancels."""
        self._near: list[list[int]] = []
        self._touch = (0, 0, 0, 0)
        self._touched = 0
        self._hidden: dict[tuple[int, int], tuple[int, int]] = {}
        """Peak and refills left of injected icebergs."""
        self._spent: list[int] = []
        self._log_rate = math.log(MEDIAN_RATE)
        self._fill()

    def _fill(self) -> None:
        for distance in range(DEEP):
            for side in (1, -1):
                if distance < 2 or self.random.random() < 0.2:
                    self._set(side, (MID - side * distance - (side == 1)) * TICK, self._size(distance))
        self._before.clear()

    # --- the clock

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second()

    def at(self, ns: int, act: Callable[[], None]) -> None:
        heappush(self._queue, (ns, self._queued, act))
        self._queued += 1

    def _second(self) -> None:
        mean = math.log(MEDIAN_RATE)
        noise = RATE_SIGMA * math.sqrt(1 - RATE_MEMORY**2) * self.random.gauss(0, 1)
        self._log_rate = mean + RATE_MEMORY * (self._log_rate - mean) + noise
        count = int(math.exp(min(self._log_rate, mean + 2.7 * RATE_SIGMA)))
        # An order that is taken back spends two updates; the share of those varies from second to second.
        fleeting = min(0.75, max(0.2, self.random.gauss(0.5, 0.1)))
        trades = 0.035 * math.exp(self.random.gauss(0, 0.6))
        spent = 0.0
        while spent < count:
            ns = self.now + self.random.randrange(SECOND)
            kind = self.random.random()
            if kind < trades:
                self.at(ns, self._trade_some)
                spent += 1
            elif kind < trades + fleeting / 2:
                self.at(ns, self._quote_briefly)
                spent += 2
            else:
                self.at(ns, self._requote)
                spent += 1
        before = self._id
        for _ in range(SECOND // BATCH):
            self._batch()
        self._spent.append(self._id - before)

    def _batch(self) -> None:
        end = self.now + BATCH
        while self._queue and self._queue[0][0] < end:
            self.now, _, act = heappop(self._queue)
            act()
            self._tell_touch()
        self.now = end
        rows: list[tuple[int, int, int, int, int, int]] = []
        for (side, price), before in self._before.items():
            after = self._levels(side).get(price, 0)
            if after != before:
                rows.append((end, self._id, side, price, before, after))
        self.tape.changes(rows)
        self._before.clear()
        self._sample_near()

    def _tell_touch(self) -> None:
        touch = (*self._best(1), *self._best(-1))
        if touch != self._touch:
            self._touch = touch
            self._touched = max(self._touched, self.now + self.random.randrange(5 * MILLISECOND))
            self.tape.touch(self._touched, self._id, *touch)

    # --- the book

    def _levels(self, side: int) -> dict[int, int]:
        return self.book.bids if side == 1 else self.book.asks

    def _best(self, side: int) -> tuple[int, int]:
        best = self.book.best_bid() if side == 1 else self.book.best_ask()
        assert best is not None
        return best

    def _set(self, side: int, price: int, quantity: int) -> None:
        self._before.setdefault((side, price), self._levels(side).get(price, 0))
        self._id += 1
        (self.book.set_bid if side == 1 else self.book.set_ask)(price, quantity)

    def _sample_near(self) -> None:
        near: list[int] = []
        for side in (1, -1):
            best, levels = self._best(side)[0], self._levels(side)
            near += [q for d in range(6) if (q := levels.get(best - side * d * TICK))]
        self._near.append(near)
        del self._near[:-600]

    @property
    def median_level(self) -> int:
        """The median size of levels within five ticks of the touch, over the last minute."""
        ordered = sorted(size for batch in self._near for size in batch)
        return ordered[len(ordered) // 2]

    @property
    def median_rate(self) -> float:
        """The median of updates per second in the last minute."""
        return sorted(self._spent[-60:])[len(self._spent[-60:]) // 2]

    def _size(self, distance: int) -> int:
        """Sizes have a bounded tail: the recordings' 99.9th percentile is 1.3 to 1.4 times their 99th."""
        scale = 0.9 if distance <= 60 else 0.06
        size = self.random.gammavariate(2.0, scale) if self.random.random() > 0.08 else 0.001
        return max(1_000, int(size * ONE / 1_000) * 1_000)

    def _distance(self) -> int:
        if self.random.random() < 0.06:
            return self.random.randrange(5)
        return 5 + int(DEEP ** self.random.random())

    # --- what the background does

    def _place(self) -> tuple[int, int, int]:
        """Side, price and size of a new order; the nearest price is next to the other side's best."""
        side, distance = self.random.choice((1, -1)), self._distance()
        price = self._best(-side)[0] - side * (1 + distance) * TICK
        return side, price, self._size(distance)

    def _requote(self) -> None:
        side, price, size = self._place()
        resting, pinned = self._levels(side).get(price, 0), self._pinned.get((side, price), 0)
        if resting > pinned and (price != self._best(side)[0] or self.random.random() < 0.4):
            self._remove(side, price, resting - pinned)
        else:
            self._set(side, price, resting + size)

    def _quote_briefly(self) -> None:
        side, price, size = self._place()
        self._set(side, price, self._levels(side).get(price, 0) + size)
        life = int(self.random.uniform(5, 300) * MILLISECOND)
        self.at(self.now + life, lambda: self._remove(side, price, size))

    def _remove(self, side: int, price: int, size: int) -> None:
        levels = self._levels(side)
        resting = levels.get(price, 0)
        left = max(self._pinned.get((side, price), 0), resting - size)
        if left < resting and (left or len(levels) > 1):
            self._set(side, price, left)

    def _trade_some(self) -> None:
        size = int(0.02 * ONE * math.exp(2.4 * self.random.gauss(0, 1)) / 1_000) * 1_000
        self._take(self.random.choice((1, -1)), min(max(size, 1_000), 3 * ONE))

    def _take(self, side: int, wanted: int) -> None:
        """Trade against the resting orders of `side`."""
        hit: list[int] = []
        while wanted > 0 and len(self._levels(side)) > 1:
            price, resting = self._best(side)
            part = min(wanted, resting)
            wanted -= part
            pinned = self._pinned.get((side, price), 0)
            if pinned:
                self._pinned[side, price] = min(pinned, resting - part)
            self._trade += 1
            self.tape.print(self.now, self._trade, price, part, side == 1)
            self._set(side, price, resting - part)
            hit.append(price)
        for price in hit:
            self._refill(side, price)

    def _refill(self, side: int, price: int) -> None:
        peak, left = self._hidden.get((side, price), (0, 0))
        if left and not self._pinned[side, price]:
            self._hidden[side, price] = (peak, left - 1)
            self._pin(side, price, peak)

    # --- what is injected

    def stuff(self, ns: int) -> None:
        """Updates at five times the median rate, background included, for 3 s; 97 % are taken back."""
        self.at(ns, self._stuff)
        self.episodes.append(Episode("QuoteStuffing", ns, ns + 3 * SECOND))

    def _stuff(self) -> None:
        wanted = 4 * self.median_rate * 3

        def burst() -> None:
            side = self.random.choice((1, -1))
            price = self._best(-side)[0] - side * (1 + self.random.randrange(30)) * TICK
            size = self._size(10)
            self._set(side, price, self._levels(side).get(price, 0) + size)
            if self.random.random() < 0.97:
                life = int(self.random.uniform(5, 120) * MILLISECOND)
                self.at(self.now + life, lambda: self._remove(side, price, size))

        for _ in range(int(wanted / 1.97)):
            self.at(self.now + self.random.randrange(3 * SECOND), burst)

    def spoof(self, ns: int) -> None:
        """Eight times the median level, one to five ticks behind the touch, gone within 2 s.

        An order that was mostly executed was meant to trade and is no such episode; another follows instead.
        """

        def place() -> None:
            side, size = self.random.choice((1, -1)), 8 * self.median_level
            price = self._best(side)[0] - side * self.random.randint(1, 5) * TICK
            start, life = self.now, int(self.random.uniform(0.3, 1.8) * SECOND)
            if (side, price) in self._pinned:
                self.spoof(self.now + SECOND)
                return

            def withdraw() -> None:
                traded = size - self._pinned.get((side, price), 0)
                self._unpin(side, price)
                if 2 * traded > size:
                    self.executed += 1
                    self.spoof(self.now + SECOND)
                else:
                    self.episodes.append(Episode("SpoofLike", start, self.now, price))

            self._pin(side, price, size)
            self.at(start + life, withdraw)

        self.at(ns, place)

    def iceberg(self, ns: int, refills: int = 5) -> None:
        """An order at the touch that shows a part and puts it up again five times."""

        def place() -> None:
            side, peak = self.random.choice((1, -1)), max(1_000, self.median_level // 2)
            price = self._best(side)[0]
            if (side, price) in self._pinned:
                self.iceberg(self.now + SECOND, refills)
                return
            self._hidden[side, price] = (peak, refills)
            self._pin(side, price, peak)
            at = self.now
            for _ in range(refills):
                at += int(self.random.uniform(0.2, 0.8) * SECOND)
                self.at(at, lambda: self._hit(side, price))
            self.at(at + SECOND, lambda: self._unpin(side, price))
            self.episodes.append(Episode("IcebergOrder", self.now, at + SECOND, price))

        self.at(ns, place)

    def _pin(self, side: int, price: int, size: int) -> None:
        self._pinned[side, price] = self._pinned.get((side, price), 0) + size
        self._set(side, price, self._levels(side).get(price, 0) + size)

    def _unpin(self, side: int, price: int) -> None:
        self._hidden.pop((side, price), None)
        self._remove(side, price, self._pinned.pop((side, price), 0))

    def _hit(self, side: int, price: int) -> None:
        """A taker wants all that shows down to the price."""
        if self._hidden[side, price][1]:
            self._take(side, sum(q for p, q in self._levels(side).items() if (p - price) * side >= 0))

    def take_away(self, side: int, price: int) -> None:
        """Remove a level at once."""
        if len(self._levels(side)) > 1:
            self._set(side, price, 0)

    def idle(self, seconds: int) -> None:
        """Let time pass in which nothing but the present touch is told."""
        self._queue.clear()
        self._tell_touch()
        for _ in range(seconds * SECOND // BATCH):
            self._batch()
        self.at(self.now, self._trade_some)
        self._batch()

    # --- what it leaves

    def market(self) -> Market:
        series = (self.tape.touches(0, EVER), self.tape.prints(0, EVER), self.tape.changed(0, EVER))
        return Market(instrument("SEEDUSDT"), *series, self.book, (0, EVER))


def injected(seed: int, each: int, spacing_s: int = 6, quiet_s: int = 70) -> Flow:
    """A flow with `each` episodes of every kind in random order, the first after a quiet time."""
    flow = Flow(seed)
    acts: list[Callable[[int], None]] = [flow.stuff, flow.spoof, flow.iceberg] * each
    flow.random.shuffle(acts)
    for number, act in enumerate(acts):
        act(START + (quiet_s + number * spacing_s) * SECOND + flow.random.randrange(2 * SECOND))
    flow.run(quiet_s + spacing_s * len(acts) + 10)
    return flow
