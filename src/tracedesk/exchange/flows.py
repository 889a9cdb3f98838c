"""The analytics for the tools: a window cut from what this desk has seen, computed beside the streams."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tracedesk.errors import ToolError
from tracedesk.exchange import shapes, units
from tracedesk.primitives import money, time

if TYPE_CHECKING:
    from tracedesk.exchange.analytics.span import Span
    from tracedesk.exchange.book.book import Book
    from tracedesk.exchange.feeds.market import Market
    from tracedesk.exchange.provider import Provider

Document = dict[str, Any]
_ANALYTICS: Final = [
    "flow",
    "profile",
    "anomalies",
    "health",
    "vacuums",
    "walls",
    "microprice",
    "quotes",
    "slippage",
]
FIGURES: Final = ("numpy", *(f"tracedesk.exchange.analytics.{name}" for name in _ANALYTICS))
"""Modules that answers import only when they compute figures."""
BASELINE: Final = 600
"""Seconds before a window that anomalies and health are compared with."""
_AT_ONCE: Final = 0.04
"""Seconds that somebody waits who cannot wait."""
_SHORTEST: Final = 60
_WINDOW: Final = 60
_KINDS: Final = ("touches", "prints", "changes")


def span_of(provider: Provider, market: Market, seconds: int, *kinds: str) -> Span:
    """The last `seconds` on the venue's clock, and what is known of them."""
    from tracedesk.exchange.analytics.span import Span

    until = provider.now_ns()
    coverage = market.tape.coverage
    return Span.of(until - seconds * time.SECOND, until, *(coverage[kind] for kind in kinds))


def copied(book: Book) -> Book:
    """The book as it is now, for a thread: the streams go on changing the other one."""
    from tracedesk.exchange.book.book import Book

    made = Book()
    made.apply(book.bids.items(), book.asks.items())
    return made


# --- the tools ----------------------------------------------------------------------------------


async def order_flow(provider: Provider, args: Mapping[str, Any], scope: str) -> Document:
    market = await provider.market(args["symbol"], scope)
    seconds = args.get("window_duration_secs", _WINDOW)
    return _told(provider, market, await order_flow_of(provider, market, seconds))


async def volume_profile(provider: Provider, args: Mapping[str, Any], scope: str) -> Document:
    width = _bin(args.get("tick_size"))
    market = await provider.market(args["symbol"], scope)
    hours = args.get("duration_hours", 24)
    return _told(provider, market, await volume_profile_of(provider, market, hours, width))


def _bin(given: Any) -> int | None:
    if given is None:
        return None
    try:
        width = units.units(money.to_text(money.parse(given)))
    except ValueError as problem:
        raise ToolError("INVALID_PARAMETER", f"tick_size: {problem}", {"field": "tick_size"}) from None
    if width <= 0:
        raise ToolError("INVALID_PARAMETER", "tick_size must be above 0.", {"field": "tick_size"})
    return width


async def anomalies(provider: Provider, args: Mapping[str, Any], scope: str) -> Document:
    market = await provider.market(args["symbol"], scope)
    seconds, baseline = args.get("window_duration_secs", _WINDOW), args.get("baseline_seconds")
    return _told(provider, market, await recent_anomalies(provider, market, seconds, baseline))


async def health(provider: Provider, args: Mapping[str, Any], scope: str) -> Document:
    market = await provider.market(args["symbol"], scope)
    return _told(provider, market, await recent_health(provider, market))


async def vacuums(provider: Provider, args: Mapping[str, Any], scope: str) -> Document:
    market = await provider.market(args["symbol"], scope)
    seconds = args.get("duration_hours", 24) * 3600
    return _told(provider, market, await vacuums_of(provider, market, seconds))


async def recent_anomalies(
    provider: Provider, market: Market, seconds: int = _WINDOW, baseline: int | None = None
) -> Document:
    """The anomalies, made at most once every two seconds."""
    key = ("anomalies", market.symbol, seconds, baseline)
    return await provider.costly.get(key, lambda: anomalies_of(provider, market, seconds, baseline))


async def recent_health(provider: Provider, market: Market) -> Document:
    return await provider.costly.get(("health", market.symbol), lambda: health_of(provider, market))


async def anomalies_at_once(provider: Provider, market: Market) -> Document | None:
    """What can be said of anomalies without waiting, however costly they are; None while that is nothing."""
    key = ("anomalies", market.symbol, _WINDOW, None)
    return await provider.costly.soon(key, lambda: anomalies_of(provider, market, _WINDOW), _AT_ONCE)


async def health_at_once(provider: Provider, market: Market) -> Document | None:
    key = ("health", market.symbol)
    return await provider.costly.soon(key, lambda: health_of(provider, market), _AT_ONCE)


