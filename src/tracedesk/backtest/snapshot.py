"""The state of a run at a time: positions, indicators, open orders, profit; and how two times differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

from tracedesk.backtest import paths
from tracedesk.backtest.costs import cost
from tracedesk.backtest.model import INDICATOR, SYMBOL, EventType
from tracedesk.backtest.orders import ORDER_TYPES, OpenOrders
from tracedesk.backtest.page import Ask, find_text, is_guid, order_guid
from tracedesk.backtest.positions import named
from tracedesk.backtest.query import TYPE_NAMES, Recording, Selection
from tracedesk.backtest.schema import SYMBOL_TEXT
from tracedesk.backtest.texts import parameters as one_form
from tracedesk.backtest.times import Span, assumed, instant, span
from tracedesk.primitives import json
from tracedesk.primitives.time import EARLIEST, format

_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_SIDES: Final[Mapping[str, str]] = {"buy": "Buy", "long": "Buy", "sell": "Sell", "short": "Sell"}
_PRICES: Final = ("Price", "LimitPrice", "StopPrice", "RequestedPrice")
_TOTAL: Final = ("total", "totalpnl", "pnl")
_REALIZED: Final = ("realized", "realizedpnl")
_UNREALIZED: Final = ("unrealized", "unrealizedpnl")


_QUANTITY: Final = b'"Quantity":'
_PLAIN_QUANTITY: Final = re.compile(rb'"Quantity":([0-9]+(?:\.[0-9]+)?)[,}]')


class Latest(NamedTuple):
    """The last event of a slot up to a time."""

    ts: int
    event: int
    properties: Mapping[str, Any]


@dataclass(slots=True)
class Pnl:
    """Profit, and which events tell it."""

    total: Decimal | None = None
    realized: Decimal | None = None
    unrealized: Decimal | None = None
    source: str = "positions"

    def body(self) -> dict[str, Any]:
        return {"total": self.total, "realized": self.realized, "unrealized": self.unrealized}


class Terms(NamedTuple):
    """The whole quantity of an order, filled or not, and the properties that it was placed with."""

    quantity: Decimal | None
    placed: Mapping[str, Any]

    def told(self) -> dict[str, Decimal | None]:
        prices = {name: paths.number(self.placed.get(name)) for name in _PRICES}
        return {"Quantity": self.quantity, **prices}


@dataclass(slots=True)
class State:
    """What held at a time."""

    positions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    indicators: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    orders: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    terms: dict[str, Terms] = field(default_factory=dict[str, "Terms"])
    """What each open order asks for, by its id."""
    pnl: Pnl = field(default_factory=Pnl)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which securities, and which parts of the state."""

    symbols: tuple[int, ...] | None = None
    indicators: bool = True
    orders: bool = True


def answer(recording: Recording, ask: Ask) -> dict[str, Any]:
    """The state at the asked time."""
    args = ask.args
    when = instant(args, "timestamp", "end")
    ask.warnings += assumed("timestamp", when)
    scope = Scope(_symbols(recording, ask), args["includeIndicators"], args["includeActiveOrders"])
    state = state_at(recording, when.ns, scope)
    _note_outside(recording, ask, when.ns)
    if state.pnl.source == "some positions":
        ask.warnings.append("not every position tells its profit; pnl is of those that do")
    return {
        "timestamp": format(when.ns),
        "runId": recording.run,
        "state": {
            "positions": _summarised(state.positions),
            "indicators": state.indicators,
            "activeOrders": state.orders,
            "pnl": state.pnl.body(),
        },
        "metadata": ask.metadata(recording, reconstructed=True, pnlSource=state.pnl.source),
    }


def _symbols(recording: Recording, ask: Ask) -> tuple[int, ...] | None:
    name = ask.args.get("securitySymbol")
    if not name:
        return None
    found = find_text(recording, SYMBOL_TEXT, name)
    if not found:
        ask.warnings.append("no event of this run has this securitySymbol")
    return found


