"""The ledger: entries in double entry under one hash chain, and the portfolios they fold to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tracedesk.journal.sqlite import BusyError, Connection, ConstraintError
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock
from tracedesk.trading import book
from tracedesk.trading.model import CASH, Order, OrderState, Portfolio, Position, Trade
from tracedesk.trading.schema import (
    CHILDREN,
    GENESIS,
    CallRecorded,
    CallRow,
    Entry,
    LedgerBusy,
    LedgerError,
    New,
    Rows,
    entry_of,
    link,
    open_reader,
    open_writer,
    rows_of,
)

__all__ = [
    "GENESIS",
    "CallRecorded",
    "CallRow",
    "Entry",
    "Ledger",
    "LedgerBusy",
    "LedgerError",
    "New",
    "Reading",
    "Writer",
]

OPEN: Final = ("open", "sent")
"""The states in which an order may still be filled."""

_PAGE: Final = 200
_ORDER: Final = (
    "o.id, o.account, o.leg, o.symbol, o.side, o.quantity, o.type, o.price, o.stop_price, o.time_in_force, "
    "o.client_id, s.status, s.filled, s.reason FROM trade_order o JOIN order_state s ON s.order_id = o.id "
    "AND (s.entry, s.line) = (SELECT entry, line FROM order_state WHERE order_id = o.id "
    "ORDER BY entry DESC, line DESC LIMIT 1)"
)
_CALL: Final = (
    "tool_call_id, tool, params_sha256, params, desk_call, response, code, call.account, entry, at_ns "
    "FROM call JOIN entry ON seq = entry"
)
_RESTED: Final = "o.id IN (SELECT order_id FROM order_state WHERE status IN ('open', 'sent'))"
_IS_OPEN: Final = f"{_RESTED} AND s.status IN ('open', 'sent')"

Placed = tuple[Order, OrderState]
Folded = dict[str, tuple[int, Portfolio, int]]
"""By account: a market time, the portfolio that the entries before it fold to, and the last of them."""


class Reading:
    """What can be read of a ledger, in a transaction or out of it."""

    def __init__(self, connection: Connection, folded: Folded | None = None) -> None:
        self._connection = connection
        self._folded: Folded = {} if folded is None else folded

    # --- accounts

    def accounts(self) -> list[str]:
        """The accounts that have entries, by name."""
        query = (
            "WITH RECURSIVE found(name) AS (SELECT min(account) FROM entry UNION ALL SELECT "
            "(SELECT min(account) FROM entry WHERE account > name) FROM found WHERE name IS NOT NULL) "
            "SELECT name FROM found WHERE name <> ''"
        )
        return [name for (name,) in self._connection.execute(query)]

    def portfolio(self, account: str) -> Portfolio:
        """The account as it is now; one without entries is empty."""
        for (body,) in self._connection.execute("SELECT body FROM holding WHERE account = ?", (account,)):
            return _held(account, body)
        return self.refold(account)

    def refold(self, account: str) -> Portfolio:
        """The same from the entries alone, without the cache."""
        return self._fold(book.opened(account), 0, "")[0]

    def portfolio_at(self, account: str, clock_ns: int) -> Portfolio:
        """The account as the entries before a market time left it."""
        later = "SELECT 1 FROM entry WHERE account = ? AND clock_ns >= ? LIMIT 1"
        if not any(self._connection.execute(later, (account, clock_ns))):
            return self.portfolio(account)
        known, through = self._known(account, clock_ns)
        # The plus keeps SQLite from the index by market time, which would have it read what is folded.
        portfolio, through = self._fold(known, through, f"AND +clock_ns < {clock_ns:d}")
        self._folded[account] = (clock_ns, portfolio, through)
        return portfolio

    def _known(self, account: str, clock_ns: int) -> tuple[Portfolio, int]:
        """The last fold of the account, if the one wanted goes on from it."""
        if account in self._folded:
            until, portfolio, through = self._folded[account]
            between = "SELECT 1 FROM entry WHERE account = ? AND clock_ns >= ? AND clock_ns < ? AND seq <= ?"
            passed = self._connection.execute(between, (account, until, clock_ns, through))
            if until <= clock_ns and not any(passed):
                return portfolio, through
        return book.opened(account), 0

    def _fold(self, portfolio: Portfolio, through: int, condition: str) -> tuple[Portfolio, int]:
        """Go on folding after the entry `through`; the portfolio, and the last entry that is in it."""
        query = f"SELECT seq FROM entry WHERE account = ? AND seq > ? {condition} ORDER BY seq LIMIT {_PAGE}"
        while seqs := [s for (s,) in self._connection.execute(query, (portfolio.account, through))]:
            for rows in gather(self._connection, seqs, ("fill", "posting")):
                portfolio = book.apply(portfolio, entry_of(rows))
            through = seqs[-1]
        return portfolio, through

    # --- the clock

    def clock_ns(self) -> int | None:
        """The market's time, where the ledger keeps it: where the last move of the clock went to."""
        query = "SELECT body FROM entry WHERE kind IN ('clock', 'open-clock') ORDER BY seq DESC LIMIT 1"
        for (body,) in self._connection.execute(query):
            return json.loads(body)["to_ns"]
        return None

    # --- calls

    def call(self, account: str, tool_call_id: str) -> CallRow | None:
        """The account's call of that id."""
        query = f"SELECT {_CALL} WHERE call.account = ? AND tool_call_id = ?"
        return next((CallRow(*row) for row in self._connection.execute(query, (account, tool_call_id))), None)

    def call_anywhere(self, tool_call_id: str, accounts: Iterable[str]) -> CallRow | None:
        """The newest call of that id in any of the accounts."""
        allowed = set(accounts)
        query = f"SELECT {_CALL} WHERE tool_call_id = ? ORDER BY entry DESC"
        found = (CallRow(*row) for row in self._connection.execute(query, (tool_call_id,)))
        return next((call for call in found if call.account in allowed), None)

    # --- orders

    def order(self, identifier: str) -> Placed | None:
        """An order and its state."""
        return next(self._orders("o.id = ?", (identifier,)), None)

    def orders(
        self, account: str, *, open_only: bool = False, after: str | None = None, limit: int = 100
    ) -> list[Placed]:
        """The account's orders, newest first; `after` is the id of the last one seen."""
        older = "(SELECT entry, line FROM trade_order WHERE id = ?)"
        conditions = ["o.account = ?", _IS_OPEN if open_only else "1"]
        bindings: list[Any] = [account]
        if after is not None:
            conditions.append(f"(o.entry, o.line) < {older}")
            bindings.append(after)
        newest = f"{' AND '.join(conditions)} ORDER BY o.entry DESC, o.line DESC LIMIT ?"
        return list(self._orders(newest, [*bindings, limit]))

    def open_orders(self) -> list[Placed]:
        """The orders of all accounts that may still be filled, in the order they were placed."""
        return list(self._orders(f"{_IS_OPEN} ORDER BY o.entry, o.line", ()))

    def orders_since(self, account: str, at_ns: int) -> int:
        """How many orders the account has placed at a wall time or after it."""
        query = (
            "SELECT count(*) FROM entry JOIN trade_order o ON o.entry = seq "
            "WHERE entry.account = ? AND at_ns >= ?"
        )
        return next(self._connection.execute(query, (account, at_ns)))[0]

    def entry_of_order(self, identifier: str) -> int | None:
        """The entry that an order was placed in."""
        query = "SELECT entry FROM trade_order WHERE id = ?"
        return next((seq for (seq,) in self._connection.execute(query, (identifier,))), None)

    def entries_of_order(self, identifier: str) -> list[int]:
        """Every entry that changed an order's state, first to last."""
        query = "SELECT DISTINCT entry FROM order_state WHERE order_id = ? ORDER BY entry"
        return [seq for (seq,) in self._connection.execute(query, (identifier,))]

    def _orders(self, condition: str, bindings: Sequence[Any]) -> Generator[Placed]:
        for row in self._connection.execute(f"SELECT {_ORDER} WHERE {condition}", bindings):
            identifier, account, leg, *trade, client_id, status, filled, reason = row
            order = Order(identifier, account, Trade(*trade), leg, client_id)
            yield order, OrderState(identifier, status, filled, reason)

    # --- entries

    def head(self) -> tuple[int, bytes]:
        """The last entry's seq and hash: whoever remembers them can tell a ledger cut short."""
        query = "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1"
        return next(iter(self._connection.execute(query)), (0, GENESIS))

    def entry(self, seq: int) -> Entry | None:
        """An entry with everything in it."""
        return next(iter(self._entries([seq])), None)

    def entries(self, after: int = 0, limit: int = 100, account: str | None = None) -> list[Entry]:
        """Entries in their order, from the one after `after`."""
        query = "SELECT seq FROM entry WHERE seq > ? ORDER BY seq LIMIT ?"
        bindings: list[Any] = [after, limit]
        if account is not None:
            query = "SELECT seq FROM entry WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?"
            bindings = [account, *bindings]
        return self._entries([seq for (seq,) in self._connection.execute(query, bindings)])

    def newest(self, limit: int, account: str | None = None) -> list[Entry]:
        """The last entries, in their order."""
        where, bindings = ("WHERE account = ?", [account]) if account is not None else ("", [])
        query = f"SELECT seq FROM entry {where} ORDER BY seq DESC LIMIT ?"
        found = [seq for (seq,) in self._connection.execute(query, [*bindings, limit])]
        return self._entries(found[::-1])

    def walk(self, account: str | None = None) -> Generator[Entry]:
        """Every entry in its order, a page at a time."""
        after = 0
        while page := self.entries(after, _PAGE, account):
            yield from page
            after = page[-1].seq

    def _entries(self, seqs: Sequence[int]) -> list[Entry]:
        return [entry_of(rows) for rows in gather(self._connection, seqs)]