def _told(provider: Provider, market: Market, document: Document) -> Document:
    return {"symbol": market.symbol, "mode": provider.mode, **document}


# --- the figures --------------------------------------------------------------------------------
# Series and book are taken in one breath, before anything is awaited; threads only see copies.


def load() -> None:
    """Import everything that the figures are computed with."""
    for name in FIGURES:
        importlib.import_module(name)


async def order_flow_of(provider: Provider, market: Market, seconds: int) -> Document:
    from tracedesk.exchange.analytics import flow

    span = span_of(provider, market, seconds, "touches", "prints")
    touches = market.tape.touches(span.covered.from_ns, span.covered.to_ns)
    prints = market.tape.prints(span.covered.from_ns, span.covered.to_ns)

    def work() -> Document:
        impact = flow.kyle(touches, prints, span).document()
        return {**flow.order_flow(touches, prints, span).document(), "kyle": _part(impact)}

    return shapes.texts(await provider.compute(work))


async def volume_profile_of(
    provider: Provider, market: Market, hours: int, width: int | None = None
) -> Document:
    from tracedesk.exchange.analytics import profile

    span = span_of(provider, market, hours * 3600, "prints")
    prints, instrument = market.tape.prints(span.covered.from_ns, span.covered.to_ns), market.instrument
    found = await provider.compute(lambda: profile.volume_profile(prints, instrument, span, width))
    return shapes.texts(found.document())


async def anomalies_of(
    provider: Provider, market: Market, seconds: int, baseline: int | None = None
) -> Document:
    from tracedesk.exchange.analytics import anomalies

    span = span_of(provider, market, seconds, *_KINDS)
    usual = baseline or _usual(span, seconds)
    since, until = span.requested.from_ns - usual * time.SECOND, span.covered.to_ns
    tape, book, instrument = market.tape, copied(market.sync.book), market.instrument
    touches, prints = tape.touches(since, until), tape.prints(since, until)
    changes = tape.changed(since, until)
    found = await provider.compute(
        lambda: anomalies.detect(touches, prints, changes, book, instrument, span, baseline_s=usual)
    )
    return shapes.texts(found.document())


def _usual(span: Span, seconds: int) -> int:
    """The baseline of one who named none: as long as is known before the window, up to ten minutes."""
    return max(_SHORTEST, min(BASELINE, int(span.known.seconds) - seconds))


async def health_of(provider: Provider, market: Market) -> Document:
    from tracedesk.exchange.analytics import health

    span = span_of(provider, market, _WINDOW, *_KINDS)
    since, until = span.requested.from_ns - BASELINE * time.SECOND, span.covered.to_ns
    tape, book = market.tape, copied(market.sync.book)
    touches, prints = tape.touches(since, until), tape.prints(since, until)
    changes = tape.changed(since, until)
    found = await provider.compute(
        lambda: health.health(touches, prints, changes, book, span, baseline_s=BASELINE)
    )
    return shapes.texts(found.document())


async def vacuums_of(provider: Provider, market: Market, seconds: int) -> Document:
    from tracedesk.exchange.analytics import vacuums

    span = span_of(provider, market, seconds, "prints")
    prints, book = market.tape.prints(span.covered.from_ns, span.covered.to_ns), copied(market.sync.book)
    instrument, trusted = market.instrument, market.sync.trusted
    found = await provider.compute(lambda: vacuums.vacuums(book, prints, instrument, span, trusted))
    return shapes.texts(found.document())


async def walls(provider: Provider, market: Market, seconds: int) -> Document:
    """Levels that stand out and stay."""
    from tracedesk.exchange.analytics import walls

    span = span_of(provider, market, seconds, "changes")
    changes, book = market.tape.changed(span.covered.from_ns, span.covered.to_ns), copied(market.sync.book)
    instrument, trusted = market.instrument, market.sync.trusted
    found = await provider.compute(lambda: walls.walls(book, changes, instrument, span, trusted))
    return shapes.texts(_part(found.document()))


async def micro_price(provider: Provider, market: Market) -> Document:
    """Where the mid is expected to go from here."""
    from tracedesk.exchange.analytics import microprice

    span = span_of(provider, market, BASELINE, "touches")
    touches, instrument = market.tape.touches(span.covered.from_ns, span.covered.to_ns), market.instrument
    found = await provider.compute(lambda: microprice.estimate(touches, instrument, span))
    return shapes.texts(_part(found.document()))


def _part(document: Document) -> Document:
    """A document inside another one, which states the window once."""
    return {name: value for name, value in document.items() if name != "window_requested"}
