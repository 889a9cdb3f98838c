"""Prices and quantities as whole numbers of 1e-8, the precision of the venue itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tracedesk.primitives import money

SCALE: Final = 8
"""Places of every price and quantity."""
ONE: Final = 10**SCALE
_POINT: Final = -SCALE - 1


def units(text: str) -> int:
    """The exact number of 1e-8 in a decimal text; raises `ValueError` for what is no such number."""
    if text[_POINT : _POINT + 1] == "." and text.isascii():
        digits = text[:_POINT] + text[_POINT + 1 :]
        if digits.isdigit():
            return int(digits)
    return money.to_units(money.parse(text), SCALE)


def text(value: int, places: int = SCALE) -> str:
    """The number with exactly `places` places; digits that would be lost raise `ValueError`."""
    cut = 10 ** (SCALE - places)
    if value % cut:
        raise ValueError(f"{decimal(value)} has more than {places} decimal places")
    sign, whole = ("-", -value) if value < 0 else ("", value)
    digits = str(whole // cut).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def decimal(value: int) -> Decimal:
    """The number as an exact decimal without trailing zeros."""
    return money.trim(money.from_units(value, SCALE))


def notional(price: int, quantity: int) -> int:
    """Price times quantity in 1e-8 of the quote asset, rounded towards zero as the venue does."""
    return price * quantity // ONE