def gather(connection: Connection, seqs: Sequence[int], tables: Sequence[str] = CHILDREN) -> list[Rows]:
    """The rows of entries as they are in the file, with those of the tables asked for."""
    wanted = (json.dumps(list(seqs)).decode(),)
    among = "(SELECT value FROM json_each(?))"
    query = f"SELECT * FROM entry WHERE seq IN {among} ORDER BY seq"
    found = {row[0]: Rows(row[:-1], row[-1]) for row in connection.execute(query, wanted)}
    for table in tables:
        order = "entry" if table == "call" else "entry, line"
        for row in connection.execute(
            f"SELECT * FROM {table} WHERE entry IN {among} ORDER BY {order}", wanted
        ):
            if row[0] in found:
                found[row[0]].children[table].append(row)
    return list(found.values())


class Writer(Reading):
    """A ledger inside a write transaction."""

    def __init__(self, connection: Connection, folded: Folded, clock: Clock) -> None:
        super().__init__(connection, folded)
        self._clock = clock
        self._is_open = True

    def append(self, new: New) -> int:
        """Write an entry and return its seq. Raises `LedgerError` for one that an audit would not accept."""
        if not self._is_open:
            raise LedgerError("the transaction has ended; begin another with writing()")
        self._check(new)
        before = self.portfolio(new.account)
        last, previous = self.head()
        rows = rows_of(new, last + 1, self._clock.now_ns())
        rows.hash = link(previous, rows)
        # A savepoint: a caller that catches the refusal must not commit half an entry.
        with _refusing_misfits(), self._connection:
            self._insert(rows)
            if new.postings:
                self._keep(book.apply(before, entry_of(rows)))
        return last + 1

    def rebuild(self) -> None:
        """Make the cache anew from the entries."""
        self._connection.execute("DELETE FROM holding")
        for account in self.accounts():
            portfolio = self.refold(account)
            if portfolio.version:
                self._keep(portfolio)

    def end(self) -> None:
        """Take no more entries."""
        self._is_open = False

    def _insert(self, rows: Rows) -> None:
        self._connection.execute("INSERT INTO entry VALUES(?,?,?,?,?,?,?)", (*rows.entry, rows.hash))
        for table, lines in rows.children.items():
            for line in lines:
                places = ",".join("?" * len(line))
                self._connection.execute(f"INSERT INTO {table} VALUES({places})", line)

    def _keep(self, portfolio: Portfolio) -> None:
        row = (portfolio.account, portfolio.version, cached(portfolio))
        self._connection.execute("INSERT OR REPLACE INTO holding VALUES(?,?,?)", row)

    # --- what an entry must be

    def _check(self, new: New) -> None:
        if not new.account and (new.postings or new.orders):
            raise LedgerError("postings and orders need an account")
        if left := book.imbalance(new.postings):
            raise LedgerError(f"the postings do not balance: {left}")
        if unknown := {posting.book for posting in new.postings}.difference(book.BOOKS):
            raise LedgerError(f"there is no book {', '.join(sorted(unknown))}; use {', '.join(book.BOOKS)}")
        if CASH in {*(f.symbol for f in new.fills), *(order.trade.symbol for order in new.orders)}:
            raise LedgerError(f"a symbol {CASH!r} cannot be told from the currency")
        if book.contradict(new.fills, new.postings):
            raise LedgerError("the postings of market and fees are not those of the fills")
        if new.call is not None and self.call(new.account, new.call.tool_call_id) is not None:
            raise CallRecorded(f"account {new.account!r} has a call {new.call.tool_call_id!r} already")
        self._check_orders(new)

    def _check_orders(self, new: New) -> None:
        placed = {order.id for order in new.orders}
        if any(order.account != new.account for order in new.orders):
            raise LedgerError("an entry places orders of its own account only")
        if len(placed) != len(new.orders) or any(self.entry_of_order(o) is not None for o in placed):
            raise LedgerError("an order of that id was placed already")
        states = {state.order: state for state in new.states}
        if missing := placed.difference(states):
            raise LedgerError(f"order {min(missing)!r} is placed without a state")
        traded = Counter[str]()
        for fill in new.fills:
            traded[fill.order] += fill.quantity
        for identifier in {*states, *traded}:
            if identifier not in placed and self.entry_of_order(identifier) is None:
                raise LedgerError(f"there is no order {identifier!r}")
            self._check_filled(identifier, states.get(identifier), traded[identifier])

    def _check_filled(self, identifier: str, state: OrderState | None, traded: int) -> None:
        query = "SELECT coalesce(sum(quantity), 0) FROM fill WHERE order_id = ?"
        total = next(self._connection.execute(query, (identifier,)))[0] + traded
        if state is None:
            raise LedgerError(f"a fill of order {identifier!r} comes without the order's new state")
        if state.filled != total:
            raise LedgerError(f"order {identifier!r} has fills of {total}, and its state says {state.filled}")


