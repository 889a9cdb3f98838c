"""Icebergs: a level that keeps standing although what it showed has been traded away.

A level is tested each time the prints of a moment reach all that it showed: it gives way or is refilled. How
often levels hold by themselves is taken from the first test of each other level in the baseline; the chance
that this level held so often is binomial.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import comb
from operator import itemgetter
from typing import Any, Final

from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly
from tracedesk.exchange.analytics.exact import shown
from tracedesk.exchange.analytics.span import Window
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Changes, Prints, Touches
from tracedesk.primitives.time import MILLISECOND, SECOND

REFILLS: Final = 3
CHANCE: Final = 1e-2
"""The largest p-value that is reported."""
SETTLE: Final = 50 * MILLISECOND
"""Prints and touches come by different streams and may change places by so much."""
IDLE: Final = 30 * SECOND
"""A level without a test for this long begins anew."""
METHOD: Final = (
    f"iceberg: a level that held >= {REFILLS} times after prints had reached the size it showed, "
    f"p <= {CHANCE:g} binomial against the share of levels of the baseline that held at their first test"
)


_Row = tuple[int, int, int]
"""Time, price and quantity."""


@dataclass(slots=True)
class Level:
    """A price at the touch whose shown size was traded."""

    side: int
    price: int
    traded: int = 0
    tests: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    """When what was shown had been traded, and whether the level held."""

    @property
    def held(self) -> list[int]:
        return [ns for ns, held in self.tests if held]


def icebergs(
    touches: Touches,
    prints: Prints,
    changes: Changes,
    instrument: Instrument,
    scored: Window,
    baseline_s: int,
) -> list[Anomaly]:
    """Levels whose refills began in the scored time."""
    levels = [level for side in (1, -1) for level in tested(touches, prints, changes, side)]
    suspects = [level for level in levels if len(level.held) >= REFILLS]
    # What is suspected of being unusual does not say what is usual.
    first = sorted(level.tests[0] for level in levels if len(level.held) < REFILLS)
    found = [_judge(level, first, instrument, baseline_s) for level in suspects]
    return [each for each in found if each and scored.from_ns <= each.window.from_ns <= scored.to_ns]


def tested(touches: Touches, prints: Prints, changes: Changes, side: int) -> list[Level]:
    """The levels of one side whose shown size was traded at least once."""
    walk = _Walk(side, _Behind.of(prints, changes, side))
    for ns, is_print, price, quantity in _merged(touches, prints, side):
        walk.settle(ns)
        if is_print:
            walk.print(ns, price, quantity)
        else:
            walk.touch(ns, price, quantity)
    return [*walk.closed, *walk.levels.values()]


class _Walk:
    """Follows the best price of a side and the prints at it, in order of time."""

    def __init__(self, side: int, behind: _Behind) -> None:
        self.side = side
        self._behind = behind
        self.levels: dict[int, Level] = {}
        self.closed: list[Level] = []
        self._shown: deque[_Row] = deque()
        self._printed: deque[_Row] = deque()
        self._due: dict[int, int] = {}
        """Prices whose shown size is traded, with the time of that; it is not known yet whether they hold."""

    def touch(self, ns: int, price: int, size: int) -> None:
        worse = bool(self._shown) and (self._shown[-1][1] - price) * self.side > 0
        self._shown.append((ns, price, size))
        self._forget(ns - SETTLE)
        if worse:
            self._close()

    def _close(self) -> None:
        """Leave the levels that the best price has passed."""
        for passed in [each for each in self._due if self._passed(each)]:
            self._test(passed, False)
        for passed in [each for each in self.levels if self._passed(each)]:
            self.closed.append(self.levels.pop(passed))

    def print(self, ns: int, price: int, quantity: int) -> None:
        self._printed.append((ns, price, quantity))
        self._forget(ns - SETTLE)
        best = [size for _, each, size in self._shown if each == price]
        shown = max(best) if best else self._behind.size(price, ns)
        if self._shown and price not in self._due and 0 < shown <= self._eaten(price):
            self._due[price] = ns

    def settle(self, until: int) -> None:
        """Levels that stand a moment after what they showed was traded have held."""
        if not self._due:
            return
        for price in [each for each, ns in self._due.items() if ns + SETTLE < until]:
            self._test(price, True)

    def _forget(self, until: int) -> None:
        # The last touch before stays, for it is what showed when the time after began.
        while len(self._shown) > 1 and self._shown[1][0] <= until:
            self._shown.popleft()
        while self._printed and self._printed[0][0] < until:
            self._printed.popleft()

    def _passed(self, price: int) -> bool:
        """Whether the best price is worse than this one, so that nothing stands there."""
        return (price - self._shown[-1][1]) * self.side > 0

    def _eaten(self, price: int) -> int:
        return sum(quantity for _, each, quantity in self._printed if each == price)

    def _test(self, price: int, held: bool) -> None:
        ns = self._due.pop(price)
        level = self.levels.get(price)
        if level is not None and ns - level.tests[-1][0] > IDLE:
            self.closed.append(self.levels.pop(price))
            level = None
        if level is None:
            level = self.levels[price] = Level(self.side, price)
        level.traded += self._eaten(price)
        level.tests.append((ns, held))
        self._printed = deque(row for row in self._printed if row[1] != price)


@dataclass(frozen=True, slots=True)
class _Behind:
    """What levels showed when better prices stood before them, as far as level changes tell."""

    times: dict[int, list[int]]
    sizes: dict[int, list[int]]

    @classmethod
    def of(cls, prints: Prints, changes: Changes, side: int) -> _Behind:
        """The levels of a side at whose price there ever was a print."""
        import numpy as np

        times: defaultdict[int, list[int]] = defaultdict(list)
        sizes: defaultdict[int, list[int]] = defaultdict(list)
        rows = (changes.side == side) & np.isin(changes.price, np.unique(prints.price))
        columns = (changes.ns[rows].tolist(), changes.price[rows].tolist(), changes.after[rows].tolist())
        for ns, price, size in zip(*columns, strict=True):
            times[price].append(ns)
            sizes[price].append(size)
        return cls(dict(times), dict(sizes))

    def size(self, price: int, ns: int) -> int:
        """The size at a moment; 0 where it is not known."""
        at = bisect_right(self.times.get(price, []), ns)
        return self.sizes[price][at - 1] if at else 0


def _merged(touches: Touches, prints: Prints, side: int) -> Iterator[tuple[int, bool, int, int]]:
    """Touches and prints of one side by time: (ns, is a print, price, quantity)."""
    import numpy as np

    price, size = (touches.bid, touches.bid_quantity) if side == 1 else (touches.ask, touches.ask_quantity)
    # Half of the touches are changes of the other side only.
    new = np.ones(len(touches), dtype=np.bool_)
    new[1:] = (price[1:] != price[:-1]) | (size[1:] != size[:-1])
    shown = (touches.ns[new].tolist(), price[new].tolist(), size[new].tolist())
    rows = [(ns, False, p, q) for ns, p, q in zip(*shown, strict=True)]
    hit = prints.maker == (1 if side == 1 else 0)
    columns = (prints.ns[hit].tolist(), prints.price[hit].tolist(), prints.quantity[hit].tolist())
    rows += [(ns, True, p, q) for ns, p, q in zip(*columns, strict=True)]
    # Both parts are in order already, and of equals the touch stays first.
    return iter(sorted(rows, key=itemgetter(0)))


# --- judging


def _judge(
    level: Level, first: Sequence[tuple[int, bool]], instrument: Instrument, baseline_s: int
) -> Anomaly | None:
    held = level.held
    start = held[0]
    usual = [kept for ns, kept in first if start - baseline_s * SECOND <= ns < start]
    rate = (sum(usual) + 1) / (len(usual) + 2)
    # Every order ends some day: the tests after the last refill say nothing about those before.
    tests = 1 + max(at for at, (_, kept) in enumerate(level.tests) if kept)
    chance = at_least(len(held), tests, rate)
    if chance > CHANCE:
        return None
    side = "bid" if level.side == 1 else "ask"
    details: dict[str, Any] = {
        "side": side,
        "refill_count": len(held),
        "tests": tests,
        "usual_hold_rate": rate,
        "p_value": chance,
        "absorbed_quantity": shown(level.traded),
        "direction": "Accumulation" if level.side == 1 else "Distribution",
    }
    return Anomaly(
        "IcebergOrder",
        "High" if len(held) >= 8 else "Medium",
        1.0 - chance,
        Window(start, held[-1]),
        f"Pattern consistent with an iceberg: the {side} at {instrument.price_text(level.price)} was "
        f"refilled {len(held)} times while {instrument.quantity_text(level.traded)} traded there.",
        prices=(level.price,),
        details=details,
    )


def at_least(hits: int, tries: int, rate: float) -> float:
    """The chance of `hits` or more in `tries` that each succeed with `rate`."""
    return sum(comb(tries, n) * rate**n * (1.0 - rate) ** (tries - n) for n in range(hits, tries + 1))
