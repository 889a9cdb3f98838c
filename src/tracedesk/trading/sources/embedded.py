"""The provider `embedded`: the bars that ship with the desk, as they were known at an instant.

Inside a session only its open is known, so a forming bar is never given. The body of an answer is one JSON
document with the provider, the time it tells of, the digests of the data files it came from, and under
`/symbols/<symbol>` every value that was handed over.
"""

from __future__ import annotations

import os
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from tracedesk.errors import ToolError
from tracedesk.market import Bar, Bars, NoBars, Split, View, calendar, eastern
from tracedesk.market.clock import FIRST_NS, LAST_NS
from tracedesk.primitives import json
from tracedesk.primitives.time import ManualClock, format
from tracedesk.trading.sources import candles, periods
from tracedesk.trading.sources.seam import (
    Adjust,
    Candle,
    Fetch,
    History,
    Quote,
    Series,
    invalid_symbol,
    unavailable,
)

T = TypeVar("T")

_VIEWS: Final = 4
_SERIES: Final = 64


class Embedded:
    """Quotes and daily bars without a network: five real shares from 2000 to 2013."""

    name = "embedded"
    local = True
    kinds = ("quotes", "history")

    def __init__(self, *, is_replay: bool = False, own_bars: Path | None = None) -> None:
        """Take the folder whose files price their symbols alone.

        In a replay a share that has ended keeps its last close, so that what is held of it has a value.
        """
        self._is_replay = is_replay
        self._own_bars = None if own_bars is None else str(own_bars)
        self._views: OrderedDict[int, View] = OrderedDict()
        self._columns: OrderedDict[tuple[str, int, int, int], tuple[Series, Any]] = OrderedDict()

    def served(self, symbols: list[str]) -> list[str]:
        """Return the symbols that no dropped file prices; one that does not read counts too, to be named."""
        folder = self._own_bars
        if folder is None or not os.path.isdir(folder):
            return symbols
        return [symbol for symbol in symbols if not os.path.exists(f"{folder}/{symbol}.csv")]

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        """The open of the session in progress, else the last close."""
        return self._fetch("quotes", symbols, now_ns, _quote)

    async def daily(self, symbols: Sequence[str], count: int, now_ns: int) -> Fetch[Series]:
        """Up to `count` of the last full sessions."""
        return self._fetch("daily", symbols, now_ns, lambda view, symbol: self._series(view, symbol, count))

    async def history(
        self, symbol: str, period: str, interval: str, now_ns: int, adjust: Adjust | None = None
    ) -> Fetch[History]:
        """The complete bars of a period; there are none shorter than a day."""
        periods.check(period, interval)
        if interval in periods.INTRADAY:
            remedy = f"The embedded data are daily: ask for interval '1d', not {interval!r}."
            return Fetch({}, {symbol: unavailable(symbol, f"history at {interval}", remedy)})
        basis = adjust or "splits"
        asked = {"period": period, "interval": interval, "adjust": basis}
        return self._fetch(
            "history",
            [symbol],
            now_ns,
            lambda view, name: _history(view, name, period, interval, basis),
            asked,
        )

    def _fetch(
        self,
        kind: str,
        symbols: Sequence[str],
        now_ns: int,
        read: Callable[[View, str], tuple[T, Any]],
        asked: dict[str, Any] | None = None,
    ) -> Fetch[T]:
        has_ended = now_ns > LAST_NS and kind != "history" and not self._is_replay
        if now_ns < FIRST_NS or has_ended:
            return Fetch({}, {symbol: _outside(symbol, kind, now_ns) for symbol in symbols})
        view = self._view(now_ns)
        values: dict[str, T] = {}
        shown: dict[str, Any] = {}
        failures: dict[str, ToolError] = {}
        for symbol in sorted(set(symbols)):
            try:
                values[symbol], shown[symbol] = read(view, symbol)
            except NoBars:
                failures[symbol] = invalid_symbol(symbol, view.symbols())
            except ToolError as error:
                failures[symbol] = error
        return Fetch(values, failures, _body(kind, now_ns, {**(asked or {}), **_splits(values)}, shown))

    def _view(self, now_ns: int) -> View:
        """A view never changes, so the last few are kept with the bars that they have cut."""
        view = self._views.pop(now_ns, None) or View(ManualClock(now_ns))
        self._views[now_ns] = view
        if len(self._views) > _VIEWS:
            self._views.popitem(last=False)
        return view

    def _series(self, view: View, symbol: str, count: int) -> tuple[Series, Any]:
        """A series changes when a session closes, and its volumes when a split's ex-date opens."""
        bars, splits = view.bars(symbol), len(view.splits(symbol))
        if not bars or count < 1:
            raise unavailable(symbol, "daily bars", "No session of it has closed yet; move the clock on.")
        key = (symbol, bars.days[-1], splits, count)
        found = self._columns.pop(key, None) or _series(view, symbol, count)
        self._columns[key] = found
        if len(self._columns) > _SERIES:
            self._columns.popitem(last=False)
        return found


