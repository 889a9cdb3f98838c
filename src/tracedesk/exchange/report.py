"""A whole market on one page of Markdown; what fails leaves a note, not a hole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from tracedesk.errors import ToolError
from tracedesk.exchange import flows, reading, resources, shapes
from tracedesk.exchange.markdown import Number, own, page, plain, ratio, table
from tracedesk.primitives import time

if TYPE_CHECKING:
    from tracedesk.exchange.feeds.market import Market
    from tracedesk.exchange.provider import Provider

LEVELS: Final = 20
HOURS: Final = 24
KEPT: Final = 60.0
"""Seconds that a report is given again."""
_SHOWN: Final = 10
"""Rows of a table in a report."""
_PATIENCE: Final = 10.0
_MOST_KEPT: Final = 64

Section = Callable[["Provider", "Market", int], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Kept:
    """A report and until when it is given again."""

    document: dict[str, Any]
    until: float
    made_ns: int


async def generate(provider: Provider, args: Mapping[str, Any], scope: str) -> dict[str, Any]:
    """The report, or the one of a moment ago."""
    options: Mapping[str, Any] = args.get("options", {})
    _, instrument = await reading.known(provider, args["symbol"])
    sections = tuple(options.get("include_sections", ())) or tuple(SECTIONS)
    hours, levels = options.get("volume_window_hours", HOURS), options.get("orderbook_levels", LEVELS)
    key = (instrument.symbol, frozenset(sections), hours, levels)
    kept = provider.reports.get(key)
    now = provider.clock.monotonic()
    if kept is not None and kept.until > now and not options.get("force_refresh"):
        return _again(provider, kept)
    market = await provider.market(instrument.symbol, scope)
    document = await _made(provider, market, sections, hours, levels)
    _keep(provider, key, Kept(document, now + KEPT, provider.clock.now_ns()))
    return document


def _keep(provider: Provider, key: Any, kept: Kept) -> None:
    now = provider.clock.monotonic()
    for old in [k for k, value in provider.reports.items() if value.until <= now]:
        del provider.reports[old]
    if len(provider.reports) < _MOST_KEPT:
        provider.reports[key] = kept


def _again(provider: Provider, kept: Kept) -> dict[str, Any]:
    since = (provider.clock.now_ns() - kept.made_ns) // time.MILLISECOND
    age = kept.document["data_age_ms"]
    return {**kept.document, "from_cache": True, "data_age_ms": None if age is None else age + since}


async def _made(
    provider: Provider, market: Market, sections: Sequence[str], hours: int, levels: int
) -> dict[str, Any]:
    began = provider.clock.monotonic()
    chosen = [name for name in SECTIONS if name in sections]
    age = market.sync.age_ms()
    bodies: dict[str, str] = {}
    failed: list[str] = []
    for name in chosen:
        body = await _tried(
            provider, market, liquidity_in(hours) if name == _LIQUIDITY else SECTIONS[name], levels
        )
        bodies[name] = body or "*Data unavailable.*"
        if body is None:
            failed.append(name)
    took = round((provider.clock.monotonic() - began) * 1000)
    markdown = page(
        f"# Market report: {plain(market.symbol)}",
        resources.stated(provider, age),
        *(f"## {_TITLES[name]}\n\n{body}" for name, body in bodies.items()),
        f"---\n\nMade in {took} ms. Figures are data, not advice.",
    )
    return {
        "symbol": market.symbol,
        "mode": provider.mode,
        "markdown": markdown,
        "generated_at": time.format(provider.clock.now_ns()),
        "data_age_ms": age,
        "generation_time_ms": took,
        "failed_sections": failed,
        "from_cache": False,
    }


async def _tried(provider: Provider, market: Market, section: Section, levels: int) -> str | None:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await section(provider, market, levels)
    except (TimeoutError, ToolError):
        return None


# --- sections -----------------------------------------------------------------------------------


async def price_overview(provider: Provider, market: Market, levels: int) -> str:
    raw, age = await reading.latest_ticker(await provider.site(), market.symbol)
    return f"{resources.day_table(market.instrument, raw)}\n\nTicker age: {age} ms."


async def orderbook_metrics(provider: Provider, market: Market, levels: int) -> str:
    from tracedesk.exchange.analytics import quotes

    book, instrument = market.sync.book, market.instrument
    found = shapes.texts(quotes.top_of_book(book, instrument, market.sync.trusted).document())
    bids, asks = book.top(levels)
    leaning = quotes.imbalance(book, levels)
    return page(
        figures(found),
        rows_table(found.get("slippage", ()), "Slippage"),
        f"Micro-price: {summary(await flows.micro_price(provider, market))}",
        f"Imbalance of the best {levels} levels: {'—' if leaning is None else ratio(leaning)}",
        resources.book_table(instrument, bids[:_SHOWN], asks[:_SHOWN]),
        resources.spread_line(instrument, bids, asks),
    ).strip()


def profile_of(hours: int) -> Section:
    async def section(provider: Provider, market: Market, levels: int) -> str:
        found = await flows.volume_profile_of(provider, market, hours)
        return page(figures(found), _largest(found.get("histogram", ()))).strip()

    return section


def _largest(bins: Sequence[Mapping[str, Any]]) -> str:
    ranked = sorted(bins, key=lambda each: float(each.get("volume", 0)), reverse=True)[:_SHOWN]
    return rows_table(ranked, f"The {len(ranked)} bins with the most volume")


def liquidity_of(seconds: int) -> Section:
    async def section(provider: Provider, market: Market, levels: int) -> str:
        walls = await flows.walls(provider, market, min(seconds, flows.BASELINE))
        vacuums = await flows.vacuums_of(provider, market, seconds)
        return page("### Walls", listed(walls, "walls"), "### Vacuums", listed(vacuums, "vacuums")).strip()

    return section


def liquidity_in(hours: int) -> Section:
    async def section(provider: Provider, market: Market, levels: int) -> str:
        zones = await liquidity_of(hours * 3600)(provider, market, levels)
        profile = await profile_of(hours)(provider, market, levels)
        return page(zones, f"### Volume profile, {hours} hours", profile).strip()

    return section


async def market_microstructure(provider: Provider, market: Market, levels: int) -> str:
    return figures(await flows.order_flow_of(provider, market, 60))


async def market_anomalies(provider: Provider, market: Market, levels: int) -> str:
    return listed(await flows.recent_anomalies(provider, market), "anomalies")


async def microstructure_health(provider: Provider, market: Market, levels: int) -> str:
    return figures(await flows.recent_health(provider, market))


async def data_health(provider: Provider, market: Market, levels: int) -> str:
    known = [
        (
            kind,
            None if c is None else Number(time.format(c.from_ns)),
            None if c is None else Number(time.format(c.to_ns)),
        )
        for kind, c in market.tape.coverage.items()
    ]
    return page(
        figures(market.status().document()),
        table(("Kind", "Known from", "Known to"), known),
    ).strip()


_LIQUIDITY: Final = "liquidity_analysis"
SECTIONS: Final[Mapping[str, Section]] = {
    "price_overview": price_overview,
    "orderbook_metrics": orderbook_metrics,
    _LIQUIDITY: liquidity_in(HOURS),
    "market_microstructure": market_microstructure,
    "market_anomalies": market_anomalies,
    "microstructure_health": microstructure_health,
    "data_health": data_health,
}
_TITLES: Final[Mapping[str, str]] = {
    "price_overview": "Price",
    "orderbook_metrics": "Order book",
    _LIQUIDITY: "Liquidity",
    "market_microstructure": "Order flow",
    "market_anomalies": "Anomalies",
    "microstructure_health": "Health of the market",
    "data_health": "Health of the data",
}


# --- documents as Markdown ----------------------------------------------------------------------

_ASIDE: Final = ("status", "symbol", "mode", "method", "window_requested", "window_covered", "sample_size")


def figures(document: Mapping[str, Any]) -> str:
    """The plain values of a document as a table, and under it what they rest on."""
    if document.get("status") == "insufficient_data":
        return missing(document)
    rows = [(_label(name), shown(value)) for name, value in flat(document) if name not in _ASIDE]
    body = table(("Figure", "Value"), rows, right=(1,)) if rows else "No figures."
    return f"{body}{basis(document)}"


def flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Values that fit into a cell, those of inner documents under both names."""
    found: list[tuple[str, Any]] = []
    for name, value in document.items():
        if name in _ASIDE and prefix:
            continue
        if isinstance(value, dict) and name not in _ASIDE:
            found += flat(cast("dict[str, Any]", value), f"{prefix}{name} ")
        elif not isinstance(value, (dict, list, tuple)):
            found.append((f"{prefix}{name}", value))
    return found


