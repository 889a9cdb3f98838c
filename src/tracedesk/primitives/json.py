"""Exact JSON: decimals keep their digits both ways, and what a strict reader would refuse is refused."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn, cast

import orjson

from tracedesk.primitives.json_reader import (
    FEW,
    Limits,
    Reader,
    Scan,
    count_values,
    cut_of,
    has_more_values,
    is_deeper,
)

__all__ = [
    "DEEPEST",
    "MOST_VALUES",
    "STORED",
    "JSONError",
    "Limits",
    "Raw",
    "TooDeep",
    "count_values",
    "cut_of",
    "dumps",
    "dumps_each",
    "is_longer",
    "loads",
    "quote",
    "read",
]

JSONError = ValueError


class TooDeep(ValueError):
    """A document that is JSON, but nests deeper than is read."""


DEEPEST: Final = 64
"""Levels of objects and arrays in a document that somebody else wrote, wherever it comes in."""
STORED: Final = 250
"""The same of our own documents, which hold others' inside: the encoder writes no deeper ones."""
MOST_VALUES: Final = 1 << 19
"""Values of a document that a client sends: half a million, and its envelope."""

Raw = orjson.Fragment
"""Bytes that are JSON already; `dumps` copies them verbatim."""

_MAX_EXPONENT: Final = 6144
"""decimal128's range: without a bound, a ten-byte number would print as a gigabyte of digits."""

_LONGEST_NUMBER: Final = 2 * _MAX_EXPONENT + 16
"""Characters of a fraction: all digits that its range has. Work on one of a megabyte takes a tenth second."""

_LONGEST_PLAIN: Final = 128
"""Digits before or after the point that are still written out; beyond, E notation keeps them short."""

_PLAIN: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
"""Values that are not JSON are an error, not a guess."""

_ORDERED: Final = _PLAIN | orjson.OPT_SORT_KEYS
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_SMALL: Final = 8_192
"""Bytes of a document that the quick parser is tried on: what is longer is often full of fractions."""
_MOST_PARTS: Final = 500
"""Values of such a document: so many cannot nest deeper than the exact parser goes."""
_AT_ONCE: Final = 65_536
"""Bytes of a document that the exact parser reads in one go, without letting other threads run."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object repeats a member name")
    return members


def _number(text: str) -> Decimal:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number has more than {_LONGEST_NUMBER} characters")
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits, which is no `ValueError`
        number = None
    if number is None or not -_MAX_EXPONENT <= number.adjusted() <= _MAX_EXPONENT:
        raise ValueError(f"a number's exponent is outside ±{_MAX_EXPONENT}")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(
    parse_float=_number, parse_constant=_no_constant, object_pairs_hook=_unique, strict=True
)


_SCAN: Final = cast("Scan", getattr(_DECODER, "scan_once"))  # noqa: B009
"""The decoder's own reader of one value, which it has under no public name."""


def loads(data: bytes | bytearray | memoryview | str, *, levels: int = STORED) -> Any:
    """Parse one document; fractions become `Decimal`. Raises `ValueError` for anything not strict JSON.

    A document that nests deeper than `levels` is refused: give `DEEPEST` where somebody else wrote it.
    """
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if len(raw) > _AT_ONCE:
        value = _read(raw, Limits(levels), _no_pause)
        if (why := cut_of(value)) is not None:
            raise TooDeep(f"the document {why}")
        return value
    value = _loads_short(raw)
    if raw.count(b"[") + raw.count(b"{") > levels and is_deeper(value, levels):
        raise TooDeep(f"the document {Limits(levels).too_deep}")
    return value


def read(data: bytes, limits: Limits, pause: Callable[[], None] | None = None) -> Any:
    """Parse a document of a client as `loads` does, but skip its parts beyond the limits.

    `cut_of` names the limit that was passed. `pause` is called every few milliseconds.
    """
    if len(data) <= _AT_ONCE and (limits.values is None or len(data) <= limits.values):
        try:
            return loads(data, levels=limits.levels)
        except ValueError:
            pass  # read again below, where parts are skipped, or the fault is named
    return _read(data, limits, pause or _no_pause)


def _loads_short(raw: bytes) -> Any:
    if len(raw) <= _SMALL:
        try:
            value = orjson.loads(raw)
        except ValueError:
            pass  # the exact parser says why
        else:
            if _is_exact(value, raw):
                return value
    if _SURROGATE.search(raw):
        orjson.loads(raw)  # refuses lone surrogates, which could never be written out again
    try:
        return _DECODER.decode(raw.decode("utf-8"))
    except RecursionError:
        raise TooDeep("the document nests too deeply") from None


