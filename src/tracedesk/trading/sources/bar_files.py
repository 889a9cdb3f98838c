"""Files of daily bars as users have them: our own shape, and those of Yahoo, Stooq and Binance.

    date,open,high,low,close,volume[,adjusted_close]    ours: plain decimals, days as 2024-03-01
    Date,Open,High,Low,Close,Adj Close,Volume           Yahoo; also as yfinance writes its frames
    Date,Open,High,Low,Close,Volume                     Stooq; also with its Polish names
    <TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>,<OPENINT>    Stooq in bulk
    open_time,open,high,low,close,volume,close_time,…   Binance: klines of a day, also without header

The first lines say which shape a file has. Columns are found by their names, in any order. Each row is a
session of the exchange, oldest first; a row of Binance is a day of UTC. Our own rows have prices of at most
six places and whole volumes. Other shapes carry binary floats: their prices are rounded half-even to six
places, and volumes may have places. Rows without a single figure are no bars. Rows of other shapes from
before the exchange's calendar are left out and counted.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Final

from tracedesk.market import calendar
from tracedesk.primitives.money import quantise
from tracedesk.primitives.time import DAY, MICROSECOND, MILLISECOND
from tracedesk.trading.sources import candles, shapes, tables
from tracedesk.trading.sources.hours import EXCHANGE, UTC_DAYS, Hours
from tracedesk.trading.sources.tables import BadFile
from tracedesk.trading.units import PRICE_PLACES

COLUMNS: Final = ("date", "open", "high", "low", "close", "volume")
ADJUSTED: Final = "adjusted_close"
ACCEPTED: Final = (
    f"{','.join(COLUMNS)},[{ADJUSTED}], or those of a file of Yahoo (Date,Open,High,Low,Close,Adj Close,"
    "Volume), Stooq (Date,Open,High,Low,Close,Volume, or in bulk <TICKER>,<PER>,<DATE>,…) or Binance (klines "
    "of a day)"
)

_OWN: Final = re.compile(rb" *(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,6})? *")
_PLAIN: Final = re.compile(rb" *(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,20})? *")
_WHOLE: Final = re.compile(rb" *(?:0|[1-9][0-9]{0,17}) *")
_AMOUNT: Final = re.compile(rb" *(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})? *")
_NOTHING: Final = frozenset((b"", b"null", b"nan", b"NaN", b"None"))

_ISO: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]00:00(?::00(?:\.0+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_COMPACT: Final = re.compile(r"[0-9]{8}")
_SLASHED: Final = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_STAMP: Final = re.compile(r"[0-9]{13}|[0-9]{16}")

_YAHOO: Final[Mapping[str, str]] = {"adj close": ADJUSTED}
_BESIDE: Final = frozenset(("dividends", "stock splits", "capital gains", "openint"))
"""Columns of Yahoo and of Stooq that are not read."""
_POLISH: Final[Mapping[str, str]] = dict(
    zip(("data", "otwarcie", "najwyzszy", "najnizszy", "zamkniecie", "wolumen"), COLUMNS, strict=True)
)
_BULK: Final[Mapping[str, str]] = {f"<{name}>": name for name in COLUMNS} | {"<vol>": "volume"}
_BULK_BESIDE: Final = frozenset(("<ticker>", "<per>", "<time>", "<openint>"))
_KLINE: Final = ("open_time", "open", "high", "low", "close", "volume", "close_time")
_KLINE_WIDTH: Final = 12

MOST_NAMES: Final = 5_000
"""Files of a folder among which a misnamed one is looked for."""
_ENDINGS: Final = ".-_ ("
"""Characters that part a symbol from the rest of a file's name."""

ToDay = Callable[[str], date]


@dataclass(frozen=True, slots=True)
class Row:
    """A session's bar as its line has it."""

    session: date
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int | Decimal
    adjusted_close: Decimal


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the figures of a row are: `at` has the places of `COLUMNS` and of the adjusted close, or -1."""

    at: tuple[int, ...]
    width: int
    first: int
    """Lines before the first row."""
    is_own: bool = False
    hours: Hours = EXCHANGE
    to_day: ToDay | None = None
    ends: int = -1
    """The place of a kline's last moment."""
    period: int = -1
    """The place of a bulk row's period, which must be D."""


