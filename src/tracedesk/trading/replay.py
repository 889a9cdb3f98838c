"""Range of a replay, from the first to the last session of all data present, and the steps of its clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from tracedesk.market import Move, ReplayClock, calendar, eastern
from tracedesk.market.clock import FIRST_NS, LAST_NS
from tracedesk.primitives import time
from tracedesk.trading.settings import Trading
from tracedesk.trading.sources.build import files_folder, own_bars

Step = Callable[[ReplayClock], Move]
"""Moves the clock it is given, by its own rule."""

_SPAN: Final = re.compile(r"([0-9]{1,5})([mhdw])")
_SPANS: Final = "30m, 6h, 5d or 2w"
_UNITS: Final = {"m": time.MINUTE, "h": time.HOUR, "d": time.DAY, "w": 7 * time.DAY}
_ONE_DAY: Final = timedelta(days=1)


class BadStep(ValueError):
    """A step that no clock can take."""


@dataclass(frozen=True, slots=True)
class Range:
    """The instants that a replay may stand at, and the symbols that own bars alone price."""

    first_ns: int = FIRST_NS
    last_ns: int = LAST_NS
    replaced: frozenset[str] = frozenset()

    def clock(self, at_ns: int | None = None) -> ReplayClock:
        """Return a clock in this range; raises `ClockError` for an instant outside."""
        bounds = {"first_ns": self.first_ns, "last_ns": self.last_ns}
        return ReplayClock(**bounds) if at_ns is None else ReplayClock(at_ns, **bounds)

    def next_open(self, now_ns: int) -> int | None:
        """Return when the exchange opens next; None when the replay ends before."""
        opens = next_open(now_ns)
        return None if opens is None or opens > self.last_ns else opens


SHIPPED: Final = Range()
"""The range of the bars that ship with the desk."""


def range_of(settings: Trading, home: Path) -> Range:
    """Return the range of the embedded bars and of those that the provider `files` has, where it is named."""
    providers = settings.providers
    if "files" not in (*providers.quotes, *providers.history):
        return SHIPPED
    from tracedesk.trading.sources import bar_files

    folder = files_folder(home, providers.folder)[0] / "bars"
    own, days = own_bars(providers, home), bar_files.span(folder)
    replaced = frozenset(path.stem for path in bar_files.files(folder)[0]) if own else frozenset[str]()
    if days is None:
        return Range(replaced=replaced)
    return Range(min(FIRST_NS, _first_ns(days[0])), max(LAST_NS, _last_ns(days[1])), replaced)


def next_open(now_ns: int) -> int | None:
    """Return when the exchange opens next; None when its calendar ends before."""
    try:
        return calendar.next_open(now_ns)
    except calendar.OutsideCalendar:
        return None


def _first_ns(day: date) -> int:
    """Return the open of the first session from the day on."""
    return calendar.open_ns(day if calendar.is_session(day) else calendar.next_session(day))


def _last_ns(day: date) -> int:
    """Return the last instant before a session that begins after the day."""
    try:
        return calendar.open_ns(calendar.next_session(day)) - 1
    except calendar.OutsideCalendar:
        return eastern.to_ns(calendar.LAST + _ONE_DAY) - 1


# --- steps ---------------------------------------------------------------------------------------


def to_time(text: str) -> Step:
    """Return the step to a time; raises `BadStep`."""
    try:
        target = time.parse(text)
    except ValueError as fault:
        raise BadStep(str(fault)) from None
    if target.zone_assumed:
        raise BadStep(f"{text!r} has no zone; say which, such as {text}Z or {text}-05:00 for New York")
    return lambda clock: clock.set(target.ns)


def by_span(text: str) -> Step:
    """Return the step by a span; raises `BadStep`."""
    span = _SPAN.fullmatch(text)
    if span is None:
        raise BadStep(f"takes a span like {_SPANS}, not {text[:40]!r}")
    ns = int(span[1]) * _UNITS[span[2]]
    if ns == 0:
        raise BadStep(f"takes a span of a minute or more, such as {_SPANS}, not {text!r}")
    return lambda clock: clock.advance(ns)


def to_open(clock: ReplayClock) -> Move:
    """Move to the next open."""
    return clock.to_open()


def to_close(clock: ReplayClock) -> Move:
    """Move to the next close."""
    return clock.to_close()
