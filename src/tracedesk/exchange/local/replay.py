"""Replay of recorded streams: what was published is published again, in its order and at its pace.

Users' orders wait in the recorded queues and take from the recorded book. They move nothing that is
published, but nobody takes a recorded quantity twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from tracedesk.exchange.book.book import Level
from tracedesk.exchange.book.recording import RecordingError, frames, payload
from tracedesk.exchange.local.market import MarketData, Markets
from tracedesk.exchange.local.market.prints import Print
from tracedesk.exchange.units import units
from tracedesk.primitives.time import format

_MS: Final = 1_000_000
PAUSE_NS: Final = 100_000_000
"""Between the last event of a recording and its first when it begins again."""
Kind = Literal["depth", "touch", "trade"]


class Outside(Protocol):
    """The venue as a replay uses it."""

    def set_levels(self, symbol: str, bids: Iterable[Level], asks: Iterable[Level]) -> object:
        """Let quantities from outside stand at prices, whatever stood there."""
        ...

    def begin_levels(self, symbol: str, bids: Sequence[Level], asks: Sequence[Level]) -> object:
        """Let the first quantities from outside stand at prices."""
        ...

    def print_trade(self, symbol: str, price: int, quantity: int, *, buyer_is_maker: bool) -> object:
        """A trade was made outside."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """One recorded event; `ns` is when it was received."""

    ns: int
    kind: Kind
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The book that a replay begins with."""

    ns: int
    last_id: int
    bids: list[Level]
    asks: list[Level]
    fetched: bool = True
    """False for the levels seen by the first moment with a bid and an ask, where no book was fetched."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recording: a market, the book it begins with, and what of the file happens after that."""

    path: Path
    symbol: str
    snapshot: Snapshot
    first_ns: int
    """When the first event that is new to the snapshot was received."""
    depth_ns: int
    """When the first such depth was, from which on trades are played too."""
    first_id: int
    """The first update id of that depth, which may reach back into the snapshot."""
    last_ns: int
    first_trade: int | None
    skew_ns: int
    """By how much the recorder's clock was behind the venue's at least: no event comes before it happens."""

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Look through a file; `RecordingError` where it is no recording of one market that can be played."""
        scan = _Scan()
        for ns, frame in frames(path):
            scan.see(ns, payload(frame))
        snapshot = scan.snapshot or scan.opening.two_sided
        if snapshot is None:
            problem = "no depth snapshot, and no moment with both a bid and an ask"
            raise RecordingError(f"{path.name} has {problem}, so that its book cannot be built")
        if len(scan.symbols) != 1:
            found = ", ".join(sorted(scan.symbols)) or "none"
            raise RecordingError(f"{path.name} must hold one market; it holds {found}")
        depth = next((each for each in scan.depths if each[0] > snapshot.last_id), None)
        if depth is None:
            raise RecordingError(f"{path.name} has no depth after its snapshot, so that nothing is played")
        _, depth_ns, first_id = depth
        touch_ns = next((ns for last, ns in scan.touches if last > snapshot.last_id), depth_ns)
        trade = next((id for id, ns in scan.trades if ns >= depth_ns), None)
        first_ns, symbol = min(depth_ns, touch_ns), scan.symbols.pop()
        return cls(path, symbol, snapshot, first_ns, depth_ns, first_id, scan.last_ns, trade, scan.skew_ns)

    def moments(self) -> Iterator[Moment]:
        """The events after the snapshot, read as they are needed."""
        for ns, frame in frames(self.path):
            data = payload(frame)
            kind = _kind(data)
            if kind is not None and self._is_new(kind, ns, data):
                yield Moment(ns, kind, data)

    def _is_new(self, kind: Kind, ns: int, data: Mapping[str, Any]) -> bool:
        return ns >= self.depth_ns if kind == "trade" else data["u"] > self.snapshot.last_id

    @property
    def seconds(self) -> float:
        return (self.last_ns - self.first_ns) / 1e9


@dataclass(slots=True)
class _Opening:
    """The book of a recording without a snapshot: the levels seen until it has both a bid and an ask."""

    bids: dict[int, int] = field(default_factory=dict[int, int])
    asks: dict[int, int] = field(default_factory=dict[int, int])
    two_sided: Snapshot | None = None

    def see(self, kind: Kind, ns: int, data: Mapping[str, Any]) -> None:
        """Take an event into the book, up to the first moment with both sides."""
        if self.two_sided is not None or kind == "trade":
            return
        if kind == "depth":
            _set(self.bids, _levels(data["b"]))
            _set(self.asks, _levels(data["a"]))
        else:
            self._touch((units(data["b"]), units(data["B"])), (units(data["a"]), units(data["A"])))
        if self.bids and self.asks and max(self.bids) < min(self.asks):
            self.two_sided = Snapshot(
                ns, data["u"], [*self.bids.items()], [*self.asks.items()], fetched=False
            )

    def _touch(self, bid: Level, ask: Level) -> None:
        """Take the best levels; what was seen beyond them is gone by then."""
        self.bids = {price: quantity for price, quantity in self.bids.items() if price < bid[0]}
        self.asks = {price: quantity for price, quantity in self.asks.items() if price > ask[0]}
        _set(self.bids, [bid])
        _set(self.asks, [ask])


def _set(side: dict[int, int], levels: Iterable[Level]) -> None:
    for price, quantity in levels:
        if quantity:
            side[price] = quantity
        else:
            side.pop(price, None)


@dataclass(slots=True)
class _Scan:
    """What a first look through a recording finds."""

    symbols: set[str] = field(default_factory=set[str])
    snapshot: Snapshot | None = None
    opening: _Opening = field(default_factory=_Opening)
    depths: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Last update ids, times and first update ids."""
    touches: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Ids and times, also of the trades."""
    trades: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    last_ns: int = 0
    skew_ns: int = -(1 << 63)

    def see(self, ns: int, data: Mapping[str, Any]) -> None:
        if "lastUpdateId" in data:
            self.snapshot = self.snapshot or _snapshot(ns, data)
        elif (kind := _kind(data)) is not None:
            _check(kind, data)
            self.symbols.add(data["s"])
            self.last_ns = max(self.last_ns, ns)
            self._keep(kind, ns, data)
            if self.snapshot is None:
                self.opening.see(kind, ns, data)

    def _keep(self, kind: Kind, ns: int, data: Mapping[str, Any]) -> None:
        if kind == "touch":
            self.touches.append((data["u"], ns))
            return
        self.skew_ns = max(self.skew_ns, data["E"] * _MS - ns)
        if kind == "depth":
            self.depths.append((data["u"], ns, data["U"]))
        else:
            self.trades.append((data["t"], ns))


def _check(kind: Kind, data: Mapping[str, Any]) -> None:
    """Read every number of an event once, so that nothing can fail while it is played."""
    if kind == "depth":
        int(data["U"])
        _levels(data["b"])
        _levels(data["a"])
    else:
        for name in ("b", "B", "a", "A") if kind == "touch" else ("p", "q"):
            units(data[name])
    if kind == "trade":
        int(data["T"])
        bool(data["m"])


def _kind(data: Mapping[str, Any]) -> Kind | None:
    match data.get("e"):
        case "depthUpdate":
            return "depth"
        case "trade":
            return "trade"
        case None if "u" in data and "B" in data:
            return "touch"
        case _:
            return None


def _snapshot(ns: int, data: Mapping[str, Any]) -> Snapshot:
    return Snapshot(ns, data["lastUpdateId"], _levels(data["bids"]), _levels(data["asks"]))


def _levels(rows: Iterable[Sequence[str]]) -> list[Level]:
    return [(units(price), units(quantity)) for price, quantity in rows]


class Player:
    """Plays one recording into one market."""

    def __init__(self, recorded: Recorded, market: MarketData, venue: Outside) -> None:
        self.recorded = recorded
        self._market = market
        self._venue = venue
        self._symbol = recorded.symbol
        self._ids = 0
        """Added to update ids, so that they go on when the recording begins again."""
        self._trades = 0
        self._last_trade = 0

    def open(self) -> None:
        """Begin with the recorded book."""
        snapshot = self.recorded.snapshot
        self._market.begin_book(snapshot.last_id, snapshot.bids, snapshot.asks)
        self._venue.begin_levels(self._symbol, snapshot.bids, snapshot.asks)

    def rewind(self, now_ns: int) -> None:
        """Begin again: one batch turns the book of the end into that of the beginning."""
        snapshot, depth = self.recorded.snapshot, self._market.depth_feed
        first = depth.last_id + 1
        bids = _turned(depth.book.bids, snapshot.bids)
        asks = _turned(depth.book.asks, snapshot.asks)
        self._market.batch(first, first, bids, asks, now_ns)
        self._market.touch(first, depth.book.best_bid(), depth.book.best_ask())
        self._venue.set_levels(self._symbol, bids, asks)
        self._ids = first + 1 - self.recorded.first_id
        first_trade = self.recorded.first_trade
        self._trades = 0 if first_trade is None else self._last_trade + 1 - first_trade

    def play(self, moment: Moment, shift_ns: int) -> None:
        """Publish one event; the shift is added to its own times."""
        data = moment.data
        if moment.kind == "depth":
            bids, asks = _levels(data["b"]), _levels(data["a"])
            first, last = data["U"] + self._ids, data["u"] + self._ids
            self._market.batch(first, last, bids, asks, data["E"] * _MS + shift_ns)
            self._venue.set_levels(self._symbol, bids, asks)
        elif moment.kind == "touch":
            bid, ask = (units(data["b"]), units(data["B"])), (units(data["a"]), units(data["A"]))
            self._market.touch(data["u"] + self._ids, bid, ask)
        else:
            self._trade(data, shift_ns)

    def _trade(self, data: Mapping[str, Any], shift_ns: int) -> None:
        price, quantity, maker = units(data["p"]), units(data["q"]), bool(data["m"])
        self._last_trade = data["t"] + self._trades
        made = Print(self._last_trade, price, quantity, data["T"] * _MS + shift_ns, maker)
        self._market.traded(made, data["E"] * _MS + shift_ns)
        self._venue.print_trade(self._symbol, price, quantity, buyer_is_maker=maker)


def _turned(old: Mapping[int, int], new: Iterable[Level]) -> list[Level]:
    """The changes that make one side another."""
    wanted = dict(new)
    gone = [(price, 0) for price in old if price not in wanted]
    return gone + [level for level in wanted.items() if old.get(level[0]) != level[1]]


def skew(recordings: Iterable[Recorded]) -> int:
    """How much is added to the recorders' times, so that no event comes before it happened."""
    return max(each.skew_ns for each in recordings)


