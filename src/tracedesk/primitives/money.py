"""Exact decimals: parsing, scaled integers, steps, and moments that never pass through binary floats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from math import isqrt
from typing import Literal

MAX_PLACES = 96
"""Digits allowed on either side of the decimal point; uint256 needs 78, and more is abuse."""

EXTRA_PLACES = 6
"""Places that means and deviations carry beyond the largest input scale."""

Rounding = Literal["half_even", "floor", "ceil"]
Deviation = Literal["population", "sample"]

_MAX_TEXT = 2 * MAX_PLACES + 8
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")

# The caller's decimal context may round at any precision, so nothing here uses it.
_WIDE = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def parse(value: object) -> Decimal:
    """Return the exact decimal of a JSON or user number with its own digits; negative zero loses its sign."""
    number = _decimal(value)
    if not number.is_finite():
        raise ValueError(f"{number} is not a number; give a finite decimal such as 12.50")
    _check_places(number)
    return number.copy_abs() if number.is_zero() else number


def _decimal(value: object) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _from_int(value)
    if isinstance(value, float):
        raise ValueError("a binary float is not exact; give the number as decimal text such as '0.1'")
    raise ValueError(f"{type(value).__name__} is not a number; give decimal text or an integer")


def _from_text(text: str) -> Decimal:
    if len(text) > _MAX_TEXT:
        raise ValueError(f"a number of {len(text)} characters is too long; use at most {_MAX_TEXT}")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a decimal number; write it like 12.50 or 1e-8")
    return Decimal(text)


def _from_int(value: int) -> Decimal:
    # Python refuses to print integers of more than 4300 digits, so size is judged in bits.
    if value.bit_length() > 4 * MAX_PLACES:
        raise ValueError(f"the integer is too large; use at most {MAX_PLACES} digits")
    return Decimal(value)


def _check_places(number: Decimal) -> None:
    if scale_of(number) > MAX_PLACES or number.adjusted() >= MAX_PLACES:
        raise ValueError(f"the number is too long; use at most {MAX_PLACES} digits on each side of the point")


def scale_of(value: Decimal) -> int:
    """Return how many places after the decimal point the value is written with."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{value} has no scale; give a finite decimal")
    return max(0, -exponent)


def to_text(value: Decimal) -> str:
    """Return the plain digits of the value, never in exponent notation."""
    return f"{value:f}"


def trim(value: Decimal) -> Decimal:
    """Return the same value without trailing zeros after the point."""
    short = value.normalize(_WIDE)
    return short if scale_of(short) else from_units(to_units(short, 0), 0)


def to_units(value: Decimal, scale: int) -> int:
    """Return the value as a whole number of 10**-scale units, or raise if it does not fit exactly."""
    units, rest = _units(value, scale)
    if rest:
        raise ValueError(
            f"{to_text(value)} has {scale_of(trim(value))} decimal places; at most {scale} are allowed"
        )
    return units


def from_units(units: int, scale: int) -> Decimal:
    """Return units times 10**-scale, written with exactly scale places."""
    _check_scale(scale)
    return Decimal(units).scaleb(-scale, _WIDE)


def quantise(value: Decimal, scale: int, rounding: Rounding = "half_even") -> Decimal:
    """Return the value rounded to scale places."""
    numerator, denominator = _ratio(value)
    _check_scale(scale)
    return from_units(divide(numerator * 10**scale, denominator, rounding), scale)


def round_to(value: Decimal, step: Decimal, rounding: Rounding = "half_even") -> Decimal:
    """Return the value rounded to a multiple of a tick or lot size, written with the step's scale."""
    top, bottom = _in_steps(value, step)
    return _WIDE.multiply(Decimal(divide(top, bottom, rounding)), step)


def floor_to(value: Decimal, step: Decimal) -> Decimal:
    """Return the largest multiple of step that is not above the value."""
    return round_to(value, step, "floor")


