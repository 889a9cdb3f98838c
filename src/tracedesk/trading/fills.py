"""What an order trades, and at which price: on a quote now, or on a session's bar at its close.

Everything here is a function of its arguments; nothing is drawn at random. The rules:

- The reference is the ask for buys and the bid for sells where the quote has them, else the last price.
- Slippage moves the reference against the owner by fixed basis points. Prices have four places, half-even.
- A limit is never made worse: it is rounded to four places in its owner's favour, and slippage stops at it.
- Fees are per share with a minimum, once per order however many parts it fills in.
- One order takes at most `participation` of the average volume of the 20 sessions before in one session, in
  whole shares. Where that average is not known nothing is capped, and `Outcome.cap` is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tracedesk.market import Bar
from tracedesk.primitives.money import Rounding, divide
from tracedesk.trading.model import Fill, Status, Trade
from tracedesk.trading.settings import Costs
from tracedesk.trading.sources.seam import Quote
from tracedesk.trading.units import CASH_PLACES, FILL_PLACES, PRICE_PLACES, QUANTITY_PLACES, notional

NOT_MARKETABLE: Final = "NOT_MARKETABLE"
"""The limit is not reached by the quote."""
NOT_TRIGGERED: Final = "NOT_TRIGGERED"
"""The stop is not reached by the last price."""
VOLUME_CAP: Final = "VOLUME_CAP"
"""More was asked for than the participation cap lets through."""
DAY_ENDED: Final = "DAY_ENDED"
"""The session of a day order has closed."""

VOLUME_SESSIONS: Final = 20

_TICK: Final = 10 ** (PRICE_PLACES - FILL_PLACES)
_SHARE: Final = 10**QUANTITY_PLACES
_BPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an order, or of what was left of it, at one moment; in ledger units."""

    status: Status
    quantity: int = 0
    """What was traded at this moment."""
    price: int | None = None
    notional: int = 0
    fees: int = 0
    reason: str | None = None
    """Why not everything was traded, or why the order ended."""
    cap: int | None = None
    """The most that volume allowed; None when the volume is not known, so that nothing was capped."""

    @property
    def is_open(self) -> bool:
        """Whether the order rests on, with what is left of it."""
        return self.status == "open"

    def fill(self, order: str, trade: Trade) -> Fill | None:
        """The part that was traded, as a fill of that order."""
        if self.price is None:
            return None
        return Fill(order, trade.symbol, trade.side, self.quantity, self.price, self.notional, self.fees)


def average_volume(volumes: Sequence[int]) -> int | None:
    """The average of the last 20 sessions' volumes, or of as many as there are; None without any.

    The volumes are in the shares of the order: a provider that knows of a split since restates them.
    """
    last = volumes[-VOLUME_SESSIONS:]
    return sum(last) // len(last) if last else None


def fee(quantity: int, costs: Costs) -> int:
    """The fees in cents of an order that has traded so much; nothing traded costs nothing."""
    if not quantity:
        return 0
    top, bottom = costs.fee_per_share.as_integer_ratio()
    per_share = divide(quantity * top * 10**CASH_PLACES, bottom * _SHARE)
    return max(per_share, _rounded(costs.fee_minimum, CASH_PLACES))


def slipped(reference: Decimal, sign: int, costs: Costs) -> int:
    """The reference, moved up for buys (sign 1) or down for sells (-1); at least one tick."""
    top, bottom = reference.as_integer_ratio()
    bps, unit = costs.slippage_bps.as_integer_ratio()
    whole = _BPS * unit
    ticks = divide(top * (whole + sign * bps) * 10**FILL_PLACES, bottom * whole)
    return max(1, ticks) * _TICK


# --- now, on a quote ---------------------------------------------------------------------------


def now(trade: Trade, quote: Quote, adv: int | None, costs: Costs) -> Outcome:
    """Judge a new order on the quote: it fills, is rejected, or rests if it is a day or gtc order."""
    price, reason = _price_now(trade, quote, costs)
    cap = _cap(adv, costs)
    if price is None:
        return Outcome("rejected" if trade.time_in_force == "ioc" else "open", reason=reason, cap=cap)
    return _traded(trade, trade.quantity, price, cap, costs)


def reference(trade: Trade, quote: Quote) -> Decimal:
    """The price that the order meets: the far side of the quote, else the last price."""
    side = quote.ask if trade.side == "buy" else quote.bid
    return quote.price if side is None else side


def _price_now(trade: Trade, quote: Quote, costs: Costs) -> tuple[int | None, str | None]:
    far = reference(trade, quote)
    market = slipped(far, trade.sign, costs)
    if trade.type == "limit":
        limit = _limit(trade)
        reached = _better_or_equal(trade.sign, far, limit)
        return (_better(trade.sign, limit, market), None) if reached else (None, NOT_MARKETABLE)
    if trade.type == "stop" and not _triggered(trade, quote.price):
        return None, NOT_TRIGGERED
    return market, None


# --- at a close, on the session's bar ----------------------------------------------------------