def _note_outside(recording: Recording, ask: Ask, ns: int) -> None:
    if recording.times is None:
        ask.warnings.append("the run has no events yet")
    elif ns < recording.times[0]:
        ask.warnings.append(f"the run begins later, at {format(recording.times[0])}: nothing was held yet")
    elif ns > recording.times[1]:
        ask.warnings.append(
            f"the run's last event is at {format(recording.times[1])}: this is its final state"
        )


# --- the state ----------------------------------------------------------------------------------------


def state_at(recording: Recording, ns: int, scope: Scope) -> State:
    """Everything that held at `ns`, by the last events up to and including it."""
    state = State()
    told: list[Latest] = []
    positions: list[Latest] = []
    for kind, ts, event, body in _latest(recording, ns, scope):
        properties = paths.properties(body)
        if kind == EventType.IndicatorCalculation:
            state.indicators.append(_indicator(properties))
        elif kind == EventType.PositionUpdate:
            positions.append(Latest(ts, event, properties))
        else:
            told.append(Latest(ts, event, properties))
    if scope.orders:
        _add_open_orders(state, recording, ns, scope)
    state.positions = _positions(positions)
    state.pnl = _pnl(state.positions, positions, told, scope)
    state.positions.sort(key=lambda p: p["securitySymbol"])
    state.indicators.sort(key=lambda i: (i["name"], i["securitySymbol"] or ""))
    return state


def _latest(recording: Recording, ns: int, scope: Scope) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, time, row and properties of the last event of each slot: one seek for each."""
    kinds = [EventType.PositionUpdate, EventType.StateChange]
    kinds += [EventType.IndicatorCalculation] if scope.indicators else []
    where = f"s.type IN ({','.join(str(kind.value) for kind in kinds)})"
    values: tuple[int, ...] = ()
    if scope.symbols is not None:
        where += f" AND s.symbol IN ({','.join('?' * len(scope.symbols))})"
        values = scope.symbols
    query = f"""
        SELECT s.type, e.time_ns, e.id, e.body FROM slot s CROSS JOIN event e ON e.id = (
          SELECT f.event FROM fact f {recording.by("slot")} WHERE f.slot = s.id AND f.ts <= ?
          ORDER BY f.ts DESC, f.event DESC LIMIT 1)
        WHERE {where} ORDER BY s.id
    """
    return recording.connection.execute(query, (ns, *values))


def _positions(latest: Sequence[Latest]) -> list[dict[str, Any]]:
    """One of each symbol; of one whose every update names its position, each of these with its id."""
    by_symbol: dict[str, list[Latest]] = {}
    for update in latest:
        by_symbol.setdefault(str(update.properties.get(SYMBOL)), []).append(update)
    rows: list[dict[str, Any]] = []
    for updates in by_symbol.values():
        ids = [named(update.properties) for update in updates]
        if None in ids:
            rows.append(_position(max(updates, key=_BY_TIME).properties))
        else:
            pairs = zip(updates, ids, strict=True)
            rows += [{**_position(update.properties), "positionId": id} for update, id in pairs]
    return rows


def _summarised(positions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The positions, with those of a symbol that were closed and have ids in one row: there may be many."""
    shown: list[dict[str, Any]] = []
    closed: dict[str, list[dict[str, Any]]] = {}
    for row in positions:
        if "positionId" in row and row["quantity"] == 0:
            closed.setdefault(row["securitySymbol"], []).append(row)
        else:
            shown.append(row)
    for rows in closed.values():
        shown.append(rows[0] if len(rows) == 1 else _joined(rows))
    return sorted(shown, key=lambda row: row["securitySymbol"])


