"""The file the venue survives in: a command of a user is one transaction, on the disk before the reply.

Orders, fills and postings of users are kept for good. The background flow leaves no rows: what it
trades with users is posted to the one account `market`. Numbers that the flow uses up are reserved in
blocks, so that none is given twice after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

from tracedesk.exchange.venue.accounts import HOUSE, Account, Posting
from tracedesk.exchange.venue.live import Order
from tracedesk.exchange.venue.orders import Amendment, Fill, OrderState, PreventedMatch
from tracedesk.journal.format import Format
from tracedesk.journal.sqlite import Connection, connect

_APPLICATION_ID: Final = 0x54445658
_STATE: Final = tuple(each.name for each in fields(OrderState))
_COLUMNS: Final = (*_STATE, "open", "rank", "extreme", "amendments")
_FILL: Final = tuple(each.name for each in fields(Fill))
_PREVENTED: Final = tuple(each.name for each in fields(PreventedMatch))
_AMENDMENT: Final = tuple(each.name for each in fields(Amendment))
_OPEN: Final = "status IN ('NEW', 'PARTIALLY_FILLED')"

_SCHEMA: Final = f"""
CREATE TABLE account (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, maker INTEGER NOT NULL, taker INTEGER NOT NULL,
  opened_ns INTEGER NOT NULL);
