"""From the arguments of a call to the nouns of the domain, and to the one spelling that requests have."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final, NoReturn, cast

from tracedesk.errors import ToolError
from tracedesk.market import eastern
from tracedesk.primitives import json
from tracedesk.primitives.money import scale_of, to_units
from tracedesk.primitives.time import Edge, format, parse
from tracedesk.trading.model import OrderType, Side, TimeInForce, Trade
from tracedesk.trading.sources import periods
from tracedesk.trading.units import PRICE_PLACES, QUANTITY_PLACES

MOST_SYMBOLS: Final = 100
MOST_LEGS: Final = 100
MOST_DIGITS: Final = 15
"""Significant digits that survive any JSON reader, whatever it keeps numbers in."""
MOST_QUANTITY: Final = 1_000_000_000
MOST_PRICE: Final = 10_000_000
"""Together 10**18 cents: every product of the two fits a 64-bit column of the ledger."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "get_history": {"include_forming": False, "format": "bars"},
    "get_news": {"hours_back": 24},
    "log_event": {"severity": "low"},
    "trade_execute": {"rationale_refs": ()},
}
"""What a tool takes for an argument that was left out."""

Path = Sequence[str | int]

_DEEPEST: Final = 64
_CALL_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SYMBOL: Final = re.compile(r"[A-Z0-9.^=-]{1,15}")
_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)

_SIMULATED: Final = frozenset({"symbol", "action", "quantity", "price"})
_EXECUTED: Final = _SIMULATED | {"order_type", "stop_price", "time_in_force"}


def call_id(text: object) -> str:
    """The `tool_call_id`, which is kept verbatim."""
    if not isinstance(text, str) or not _CALL_ID.fullmatch(text):
        _refuse(["tool_call_id"], "must be 1 to 128 characters of A-Z, a-z, 0-9 and . _ : -")
    return text


def symbol(text: object, path: Path = ("symbol",)) -> str:
    """A symbol, trimmed and in capitals."""
    # Only ASCII is put in capitals: elsewhere the capital of one letter can be another's.
    short = text.strip() if isinstance(text, str) else ""
    if not short.isascii() or not _SYMBOL.fullmatch(short.upper()):
        _refuse(path, "must be 1 to 15 characters of A-Z, 0-9 and . ^ = -, such as IBM or BRK.B")
    return short.upper()


def symbols(items: object, path: Path = ("symbols",)) -> list[str]:
    """Symbols in the order given, each once."""
    listed = _list(items, path, MOST_SYMBOLS, "symbol")
    return list(dict.fromkeys(symbol(item, [*path, i]) for i, item in enumerate(listed)))


def number(value: object, path: Path) -> Decimal:
    """A finite number of at most 15 significant digits; what is true or false is none."""
    exact = _decimal(value)
    if exact is None or not exact.is_finite():
        _refuse(path, "must be a finite number, such as 12.5")
    short = exact.normalize(_WIDE)
    if len(short.as_tuple().digits) > MOST_DIGITS:
        _refuse(path, f"has more than {MOST_DIGITS} significant digits; round it")
    return short


def quantity(value: object, path: Path = ("quantity",), *, fractional: bool = True) -> int:
    """A quantity above zero, in billionths of a share."""
    exact = number(value, path)
    if exact <= 0:
        _refuse(path, "must be above 0; to sell, say so in 'action'")
    if exact > MOST_QUANTITY:
        _refuse(path, f"must be at most {MOST_QUANTITY}; split the order")
    if not fractional and scale_of(exact):
        _refuse(path, "must be a whole number, because fractional shares are off ([trading] fractional)")
    if scale_of(exact) > QUANTITY_PLACES:
        _refuse(path, f"has more than {QUANTITY_PLACES} decimal places; round it")
    return to_units(exact, QUANTITY_PLACES)


def price(value: object, path: Path = ("price",)) -> int:
    """A price above zero, in millionths."""
    exact = number(value, path)
    if exact <= 0:
        _refuse(path, "must be above 0")
    if exact > MOST_PRICE:
        _refuse(path, f"must be at most {MOST_PRICE}")
    if scale_of(exact) > PRICE_PLACES:
        _refuse(path, f"has more than {PRICE_PLACES} decimal places; round it")
    return to_units(exact, PRICE_PLACES)


# --- times ---------------------------------------------------------------------------------------


def moment(text: str, field: str, edge: Edge = "start") -> int:
    """A time with its zone, or a date, which is the begin or the end of that UTC day."""
    try:
        found = parse(text, edge=edge)
    except ValueError as fault:
        _refuse([field], str(fault))
    if found.zone_assumed:
        _refuse([field], f"has no zone; say which, such as {text}Z or {text}-05:00 for New York")
    return found.ns


