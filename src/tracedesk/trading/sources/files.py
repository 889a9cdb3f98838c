"""The provider `files`: market facts that the user drops into a folder of the home.

    bars/<SYMBOL>.csv     daily bars, oldest first, in one of the shapes of `bar_files`
    quotes.csv            symbol,time,price[,previous_close,volume,bid,ask]   the last row up to the clock
    fundamentals.csv      symbol,as_of[,period_end,currency,<metric>…]        an empty cell is not known
    fundamentals.jsonl  {"symbol", "as_of", "period_end"?, "currency"?, <metric>…, "missing"?: {<metric>: …}}
    news/<any>.jsonl      {"symbol" or "symbols", "headline", "published", "summary"?, "source"?}
    news/<SYMBOL>.rss, .atom or .xml    a feed whose stories are about the symbol

Times are ISO 8601 with a zone; `as_of` may be a date, which is known from the end of that UTC day on. Numbers
are plain decimals, prices with six places at most. Without an adjusted close the close stands for it. Prices
are given as the file has them: nothing says for which splits its source has adjusted them.

Nothing after the clock is read: a session's bar counts from its close on, and its open from its open on. A
symbol without a row in quotes.csv is quoted from its bars: the open of the session in progress, else the last
close; of both, the newer one holds.

A file that is missing is DATA_UNAVAILABLE with the place it was looked for. A file that does not read is
DATA_UNAVAILABLE with its name and line; no row of it is used. Files are read again when they change.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.primitives import json
from tracedesk.primitives.time import format
from tracedesk.trading.sources import bar_files, candles, feeds, periods, shapes, tables
from tracedesk.trading.sources.bar_files import Bars, Row
from tracedesk.trading.sources.hours import Hours
from tracedesk.trading.sources.seam import (
    METRICS,
    Adjust,
    Candle,
    Fetch,
    History,
    Quote,
    Ratios,
    Series,
    Story,
    bad_file,
    invalid_symbol,
    nothing_in_file,
    unavailable,
)
from tracedesk.trading.sources.tables import BadFile, File, Shelf

T = TypeVar("T")

MOST_STORIES: Final = 200
"""Stories about one symbol in one answer, the newest."""
MOST_NEWS_FILES: Final = 1_000

_QUOTE: Final = ("symbol", "time", "price")
_MAYBE_QUOTE: Final = ("previous_close", "volume", "bid", "ask")
_RATIOS: Final = ("symbol", "as_of")
_MAYBE_RATIOS: Final = ("period_end", "currency", *METRICS)
_FEEDS: Final = (".rss", ".atom", ".xml")

Told = tuple[Any, Any, Iterable[File[Any]]]
"""A value, how the body shows it, and the files that it came from."""


class Files:
    """Reads the folder in threads."""

    name = "files"
    local = True
    kinds = ("quotes", "history", "news", "fundamentals")

    def __init__(self, folder: Path, place: str = "market") -> None:
        """Take the folder, and its place in the home, which is what answers tell of it."""
        self._shelf = Shelf(folder)
        self._place = PurePosixPath(place)

    async def quotes(self, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        """The newer of a row in quotes.csv and what the bars tell."""
        return await self._fetch("quotes", symbols, now_ns, lambda symbol: self._quote(symbol, now_ns))

    async def daily(self, symbols: Sequence[str], count: int, now_ns: int) -> Fetch[Series]:
        """Up to `count` of the last full sessions."""
        return await self._fetch("daily", symbols, now_ns, lambda symbol: self._series(symbol, count, now_ns))

    async def history(
        self, symbol: str, period: str, interval: str, now_ns: int, adjust: Adjust | None = None
    ) -> Fetch[History]:
        """The complete bars of a period as the file has them; there are none shorter than a day."""
        periods.check(period, interval)
        return await self._fetch(
            "history", [symbol], now_ns, lambda name: self._history(name, period, interval, now_ns)
        )

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]:
        """The stories in (since_ns, now_ns]."""
        return await self._fetch("news", symbols, now_ns, lambda symbol: self._news(symbol, since_ns, now_ns))

    async def fundamentals(self, symbols: Sequence[str], now_ns: int) -> Fetch[Ratios]:
        """The last row up to the clock."""
        return await self._fetch("fundamentals", symbols, now_ns, lambda symbol: self._ratios(symbol, now_ns))

    async def _fetch(
        self, kind: str, symbols: Sequence[str], now_ns: int, read: Callable[[str], Told]
    ) -> Fetch[Any]:
        return await asyncio.to_thread(self._read_all, kind, symbols, now_ns, read)

    def _read_all(
        self, kind: str, symbols: Sequence[str], now_ns: int, read: Callable[[str], Told]
    ) -> Fetch[Any]:
        values: dict[str, Any] = {}
        shown: dict[str, Any] = {}
        failures: dict[str, ToolError] = {}
        sources: dict[str, str] = {}
        for symbol in sorted(set(symbols)):
            try:
                values[symbol], shown[symbol], files = self._read_one(kind, symbol, read)
                sources |= {file.name: file.sha256 for file in files}
            except ToolError as error:
                failures[symbol] = error
        return Fetch(values, failures, self._body(kind, now_ns, sources, shown))

    def _body(self, kind: str, now_ns: int, sources: dict[str, str], shown: dict[str, Any]) -> bytes:
        if not shown:
            return b""
        document = {"provider": self.name, "kind": kind, **candles.told_of(kind, now_ns)}
        return json.dumps({**document, "files": sources, "symbols": shown})

    def _read_one(self, kind: str, symbol: str, read: Callable[[str], Told]) -> Told:
        if not shapes.SYMBOL.fullmatch(symbol):
            raise invalid_symbol(symbol[:40])
        try:
            return read(symbol)
        except BadFile as error:
            problem, file = f"In {self._place} in the home: {error}", str(error).split(" ", 1)[0]
            raise bad_file(symbol, kind, str(self._place / file), problem) from None
        except calendar.OutsideCalendar as error:
            raise unavailable(symbol, kind, f"{error}.") from None

    def _nowhere(self, symbol: str, kind: str, *names: str) -> ToolError:
        places = " or ".join(str(self._place / name) for name in names)
        return unavailable(symbol, kind, f"It was looked for in {places} in the home. Drop a file there.")

    def _no_bars(self, symbol: str, kind: str, *names: str) -> ToolError:
        """The refusal where no file of bars has the symbol's name; one that nearly has it is named."""
        near = bar_files.misnamed(self._shelf.folder / "bars", symbol)
        if near is None:
            return self._nowhere(symbol, kind, *names, f"bars/{symbol}.csv")
        remedy = (
            f"No symbol has the name of the file {shapes.shown(near)} in {self._place}/bars in the home. If "
            f"it has the bars of {symbol}, rename it to {symbol}.csv."
        )
        return nothing_in_file(symbol, kind, f"{self._place}/bars", remedy)

    def _not_yet(self, symbol: str, kind: str, file: File[Bars], now_ns: int) -> ToolError:
        """The refusal of a file without a row that is known at the clock."""
        place, days = str(self._place / file.name), file.content.days
        if days:
            first, last = date.fromordinal(days[0]), date.fromordinal(days[-1])
            remedy = (
                f"{place} in the home has bars from {first} to {last}, and none is known at the clock, "
                f"{format(now_ns)}. In a replay, advance_clock goes there."
            )
        elif file.content.left_out:
            remedy = f"{place} in the home has no row from {file.content.hours.first} on. Give it later ones."
        else:
            remedy = f"{place} in the home has no rows. Give it some, or remove it."
        return nothing_in_file(symbol, kind, place, remedy)

    # --- bars --------------------------------------------------------------------------------------

    def _bars(self, symbol: str) -> File[Bars] | None:
        return self._shelf.read(f"bars/{symbol}.csv", bar_files.bars)

    def _needed_bars(self, symbol: str, kind: str) -> File[Bars]:
        found = self._bars(symbol)
        if found is None:
            raise self._no_bars(symbol, kind)
        return found

    def _series(self, symbol: str, count: int, now_ns: int) -> Told:
        file = self._needed_bars(symbol, "daily bars")
        bars, end = file.content, file.content.until(file.content.hours.ended_by(now_ns))
        first = max(0, end - max(0, count))
        if first == end:
            raise self._not_yet(symbol, "daily bars", file, now_ns)
        days = bars.days[first:end]
        series = Series(days, array("d", bars.adjusted[first:end]), bars.volumes[first:end])
        shown = {
            "sessions": [date.fromordinal(day).isoformat() for day in days],
            "adjusted_close": json.Raw(b"[" + b",".join(bars.adjusted_digits(first, end)) + b"]"),
            "volume": series.volumes.tolist(),
        }
        return series, shown, (file,)

    def _history(self, symbol: str, period: str, interval: str, now_ns: int) -> Told:
        file = self._needed_bars(symbol, "history")
        if interval in periods.INTRADAY:
            remedy = f"Dropped bars are daily: ask for interval '1d', not {interval!r}."
            raise nothing_in_file(symbol, f"history at {interval}", str(self._place / file.name), remedy)
        bars, hours = file.content, file.content.hours
        end = bars.until(hours.ended_by(now_ns))
        first = candles.first_needed(bars.days[:end], period, interval, hours.day_of(now_ns))
        daily = [_candle(bars.row(at), hours) for at in range(first, end)]
        found = candles.gather(daily, interval, hours=hours)
        if not end:
            raise self._not_yet(symbol, f"history over {period}", file, now_ns)
        if not found:
            remedy = _none_complete(file, end, interval)
            raise nothing_in_file(symbol, f"history over {period}", str(self._place / file.name), remedy)
        return History(found, notes=_notes(file)), [_columns(candle) for candle in found], (file,)

    # --- quotes ------------------------------------------------------------------------------------

    def _quote(self, symbol: str, now_ns: int) -> Told:
        file, bars = self._shelf.read("quotes.csv", _quotes), self._bars(symbol)
        if file is None and bars is None:
            raise self._no_bars(symbol, "a quote", "quotes.csv")
        rows = file.content.get(symbol, []) if file else []
        listed = [quote for quote in rows if quote.as_of_ns <= now_ns]
        told = _from_bars(symbol, bars.content, now_ns) if bars else None
        candidates: list[tuple[Quote, File[Any]]] = []
        if file is not None:
            candidates += [(quote, file) for quote in listed[-1:]]
        if bars is not None and told is not None:
            candidates.append((told, bars))
        if not candidates:
            raise self._unquoted(symbol, bars, rows, now_ns)
        quote, source = max(candidates, key=lambda pair: pair[0].as_of_ns)
        return quote, _shown_quote(quote), (source,)

    def _unquoted(
        self, symbol: str, bars: File[Bars] | None, rows: Sequence[Quote], now_ns: int
    ) -> ToolError:
        if bars is not None:
            return self._not_yet(symbol, "a quote", bars, now_ns)
        if not rows:
            return self._no_bars(symbol, "a quote", "quotes.csv")
        place = f"{self._place}/quotes.csv"
        remedy = (
            f"{place} in the home quotes it from {format(rows[0].as_of_ns)} on, and the clock stands at "
            f"{format(now_ns)}. In a replay, advance_clock goes there."
        )
        return nothing_in_file(symbol, "a quote", place, remedy)

    # --- news --------------------------------------------------------------------------------------

    def _news(self, symbol: str, since_ns: int, now_ns: int) -> Told:
        files = self._news_files(symbol)
        found = [
            story
            for file in files
            for story in file.content
            if story.symbol == symbol and since_ns < story.published_ns <= now_ns
        ]
        newest = tuple(sorted(found, key=lambda story: -story.published_ns)[:MOST_STORIES])
        return newest, [_shown_story(story) for story in newest], files

    def _news_files(self, symbol: str) -> list[File[list[Story]]]:
        folder = self._shelf.folder / "news"
        if not folder.is_dir():
            raise self._nowhere(symbol, "news", "news")
        names = sorted(
            path.name
            for path in folder.iterdir()
            if path.suffix == ".jsonl" or (path.stem == symbol and path.suffix in _FEEDS)
        )
        if len(names) > MOST_NEWS_FILES:
            raise BadFile(f"news has {len(names)} files; at most {MOST_NEWS_FILES} are read")
        found = [self._shelf.read(f"news/{name}", _stories) for name in names]
        return [file for file in found if file is not None]

    # --- fundamentals ------------------------------------------------------------------------------

    def _ratios(self, symbol: str, now_ns: int) -> Told:
        names = ("fundamentals.csv", "fundamentals.jsonl")
        files = [file for name in names if (file := self._shelf.read(name, _all_ratios)) is not None]
        if not files:
            raise self._nowhere(symbol, "fundamentals", *names)
        known = [
            (ratios, file)
            for file in files
            for ratios in file.content.get(symbol, [])
            if ratios.as_of_ns <= now_ns
        ]
        if not known:
            where = " and ".join(file.name for file in files)
            raise unavailable(symbol, "fundamentals", f"{where} have no row of it up to the clock.")
        # Of rows known at the same time the one that stands last holds.
        newest = max(enumerate(known), key=lambda pair: (pair[1][0].as_of_ns, pair[0]))[1]
        return newest[0], _shown_ratios(newest[0]), (newest[1],)


