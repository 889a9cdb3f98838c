"""Ledgers for tests: entries in a line, a scripted history, and changes that no ledger makes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import apsw

from tests.journal.powerloss import Store
from tests.journal.tamper import flipped
from tests.journal.workers import wait_for_the_others
from tracedesk.journal.sqlite import Connection, connect
from tracedesk.primitives.time import DAY, SECOND, ManualClock
from tracedesk.trading import audit, book
from tracedesk.trading.ledger import CallRecorded, CallRow, Ledger, LedgerError, New, Writer
from tracedesk.trading.model import (
    EdgeTo,
    Fill,
    Order,
    OrderState,
    OrderType,
    Side,
    Status,
    TimeInForce,
    Trade,
)
from tracedesk.trading.schema import CACHES, CHAINED
from tracedesk.trading.units import notional

OPEN_NS: Final = 1_362_148_200_000_000_000
"""2013-03-01T14:30:00Z, the open of a session."""
WALL_NS: Final = 1_790_000_000_000_000_000
SHARE: Final = 10**9
DOLLAR: Final = 10**6
TABLES: Final = (*CHAINED, *CACHES)


def open_ledger(path: Path, *, vfs: str | None = None) -> Ledger:
    return Ledger(path, clock=ManualClock(WALL_NS), vfs=vfs)


def call(identifier: str, *, code: str | None = None) -> CallRow:
    params = b'{"trades":"%s"}' % identifier.encode()
    digest = hashlib.sha256(params).hexdigest()
    desk_call = f"019b0000-0000-7000-8000-{digest[:12]}"
    return CallRow(
        identifier, "trade_execute", digest, params, desk_call, b'{"of":"%s"}' % identifier.encode(), code
    )


def fill(
    order: str, symbol: str = "IBM", side: Side = "buy", shares: int = 10, price: int = 203, fees: int = 100
) -> Fill:
    """Whole shares at whole dollars."""
    quantity, micros = shares * SHARE, price * DOLLAR
    return Fill(order, symbol, side, quantity, micros, notional(quantity, micros), fees)


def opening(account: str = "default", cash: int = 10_000_000) -> New:
    return New("open", account, OPEN_NS, {"cash": cash}, postings=book.for_opening(cash))


def placing(
    order: Fill | Trade,
    identifier: str,
    status: Status,
    *,
    account: str = "default",
    clock_ns: int = OPEN_NS,
    call: CallRow | None = None,
) -> New:
    """An entry that places one order; a fill fills it whole."""
    done = order if isinstance(order, Fill) else None
    trade = order if isinstance(order, Trade) else Trade(order.symbol, order.side, order.quantity)
    return New(
        "trade",
        account,
        clock_ns,
        {"note": "é\u001f", "n": 1},
        call,
        [Order(identifier, account, trade, client_id=f"td-{identifier}")],
        [OrderState(identifier, status, done.quantity if done else 0, None if done else "NOT_MARKETABLE")],
        [done] if done else [],
        book.for_fill(done) if done else (),
        [EdgeTo("priced_by", f"tracedesk://payloads/{'ab' * 32}", "/quotes/0/price")],
    )


def resting(symbol: str, side: Side, shares: int, price: int, *, day: bool = False) -> Trade:
    kind: OrderType = "limit"
    until: TimeInForce = "day" if day else "gtc"
    return Trade(symbol, side, shares * SHARE, kind, price * DOLLAR, None, until)


def trading(
    order: str,
    symbol: str = "IBM",
    side: Side = "buy",
    shares: int = 10,
    price: int = 203,
    *,
    account: str = "default",
    clock_ns: int = OPEN_NS,
) -> New:
    """A filled market order with the call that placed it."""
    done = fill(order, symbol, side, shares, price)
    return placing(done, order, "filled", account=account, clock_ns=clock_ns, call=call(f"call-{order}"))


def script() -> list[New]:
    """One of everything: two accounts, trades, a resting order that fills in parts, a split, a dividend."""
    day = OPEN_NS + DAY
    part = fill("o4", "MSFT", "sell", 40, 30, 0)
    return [
        New("open-clock", "", OPEN_NS, {"from_ns": OPEN_NS, "to_ns": OPEN_NS}),
        opening(),
        opening("second account", 5_000_000),
        trading("o1"),
        trading("o2", "MSFT", shares=300, price=28),
        _with_a_resting_order(trading("o3", "BRK.B", shares=3, price=1000, account="second account"), "o6"),
        placing(resting("MSFT", "sell", 100, 30), "o4", "open", call=call("call-o4")),
        New("trade", "default", OPEN_NS, {}, call("refused", code="MARKET_CLOSED")),
        New("event", "default", OPEN_NS, {"severity": "low", "data": {"b": 1, "a": [1, "x"]}}),
        New("clock", "", day, {"from_ns": OPEN_NS, "to_ns": day}),
        New("split", "default", day, {"symbol": "IBM"}, postings=book.for_split("IBM", 10 * SHARE)),
        New("dividend", "default", day, {"symbol": "MSFT"}, postings=book.for_dividend("MSFT", 6900)),
        New(
            "fill",
            "default",
            day,
            states=[OrderState("o4", "open", part.quantity)],
            fills=[part],
            postings=book.for_fill(part),
        ),
        New("cancel", "default", day, states=[OrderState("o4", "cancelled", part.quantity, "ASKED")]),
        trading("o5", "IBM", "sell", 20, 102, clock_ns=day),
    ]


def _with_a_resting_order(new: New, identifier: str) -> New:
    rests = placing(resting("IBM", "buy", 1, 100), identifier, "open", account=new.account)
    return replace(new, orders=[*new.orders, *rests.orders], states=[*new.states, *rests.states])


def write(ledger: Ledger, entries: Sequence[New]) -> list[int]:
    """Each entry in a transaction of its own."""
    return [_write(ledger, new) for new in entries]


def _write(ledger: Ledger, new: New) -> int:
    with ledger.writing() as writer:
        return writer.append(new)


def rows(connection: Connection) -> dict[str, list[Any]]:
    """Everything a ledger holds."""
    return {table: list(connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")) for table in TABLES}


LEDGER: Final = Store("ledger.db", rows, open_ledger, lambda path: audit.verify(path).faults)


# --- changes that no ledger makes --------------------------------------------------------------


@contextmanager
def unguarded(path: Path) -> Generator[Connection]:
    """A connection that triggers and checks do not hold back."""
    connection = connect(path)
    cast("apsw.Connection", connection).config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF")
    try:
        yield connection
    finally:
        connection.close()


def flip_a_cell(path: Path, dice: random.Random) -> str:
    """Change one bit of one column of one row of one table; says what was changed."""
    with unguarded(path) as connection:
        while True:
            table = dice.choice(TABLES)
            columns = list(connection.execute(f"PRAGMA table_info({table})"))
            column = dice.choice(columns)[1]
            keys = [name for _, name, *_, key in columns if key]
            row = dice.choice(list(connection.execute(f"SELECT {column}, {', '.join(keys)} FROM {table}")))
            if row[0] in (b"", ""):
                continue
            changed, bit = _flipped(row[0], column, dice)
            value = "CAST(? AS TEXT)" if isinstance(changed, bytes) and not isinstance(row[0], bytes) else "?"
            where = " AND ".join(f"{key} = ?" for key in keys)
            try:
                connection.execute(
                    f"UPDATE {table} SET {column} = {value} WHERE {where}", (changed, *row[1:])
                )
            except apsw.ConstraintError:
                continue  # another row has that key already
            return f"{table}.{column} of {row[1:]}: bit {bit} of {row[0]!r}"


def _flipped(value: Any, column: str, dice: random.Random) -> tuple[Any, int]:
    """The value with one bit changed; a text that was not there becomes a letter."""
    if value is None and column in ("code", "reason"):
        return b"x", 0
    return flipped(value, dice)


# --- processes ---------------------------------------------------------------------------------


def submit_the_same_calls(number: int, path: Path, rounds: int) -> list[tuple[bytes, int]]:
    """Write each call unless another process has; say what was answered, and in which entry."""
    answers: list[tuple[bytes, int]] = []
    with open_ledger(path) as ledger:
        for n in range(rounds):
            wait_for_the_others()
            with ledger.writing() as writer:
                answers.append(_once(writer, f"{number}-{n}", f"same-{n}"))
    return answers


def _once(writer: Writer, order: str, identifier: str) -> tuple[bytes, int]:
    known = writer.call("default", identifier)
    if known is None:
        done = fill(order, shares=1)
        writer.append(placing(done, order, "filled", call=call(identifier)))
        known = writer.call("default", identifier)
    assert known is not None
    return known.response, known.entry


def submit_without_looking(number: int, path: Path, rounds: int) -> int:
    """Write each call as if nobody else did; how many were taken."""
    taken = 0
    with open_ledger(path) as ledger:
        for n in range(rounds):
            wait_for_the_others()
            try:
                with ledger.writing() as writer:
                    writer.append(
                        placing(fill(f"{number}-{n}"), f"{number}-{n}", "filled", call=call(f"same-{n}"))
                    )
                taken += 1
            except CallRecorded:
                continue
    return taken


def refused(writer: Writer, new: New) -> str:
    """Why an entry is refused."""
    try:
        writer.append(new)
    except LedgerError as problem:
        return str(problem)
    return ""


Tampering = Callable[[Connection], None]


def later(seconds: int) -> int:
    return OPEN_NS + seconds * SECOND
