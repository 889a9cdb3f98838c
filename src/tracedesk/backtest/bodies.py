"""Properties on their way in: the plain values that are kept of them, and the JSON that is journalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

import orjson

from tracedesk.backtest.model import RAW
from tracedesk.primitives import json
from tracedesk.primitives import time as times

_SCALARS: Final = frozenset((str, int, float, Decimal, bool, type(None)))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_EXPONENT: Final = 6144
"""decimal128's range, which is what reading the journal back accepts."""

DEEPEST: Final = json.DEEPEST
"""Objects and lists within one another that properties may have; what nests deeper is kept as its text."""

_TOO_DEEP: Final = f"the properties nest deeper than {DEEPEST} objects and lists; give what is deeper as text"

Moment = int | str | datetime | date
"""A simulated time: UTC nanoseconds, ISO 8601, or a datetime; without a zone it is UTC."""


def plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that later changes of the caller's objects do not reach, of JSON's own kinds of values.

    Scalars of numerical libraries become the numbers they are, dates ISO text, enums their values. What nests
    deeper than DEEPEST is refused.
    """
    if isinstance(properties, dict):
        return _plain_dict(properties)
    return _plain_dict({str(name): value for name, value in properties.items()})


def _plain_dict(members: dict[str, Any], depth: int = 1) -> dict[str, Any]:
    if depth > DEEPEST:
        raise ValueError(_TOO_DEEP)
    copy = dict(members)
    for name, value in members.items():
        if type(value) not in _SCALARS:
            copy[name] = _plain(value, depth + 1)
    return copy


def _plain(value: Any, depth: int) -> Any:
    kind = cast("type[Any]", type(value))
    if kind is dict:
        return _plain_dict(value, depth)
    if kind in _SCALARS:
        return value
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return _plain_dict({str(name): member for name, member in members.items()}, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        if depth > DEEPEST:
            raise ValueError(_TOO_DEEP)
        return [_plain(item, depth + 1) for item in cast("list[Any]", value)]
    return _converted(value, depth)


def _converted(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, depth)
    if isinstance(value, (datetime, date)):
        return times.format(nanoseconds(value))
    if isinstance(value, UUID):
        return str(value)
    for kind in (str, int, float, Decimal):
        if isinstance(value, kind):
            return kind(value)
    item = getattr(value, "item", None)
    if callable(item):
        found = item()
        if type(found) in _SCALARS:
            return found
    raise TypeError(
        f"a property of type {type(value).__name__} has no JSON form; give numbers, texts, lists or objects"
    )


def encode(properties: dict[str, Any]) -> bytes:
    """Plain properties as compact JSON, each decimal with its own digits."""
    try:
        body = orjson.dumps(properties, _digits)
    except TypeError:
        # Integers of more than 64 bits, or a number that has no JSON form.
        _refuse_unfit("", properties)
        return json.dumps(properties)
    if b"null" in body:
        _refuse_unfit("", properties)  # the encoder writes NaN and infinities as null
    return body


def _digits(value: Any) -> orjson.Fragment:
    text = str(value)
    if "E" in text or "N" in text or "I" in text:
        if not _is_fit(value):
            raise TypeError
        text = json.dumps(value).decode()
    return orjson.Fragment(text)


def _is_fit(value: Decimal) -> bool:
    return value.is_finite() and -_MAX_EXPONENT <= value.adjusted() <= _MAX_EXPONENT


def _refuse_unfit(name: str, value: Any) -> None:
    """Name the number that cannot be recorded, if there is one."""
    if isinstance(value, dict):
        for member, inner in cast("dict[str, Any]", value).items():
            _refuse_unfit(f"{name}.{member}" if name else member, inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            _refuse_unfit(name, inner)
    elif isinstance(value, (float, Decimal)) and not _is_fit(Decimal(value)):
        raise ValueError(
            f"{name}: {value} cannot be recorded; leave it out, or give a finite number of at most "
            f"{_MAX_EXPONENT} digits"
        )


def parsed(text: bytes | str) -> dict[str, Any]:
    """Properties given as JSON text; what is not an object of strict JSON is kept whole as `_raw`.

    So is an object that nests deeper than anything else could handle.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and not nests_deeper(cast("Any", found)):
        return cast("dict[str, Any]", found)
    return {RAW: text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")}


def nests_deeper(value: Any, most: int = DEEPEST) -> bool:
    """Whether more objects and lists lie within one another than `most`, the value itself included."""
    level: list[Any] = [value]
    for _ in range(most):
        level = [inner for part in level for inner in _within(part)]
        if not level:
            return False
    return any(isinstance(part, (dict, list)) for part in level)


def _within(part: Any) -> Iterable[Any]:
    """What an object or a list holds."""
    if isinstance(part, dict):
        return cast("dict[str, Any]", part).values()
    return cast("list[Any]", part) if isinstance(part, list) else ()


def nanoseconds(moment: Moment) -> int:
    """A simulated time in UTC nanoseconds."""
    if type(moment) is int:
        return moment
    if isinstance(moment, datetime):
        return _of_datetime(moment)
    if isinstance(moment, str):
        return times.parse(moment).ns
    if isinstance(moment, date):
        return (moment.toordinal() - _EPOCH.toordinal()) * times.DAY
    return _of_library(moment)


def _of_datetime(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since = aware - _EPOCH
    whole = (since.days * 86_400 + since.seconds) * times.SECOND + since.microseconds * times.MICROSECOND
    # A pandas Timestamp is a datetime with nanoseconds of its own.
    return whole + int(getattr(moment, "nanosecond", 0))


def _of_library(moment: Any) -> int:
    """A numpy integer or datetime64, without importing numpy."""
    name = type(moment).__name__
    if name == "datetime64":
        return int(moment.astype("datetime64[ns]").astype("int64"))
    if name.startswith(("int", "uint")) and callable(getattr(moment, "item", None)):
        return int(moment)
    raise TypeError(f"a time of type {name} is not exact; give UTC nanoseconds, ISO 8601 text or a datetime")
