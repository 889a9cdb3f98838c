"""Times as callers write them: spans with both ends included, and what had to be assumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.primitives.time import EARLIEST, LATEST, MINUTE, SECOND, Edge, Instant, format, parse


@dataclass(frozen=True, slots=True)
class Span:
    """From `start_ns` to `end_ns`, both included; without bounds it is all of time."""

    start_ns: int = EARLIEST
    end_ns: int = LATEST
    warnings: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        return self.start_ns == EARLIEST and self.end_ns == LATEST

    def holds(self, ns: int) -> bool:
        return self.start_ns <= ns <= self.end_ns


ALWAYS = Span()


def stamp(ns: int) -> bytes:
    """An instant as `format` writes it. Most lie on a second, and many in the same minute."""
    minute, rest = divmod(ns, MINUTE)
    second, fraction = divmod(rest, SECOND)
    return format(ns).encode() if fraction else b"%s%02dZ" % (_minute(minute), second)


@lru_cache(maxsize=4_096)
def _minute(minutes: int) -> bytes:
    """The text of a minute, up to its seconds."""
    return format(minutes * MINUTE).removesuffix("00Z").encode()


def instant(args: Mapping[str, Any], name: str, edge: Edge) -> Instant:
    """The time that the parameter `name` spells; a date alone is the begin or the end of that day."""
    try:
        return parse(args[name], edge=edge)
    except ValueError as problem:
        beyond = _beyond(args[name], edge)
        if beyond is not None and edge == "start" and beyond.ns == LATEST:
            raise _future(
                name, args[name], "it is later than all that can be recorded, out of range"
            ) from None
        if beyond is not None:
            return beyond
        raise ToolError("INVALID_PARAMETER", f"{name}: {problem}.", {"path": [name]}) from None


def _beyond(text: str, edge: Edge) -> Instant | None:
    """All that can be recorded, for a time before its begin as a start, or after its end."""
    if not _YEAR.match(text):
        return None
    year = int(text[:4])
    # The calendar repeats itself after so many years, and this one's times can all be told.
    near = _NEAR + (year - _NEAR) % _CYCLE
    try:
        form = parse(f"{near}{text[4:]}", edge=edge).form
    except ValueError:
        return None
    if year > near:
        return Instant(LATEST, form)
    return Instant(EARLIEST, form) if edge == "start" and year < near else None


def refuse_future(args: Mapping[str, Any], now_ns: int, last_ns: int | None) -> None:
    """Refuse times that are later than both the clock and the run's last event; a date by its begin."""
    known = now_ns if last_ns is None else max(now_ns, last_ns)
    for name in _TIMES:
        if name in args and instant(args, name, "start").ns > known:
            raise _future(name, args[name], f"the latest time that can be asked about is {format(known)}")


def _future(name: str, text: str, why: str) -> ToolError:
    message = f"{name}: {text} is in the future: {why}. Give an earlier time"
    message += "." if name == "timestamp" else f", or leave {name} out."
    return ToolError("INVALID_TIME_RANGE", message, {name: text})


_TIMES: Final = ("startTime", "endTime", "timestamp")
_YEAR: Final = re.compile(r"[0-9]{4}-")
_NEAR: Final = 1800
_CYCLE: Final = 400


def span(args: Mapping[str, Any], first: str = "startTime", last: str = "endTime") -> Span:
    """The span between two optional parameters."""
    start = instant(args, first, "start") if first in args else None
    end = instant(args, last, "end") if last in args else None
    if start is not None and end is not None and start.ns > end.ns:
        message = f"{first} must be before or equal to {last}. Swap the two times, or leave one out."
        raise ToolError("INVALID_TIME_RANGE", message, {first: args[first], last: args[last]})
    return Span(
        EARLIEST if start is None else start.ns,
        LATEST if end is None else end.ns,
        (*assumed(first, start), *assumed(last, end)),
    )


def assumed(name: str, given: Instant | None) -> tuple[str, ...]:
    """The warning that a time without a zone deserves."""
    if given is None or not given.zone_assumed:
        return ()
    return (f"{name} has no zone and was taken as UTC; end it with Z or an offset",)
