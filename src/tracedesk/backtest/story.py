"""What a report tells of a run: its equity, prices, executions and rejections, gathered in one pass."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, cast

import orjson

from tracedesk.backtest.charts import Marks, Series, Side
from tracedesk.backtest.model import HAS_ERROR, HAS_WARNING, EventType, Severity
from tracedesk.backtest.performance import account_value
from tracedesk.backtest.positions import Held, Positions
from tracedesk.backtest.query import Recording, Selection
from tracedesk.backtest.rejections import REASON, UNSAID, code_of
from tracedesk.journal import Event
from tracedesk.primitives import json, money
from tracedesk.primitives.time import format

Basis = Literal["equity", "profit and loss", "positions"]

_PRICE: Final = ("close", "closeprice", "price", "last", "lastprice")
_SIDES: Final[Mapping[str, Side]] = {"buy": "buy", "long": "buy", "sell": "sell", "short": "sell"}
EXACT: Final = Context(prec=800)
"""More digits than a product of two sums here can need: a number has up to 96 on either side of the point."""


@dataclass(slots=True)
class Rejected:
    """The rejections of one code."""

    reason: str
    """The whole reason of the first of them."""
    first_seq: int
    first_ns: int
    last_ns: int
    count: int = 0
    symbols: set[str] = field(default_factory=set[str])

    def take(self, event: Event, symbol: str) -> None:
        self.count += 1
        self.first_ns = min(self.first_ns, event.time_ns)
        self.last_ns = max(self.last_ns, event.time_ns)
        if symbol:
            self.symbols.add(symbol)


@dataclass(slots=True)
class Curve:
    """Exact values over time, in the order they were recorded."""

    times: array[int] = field(default_factory=lambda: array("q"))
    values: list[Decimal] = field(default_factory=list[Decimal])

    def add(self, ns: int, value: Decimal) -> None:
        self.times.append(ns)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.times)

    def points(self) -> list[tuple[int, Decimal]]:
        """The values by time; those of one instant keep their order."""
        return sorted(zip(self.times, self.values, strict=True), key=itemgetter(0))

    def drawn(self) -> Series:
        """The same as ink."""
        return _ink((ns, float(value)) for ns, value in self.points())


def _ink(points: Iterable[tuple[int, float]]) -> Series:
    found = Series()
    for ns, value in points:
        found.add(ns, value)
    return found


@dataclass(slots=True)
class Story:
    """One run from `start` to `end`, as far as its charts and figures need it."""

    start: int
    end: int
    events: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])
    equity: Curve = field(default_factory=Curve)
    profit: Curve = field(default_factory=Curve)
    held: Curve = field(default_factory=Curve)
    prices: dict[str, Series] = field(default_factory=dict[str, Series])
    trades: dict[str, Marks] = field(default_factory=dict[str, Marks])
    sides: dict[Side, int] = field(default_factory=dict[Side, int])
    commission: Decimal | None = None
    rejections: dict[str, Rejected] = field(default_factory=dict[str, Rejected])
    first_value: Decimal | None = None
    last_value: Decimal | None = None

    @property
    def basis(self) -> Basis:
        """What the curve is: the account's value, the engine's own P&L, or the sum over positions."""
        return "equity" if len(self.equity) else "profit and loss" if len(self.profit) else "positions"

    @property
    def curve(self) -> Curve:
        """The best account of the run's value over time that was recorded."""
        return {"equity": self.equity, "profit and loss": self.profit, "positions": self.held}[self.basis]


@dataclass(frozen=True, slots=True)
class Counts:
    """Events by type and severity, the most frequent type first, and how many have validation errors."""

    by_type: Mapping[str, Mapping[str, int]]
    invalid: int


