"""Exact numbers in columns: what of a column is numeric, its moments, and the numbers themselves as bytes.

Everything is integers of 10**-scale units, so sums and squares never round.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, localcontext
from itertools import compress
from operator import mul
from typing import Any, Final, cast

from tracedesk.primitives import money
from tracedesk.primitives.money import MAX_PLACES, Moments

_WIDE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BOUND: Final = 10**MAX_PLACES
"""Exact numbers are nearer to zero than this."""

_MAYBE_DECIMAL: Final = re.compile(r"^[+-]?\.?[0-9][0-9.eE+-]*$", re.MULTILINE)
_LONGEST_DECIMAL: Final = 256

Number = int | Decimal
_CODES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numeric values of a column, at one scale, in order."""

    places: Sequence[int] | None
    """Which of the column's values they are; None when all of them."""
    units: list[int]
    scale: int
    least: Decimal
    greatest: Decimal
    """With the digits of the first value that is the least or the greatest."""

    @property
    def moments(self) -> Moments:
        return Moments(len(self.units), sum(self.units), sum(map(mul, self.units, self.units)), self.scale)


def number(value: Any) -> Decimal | None:
    """The exact number that a property is: a JSON number or a decimal text; never a boolean or a guess."""
    kind = cast("type[Any]", type(value))
    if kind is float:
        value = repr(value)
    elif kind is not Decimal and kind is not int and kind is not str:
        return None
    try:
        return money.parse(value)
    except ValueError:
        return None


def numbers(column: Sequence[Any], kinds: set[type] | None = None) -> Numbers | None:
    """The numeric part of a column of property values; None when nothing in it is a number.

    `kinds` are the types of the values, if they are known.
    """
    kinds = set(map(type, column)) if kinds is None else kinds
    if len(kinds) == 1:
        (kind,) = kinds
        if kind is int:
            return _of_integers(column) or _picked(column)
        if kind is float:
            return _of_decimals(list(map(Decimal, map(repr, column)))) or _picked(column)
        if kind is Decimal:
            return _of_decimals(column) or _picked(column)
        if kind is str and not _may_hold_decimals(column):
            return None
    return _picked(column)


def _may_hold_decimals(column: Sequence[str]) -> bool:
    return _MAYBE_DECIMAL.search("\n".join(set(column))) is not None


def _of_integers(column: Sequence[int]) -> Numbers | None:
    low, high = min(column), max(column)
    if max(-low, high) >= _BOUND:
        return None
    return Numbers(None, list(column), 0, Decimal(low), Decimal(high))


def _of_decimals(column: Sequence[Decimal]) -> Numbers | None:
    """All of the column; None when a number in it is outside the range of exact ones."""
    with localcontext(_WIDE):
        # A sum has the finest exponent of its terms, so it tells the largest scale.
        scale = money.scale_of(sum(column, Decimal(0)))
        if scale > MAX_PLACES:
            return None
        factor = Decimal(10) ** scale
        units = list(map(int, map(factor.__mul__, column)))
    low, high = min(units), max(units)
    if max(-low, high) >= _BOUND * 10**scale:
        return None
    return Numbers(None, units, scale, _shown(column[units.index(low)]), _shown(column[units.index(high)]))


def _picked(column: Sequence[Any]) -> Numbers | None:
    """Value by value, for columns that are not of one kind."""
    found = [number(value) for value in column]
    places = [place for place, value in enumerate(found) if value is not None]
    if not places:
        return None
    whole = _of_decimals([value for value in found if value is not None])
    if whole is None:
        raise ValueError("a number outside the range of exact ones was taken for one inside it")
    return Numbers(
        None if len(places) == len(column) else places, whole.units, whole.scale, whole.least, whole.greatest
    )


def _shown(value: Decimal) -> Decimal:
    """The value as it is told: plain digits, and no sign before zero."""
    return Decimal(money.to_text(value.copy_abs() if value.is_zero() else value))


# --- numbers as bytes --------------------------------------------------------------------------


def pack(units: Sequence[int]) -> tuple[int, bytes]:
    """The width in bytes that all of them fit, and the integers at that width, little-endian and signed."""
    low, high = min(units), max(units)
    bits = max(low.bit_length() if low >= 0 else (~low).bit_length(), high.bit_length()) + 1
    for width, code in _CODES.items():
        if bits <= 8 * width:
            return width, _little(array(code, units)).tobytes()
    width = (bits + 7) // 8
    return width, b"".join(unit.to_bytes(width, "little", signed=True) for unit in units)


def unpack(width: int, data: bytes) -> Sequence[int]:
    """The integers that `pack` wrote."""
    code = _CODES.get(width)
    if code is not None:
        found: array[int] = array(code)
        found.frombytes(data)
        return _little(found)
    steps = range(0, len(data), width)
    return [int.from_bytes(data[at : at + width], "little", signed=True) for at in steps]


def pack_places(places: Iterable[int]) -> bytes:
    """Ordinals within a chunk."""
    return _little(array("H", places)).tobytes()


def unpack_places(data: bytes) -> Sequence[int]:
    found = array("H")
    found.frombytes(data)
    return _little(found)


def _little(items: array[int]) -> array[int]:
    if sys.byteorder == "big":
        items.byteswap()
    return items


# --- parts of a chunk --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A row of `value`: some consecutive numbers of one path in one chunk."""

    scale: int
    width: int
    start: int
    units: bytes
    places: bytes | None

    @classmethod
    def of(cls, units: Sequence[int], scale: int, ordinals: Sequence[int]) -> Part:
        """The numbers at these ordinals; consecutive ones need no list of places."""
        width, data = pack(units)
        dense = ordinals[-1] - ordinals[0] + 1 == len(ordinals)
        return cls(scale, width, ordinals[0], data, None if dense else pack_places(ordinals))

    @property
    def count(self) -> int:
        return len(self.units) // self.width

    def ordinals(self) -> Sequence[int]:
        """Which of the chunk's events the numbers belong to."""
        if self.places is None:
            return range(self.start, self.start + self.count)
        return unpack_places(self.places)

    def values(self) -> Sequence[int]:
        """The numbers, in units of 10**-scale."""
        return unpack(self.width, self.units)


def merge(parts: Sequence[Part]) -> Part:
    """Several parts as one, at the finest of their scales."""
    scale = max(part.scale for part in parts)
    units: list[int] = []
    ordinals: list[int] = []
    for part in parts:
        factor = 10 ** (scale - part.scale)
        units += part.values() if factor == 1 else [unit * factor for unit in part.values()]
        ordinals += part.ordinals()
    return Part.of(units, scale, ordinals)


def within(part: Part, first: int, last: int) -> Moments:
    """The moments of those numbers whose ordinals lie in [first, last]: the edge of a time range."""
    ordinals = part.ordinals()
    if isinstance(ordinals, range):
        low = max(0, first - part.start)
        chosen = part.values()[low : max(low, last - part.start + 1)]
    else:
        chosen = list(compress(part.values(), [first <= ordinal <= last for ordinal in ordinals]))
    return Moments(len(chosen), sum(chosen), sum(map(mul, chosen, chosen)), part.scale)
