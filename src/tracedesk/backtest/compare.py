"""Two runs side by side: trades, profit, drawdown, rejections, and where they first part."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tracedesk.backtest import paths
from tracedesk.backtest.costs import cost, cut, told_apart
from tracedesk.backtest.cursors import Key
from tracedesk.backtest.explain import say
from tracedesk.backtest.model import EventType
from tracedesk.backtest.positions import Held, Positions
from tracedesk.backtest.query import TYPE_NAMES, Recording, Row, Selection, Window
from tracedesk.backtest.snapshot import Pnl, Scope, pnl_told, state_at
from tracedesk.primitives import json, money
from tracedesk.primitives.time import DAY, LATEST, format

if TYPE_CHECKING:
    from tracedesk.backtest.desk import Shelf
    from tracedesk.backtest.page import Ask

_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BATCH: Final = 2_000
_MOST_REASONS: Final = 10
_LONGEST_REASON: Final = 120
_LONGEST_NAME: Final = 80
_FRAME: Final = 120
"""Tokens kept for what says that the answer was cut."""

_RATE_PLACES: Final = 6
_YEAR: Final = 252
_EQUITY: Final = ("equity", "totalequity", "accountvalue", "portfoliovalue")
_DECISIONS: Final = (
    EventType.OrderPlaced,
    EventType.TradeExecution,
    EventType.OrderRejection,
    EventType.OrderCancelled,
)
_COMPARED: Final = (
    "SecuritySymbol",
    "Direction",
    "Quantity",
    "Price",
    "RequestedQuantity",
    "RequestedPrice",
    "RejectionReason",
    "OrderType",
    "LimitPrice",
    "StopPrice",
    "CancelReason",
    "Reason",
)
BASIS: Final[Mapping[str, str]] = {
    "pnl": "state at the last event",
    "winRate": "executions that tell a RealizedPnL but 0; in a run that tells none, PositionUpdates that "
    "shrink or turn a position and change RealizedPnL; a win is a gain",
    "maxDrawdown": "largest fall of the total profit from its peak (0 at the start), in money, exact",
    "sharpe": "mean / sample deviation of the daily changes of the total profit x sqrt(252), binary64",
    "firstDivergence": "orders, fills, rejections, cancels: time, security, side, size, kind, prices, reason",
}


@dataclass(slots=True)
class Curve:
    """The total profit over time: its deepest fall and its last value on each day."""

    peak: Decimal = Decimal(0)
    fall: Decimal = Decimal(0)
    days: dict[int, Decimal] = field(default_factory=dict[int, Decimal])

    def add(self, ts: int, total: Decimal) -> None:
        self.days[ts // DAY] = total
        if total > self.peak:
            self.peak = total
        elif (fall := _WIDE.subtract(self.peak, total)) > self.fall:
            self.fall = fall

    def sharpe(self) -> float | None:
        """Annualised, of the daily changes; None with fewer than two of them or without any spread."""
        values = [Decimal(0), *(self.days[day] for day in sorted(self.days))]
        changes = [float(_WIDE.subtract(b, a)) for a, b in pairwise(values)]
        if len(changes) < 2:
            return None
        mean = math.fsum(changes) / len(changes)
        spread = math.sqrt(math.fsum((c - mean) ** 2 for c in changes) / (len(changes) - 1))
        ratio = mean / spread * math.sqrt(_YEAR) if spread else math.nan
        return ratio if math.isfinite(ratio) else None


@dataclass(slots=True)
class Metrics:
    """What is compared of one run."""

    run: str
    facts: dict[str, Any]
    trades: int
    reasons: Counter[str]
    pnl: Pnl
    closings: int
    wins: int
    drawdown: Decimal | None
    sharpe: float | None
    config: str
    times: tuple[int, int] | None

    @property
    def win_rate(self) -> Decimal | None:
        if not self.closings:
            return None
        units = money.divide(self.wins * 10**_RATE_PLACES, self.closings)
        return money.from_units(units, _RATE_PLACES)

    @property
    def rejections(self) -> int:
        return self.reasons.total()

    def body(self) -> dict[str, Any]:
        """The figures; the reasons come after, as far as there is room for them."""
        return {
            "runId": self.run,
            **self.facts,
            "trades": self.trades,
            "pnl": self.pnl.body(),
            "closings": self.closings,
            "winRate": self.win_rate,
            "maxDrawdown": self.drawdown,
            "sharpe": self.sharpe,
            "rejections": self.rejections,
        }


async def answer(shelf: Shelf, ask: Ask) -> dict[str, Any]:
    """Both runs' figures, the second minus the first, and the first decision on which they differ."""
    one, other = ask.args["runId"], ask.args["otherRunId"]
    left, right = await shelf.read(one, measure), await shelf.read(other, measure)
    parting = await _first_divergence(shelf, one, other)
    body: dict[str, Any] = {
        "runs": [left.body(), right.body()],
        "difference": _difference(left, right),
        "firstDivergence": parting,
    }
    metadata: dict[str, Any] = {
        "queryTimeMs": ask.elapsed_ms(),
        "sameConfig": left.config == right.config,
        "difference": "otherRunId minus runId",
        "basis": BASIS,
    }
    if warnings := _caveats(left, right):
        metadata["warnings"] = warnings
    metadata |= _add_reasons(body, left, right, ask.budget - _FRAME - cost(json.dumps([body, metadata])))
    return {**body, "metadata": metadata}


