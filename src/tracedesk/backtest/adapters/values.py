"""What engines count in, as what a recording keeps: plain numbers, integer nanoseconds, names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from tracedesk.primitives.money import quantise, trim
from tracedesk.primitives.time import MICROSECOND

Plain = int | float
Number = Plain | Decimal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES: Final = 12
_SCALARS: Final = (bool, int, float, str, Decimal)


def number(value: Any) -> Plain | None:
    """A number as Python has it; None for what is no number, or not a finite one."""
    if isinstance(value, float):  # numpy's are, too, but must not reach a recording as what they are
        return float(value) if math.isfinite(value) else None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, int):
        return int(plain)
    return plain if isinstance(plain, float) and math.isfinite(plain) else None


def exact(value: Any) -> Decimal:
    """The shortest decimal that is this number to the engine: 0.1 is 0.1, and what is no number is NaN."""
    plain = number(value)
    return Decimal("NaN") if plain is None else Decimal(repr(plain))


def figure(value: Decimal) -> Decimal | None:
    """What we worked out ourselves, as it is recorded: at most 12 places; None for NaN."""
    return trim(quantise(value, _PLACES)) if value.is_finite() else None


def quantity(value: Any) -> Plain | None:
    """A number of units: 100.0 is 100, for engines that count whole shares in floats."""
    plain = number(value)
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    return plain


def size(value: Any) -> Plain | None:
    """A quantity without its sign, which a direction tells."""
    plain = quantity(value)
    return None if plain is None else abs(plain)


def direction(signed: Any) -> str:
    """The side of a signed quantity."""
    return "Buy" if signed > 0 else "Sell"


def instant(moment: datetime) -> int:
    """Nanoseconds since the epoch; a time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * MICROSECOND


def known(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that an engine knew."""
    return {name: value for name, value in properties.items() if value is not None}


def scalars(named: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are single values; arrays and functions are no parameters of an indicator."""
    plain = {name: value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
             for name, value in named.items()}  # fmt: skip
    return {
        name: value
        for name, value in plain.items()
        if isinstance(value, _SCALARS) and not (isinstance(value, float) and not math.isfinite(value))
    }
