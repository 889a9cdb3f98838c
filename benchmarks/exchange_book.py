"""Local order books: ours against the same on `sortedcontainers`, best bid and ask read after each update."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from time import thread_time_ns
from typing import Any, Final

from benchmarks.messages import Misbehaved
from tracedesk.exchange.book.book import Book, Level
from tracedesk.exchange.book.recording import frames, payload
from tracedesk.exchange.book.sync import Depth, levels

RIVAL: Final = "sortedcontainers"
LEVELS: Final = 1_000
SEED: Final = 7
RECORDED: Final = Path(__file__).parent.parent / "tests" / "exchange" / "recordings"
REAL: Final = ("btcusdt", "ethusdt")

Put = Callable[[int, int], None]
Snapshot = tuple[Sequence[Level], Sequence[Level]]
Update = tuple[bool, int, int]
"""Whether it is a bid, the price, the quantity."""


class SortedBook:
    """What one writes with `SortedDict`: the documented way to the ends is `peekitem`."""

    def __init__(self) -> None:
        sorted_dict: Any = import_module("sortedcontainers").SortedDict
        self.bids: Any = sorted_dict()
        self.asks: Any = sorted_dict()

    def set_bid(self, price: int, quantity: int) -> None:
        if quantity:
            self.bids[price] = quantity
        else:
            self.bids.pop(price, None)

    def set_ask(self, price: int, quantity: int) -> None:
        if quantity:
            self.asks[price] = quantity
        else:
            self.asks.pop(price, None)

    def best_bid(self) -> Level | None:
        return self.bids.peekitem(-1) if self.bids else None

    def best_ask(self) -> Level | None:
        return self.asks.peekitem(0) if self.asks else None


Either = Book | SortedBook


@dataclass(frozen=True, slots=True)
class Market:
    """A book to begin with and the levels that change."""

    name: str
    snapshot: Snapshot
    updates: Sequence[Update]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Nanoseconds of CPU an update, round by round."""

    ours: list[float]
    theirs: list[float]


# --- markets


def seeded(updates: int) -> Market:
    """Single levels, uniform over the book's prices, half of them removals: as in a replay of deep diffs."""
    chance = random.Random(SEED)
    middle = 6_000_000
    snapshot = [(middle - 1 - n, 5) for n in range(LEVELS)], [(middle + n, 5) for n in range(LEVELS)]
    changed: list[Update] = []
    for _ in range(updates):
        is_bid, distance = chance.random() < 0.5, chance.randrange(LEVELS)
        price = middle - 1 - distance if is_bid else middle + distance
        changed.append((is_bid, price, chance.randint(1, 9) if chance.random() < 0.5 else 0))
    return Market("seeded", snapshot, changed)


def recorded(folder: Path | None = None) -> list[Market]:
    """Our own recordings, and the venue's of a folder."""
    paths = sorted(RECORDED.glob("*.gz"))
    if folder is not None:
        paths += [path for name in REAL for path in sorted(folder.glob(f"{name}*.gz"))[:1]]
    return [_read(path) for path in paths]


def _read(path: Path) -> Market:
    snapshot: Snapshot | None = None
    changed: list[Update] = []
    for _, frame in frames(path):
        said = payload(frame)
        if "lastUpdateId" in said and snapshot is None:
            snapshot = levels(said["bids"]), levels(said["asks"])
        elif said.get("e") == "depthUpdate" and snapshot is not None:
            event = Depth.of(said)
            changed += [(True, *level) for level in event.bids]
            changed += [(False, *level) for level in event.asks]
    if snapshot is None:
        raise Misbehaved(f"{path.name} has no snapshot to begin with")
    return Market(path.name.split(".")[0], snapshot, changed)


# --- rounds


def measure(market: Market, rounds: int) -> Rounds:
    """Both books in turns, after they were shown to agree at every update."""
    _agree(market)
    found = Rounds([], [])
    for number in range(rounds):
        sides = [(Book, found.ours), (SortedBook, found.theirs)]
        for make, times in sides if number % 2 else reversed(sides):
            times.append(_round(_begun(make(), market.snapshot), market.updates))
    return found


def _begun(book: Either, snapshot: Snapshot) -> Either:
    bids, asks = snapshot
    for price, quantity in bids:
        book.set_bid(price, quantity)
    for price, quantity in asks:
        book.set_ask(price, quantity)
    return book


def _round(book: Either, updates: Sequence[Update]) -> float:
    """Nanoseconds of CPU that one update and the two readings after it took."""
    ready = [
        (book.set_bid if is_bid else book.set_ask, price, quantity) for is_bid, price, quantity in updates
    ]
    best_bid, best_ask = book.best_bid, book.best_ask
    began = thread_time_ns()
    for put, price, quantity in ready:
        put(price, quantity)
        best_bid()
        best_ask()
    return (thread_time_ns() - began) / len(ready)


def _agree(market: Market) -> None:
    """Refuse books that differ: in their touch after any update, or in any level at the end."""
    ours, theirs = Book(), SortedBook()
    pairs = zip_longest(_touches(ours, market), _touches(theirs, market))
    for number, (mine, other) in enumerate(pairs):
        if mine != other:
            raise Misbehaved(f"{market.name}, update {number}: ours {mine}, theirs {other}")
    if (ours.bids, ours.asks) != (dict(theirs.bids), dict(theirs.asks)):
        raise Misbehaved(f"{market.name}: the books differ after the last update")


def _touches(book: Either, market: Market) -> Iterable[tuple[Level | None, Level | None]]:
    _begun(book, market.snapshot)
    for is_bid, price, quantity in market.updates:
        (book.set_bid if is_bid else book.set_ask)(price, quantity)
        yield book.best_bid(), book.best_ask()
