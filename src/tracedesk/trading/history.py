"""`get_history`: bars of one symbol, in pages that go back from the newest, as objects or as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.journal.cursor import Cursor
from tracedesk.journal.model import BadEntry
from tracedesk.primitives import json
from tracedesk.primitives.time import format
from tracedesk.primitives.tokens import estimate
from tracedesk.trading import params
from tracedesk.trading.sources import periods
from tracedesk.trading.sources.seam import Candle

if TYPE_CHECKING:
    from tracedesk.trading.sources.gate import Got
    from tracedesk.trading.sources.seam import History
    from tracedesk.trading.trader import Request, Trader

MOST_ROWS: Final = 260
"""Bars in one page of objects."""

_PRICES: Final = ("open", "high", "low", "close", "volume", "adjusted_close")
_FREE: Final = ("cursor", "format")
"""Arguments that may change from page to page; every other one makes another series."""
_REST: Final = 200
"""Tokens for the cursor, the counts and the references of a page."""
_DATE: Final = len("2000-03-01")


@dataclass(frozen=True, slots=True)
class _Page:
    """The newest rows that fit, and whether older ones remain."""

    rows: Sequence[Candle]
    has_older: bool
    total: int


async def history(trader: Trader, request: Request) -> dict[str, Any]:
    args = request.args
    symbol = params.symbol(args["symbol"])
    _check_forming(args)
    series = _series_of(args)
    place = _place(args.get("cursor"), series, request.now_ns)
    got = await trader.gate.history(
        symbol, args["period"], args.get("interval"), place.upto, request.by, args.get("adjust")
    )
    request.used(got)
    wanted = _wanted(args, got.value, place)
    rows = [candle for candle in wanted if candle.start_ns < place.after]
    if not rows:
        raise _nothing(symbol, args)
    frame = _frame(got)
    if args.get("format") == "table":
        page = _fitted(rows, len(wanted), frame, request.call.budget, _columns(args))
    else:
        page = _Page(rows[-MOST_ROWS:], len(rows) > MOST_ROWS, len(wanted))
    return _body(args, page, frame, series, place)


def _check_forming(args: Mapping[str, Any]) -> None:
    if args.get("include_forming"):
        message = (
            "include_forming: of the session in progress only the open is known, so there is no bar of it. "
            "Leave it out; get_quotes has the open."
        )
        raise ToolError("DATA_UNAVAILABLE", message, {"path": ["include_forming"], "retryable": False})


# --- which rows ----------------------------------------------------------------------------------


def _series_of(args: Mapping[str, Any]) -> str:
    """Return the name of what pages are of: all arguments that select or restate rows."""
    bound = {name: value for name, value in args.items() if name not in _FREE}
    return params.digest(params.canonical("get_history", bound))


def _place(text: str | None, series: str, now_ns: int) -> Cursor:
    """Where the page ends: rows that begin before `after`, of the series as it was known at `upto`.

    Later pages are read as of the first one, so that a clock that moves meanwhile restates nothing.
    """
    if text is None:
        return Cursor(series, now_ns, now_ns)
    try:
        found = Cursor.parse(text, series)
    except BadEntry:
        found = None
    # A cursor can be forged; one from the future must not read it.
    if found is None or found.upto > now_ns:
        message = (
            "cursor is not of this series. Send nextCursor of the page before with the same symbol, period, "
            "interval, start, end and adjust, or leave it out."
        )
        raise ToolError("INVALID_INPUT", message, {"path": ["cursor"], "retryable": False})
    return found


def _wanted(args: Mapping[str, Any], found: History, place: Cursor) -> Sequence[Candle]:
    start, end = args.get("start"), args.get("end")
    if (start is None and end is None) or not found.candles:
        return found.candles
    last = place.upto if end is None else params.known_moment(end, "end", place.upto)
    first = found[0].start_ns if start is None else params.moment(start, "start")
    if first > last:
        raise _misplaced("start is after the end, or after the market's clock. Give an earlier one.")
    if args["period"] != "max" and first < found[0].start_ns:
        raise _misplaced(
            f"start is before period {args['period']!r} begins, at {format(found[0].start_ns)}. "
            "Ask for period 'max'."
        )
    return [candle for candle in found if first <= candle.start_ns <= last]


def _misplaced(problem: str) -> ToolError:
    return ToolError("INVALID_INPUT", problem, {"path": ["start"], "retryable": False})


def _nothing(symbol: str, args: Mapping[str, Any]) -> ToolError:
    message = (
        f"history of {symbol!r}: no bar of it begins from start to end within period {args['period']!r}. "
        "Give an earlier start, a later end or a longer period."
    )
    return ToolError("DATA_UNAVAILABLE", message, {"path": ["start"], "symbol": symbol, "retryable": False})


# --- what is shown -------------------------------------------------------------------------------


def _frame(got: Got[History]) -> dict[str, Any]:
    """What holds for every page of the series."""
    splits = [
        {"ex_date": split.ex_date.isoformat(), "ratio": f"{split.new}:{split.old}"}
        for split in got.value.splits
    ]
    frame: dict[str, Any] = {"adjust": got.value.basis}
    if splits:
        frame["splits"] = splits
    return {**frame, "notes": list(got.value.notes)} if got.value.notes else frame


def _body(
    args: Mapping[str, Any], page: _Page, frame: Mapping[str, Any], series: str, place: Cursor
) -> dict[str, Any]:
    body: dict[str, Any] = {"history": [], **frame}
    if args.get("format") == "table":
        columns = _columns(args)
        body["table"] = {"columns": columns, "rows": [_row(candle, columns[0]) for candle in page.rows]}
    else:
        body["history"] = [_bar(candle) for candle in page.rows]
    if len(page.rows) < page.total:
        body |= {"truncated": page.has_older, "total_rows": page.total}
    if page.has_older:
        body["nextCursor"] = Cursor(series, page.rows[0].start_ns, place.upto).text()
    return body


def _columns(args: Mapping[str, Any]) -> list[str]:
    """Return the names of a row; a bar of a day or more is named by the day of its first session."""
    interval = periods.check(args["period"], args.get("interval"))
    return ["timestamp" if interval in periods.INTRADAY else "session", *_PRICES]


def _fitted(
    rows: Sequence[Candle], total: int, frame: Mapping[str, Any], budget: int, columns: list[str]
) -> _Page:
    """Return as many of the newest rows as the budget of tokens holds, and at least one."""
    spent = estimate(json.dumps({**frame, "columns": columns})) + _REST
    kept = 0
    for candle in reversed(rows):
        spent += estimate(json.dumps(_row(candle, columns[0]))) + 1
        if kept and spent > budget:
            break
        kept += 1
    return _Page(rows[-kept:], kept < len(rows), total)


def _row(candle: Candle, name: str) -> list[Any]:
    stamp = format(candle.start_ns)
    # A session begins on its own day, in UTC too.
    return [stamp[:_DATE] if name == "session" else stamp, *_figures(candle)]


def _figures(candle: Candle) -> tuple[Any, ...]:
    prices = (candle.open, candle.high, candle.low, candle.close)
    return (*prices, candle.volume, candle.adjusted_close)


def _bar(candle: Candle) -> dict[str, Any]:
    return {
        "timestamp": format(candle.start_ns),
        **dict(zip(_PRICES, _figures(candle), strict=True)),
    }
