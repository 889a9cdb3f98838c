"""Two runs side by side: trades, profit, drawdown, rejections, and where they first part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tracedesk.backtest import paths
from tracedesk.backtest.costs import cost, cut, told_apart
from tracedesk.backtest.cursors import Key
from tracedesk.backtest.explain import say
from tracedesk.backtest.model import EventType
from tracedesk.backtest.performance import FEWEST_RETURNS, Performance, performance_of
from tracedesk.backtest.query import TYPE_NAMES, Recording, Row, Selection, Window
from tracedesk.backtest.rejections import LONGEST, REASON, UNSAID, code_of
from tracedesk.backtest.snapshot import Pnl, Scope, state_at
from tracedesk.primitives import json
from tracedesk.primitives.time import LATEST, format

if TYPE_CHECKING:
    from tracedesk.backtest.desk import Shelf
    from tracedesk.backtest.page import Ask

_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BATCH: Final = 2_000
_MOST_REASONS: Final = 10
_LONGEST_REASON: Final = 120
_MOST_CODES: Final = 250
"""Codes of one run that are counted each by itself."""
_FURTHER: Final = "(further codes)"
_LONGEST_NAME: Final = 80
_FRAME: Final = 120
"""Tokens kept for what says that the answer was cut."""

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
    "winRate": "closed trades that gained after costs / all closed trades, as the engine reports them "
    "(TradePnL); else round trips from flat to flat",
    "maxDrawdown": "largest fall of the total profit from its peak (0 at the start), in money, exact",
    "sharpe": "mean / sample deviation of dailyReturns x sqrt(periodsPerYear), risk-free rate 0, binary64; "
    f"null below {FEWEST_RETURNS} returns, or where they are not daily",
    "dailyReturns": "last equity of a UTC day / the previous day's - 1, over days with market data or equity",
    "rejectionsByReason": "by RejectionCode: the reason without figures, ids, symbols; example: a whole one; "
    f"beyond {_MOST_CODES} codes: {_FURTHER}",
    "firstDivergence": "orders, fills, rejections, cancels: time, security, side, size, kind, prices, reason",
}


@dataclass(slots=True)
class Metrics:
    """What is compared of one run."""

    run: str
    facts: dict[str, Any]
    trades: int
    reasons: Reasons
    pnl: Pnl
    performance: Performance
    config: str
    times: tuple[int, int] | None

    @property
    def rejections(self) -> int:
        return self.reasons.counts.total()

    def body(self) -> dict[str, Any]:
        """The figures; the reasons come after, as far as there is room for them."""
        return {
            "runId": self.run,
            **self.facts,
            "trades": self.trades,
            "pnl": self.pnl.body(),
            "closings": self.performance.trades.count,
            "winRate": self.performance.trades.win_rate,
            "maxDrawdown": self.performance.drawdown,
            "sharpe": self.performance.returns.sharpe,
            "dailyReturns": self.performance.returns.body(),
            "rejections": self.rejections,
        }


async def answer(shelf: Shelf, ask: Ask) -> dict[str, Any]:
    """Both runs' figures, the second minus the first, and the first decision on which they differ."""
    one, other = ask.args["runId"], ask.args["otherRunId"]
    left = await shelf.read_once(one, "figures", measure)
    right = await shelf.read_once(other, "figures", measure)
    is_same = one.lower() == other.lower()
    parting = None if is_same else await _first_divergence(shelf, one, other)
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
        if (caveat := metrics.performance.returns.caveat) is not None:
            notes.append(f"run {metrics.run} has no Sharpe ratio: {caveat}")
    return notes


def _difference(left: Metrics, right: Metrics) -> dict[str, Any]:
    old, new = left.performance, right.performance
    sharpes = (old.returns.sharpe, new.returns.sharpe)
    return {
        "trades": right.trades - left.trades,
        "totalPnL": _minus(right.pnl.total, left.pnl.total),
        "winRate": _minus(new.trades.win_rate, old.trades.win_rate),
        "maxDrawdown": _minus(new.drawdown, old.drawdown),
        "sharpe": None if None in sharpes else cast("float", sharpes[1]) - cast("float", sharpes[0]),
        "rejections": right.rejections - left.rejections,
    }


def _minus(a: Decimal | None, b: Decimal | None) -> Decimal | None:
    return None if a is None or b is None else _WIDE.subtract(a, b)


# --- why orders were rejected ---------------------------------------------------------------------------


def _add_reasons(body: dict[str, Any], left: Metrics, right: Metrics, room: int) -> dict[str, Any]:
    """The codes whose counts differ most, then the most frequent of each run; says so if there are more."""
    change = Counter(right.reasons.counts)
    change.subtract(left.reasons.counts)
    changed = Reasons(Counter({code: n for code, n in change.items() if n}))
    lists = [changed, left.reasons, right.reasons]
    shown: list[list[dict[str, Any]]] = []
    for reasons in lists:
        top, room = _top(reasons, room)
        shown.append(top)
    body["difference"]["rejectionsByReason"] = {row["reason"]: row["count"] for row in shown[0]}
    for run, top in zip(body["runs"], shown[1:], strict=True):
        run["rejectionsByReason"] = top
    omitted = [len(reasons.counts) - len(top) for reasons, top in zip(lists, shown, strict=True)]
    names = ("difference", "run", "other")
    more = {name: count for name, count in zip(names, omitted, strict=True) if count}
    return {"truncated": bool(more)} | ({"omittedReasons": more} if more else {})