CREATE TABLE posting (
  seq INTEGER PRIMARY KEY, command INTEGER NOT NULL, account INTEGER NOT NULL REFERENCES account,
  asset TEXT NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE balance (
  account INTEGER NOT NULL REFERENCES account, asset TEXT NOT NULL, total INTEGER NOT NULL,
  updated_ns INTEGER NOT NULL, PRIMARY KEY (account, asset)) WITHOUT ROWID;
CREATE TABLE user_order ({", ".join(_COLUMNS)}, PRIMARY KEY (id)) WITHOUT ROWID;
CREATE INDEX order_by_client ON user_order (account, symbol, client_order_id, id);
CREATE INDEX order_by_account ON user_order (account, symbol, id);
CREATE INDEX order_open ON user_order (id) WHERE {_OPEN};
CREATE TABLE fill ({", ".join(_FILL)}, PRIMARY KEY (symbol, trade_id, is_maker)) WITHOUT ROWID;
CREATE INDEX fill_by_account ON fill (account, symbol, trade_id);
CREATE TABLE prevented ({", ".join(_PREVENTED)}, PRIMARY KEY (symbol, id)) WITHOUT ROWID;
CREATE TABLE amendment ({", ".join(_AMENDMENT)}, PRIMARY KEY (execution_id)) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE status (symbol TEXT PRIMARY KEY, status TEXT NOT NULL) WITHOUT ROWID;
"""


class StoreError(Exception):
    """A file that is not a venue's, or not this one's."""


FORMAT: Final = Format("venue", _APPLICATION_ID, _SCHEMA, StoreError)


@dataclass(slots=True)
class Batch:
    """What one command changed."""

    ns: int
    opened: list[Account] = field(default_factory=list[Account])
    placed: set[int] = field(default_factory=set[int])
    """Orders that are new, so that none may be known by their numbers."""
    orders: dict[int, Order] = field(default_factory=dict[int, Order])
    fills: list[Fill] = field(default_factory=list[Fill])
    prevented: list[PreventedMatch] = field(default_factory=list[PreventedMatch])
    amendments: list[Amendment] = field(default_factory=list[Amendment])
    postings: list[Posting] = field(default_factory=list[Posting])


class Store:
    """The durable half of a venue; with no path it forgets all when closed."""

    def __init__(self, path: Path | None = None, *, vfs: str | None = None) -> None:
        self._names: dict[int, str] = {}
        self._db = FORMAT.open_writer(path, vfs=vfs) if path else _in_memory()
        self.commands = self.counters().get("command", 0)
        """How many commands were ever written."""

    @property
    def connection(self) -> Connection:
        return self._db

    def close(self) -> None:
        self._db.close()

    def accounts(self, now_ns: int) -> list[Account]:
        """Every account with what it holds; the house's own are made when the file is new."""
        for name in HOUSE:
            self._db.execute(
                "INSERT OR IGNORE INTO account (name, maker, taker, opened_ns) VALUES (?, 0, 0, ?)",
                (name, now_ns),
            )
        rows = self._db.execute("SELECT id, name, maker, taker, opened_ns FROM account ORDER BY id")
        found = {row[0]: Account(*row) for row in rows}
        for id, asset, total, updated_ns in self._db.execute(
            "SELECT account, asset, total, updated_ns FROM balance"
        ):
            found[id].total[asset] = total
            found[id].updated_ns = max(found[id].updated_ns, updated_ns)
        self._names = {each.id: each.name for each in found.values()}
        return list(found.values())

    def counters(self) -> dict[str, int]:
        return dict(self._db.execute("SELECT name, value FROM counter"))

    def set_counter(self, name: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO counter VALUES (?, ?)", (name, value))

    def statuses(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT symbol, status FROM status"))

    def set_status(self, symbol: str, status: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO status VALUES (?, ?)", (symbol, status))

    def commit(self, batch: Batch, accounts: Iterable[tuple[Account, str]], execution: int) -> None:
        """Write what a command changed, all of it or nothing; `accounts` are those whose balances changed."""
        with self._db:
            for account in batch.opened:
                self._add_account(account)
            new = [each for each in batch.orders.values() if each.id in batch.placed]
            known = [each for each in batch.orders.values() if each.id not in batch.placed]
            _put(self._db, "user_order", _COLUMNS, map(_row, new), "INSERT")
            _put(self._db, "user_order", _COLUMNS, map(_row, known))
            _put(self._db, "fill", _FILL, self._numbered(_FILL, batch.fills))
            _put(self._db, "prevented", _PREVENTED, self._numbered(_PREVENTED, batch.prevented))
            _put(self._db, "amendment", _AMENDMENT, self._numbered(_AMENDMENT, batch.amendments))
            _put(
                self._db,
                "posting",
                ("command", "account", "asset", "amount"),
                ((self.commands + 1, *each) for each in batch.postings),
            )
            _put(
                self._db,
                "balance",
                ("account", "asset", "total", "updated_ns"),
                ((each.id, asset, each.total[asset], batch.ns) for each, asset in accounts),
            )
            self.set_counter("execution", execution)
            self.set_counter("command", self.commands + 1)
        self.commands += 1

    def _add_account(self, account: Account) -> None:
        values = (account.id, account.name, account.maker, account.taker, account.updated_ns)
        self._db.execute("INSERT INTO account VALUES (?, ?, ?, ?, ?)", values)
        self._names[account.id] = account.name

    def _numbered(self, columns: Sequence[str], values: Iterable[Any]) -> Iterator[Sequence[Any]]:
        """The columns of values whose first is the account, with the account's number there."""
        numbers = {name: id for id, name in self._names.items()}
        rest = attrgetter(*columns[1:])
        return ((numbers[each.account], *rest(each)) for each in values)

    def open_orders(self) -> Iterator[tuple[OrderState, dict[str, int]]]:
        """Orders that may still trade, oldest place first, with what only the book knows of them."""
        for row in self._db.execute(
            f"SELECT {_all(_COLUMNS)} FROM user_order WHERE {_OPEN} ORDER BY rank, id"
        ):
            yield self._state(row), dict(zip(_COLUMNS[len(_STATE) :], row[len(_STATE) :], strict=True))

    def last_rank(self) -> int:
        return next(self._db.execute("SELECT coalesce(max(rank), 0) FROM user_order"))[0]

    def last_prevented(self, symbol: str) -> int:
        """The number of the last prevented match; -1 before the first."""
        query = "SELECT coalesce(max(id), -1) FROM prevented WHERE symbol = ?"
        return next(self._db.execute(query, (symbol,)))[0]

    def order(self, account: int, symbol: str, order_id: int) -> OrderState | None:
        return next(self._states("account = ? AND symbol = ? AND id = ?", (account, symbol, order_id)), None)

    def order_by_client(self, account: int, symbol: str, client_order_id: str) -> OrderState | None:
        """The newest order that bore this id."""
        where = "account = ? AND symbol = ? AND client_order_id = ? ORDER BY id DESC LIMIT 1"
        return next(self._states(where, (account, symbol, client_order_id)), None)

    def orders(
        self,
        account: int,
        symbol: str,
        from_id: int | None,
        start_ns: int | None,
        end_ns: int | None,
        limit: int,
    ) -> tuple[OrderState, ...]:
        """Orders from an id or a time on, else the most recent; by id."""
        where, values = _window(
            "account = ? AND symbol = ?", [account, symbol], "created_ns", start_ns, end_ns
        )
        if from_id is not None:
            where, values = where + " AND id >= ?", [*values, from_id]
        order = "DESC" if from_id is None and start_ns is None else "ASC"
        found = self._states(f"{where} ORDER BY id {order} LIMIT ?", (*values, limit))
        return tuple(sorted(found, key=lambda each: each.id))

    def fills(
        self,
        account: int,
        symbol: str,
        order_id: int | None,
        from_id: int | None,
        start_ns: int | None,
        end_ns: int | None,
        limit: int,
    ) -> tuple[Fill, ...]:
        """An account's fills from an id or a time on, else the most recent; by trade."""
        where, values = _window("account = ? AND symbol = ?", [account, symbol], "ns", start_ns, end_ns)
        for clause, value in ((" AND order_id = ?", order_id), (" AND trade_id >= ?", from_id)):
            if value is not None:
                where, values = where + clause, [*values, value]
        order = "DESC" if from_id is None and start_ns is None else "ASC"
        query = f"SELECT {_all(_FILL)} FROM fill WHERE {where} ORDER BY trade_id {order} LIMIT ?"
        found = [self._fill(row) for row in self._db.execute(query, (*values, limit))]
        return tuple(sorted(found, key=lambda each: (each.trade_id, each.is_maker)))

    def prevented(
        self, account: int, symbol: str, id: int | None, order_id: int | None, from_id: int | None, limit: int
    ) -> tuple[PreventedMatch, ...]:
        where, values = "account = ? AND symbol = ?", [account, symbol]
        if id is not None:
            where, values = where + " AND id = ?", [*values, id]
        if order_id is not None:
            where, values = where + " AND ? IN (taker_order_id, maker_order_id)", [*values, order_id]
        if from_id is not None:
            where, values = where + " AND id >= ?", [*values, from_id]
        query = f"SELECT {_all(_PREVENTED)} FROM prevented WHERE {where} ORDER BY id LIMIT ?"
        return tuple(PreventedMatch(*self._named(row)) for row in self._db.execute(query, (*values, limit)))

    def amendments(
        self, account: int, symbol: str, order_id: int, from_execution_id: int | None, limit: int
    ) -> tuple[Amendment, ...]:
        query = (
            f"SELECT {_all(_AMENDMENT)} FROM amendment WHERE account = ? AND symbol = ? AND order_id = ? "
            "AND execution_id >= ? ORDER BY execution_id LIMIT ?"
        )
        values = (account, symbol, order_id, from_execution_id or 0, limit)
        return tuple(Amendment(*self._named(row)) for row in self._db.execute(query, values))

    def posted(self) -> dict[tuple[str, str], int]:
        """What each account holds of each asset by the postings alone."""
        query = "SELECT account, asset, sum(amount) FROM posting GROUP BY account, asset"
        return {(self._names[account], asset): amount for account, asset, amount in self._db.execute(query)}

    def _states(self, where: str, values: Sequence[Any]) -> Iterator[OrderState]:
        for row in self._db.execute(f"SELECT {_all(_STATE)} FROM user_order WHERE {where}", values):
            yield self._state(row)

    def _state(self, row: Sequence[Any]) -> OrderState:
        told = dict(zip(_STATE, row[: len(_STATE)], strict=True))
        told["account"] = self._names[told["account"]]
        told["is_working"] = bool(told["is_working"])
        return OrderState(**told)

    def _fill(self, row: Sequence[Any]) -> Fill:
        told = dict(zip(_FILL, self._named(row), strict=True))
        told["is_buyer"], told["is_maker"] = bool(told["is_buyer"]), bool(told["is_maker"])
        return Fill(**told)

    def _named(self, row: Sequence[Any]) -> Sequence[Any]:
        """A row whose first column, the account's number, is its name instead."""
        return (self._names[row[0]], *row[1:])


def _in_memory() -> Connection:
    connection = connect(Path(":memory:"))
    connection.execute(_SCHEMA)
    return connection


def _all(columns: Sequence[str]) -> str:
    return ", ".join(columns)


def _window(
    where: str, values: list[Any], column: str, start_ns: int | None, end_ns: int | None
) -> tuple[str, list[Any]]:
    if start_ns is not None:
        where, values = f"{where} AND {column} >= ?", [*values, start_ns]
    if end_ns is not None:
        where, values = f"{where} AND {column} <= ?", [*values, end_ns]
    return where, values


def _put(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    how: Literal["INSERT", "INSERT OR REPLACE"] = "INSERT OR REPLACE",
) -> None:
    places = ", ".join("?" * len(columns))
    connection.executemany(f"{how} INTO {table} ({_all(columns)}) VALUES ({places})", rows)


_told: Final = attrgetter(*_STATE)
_ACCOUNT: Final = _STATE.index("account")


def _row(order: Order) -> Sequence[Any]:
    told = list(_told(order.state()))
    told[_ACCOUNT] = order.account.id
    return (*told, order.open, order.rank, order.extreme, order.amendments)