def _read(raw: bytes, limits: Limits, pause: Callable[[], None]) -> Any:
    """The document, read in pieces."""
    most = limits.values
    if most is not None:
        if raw.count(b",") + raw.count(b"[") + raw.count(b"{") < most:
            most = None  # so few marks cannot part so many values
        elif has_more_values(raw, most, pause):
            most = FEW  # known beforehand, so that what is refused never takes the memory of its values
    reader = Reader(raw.decode("utf-8"), _SCAN, limits, most=most, pause=pause)
    value = reader.read()
    if _SURROGATE.search(raw):
        _refuse_lone_surrogates(value)
    return value


def _refuse_lone_surrogates(value: Any) -> None:
    """They could never be written out again."""
    parts: list[Any] = [value]
    for part in parts:  # which grows meanwhile
        if isinstance(part, str):
            part.encode()
        elif isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            parts += members
            parts += members.values()
        elif isinstance(part, list):
            parts += part


def _no_pause() -> None: ...


def is_longer(value: Any, most: int) -> bool:
    """True when `value` certainly takes more than that many bytes; found without encoding it."""
    parts: list[Any] = [value]
    size = 0
    for part in parts:  # which grows meanwhile
        if isinstance(part, str):
            size += len(part) + 2
        elif isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            if len(members) > most:
                return True
            size += sum(map(len, members)) + 4 * len(members)
            parts += members.values()
        elif isinstance(part, (list, tuple)):
            items = cast("list[Any]", part)
            if len(items) > most:
                return True
            parts += items
            size += len(items)
        else:
            size += 1
        if size > most:
            return True
    return False


def _is_exact(value: Any, raw: bytes) -> bool:
    """Whether the quick parser has read a document as the exact one does: no fraction, no name repeated.

    It keeps the last of two members of one name, so that fewer texts are left than were written.
    """
    texts = raw.count(b'"')  # each stands between two
    if b"\\" in raw:
        if b"\\\\" in raw:
            return False  # a quote after it may or may not end a text
        texts -= raw.count(b'\\"')
    parts: list[Any] = [value]
    for part in parts:  # which grows meanwhile
        if isinstance(part, str):
            texts -= 2
        elif isinstance(part, dict):
            texts -= 2 * len(cast("dict[str, Any]", part))
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, float):
            return False
    return not texts and len(parts) <= _MOST_PARTS


def dumps(value: Any, *, ordered: bool = False) -> bytes:
    """Encode `value` compactly, each `Decimal` as a number with its own digits; `ordered`: sorted by name."""
    option = _ORDERED if ordered else _PLAIN
    try:
        document = orjson.dumps(value, default=_exact, option=option)
    except TypeError as error:
        if "64-bit" not in str(error):
            raise
        document = orjson.dumps(_split_large(value), default=_exact, option=option)
    if b"null" in document:
        _refuse_nonfinite(value)
    return document


def dumps_each(values: Sequence[Any]) -> list[bytes]:
    """Encode values without floats in them, each as `dumps` does, in one go.

    What stands between two of them is a text that nobody can have put into one.
    """
    if not values:
        return []
    mark = os.urandom(8).hex()
    flat: list[Any] = [mark] * (2 * len(values) - 1)
    flat[::2] = values
    try:
        document = orjson.dumps(flat, option=_PLAIN)
    except TypeError:  # what the encoder takes only after a second look
        return list(map(dumps, values))
    return document[1:-1].split(b',"%b",' % mark.encode())


def _exact(value: Any) -> Any:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"{value} has no JSON form")
        plain = -_LONGEST_PLAIN <= value.adjusted() <= _LONGEST_PLAIN
        return Raw((format(value, "f") if plain else str(value)).encode())
    if isinstance(value, (tuple, frozenset, set)):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _refuse_nonfinite(value: Any) -> None:
    """The encoder writes NaN and infinities as null, which would be an answer nobody gave."""
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{value} has no JSON form")
    if isinstance(value, dict):
        for member in cast("dict[Any, Any]", value).values():
            _refuse_nonfinite(member)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in cast("list[Any]", value):
            _refuse_nonfinite(item)


def _split_large(value: Any) -> Any:
    """Integers past 64 bits as raw digits: the encoder takes no others."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else Raw(str(value).encode())
    if isinstance(value, dict):
        return {k: _split_large(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_split_large(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def quote(document: bytes) -> bytes:
    """`document` as the JSON string that carries it."""
    return orjson.dumps(document.decode("utf-8"))