def counts_of(recording: Recording) -> Counts:
    """What the run's tallies say."""
    found: dict[str, dict[str, int]] = {}
    query = "SELECT type, severity, sum(n) FROM tally GROUP BY type, severity ORDER BY type, severity"
    for kind, severity, count in recording.connection.execute(query):
        found.setdefault(EventType(kind).name, {})[Severity(severity).name] = count
    ranked = dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))
    faulty = Selection(faults=HAS_WARNING | HAS_ERROR)
    return Counts(ranked, recording.count(faulty))


def reasons_of(recording: Recording) -> dict[str, Rejected]:
    """The run's rejections by their codes."""
    story = Story(0, 0)
    for row in recording.scan(Selection(types=(EventType.OrderRejection,))):
        _rejection(story, Event(row.seq, "OrderRejection", row.ts, row.body))
    return story.rejections


def events_of(recording: Recording) -> Iterator[Event]:
    """The run's events in the order of seqs, as far as a story needs them."""
    query = "SELECT id - ?1, kind, time_ns, body FROM event WHERE id > ?1 AND id <= ?1 + ?2 ORDER BY id"
    for row in recording.connection.execute(query, (recording.base, recording.head)):
        yield Event(*row)


def tell(events: Iterable[Event], start: int, end: int, positions: Positions) -> Story:
    """Gather a run's story from its events, given in the order of their seqs."""
    story = Story(start, end)
    gather: dict[str, Callable[[Event], None]] = {
        "MarketDataEvent": lambda event: _market(story, event),
        "TradeExecution": lambda event: _trade(story, event),
        "OrderRejection": lambda event: _rejection(story, event),
        "StateChange": lambda event: _state(story, event),
        "PositionUpdate": _Holdings(story, positions),
    }
    for event in events:
        story.events += 1
        story.counts[event.kind] = story.counts.get(event.kind, 0) + 1
        if event.kind in gather:
            gather[event.kind](event)
    return story


class Fall(NamedTuple):
    """How far a value is below the highest so far, and that highest."""

    amount: Decimal
    """Zero or negative."""
    peak: Decimal

    def is_deeper(self, other: Fall, *, relative: bool) -> bool:
        """In money, or as a share of its peak; the peaks are positive then."""
        if not relative:
            return self.amount < other.amount
        return EXACT.multiply(self.amount, other.peak) < EXACT.multiply(other.amount, self.peak)


def falls(curve: Curve) -> Iterator[tuple[int, Fall]]:
    """At each point of the curve, by time."""
    peak: Decimal | None = None
    for ns, value in curve.points():
        peak = value if peak is None or value > peak else peak
        yield ns, Fall(EXACT.subtract(value, peak), peak)


def deepest(curve: Curve, *, relative: bool) -> Fall:
    """The largest fall of all, the first of its size."""
    worst = Fall(Decimal(0), Decimal(1))
    for _, fall in falls(curve):
        if fall.is_deeper(worst, relative=relative):
            worst = fall
    return worst


def drawdown(curve: Curve, *, relative: bool) -> Series:
    """The falls as ink: in money, or as shares of their peaks."""
    found = falls(curve)
    return _ink((ns, float(f.amount) / float(f.peak) if relative else float(f.amount)) for ns, f in found)


# --- event by event ---------------------------------------------------------------------------


def _market(story: Story, event: Event) -> None:
    properties = _quickly(event.body)
    symbol = _text(properties, "SecuritySymbol")
    data: Any = properties.get("Data", properties)
    price = _float(_pick(data, _PRICE) if isinstance(data, dict) else None)
    if symbol and price is not None:
        story.prices.setdefault(symbol, Series()).add(event.time_ns, price)