def _outside(symbol: str, kind: str, now_ns: int) -> ToolError:
    remedy = (
        f"The embedded data run from {format(FIRST_NS)} to {format(LAST_NS)} and the clock stands at "
        f"{format(now_ns)}: use a replay clock, or name another provider in [trading.providers]."
    )
    return unavailable(symbol, kind, remedy)


# --- what is read from a view ---------------------------------------------------------------------


def _quote(view: View, symbol: str) -> tuple[Quote, Any]:
    known = view.quote(symbol)
    volume, day = known.volume, None
    if volume is None and (bars := view.bars(symbol)):
        # Of the session in progress only the open is known: the volume is that of the session before.
        (volume,) = view.volumes(symbol, len(bars) - 1, len(bars))
        day = date.fromordinal(bars.days[-1])
    quote = Quote(symbol, known.price, known.as_of_ns, known.previous_close, volume, volume_day=day)
    return quote, {
        "price": known.price,
        "basis": known.basis,
        "session": known.session.isoformat(),
        "as_of": format(known.as_of_ns),
        "previous_close": known.previous_close,
        "volume": volume,
        **({"volume_session": day.isoformat()} if day else {}),
    }


def _series(view: View, symbol: str, count: int) -> tuple[Series, Any]:
    """The series, and its part of a body, encoded once."""
    bars = view.bars(symbol)
    recent = bars.latest(count)
    sessions = [bar.session for bar in recent]
    series = Series(
        array("q", [session.toordinal() for session in sessions]),
        array("d", [float(bar.adjusted_close) for bar in recent]),
        array("q", view.volumes(symbol, len(bars) - len(recent), len(bars))),
    )
    shown = {
        "sessions": [session.isoformat() for session in sessions],
        "adjusted_close": [bar.adjusted_close for bar in recent],
        "volume": series.volumes.tolist(),
    }
    return series, json.Raw(json.dumps(shown))


def _history(view: View, symbol: str, period: str, interval: str, adjust: Adjust) -> tuple[History, Any]:
    bars = view.bars(symbol)
    days = bars.days
    first = candles.first_needed(days, period, interval, eastern.to_day(view.now_ns))
    wanted = (
        bars.between(date.fromordinal(days[first]), date.fromordinal(days[-1])) if first < len(days) else ()
    )
    splits = view.splits(symbol)
    # An adjusted close knows the splits up to its last bar; one whose ex-date has just opened is added.
    pending = [split for split in splits if days and split.ex_date.toordinal() > days[-1]]
    daily = [_candle(bar, pending if adjust == "splits" else ()) for bar in wanted]
    found = candles.gather(daily, interval, splits, adjust)
    if not found:
        raise unavailable(symbol, f"history over {period}", _no_bars(bars, interval))
    begins = date.fromordinal(days[first])
    applied = tuple(s for s in splits if adjust == "splits" and s.ex_date > begins)
    return History(found, adjust, applied), [_shown(candle) for candle in found]


def _no_bars(bars: Bars, interval: str) -> str:
    if not bars:
        return "No session of it has closed yet; move the clock on."
    return f"No bar of {interval} is complete in it; the last session known is {bars[-1].session}."


def _candle(bar: Bar, pending: Sequence[Split]) -> Candle:
    adjusted = candles.tidy(candles.in_new_shares(bar.adjusted_close, pending))
    start_ns = calendar.open_ns(bar.session)
    return Candle(start_ns, bar.open, bar.high, bar.low, bar.close, bar.volume, adjusted)


def _shown(candle: Candle) -> list[Any]:
    prices = (candle.open, candle.high, candle.low, candle.close)
    return [format(candle.start_ns), *prices, candle.volume, candle.adjusted_close]


# --- the body -------------------------------------------------------------------------------------


def _splits(values: Mapping[str, Any]) -> dict[str, Any]:
    """The splits that histories are adjusted for."""
    histories = [value for value in values.values() if isinstance(value, History)]
    splits = {each.ex_date.isoformat(): f"{each.new}:{each.old}" for one in histories for each in one.splits}
    return {"splits": splits} if histories else {}


def _body(kind: str, now_ns: int, asked: dict[str, Any], shown: dict[str, Any]) -> bytes:
    if not shown:
        return b""
    document: dict[str, Any] = {
        "provider": Embedded.name,
        "kind": kind,
        **candles.told_of(kind, now_ns),
        **asked,
    }
    if kind == "history":
        document["columns"] = ["start", "open", "high", "low", "close", "volume", "adjusted_close"]
    document["dataset"] = dataset(tuple(shown))
    document["symbols"] = shown
    return json.dumps(document)


@cache
def _manifest() -> dict[str, Any]:
    """The digests that the data files were checked against; of it, nothing else is used."""
    return json.loads(files("tracedesk.market").joinpath("data", "manifest.json").read_bytes())


def dataset(symbols: tuple[str, ...]) -> dict[str, Any]:
    """Where embedded symbols come from, and the digests of the files they were read from."""
    digests, source = _manifest()["sha256"], _manifest()["source"]
    names = [name for name in (*(f"{symbol}.bars" for symbol in symbols), "actions.csv") if name in digests]
    return {
        "source": f"{source['package']}, {source['file']}",
        "sha256": {name: digests[name] for name in names},
    }