@dataclass(frozen=True, slots=True)
class Bars:
    """A file of bars: columns for arithmetic, and its lines, which are exact and small."""

    layout: Layout
    lines: tuple[bytes, ...]
    days: array[int]
    adjusted: array[float]
    volumes: array[int]
    """Whole shares; a fraction is cut off."""
    left_out: int = 0
    """Rows from before the exchange's calendar."""

    @property
    def hours(self) -> Hours:
        return self.layout.hours

    def row(self, index: int) -> Row:
        return _row(self.lines[index].split(b","), self.layout)

    def adjusted_digits(self, first: int, end: int) -> list[bytes]:
        """Return the adjusted closes of some rows as they are written."""
        at = self.layout.at[-1] if self.layout.at[-1] >= 0 else self.layout.at[COLUMNS.index("close")]
        return [line.split(b",")[at].strip() for line in self.lines[first:end]]

    def until(self, last: date | None) -> int:
        """Return the number of rows up to the day."""
        return 0 if last is None else bisect_right(self.days, last.toordinal())


def bars(name: str, raw: bytes) -> Bars:
    """Parse a file of bars; raises `BadFile` with the line that is wrong."""
    lines = raw.removeprefix(b"\xef\xbb\xbf").splitlines()
    layout = _layout(name, lines)
    kept: list[bytes] = []
    days, adjusted, volumes = array("q"), array("d"), array("q")
    left_out = 0
    for at, line in _filled(lines, layout):
        session, close, traded = _checked(name, at, line, layout)
        if not layout.is_own and session < layout.hours.first:
            left_out += 1
            continue
        _check_session(name, at, session, layout)
        if days and session.toordinal() <= days[-1]:
            raise BadFile(f"{name} line {at}: {session} does not come after the day before it")
        kept.append(line)
        days.append(session.toordinal())
        adjusted.append(close)
        volumes.append(traded)
    return Bars(layout, tuple(kept), days, adjusted, volumes, left_out)


def span(folder: Path) -> tuple[date, date] | None:
    """Return the first and the last day of all files of bars in a folder.

    Only the ends of a file are looked at; one whose ends do not read counts for nothing until it is mended.
    """
    found: list[date] = []
    for path in files(folder)[0]:
        try:
            found += _ends(path.name, tables.read(path.name, path)[1])
        except (BadFile, OSError):
            continue
    return (min(found), max(found)) if found else None


def files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files that are named for a symbol, and those whose names no symbol can have."""
    named: list[Path] = []
    others: list[Path] = []
    for path in sorted(folder.glob("*.csv")):
        (named if shapes.SYMBOL.fullmatch(path.stem) else others).append(path)
    return named, others


def misnamed(folder: Path, symbol: str) -> str | None:
    """Return the name of a file that seems to have a symbol's bars, and that no symbol's name leads to.

    Such are `spx.csv`, `^spx_d.csv` and `aapl.us.csv`: the symbol in small letters, or with an ending.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, MOST_NAMES))
    except OSError:
        return None
    wanted = symbol.lstrip("^").lower()
    return next((name for name in names if _is_near(Path(name), wanted)), None)


def _is_near(path: Path, wanted: str) -> bool:
    if path.suffix.lower() != ".csv" or (path.suffix == ".csv" and shapes.SYMBOL.fullmatch(path.stem)):
        return False
    rest = path.stem.lstrip("^").lower()
    return rest.startswith(wanted) and rest[len(wanted) :][:1] in ("", *_ENDINGS)


def _ends(name: str, raw: bytes) -> list[date]:
    lines = raw.removeprefix(b"\xef\xbb\xbf").splitlines()
    layout = _layout(name, lines)
    rows = [line for _, line in _filled(lines, layout)]
    rows = [*rows[:1], *rows[-1:]]
    return [max(_checked(name, 0, line, layout)[0], layout.hours.first) for line in rows]


# --- shapes --------------------------------------------------------------------------------------


def _layout(name: str, lines: Sequence[bytes]) -> Layout:
    """Return the shape that the first lines have, with the reading of its dates."""
    header = _names(lines[0]) if lines else []
    found = _own(header) or _klines(header) or _table(header, lines)
    if found is None:
        shown = shapes.shown(lines[0].decode("utf-8", "replace").strip() if lines else "")
        raise BadFile(f"{name} line 1: the columns must be {ACCEPTED}, not {shown}")
    if found.to_day is not None or found.is_own:
        return found
    return replace(found, to_day=_reading(name, lines, found))


def _names(line: bytes) -> list[str]:
    return [cell.strip().strip('"') for cell in line.decode("utf-8", "replace").split(",")]


def _own(header: Sequence[str]) -> Layout | None:
    if not set(COLUMNS) <= set(header) <= {*COLUMNS, ADJUSTED} or len(set(header)) != len(header):
        return None
    return Layout(_places(header), len(header), 1, is_own=True)


