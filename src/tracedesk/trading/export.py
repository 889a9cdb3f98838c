"""The ledger for other programs: beancount text that balances, and CSV; both a line at a time."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final, Literal

from tracedesk.primitives import json
from tracedesk.primitives.time import DAY, format
from tracedesk.trading.ledger import Entry, Reading
from tracedesk.trading.model import CASH, Fill, Posting
from tracedesk.trading.units import money, price, quantity

Table = Literal["entries", "postings", "fills"]
TABLES: Final[tuple[Table, ...]] = ("entries", "postings", "fills")

# --- beancount ---------------------------------------------------------------------------------

_ACCOUNTS: Final = {
    "cash": "Assets:{}:Cash",
    "position": "Assets:{}:Positions",
    "fees": "Expenses:{}:Fees",
    "dividends": "Income:{}:Dividends",
    "splits": "Equity:{}:Splits",
    "equity": "Equity:{}:Opening",
}
"""The market has no account: what was exchanged with it is the price of what was got."""

_PLAIN_NAME: Final = re.compile(r"[a-z][a-z0-9]*")
_PLAIN_SYMBOL: Final = re.compile(r"[A-Z](?:[A-Z0-9._-]*[A-Z0-9])?")
_WORDS: Final = frozenset(("TRUE", "FALSE", "NULL"))
"""Symbols that beancount would read as something else."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def beancount(ledger: Reading) -> Iterator[str]:
    """The lines of a beancount file: every entry that moved something, and at the end what each account has.

    Shares are written with the whole sum they were exchanged for (`@@`), so that each transaction balances
    to the cent, and a reader's own sums must arrive at our portfolios.
    """
    yield 'option "title" "Tracedesk ledger"\n'
    yield f'option "operating_currency" "{CASH}"\n'
    first, last, seen = _survey(ledger)
    if first is None:
        return
    yield from _openings(first, seen)
    for entry in ledger.walk():
        yield from _transaction(entry)
    yield from _balances(ledger, last, seen)


Seen = dict[str, tuple[set[str], set[str]]]
"""By account: the books and the symbols that it has."""


def _survey(ledger: Reading) -> tuple[str | None, str, Seen]:
    """The first day and the day after the last, and what must be opened: known before anything is written."""
    times = [0, 0]
    seen: Seen = {}
    for entry in ledger.walk():
        if not entry.postings:
            continue
        times = (
            [min(times[0], entry.clock_ns), max(times[1], entry.clock_ns)] if seen else [entry.clock_ns] * 2
        )
        books, symbols = seen.setdefault(entry.account, (set(), set()))
        books |= {posting.book for posting in entry.postings}
        symbols |= {posting.asset for posting in entry.postings if posting.asset != CASH}
    return _day(times[0]) if seen else None, _day(times[1] + DAY), seen


def _openings(day: str, seen: Seen) -> Iterator[str]:
    for symbol in sorted(set[str]().union(*(symbols for _, symbols in seen.values()))):
        yield f"{day} commodity {commodity(symbol)}\n  name: {_quoted(symbol)}\n"
    for account, (books, _) in sorted(seen.items()):
        for book in _ACCOUNTS:
            if book in books:
                yield f"{day} open {_place(book, account)}\n  name: {_quoted(account)}\n"


def _transaction(entry: Entry) -> Iterator[str]:
    lines = [*_exchanges(entry), *_transfers(entry)]
    if not lines:
        return
    yield f"\n{_day(entry.clock_ns)} * {_quoted(entry.kind)} {_quoted(summary(entry))}\n"
    yield f"  entry: {entry.seq}\n"
    if entry.call is not None:
        yield f"  call: {_quoted(entry.call.tool_call_id)}\n"
    yield from lines


def _exchanges(entry: Entry) -> Iterator[str]:
    place = _place("position", entry.account)
    for fill in entry.fills:
        shares = quantity(fill.quantity if fill.side == "buy" else -fill.quantity)
        yield f"  {place}  {shares:f} {commodity(fill.symbol)} @@ {money(fill.notional)} {CASH}\n"
        yield f"    order: {_quoted(fill.order)}\n"


def _transfers(entry: Entry) -> Iterator[str]:
    """What was not exchanged with the market."""
    others = [posting for posting in entry.postings if posting.book not in ("market", "position")]
    for posting in (*_unexchanged(entry), *others):
        if posting.units:
            amount = f"{_amount(posting):f} {commodity(posting.asset)}"
            yield f"  {_place(posting.book, entry.account)}  {amount}\n"


def _unexchanged(entry: Entry) -> Iterator[Posting]:
    """The shares that no fill accounts for."""
    moved = Counter[str]()
    for posting in entry.postings:
        if posting.book == "position":
            moved[posting.asset] += posting.units
    for fill in entry.fills:
        moved[fill.symbol] -= fill.quantity if fill.side == "buy" else -fill.quantity
    return (Posting("position", symbol, units) for symbol, units in moved.items())


