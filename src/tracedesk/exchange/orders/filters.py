"""The venue's filters, judged in whole numbers before anything is sent: each failure names the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.instruments import Filter, Instrument
from tracedesk.exchange.orders.party import View
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.exchange.units import ONE, decimal, units
from tracedesk.foreign import listed, quoted

_ALGO: Final = ("STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT")


@dataclass(frozen=True, slots=True)
class Standing:
    """What of the account the filters look at, in units."""

    open_orders: Sequence[Mapping[str, Any]] = ()
    """All that rest now, as the venue tells them."""
    base: int = 0
    """Free and locked of the base asset."""

    def of(self, symbol: str) -> list[Mapping[str, Any]]:
        return [order for order in self.open_orders if order["symbol"] == symbol]


def check(ticket: Ticket, view: View, standing: Standing) -> list[str]:
    """The names of the filters that were judged; raises FILTER_FAILURE for the first that fails."""
    instrument = view.instrument
    if not instrument.is_trading:
        raise _failure(
            "STATUS", "symbol", f"{quoted(instrument.symbol)} is {quoted(instrument.status)}, not TRADING."
        )
    if instrument.order_types and ticket.order_type not in instrument.order_types:
        kinds = listed(instrument.order_types)
        raise _failure("ORDER_TYPES", "order_type", f"{quoted(instrument.symbol)} takes {kinds}.")
    judged: list[str] = []
    for name, rule in instrument.filters.items():
        problem = next(_problems(name, rule, ticket, view, standing), None)
        if problem is not None:
            raise _failure(name, *problem)
        if name in _KNOWN and (view.average is not None or name not in _AVERAGED):
            judged.append(name)
    return judged


_Problem = tuple[str, str]
"""A field, and what to give instead."""

_KNOWN: Final = (
    "PRICE_FILTER",
    "LOT_SIZE",
    "MARKET_LOT_SIZE",
    "PERCENT_PRICE",
    "PERCENT_PRICE_BY_SIDE",
    "MIN_NOTIONAL",
    "NOTIONAL",
    "MAX_NUM_ORDERS",
    "MAX_NUM_ALGO_ORDERS",
    "MAX_POSITION",
)

_AVERAGED: Final = ("PERCENT_PRICE", "PERCENT_PRICE_BY_SIDE")
"""Filters that compare with the average price, and are left to the venue where it is not known."""


def _problems(name: str, rule: Filter, ticket: Ticket, view: View, standing: Standing) -> Iterator[_Problem]:
    match name:
        case "PRICE_FILTER":
            yield from _price_filter(rule, ticket, view.instrument)
        case "LOT_SIZE":
            yield from _lot(rule, ticket, view.instrument)
        case "MARKET_LOT_SIZE" if ticket.is_market:
            yield from _lot(rule, ticket, view.instrument)
        case "PERCENT_PRICE":
            yield from _percent(rule, "multiplierDown", "multiplierUp", ticket, view)
        case "PERCENT_PRICE_BY_SIDE":
            side = "bid" if ticket.side == "BUY" else "ask"
            yield from _percent(rule, f"{side}MultiplierDown", f"{side}MultiplierUp", ticket, view)
        case "MIN_NOTIONAL":
            applies = rule.get("applyToMarket", True)
            yield from _notional(rule, ticket, view, least=applies, most=False)
        case "NOTIONAL":
            least, most = rule.get("applyMinToMarket", True), rule.get("applyMaxToMarket", True)
            yield from _notional(rule, ticket, view, least=least, most=most)
        case "MAX_NUM_ORDERS" | "MAX_NUM_ALGO_ORDERS":
            yield from _number(name, rule, ticket, standing)
        case "MAX_POSITION" if ticket.side == "BUY":
            yield from _position(rule, ticket, standing)
        case _:
            return


def _price_filter(rule: Filter, ticket: Ticket, instrument: Instrument) -> Iterator[_Problem]:
    for field, price in (("price", ticket.price), ("stop_price", ticket.stop_price)):
        if price is None:
            continue
        least, most, tick = (units(rule[key]) for key in ("minPrice", "maxPrice", "tickSize"))
        if least and price < least:
            yield field, f"give at least {instrument.price_text(least)}."
        if most and price > most:
            yield field, f"give at most {instrument.price_text(most)}."
        if tick and price % tick:
            yield field, _nearest(price, tick, instrument.price_text(tick))


def _lot(rule: Filter, ticket: Ticket, instrument: Instrument) -> Iterator[_Problem]:
    least, most, step = (units(rule[key]) for key in ("minQty", "maxQty", "stepSize"))
    if ticket.quantity < least:
        yield "quantity", f"give at least {instrument.quantity_text(least)}."
    if most and ticket.quantity > most:
        yield "quantity", f"give at most {instrument.quantity_text(most)}."
    if step and ticket.quantity % step:
        yield "quantity", _nearest(ticket.quantity, step, instrument.quantity_text(step))


def _nearest(value: int, step: int, shown: str) -> str:
    low = value - value % step
    return f"it goes in steps of {shown}; use {decimal(low)} or {decimal(low + step)}."


def _percent(rule: Filter, down: str, up: str, ticket: Ticket, view: View) -> Iterator[_Problem]:
    if ticket.price is None or view.average is None:
        return
    # Both sides in 1e-16, so that nothing is rounded: price * 1 against average * multiplier.
    least, most = view.average * units(rule[down]), view.average * units(rule[up])
    shown = view.instrument.price_text(view.average)
    if ticket.price * ONE > most:
        yield "price", f"give at most {decimal(most // ONE)} ({rule[up]} times the average of {shown})."
    if ticket.price * ONE < least:
        yield (
            "price",
            f"give at least {decimal(-(-least // ONE))} ({rule[down]} times the average of {shown}).",
        )


def _notional(rule: Filter, ticket: Ticket, view: View, *, least: bool, most: bool) -> Iterator[_Problem]:
    """`least` and `most` say which bounds hold for market orders; others are held to both."""
    price = ticket.price or ticket.stop_price
    if price is None:
        price = view.average
        if price is None:
            return
    else:
        least = most = True
    worth, quote = price * ticket.quantity, view.instrument.quote
    low, high = units(rule.get("minNotional", "0")), units(rule.get("maxNotional", "0"))
    if least and worth < low * ONE:
        yield "quantity", f"price times quantity must be at least {decimal(low)} {quoted(quote)}; raise it."
    if most and high and worth > high * ONE:
        yield "quantity", f"price times quantity must be at most {decimal(high)} {quoted(quote)}; lower it."


def _number(name: str, rule: Filter, ticket: Ticket, standing: Standing) -> Iterator[_Problem]:
    algo = name == "MAX_NUM_ALGO_ORDERS"
    if algo and ticket.order_type not in _ALGO:
        return
    most = int(rule["maxNumAlgoOrders" if algo else "maxNumOrders"])
    held = [each for each in standing.of(ticket.symbol) if not algo or each["type"] in _ALGO]
    if len(held) >= most:
        yield "symbol", f"{len(held)} of at most {most} such orders rest; cancel one first."


def _position(rule: Filter, ticket: Ticket, standing: Standing) -> Iterator[_Problem]:
    most = units(rule["maxPosition"])
    buying = sum(
        units(each["origQty"]) - units(each["executedQty"])
        for each in standing.of(ticket.symbol)
        if each["side"] == "BUY"
    )
    if standing.base + buying + ticket.quantity > most:
        yield "quantity", f"the position would pass {decimal(most)}; buy less."


def _failure(name: str, field: str, remedy: str) -> ToolError:
    return ToolError("FILTER_FAILURE", f"{field}: {name}: {remedy}", {"filter": name, "field": field})
