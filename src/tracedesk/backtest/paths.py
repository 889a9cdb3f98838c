"""Property paths: `$.a.b` as segments, and what an event has there. Never a part of any SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from json import JSONDecoder
from typing import Any, Final, cast

from tracedesk.backtest import bodies
from tracedesk.backtest.model import RAW
from tracedesk.errors import ToolError
from tracedesk.primitives import money

LONGEST: Final = 256
DEEPEST: Final = 16
MISSING: Final = object()
"""What a path finds where nothing is; null is a value."""

_scan: Final = JSONDecoder(parse_float=Decimal).raw_decode
_SHORT: Final = 64
"""Characters of a number that is within the range of exact ones however it is written, but for E notation."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Path:
    """The keys from an event's properties to one value."""

    segments: tuple[str, ...]

    def __str__(self) -> str:
        return "$." + self.dotted

    @property
    def dotted(self) -> str:
        return ".".join(self.segments)

    def of(self, properties: Any) -> Any:
        """The value at the path, nested first; a key that itself has dots only when nothing nests."""
        found = properties
        for segment in self.segments:
            if not isinstance(found, dict) or segment not in found:
                return self._literal(properties)
            found = cast("dict[str, Any]", found)[segment]
        return found

    def _literal(self, properties: Any) -> Any:
        if isinstance(properties, dict):
            return cast("dict[str, Any]", properties).get(self.dotted, MISSING)
        return MISSING


def parse(text: str, name: str = "propertyPath") -> Path:
    """The path that a parameter spells as `$.a.b`."""
    if not text.startswith("$."):
        raise _refused(name, text, "does not begin with '$.'")
    return _path(text[2:], name, text)


def parse_plain(text: str, name: str) -> Path:
    """The same for parameters that also take the bare property, `a.b`."""
    return _path(text.removeprefix("$."), name, text)


def _path(dotted: str, name: str, text: str) -> Path:
    if len(text) > LONGEST:
        raise _refused(name, text, f"has {len(text)} characters, more than {LONGEST}")
    segments = tuple(dotted.split("."))
    if len(segments) > DEEPEST:
        raise _refused(name, text, f"has {len(segments)} segments, more than {DEEPEST}")
    for segment in segments:
        if not segment:
            raise _refused(name, text, "has an empty segment")
        if not _SEGMENT.fullmatch(segment):
            raise _refused(name, text, f"has the segment {segment[:40]!r}, which is no plain name")
    return Path(segments)


def _refused(name: str, text: str, problem: str) -> ToolError:
    shown = text if len(text) <= 80 else text[:80] + "…"
    message = (
        f"{name}: {shown!r} {problem}. Write it like $.Price or $.Parameters.Period; describe_run lists them."
    )
    return ToolError("INVALID_JSON_PATH", message, {"path": [name]})


def number(value: Any) -> Decimal | None:
    """The exact number a value is: a JSON number or decimal text, never a boolean, never a guess."""
    if type(value) is Decimal and value.is_finite() and value:
        text = str(value)
        if len(text) <= _SHORT and "E" not in text:
            return value
    elif type(value) is int and value.bit_length() < _SHORT:
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
        return None
    try:
        return money.parse(value)
    except ValueError:
        return None


def shallow(body: bytes) -> Any:
    """The same for answers that write them out again, which what nests too deeply cannot be: its text is."""
    if body.count(b"{") + body.count(b"[") <= bodies.DEEPEST:
        return properties(body)
    try:
        found = properties(body)
    except RecursionError:
        return {RAW: body.decode()}
    return {RAW: body.decode()} if bodies.nests_deeper(found) else found


def properties(body: bytes) -> Any:
    """An event's recorded properties, exactly. They were written as strict JSON without blanks."""
    return _scan(body.decode())[0]
