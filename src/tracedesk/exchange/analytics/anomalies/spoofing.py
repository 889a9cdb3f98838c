"""Spoof-like levels: much size behind the touch, gone again at once, untraded, with trades on the other side.

Large quotes that join the touch and leave it are common when prices move: a level there is at risk of being
traded, and is none. What is found is a pattern; nobody's intention can be read from a book.

The constants were chosen on two recordings of 8 August 2024 and seeded flow, and are judged on others, which
docs/exchange.md names with the share of their seconds that is flagged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly
from tracedesk.exchange.analytics.exact import shown, total
from tracedesk.exchange.analytics.span import Window
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.series import Changes, Prints, Touches
from tracedesk.primitives.time import MILLISECOND, SECOND

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracedesk.exchange.series import Column

NEAR_TICKS: Final = 5
LIFE: Final = 2 * SECOND
SEEN: Final = 200 * MILLISECOND
"""A level that stood shorter was in one depth event only: nobody who follows them could react to it."""
SIZE: Final = 6.5
"""Times the median size of levels near the touch, each weighted by how long it stood."""
PERCENTILE: Final = 98
TAIL: Final = 1.5
"""Times that percentile of additions near the touch."""
_LEAST: Final = 30
_TRADED_PERCENT: Final = 50
"""What was mostly executed was there to trade."""
_LEFT_PERCENT: Final = 25
_SEEN_PERCENT: Final = 70
"""The least part of a size that its coming must show; others may leave the level in the same depth event."""
_BATCH: Final = 100 * MILLISECOND
"""Depth events gather what happened before them, so a print may be older than its change."""
_AFTER: Final = SECOND
_STOOD: Final = 2 * SECOND
"""The longest that one size of a level counts for; the touch has moved on by then."""
METHOD: Final = (
    f"spoof-like: came 1 to {NEAR_TICKS} ticks behind the touch, >= {SIZE:g}x the median level near it "
    f"(weighted by time) and >= {TAIL:g}x the {PERCENTILE}th percentile of additions "
    f"there, >= {100 - _LEFT_PERCENT} % gone after {SEEN / SECOND:g} to {LIFE // SECOND} s, "
    f"<= {_TRADED_PERCENT} % traded, with trades on the other side until {_AFTER // SECOND} s later"
)


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Changes of levels near the touch."""

    rows: NDArray[np.int64]
    """Their positions in the series."""
    behind: Column
    """Ticks behind the nearer touch of those around its event, below zero where it is better."""
    came: Column
    """Ticks behind the touch as it was before the event; a level that joined it was not behind."""
    ns: Column
    size: Column
    stood: Column
    """How long each level kept the size."""
    added: Column

    @classmethod
    def of(cls, changes: Changes, touches: Touches, tick: int) -> Near:
        import numpy as np

        # A level may have come at any time since the event before, so the nearer of both touches counts.
        events, event = np.unique(changes.id, return_inverse=True)
        late = _behind(changes, touches, changes.id, tick)
        early = _behind(changes, touches, events[np.maximum(event - 1, 0)], tick)
        behind = np.where(np.abs(early) < np.abs(late), early, late)
        rows = np.flatnonzero(np.abs(behind) <= NEAR_TICKS)
        after = changes.after[rows]
        stood = _stood(changes)[rows]
        came = early[rows]
        added = after - changes.before[rows]
        return cls(rows, behind[rows], came, changes.ns[rows], after, stood, added)

    def additions(self, during: Window) -> list[int]:
        """Positions of the changes of a time that made a level larger."""
        import numpy as np

        inside = (self.ns >= during.from_ns) & (self.ns <= during.to_ns)
        return np.flatnonzero(inside & (self.added > 0)).tolist()

    def between(self, low: int, high: int) -> _Sizes | None:
        """What was usual from `low` to before `high`; None where too little happened."""
        import numpy as np

        first, end = np.searchsorted(self.ns, [low, high], side="left").tolist()
        size, added = self.size[first:end], self.added[first:end]
        resting, additions = size > 0, np.sort(added[added > 0])
        if int(resting.sum()) < _LEAST or len(additions) < _LEAST:
            return None
        return _Sizes(_weighted_median(size[resting], self.stood[first:end][resting]), additions)


def _stood(changes: Changes) -> Column:
    """How long each level kept the quantity that a change gave it."""
    import numpy as np

    order = np.lexsort((np.arange(len(changes)), changes.price, changes.side))
    price, side, ns = changes.price[order], changes.side[order], changes.ns[order]
    same = (price[1:] == price[:-1]) & (side[1:] == side[:-1])
    stood = np.full(len(changes), _STOOD, dtype=np.int64)
    stood[order[:-1][same]] = np.minimum(np.diff(ns)[same], _STOOD)
    return stood


def _weighted_median(values: Column, weights: Column) -> int:
    import numpy as np

    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return int(values[order[np.searchsorted(reached, reached[-1] / 2)]])


@dataclass(frozen=True, slots=True, eq=False)
class _Sizes:
    """Sizes near the touch in some time."""

    median: int
    additions: Column
    """What was added to levels, smallest first."""

    def may_stand_out(self, added: int) -> bool:
        """Whether it is worth to look what became of an addition."""
        return added * 100 >= SIZE * self.median * _SEEN_PERCENT

    def rank(self, added: int) -> _Rank | None:
        """How a size compares; None where it does not stand out."""
        import numpy as np

        tail = TAIL * float(np.percentile(self.additions, PERCENTILE))
        if added < SIZE * self.median or added < tail:
            return None
        count = len(self.additions)
        larger = count - int(np.searchsorted(self.additions, added, side="left"))
        return _Rank(added / self.median, 1.0 - (larger + 1) / (count + 1), self.median)