def first_ns(recordings: Iterable[Recorded]) -> int:
    """When the first event of recordings was received, by the venue's clock."""
    recordings = tuple(recordings)
    return min(each.first_ns for each in recordings) + skew(recordings)


class Replay:
    """Recordings played together, each from its own beginning."""

    def __init__(
        self,
        recordings: Sequence[Recorded],
        markets: Markets,
        venue: Outside,
        *,
        speed: float = 1.0,
        loop: bool = False,
        as_recorded: bool = False,
    ) -> None:
        if speed <= 0:
            raise ValueError(f"the speed must be above 0, not {speed}")
        self.speed = speed
        self.loop = loop
        self.as_recorded = as_recorded
        self.rounds = 0
        """How often the recordings have been played to their end."""
        self._players = [Player(each, markets.of(each.symbol), venue) for each in recordings]
        self._first_ns = min(each.first_ns for each in recordings)
        self._last_ns = max(each.last_ns for each in recordings)
        self._skew_ns = skew(recordings)
        self._begun_ns = 0
        self._order: Iterator[tuple[int, int, Moment]] = iter(())
        self._next: tuple[int, int, Moment] | None = None
        self._again = False
        """Whether the books must be turned back before the next event."""

    def open(self, now_ns: int) -> None:
        """Begin: the first event falls due now."""
        for player in self._players:
            player.open()
        self._start(now_ns)

    def due(self) -> int | None:
        """When the next event is published; `None` after the last."""
        return None if self._next is None else self._when(self._next[0])

    def act(self, now_ns: int) -> None:
        """Publish one event."""
        if self._next is None:
            return
        if self._again:
            self._rewind(now_ns)
            return
        _, index, moment = self._next
        self._players[index].play(moment, self._shift(moment))
        self._next = next(self._order, None)
        if self._next is None:
            self._end(now_ns)

    def resume(self, now_ns: int) -> None:
        """Go on from now after the clock was stopped or set: nothing is left out."""
        due = self.due()
        if due is not None:
            self._begun_ns += now_ns - due

    def status(self) -> dict[str, Any]:
        """How far the replay is, for people and programs."""
        names = [player.recorded.path.name for player in self._players]
        at = self._last_ns if self._next is None else self._next[0]
        return {
            "recordings": names,
            "speed": f"{self.speed:g}",
            "loop": self.loop,
            "asRecorded": self.as_recorded,
            "rounds": self.rounds,
            "seconds": (at - self._first_ns) // 1_000_000_000,
            "ofSeconds": (self._last_ns - self._first_ns) // 1_000_000_000,
            "ended": self._next is None,
            "books": [self._begun_with(player.recorded) for player in self._players],
        }

    def _begun_with(self, recorded: Recorded) -> dict[str, str]:
        """Where the book of a market comes from, and the recorded time that it is of."""
        snapshot = recorded.snapshot
        source = "snapshot" if snapshot.fetched else "first moment with a bid and an ask"
        return {"symbol": recorded.symbol, "from": source, "at": format(snapshot.ns + self._skew_ns)}

    def _start(self, now_ns: int) -> None:
        self._begun_ns = now_ns
        rows = [_numbered(index, player.recorded) for index, player in enumerate(self._players)]
        self._order = heapq.merge(*rows, key=lambda row: row[:2])
        self._next = next(self._order, None)

    def _end(self, now_ns: int) -> None:
        self.rounds += 1
        if self.loop:
            self._again = True
            self._start(now_ns + PAUSE_NS)

    def _rewind(self, now_ns: int) -> None:
        self._again = False
        for player in self._players:
            player.rewind(now_ns)

    def _when(self, recorded_ns: int) -> int:
        # With the times of the recording the clock itself runs at the speed.
        passed = recorded_ns - self._first_ns
        return self._begun_ns + (passed if self.as_recorded else int(passed / self.speed))

    def _shift(self, moment: Moment) -> int:
        """What is added to an event's own times: nothing, or so much that it comes as late as it came."""
        return 0 if self.as_recorded else self._when(moment.ns) - moment.ns - self._skew_ns


def _numbered(index: int, recorded: Recorded) -> Iterator[tuple[int, int, Moment]]:
    for moment in recorded.moments():
        yield moment.ns, index, moment