def _quickly(body: bytes) -> dict[str, Any]:
    """Prices become ink, so binary floats do, which are read ten times faster; they have no 1e400, though."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return json.loads(body)


def _trade(story: Story, event: Event) -> None:
    properties = json.loads(event.body)
    side: Side = _SIDES.get(_text(properties, "Direction").lower(), "other")
    story.sides[side] = story.sides.get(side, 0) + 1
    commission = _exact(properties.get("Commission"))
    if commission is not None:
        story.commission = EXACT.add(commission, story.commission or Decimal(0))
    price = _exact(properties.get("Price"))
    symbol = _text(properties, "SecuritySymbol")
    if symbol and price is not None:
        marks = story.trades.setdefault(symbol, Marks(story.start, story.end))
        quantity = _exact(properties.get("Quantity"))
        amount = "" if quantity is None else f" {money.to_text(quantity)}"
        words = (
            f"{side}{amount} {symbol} at {money.to_text(price)}, {format(event.time_ns)}, event {event.seq}"
        )
        marks.add(event.time_ns, float(price), side, words)


def _when(event: Event) -> str:
    return f"{format(event.time_ns)}, event {event.seq}"


def _rejection(story: Story, event: Event) -> None:
    properties = json.loads(event.body)
    reason = _text(properties, REASON) or UNSAID
    new = Rejected(reason, event.seq, event.time_ns, event.time_ns)
    group = story.rejections.setdefault(code_of(properties), new)
    symbol = _text(properties, "SecuritySymbol")
    group.take(event, symbol)
    price = _float(properties.get("RequestedPrice"))
    known = story.prices.get(symbol)
    if price is None and known is not None:
        price = known.values[-1]
    if symbol and price is not None:
        marks = story.trades.setdefault(symbol, Marks(story.start, story.end))
        marks.add(event.time_ns, price, "rejected", f"rejected: {reason}, {_when(event)}")


def _state(story: Story, event: Event) -> None:
    properties = json.loads(event.body)
    if _text(properties, "StateType").lower() != "pnl":
        return
    if _text(properties, "SecuritySymbol"):
        return  # the profit of one security is no value of the account
    value = account_value(event.time_ns, event.seq, properties)
    if value is None:
        return
    if value.equity is not None:
        _keep(story, story.equity, event, value.equity)
    elif value.profit is not None and not len(story.equity):
        _keep(story, story.profit, event, value.profit)


def _keep(story: Story, curve: Curve, event: Event, value: Decimal) -> None:
    if not len(curve):
        story.first_value = value
    story.last_value = value
    curve.add(event.time_ns, value)


class _Holdings:
    """The sum of realised and unrealised profit over positions, after each update."""

    def __init__(self, story: Story, positions: Positions) -> None:
        self._story = story
        self._positions = positions
        self._parts: dict[Held, Decimal] = {}
        self._total = Decimal(0)

    def __call__(self, event: Event) -> None:
        properties = json.loads(event.body)
        held = self._positions.held(properties)
        parts = [_exact(properties.get(name)) for name in ("RealizedPnL", "UnrealizedPnL")]
        if not held.symbol or parts == [None, None]:
            return
        value = EXACT.add(parts[0] or Decimal(0), parts[1] or Decimal(0))
        gained = EXACT.subtract(value, self._parts.get(held, Decimal(0)))
        self._total = EXACT.add(self._total, gained)
        self._parts[held] = value
        story = self._story
        if story.basis == "positions":
            _keep(story, story.held, event, self._total)


# --- values -----------------------------------------------------------------------------------


def _pick(properties: Any, names: tuple[str, ...]) -> Any:
    """The first of `names` that the object has, in any case."""
    members = cast("dict[str, Any]", properties)
    lower = {name.lower(): value for name, value in members.items()}
    return next((lower[name] for name in names if lower.get(name) is not None), None)


def _text(properties: Mapping[str, Any], name: str) -> str:
    value = properties.get(name)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _exact(value: Any) -> Decimal | None:
    try:
        return None if value is None or isinstance(value, bool) else money.parse(value)
    except ValueError:
        return None


def _float(value: Any) -> float | None:
    """A value that can be drawn."""
    if isinstance(value, float):
        return value
    exact = _exact(value)
    return None if exact is None else float(exact)
