"""Charts as inline SVG: lines that keep every extreme, marks on them, and axes a person can read.

Coordinates are binary floats: they place ink, and no figure is read back from them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final, Literal

from tracedesk.primitives.time import DAY, HOUR, MINUTE, SECOND
from tracedesk.primitives.time import format as iso

WIDTH: Final = 960
LEFT: Final = 72
RIGHT: Final = 16
TOP: Final = 10
BOTTOM: Final = 24
PLOT: Final = WIDTH - LEFT - RIGHT
COLUMNS: Final = PLOT
"""Columns a line is reduced to: one for each unit of the plot's width."""

MARK: Final = 8
"""Units of width within which marks of one kind are drawn as one."""

LARGEST: Final = 1e305
"""The largest value of a plot, either way: the distance of two such is a number, also in percent."""

_NARROWEST: Final = 1e-12
"""The least height of a plot, as a share of its values: below, its grid's values could not be told apart."""

_SMALLEST: Final = 1e-290
"""The least height of a plot at all."""

_MOST_PLACES: Final = 10

Side = Literal["buy", "sell", "other", "rejected"]

_STEPS: Final = (SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE)
_SPANS: Final = (*_STEPS, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY)
_MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)


@dataclass(slots=True)
class Series:
    """Values over time, in the order they were recorded."""

    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, ns: int, value: float) -> None:
        self.times.append(ns)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.times)

    def sorted(self) -> Series:
        """The same by time; values of one instant keep their order."""
        if all(a <= b for a, b in zip(self.times, self.times[1:], strict=False)):
            return self
        order = sorted(range(len(self)), key=self.times.__getitem__)
        times = array("q", (self.times[i] for i in order))
        return Series(times, array("d", (self.values[i] for i in order)))


@dataclass(slots=True)
class Mark:
    """One or more things that happened within a few units of width, at about one price."""

    side: Side
    words: str
    count: int = 0
    ns: float = 0.0
    value: float = 0.0

    def take(self, ns: int, value: float) -> None:
        """Move the mark to the mean of what it stands for."""
        self.count += 1
        self.ns += (ns - self.ns) / self.count
        self.value += (value - self.value) / self.count


