"""A ledger as a desk finds it: new ones get the market's clock, new accounts their cash."""

from __future__ import annotations

from pathlib import Path

from tracedesk.journal.heads import Witness
from tracedesk.market import ClockError
from tracedesk.primitives.time import Clock, format, parse
from tracedesk.trading import book
from tracedesk.trading.ledger import Ledger, New, Writer
from tracedesk.trading.replay import SHIPPED, range_of
from tracedesk.trading.settings import BadTradingSetting, Trading
from tracedesk.trading.sources.build import make
from tracedesk.trading.units import cents, money

NOBODY = ""
"""The account of entries that concern all accounts alike."""


def check(settings: Trading, home: Path) -> None:
    """Raise `BadTradingSetting` for a clock or a provider that a ledger could not be opened with."""
    make(settings.providers, home, settings.clock == "system")
    if settings.clock != "system":
        begin_ns(settings, home)


def open_ledger(path: Path, settings: Trading, clock: Clock, *, witness: Witness | None = None) -> Ledger:
    """Open the ledger and bring it to where calls can be answered."""
    start = None if settings.clock == "system" else begin_ns(settings, path.parent)
    ledger = Ledger(path, clock=clock, witness=witness)
    try:
        if not _is_ready(ledger, settings, start):
            with ledger.writing() as writer:
                _prepare(writer, settings, start, clock)
    except BaseException:
        ledger.close()
        raise
    return ledger


def begin_ns(settings: Trading, home: Path) -> int:
    """Return where a new replay begins."""
    if settings.clock == "replay":
        return SHIPPED.clock().now_ns()
    try:
        return range_of(settings, home).clock(parse(settings.clock).ns).now_ns()
    except (ValueError, ClockError) as fault:
        raise BadTradingSetting(
            f"trading.clock must be replay, system, or a time inside the replay: {fault}"
        ) from None


def _wanted(settings: Trading) -> tuple[str, ...]:
    return tuple(dict.fromkeys((settings.account, *settings.accounts)))


def _is_ready(ledger: Ledger, settings: Trading, start: int | None) -> bool:
    has_clock = start is None or ledger.clock_ns() is not None
    return has_clock and not set(_wanted(settings)).difference(ledger.accounts())


def _prepare(writer: Writer, settings: Trading, start: int | None, clock: Clock) -> None:
    at = writer.clock_ns()
    if at is None and start is not None:
        at = start
        body = {"from_ns": start, "to_ns": start, "to": format(start)}
        writer.append(New("open-clock", NOBODY, start, body))
    known = set(writer.accounts())
    for account in _wanted(settings):
        if account not in known:
            cash = cents(settings.cash)
            moment = clock.now_ns() if at is None or start is None else at
            body = {"cash": money(cash)}
            writer.append(New("open", account, moment, body, postings=book.for_opening(cash)))
