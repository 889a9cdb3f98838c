"""Why one event happened: its causes and effects, each in a sentence and with a reference to follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from tracedesk.backtest import paths
from tracedesk.backtest.costs import cost
from tracedesk.backtest.page import Ask
from tracedesk.backtest.query import TYPE_NAMES, Recording, Row, Selection
from tracedesk.contract import Edge, Source
from tracedesk.foreign import closed, quoted
from tracedesk.primitives import json
from tracedesk.primitives.ids import is_uuid
from tracedesk.primitives.time import format

DEEPEST: Final = 50
_MOST_EFFECTS: Final = 50
_LONGEST: Final = 240
Properties = Mapping[str, Any]


class _Rows(NamedTuple):
    """The first of some events, and how many there are."""

    first: list[Row]
    total: int


def answer(recording: Recording, ask: Ask) -> dict[str, Any]:
    """The chain of causes from the first to the event itself, what it caused, and all of it in words."""
    seq = recording.seq(ask.args["eventId"], "eventId")
    chain, is_cut = causes(recording, seq)
    effects = _effects(recording, seq)
    order = _order_life(recording, chain[-1])
    summary = _summary(chain, effects, is_cut=is_cut)
    told = _Telling(recording, ask.room - cost(summary.encode()))
    causes_told = told.lines(chain[::-1], refs=True, least=1)
    caused = told.lines(effects.first)
    life = told.lines([row for row in order.first if row.seq != seq])
    shown = (len(causes_told), len(caused), len(life) + bool(order.total))
    body: dict[str, Any] = {"summary": summary, "chain": causes_told[::-1], "effects": caused}
    if life:
        body["order"] = life
    facts = {"orderEventCount": order.total} if order.total else {}
    body["metadata"] = ask.metadata(
        recording,
        eventId=recording.id_of(chain[-1].seq, chain[-1].guid),
        ref=recording.ref(seq),
        depth=len(chain),
        effectCount=effects.total,
        **facts,
        truncated=is_cut or shown != (len(chain), effects.total, order.total),
    )
    return body


def causes(recording: Recording, seq: int) -> tuple[list[Row], bool]:
    """The event and its parents, the first cause first; whether older ones were left out."""
    chain: list[Row] = []
    place: int | None = seq
    while place is not None and len(chain) < DEEPEST:
        rows = recording.events((place,))
        if not rows:
            break
        chain.append(rows[0])
        place = rows[0].parent
    return chain[::-1], place is not None


def _effects(recording: Recording, seq: int) -> _Rows:
    query = "SELECT event FROM fact WHERE parent = ? ORDER BY event LIMIT ?"
    found = recording.connection.execute(query, (seq, _MOST_EFFECTS))
    first = recording.events([event - recording.base for (event,) in found])
    if len(first) < _MOST_EFFECTS:
        return _Rows(first, len(first))
    query = "SELECT count(*) FROM fact WHERE parent = ?"
    return _Rows(first, next(recording.connection.execute(query, (seq,)))[0])


def _order_life(recording: Recording, row: Row) -> _Rows:
    """The events of the order that the event is about, itself among them."""
    query = "SELECT order_ref FROM fact WHERE event = ? AND order_ref IS NOT NULL"
    for (ref,) in recording.connection.execute(query, (recording.base + row.seq,)):
        life = Selection(column="order_ref", refs=(ref,))
        return _Rows(recording.page(life, recording.now, _MOST_EFFECTS), recording.count(life))
    return _Rows([], 0)


@dataclass(slots=True)
class _Telling:
    """Events in words, as long as there is room."""

    recording: Recording
    room: int

    def lines(self, rows: list[Row], *, refs: bool = False, least: int = 0) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for row in rows:
            line = self._line(row, refs)
            price = cost(json.dumps(line)) + 1
            if price > self.room and len(told) >= least:
                break
            self.room -= price
            told.append(line)
        return told

    def _line(self, row: Row, refs: bool) -> dict[str, Any]:
        name = TYPE_NAMES[row.type]
        text = say(name, paths.properties(row.body))
        line = {"seq": row.seq, "time": format(row.ts), "eventType": name, "text": text}
        return line | {"ref": self.recording.ref(row.seq)} if refs else line


def _summary(chain: list[Row], effects: _Rows, *, is_cut: bool) -> str:
    event = chain[-1]
    text = f"{_phrase(event)}."
    if len(chain) > 1:
        text += f" Caused by {_phrase(chain[-2])}"
        back = "which goes back at least to" if is_cut else "which goes back to"
        text += f", {back} {_phrase(chain[0])}." if len(chain) > 2 else "."
    else:
        text += " No cause was recorded for it."
    if effects.total:
        plural = "s" if effects.total > 1 else ""
        text += f" It led to {effects.total} event{plural}, first {_phrase(effects.first[0])}."
    return text


def _phrase(row: Row) -> str:
    name = TYPE_NAMES[row.type]
    return f"#{row.seq} {name} at {format(row.ts)}: {say(name, paths.properties(row.body))}"


def source(recording: Recording, ref: str, seq: int) -> Source | None:
    """What a reference to an event of this run points at: the event, its cause, and the run it is of."""
    row = recording.event(seq)
    if row is None:
        return None
    body: dict[str, Any] = {
        "seq": seq,
        "eventId": recording.id_of(row.seq, row.guid),
        "runId": recording.run,
        "timestamp": format(row.ts),
        "eventType": TYPE_NAMES[row.type],
        "text": say(TYPE_NAMES[row.type], paths.properties(row.body)),
        "properties": json.Raw(row.body),
        "run": run_facts(recording),
    }
    edges = () if row.parent is None else (Edge("caused_by", recording.ref(row.parent)),)
    return Source(ref, "backtest_event", body, edges)


def run_ref(run: str) -> str:
    """Return the reference of a whole run."""
    return f"tracedesk://backtest/{run}"


def run_source(recording: Recording) -> Source:
    """Return a whole run as a source: its facts and its span, and the run it was made from."""
    body: dict[str, Any] = {
        "runId": recording.run,
        "run": run_facts(recording),
        "events": recording.head,
    }
    if recording.times is not None:
        body |= {"start": format(recording.times[0]), "end": format(recording.times[1])}
    parent = str(recording.meta.get("parentRun") or "").lower()
    edges = (Edge("parent_run", run_ref(parent)),) if is_uuid(parent) else ()
    return Source(run_ref(recording.run), "backtest_run", body, edges)


def run_facts(recording: Recording) -> dict[str, Any]:
    """Which run, of which engine and configuration."""
    names = ("name", "engine", "configHash", "codeVersion", "parentRun")
    facts = {name: recording.meta[name] for name in names if recording.meta.get(name)}
    return {**facts, "status": recording.status}


# --- one event in words -------------------------------------------------------------------------------


def say(event_type: str, properties: Any) -> str:
    """Put an event in words: its texts are quoted, and missing properties are left out, never made up."""
    known: Properties = cast("Properties", properties) if isinstance(properties, dict) else {}
    text = _SENTENCES[event_type](known) if event_type in _SENTENCES else _plain(known)
    return text if len(text) <= _LONGEST else closed(text[: _LONGEST - 1] + "…")


def _trade(p: Properties) -> str:
    verb = {"Buy": "bought", "Sell": "sold"}.get(str(p.get("Direction")), "traded")
    return _join(
        f"{verb} {_text(p, 'Quantity', 'some')} {_text(p, 'SecuritySymbol', '')}".rstrip(),
        _with("at", p, "Price"),
        _order(p),
        _with("commission", p, "Commission", comma=True),
        _with("slippage", p, "Slippage", comma=True),
    )


def _placed(p: Properties) -> str:
    return _join(
        "placed",
        _order_name(p) + ":",
        _request(p, "Quantity", "Price"),
        _with("limit", p, "LimitPrice", comma=True),
        _with("stop", p, "StopPrice", comma=True),
    )


def _rejected(p: Properties) -> str:
    request = _request(p, "RequestedQuantity", "RequestedPrice") or _request(p, "Quantity", "Price")
    reason = _text(p, "RejectionReason", "no reason was recorded")
    return _join(_order_name(p), f"({request})" if request else "", f"was rejected: {reason}")


def _cancelled(p: Properties) -> str:
    reason = p.get("CancelReason", p.get("Reason"))
    return _join(_order_name(p), "was cancelled" + (f": {_value(reason)}" if reason is not None else ""))


def _indicator(p: Properties) -> str:
    parameters = p.get("Parameters")
    name = _text(p, "IndicatorName", "an indicator")
    if isinstance(parameters, dict) and parameters:
        inner = ", ".join(f"{quoted(k)}={_value(v)}" for k, v in cast("dict[str, Any]", parameters).items())
        name += f"({inner})"
    return _join(name, _with("of", p, "SecuritySymbol"), "is", _text(p, "Value", "unknown"))


def _position(p: Properties) -> str:
    return _join(
        f"position {_text(p, 'SecuritySymbol', '')}".rstrip(),
        _with("is", p, "Quantity"),
        _with("at", p, "AveragePrice"),
        _with("realized P&L", p, "RealizedPnL", comma=True),
        _with("unrealized P&L", p, "UnrealizedPnL", comma=True),
    )


def _state(p: Properties) -> str:
    change = _join(_with("from", p, "StateBefore"), _with("to", p, "StateAfter"))
    return _join(f"{_text(p, 'StateType', 'state')} changed", change, _with("because of", p, "ChangeReason"))


def _market(p: Properties) -> str:
    data = p.get("Data")
    shown = _plain(cast("Properties", data)) if isinstance(data, dict) else _value(data)
    return _join(
        _text(p, "SecuritySymbol", "market"),
        _text(p, "DataType", "data") + ":",
        "" if data is None else shown,
    )


def _risk(p: Properties) -> str:
    return _join(
        f"risk {_text(p, 'RiskType', 'event')}:",
        _with("value", p, "CurrentValue"),
        _with("against the threshold", p, "Threshold"),
        _with("action", p, "Action", comma=True),
    )


def _plain(p: Properties) -> str:
    return ", ".join(f"{quoted(name)} {_value(value)}" for name, value in p.items())


_SENTENCES: Final[Mapping[str, Callable[[Properties], str]]] = {
    "TradeExecution": _trade,
    "OrderPlaced": _placed,
    "OrderRejection": _rejected,
    "OrderCancelled": _cancelled,
    "IndicatorCalculation": _indicator,
    "PositionUpdate": _position,
    "StateChange": _state,
    "MarketDataEvent": _market,
    "RiskEvent": _risk,
}


def _request(p: Properties, quantity: str, price: str) -> str:
    return _join(
        _text(p, "Direction", ""),
        _text(p, quantity, ""),
        _text(p, "SecuritySymbol", ""),
        _with("at", p, price),
    )


def _order(p: Properties) -> str:
    return f"for order {_value(p['OrderId'])}" if p.get("OrderId") is not None else ""


def _order_name(p: Properties) -> str:
    return f"order {_value(p['OrderId'])}" if p.get("OrderId") is not None else "an order without an id"


def _with(word: str, p: Properties, name: str, *, comma: bool = False) -> str:
    if p.get(name) is None:
        return ""
    return f"{',' if comma else ''}{' ' if comma else ''}{word} {_value(p[name])}"


def _text(p: Properties, name: str, otherwise: str) -> str:
    return _value(p[name]) if p.get(name) is not None else otherwise


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        return f"{value:f}" if abs(value.adjusted()) < 40 else str(value)
    if isinstance(value, dict):
        return "{" + _plain(cast("Properties", value)) + "}"
    return quoted(str(value))


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part).replace(" ,", ",")