# --- parsing --------------------------------------------------------------------------------------


def _quotes(name: str, raw: bytes) -> dict[str, list[Quote]]:
    """The quotes of each symbol in order of time."""
    found: dict[str, list[Quote]] = {}
    for at, cells in tables.csv_rows(name, raw, _QUOTE, _MAYBE_QUOTE):
        try:
            quote = _quote_row(cells)
        except ValueError as error:
            raise BadFile(f"{name} line {at}: {error}") from None
        found.setdefault(quote.symbol, []).append(quote)
    return {symbol: sorted(rows, key=attrgetter("as_of_ns")) for symbol, rows in found.items()}


def _quote_row(cells: dict[str, str]) -> Quote:
    return Quote(
        tables.symbol(cells["symbol"]),
        shapes.dollars(cells["price"], "price"),
        shapes.instant(cells["time"], "time"),
        shapes.optional_price(cells, "previous_close"),
        shapes.volume(cells["volume"], "volume") if cells.get("volume") else None,
        shapes.optional_price(cells, "bid"),
        shapes.optional_price(cells, "ask"),
    )


def _stories(name: str, raw: bytes) -> list[Story]:
    path = Path(name)
    if path.suffix in _FEEDS:
        try:
            return feeds.read(path.stem, raw)
        except feeds.BadFeed as error:
            raise BadFile(f"{name} line {error.line}: {error}") from None
    return [story for at, row in tables.json_rows(name, raw) for story in _story_rows(name, at, row)]