def listed(document: Mapping[str, Any], name: str) -> str:
    """The rows of a document as a table."""
    if document.get("status") == "insufficient_data":
        return missing(document)
    rows: Any = document.get(name, ())
    sides = cast("dict[str, Any]", rows) if isinstance(rows, dict) else {"": rows}
    tables = [rows_table(side, title.title()) for title, side in sides.items()]
    return f"{page(*tables).strip() or 'None.'}{basis(document)}"


def rows_table(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Rows of equal columns; nothing for no rows."""
    if not rows:
        return ""
    heads = [name for name, value in rows[0].items() if not isinstance(value, (dict, list))]
    body = table(
        [_label(name) for name in heads], [[shown(row.get(name)) for name in heads] for row in rows[:_SHOWN]]
    )
    return f"{title}:\n\n{body}" if title else body


def missing(document: Mapping[str, Any]) -> str:
    """Why there is nothing to say yet."""
    needed: Mapping[str, Any] = document.get("needed", {})
    have: Mapping[str, Any] = document.get("have", {})
    wants = ", ".join(
        f"{_label(name)}: {shown(value)} (has {shown(have.get(name, 0))})" for name, value in needed.items()
    )
    return f"*Insufficient data. Needs {wants or 'more time'}.*{basis(document)}"


def summary(document: Mapping[str, Any]) -> str:
    """A small document in one line."""
    if document.get("status") == "insufficient_data":
        return "insufficient data"
    return ", ".join(f"{_label(name)} {shown(value)}" for name, value in flat(document) if name not in _ASIDE)


def basis(document: Mapping[str, Any]) -> str:
    covered: Any = document.get("window_covered")
    if not isinstance(covered, dict):
        return ""
    window = cast("dict[str, Any]", covered)
    size = document.get("sample_size")
    return f"\n\nCovered: {window.get('seconds')} s to {window.get('to')}, {size} observations."


def shown(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return Number(f"{value:.6g}")
    if isinstance(value, str):
        return Number(value) if _is_number(value) else own(value)
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.lstrip("-").replace(".", "", 1).isdecimal()


def _label(name: str) -> str:
    return own(name.replace("_", " "))
