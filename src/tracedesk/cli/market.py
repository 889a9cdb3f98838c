"""`tracedesk market`: where the market's clock stands, and its moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from tracedesk.cli.console import Console, Failed, Misuse, pass_console, sentence, table
from tracedesk.cli.frame import DeskGroup
from tracedesk.primitives import time

if TYPE_CHECKING:
    from tracedesk.trading.clockwork import Advance
    from tracedesk.trading.ledger import Ledger
    from tracedesk.trading.replay import Range, Step
    from tracedesk.trading.settings import Trading

_SHOWN: Final = 40


@click.group(cls=DeskGroup)
def market() -> None:
    """See and move the market's replay clock."""


@market.command()
@pass_console
def show(console: Console) -> None:
    """Show where the clock stands, whether the exchange is open, and what is quoted."""
    from tracedesk.trading.replay import next_open

    settings = _settings(console)
    if settings.clock == "system":
        now, within = time.SystemClock().now_ns(), None
    else:
        within = _range(console, settings)
        with _ledger(console, settings) as ledger:
            now = ledger.clock_ns() or 0
    document: dict[str, Any] = {"clock": time.format(now), "open": _is_open(now)}
    if not document["open"]:
        opens = next_open(now) if within is None else within.next_open(now)
        document["nextOpen"] = None if opens is None else time.format(opens)
    text = f"The clock stands at {document['clock']}; the exchange is {_state(document, settings)}."
    rows: list[tuple[str, ...]] = []
    if within is not None:
        document["replay"] = {"from": time.format(within.first_ns), "to": time.format(within.last_ns)}
        text += f"\nThe replay runs from {document['replay']['from']} to {document['replay']['to']}."
        rows = [*_embedded_quotes(now, settings, within.replaced), *_file_quotes(console, now, settings)]
        document["quotes"] = {symbol: price for symbol, price, _ in rows if price}
        refused = {name: reason for name, price, reason in rows if not price}
        document |= {"refused": refused} if refused else {}
    console.answer(document, f"{text}\n\n{table(rows, ('SYMBOL', 'PRICE', 'FROM'))}" if rows else text)


def _embedded_quotes(now: int, settings: Trading, replaced: frozenset[str]) -> list[tuple[str, ...]]:
    from tracedesk.market import View
    from tracedesk.primitives.time import ManualClock

    if "embedded" not in settings.providers.quotes:
        return []
    view = View(ManualClock(now))
    quotes = [view.quote(symbol) for symbol in view.symbols() if symbol not in replaced]
    return [(q.symbol, str(q.price), f"{q.basis} of {q.session}") for q in quotes]


def _file_quotes(console: Console, now: int, settings: Trading) -> list[tuple[str, ...]]:
    """Return the quotes of the first dropped files of bars, or why there are none."""
    import asyncio

    from tracedesk.trading.sources.bar_files import files
    from tracedesk.trading.sources.build import files_folder
    from tracedesk.trading.sources.files import Files

    if "files" not in settings.providers.quotes:
        return []
    folder, place = files_folder(console.settings().home, settings.providers.folder)
    named, others = files(folder / "bars")
    symbols = [path.stem for path in named]
    fetch = asyncio.run(Files(folder, place).quotes(symbols[:_SHOWN], now))
    known = [(s, str(q.price), f"{place}/bars, {time.format(q.as_of_ns)}") for s, q in fetch.values.items()]
    refused = [(s, "", error.message) for s, error in fetch.failures.items()]
    remedy = "no symbol has this name; name the file for one, in capitals, such as SPY.csv"
    unnamed = [(path.name, "", remedy) for path in others[:_SHOWN]]
    more = [("…", "", f"{len(symbols) - _SHOWN} more files")] if len(symbols) > _SHOWN else []
    return [*known, *refused, *unnamed, *more]


def _is_open(now: int) -> bool:
    from tracedesk.market import calendar

    try:
        return calendar.is_open(now)
    except calendar.OutsideCalendar as fault:
        raise Failed(sentence(fault)) from None


def _state(document: dict[str, Any], settings: Trading) -> str:
    if document["open"]:
        return "open"
    if document["nextOpen"] is not None:
        return f"closed until {document['nextOpen']}"
    ends = "calendar" if settings.clock == "system" else "replay"
    return f"closed, and the {ends} ends before it opens again"