def _klines(header: Sequence[str]) -> Layout | None:
    names = [column.lower().replace(" ", "_") for column in header]
    if len(names) == _KLINE_WIDTH and _STAMP.fullmatch(names[0]):
        names, first = [*_KLINE, *(f"beside_{at}" for at in range(_KLINE_WIDTH - len(_KLINE)))], 0
    elif set(_KLINE) <= set(names) and len(set(names)) == len(names):
        first = 1
    else:
        return None
    places = tuple(names.index(column) for column in _KLINE)
    return Layout((*places[:-1], -1), len(names), first, hours=UTC_DAYS, to_day=_kline_day, ends=places[-1])


def _table(header: Sequence[str], lines: Sequence[bytes]) -> Layout | None:
    """Return the shape of a table whose columns are named as Yahoo, yfinance or Stooq do."""
    names, first = [column.lower() for column in header], 1
    if names[:1] == ["price"] and [_names(line)[0].lower() for line in lines[1:3]] == ["ticker", "date"]:
        names, first = ["date", *names[1:]], 3
    for known, beside in ((_YAHOO, _BESIDE), (_POLISH, frozenset[str]()), (_BULK, _BULK_BESIDE)):
        ours = [known.get(column, column) for column in names]
        extra = set(ours) - {*COLUMNS, ADJUSTED}
        if set(COLUMNS) <= set(ours) and extra <= beside and len(set(ours)) == len(ours):
            period = names.index("<per>") if "<per>" in names else -1
            return Layout(_places(ours), len(ours), first, period=period)
    return None


def _places(header: Sequence[str]) -> tuple[int, ...]:
    return tuple(header.index(column) if column in header else -1 for column in (*COLUMNS, ADJUSTED))


def _filled(lines: Sequence[bytes], layout: Layout) -> Iterator[tuple[int, bytes]]:
    """Yield the rows that have figures, with the numbers of their lines."""
    for at, line in enumerate(lines[layout.first :], layout.first + 1):
        bare = line if layout.is_own else line.replace(b'"', b"")
        if bare.strip() and not _is_empty(bare.split(b","), layout):
            yield at, bare


def _is_empty(cells: Sequence[bytes], layout: Layout) -> bool:
    """Find a row of another shape that has a day and no figure."""
    if layout.is_own or len(cells) != layout.width:
        return False
    return all(cells[layout.at[i]].strip() in _NOTHING for i in range(1, 5))


# --- days ----------------------------------------------------------------------------------------


def _reading(name: str, lines: Sequence[bytes], layout: Layout) -> ToDay:
    """Return the reading of the dates that the first row's has; for days with slashes all rows decide."""
    rows = ((at, line.split(b",")) for at, line in _filled(lines, layout))
    dates = (
        (at, cells[layout.at[0]].decode("ascii", "replace").strip())
        for at, cells in rows
        if len(cells) == layout.width
    )
    at, first = next(dates, (layout.first + 1, ""))
    if _COMPACT.fullmatch(first):
        return _compact_day
    if not _SLASHED.fullmatch(first):
        return _iso_day
    found = [match for _, text in ((at, first), *dates) if (match := _SLASHED.fullmatch(text))]
    is_month_first = any(int(match[2]) > 12 for match in found)
    is_day_first = any(int(match[1]) > 12 for match in found)
    if is_month_first == is_day_first:
        raise BadFile(
            f"{name} line {at}: {shapes.shown(first)} does not say which number is the month. Write dates "
            "as 2024-03-01"
        )
    return _month_first if is_month_first else _day_first


def _iso_day(text: str) -> date:
    match = _ISO.fullmatch(text)
    if match is None:
        raise shapes.BadShape(f"date must be a day such as 2024-03-01 or 20240301, not {shapes.shown(text)}")
    return shapes.day(match[1], "date")


def _compact_day(text: str) -> date:
    return shapes.day(f"{text[:4]}-{text[4:6]}-{text[6:]}" if _COMPACT.fullmatch(text) else text, "date")


def _month_first(text: str) -> date:
    return _slashed(text, 1, 2)


def _day_first(text: str) -> date:
    return _slashed(text, 2, 1)


def _slashed(text: str, month: int, day: int) -> date:
    match = _SLASHED.fullmatch(text)
    if match is None:
        raise shapes.BadShape(f"date must be written as the rows before, not {shapes.shown(text)}")
    return shapes.day(f"{match[3]}-{int(match[month]):02}-{int(match[day]):02}", "date")


def _kline_day(text: str) -> date:
    ns = _stamp(text, "open_time")
    if ns % DAY:
        raise shapes.BadShape(f"open_time {text} is not a midnight of UTC; klines of a day are read")
    return UTC_DAYS.day_of(ns)


