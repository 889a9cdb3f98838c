"""What happened in a market lately: touches, prints and level changes, each in a ring of whole numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.series import Changes, Covered, Prints, Touches

if TYPE_CHECKING:
    from tracedesk.exchange.series import Column

CAPACITY: Final = 200_000
"""Rows of each kind that are remembered unless told: of a busy market about ten minutes of level changes."""


class Ring:
    """The last rows of some columns; the first column is a time that never goes back."""

    __slots__ = ("_began", "_capacity", "_columns", "_reached", "_slack", "dropped")

    def __init__(self, columns: int, capacity: int) -> None:
        self._columns = [array("q") for _ in range(columns)]
        self._capacity = capacity
        self._slack = max(64, capacity // 8)
        self._began: int | None = None
        self._reached: int | None = None
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._columns[0])

    def append(self, row: Sequence[int]) -> None:
        """Add a row; one that is older than the last is dated like it, for the venue sent it later.

        A value beyond 64 bits raises `OverflowError` and leaves the ring as it was.
        """
        times = self._columns[0]
        ns = max(row[0], times[-1]) if times else row[0]
        self._fill((ns, *row[1:]))
        if self._began is None:
            self._began = ns
        if len(times) > self._capacity + self._slack:
            excess = len(times) - self._capacity
            self._began = times[excess - 1] + 1
            self._forget(excess)

    def _fill(self, row: Sequence[int]) -> None:
        rows = len(self)
        try:
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)
        except OverflowError:
            for column in self._columns:
                del column[rows:]
            raise

    def interrupted(self, ns: int) -> None:
        """What came before is not continued by what comes: forget it and begin at `ns`."""
        self._forget(len(self))
        self._began = ns
        self._reached = None

    def reached(self, ns: int) -> None:
        """All rows up to `ns` have been seen, also where there were none."""
        if self._began is None:
            self._began = ns
        self._reached = max(ns, self._reached or ns)

    @property
    def coverage(self) -> Covered | None:
        """The time that is known; None before anything was."""
        if self._began is None:
            return None
        times = self._columns[0]
        last = max(self._reached or self._began, times[-1] if times else self._began)
        return Covered(self._began, last, self.dropped)

    def between(self, since_ns: int, until_ns: int) -> list[Column]:
        """The columns of the rows from `since_ns` to `until_ns`, both included."""
        import numpy as np

        times = self._columns[0]
        low, high = bisect_left(times, since_ns), bisect_right(times, until_ns)
        # The slice is a copy, so the arrays stay as they are while the ring goes on.
        return [np.frombuffer(column[low:high], dtype=np.int64) for column in self._columns]

    def _forget(self, rows: int) -> None:
        for column in self._columns:
            del column[:rows]
        self.dropped += rows


class Tape:
    """The recent past of one market. Each kind forgets its oldest rows and says from when on it knows all."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.touched = Ring(6, capacity)
        self.printed = Ring(5, capacity)
        self.levels = Ring(6, capacity)

    # --- what happens

    def touch(self, ns: int, id: int, bid: int, bid_quantity: int, ask: int, ask_quantity: int) -> None:
        """The best bid and ask as of update `id`."""
        self.touched.append((ns, id, bid, bid_quantity, ask, ask_quantity))

    def print(self, ns: int, id: int, price: int, quantity: int, maker: bool) -> None:
        """A trade; `maker` says that the buyer was the maker."""
        self.printed.append((ns, id, price, quantity, int(maker)))

    def changes(self, rows: Iterable[Sequence[int]]) -> None:
        """Level changes as a `Step` brings them."""
        append = self.levels.append
        for row in rows:
            append(row)

    def reached(self, ns: int) -> None:
        """The streams are alive and nothing else happened up to `ns`."""
        for ring in (self.touched, self.printed, self.levels):
            ring.reached(ns)

    # --- what is asked

    def touches(self, since_ns: int, until_ns: int) -> Touches:
        return Touches(*self.touched.between(since_ns, until_ns))

    def prints(self, since_ns: int, until_ns: int) -> Prints:
        return Prints(*self.printed.between(since_ns, until_ns))

    def changed(self, since_ns: int, until_ns: int) -> Changes:
        return Changes(*self.levels.between(since_ns, until_ns))

    @property
    def coverage(self) -> dict[str, Covered | None]:
        """The time that is known, by kind."""
        return {
            "touches": self.touched.coverage,
            "prints": self.printed.coverage,
            "changes": self.levels.coverage,
        }