class Marks:
    """Marks of a chart whose span is known: those too close to tell apart become one, which counts them."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._width = start, max(1, end - start)
        self._found: dict[tuple[int, Side], Mark] = {}
        self.count = 0

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def add(self, ns: int, value: float, side: Side, words: str) -> None:
        self.count += 1
        column = (ns - self._start) * PLOT // self._width // MARK
        mark = self._found.setdefault((column, side), Mark(side, words))
        mark.take(ns, _held(value, -LARGEST, LARGEST))


@dataclass(frozen=True, slots=True)
class Frame:
    """The window of a chart: which instants and values its plot spans."""

    start: int
    end: int
    low: float
    high: float
    height: int

    def x(self, ns: float) -> float:
        return LEFT + PLOT * (ns - self.start) / max(1, self.end - self.start)

    def y(self, value: float) -> float:
        inside = _held(value, self.low, self.high)
        return TOP + self.plot_height * ((self.high - inside) / (self.high - self.low))

    @property
    def plot_height(self) -> int:
        return self.height - TOP - BOTTOM


def frame(start: int, end: int, values: Sequence[float], height: int, *, zero: bool = False) -> Frame:
    """A window around the values, with some air; `zero` keeps the zero line in it and at its edge."""
    low, high = (_held(end, -LARGEST, LARGEST) for end in (min(values, default=0), max(values, default=0)))
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    size = max(abs(low), abs(high))
    if high - low <= max(size * _NARROWEST, _SMALLEST):
        margin = 0.01 * (size if size > _SMALLEST else 1.0)
        low, high = low - margin, high + margin
    air = (high - low) * 0.06
    top = high if zero and high == 0 else high + air
    return Frame(start, max(end, start + 1), low - air, top, height)


def _held(value: float, low: float, high: float) -> float:
    """The value, or the end of the range that it lies beyond."""
    return min(max(value, low), high)


# --- parts ------------------------------------------------------------------------------------


def reduced(series: Series, window: Frame, columns: int = COLUMNS) -> Iterator[tuple[int, float]]:
    """At most four points a column: its first, lowest, highest and last value, so that no extreme is lost."""
    if len(series) <= 2 * columns:
        yield from zip(series.times, series.values, strict=True)
        return
    width = max(1, window.end - window.start)
    begin, current = 0, -1
    for index, ns in enumerate(series.times):
        column = (ns - window.start) * columns // width
        if column != current:
            yield from _extremes(series, begin, index)
            begin, current = index, column
    yield from _extremes(series, begin, len(series))


def _extremes(series: Series, begin: int, end: int) -> Iterator[tuple[int, float]]:
    if begin == end:
        return
    span = range(begin, end)
    kept = {
        begin,
        min(span, key=series.values.__getitem__),
        max(span, key=series.values.__getitem__),
        end - 1,
    }
    for index in sorted(kept):
        yield series.times[index], series.values[index]


def line(series: Series, window: Frame, style: str) -> str:
    """The series as one line."""
    points = " ".join(f"{window.x(ns):.1f},{window.y(value):.1f}" for ns, value in reduced(series, window))
    return f'<polyline class="{style}" points="{points}"/>' if points else ""


def area(series: Series, window: Frame, style: str) -> str:
    """The series as an area between its line and zero."""
    if not len(series):
        return ""
    points = " ".join(f"{window.x(ns):.1f},{window.y(value):.1f}" for ns, value in reduced(series, window))
    base = window.y(0.0)
    first, last = window.x(series.times[0]), window.x(series.times[-1])
    return f'<polygon class="{style}" points="{first:.1f},{base:.1f} {points} {last:.1f},{base:.1f}"/>'


def marks(found: Iterable[Mark], window: Frame) -> str:
    """Triangles for buys and sells, crosses for rejections, rings for the rest."""
    return "".join(_mark(mark, window) for mark in found)


def _mark(mark: Mark, window: Frame) -> str:
    shape = _shape(mark.side, window.x(mark.ns), window.y(mark.value))
    words = mark.words if mark.count == 1 else f"{mark.count} together, the first: {mark.words}"
    return f'<g class="mark {mark.side}"><title>{escape(words)}</title>{shape}</g>'


def _shape(side: Side, x: float, y: float) -> str:
    if side == "buy":
        return f'<path d="M{x:.1f} {y + 3:.1f}l-5 9h10z"/>'
    if side == "sell":
        return f'<path d="M{x:.1f} {y - 3:.1f}l-5 -9h10z"/>'
    if side == "rejected":
        return f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def svg(window: Frame, label: str, body: str, *, percent: bool = False) -> str:
    """A chart: its grid and axes, then what is drawn on them."""
    head = f'<svg viewBox="0 0 {WIDTH} {window.height}" role="img" aria-label="{escape(label, quote=True)}">'
    return f"{head}<title>{escape(label)}</title>{_rows(window, percent)}{_ticks(window)}{body}</svg>"


# --- axes -------------------------------------------------------------------------------------


def _rows(window: Frame, percent: bool) -> str:
    values = nice(window.low, window.high, max(2, window.plot_height // 34))
    step = values[1] - values[0] if len(values) > 1 else 1.0
    texts = labels(values, step, percent=percent)
    right = WIDTH - RIGHT
    return "".join(
        f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{window.y(value):.1f}" y2="{window.y(value):.1f}"/>'
        f'<text class="axis" x="{LEFT - 8}" y="{window.y(value) + 4:.1f}" text-anchor="end">{text}</text>'
        for value, text in zip(values, texts, strict=True)
    )


def nice(low: float, high: float, count: int) -> list[float]:
    """Round values between `low` and `high`, about `count` of them."""
    raw = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def labels(values: Sequence[float], step: float, *, percent: bool = False) -> list[str]:
    """The values as an axis names them, each with the places that tell them apart."""
    if percent:
        places = min(_MOST_PLACES, max(0, -math.floor(math.log10(step * 100) + 1e-9)))
        return [f"{value * 100 + 0.0:.{places}f} %" for value in values]
    top = max(map(abs, values), default=0.0)
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if top >= size:
            unit_size = 1e3 if unit == "k" else size
            places = _places(step / unit_size)
            return [f"{value / unit_size + 0.0:.{places}f}{unit}" if value else "0" for value in values]
    return [f"{value + 0.0:.{_places(step)}f}" for value in values]


def _places(step: float) -> int:
    """Places after the point that write a step in full, up to ten."""
    for places in range(_MOST_PLACES):
        if abs(round(step, places) - step) < step * 1e-6:
            return places
    return _MOST_PLACES


def _ticks(window: Frame) -> str:
    y = window.height - BOTTOM
    parts: list[str] = []
    for ns, text in instants(window.start, window.end):
        x = window.x(ns)
        anchor = "start" if x < LEFT + 20 else "end" if x > WIDTH - RIGHT - 20 else "middle"
        parts.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{y}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="{y + 16}" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def instants(start: int, end: int, count: int = 8) -> list[tuple[int, str]]:
    """About `count` round instants of the span, with their names."""
    raw = (end - start) / count
    step = next((s for s in _SPANS if s >= raw), None)
    if step is None:
        return _months(start, end, raw)
    first = -(-start // step) * step
    return [(ns, _named(ns, step, start, end)) for ns in range(first, end + 1, step)]


def _named(ns: int, step: int, start: int, end: int) -> str:
    text = iso(ns)
    if step >= DAY:
        return text[5:10] if text[:4] == iso(start)[:4] == iso(end)[:4] else text[:10]
    time = text[11:16] if step >= MINUTE else text[11:19]
    return f"{text[5:10]} {time}" if end - start > DAY else time


def _months(start: int, end: int, raw: float) -> list[tuple[int, str]]:
    wanted = raw / (30.44 * DAY)
    step = next((m for m in _MONTHS if m >= wanted), _MONTHS[-1])
    year, month = (int(part) for part in iso(start)[:7].split("-"))
    number = -(-(year * 12 + month - 1) // step) * step
    found: list[tuple[int, str]] = []
    while number // 12 <= 9999 and (ns := _month_ns(number)) <= end:
        if ns >= start:
            found.append(
                (ns, f"{number // 12:04}" if step >= 12 else f"{number // 12:04}-{number % 12 + 1:02}")
            )
        number += step
    return found


def _month_ns(number: int) -> int:
    since = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(seconds=1) * SECOND
