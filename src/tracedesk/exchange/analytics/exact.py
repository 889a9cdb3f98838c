"""Whole-number sums over columns, which may exceed 64 bits, and exact quotients of them."""

from __future__ import annotations

from decimal import Decimal
from operator import mul
from typing import TYPE_CHECKING, Final

from tracedesk.exchange.series import Touches
from tracedesk.exchange.units import ONE, SCALE, decimal
from tracedesk.primitives import money

if TYPE_CHECKING:
    from tracedesk.exchange.series import Column

_QUARTER: Final = 2**61
_PLACES: Final = SCALE + money.EXTRA_PLACES


def two_sided(touches: Touches) -> Touches:
    """The touches with both a bid and an ask; a side that was empty has no price to compare."""
    whole = (touches.bid_quantity > 0) & (touches.ask_quantity > 0)
    if whole.all():
        return touches
    return Touches(
        touches.ns[whole],
        touches.id[whole],
        touches.bid[whole],
        touches.bid_quantity[whole],
        touches.ask[whole],
        touches.ask_quantity[whole],
    )


def addable(column: Column) -> Column:
    """A column of which four values can be summed exactly: of Python's numbers where 64 bits are few."""
    return column.astype(object) if len(column) and int(column.max()) >= _QUARTER else column


def total(column: Column) -> int:
    """The sum of a column; a 64-bit sum of quantities of a cheap asset would overflow."""
    return sum(column.tolist())


def dot(left: Column, right: Column) -> int:
    """The sum of products of two columns."""
    return sum(map(mul, left.tolist(), right.tolist()))


def real(units: int) -> float:
    """Units as binary64, rounded once."""
    return units / ONE


def ratio(numerator: int, denominator: int) -> float:
    """A quotient of whole numbers as binary64, rounded once; 0 over nothing."""
    return numerator / denominator if denominator else 0.0


def shown(units: int) -> str:
    """Units as plain decimal text without trailing zeros."""
    return money.to_text(decimal(units))


def quotient(value: int, quantity: int) -> Decimal:
    """`value` in units of 1e-16 by `quantity` in units of 1e-8, as a price."""
    return money.trim(money.from_units(money.divide(value * 10**money.EXTRA_PLACES, quantity), _PLACES))