def ceil_to(value: Decimal, step: Decimal) -> Decimal:
    """Return the smallest multiple of step that is not below the value."""
    return round_to(value, step, "ceil")


def is_multiple(value: Decimal, step: Decimal) -> bool:
    """Return whether the value is a whole number of steps."""
    top, bottom = _in_steps(value, step)
    return top % bottom == 0


def divide(numerator: int, denominator: int, rounding: Rounding = "half_even") -> int:
    """Return the integer quotient under the given rounding; the denominator must be positive."""
    if denominator <= 0:
        raise ValueError("the denominator must be positive")
    quotient, rest = divmod(numerator, denominator)
    if rounding == "floor" or not rest:
        return quotient
    if rounding == "ceil":
        return quotient + 1
    return quotient + _rounds_up(quotient, 2 * rest - denominator)


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares of values held as integers of 10**-scale units; merge them with ``+``."""

    count: int = 0
    total: int = 0
    squares: int = 0
    scale: int = 0

    @classmethod
    def of(cls, values: Iterable[Decimal]) -> Moments:
        """Return the moments of exact decimals at their largest scale."""
        numbers = tuple(values)
        scale = max(map(scale_of, numbers), default=0)
        units = [to_units(number, scale) for number in numbers]
        return cls(len(units), sum(units), sum(unit * unit for unit in units), scale)

    def __add__(self, other: Moments) -> Moments:
        scale = max(self.scale, other.scale)
        left, right = self._at(scale), other._at(scale)
        return Moments(
            left.count + right.count, left.total + right.total, left.squares + right.squares, scale
        )

    def sum(self) -> Decimal:
        """Return the exact sum."""
        return from_units(self.total, self.scale)

    def mean(self) -> Decimal | None:
        """Return the mean, rounded half-even to scale + 6 places, or None without values."""
        if not self.count:
            return None
        return self._rounded(divide(self.total * 10**EXTRA_PLACES, self.count))

    def deviation(self, kind: Deviation = "population") -> Decimal | None:
        """Return the standard deviation, rounded half-even to scale + 6 places, or None if undefined."""
        freedom = self.count - (kind == "sample")
        if freedom <= 0:
            return None
        spread = self.count * self.squares - self.total * self.total
        if spread < 0:
            raise ValueError("the moments contradict each other: the variance would be negative")
        return self._rounded(_root(spread * 10 ** (2 * EXTRA_PLACES), self.count * freedom))

    def _at(self, scale: int) -> Moments:
        factor = 10 ** (scale - self.scale)
        return Moments(self.count, self.total * factor, self.squares * factor * factor, scale)

    def _rounded(self, units: int) -> Decimal:
        return from_units(units, self.scale + EXTRA_PLACES)


def _root(numerator: int, denominator: int) -> int:
    root = isqrt(numerator // denominator)
    # Against the square of the midpoint root + 1/2, cleared of fractions, so that ties are exact.
    excess = 4 * numerator - denominator * (2 * root + 1) ** 2
    return root + _rounds_up(root, excess)


def _rounds_up(quotient: int, excess: int) -> bool:
    return excess > 0 or (excess == 0 and quotient % 2 == 1)


def _units(value: Decimal, scale: int) -> tuple[int, int]:
    _check_scale(scale)
    numerator, denominator = _ratio(value)
    return divmod(numerator * 10**scale, denominator)


def _in_steps(value: Decimal, step: Decimal) -> tuple[int, int]:
    top, bottom = _ratio(value)
    step_top, step_bottom = _ratio(step)
    if step_top <= 0:
        raise ValueError(f"a step of {step} cannot be used; it must be positive")
    return top * step_bottom, bottom * step_top


def _ratio(value: Decimal) -> tuple[int, int]:
    if not value.is_finite():
        raise ValueError(f"{value} is not a number; give a finite decimal")
    return value.as_integer_ratio()


def _check_scale(scale: int) -> None:
    if scale < 0:
        raise ValueError(f"a scale of {scale} cannot be used; it must not be negative")