def _balances(ledger: Reading, day: str, seen: Seen) -> Iterator[str]:
    yield "\n"
    for account, (books, symbols) in sorted(seen.items()):
        portfolio = ledger.portfolio(account)
        if "cash" in books:
            yield f"{day} balance {_place('cash', account)}  {money(portfolio.cash)} ~ 0 {CASH}\n"
        for symbol in sorted(symbols) if "position" in books else ():
            held = portfolio.positions.get(symbol)
            shares = quantity(held.quantity if held else 0)
            yield f"{day} balance {_place('position', account)}  {shares:f} ~ 0 {commodity(symbol)}\n"


def _place(book: str, account: str) -> str:
    return _ACCOUNTS[book].format(component(account))


def component(account: str) -> str:
    """An account's name as a part of a beancount account; no two names become the same."""
    if _PLAIN_NAME.fullmatch(account):
        return account.capitalize()
    return "X-" + "".join(
        _escaped(byte, "-", b"abcdefghijklmnopqrstuvwxyz0123456789") for byte in account.encode()
    )


def commodity(symbol: str) -> str:
    """A symbol as a beancount commodity; no two symbols become the same."""
    if symbol == CASH or (_PLAIN_SYMBOL.fullmatch(symbol) and symbol not in _WORDS):
        return symbol
    return "S'" + "".join(
        _escaped(byte, "'", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for byte in symbol.encode()
    )


def _escaped(byte: int, mark: str, kept: bytes) -> str:
    return chr(byte) if byte in kept else f"{mark}{byte:02X}"


def _quoted(text: str) -> str:
    safe = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _day(ns: int) -> str:
    return format(ns)[:10]


# --- CSV ---------------------------------------------------------------------------------------


def table(ledger: Reading, name: Table) -> Iterator[str]:
    """The lines of a CSV file, its heading first; figures are decimal text, times ISO 8601 in UTC."""
    heading, rows = _TABLES[name]
    yield _line(heading)
    for entry in ledger.walk():
        yield from map(_line, rows(entry))


Cells = Iterable[Any]


def _entries(entry: Entry) -> Iterator[Cells]:
    call = entry.call
    called = (call.tool_call_id, call.tool, call.code) if call else ("", "", "")
    body = json.dumps(entry.body).decode()
    yield (*_stamp(entry), format(entry.at_ns), *called, body, entry.hash.hex())


def _postings(entry: Entry) -> Iterator[Cells]:
    for posting in entry.postings:
        yield (*_stamp(entry), posting.book, posting.asset, f"{_amount(posting):f}")


def _fills(entry: Entry) -> Iterator[Cells]:
    for fill in entry.fills:
        sums = (money(fill.notional), money(fill.fees), money(fill.total_cost))
        yield (*_stamp(entry), fill.order, fill.symbol, fill.side, *_figures(fill), *map(str, sums))


def _figures(fill: Fill) -> tuple[str, str]:
    return f"{quantity(fill.quantity):f}", f"{price(fill.price):f}"


def _stamp(entry: Entry) -> tuple[int, str, str, str]:
    return entry.seq, entry.kind, entry.account, format(entry.clock_ns)


_STAMP: Final = ("entry", "kind", "account", "market_time")
_TABLES: Final[dict[Table, tuple[Cells, Callable[[Entry], Iterator[Cells]]]]] = {
    "entries": ((*_STAMP, "written_at", "tool_call_id", "tool", "code", "body", "hash"), _entries),
    "postings": ((*_STAMP, "book", "asset", "amount"), _postings),
    "fills": (
        (*_STAMP, "order", "symbol", "side", "quantity", "price", "notional", "fees", "total_cost"),
        _fills,
    ),
}


def _line(cells: Cells) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


# --- both --------------------------------------------------------------------------------------


def _amount(posting: Posting) -> Decimal:
    return money(posting.units) if posting.asset == CASH else quantity(posting.units)


def summary(entry: Entry) -> str:
    """One line for people: what was traded, what became of orders, or what moved."""
    traded = [f"{f.side} {quantity(f.quantity):f} {f.symbol} at {price(f.price):f}" for f in entry.fills]
    filled = {fill.order for fill in entry.fills}
    states = [f"order {s.order} {s.status}" for s in entry.states if s.order not in filled]
    refused = [entry.call.code] if entry.call and entry.call.code else []
    moved = [] if entry.fills else _moved(entry)
    return ", ".join((*refused, *traded, *states, *moved))


def _moved(entry: Entry) -> list[str]:
    named = [p.asset for p in entry.postings if not p.units]
    moves = [p for p in entry.postings if p.book in ("cash", "position")]
    return [f"{_amount(p):+f} {' of '.join((p.asset, *named))}" for p in moves]