def _top(reasons: Reasons, room: int) -> tuple[list[dict[str, Any]], int]:
    """The largest counts, as many as there is room for, and the room that is left."""
    first = sorted(reasons.counts.items(), key=lambda item: (-abs(item[1]), item[0]))[:_MOST_REASONS]
    texts = told_apart([code for code, _ in first], _LONGEST_REASON)
    kept: list[dict[str, Any]] = []
    for text, (code, count) in zip(texts, first, strict=True):
        row: dict[str, Any] = {"reason": text, "count": count}
        if code in reasons.examples:
            row["example"] = cut(reasons.examples[code], _LONGEST_REASON)
        price = cost(json.dumps(row)) + 1
        if price > room:
            break
        room -= price
        kept.append(row)
    return kept, room


# --- one run's figures ----------------------------------------------------------------------------------


def measure(recording: Recording) -> Metrics:
    """Everything that is compared of a run, in two passes over its positions and rejections."""
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
        performance=performance_of(recording),
        config=str(recording.meta.get("configHash")),
        times=times,
    )


@dataclass(slots=True)
class Reasons:
    """Rejections by their codes, and the first full reason of each code that differs from it."""

    counts: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])


def _reasons(recording: Recording) -> Reasons:
    """Rejections by code; beyond so many codes by one for all the rest."""
    found = Reasons()
    for _, body in recording.bodies(Selection(types=(EventType.OrderRejection,))):
        properties = paths.properties(body)
        code, reason = code_of(properties), str(properties.get(REASON) or UNSAID)
        if code not in found.counts and len(found.counts) >= _MOST_CODES:
            code = _FURTHER
        found.counts[code] += 1
        if reason != code:
            found.examples.setdefault(code, reason[:LONGEST])
    return found


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
    pairs = zip(
        ("time", *_COMPARED), _essence(left.ts, left.body), _essence(right.ts, right.body), strict=True
    )
    return [name for name, a, b in pairs if a != b]


def _shown(run: str, row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    text = say(TYPE_NAMES[row.type], paths.properties(row.body))
    ref = f"tracedesk://backtest/{run.lower()}/{row.seq}"
    return {"seq": row.seq, "time": format(row.ts), "text": text, "ref": ref}


async def _parting(shelf: Shelf, runs: tuple[str, str], kind: EventType) -> _Parting | None:
    """The first place where the two runs' events of a type differ, or one has no more.

    Blocks of decisions are compared by hashes, which are kept for each ended run; only the first block, where
    most runs part, and the one whose hashes differ are read.
    """
    first = [await _block(shelf, run, kind, None) for run in runs]
    found = _difference_in(kind, first[0], first[1])
    if found is not None or len(first[0]) < _BATCH:
        return found
    blocks = [await shelf.read_once(run, f"decisions {kind.name}", _hashes(kind)) for run in runs]
    for number, (left, right) in enumerate(zip_longest(*blocks)):
        if left is None or right is None or left.hash != right.hash:
            afters = [_before(own, number) for own in blocks]
            rows = [await _block(shelf, run, kind, at) for run, at in zip(runs, afters, strict=True)]
            found = _difference_in(kind, rows[0], rows[1])
            if found is not None:
                return found
    return None


async def _block(shelf: Shelf, run: str, kind: EventType, after: Key | None) -> list[_Decision]:
    return await shelf.read(run, lambda recording: _decisions(recording, kind, after))


def _difference_in(kind: EventType, left: Sequence[_Decision], right: Sequence[_Decision]) -> _Parting | None:
    for a, b in zip(left, right, strict=False):
        if a.essence != b.essence:
            return _Parting(min(a.row.ts, b.row.ts), kind, a.row, b.row)
    return None if len(left) == len(right) else _one_more(kind, left, right)


class _Hashed(NamedTuple):
    """A block of decisions: the key of its last one, and a hash of the text of all."""

    last: Key
    hash: int


def _before(blocks: Sequence[_Hashed], number: int) -> Key | None:
    """The key of the last decision before a block, also where the run has no such block."""
    return blocks[min(number, len(blocks)) - 1].last if number and blocks else None


def _hashes(kind: EventType) -> Callable[[Recording], list[_Hashed]]:
    """Hashes of all blocks of a run's decisions of a type."""

    def work(recording: Recording) -> list[_Hashed]:
        found, essences, key = list[_Hashed](), list[tuple[Any, ...]](), Key(0, 0)
        for key, essence in _essences(recording, kind):
            essences.append(essence)
            if len(essences) == _BATCH:
                found.append(_Hashed(key, hash(repr(essences))))
                essences = []
        return [*found, _Hashed(key, hash(repr(essences)))] if essences else found

    return work


def _essences(recording: Recording, kind: EventType) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    query = f"""
        SELECT f.ts, f.event, e.body FROM fact f {recording.by("type")} JOIN event e ON e.id = f.event
        WHERE f.type = ? ORDER BY f.ts, f.event
    """
    for ts, event, body in recording.connection.execute(query, (kind.value,)):
        yield Key(ts, event - recording.base), _essence(ts, body)


def _one_more(kind: EventType, left: Sequence[_Decision], right: Sequence[_Decision]) -> _Parting:
    if len(left) > len(right):
        row = left[len(right)].row
        return _Parting(row.ts, kind, row, None)
    row = right[len(left)].row
    return _Parting(row.ts, kind, None, row)


def _decisions(recording: Recording, kind: EventType, after: Key | None) -> list[_Decision]:
    rows = recording.page(Selection(types=(kind,)), Window(recording.head, last=after), _BATCH)
    return [_Decision(row, _essence(row.ts, row.body)) for row in rows]


def _essence(ts: int, body: bytes) -> tuple[Any, ...]:
    """What makes two decisions the same; ids are not part of it, for engines number them anew."""
    properties = paths.properties(body)
    values = map(properties.get, _COMPARED)
    return (ts, *(json.dumps(v) if isinstance(v, (dict, list)) else v for v in values))
