"""Facts as JSON values: what is read from services and from lines of files, checked field by field.

A value that does not fit raises `BadShape`, whose text names the field and what fits.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, cast

from tracedesk.foreign import quoted
from tracedesk.primitives import money, time
from tracedesk.primitives.text import sanitize_terminal, strip_invisible
from tracedesk.trading.sources.seam import METRICS, Candle, Quote, Ratios, Series, Story
from tracedesk.trading.units import PRICE_PLACES

SYMBOL: Final = re.compile(r"[A-Z0-9.^=-]{1,15}")
HEADLINE, SUMMARY, SOURCE, REASON = 300, 2_000, 100, 200
"""The most characters of a text from outside; longer ones end with an ellipsis."""
COLUMNS: Final = ("start", "open", "high", "low", "close", "volume", "adjusted_close")

_MOST_VOLUME: Final = 2**63 - 1
_SHOWN: Final = 80
"""Characters of a wrong value that a refusal shows."""
_MOST_RAW_TEXT: Final = 65_536


class BadShape(ValueError):
    """A value from outside that is not what it should be."""


# --- facts ----------------------------------------------------------------------------------------


def quote(symbol: str, value: Any, now_ns: int) -> Quote:
    """A quote: `price` and `as_of`, and perhaps `previous_close`, `volume`, `bid` and `ask`."""
    row = record(value, "the quote")
    as_of_ns = instant(row.get("as_of"), "as_of")
    if as_of_ns > now_ns:
        raise BadShape(f"as_of {time.format(as_of_ns)} lies after the clock, {time.format(now_ns)}")
    return Quote(
        symbol,
        dollars(row.get("price"), "price"),
        as_of_ns,
        optional_price(row, "previous_close"),
        None if row.get("volume") is None else volume(row["volume"], "volume"),
        optional_price(row, "bid"),
        optional_price(row, "ask"),
    )


def candles(value: Any, now_ns: int) -> tuple[Candle, ...]:
    """Rows of `COLUMNS`, oldest first."""
    found = tuple(_candle(row, f"row {at}") for at, row in enumerate(items(value, "the history")))
    _check_order([candle.start_ns for candle in found], now_ns)
    return found


def _candle(value: Any, where: str) -> Candle:
    row = items(value, where)
    if len(row) != len(COLUMNS):
        raise BadShape(f"{where} has {len(row)} values, not {len(COLUMNS)}: {', '.join(COLUMNS)}")
    opening, high, low, close = (dollars(row[at], f"{where} {COLUMNS[at]}") for at in range(1, 5))
    check_range(opening, high, low, close, where)
    start_ns = instant(row[0], f"{where} start")
    traded, adjusted = volume(row[5], f"{where} volume"), price(row[6], f"{where} adjusted_close")
    return Candle(start_ns, opening, high, low, close, traded, adjusted)


def series(value: Any, now_ns: int) -> Series:
    """Columns `sessions`, `adjusted_close` and `volume` of one length, oldest first."""
    row = record(value, "the series")
    sessions, closes, volumes = (items(row.get(n), n) for n in ("sessions", "adjusted_close", "volume"))
    if not len(sessions) == len(closes) == len(volumes):
        raise BadShape("sessions, adjusted_close and volume must be equally long")
    days = [day(value, "sessions") for value in sessions]
    _check_order([time.parse(each.isoformat()).ns for each in days], now_ns)
    return Series(
        array("q", [each.toordinal() for each in days]),
        array("d", [float(price(value, "adjusted_close")) for value in closes]),
        array("q", [volume(value, "volume") for value in volumes]),
    )


def story(symbol: str, value: Any) -> Story:
    """A story: `headline` and `published`, and perhaps `summary` and `source`."""
    row = record(value, "the story")
    return Story(
        symbol,
        text(row.get("headline"), "headline", HEADLINE, required=True),
        text(row.get("summary", ""), "summary", SUMMARY),
        instant(row.get("published"), "published"),
        text(row.get("source", ""), "source", SOURCE),
    )


def ratios(symbol: str, value: Any) -> Ratios:
    """Fundamentals: `as_of`, the metrics that are known, and perhaps `period_end`, `currency`, `missing`."""
    row = record(value, "the fundamentals")
    reasons = record(row.get("missing") or {}, "missing")
    known = {name: number(row[name], name) for name in METRICS if row.get(name) is not None}
    missing = {
        name: text(reasons.get(name, "not given by the provider"), f"missing {name}", REASON)
        for name in METRICS
        if name not in known
    }
    ended, currency = row.get("period_end"), row.get("currency")
    return Ratios(
        symbol,
        known,
        missing,
        instant(row.get("as_of"), "as_of", edge="end"),
        None if ended is None else day(ended, "period_end"),
        None if currency is None else text(currency, "currency", 3, required=True),
    )


def check_range(opening: Decimal, high: Decimal, low: Decimal, close: Decimal, where: str) -> None:
    """Refuse a bar whose high or low does not contain its open and close."""
    if high < max(opening, close) or low > min(opening, close):
        raise BadShape(f"{where} has a high of {high} and a low of {low} around {opening} and {close}")


def _check_order(starts: Sequence[int], now_ns: int) -> None:
    if any(after <= before for before, after in pairwise(starts)):
        raise BadShape("the rows must be in order of time, each once")
    if starts and starts[-1] > now_ns:
        raise BadShape(f"{time.format(starts[-1])} lies after the clock, {time.format(now_ns)}")


# --- fields ---------------------------------------------------------------------------------------


def record(value: Any, field: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise BadShape(f"{field} must be an object")
    return cast("dict[str, Any]", value)


def items(value: Any, field: str) -> Sequence[Any]:
    """A JSON array."""
    if not isinstance(value, list):
        raise BadShape(f"{field} must be an array")
    return cast("list[Any]", value)


def number(value: Any, field: str) -> Decimal:
    """A finite decimal: a JSON number, or its digits as text."""
    try:
        return money.parse(value)
    except ValueError:
        problem = f"{field} must be a decimal number such as 12.50 or 1e-8, not {shown(value)}"
        raise BadShape(problem) from None


def price(value: Any, field: str) -> Decimal:
    """A decimal above zero."""
    found = number(value, field)
    if found <= 0:
        raise BadShape(f"{field} must be above zero, not {found}")
    return found


def dollars(value: Any, field: str) -> Decimal:
    """A price that the ledger can hold."""
    found = price(value, field)
    if money.scale_of(found) > PRICE_PLACES:
        raise BadShape(f"{field} {found} has more than {PRICE_PLACES} decimal places")
    return found


def optional_price(row: Mapping[str, Any], field: str) -> Decimal | None:
    """A price, or None where it is absent, null or an empty cell."""
    value = row.get(field)
    return None if value is None or value == "" else dollars(value, field)


def volume(value: Any, field: str) -> int:
    """A whole number from zero on."""
    found = number(value, field)
    if found < 0 or found > _MOST_VOLUME or found != found.to_integral_value():
        raise BadShape(f"{field} must be a whole number from 0 on, not {found}")
    return int(found)


def day(value: Any, field: str) -> date:
    """A date such as 2024-03-01."""
    try:
        if not isinstance(value, str) or len(value) != len("2024-03-01"):
            raise ValueError
        return date.fromisoformat(value)
    except ValueError:
        raise BadShape(f"{field} must be a date such as 2024-03-01, not {shown(value)}") from None


def instant(value: Any, field: str, *, edge: time.Edge | None = None) -> int:
    """A time with its zone; where an edge is given also a date, which is then the begin or end of its day."""
    if not isinstance(value, str):
        raise BadShape(f"{field} must be a time such as 2024-03-01T09:30:00Z")
    try:
        found = time.parse(value, edge=edge or "start")
    except ValueError:
        problem = f"{field} must be a time such as 2024-03-01T09:30:00Z, not {shown(value)}"
        raise BadShape(problem) from None
    if found.form == "naive" or (found.form == "date" and edge is None):
        raise BadShape(f"{field} {shown(value)} needs a time of day and a zone, as in 2024-03-01T09:30:00Z")
    return found.ns


def shown(value: Any) -> str:
    """Return a value from outside as it stands in a sentence: a text quoted, of anything else the kind."""
    return quoted(value[:_SHOWN]) if isinstance(value, str) else f"a {type(value).__name__}"


def text(value: Any, field: str, most: int, *, required: bool = False) -> str:
    """A text from outside on one line, without controls and invisible characters, cut to a length."""
    if not isinstance(value, str):
        raise BadShape(f"{field} must be text")
    shown = clean(value, most)
    if required and not shown:
        raise BadShape(f"{field} must not be empty")
    return shown


def clean(value: str, most: int) -> str:
    """Return the text on one line, without controls and invisible characters, cut to a length."""
    visible = strip_invisible(sanitize_terminal(value[:_MOST_RAW_TEXT]))
    line = " ".join(visible.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