def _caveats(left: Metrics, right: Metrics) -> list[str]:
    notes: list[str] = []
    if left.times != right.times:
        notes.append("the runs do not cover the same time")
    for metrics in (left, right):
        if metrics.facts["status"] != "ended":
            notes.append(
                f"run {metrics.run} is {metrics.facts['status']}: its figures are of what was recorded"
            )
        if metrics.pnl.total is None:
            notes.append(f"run {metrics.run} tells no profit: no PositionUpdate or StateChange has it")
    return notes


def _difference(left: Metrics, right: Metrics) -> dict[str, Any]:
    sharpes = (left.sharpe, right.sharpe)
    return {
        "trades": right.trades - left.trades,
        "totalPnL": _minus(right.pnl.total, left.pnl.total),
        "winRate": _minus(right.win_rate, left.win_rate),
        "maxDrawdown": _minus(right.drawdown, left.drawdown),
        "sharpe": None if None in sharpes else cast("float", right.sharpe) - cast("float", left.sharpe),
        "rejections": right.rejections - left.rejections,
    }


def _minus(a: Decimal | None, b: Decimal | None) -> Decimal | None:
    return None if a is None or b is None else _WIDE.subtract(a, b)


# --- why orders were rejected ---------------------------------------------------------------------------


def _add_reasons(body: dict[str, Any], left: Metrics, right: Metrics, room: int) -> dict[str, Any]:
    """The reasons whose counts differ most, then the most frequent of each run; says so if there are more."""
    change = Counter(right.reasons)
    change.subtract(left.reasons)
    lists = [Counter({reason: n for reason, n in change.items() if n}), left.reasons, right.reasons]
    shown: list[list[tuple[str, int]]] = []
    for counts in lists:
        top, room = _top(counts, room)
        shown.append(top)
    body["difference"]["rejectionsByReason"] = dict(shown[0])
    for run, top in zip(body["runs"], shown[1:], strict=True):
        run["rejectionsByReason"] = [{"reason": reason, "count": count} for reason, count in top]
    omitted = [len(counts) - len(top) for counts, top in zip(lists, shown, strict=True)]
    names = ("difference", "run", "other")
    more = {name: count for name, count in zip(names, omitted, strict=True) if count}
    return {"truncated": bool(more)} | ({"omittedReasons": more} if more else {})


def _top(counts: Mapping[str, int], room: int) -> tuple[list[tuple[str, int]], int]:
    """The largest counts, as many as there is room for, and the room that is left."""
    first = sorted(counts.items(), key=lambda item: (-abs(item[1]), item[0]))[:_MOST_REASONS]
    texts = told_apart([reason for reason, _ in first], _LONGEST_REASON)
    kept: list[tuple[str, int]] = []
    for text, (_, count) in zip(texts, first, strict=True):
        price = cost(json.dumps({"reason": text, "count": count})) + 1
        if price > room:
            break
        room -= price
        kept.append((text, count))
    return kept, room


