"""Whether an order may enter: the checks in the venue's own order, none of which changes anything."""

from __future__ import annotations

from typing import Final

from tracedesk.exchange.units import ONE, notional
from tracedesk.exchange.venue.accounts import Account
from tracedesk.exchange.venue.checks import check_order
from tracedesk.exchange.venue.engine import ANY_PRICE
from tracedesk.exchange.venue.filters import FilterFailed
from tracedesk.exchange.venue.floor import cost
from tracedesk.exchange.venue.live import Order
from tracedesk.exchange.venue.market import Market
from tracedesk.exchange.venue.orders import NewOrder, Prevention, VenueRefused
from tracedesk.exchange.venue.triggers import is_met

REASONS: Final = {
    "Account has insufficient balance for requested action.": "INSUFFICIENT_BALANCES",
    "Order would trigger immediately.": "STOP_PRICE_WOULD_TRIGGER_IMMEDIATELY",
    "Order would immediately match and take.": "WOULD_MATCH_IMMEDIATELY",
}
"""How an execution report names what a refusal says."""
_ENDLESS: Final = 1 << 96


def validate(market: Market, account: Account, asked: NewOrder, ns: int) -> int:
    """Check parameters and filters, as for a test order; the quantity that is wanted."""
    check_order(asked, market.listing)
    if market.status != "TRADING":
        raise VenueRefused(-1013, "Market is closed.")
    quantity = asked.quantity if asked.quantity is not None else _quantity_for(market, account, asked)
    market.filters.check(asked, quantity, lambda minutes: market.average(ns, minutes), account)
    return quantity


def _quantity_for(market: Market, account: Account, asked: NewOrder) -> int:
    """The quantity that an amount of the quote asset buys or needs sold, in whole steps."""
    sign = 1 if asked.side == "BUY" else -1
    mode: Prevention = asked.prevention or market.listing.default_prevention
    # What an amount comes to is not known beforehand, so own orders are stepped over in this mode too.
    mode = "EXPIRE_MAKER" if mode == "DECREMENT" else mode
    best = market.engine.touch()[1 if sign > 0 else 0]
    if best is None:
        raise VenueRefused(-2010, "Order book liquidity is less than symbol minimum quantity.")
    left, quantity, price = asked.quote_quantity or 0, 0, best[0]
    for price, available in market.engine.foresee(sign, _ENDLESS, ANY_PRICE, account, mode):
        part = min(available, left * ONE // price)
        quantity += part
        left -= notional(price, part)
        if part < available:
            break
    else:
        # The book ends before the amount does: what is wanted beyond it will expire.
        quantity += left * ONE // price
    quantity -= quantity % market.filters.quantity_step
    if not quantity:
        raise FilterFailed("LOT_SIZE")
    return quantity


def admit(market: Market, order: Order) -> None:
    """Check what only the matching engine knows: ids in use, prices in the book, and funds."""
    if (market.symbol, order.client_order_id) in order.account.by_client:
        raise VenueRefused(-2010, "Duplicate order sent.")
    if order.asked.type == "LIMIT_MAKER" and market.engine.crosses(order):
        raise VenueRefused(-2010, "Order would immediately match and take.")
    if order.asked.stop_price and market.last_price is not None and is_met(order, market.last_price):
        raise VenueRefused(-2010, "Order would trigger immediately.")
    if _needed(market, order) > order.account.free(order.lock_asset):
        raise VenueRefused(-2010, "Account has insufficient balance for requested action.")


def _needed(market: Market, order: Order) -> int:
    """What the account must have free."""
    if order.sign < 0 or order.limit or not order.is_working:
        return order.lock_needed()
    return order.asked.quote_quantity or cost(market, order, order.quantity)