def _stamp(text: str, field: str) -> int:
    """Return a time of Binance, which counts milliseconds, or since 2025 microseconds."""
    if not _STAMP.fullmatch(text):
        raise shapes.BadShape(
            f"{field} must be milliseconds or microseconds since 1970, not {shapes.shown(text)}"
        )
    return int(text) * (MILLISECOND if len(text) == 13 else MICROSECOND)


# --- rows ----------------------------------------------------------------------------------------


def _checked(name: str, at: int, line: bytes, layout: Layout) -> tuple[date, float, int]:
    """Return a line's day, adjusted close and volume."""
    cells = line.split(b",")
    try:
        if len(cells) != layout.width:
            raise shapes.BadShape(f"{len(cells)} cells, not {layout.width}")
        figures = _OWN if layout.is_own else _PLAIN
        opening, high, low, close = (_float(cells[layout.at[i]], figures) for i in range(1, 5))
        if not 0 < low <= min(opening, close) <= max(opening, close) <= high:
            shapes.check_range(*_prices(cells, layout), "the bar")
        adjusted = close if layout.at[-1] < 0 else _float(cells[layout.at[-1]], _PLAIN)
        if adjusted <= 0:
            raise shapes.BadShape(f"{ADJUSTED} must be above zero")
        session = _day(cells, layout)
        return session, adjusted, int(_volume(cells, layout))
    except ValueError as error:
        raise BadFile(f"{name} line {at}: {error}") from None


def _check_session(name: str, at: int, session: date, layout: Layout) -> None:
    try:
        reason = layout.hours.closed_for(session)
    except ValueError as error:
        raise BadFile(f"{name} line {at}: {error}") from None
    if reason is not None:
        problem = f"{session} is not a session of the exchange ({reason})"
        if session.weekday() >= calendar.SATURDAY:
            problem += "; bars of a market that never closes are read as klines of Binance alone"
        raise BadFile(f"{name} line {at}: {problem}")


def _day(cells: Sequence[bytes], layout: Layout) -> date:
    text = cells[layout.at[0]].decode("ascii", "replace").strip()
    if layout.period >= 0 and cells[layout.period].strip() != b"D":
        raise shapes.BadShape(f"<PER> must be D: rows of a day are read, not {_shown(cells[layout.period])}")
    found = shapes.day(text, "date") if layout.to_day is None else layout.to_day(text)
    if layout.ends >= 0:
        last = cells[layout.ends].decode("ascii", "replace").strip()
        unit = MILLISECOND if len(last) == 13 else MICROSECOND
        if _stamp(last, "close_time") + unit != layout.hours.end_ns(found):
            raise shapes.BadShape(f"close_time {last} is not the end of its day; klines of a day are read")
    return found


def _float(cell: bytes, form: re.Pattern[bytes]) -> float:
    if not form.fullmatch(cell):
        places = PRICE_PLACES if form is _OWN else 20
        raise shapes.BadShape(f"{_shown(cell)} is not a plain decimal with at most {places} places")
    return float(cell)


def _volume(cells: Sequence[bytes], layout: Layout) -> int | Decimal:
    cell = cells[layout.at[COLUMNS.index("volume")]]
    if not (_WHOLE if layout.is_own else _AMOUNT).fullmatch(cell):
        kind = "a whole number of shares" if layout.is_own else "a plain decimal"
        raise shapes.BadShape(f"volume {_shown(cell)} is not {kind}")
    if _WHOLE.fullmatch(cell):
        return int(cell)
    amount = Decimal(cell.decode("ascii").strip())
    return amount if amount % 1 else int(amount)


def _shown(cell: bytes) -> str:
    return shapes.shown(cell.decode("utf-8", "replace"))


def _prices(cells: Sequence[bytes], layout: Layout) -> tuple[Decimal, Decimal, Decimal, Decimal]:
    opening, high, low, close = (_price(cells[layout.at[at]], COLUMNS[at], layout) for at in range(1, 5))
    return opening, high, low, close


def _price(cell: bytes, field: str, layout: Layout) -> Decimal:
    text = cell.decode("ascii").strip()
    if layout.is_own:
        return shapes.dollars(text, field)
    rounded = candles.tidy(quantise(Decimal(text), PRICE_PLACES))
    return shapes.dollars(rounded, field)


def _row(cells: Sequence[bytes], layout: Layout) -> Row:
    opening, high, low, close = _prices(cells, layout)
    at = layout.at[-1]
    adjusted = close if at < 0 else shapes.price(cells[at].decode("ascii").strip(), ADJUSTED)
    return Row(_day(cells, layout), opening, high, low, close, _volume(cells, layout), adjusted)