def _joined(closed: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Closed positions as one: what they brought together."""
    sums = {name: _sum([row[name] for row in closed])[0] for name in ("unrealizedPnL", "realizedPnL")}
    whole = {**closed[0], "averagePrice": None, **sums, "closedPositions": len(closed)}
    del whole["positionId"]
    return whole


def _position(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "securitySymbol": str(properties.get(SYMBOL)),
        "quantity": paths.number(properties.get("Quantity")),
        "averagePrice": paths.number(properties.get("AveragePrice")),
        "unrealizedPnL": paths.number(properties.get("UnrealizedPnL")),
        "realizedPnL": paths.number(properties.get("RealizedPnL")),
    }


def _indicator(properties: Mapping[str, Any]) -> dict[str, Any]:
    symbol, parameters = properties.get(SYMBOL), properties.get("Parameters")
    return {
        "name": str(properties.get(INDICATOR)),
        "securitySymbol": None if symbol is None else str(symbol),
        "value": paths.number(properties.get("Value")),
        "parameters": parameters if isinstance(parameters, dict) else {},
    }


# --- profit -------------------------------------------------------------------------------------------


def _pnl(
    shown: Sequence[Mapping[str, Any]], positions: Sequence[Latest], told: Sequence[Latest], scope: Scope
) -> Pnl:
    """The sum of the positions, unless a StateChange of the profit came after the last of them."""
    own = [change for change in told if scope.symbols is not None or change.properties.get(SYMBOL) is None]
    latest = max(own, key=lambda change: (change.ts, change.event), default=None)
    newest = max(((p.ts, p.event) for p in positions), default=None)
    if latest is not None and (newest is None or (latest.ts, latest.event) > newest):
        stated = pnl_told(latest.properties.get("StateAfter"))
        if stated is not None:
            return stated
    return _summed(shown)


def pnl_told(after: Any) -> Pnl | None:
    """The profit that a StateChange's `StateAfter` tells: a number, or an object with its parts."""
    whole = paths.number(after)
    if whole is not None:
        return Pnl(whole, None, None, "stateChange")
    if not isinstance(after, dict):
        return None
    named = {name.lower(): paths.number(value) for name, value in cast("dict[str, Any]", after).items()}
    total, realized, unrealized = (_first(named, names) for names in (_TOTAL, _REALIZED, _UNREALIZED))
    if total is None and realized is not None and unrealized is not None:
        total = _WIDE.add(realized, unrealized)
    if total is None and realized is None and unrealized is None:
        return None
    return Pnl(total, realized, unrealized, "stateChange")


def _first(named: Mapping[str, Decimal | None], names: Sequence[str]) -> Decimal | None:
    return next((named[name] for name in names if named.get(name) is not None), None)


def _summed(positions: Sequence[Mapping[str, Any]]) -> Pnl:
    realized, all_realized = _sum([p["realizedPnL"] for p in positions])
    unrealized, all_unrealized = _sum([p["unrealizedPnL"] for p in positions])
    total = realized if unrealized is None else unrealized if realized is None else None
    if realized is not None and unrealized is not None:
        total = _WIDE.add(realized, unrealized)
    complete = all_realized and all_unrealized
    return Pnl(total, realized, unrealized, "positions" if complete else "some positions")


def _sum(values: Sequence[Decimal | None]) -> tuple[Decimal | None, bool]:
    """The exact sum of what is known, and whether all is; nothing held is zero."""
    known = [value for value in values if value is not None]
    if values and not known:
        return None, False
    total = Decimal(0)
    for value in known:
        total = _WIDE.add(total, value)
    return total, len(known) == len(values)


# --- open orders --------------------------------------------------------------------------------------


class _Start(NamedTuple):
    event: int
    ts: int
    orders: OpenOrders


def _add_open_orders(state: State, recording: Recording, ns: int, scope: Scope) -> None:
    orders = _replayed(recording, ns)
    for ref, order in orders.by_ref.items():
        query = "SELECT f.symbol, e.body FROM fact f JOIN event e ON e.id = f.event WHERE f.event = ?"
        for symbol, body in recording.connection.execute(query, (recording.base + order.placed,)):
            if scope.symbols is None or symbol in scope.symbols:
                placed = paths.properties(body)
                row = _order(recording, ref, order.remaining, placed)
                state.orders.append(row)
                state.terms[row["orderId"]] = Terms(order.quantity, placed)


def _order(
    recording: Recording, ref: int, remaining: Decimal | None, placed: Mapping[str, Any]
) -> dict[str, Any]:
    ((text,),) = recording.connection.execute("SELECT value FROM text WHERE id = ?", (ref,))
    symbol = placed.get(SYMBOL)
    price = next((p for name in _PRICES if (p := paths.number(placed.get(name))) is not None), None)
    row: dict[str, Any] = {
        "orderId": text.lower() if is_guid(text) else order_guid(recording.run, ref),
        "engineOrderId": text,
        "securitySymbol": None if symbol is None else str(symbol),
        "quantity": remaining,
        "price": price,
    }
    side = _SIDES.get(str(placed.get("Direction")).lower())
    if side is not None:
        row["direction"] = side
    return row


def _replayed(recording: Recording, ns: int) -> OpenOrders:
    """The fold of all order events up to `ns`, from the last checkpoint that is wholly before it."""
    start = _checkpoint(recording, ns)
    found = _order_events(recording, start, ns)
    if found and found[0][0] < start.ts:
        # An event recorded after the checkpoint is of an earlier time: only the whole fold is right.
        start = _Start(recording.base, EARLIEST, OpenOrders())
        found = _order_events(recording, start, ns)
    for _, event, kind, ref, body in found:
        start.orders.apply(kind, ref, event - recording.base, _order_properties(kind, body))
    return start.orders


def _order_properties(kind: int, body: bytes) -> Mapping[str, Any]:
    """What the fold needs of an order event. In a flat object the one `"Quantity":` is it."""
    if kind in (EventType.OrderCancelled, EventType.OrderRejection):
        return {}
    if kind != EventType.StateChange and body.count(b"{") == 1 and body.count(_QUANTITY) == 1:
        token = _PLAIN_QUANTITY.search(body)
        if token is not None:
            return {"Quantity": Decimal(token[1].decode())}
    return paths.properties(body)


def _checkpoint(recording: Recording, ns: int) -> _Start:
    query = (
        "SELECT event, ts, open FROM checkpoint WHERE ts <= ? AND is_sorted = 1 "
        "ORDER BY ts DESC, event DESC LIMIT 1"
    )
    for event, ts, dumped in recording.connection.execute(query, (ns,)):
        return _Start(event, ts, OpenOrders.restored(dumped))
    return _Start(recording.base, EARLIEST, OpenOrders())


def _order_events(recording: Recording, start: _Start, ns: int) -> list[tuple[int, int, int, int, bytes]]:
    """Events about orders after the start and up to `ns`, in (time, seq) order."""
    query = (
        f"SELECT f.ts, f.event, f.type, f.order_ref, e.body FROM fact f {recording.by('type')} "
        "JOIN event e ON e.id = f.event WHERE f.type = ? AND f.ts BETWEEN ? AND ? AND f.event > ? "
        "AND f.order_ref IS NOT NULL"
    )
    found: list[tuple[int, int, int, int, bytes]] = []
    for kind in ORDER_TYPES & recording.order_of_types.keys():
        first = _first_time(recording, kind, start)
        if first is not None:
            found += recording.connection.execute(query, (kind, first, ns, start.event))
    found.sort(key=_BY_TIME)
    return found


_BY_TIME: Final = itemgetter(0, 1)


def _first_time(recording: Recording, kind: int, start: _Start) -> int | None:
    """The least time that an event of the type can have among those recorded after the start."""
    if recording.order_of_types[kind]:
        query = (
            f"SELECT event FROM fact {recording.by('type')} WHERE type = ? AND ts < ? "
            "ORDER BY ts DESC, event DESC LIMIT 1"
        )
        # The times never step back, so if the last event before the start's time is not later, none is.
        if all(event <= start.event for (event,) in recording.connection.execute(query, (kind, start.ts))):
            return start.ts
    query = "SELECT min(min_ts) FROM chunk WHERE type = ? AND last > ?"
    return next(recording.connection.execute(query, (kind, start.event)))[0]


# --- two times ----------------------------------------------------------------------------------------


def delta(recording: Recording, ask: Ask) -> dict[str, Any]:
    """What changed between two times: after the first, up to and including the second."""
    between = span(ask.args)
    ask.warnings += between.warnings
    scope = Scope(_symbols(recording, ask))
    before, after = (state_at(recording, ns, scope) for ns in (between.start_ns, between.end_ns))
    parts = {
        "positions": _changes(before.positions, after.positions, ("securitySymbol", "positionId"), _NUMBERS),
        "orders": _order_changes(before, after),
        "indicators": _changes(
            before.indicators, after.indicators, ("name", "securitySymbol", "parameters"), ("value",)
        ),
    }
    shown, omitted = _within_room(parts, ask.room)
    counts = _counts(recording, between, scope)
    metadata = ask.metadata(
        recording,
        startTime=format(between.start_ns),
        endTime=format(between.end_ns),
        events=counts,
        pnlSource=after.pnl.source,
        truncated=bool(omitted),
    )
    if omitted:
        metadata["omitted"] = omitted
        metadata.setdefault("warnings", []).append("cut to the budget; give a securitySymbol or nearer times")
    return {**shown, "pnl": _pnl_change(before.pnl, after.pnl), "metadata": metadata}


_NUMBERS: Final = ("quantity", "averagePrice", "unrealizedPnL", "realizedPnL")


def _changes(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    numbers: Sequence[str],
) -> list[dict[str, Any]]:
    """For each thing whose numbers differ: its names, and each number before and after."""

    def keyed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        return {one_form([row.get(name) for name in names]): row for row in rows}

    old, new = keyed(before), keyed(after)
    changes: list[dict[str, Any]] = []
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key, {}), new.get(key, {})
        moved = {n: {"before": was.get(n), "after": now.get(n)} for n in numbers if was.get(n) != now.get(n)}
        if moved:
            about = now or was
            changes.append({**{name: about[name] for name in names if name in about}, **moved})
    return changes