@contextmanager
def _refusing_misfits() -> Generator[None]:
    """What the columns do not take is refused like everything else."""
    try:
        yield
    except OverflowError:
        raise LedgerError("a number of the entry does not fit 64 bits") from None
    except ConstraintError as problem:
        raise LedgerError(f"the entry does not fit its table: {problem}") from None


class Ledger(Reading):
    """One ledger file. Not for two threads at once; open one each. Several processes may write it."""

    def __init__(self, path: Path, *, clock: Clock, vfs: str | None = None) -> None:
        super().__init__(open_writer(path, vfs=vfs))
        self.path = path
        self._clock = clock

    @staticmethod
    def read_only(path: Path) -> LedgerReader:
        """The ledger for reading alone, while others may write it."""
        return LedgerReader(path)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """For what is read in ways of its own."""
        return self._connection

    @contextmanager
    def writing(self) -> Generator[Writer]:
        """A write transaction: what is appended in it is on the disk when it ends, or nothing of it is."""
        if self._connection.in_transaction:
            raise LedgerError("a transaction is open already; end it first")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except BusyError:
            raise LedgerBusy("other writers held the ledger for five seconds; try again") from None
        writer = Writer(self._connection, self._folded, self._clock)
        try:
            yield writer
            self._connection.execute("COMMIT")
        except BaseException:
            self._folded.clear()  # it may hold what is undone now
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        finally:
            writer.end()


class LedgerReader(Reading):
    """A ledger that cannot be written through."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_reader(path))
        self.path = path

    def __enter__(self) -> LedgerReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def at_once(self) -> Generator[LedgerReader]:
        """Everything read inside is of one moment."""
        self._connection.execute("BEGIN DEFERRED")
        try:
            yield self
        finally:
            self._connection.execute("COMMIT")


# --- the cache ---------------------------------------------------------------------------------


def cached(portfolio: Portfolio) -> bytes:
    """A portfolio as the cache keeps it."""
    positions = [[p.symbol, p.quantity, p.cost] for p in portfolio.positions.values()]
    figures = (portfolio.cash, portfolio.version, portfolio.realised, portfolio.fees, portfolio.dividends)
    return json.dumps([*figures, positions])


def _held(account: str, body: bytes) -> Portfolio:
    cash, version, realised, fees, dividends, positions = json.loads(body)
    held = {symbol: Position(symbol, quantity, cost) for symbol, quantity, cost in positions}
    return Portfolio(account, cash, held, version, realised, fees, dividends)
