"""A market second by second: how many updates, how many of them lasted, how many prints, what rested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.analytics.span import Window
from tracedesk.exchange.book.book import Book
from tracedesk.exchange.series import Changes, Prints, Touches
from tracedesk.primitives.time import SECOND

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracedesk.exchange.series import Column

    Reals = NDArray[np.float64]

_HIGH: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """Whole seconds of a window; all columns have one row for each."""

    first: int
    """The first second since the epoch."""
    updates: Column
    """Update ids that the venue spent."""
    lasting: Column
    """Levels that ended the second with another quantity than they began it with."""
    prints: Column

    def __len__(self) -> int:
        return len(self.updates)

    def window(self, at: int, count: int = 1) -> Window:
        """The time of `count` seconds from index `at` on."""
        start = (self.first + at) * SECOND
        return Window(start, start + count * SECOND - 1)


def whole(window: Window) -> tuple[int, int]:
    """The first and the one-past-last second that lie wholly in a window."""
    return -(-window.from_ns // SECOND), max(-(-window.from_ns // SECOND), (window.to_ns + 1) // SECOND)


def seconds(changes: Changes, prints: Prints, known: Window) -> Seconds:
    """Count what happened in each whole second of the known time."""
    import numpy as np

    first, end = whole(known)
    traded = prints.ns // SECOND - first
    inside = (traded >= 0) & (traded < end - first)
    return Seconds(
        first,
        _updates(changes, first, end),
        _lasting(changes, first, end),
        np.bincount(traded[inside], minlength=end - first).astype(np.int64),
    )


def _updates(changes: Changes, first: int, end: int) -> Column:
    """Ids spent by the end of each second less those by the end of the one before."""
    import numpy as np

    if not len(changes):
        return np.zeros(end - first, dtype=np.int64)
    edges = np.arange(first, end + 1, dtype=np.int64) * SECOND
    at = np.searchsorted(changes.ns, edges, side="left") - 1
    # Before the first change only its own id is known: the updates it stood for are not counted.
    return np.diff(changes.id[np.maximum(at, 0)])


def _lasting(changes: Changes, first: int, end: int) -> Column:
    import numpy as np

    second = changes.ns // SECOND - first
    rows = np.flatnonzero((second >= 0) & (second < end - first))
    order = rows[np.lexsort((rows, changes.price[rows], changes.side[rows], second[rows]))]
    keys = [second[order], changes.side[order], changes.price[order]]
    begins = np.ones(len(order), dtype=np.bool_)
    if len(order):
        begins[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order)) - 1 if len(order) else starts
    stayed = changes.before[order[starts]] != changes.after[order[ends]]
    return np.bincount(second[order[starts]][stayed], minlength=end - first).astype(np.int64)


# --- what rested


@dataclass(frozen=True, slots=True, eq=False)
class Depths:
    """What rested near the mid at some moments, in units of the base asset."""

    bids: list[int]
    asks: list[int]


def depths(book: Book, changes: Changes, touches: Touches, moments: Column, reach_bps: float) -> Depths:
    """Take the changes back from the book as it is now, and read it at earlier moments (oldest first).

    `changes` must reach to the state of the book. Moments before the first touch
    take its mid.
    """
    import numpy as np

    at = np.searchsorted(touches.ns, moments, side="right") - 1
    mids = (touches.bid + touches.ask)[np.maximum(at, 0)] // 2 if len(touches) else np.zeros_like(moments)
    reach = (mids * (reach_bps / 1e4)).astype(np.int64)
    bids, asks = _Side.of(book.bids, changes, 1), _Side.of(book.asks, changes, -1)
    found: list[tuple[int, int]] = []
    for moment, mid, near in zip(
        moments[::-1].tolist(), mids[::-1].tolist(), reach[::-1].tolist(), strict=True
    ):
        bids.back_to(moment)
        asks.back_to(moment)
        found.append((bids.between(mid - near, mid), asks.between(mid, mid + near)))
    found.reverse()
    return Depths([bid for bid, _ in found], [ask for _, ask in found])


@dataclass(slots=True, eq=False)
class _Side:
    """One side of a book that walks back in time."""

    prices: Column
    quantities: Column
    ns: Column
    at: Column
    before: Column

    @classmethod
    def of(cls, levels: dict[int, int], changes: Changes, side: int) -> _Side:
        import numpy as np

        rows = np.flatnonzero(changes.side == side)
        resting = np.fromiter(levels.keys(), dtype=np.int64, count=len(levels))
        prices = np.union1d(resting, changes.price[rows])
        quantities = np.zeros(len(prices), dtype=np.int64)
        values = np.fromiter(levels.values(), dtype=np.int64, count=len(levels))
        quantities[np.searchsorted(prices, resting)] = values
        at = np.searchsorted(prices, changes.price[rows])
        return cls(prices, quantities, changes.ns[rows], at, changes.before[rows])

    def back_to(self, moment: int) -> None:
        """Undo what happened after `moment`, latest first."""
        import numpy as np

        keep = int(np.searchsorted(self.ns, moment, side="right"))
        self.quantities[self.at[keep:][::-1]] = self.before[keep:][::-1]
        self.ns, self.at, self.before = self.ns[:keep], self.at[:keep], self.before[:keep]

    def between(self, low: int, high: int) -> int:
        """The exact sum of quantities from `low` to `high`, both included."""
        import numpy as np

        first, end = np.searchsorted(self.prices, low, "left"), np.searchsorted(self.prices, high, "right")
        part = self.quantities[first:end]
        # Halves of 32 bits cannot overflow when summed, whole quantities of a cheap asset could.
        return (int((part >> _HIGH).sum()) << _HIGH) + int((part & (2**_HIGH - 1)).sum())