def _story_rows(name: str, at: int, row: dict[str, Any]) -> list[Story]:
    try:
        symbols = shapes.items(row["symbols"], "symbols") if "symbols" in row else [row.get("symbol")]
        return [shapes.story(tables.symbol(symbol), row) for symbol in symbols]
    except ValueError as error:
        raise BadFile(f"{name} line {at}: {error}") from None


def _all_ratios(name: str, raw: bytes) -> dict[str, list[Ratios]]:
    found: dict[str, list[Ratios]] = {}
    for at, row in _ratio_rows(name, raw):
        try:
            symbol = tables.symbol(row.get("symbol"))
            unknown = sorted(set(row) - {*_RATIOS, *_MAYBE_RATIOS, "missing"})
            if unknown:
                raise shapes.BadShape(
                    f"{shapes.shown(unknown[0])} is not a field; there are {', '.join(_MAYBE_RATIOS)}"
                )
            found.setdefault(symbol, []).append(shapes.ratios(symbol, row))
        except ValueError as error:
            raise BadFile(f"{name} line {at}: {error}") from None
    return found


def _ratio_rows(name: str, raw: bytes) -> Iterable[tuple[int, dict[str, Any]]]:
    if name.endswith(".jsonl"):
        return tables.json_rows(name, raw)
    rows = tables.csv_rows(name, raw, _RATIOS, _MAYBE_RATIOS)
    return ((at, {column: cell for column, cell in cells.items() if cell}) for at, cells in rows)