def known_moment(text: str, field: str, now_ns: int) -> int:
    """A time up to the market's clock; its date is the clock itself."""
    at = moment(text, field, "end")
    if at > now_ns and text != eastern.to_day(now_ns).isoformat():
        _refuse(
            [field], f"is after the market's clock, which stands at {format(now_ns)}. Ask for a time before"
        )
    return min(at, now_ns)


# --- trades ------------------------------------------------------------------------------------


def trades(items: object, *, fractional: bool, resting_orders: bool) -> list[Trade]:
    """The legs of `trade_execute`."""
    listed = _list(items, ["trades"], MOST_LEGS, "trade")
    return [_executed(_Leg(i, item, _EXECUTED), fractional, resting_orders) for i, item in enumerate(listed)]


def simulated(items: object, *, fractional: bool) -> list[Trade]:
    """The legs of `trade_simulate`: with a price an immediate limit order, else a market order."""
    listed = _list(items, ["trades"], MOST_LEGS, "trade")
    return [_simulated(_Leg(i, item, _SIMULATED), fractional) for i, item in enumerate(listed)]


class _Leg:
    """One trade of a list, whose faults say which one it was."""

    def __init__(self, index: int, item: object, known: frozenset[str]) -> None:
        self._index = index
        if not isinstance(item, dict):
            _refuse(self.path(), "must be an object with 'symbol', 'action' and 'quantity'")
        self._item = cast("dict[str, object]", item)
        for name in self._item:
            if name not in known:
                self.refuse(name, f"is not known; there are {', '.join(sorted(known))}")

    def path(self, *names: str) -> list[str | int]:
        return ["trades", self._index, *names]

    def refuse(self, name: str, problem: str) -> NoReturn:
        _refuse(self.path(name), problem)

    def has(self, name: str) -> bool:
        return name in self._item

    def __getitem__(self, name: str) -> object:
        if name not in self._item:
            self.refuse(name, "is missing; give it")
        return self._item[name]

    def choice(self, name: str, *among: str) -> str:
        value = self[name]
        if not isinstance(value, str) or value not in among:
            self.refuse(name, f"must be one of {', '.join(among)}")
        return value

    def price(self, name: str) -> int | None:
        return price(self[name], self.path(name)) if self.has(name) else None


def _simulated(leg: _Leg, fractional: bool) -> Trade:
    limit = leg.price("price")
    return Trade(*_head(leg, fractional), type="market" if limit is None else "limit", price=limit)


def _executed(leg: _Leg, fractional: bool, resting_orders: bool) -> Trade:
    head = _head(leg, fractional)
    kind = cast("OrderType", leg.choice("order_type", "market", "limit", "stop"))
    _check_prices(leg, kind)
    tif = _time_in_force(leg, kind, resting_orders)
    return Trade(*head, kind, leg.price("price"), leg.price("stop_price"), tif)


def _head(leg: _Leg, fractional: bool) -> tuple[str, Side, int]:
    name = symbol(leg["symbol"], leg.path("symbol"))
    side = cast("Side", leg.choice("action", "buy", "sell"))
    return name, side, quantity(leg["quantity"], leg.path("quantity"), fractional=fractional)


def _check_prices(leg: _Leg, kind: OrderType) -> None:
    if kind != "limit" and leg.has("price"):
        other = "give 'stop_price' alone" if kind == "stop" else "leave it out, or order_type 'limit'"
        leg.refuse("price", f"does not go with order_type {kind!r}; {other}")
    if kind == "limit" and not leg.has("price"):
        leg.refuse("price", "is missing; a limit order needs it")
    if kind != "stop" and leg.has("stop_price"):
        leg.refuse("stop_price", f"does not go with order_type {kind!r}; leave it out, or order_type 'stop'")
    if kind == "stop" and not leg.has("stop_price"):
        leg.refuse("stop_price", "is missing; a stop order needs it")


def _time_in_force(leg: _Leg, kind: OrderType, resting_orders: bool) -> TimeInForce:
    if not leg.has("time_in_force"):
        return "ioc"
    tif = cast("TimeInForce", leg.choice("time_in_force", "ioc", "day", "gtc"))
    if tif != "ioc" and kind == "market":
        leg.refuse("time_in_force", "must be 'ioc' for a market order, which never rests")
    if tif != "ioc" and not resting_orders:
        leg.refuse(
            "time_in_force", "must be 'ioc', because resting orders are off ([trading] resting_orders)"
        )
    return tif


