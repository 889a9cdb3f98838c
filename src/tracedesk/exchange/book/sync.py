"""Keeping a book in step with a stream of differences: what to apply, what to keep, when to begin again.

The stream is opened first and what it brings is kept. A snapshot then begins the book, and the kept
events that reach beyond it continue it: the first of them must hold the update after the snapshot's
last one. A missed update or a crossed book begins this again. A touch outside the prices that the
snapshot vouched for only asks for a new one: deeper orders that nobody moved since may lie before it.
Nothing here waits or sends; whoever owns the connection does.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from tracedesk.exchange.book.book import Book, Level
from tracedesk.exchange.units import units
from tracedesk.primitives.time import MICROSECOND, MILLISECOND, Clock

Happened = Literal["applied", "buffered", "stale", "gap", "crossed", "ignored"]
Levels = tuple[Level, ...]

BID: Final = 1
ASK: Final = -1
EVERY_PRICE: Final = 2**63 - 1
"""The upper end of the trusted prices where a snapshot held the whole side."""

_KEPT: Final = 4_096
"""Events kept while a snapshot is awaited: nearly seven minutes of a stream of ten a second."""
_RECENT: Final = 256
"""Applied events that are kept, so that a new snapshot may be a little older than the book."""
_ORDER: Final = attrgetter("first", "last")
_MICROSECONDS_FROM: Final = 10**14
"""Event times at least this large are microseconds, smaller ones milliseconds."""


class MalformedEvent(ValueError):
    """A frame that should be a difference or a snapshot and is none."""


class Change(NamedTuple):
    """One level whose quantity changed, as a row of `series.Changes`."""

    ns: int
    id: int
    side: int
    price: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Depth:
    """One event of a difference stream: all updates from `first` to `last`, as the levels after them."""

    first: int
    last: int
    bids: Levels
    asks: Levels
    event_ns: int

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Depth:
        """The event in a `depthUpdate` payload; raises `MalformedEvent` for anything else."""
        try:
            first, last, at = raw["U"], raw["u"], raw["E"]
            bids, asks = levels(raw["b"]), levels(raw["a"])
        except (KeyError, TypeError, ValueError) as fault:
            raise MalformedEvent(f"not a depthUpdate: {type(fault).__name__}") from None
        if not (type(first) is int and type(last) is int and type(at) is int and 0 <= first <= last):
            raise MalformedEvent("not a depthUpdate: U, u and E must be whole numbers")
        return cls(first, last, bids, asks, event_ns(at))


def levels(raw: Iterable[Iterable[str]]) -> Levels:
    """Price and quantity texts as units; raises `ValueError` where one is no number or cannot be."""
    found = tuple((units(price), units(quantity)) for price, quantity in raw)
    if any(price < 0 or quantity < 0 or (quantity and not price) for price, quantity in found):
        raise ValueError("a price or quantity is negative, or something rests at no price")
    return found


def event_ns(at: int) -> int:
    """A time of the wire as nanoseconds; streams speak milliseconds unless asked for microseconds."""
    return at * (MICROSECOND if at >= _MICROSECONDS_FROM else MILLISECOND)


@dataclass(frozen=True, slots=True)
class Step:
    """What became of an event or a snapshot, and the levels that changed by it.

    What a snapshot itself replaced is no change: nobody saw when that happened.
    """

    happened: Happened
    changes: tuple[Change, ...] = ()


class Sync:
    """One market's book and how far it can be trusted."""

    def __init__(self, clock: Clock) -> None:
        self.book = Book()
        self.synced = False
        """Whether the book is the venue's at `last_update_id` and no later update is known to be missed."""
        self.last_update_id: int | None = None
        self.event_ns: int | None = None
        """The venue's time of the last applied event."""
        self.resyncs = 0
        """How often a snapshot began the book again after it had been in step."""
        self.trusted: tuple[int, int] = (0, 0)
        """The lowest and highest price within which a missing level means that nothing rests there."""
        self._clock = clock
        self._kept: list[Depth] = []
        self._recent: deque[Depth] = deque(maxlen=_RECENT)
        self._connected = False
        self._holed = False
        """The book is right up to a hole in the stream, which a late event may still fill."""
        self._heard: float | None = None
        self._was_synced = False

    @property
    def wants_snapshot(self) -> bool:
        """Whether a snapshot, asked for from now on, would help."""
        return self._connected and not (self.synced and self.touch_trusted)

    @property
    def touch_trusted(self) -> bool:
        """Whether best bid and ask lie where the snapshot vouched for every level."""
        low, high = self.trusted
        bid, ask = self.book.best_bid(), self.book.best_ask()
        bids_known = low == 0 or (bid is not None and bid[0] >= low)
        return bids_known and (high == EVERY_PRICE or (ask is not None and ask[0] <= high))

    def age_ms(self, now: float | None = None) -> int | None:
        """Milliseconds, on the monotonic clock, since the book last took an event; None before the first."""
        if self._heard is None:
            return None
        return max(0, int(((self._clock.monotonic() if now is None else now) - self._heard) * 1000))

    def trusts(self, price: int) -> bool:
        """Whether what the book shows at a price, also nothing, is what the venue holds there."""
        low, high = self.trusted
        return self.synced and low <= price <= high

    # --- what happens to it

    def opened(self) -> None:
        """The stream is subscribed: from now on every update arrives."""
        self._connected = True

    def lost(self) -> None:
        """The connection is gone: updates may be missed from now on."""
        self._connected = self._holed = self.synced = False
        self._kept.clear()
        self._recent.clear()

    def offer(self, event: Depth) -> Step:
        """Take the next event of the stream; events may repeat and change places."""
        self._connected = True
        if self.last_update_id is not None and event.last <= self.last_update_id and self.synced:
            return Step("stale")
        self._keep(event)
        if self.synced or (self._holed and self._kept[0].first <= self._next):
            return self._continue()
        return Step("buffered")

    def snapshot(
        self, last_update_id: int, bids: Iterable[Level], asks: Iterable[Level], limit: int | None = None
    ) -> Step:
        """Begin the book; `limit` is the number of levels a side that was asked for.

        A snapshot older than the first kept event is `stale`: the events stay, and a later one is wanted.
        """
        if not self.wants_snapshot:
            return Step("ignored")
        if self.synced:
            return self._refresh(last_update_id, tuple(bids), tuple(asks), limit)
        if self._kept and last_update_id + 1 < self._kept[0].first:
            return Step("stale")
        self._start(last_update_id, tuple(bids), tuple(asks), limit)
        step = self._continue()
        if self.synced:
            self.resyncs += self._was_synced
            self._was_synced = True
        return step

    # --- inside

    @property
    def _next(self) -> int:
        """The update that must come next."""
        assert self.last_update_id is not None
        return self.last_update_id + 1

    def _keep(self, event: Depth) -> None:
        """Keep an event in its place; beyond the bound the oldest goes, and older snapshots become stale."""
        insort(self._kept, event, key=_ORDER)
        if len(self._kept) > _KEPT:
            del self._kept[0]

    def _refresh(self, last_update_id: int, bids: Levels, asks: Levels, limit: int | None) -> Step:
        """Take a new snapshot's levels into a book that is in step, and continue with what it has seen."""
        oldest = self._recent[0].first if self._recent else self._next
        if last_update_id + 1 < oldest:
            return Step("stale")
        self._kept = list(self._recent)
        self._start(last_update_id, bids, asks, limit)
        return Step(self._continue().happened)

    def _start(self, last_update_id: int, bids: Levels, asks: Levels, limit: int | None) -> None:
        self.book.clear()
        self.book.apply(bids, asks)
        self._recent.clear()
        self.last_update_id = last_update_id
        self._heard = self._clock.monotonic()
        whole_bids = not bids or (limit is not None and len(bids) < limit)
        whole_asks = not asks or (limit is not None and len(asks) < limit)
        self.trusted = (
            0 if whole_bids else min(price for price, _ in bids),
            EVERY_PRICE if whole_asks else max(price for price, _ in asks),
        )

    def _continue(self) -> Step:
        """Apply the kept events that follow on; what lies behind a hole stays, and so does all where the
        outcome cannot be right."""
        changes: list[Change] = []
        used = 0
        for event in self._kept:
            if event.first > self._next:
                break
            used += 1
            if event.last >= self._next:
                changes.extend(self._apply(event))
        crossed = self.book.crossed
        self._holed = not crossed and used < len(self._kept)
        self.synced = not crossed and not self._holed
        if crossed:
            return Step("crossed")
        del self._kept[:used]
        return Step("gap" if self._holed else "applied", tuple(changes))

    def _apply(self, event: Depth) -> list[Change]:
        changes = [
            *_changes(event, BID, self.book.bids, event.bids),
            *_changes(event, ASK, self.book.asks, event.asks),
        ]
        self.book.apply(event.bids, event.asks)
        self._recent.append(event)
        self.last_update_id = event.last
        self.event_ns = event.event_ns
        self._heard = self._clock.monotonic()
        return changes


def _changes(event: Depth, side: int, held: Mapping[int, int], updates: Levels) -> list[Change]:
    ns, last = event.event_ns, event.last
    return [
        Change(ns, last, side, price, before, after)
        for price, after in updates
        if (before := held.get(price, 0)) != after
    ]