def _order_changes(before: State, after: State) -> list[dict[str, Any]]:
    old, new = ({order["orderId"]: order for order in state.orders} for state in (before, after))
    changes = [{"change": "opened", **order} for id, order in new.items() if id not in old]
    changes += [{"change": "ended", **order} for id, order in old.items() if id not in new]
    for id in [id for id in new if id in old]:
        change = {**new[id], "quantityBefore": old[id]["quantity"]}
        terms = _amended(before.terms[id], after.terms[id])
        if terms:
            changes.append({"change": "amended", **change, "terms": terms})
        elif old[id]["quantity"] != new[id]["quantity"]:
            changes.append({"change": "filled in part", **change})
    return changes


def _amended(before: Terms, after: Terms) -> dict[str, Any]:
    """The terms of an order that are not what they were."""
    old, new = before.told(), after.told()
    return {name: {"before": old[name], "after": new[name]} for name in new if old[name] != new[name]}


def _pnl_change(before: Pnl, after: Pnl) -> dict[str, Any]:
    old, new = before.body(), after.body()
    change = {name: _difference(old[name], new[name]) for name in new}
    return {"before": old, "after": new, "change": change}


def _difference(before: Decimal | None, after: Decimal | None) -> Decimal | None:
    return None if before is None or after is None else _WIDE.subtract(after, before)


def _within_room(
    parts: Mapping[str, list[dict[str, Any]]], room: int
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Whole rows of each list as long as there is room, and how many of each were left out."""
    shown: dict[str, list[dict[str, Any]]] = {}
    omitted: dict[str, int] = {}
    for name, rows in parts.items():
        kept = 0
        for row in rows:
            price = cost(json.dumps(row)) + 1
            if price > room:
                break
            room -= price
            kept += 1
        shown[name] = rows[:kept]
        if kept < len(rows):
            omitted[name] = len(rows) - kept
    return shown, omitted


def _counts(recording: Recording, between: Span, scope: Scope) -> dict[str, int]:
    """How many events of each type lie after the first time, up to the second."""
    counts: dict[str, int] = {}
    inside = Span(between.start_ns + 1, between.end_ns)
    if inside.start_ns > inside.end_ns:
        return counts
    for kind, name in TYPE_NAMES.items():
        column = None if scope.symbols is None else "symbol"
        count = recording.count(Selection((kind,), column, scope.symbols or (), span=inside))
        if count:
            counts[name] = count
    return counts
