"""What an order would cost: the book walked exactly, fees, the balance it needs, what is held afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.orders.party import View
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.exchange.units import ONE, decimal, units
from tracedesk.foreign import quoted
from tracedesk.primitives import money

_BPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Walk:
    """What of an order would trade at once: `worth` is price times quantity, in 1e-16."""

    quantity: int
    worth: int
    worst: int | None

    @property
    def average(self) -> Fraction | None:
        """In units; None where nothing trades."""
        return Fraction(self.worth, self.quantity) if self.quantity else None


def walk(ticket: Ticket, view: View) -> Walk:
    """Take from the other side, best first, down to the limit of the order; a stop trades nothing yet."""
    if ticket.is_stop or ticket.order_type == "LIMIT_MAKER":
        return Walk(0, 0, None)
    left, worth, worst = ticket.quantity, 0, None
    for price, resting in view.against(ticket.sign):
        beyond = ticket.price is not None and (price - ticket.price) * ticket.sign > 0
        if beyond or not left:
            break
        taken = min(left, resting)
        left, worth, worst = left - taken, worth + taken * price, price
    return Walk(ticket.quantity - left, worth, worst)


@dataclass(frozen=True, slots=True)
class Balance:
    """One asset of the account, in units."""

    free: int
    locked: int

    @property
    def total(self) -> int:
        return self.free + self.locked


@dataclass(frozen=True, slots=True)
class Account:
    """What the venue says the account has and pays."""

    balances: Mapping[str, Balance]
    maker: int
    """The rate, in 1e-8."""
    taker: int
    can_withdraw: bool

    @classmethod
    def of(cls, told: Mapping[str, Any], side: str) -> Account:
        """From the answer of `account`; the rates are those of one side."""
        balances = {
            each["asset"]: Balance(units(each["free"]), units(each["locked"])) for each in told["balances"]
        }
        rates = told["commissionRates"]
        extra = units(rates["buyer" if side == "BUY" else "seller"])
        maker, taker = (units(rates[name]) + extra for name in ("maker", "taker"))
        return cls(balances, maker, taker, bool(told.get("canWithdraw")))

    def balance(self, asset: str) -> Balance:
        return self.balances.get(asset, Balance(0, 0))


@dataclass(frozen=True, slots=True)
class Estimate:
    """An order against one view of its market and one state of its account."""

    ticket: Ticket
    view: View
    account: Account
    walked: Walk

    @classmethod
    def of(cls, ticket: Ticket, view: View, account: Account) -> Estimate:
        return cls(ticket, view, account, walk(ticket, view))

    @property
    def unfilled(self) -> int:
        """What a market order asks for beyond everything that rests."""
        return self.ticket.quantity - self.walked.quantity if self.ticket.is_market else 0

    @property
    def notional(self) -> int:
        """What caps hold the order to, in 1e-8 of the quote asset, rounded up.

        It is the larger of what its own prices say and what the book would give: a seller gets the better.
        """
        ticket, walked = self.ticket, self.walked
        own = max(ticket.price or 0, ticket.stop_price or 0)
        rest = (ticket.quantity - walked.quantity) * (own or walked.worst or 0)
        return _whole(max(own * ticket.quantity, walked.worth + rest, self._sold_if_triggered))

    @property
    def _sold_if_triggered(self) -> int:
        """What a stop that sells brings where the market has passed it already, in 1e-16."""
        ticket, bids = self.ticket, self.view.bids
        is_taking = ticket.order_type.startswith("TAKE_PROFIT") and ticket.side == "SELL"
        return ticket.quantity * bids[0][0] if is_taking and bids else 0

    @property
    def slippage_bps(self) -> Fraction | None:
        """How much worse than the mid the part that trades at once would be; None where nothing does."""
        average, mid2 = self.walked.average, self.view.mid2
        if average is None or mid2 is None:
            return None
        return (2 * average / mid2 - 1) * self.ticket.sign * _BPS

    @property
    def distance_bps(self) -> Fraction | None:
        """How far the order's prices lie from the mid, the farther one; None where it has none."""
        mid2 = self.view.mid2
        prices = [price for price in (self.ticket.price, self.ticket.stop_price) if price is not None]
        if mid2 is None or not prices:
            return None
        return max(abs(Fraction(2 * price, mid2) - 1) for price in prices) * _BPS

    @property
    def needs(self) -> tuple[str, int]:
        """The asset that the order locks or spends, and how much of it."""
        instrument = self.view.instrument
        if self.ticket.side == "SELL":
            return instrument.base, self.ticket.quantity
        price = self.ticket.price or self.ticket.stop_price
        return instrument.quote, self.notional if price is None else _whole(price * self.ticket.quantity)

    def check_balance(self) -> None:
        """Refuse what the account cannot pay."""
        asset, required = self.needs
        free = self.account.balance(asset).free
        if required <= free:
            return
        message = (
            f"quantity: the order needs {plain(required)} {quoted(asset)} and {plain(free)} are free. "
            "Lower it, or cancel an order that holds some."
        )
        figures = {"asset": asset, "required": plain(required), "available": plain(free)}
        raise ToolError("INSUFFICIENT_BALANCE", message, {**figures, "shortfall": plain(required - free)})

    # --- as it is shown

    @property
    def summary(self) -> str:
        """In words, for the one who confirms the order."""
        worth = f"Worth up to {plain(self.notional)} {quoted(self.view.instrument.quote)} as the book was"
        average = _price(self.walked.average)
        return f"{worth}." if average is None else f"{worth}; trades at once at {average} on average."

    def document(self) -> dict[str, Any]:
        instrument, mid2 = self.view.instrument, self.view.mid2
        return {
            "notional": plain(self.notional),
            "quote_asset": instrument.quote,
            "mid": None if mid2 is None else _text(Fraction(mid2, 2 * ONE)),
            "fills_at_once": instrument.quantity_text(self.walked.quantity),
            "average_price": _price(self.walked.average),
            "slippage_bps": _rounded(self.slippage_bps),
            "insufficient_depth": self.unfilled > 0,
            "fees": self._fees(instrument),
            "exposure": self._exposure(instrument),
            "book_age_ms": self.view.age_ms,
        }

    def _fees(self, instrument: Instrument) -> dict[str, Any]:
        """The venue takes its fee from what is received: the taker's at once, the maker's for what rests."""
        taken, resting = self.walked.quantity, self.ticket.quantity - self.walked.quantity
        if self.ticket.is_market or self.ticket.time_in_force in ("IOC", "FOK"):
            resting = 0
        asset = instrument.base if self.ticket.side == "BUY" else instrument.quote
        price = self.ticket.price or self.ticket.stop_price or 0
        worth = (
            (taken * ONE, resting * ONE) if asset == instrument.base else (self.walked.worth, resting * price)
        )
        rates = self.account.taker, self.account.taker if self._becomes_taker else self.account.maker
        fee = sum(amount * rate for amount, rate in zip(worth, rates, strict=True))
        return {
            "asset": asset,
            "amount": plain(-(-fee // (ONE * ONE))),
            "taker_rate": plain(self.account.taker),
            "maker_rate": plain(self.account.maker),
        }

    @property
    def _becomes_taker(self) -> bool:
        return self.ticket.is_stop

    def _exposure(self, instrument: Instrument) -> dict[str, Any]:
        """What is held when all of the order has filled, before fees."""
        base, mid2 = self.account.balance(instrument.base).total, self.view.mid2
        quote = self.account.balance(instrument.quote).total
        after, left = base + self.ticket.sign * self.ticket.quantity, quote - self.ticket.sign * self.notional
        value = None if mid2 is None else _text(Fraction(after * mid2, 2 * ONE * ONE))
        return {
            instrument.base: {"now": plain(base), "after": plain(after)},
            instrument.quote: {"now": plain(quote), "after": plain(left)},
            "position_value": value,
        }


def _whole(worth: int) -> int:
    """Price times quantity in units, rounded up."""
    return -(-worth // ONE)


def shown(value: Fraction, places: int = 8) -> Decimal:
    """A number to at most so many places, half-even; what is exact keeps no zeros."""
    return money.trim(money.from_units(round(value * 10**places), places))


def plain(value: int) -> str:
    """Units as text without needless zeros."""
    return money.to_text(decimal(value))


def _text(value: Fraction) -> str:
    return money.to_text(shown(value))


def _price(average: Fraction | None) -> str | None:
    return None if average is None else _text(average / ONE)


def _rounded(value: Fraction | None) -> Decimal | None:
    return None if value is None else shown(value, 4)