def at_close(
    trade: Trade, remaining: int, bar: Bar | None, placed_this_session: bool, adv: int | None, costs: Costs
) -> Outcome:
    """Judge what is left of a resting order when its session closes; without a bar nothing was traded.

    The open of the session that the order was placed in has been judged already, by `now`.
    """
    price = None if bar is None else _price_in(trade, remaining, bar, placed_this_session, costs)
    taken = trade.quantity - remaining if placed_this_session else 0
    cap = _cap(adv, costs)
    left = cap if cap is None else max(0, cap - taken)
    outcome = Outcome("open", cap=left) if price is None else _traded(trade, remaining, price, left, costs)
    return _ended(outcome) if outcome.is_open and trade.time_in_force == "day" else outcome


def _price_in(trade: Trade, remaining: int, bar: Bar, placed_this_session: bool, costs: Costs) -> int | None:
    opening = None if placed_this_session else bar.open
    if trade.type == "limit":
        return _limit_in(trade, bar, opening)
    if trade.type == "stop" and remaining == trade.quantity:
        return _stop_in(trade, bar, opening, costs)
    # A stop that has traded in part was triggered then, and what is left of it is a market order.
    return None if opening is None else slipped(opening, trade.sign, costs)


def _limit_in(trade: Trade, bar: Bar, opening: Decimal | None) -> int | None:
    """At the limit if the session traded through it, or at an open beyond it, as in an opening auction."""
    limit, sign = _limit(trade), trade.sign
    best, worst = (bar.low, bar.high) if sign > 0 else (bar.high, bar.low)
    if not _is_better(sign, best, limit):
        return None
    if opening is not None and _is_better(sign, opening, limit):
        return _ticks(opening, _worse(sign)) * _TICK
    return _better(sign, limit, _ticks(worst, _worse(sign)) * _TICK)


def _stop_in(trade: Trade, bar: Bar, opening: Decimal | None, costs: Costs) -> int | None:
    """At the stop, or at an open beyond it, with slippage."""
    stop = Decimal(_stop(trade)).scaleb(-PRICE_PLACES)
    buys = trade.sign > 0
    if not _triggered(trade, bar.high if buys else bar.low):
        return None
    met = max(stop, bar.low) if buys else min(stop, bar.high)
    if opening is not None and _triggered(trade, opening):
        met = opening
    return slipped(met, trade.sign, costs)


def _ended(outcome: Outcome) -> Outcome:
    return Outcome(
        "expired", outcome.quantity, outcome.price, outcome.notional, outcome.fees, DAY_ENDED, outcome.cap
    )


# --- what both need ----------------------------------------------------------------------------


def _traded(trade: Trade, wanted: int, price: int, cap: int | None, costs: Costs) -> Outcome:
    quantity = wanted if cap is None else min(wanted, cap)
    status, reason = _reached(trade, wanted, quantity)
    if not quantity:
        return Outcome(status, reason=reason, cap=cap)
    before = trade.quantity - wanted
    fees = fee(before + quantity, costs) - fee(before, costs)
    return Outcome(status, quantity, price, notional(quantity, price), fees, reason, cap)


def _reached(trade: Trade, wanted: int, quantity: int) -> tuple[Status, str | None]:
    if quantity == wanted:
        return "filled", None
    if trade.time_in_force != "ioc":
        return "open", VOLUME_CAP
    return ("partial" if quantity else "rejected"), VOLUME_CAP


def _cap(adv: int | None, costs: Costs) -> int | None:
    if adv is None:
        return None
    top, bottom = costs.participation.as_integer_ratio()
    return adv * top // bottom * _SHARE


def _limit(trade: Trade) -> int:
    """The limit in millionths, rounded to a tick in the owner's favour."""
    if trade.price is None:
        raise ValueError("a limit order has a price")
    return divide(trade.price, _TICK, "floor" if trade.sign > 0 else "ceil") * _TICK


def _stop(trade: Trade) -> int:
    if trade.stop_price is None:
        raise ValueError("a stop order has a stop price")
    return trade.stop_price


def _triggered(trade: Trade, price: Decimal) -> bool:
    return _compare(price, _stop(trade)) * trade.sign >= 0


def _is_better(sign: int, price: Decimal, limit: int) -> bool:
    """Whether the price is strictly better than the limit for a buyer (sign 1) or a seller (-1)."""
    return _compare(price, limit) * sign < 0


def _better_or_equal(sign: int, price: Decimal, limit: int) -> bool:
    return _compare(price, limit) * sign <= 0


def _better(sign: int, left: int, right: int) -> int:
    return min(left, right) if sign > 0 else max(left, right)


def _worse(sign: int) -> Rounding:
    return "ceil" if sign > 0 else "floor"


def _compare(price: Decimal, micros: int) -> int:
    """The sign of price less limit, exactly."""
    top, bottom = price.as_integer_ratio()
    difference = top * 10**PRICE_PLACES - micros * bottom
    return (difference > 0) - (difference < 0)


def _ticks(price: Decimal, rounding: Rounding) -> int:
    top, bottom = price.as_integer_ratio()
    return divide(top * 10**FILL_PLACES, bottom, rounding)


def _rounded(value: Decimal, places: int) -> int:
    top, bottom = value.as_integer_ratio()
    return divide(top * 10**places, bottom)