# --- one run's figures ----------------------------------------------------------------------------------


def measure(recording: Recording) -> Metrics:
    """Everything that is compared of a run, in two passes over its positions and rejections."""
    curve = Curve()
    positions, held = _follow_positions(recording)
    closed = _executed(recording) or positions
    told = list(_told_profit(recording))
    for ts, total in told or held:
        curve.add(ts, total)
    times = recording.times
    facts: dict[str, Any] = {
        "name": cut(str(recording.meta.get("name") or ""), _LONGEST_NAME),
        "status": recording.status,
        "events": recording.head,
    }
    if times is not None:
        facts |= {"start": format(times[0]), "end": format(times[1])}
    return Metrics(
        run=recording.run,
        facts=facts,
        trades=recording.count(Selection(types=(EventType.TradeExecution,))),
        reasons=_reasons(recording),
        pnl=state_at(recording, LATEST, Scope(indicators=False, orders=False)).pnl,
        closings=closed.count,
        wins=closed.wins,
        drawdown=curve.fall if curve.days else None,
        sharpe=curve.sharpe(),
        config=str(recording.meta.get("configHash")),
        times=times,
    )


def _reasons(recording: Recording) -> Counter[str]:
    """Each reason in full: two that only begin alike are two."""
    counts: Counter[str] = Counter()
    for _, body in recording.bodies(Selection(types=(EventType.OrderRejection,))):
        counts[str(paths.properties(body).get("RejectionReason") or "(no reason recorded)")] += 1
    return counts


@dataclass(slots=True)
class _Closings:
    """How often profit was realised, and how often as a gain."""

    count: int = 0
    wins: int = 0

    def take(self, gain: Decimal) -> None:
        self.count += gain != 0
        self.wins += gain > 0


def _executed(recording: Recording) -> _Closings | None:
    """What the executions say that they realised; None when none says it."""
    closed: _Closings | None = None
    for _, body in recording.bodies(Selection(types=(EventType.TradeExecution,))):
        if _REALIZED not in body:
            continue
        gain = paths.number(paths.properties(body).get("RealizedPnL"))
        if gain is not None:
            closed = closed or _Closings()
            closed.take(gain)
    return closed


_REALIZED: Final = b'"RealizedPnL"'


@dataclass(slots=True)
class _Position:
    """A position as its updates tell it."""

    quantity: Decimal = Decimal(0)
    realized: Decimal = Decimal(0)
    worth: Decimal = Decimal(0)

    def moved_to(self, quantity: Decimal | None) -> bool:
        """Take the new quantity; whether that closes any of the old one."""
        if quantity is None:
            return False
        before, self.quantity = self.quantity, quantity
        turned = before.is_signed() != quantity.is_signed()
        return bool(before) and (turned or quantity.copy_abs() < before.copy_abs())


def _follow_positions(recording: Recording) -> tuple[_Closings, list[tuple[int, Decimal]]]:
    """Profit realised by updates that close some of a position, and the sum of all positions over time.

    Fees of opening are realised, too, but close nothing.
    """
    closed, positions, told = _Closings(), dict[Held, _Position](), Positions.of(recording)
    total, series = Decimal(0), list[tuple[int, Decimal]]()
    for row in recording.scan(Selection(types=(EventType.PositionUpdate,))):
        properties = paths.properties(row.body)
        position = positions.setdefault(told.held(properties), _Position())
        closes = position.moved_to(paths.number(properties.get("Quantity")))
        gained, open_gain = (paths.number(properties.get(n)) for n in ("RealizedPnL", "UnrealizedPnL"))
        if gained is not None:
            if closes:
                closed.take(_WIDE.subtract(gained, position.realized))
            position.realized = gained
        elif open_gain is None:
            continue
        now = _WIDE.add(position.realized, open_gain or Decimal(0))
        total = _WIDE.add(total, _WIDE.subtract(now, position.worth))
        position.worth = now
        series.append((row.ts, total))
    return closed, series