# --- the canonical request ---------------------------------------------------------------------


LARGEST: Final = 131_072
"""Bytes of a call's arguments: all of them are put in order on the event loop."""


def canonical(tool: str, args: Mapping[str, Any]) -> bytes:
    """The request in its one spelling: equal requests give equal bytes.

    Symbols are normalised, defaults filled in, numbers written as plain decimals without trailing zeros and
    members sorted as RFC 8785 sorts them. Left out are `tool_call_id` and `user_id`: they say where the
    request is filed, not what it asks for.
    """
    if json.is_longer(args, LARGEST):
        _refuse(["arguments"], f"have more than {LARGEST} bytes; send less, and cite the rest by reference")
    asked = {name: value for name, value in args.items() if name not in ("tool_call_id", "user_id")}
    return json.dumps(_sorted({"tool": tool, "arguments": _normalised(with_defaults(tool, asked))}))


def digest(request: bytes) -> str:
    """The SHA-256 of a canonical request, as 64 hexadecimal digits."""
    return hashlib.sha256(request).hexdigest()


def with_defaults(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with what was left out of them, so that tools and canonical requests agree on it."""
    filled = {**DEFAULTS.get(tool, {}), **args}
    if tool == "get_history":
        filled["interval"] = periods.check(args["period"], args.get("interval"))
    return filled


def _normalised(args: dict[str, Any]) -> dict[str, Any]:
    spelled = dict(args)
    if "symbol" in args:
        spelled["symbol"] = symbol(args["symbol"])
    if "symbols" in args:
        spelled["symbols"] = symbols(args["symbols"])
    if "weights" in args:
        spelled["weights"] = _weights(args["weights"])
    if "trades" in args:
        spelled["trades"] = [
            _leg(i, leg) for i, leg in enumerate(_list(args["trades"], ["trades"], MOST_LEGS, "trade"))
        ]
    return spelled


def _leg(index: int, item: object) -> dict[str, Any]:
    leg = _Leg(index, item, _EXECUTED)
    given = cast("dict[str, Any]", item)
    resting = {"time_in_force": "ioc"} if leg.has("order_type") else {}
    return {**resting, **given, "symbol": symbol(leg["symbol"], leg.path("symbol"))}


def _weights(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(["weights"], "must be an object of symbols and their weights")
    weights: dict[str, Any] = {}
    for name, weight in cast("dict[str, Any]", value).items():
        spelled = symbol(name, ["weights", name])
        if spelled in weights:
            _refuse(["weights", name], f"names {spelled} a second time; give each symbol once")
        weights[spelled] = weight
    return weights


def _sorted(value: Any, depth: int = 0) -> Any:
    """The value with every number in one spelling and every object in one order."""
    if depth > _DEEPEST:
        _refuse(["arguments"], f"nest deeper than {_DEEPEST} levels; flatten them")
    exact = _decimal(value)
    if exact is not None:
        return exact.normalize(_WIDE).copy_abs() if exact.is_zero() else exact.normalize(_WIDE)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        # By UTF-16 code units, as RFC 8785 has it.
        names = sorted(members, key=lambda name: name.encode("utf-16-be"))
        return {name: _sorted(members[name], depth + 1) for name in names}
    if isinstance(value, (list, tuple)):
        return [_sorted(item, depth + 1) for item in cast("Sequence[Any]", value)]
    return value


# --- what all of them need ---------------------------------------------------------------------


def _decimal(value: object) -> Decimal | None:
    """The exact number, or None for anything else. A binary float is what `repr` prints."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return None


def _list(items: object, path: Path, most: int, what: str) -> list[object]:
    if not isinstance(items, list) or not items:
        _refuse(path, f"must be a list with at least one {what}")
    listed = cast("list[object]", items)
    if len(listed) > most:
        _refuse(path, f"has {len(listed)} entries; give at most {most} in one call")
    return listed


def _refuse(path: Path, problem: str) -> NoReturn:
    """Raise INVALID_INPUT; a fault in a list of trades says which trade it is."""
    steps = list(path)
    details: dict[str, Any] = {"path": steps, "retryable": False}
    if len(steps) > 1 and steps[0] == "trades":
        details["trade_index"] = steps[1]
    raise ToolError("INVALID_INPUT", f"{_written(steps)} {problem}.", details)


def _written(path: list[str | int]) -> str:
    """A path as people write it: trades[0].quantity."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:40]}" for step in path)
    return text.removeprefix(".")
