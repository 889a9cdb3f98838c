"""The scales of the ledger: money in cents, prices in millionths, quantities in billionths."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tracedesk.primitives.money import divide, from_units, scale_of, to_units, trim

CASH_PLACES: Final = 2
PRICE_PLACES: Final = 6
QUANTITY_PLACES: Final = 9

FILL_PLACES: Final = 4
"""Fill prices are quantised to this many places before they are stored in millionths."""

_NOTIONAL_PLACES: Final = PRICE_PLACES + QUANTITY_PLACES


def cents(value: Decimal) -> int:
    """An amount of money as whole cents; raises `ValueError` when it is not whole."""
    return to_units(value, CASH_PLACES)


def money(cents: int) -> Decimal:
    """Cents as an amount with two places."""
    return from_units(cents, CASH_PLACES)


def micros(value: Decimal) -> int:
    """A price as whole millionths."""
    return to_units(value, PRICE_PLACES)


def price(micros: int) -> Decimal:
    """Millionths as a price, with two places at least and no zeros beyond them."""
    short = trim(from_units(micros, PRICE_PLACES))
    return short if scale_of(short) >= CASH_PLACES else from_units(micros // 10**4, CASH_PLACES)


def nanos(value: Decimal) -> int:
    """A quantity as whole billionths."""
    return to_units(value, QUANTITY_PLACES)


def quantity(nanos: int) -> Decimal:
    """Billionths as a quantity without trailing zeros."""
    return trim(from_units(nanos, QUANTITY_PLACES))


def notional(nanos: int, micros: int) -> int:
    """The value of a quantity at a price, in cents, rounded half-even once."""
    return divide(nanos * micros, 10 ** (_NOTIONAL_PLACES - CASH_PLACES))