@market.command()
@click.option("--to", metavar="TIME", help="To a time, such as 2012-12-05T10:00-05:00.")
@click.option("--by", metavar="SPAN", help="By a span: 30m, 6h, 5d, 2w.")
@click.option("--open", "to_open", is_flag=True, help="To the next open.")
@click.option("--close", "to_close", is_flag=True, help="To the next close.")
@pass_console
def advance(console: Console, to: str | None, by: str | None, to_open: bool, to_close: bool) -> None:
    """Move the clock forward; splits, dividends and resting orders take their course on the way.

    The move and everything it brings about are entries of the ledger, written together or not at all.
    Desks that serve this home see the new time with their next call.
    """
    if sum((to is not None, by is not None, to_open, to_close)) != 1:
        raise Misuse("Say one of --to TIME, --by SPAN, --open, --close.")
    settings = _settings(console)
    if settings.clock == "system":
        raise Failed("The market runs by the system's clock ([trading] clock), which nobody moves.")
    done = _advance(console, settings, _step(to, by, to_open))
    console.answer(_document(done), _text(done))


def _step(to: str | None, by: str | None, to_open: bool) -> Step:
    from tracedesk.trading import replay

    try:
        if to is not None:
            return replay.to_time(to)
        if by is not None:
            return replay.by_span(by)
    except replay.BadStep as fault:
        raise Misuse(f"{'--by ' if to is None else '--to: '}{fault}.") from None
    return replay.to_open if to_open else replay.to_close


def _settings(console: Console) -> Trading:
    from tracedesk.trading.settings import BadTradingSetting, read

    try:
        return read(console.settings().tables.get("trading", {}))
    except BadTradingSetting as fault:
        raise Misuse(sentence(fault)) from None


def _ledger(console: Console, settings: Trading) -> Ledger:
    from tracedesk.home import Home
    from tracedesk.trading.ledger import LedgerError
    from tracedesk.trading.opening import open_ledger
    from tracedesk.trading.settings import BadTradingSetting

    home = Home.open(console.settings().home)
    try:
        return open_ledger(home.ledger, settings, time.SystemClock())
    except BadTradingSetting as fault:
        raise Misuse(sentence(fault)) from None
    except LedgerError as fault:
        raise Failed(sentence(fault)) from None


def _range(console: Console, settings: Trading) -> Range:
    from tracedesk.trading.replay import range_of

    return range_of(settings, console.settings().home)


def _advance(console: Console, settings: Trading, step: Step) -> Advance:
    from tracedesk.home import Home
    from tracedesk.market import ClockError
    from tracedesk.payloads import Payloads
    from tracedesk.trading.clockwork import advance as move
    from tracedesk.trading.ledger import LedgerError

    payloads = Payloads(Home.open(console.settings().home).payloads)
    with _ledger(console, settings) as ledger:
        try:
            return move(ledger, payloads, settings, step, _range(console, settings))
        except (ClockError, LedgerError) as fault:
            raise Failed(sentence(fault)) from None


def _document(done: Advance) -> dict[str, Any]:
    return {
        "from": time.format(done.move.from_ns),
        "to": time.format(done.move.to_ns),
        "sessionsClosed": len(done.move.closed),
        "entries": [
            {
                "ref": f"tracedesk://trading/ledger/{seq}",
                "kind": each.kind,
                "account": each.account,
                "clock": time.format(each.clock_ns),
            }
            for seq, each in done.happenings
        ],
    }


def _text(done: Advance) -> str:
    happened = [(seq, each) for seq, each in done.happenings if each.kind != "clock"]
    rows = [
        (str(seq), each.kind, each.account, time.format(each.clock_ns)) for seq, each in happened[:_SHOWN]
    ]
    closed = "1 session" if len(done.move.closed) == 1 else f"{len(done.move.closed)} sessions"
    text = f"The clock stands at {time.format(done.move.to_ns)}; {closed} closed."
    if not rows:
        return text
    more = f"\n... and {len(happened) - _SHOWN} more; --json lists all." if len(happened) > _SHOWN else ""
    return f"{table(rows, ('ENTRY', 'WHAT', 'ACCOUNT', 'WHEN'))}{more}\n{text}"