# --- bars as quotes and candles -------------------------------------------------------------------


def _from_bars(symbol: str, bars: Bars, now_ns: int) -> Quote | None:
    hours = bars.hours
    end = bars.until(hours.ended_by(now_ns))
    session = hours.session_at(now_ns)
    before = bars.row(end - 1) if end else None
    at = len(bars.days) if session is None else bisect_left(bars.days, session.toordinal())
    if session is not None and at < len(bars.days) and bars.days[at] == session.toordinal():
        start_ns, price = hours.start_ns(session), bars.row(at).open
        if before is None:
            return Quote(symbol, price, start_ns, session_ns=start_ns)
        volume, day = before.volume, before.session
        return Quote(symbol, price, start_ns, before.close, volume, volume_day=day, session_ns=start_ns)
    if before is None:
        return None
    previous = bars.row(end - 2).close if end > 1 else None
    return Quote(symbol, before.close, hours.end_ns(before.session), previous, before.volume)


def _candle(row: Row, hours: Hours) -> Candle:
    start_ns = hours.start_ns(row.session)
    return Candle(start_ns, row.open, row.high, row.low, row.close, row.volume, row.adjusted_close)


def _none_complete(file: File[Bars], end: int, interval: str) -> str:
    last = date.fromordinal(file.content.days[end - 1])
    return f"{file.name} has no complete bar of {interval} in it; the last session known is {last}."


def _notes(file: File[Bars]) -> tuple[str, ...]:
    if not file.content.left_out:
        return ()
    begin, count = file.content.hours.first, file.content.left_out
    return (
        f"{file.name}: rows left out from before {begin}, where the exchange's calendar begins: {count}.",
    )


# --- how the body shows a value -------------------------------------------------------------------


def _columns(candle: Candle) -> list[Any]:
    prices = (candle.open, candle.high, candle.low, candle.close)
    return [format(candle.start_ns), *prices, candle.volume, candle.adjusted_close]


def _shown_quote(quote: Quote) -> dict[str, Any]:
    return {
        "price": quote.price,
        "as_of": format(quote.as_of_ns),
        "previous_close": quote.previous_close,
        "volume": quote.volume,
        **({"volume_session": quote.volume_day.isoformat()} if quote.volume_day else {}),
        "bid": quote.bid,
        "ask": quote.ask,
    }


def _shown_story(story: Story) -> dict[str, str]:
    return {
        "headline": story.headline,
        "summary": story.summary,
        "published": format(story.published_ns),
        "source": story.source,
    }


def _shown_ratios(ratios: Ratios) -> dict[str, Any]:
    return {
        "as_of": format(ratios.as_of_ns),
        "period_end": None if ratios.period_end is None else ratios.period_end.isoformat(),
        "currency": ratios.currency,
        **ratios.values,
        "missing": dict(ratios.missing),
    }