def _told_profit(recording: Recording) -> Iterator[tuple[int, Decimal]]:
    """The profit as StateChanges of the whole portfolio tell it; an equity counts from its first value."""
    query = f"""
        SELECT f.ts, e.body FROM slot s CROSS JOIN fact f {recording.by("slot")} ON f.slot = s.id
        JOIN event e ON e.id = f.event WHERE s.type = ? AND s.symbol IS NULL ORDER BY f.ts, f.event
    """
    first: Decimal | None = None
    for ts, body in recording.connection.execute(query, (EventType.StateChange.value,)):
        after = paths.properties(body).get("StateAfter")
        told = pnl_told(after)
        if told is not None and told.total is not None:
            yield ts, told.total
            continue
        equity = _equity(after)
        if equity is not None:
            first = equity if first is None else first
            yield ts, _WIDE.subtract(equity, first)


def _equity(after: Any) -> Decimal | None:
    if not isinstance(after, dict):
        return None
    named = {name.lower(): value for name, value in cast("dict[str, Any]", after).items()}
    return next((n for name in _EQUITY if (n := paths.number(named.get(name))) is not None), None)


# --- where they part --------------------------------------------------------------------------------------


class _Decision(NamedTuple):
    row: Row
    essence: tuple[Any, ...]


class _Parting(NamedTuple):
    ts: int
    kind: EventType
    left: Row | None
    right: Row | None


async def _first_divergence(shelf: Shelf, one: str, other: str) -> dict[str, Any] | None:
    """Type by type, for each has its own order by time; the earliest difference of all."""
    partings: list[_Parting] = []
    for kind in _DECISIONS:
        found = await _parting(shelf, (one, other), kind)
        if found is not None:
            partings.append(found)
    if not partings:
        return None
    first = min(partings, key=lambda parting: parting.ts)
    return {
        "time": format(first.ts),
        "eventType": TYPE_NAMES[first.kind],
        "differs": _differing(first.left, first.right),
        "run": _shown(one, first.left),
        "other": _shown(other, first.right),
    }


def _differing(left: Row | None, right: Row | None) -> list[str]:
    """What two decisions do not have in common."""
    if left is None or right is None:
        return []
    pairs = zip(("time", *_COMPARED), _essence(left), _essence(right), strict=True)
    return [name for name, a, b in pairs if a != b]


def _shown(run: str, row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    text = say(TYPE_NAMES[row.type], paths.properties(row.body))
    ref = f"tracedesk://backtest/{run.lower()}/{row.seq}"
    return {"seq": row.seq, "time": format(row.ts), "text": text, "ref": ref}


async def _parting(shelf: Shelf, runs: tuple[str, str], kind: EventType) -> _Parting | None:
    """The first place where the two runs' events of a type differ, or one has no more."""
    last: tuple[Key | None, Key | None] = (None, None)
    while True:
        left = await shelf.read(runs[0], lambda r, after=last[0]: _decisions(r, kind, after))
        right = await shelf.read(runs[1], lambda r, after=last[1]: _decisions(r, kind, after))
        for a, b in zip(left, right, strict=False):
            if a.essence != b.essence:
                return _Parting(min(a.row.ts, b.row.ts), kind, a.row, b.row)
        if len(left) != len(right):
            return _one_more(kind, left, right)
        if len(left) < _BATCH:
            return None
        last = (left[-1].row.key, right[-1].row.key)


def _one_more(kind: EventType, left: Sequence[_Decision], right: Sequence[_Decision]) -> _Parting:
    if len(left) > len(right):
        row = left[len(right)].row
        return _Parting(row.ts, kind, row, None)
    row = right[len(left)].row
    return _Parting(row.ts, kind, None, row)


def _decisions(recording: Recording, kind: EventType, after: Key | None) -> list[_Decision]:
    rows = recording.page(Selection(types=(kind,)), Window(recording.head, last=after), _BATCH)
    return [_Decision(row, _essence(row)) for row in rows]


def _essence(row: Row) -> tuple[Any, ...]:
    """What makes two decisions the same; ids are not part of it, for engines number them anew."""
    properties = paths.properties(row.body)
    values = (properties.get(name) for name in _COMPARED)
    return (row.ts, *(json.dumps(v) if isinstance(v, (dict, list)) else v for v in values))
