"""Caps: what an order may be worth, how often, how far from the market; and the locks before live orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.orders.estimate import Estimate, shown
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.settings import Caps, Exchange
from tracedesk.exchange.units import ONE, decimal
from tracedesk.primitives import money

_REMEDIES: Final = {
    "allowed_symbols": "Trade a symbol of the list, or let the operator add it.",
    "max_order_notional": "Lower the quantity.",
    "max_day_notional": "Lower the quantity, or wait for the next UTC day.",
    "max_orders_per_minute": "Wait a minute.",
    "max_open_orders": "Cancel an order first.",
    "collar_bps": "Choose a price nearer to the mid.",
    "max_slippage_bps": "Lower the quantity, or use a LIMIT order.",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What an account has sent, by its ledger."""

    in_minute: int
    day_notional: int
    """In 1e-8 of the quote asset, over the orders of this UTC day that were not refused."""


def exceeded(cap: str, limit: Any, value: Any, unit: str = "") -> ToolError:
    """LIMIT_EXCEEDED naming the cap and the value."""
    unit = f" {unit}" if unit else ""
    message = f"{cap}: {value}{unit} is beyond the limit of {limit}{unit}. {_REMEDIES[cap]}"
    return ToolError("LIMIT_EXCEEDED", message, {"cap": cap, "limit": _text(limit), "value": _text(value)})


def _text(value: Any) -> Any:
    """Amounts are decimal text; counts and words stay as they are."""
    return money.to_text(value) if isinstance(value, Decimal) else value


def missing(settings: Exchange, profile: str | None) -> list[str]:
    """What live orders still need, each as the setting to make; nothing in the other modes."""
    if settings.mode != "live":
        return []
    found: list[str] = []
    if not settings.live_trading:
        found.append("exchange.live_trading = true")
    if profile is None:
        found.append("a profile of the operator (exchange.profiles), chosen with connect")
    if not settings.allowed_symbols:
        found.append("exchange.allowed_symbols")
    found += [f"exchange.caps.{f.name} above 0" for f in fields(Caps) if not getattr(settings.caps, f.name)]
    return found


def check_mode(settings: Exchange, party: Party) -> None:
    """Refuse where this desk sends no orders."""
    if settings.mode == "read_only":
        message = (
            "exchange.mode is read_only: this desk sends no orders. The operator can set sim or testnet."
        )
        raise ToolError("HALTED", message, {"reason": "mode", "mode": settings.mode})
    lacking = missing(settings, party.profile)
    if lacking:
        message = f"Live orders are locked. Missing: {'; '.join(lacking)}."
        raise ToolError("HALTED", message, {"reason": "locked", "mode": settings.mode, "missing": lacking})


def check_symbol(settings: Exchange, symbol: str) -> None:
    if settings.allowed_symbols and symbol not in settings.allowed_symbols:
        raise exceeded("allowed_symbols", list(settings.allowed_symbols), symbol)


def check_order(caps: Caps, estimate: Estimate, open_orders: int) -> None:
    """Hold the order to every cap that needs no ledger."""
    quote = estimate.view.instrument.quote
    _most("max_order_notional", caps.max_order_notional, estimate.notional, quote)
    if caps.max_open_orders and open_orders >= caps.max_open_orders:
        raise exceeded("max_open_orders", caps.max_open_orders, open_orders + 1)
    _near("collar_bps", caps.collar_bps, estimate.distance_bps)
    if estimate.ticket.is_market:
        _check_slippage(caps, estimate)


def check_usage(caps: Caps, usage: Usage, notional: int, quote: str) -> None:
    """Hold the order to the caps over time; for the transaction that writes it down."""
    if caps.max_orders_per_minute and usage.in_minute >= caps.max_orders_per_minute:
        raise exceeded("max_orders_per_minute", caps.max_orders_per_minute, usage.in_minute + 1)
    _most("max_day_notional", caps.max_day_notional, usage.day_notional + notional, quote)


def _check_slippage(caps: Caps, estimate: Estimate) -> None:
    if not caps.max_slippage_bps:
        return
    if estimate.unfilled:
        limit, value = caps.max_slippage_bps, "more than the whole book"
        raise exceeded("max_slippage_bps", limit, value)
    _near("max_slippage_bps", caps.max_slippage_bps, estimate.slippage_bps)


def _near(cap: str, limit: Decimal, value: Fraction | None) -> None:
    if limit and value is not None and value > Fraction(limit):
        raise exceeded(cap, limit, shown(value, 4), "bps")


def _most(cap: str, limit: Decimal, value: int, quote: str) -> None:
    if limit and value > Fraction(limit) * ONE:
        raise exceeded(cap, limit, decimal(value), quote)


Judge = Callable[[Usage], None]
