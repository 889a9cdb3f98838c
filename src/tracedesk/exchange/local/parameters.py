"""Parameters of a request: how each is read, and what one gets who sends another thing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tracedesk.exchange.local import errors
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.units import SCALE, units

Reader = Callable[[str, str], Any]
"""Takes a parameter's name and text; returns its value or raises `Refused`."""

LARGEST: Final = 2**63 - 1
_SYMBOL: Final = re.compile(r"[\w\-.]{1,50}")
_SYMBOL_RANGE: Final = r"^[\w\-._&&[^a-z]]{1,50}$"
_WHOLE: Final = re.compile(r"[0-9]{1,20}")
_WHOLE_RANGE: Final = "^[0-9]{1,20}$"
_DECIMAL: Final = re.compile(r"[0-9]{1,20}(?:\.([0-9]{1,20}))?")
_DECIMAL_RANGE: Final = r"^([0-9]{1,20})(\.[0-9]{1,20})?$"
_ID: Final = re.compile(r"[a-zA-Z0-9\-_]{1,36}")
_ID_RANGE: Final = "^[a-zA-Z0-9-_]{1,36}$"
_ZONE: Final = re.compile(r"([+-]?)([0-9]{1,2})(?::([0-9]{2}))?")
_EARLIEST_ZONE: Final = -12 * 60
_LATEST_ZONE: Final = 14 * 60
STATUSES: Final = ("TRADING", "HALT", "BREAK")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a method."""

    name: str
    read: Reader
    required: bool = False


def required(name: str, read: Reader) -> Parameter:
    return Parameter(name, read, required=True)


def read(
    declared: Collection[Parameter], sent: Mapping[str, str], apart: Collection[str] = ()
) -> dict[str, Any]:
    """The values of what was sent; names in `apart` belong to the security of the request."""
    values = {each.name: _value(each, sent) for each in declared if each.required or each.name in sent}
    _refuse_strangers(declared, sent, apart)
    return values


def _value(parameter: Parameter, sent: Mapping[str, str]) -> Any:
    text = sent.get(parameter.name)
    if text is None:
        raise errors.missing(parameter.name)
    if not text:
        raise errors.missing(parameter.name) if parameter.required else errors.empty(parameter.name)
    return parameter.read(parameter.name, text)


def _refuse_strangers(
    declared: Collection[Parameter], sent: Mapping[str, str], apart: Collection[str]
) -> None:
    known = {each.name for each in declared} | set(apart)
    count = sum(name in known for name in sent)
    if count == len(sent):
        return
    raise (
        errors.too_many_parameters(len(known), len(sent))
        if len(sent) > len(known)
        else errors.unread(count, len(sent))
    )


# --- readers ------------------------------------------------------------------------------------


def symbol(name: str, text: str) -> str:
    if not _SYMBOL.fullmatch(text) or any("a" <= each <= "z" for each in text):
        raise errors.illegal_characters(name, _SYMBOL_RANGE)
    return text


def symbols(name: str, text: str) -> list[str]:
    """A JSON array of symbols."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        raise errors.invalid_json(name) from None
    return _symbols(name, listed)


def _symbols(name: str, listed: object) -> list[str]:
    if not isinstance(listed, list) or not listed:
        raise errors.invalid_data(name)
    found = [_symbol(name, each) for each in cast("list[object]", listed)]
    if len(set(found)) < len(found):
        raise errors.duplicate_symbols()
    return found


def _symbol(name: str, listed: object) -> str:
    if isinstance(listed, (list, dict)):  # too deep ones have no text
        raise errors.illegal_characters(name, _SYMBOL_RANGE)
    return symbol(name, str(listed))


def permissions(name: str, text: str) -> list[str]:
    """One permission, or a JSON array of them."""
    return symbols(name, text) if text.startswith("[") else [symbol(name, text)]


def whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise errors.illegal_characters(name, _WHOLE_RANGE)
    if int(text) > LARGEST:
        raise errors.overflowed(name)
    return int(text)


def instant(name: str, text: str) -> int:
    """A time in milliseconds, which may have been sent in microseconds."""
    value = whole(name, text)
    return value // 1000 if len(text) >= 16 else value


def at_most(most: int) -> Reader:
    """A number of rows; one that is too large is taken as the largest."""

    def reader(name: str, text: str) -> int:
        value = whole(name, text)
        if value == 0:
            raise errors.invalid_data(name)
        return min(value, most)

    return reader


def amount(name: str, text: str) -> int:
    """A decimal number in units of 1e-8."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise errors.illegal_characters(name, _DECIMAL_RANGE)
    if len((match[1] or "").rstrip("0")) > SCALE:
        raise errors.too_precise(name)
    value = units(text)
    if value > LARGEST:
        raise errors.overflowed(name)
    return value


def flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise errors.invalid_data(name)
    return text.lower() == "true"


def order_id_text(name: str, text: str) -> str:
    """A client's own id of an order."""
    if not _ID.fullmatch(text):
        raise errors.illegal_characters(name, _ID_RANGE)
    return text


def one_of(allowed: Iterable[str], refusal: Callable[[], Refused] | None = None) -> Reader:
    """A word of a closed list."""
    words = frozenset(allowed)

    def reader(name: str, text: str) -> str:
        if text not in words:
            raise refusal() if refusal is not None else errors.invalid_data(name)
        return text

    return reader


def strategy_type(name: str, text: str) -> int:
    value = whole(name, text)
    if value < 1_000_000:
        raise errors.bad_strategy_type()
    return value


def zone_minutes(name: str, text: str) -> int:
    """An offset from UTC such as `8`, `-1:00` or `05:45`, in minutes."""
    match = _ZONE.fullmatch(text)
    if match is None:
        raise errors.invalid_data(name)
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    offset = -minutes if match[1] == "-" else minutes
    if not _EARLIEST_ZONE <= offset <= _LATEST_ZONE or int(match[3] or 0) > 59:
        raise errors.invalid_data(name)
    return offset


def window_ms(name: str, text: str) -> int:
    """A rolling window: 1m to 59m, 1h to 23h, 1d to 7d."""
    match = re.fullmatch(r"([1-9][0-9]?)([mhd])", text)
    sizes = {"m": (60_000, 59), "h": (3_600_000, 23), "d": (86_400_000, 7)}
    if match is None or int(match[1]) > sizes[match[2]][1]:
        raise errors.invalid_data(name)
    return int(match[1]) * sizes[match[2]][0]


SYMBOL: Final = required("symbol", symbol)
SYMBOL_STATUS: Final = Parameter("symbolStatus", one_of(STATUSES, errors.invalid_symbol_status))
