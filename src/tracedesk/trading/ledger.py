"""The ledger: entries in double entry under one hash chain, and the portfolios they fold to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tracedesk.journal import heads
from tracedesk.journal.heads import Witness
from tracedesk.journal.model import Head
from tracedesk.journal.sqlite import BusyError, Connection, ConstraintError
from tracedesk.primitives import json
from tracedesk.primitives.time import Clock
from tracedesk.trading import book
from tracedesk.trading.model import CASH, Order, OrderState, Portfolio, Position, Trade
from tracedesk.trading.schema import (
    CACHES,
    CHILDREN,
    GENESIS,
    OPEN_ORDERS,
    STREAM,
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
    "o.client_id, s.status, s.filled, s.reason, e.clock_ns"
)
_ANY: Final = (
    "trade_order o JOIN order_state s ON s.order_id = o.id AND (s.entry, s.line) = (SELECT entry, line "
    "FROM order_state WHERE order_id = o.id ORDER BY entry DESC, line DESC LIMIT 1) "
    "JOIN entry e ON e.seq = o.entry"
)
# A cross join is made in the order it is written in: the few open orders come first.
_OPEN: Final = (
    "open_order c CROSS JOIN trade_order o ON (o.entry, o.line) = (c.entry, c.line) "
    "CROSS JOIN order_state s ON (s.entry, s.line) = (c.state_entry, c.state_line) "
    "CROSS JOIN entry e ON e.seq = c.entry"
)
_CALL: Final = (
    "tool_call_id, tool, params_sha256, params, desk_call, response, code, call.account, entry, at_ns "
    "FROM call JOIN entry ON seq = entry"
)

Placed = tuple[Order, OrderState]
PlacedAt = tuple[Order, OrderState, int]
"""With the market time that the order was placed at."""


class Reading:
    """What can be read of a ledger, in a transaction or out of it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        return self._refolded(account).now

    def portfolio_at(self, account: str, clock_ns: int, *, and_at: Iterable[str] = ()) -> Portfolio:
        """The account as the entries before a market time left it, and those of some kinds at that time.

        On the account's newest day the cost does not grow with the ledger.
        """
        course = self._course(account)
        if course.clock_ns < clock_ns:
            return course.now
        base = course.day
        if base is None or base.through_ns >= clock_ns:
            base = book.Morning(book.BEGINNING, book.opened(account))
        # Not put in order by SQLite: it would choose the index by seq, and read the whole account.
        query = (
            "SELECT seq FROM entry WHERE account = ?1 AND clock_ns > ?2 AND clock_ns < ?3 UNION ALL "
            "SELECT seq FROM entry WHERE account = ?1 AND clock_ns = ?3 "
            "AND kind IN (SELECT value FROM json_each(?4))"
        )
        kinds = json.dumps(list(and_at)).decode()
        found = self._connection.execute(query, (account, base.through_ns, clock_ns, kinds))
        seqs, portfolio = sorted(seq for (seq,) in found), base.portfolio
        for first in range(0, len(seqs), _PAGE):
            for rows in gather(self._connection, seqs[first : first + _PAGE], ("fill", "posting")):
                portfolio = book.apply(portfolio, entry_of(rows))
        return portfolio

    def _course(self, account: str) -> book.Course:
        query = (
            "SELECT h.body, clock_ns, through_ns, d.body FROM holding h LEFT JOIN day d USING(account) "
            "WHERE account = ?"
        )
        for now, clock_ns, through_ns, then in self._connection.execute(query, (account,)):
            day = None if through_ns is None else book.Morning(through_ns, _held(account, then))
            return book.Course(_held(account, now), clock_ns, day)
        return self._refolded(account)

    def _refolded(self, account: str) -> book.Course:
        course, through = book.Course(book.opened(account)), 0
        query = f"SELECT seq FROM entry WHERE account = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"
        while seqs := [seq for (seq,) in self._connection.execute(query, (account, through))]:
            for rows in gather(self._connection, seqs, ("fill", "posting")):
                course = book.follow(course, entry_of(rows))
            through = seqs[-1]
        return course

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
        return next((found[:2] for found in self._orders(f"{_ANY} WHERE o.id = ?", (identifier,))), None)

    def orders(
        self, account: str, *, open_only: bool = False, after: str | None = None, limit: int = 100
    ) -> list[Placed]:
        """The account's orders, newest first; `after` is the id of the last one seen."""
        found = self.orders_placed(account, open_only=open_only, after=after, limit=limit)
        return [(order, state) for order, state, _ in found]

    def orders_placed(
        self, account: str, *, open_only: bool = False, after: str | None = None, limit: int = 100
    ) -> list[PlacedAt]:
        """The same, each with the market time that it was placed at."""
        source, key = (_OPEN, "c") if open_only else (_ANY, "o")
        conditions, bindings = [f"{key}.account = ?"], list[Any]([account])
        if after is not None:
            older = "(SELECT entry, line FROM trade_order WHERE id = ?)"
            conditions.append(f"({key}.entry, {key}.line) < {older}")
            bindings.append(after)
        newest = f"ORDER BY {key}.entry DESC, {key}.line DESC LIMIT ?"
        return list(self._orders(f"{source} WHERE {' AND '.join(conditions)} {newest}", [*bindings, limit]))

    def open_orders(self, account: str | None = None) -> list[Placed]:
        """The orders that may still be filled, of one account or of all, in the order they were placed."""
        return [(order, state) for order, state, _ in self.open_orders_placed(account)]

    def open_orders_placed(self, account: str | None = None) -> list[PlacedAt]:
        """The same, each with the market time that it was placed at."""
        where, bindings = ("WHERE c.account = ?", [account]) if account is not None else ("", [])
        return list(self._orders(f"{_OPEN} {where} ORDER BY c.entry, c.line", bindings))

    def last_order_change(self, account: str) -> int:
        """The last entry that changed the state of one of the account's orders; 0 when there is none."""
        query = "SELECT coalesce(max(entry), 0) FROM order_state WHERE account = ?"
        return next(self._connection.execute(query, (account,)))[0]

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

    def _orders(self, source: str, bindings: Sequence[Any]) -> Generator[PlacedAt]:
        for row in self._connection.execute(f"SELECT {_ORDER} FROM {source}", bindings):
            identifier, account, leg, *trade, client_id, status, filled, reason, clock_ns = row
            order = Order(identifier, account, Trade(*trade), leg, client_id)
            yield order, OrderState(identifier, status, filled, reason), clock_ns

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

    def __init__(self, connection: Connection, clock: Clock) -> None:
        super().__init__(connection)
        self._clock = clock
        self._is_open = True
        self.appended: Head | None = None
        """The chain's head after the last entry that this transaction wrote."""

    def append(self, new: New) -> int:
        """Write an entry and return its seq. Raises `LedgerError` for one that an audit would not accept."""
        if not self._is_open:
            raise LedgerError("the transaction has ended; begin another with writing()")
        self._check(new)
        before = self._course(new.account) if new.postings else None
        last, previous = self.head()
        rows = rows_of(new, last + 1, self._clock.now_ns())
        rows.hash = link(previous, rows)
        # A savepoint: a caller that catches the refusal must not commit half an entry.
        with _refusing_misfits(), self._connection:
            self._insert(rows)
            self._note_states(new.states, last + 1)
            if before is not None:
                self._keep(book.follow(before, entry_of(rows)))
        self.appended = Head(last + 1, rows.hash)
        return last + 1

    def rebuild(self) -> None:
        """Make the caches anew from the entries."""
        for cache in CACHES:
            self._connection.execute(f"DELETE FROM {cache}")
        self._connection.execute(f"INSERT INTO open_order {OPEN_ORDERS}")
        for account in self.accounts():
            course = self._refolded(account)
            if course.now.version:
                self._keep(course)

    def end(self) -> None:
        """Take no more entries."""
        self._is_open = False

    def _insert(self, rows: Rows) -> None:
        self._connection.execute("INSERT INTO entry VALUES(?,?,?,?,?,?,?)", (*rows.entry, rows.hash))
        for table, lines in rows.children.items():
            for line in lines:
                places = ",".join("?" * len(line))
                self._connection.execute(f"INSERT INTO {table} VALUES({places})", line)

    def _keep(self, course: book.Course) -> None:
        now, day, account = course.now, course.day, course.now.account
        row = (account, now.version, course.clock_ns, cached(now))
        self._connection.execute("INSERT OR REPLACE INTO holding VALUES(?,?,?,?)", row)
        if day is None:
            self._connection.execute("DELETE FROM day WHERE account = ?", (account,))
            return
        kept = "SELECT 1 FROM day WHERE account = ? AND through_ns = ?"
        # No two mornings of an account are of the same time: what follows one is of a later day.
        if not any(self._connection.execute(kept, (account, day.through_ns))):
            row = (account, day.through_ns, cached(day.portfolio))
            self._connection.execute("INSERT OR REPLACE INTO day VALUES(?,?,?)", row)

    def _note_states(self, states: Iterable[OrderState], seq: int) -> None:
        placed = "SELECT account, entry, line{} FROM trade_order WHERE id = ?"
        for line, state in enumerate(states):
            if state.status in OPEN:
                query = f"INSERT OR REPLACE INTO open_order {placed.format(', ?, ?')}"
                self._connection.execute(query, (seq, line, state.order))
            else:
                query = f"DELETE FROM open_order WHERE (account, entry, line) = ({placed.format('')})"
                self._connection.execute(query, (state.order,))

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
            if identifier not in placed:
                self._check_owner(identifier, new.account)
            self._check_filled(identifier, states.get(identifier), traded[identifier])

    def _check_owner(self, identifier: str, account: str) -> None:
        query = "SELECT account FROM trade_order WHERE id = ?"
        owner = next((name for (name,) in self._connection.execute(query, (identifier,))), None)
        if owner is None:
            raise LedgerError(f"there is no order {identifier!r}")
        if owner != account:
            raise LedgerError(f"order {identifier!r} is of another account")

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

    def __init__(
        self, path: Path, *, clock: Clock, vfs: str | None = None, witness: Witness | None = None
    ) -> None:
        """`witness` is given what this ledger commits, and stores beside it the heads of another file."""
        super().__init__(open_writer(path, vfs=vfs))
        self.path = path
        self._clock = clock
        self._witness = witness
        if witness is not None:
            self._prepare_heads()

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
        writer = Writer(self._connection, self._clock)
        try:
            yield writer
            self._store_heads(writer)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        finally:
            writer.end()
        if self._witness is not None and writer.appended is not None:
            self._witness.own.committed(STREAM, writer.appended)

    def _store_heads(self, writer: Writer) -> None:
        """Store the other file's heads beside entries; a transaction without any stays without."""
        if self._witness is not None and writer.appended is not None:
            self._witness.store(self._connection)

    def _prepare_heads(self) -> None:
        try:
            heads.prepare(self._connection)
        except BaseException:
            self._connection.close()
            raise


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