def _behind(changes: Changes, touches: Touches, ids: Column, tick: int) -> Column:
    """Ticks that each changed level lies behind the touch as of an update id."""
    import numpy as np

    at = np.maximum(np.searchsorted(touches.id, ids, side="right") - 1, 0)
    best = np.where(changes.side == 1, touches.bid[at], touches.ask[at])
    return changes.side * (best - changes.price) // tick


def spoofing(
    touches: Touches,
    prints: Prints,
    changes: Changes,
    instrument: Instrument,
    scored: Window,
    baseline_s: int,
) -> list[Anomaly]:
    """Levels that appeared in the scored time and were gone within two seconds."""
    if not len(touches) or not len(changes):
        return []
    near = Near.of(changes, touches, instrument.tick or 1)
    lives = _Lives.of(changes)
    found: list[Anomaly] = []
    usual: dict[int, _Sizes | None] = {}
    for at in near.additions(scored):
        second, behind = int(near.ns[at]) // SECOND, int(near.came[at])
        if behind < 1:
            continue
        if second not in usual:
            usual[second] = near.between((second - baseline_s) * SECOND, second * SECOND)
        sizes = usual[second]
        if sizes is None or not sizes.may_stand_out(int(near.added[at])):
            continue
        level = lives.fleeting(int(near.rows[at]))
        rank = sizes.rank(level.size) if level is not None else None
        if level is None or rank is None:
            continue
        traded = _traded(prints, level)
        opposite = _opposite(prints, level.side, level.window)
        if opposite[0] and traded * 100 <= level.size * _TRADED_PERCENT:
            found.append(_anomaly(level, traded, opposite, rank, behind, instrument))
    return found


@dataclass(frozen=True, slots=True)
class _Rank:
    """How a size compares with those of the baseline."""

    multiple: float
    below: float
    median: int


@dataclass(frozen=True, slots=True)
class _Level:
    """Size that came to a level and soon left it."""

    side: int
    price: int
    before: int
    """What stood there already."""
    size: int
    window: Window


class _Lives:
    """What became of a level after a change."""

    def __init__(self, changes: Changes, rows: dict[tuple[int, int], list[int]]) -> None:
        self._changes = changes
        self._rows = rows

    @classmethod
    def of(cls, changes: Changes) -> _Lives:
        rows: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row, key in enumerate(zip(changes.side.tolist(), changes.price.tolist(), strict=True)):
            rows[key].append(row)
        return cls(changes, rows)

    def fleeting(self, row: int) -> _Level | None:
        """What a change added, if it left the level again; None where it stayed or outlived the limit."""
        changes = self._changes
        start, before, after = int(changes.ns[row]), int(changes.before[row]), int(changes.after[row])
        side, price, added = int(changes.side[row]), int(changes.price[row]), after - before
        later = self._rows[side, price]
        for each in later[bisect_right(later, row) :]:
            end, drop = int(changes.ns[each]), self._drop(each)
            if end - start > LIFE:
                return None
            kept = min(int(changes.after[each]) - before, added - drop)
            if kept * 100 <= added * _LEFT_PERCENT:
                # Both ends are netted with the orders of others; the one that shows more is nearer to it.
                size = max(added, min(drop, added * 100 // _SEEN_PERCENT))
                return _Level(side, price, before, size, Window(start, end)) if end - start >= SEEN else None
        return None

    def _drop(self, row: int) -> int:
        return int(self._changes.before[row]) - int(self._changes.after[row])


def _within(prints: Prints, low: int, high: int) -> slice:
    times = prints.ns
    return slice(bisect_left(times, low), bisect_right(times, high))


def _traded(prints: Prints, level: _Level) -> int:
    """How much of a level was executed; what stood there before is first in the queue."""
    part = _within(prints, level.window.from_ns - _BATCH, level.window.to_ns)
    return max(0, total(prints.quantity[part][prints.price[part] == level.price]) - level.before)


def _opposite(prints: Prints, side: int, window: Window) -> tuple[int, int]:
    """Prints and quantity on the other side of the book while the level stood and shortly after."""
    part = _within(prints, window.from_ns, window.to_ns + _AFTER)
    # Behind a bid it is the ask that somebody wants lifted: the buyer is the aggressor there.
    chosen = prints.maker[part] == (0 if side == 1 else 1)
    return int(chosen.sum()), total(prints.quantity[part][chosen])


def _anomaly(
    level: _Level, traded: int, opposite: tuple[int, int], rank: _Rank, behind: int, instrument: Instrument
) -> Anomaly:
    window, size = level.window, level.size
    count, quantity = opposite
    name = "bid" if level.side == 1 else "ask"
    details: dict[str, Any] = {
        "side": name,
        "added_quantity": shown(size),
        "median_level": shown(rank.median),
        "size_multiple": rank.multiple,
        "ticks_from_touch": behind,
        "lifetime_ms": (window.to_ns - window.from_ns) // MILLISECOND,
        "traded_quantity": shown(traded),
        "opposite_trades": count,
        "opposite_quantity": shown(quantity),
    }
    untraded = f"{100 - 100 * traded // size} %"
    placed = f"{instrument.quantity_text(size)} at {instrument.price_text(level.price)}"
    return Anomaly(
        "SpoofLike",
        "High" if quantity * 10 >= size else "Medium",
        rank.below,
        window,
        f"Pattern consistent with spoofing: the {name} of {placed} ({rank.multiple:.1f}x the median level) "
        f"was gone after {details['lifetime_ms']} ms, {untraded} untraded; {count} trades on the other side.",
        prices=(level.price,),
        details=details,
    )
