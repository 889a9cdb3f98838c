"""The published book of one market: its levels, and their changes gathered into timed batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracedesk.exchange.book.book import Book, Level


@dataclass(slots=True)
class Batch:
    """The levels that changed over a run of update ids, each with its newest quantity."""

    first: int = 0
    last: int = 0
    bids: dict[int, int] = field(default_factory=dict[int, int])
    asks: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, first: int, last: int, bids: Iterable[Level], asks: Iterable[Level]) -> None:
        self.first = self.first or first
        self.last = last
        self.bids.update(bids)
        self.asks.update(asks)

    def sorted(self) -> tuple[list[Level], list[Level]]:
        """Both sides from the touch outwards."""
        return sorted(self.bids.items(), reverse=True), sorted(self.asks.items())

    def __bool__(self) -> bool:
        return self.last > 0


class Depth:
    """The book as the streams have told it or are about to."""

    def __init__(self) -> None:
        self.book = Book()
        self.last_id = 0
        self._fast = Batch()
        self._slow = Batch()

    def change(self, first: int, last: int, bids: Iterable[Level], asks: Iterable[Level]) -> None:
        self.book.apply(bids, asks)
        self.last_id = last
        self._fast.add(first, last, bids, asks)

    def begin(self, last: int, bids: Iterable[Level], asks: Iterable[Level]) -> None:
        """Start from a whole book; what was gathered before is void."""
        self.book.clear()
        self.book.apply(bids, asks)
        self.last_id = last
        self._fast, self._slow = Batch(), Batch()

    def take_fast(self) -> Batch:
        """The changes since the last time, which the slower batch takes over."""
        batch, self._fast = self._fast, Batch()
        if batch:
            self._slow.add(batch.first, batch.last, batch.bids.items(), batch.asks.items())
        return batch

    def take_slow(self) -> Batch:
        batch, self._slow = self._slow, Batch()
        return batch
