"""The ledger's file: its format, tables and their guards, and entries as rows under the chain."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.journal.file import immutable
from tracedesk.journal.format import Format
from tracedesk.journal.heads import compared
from tracedesk.journal.model import Head
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json
from tracedesk.trading.model import EdgeTo, Fill, Order, OrderState, Posting, Trade

APPLICATION_ID: Final = 0x54444C31
"""'TDL1' in the file's header: tells a ledger from any other SQLite file."""


class LedgerError(Exception):
    """Something the ledger refuses or cannot do."""


class LedgerBusy(LedgerError):
    """Other writers held the file for longer than the busy timeout."""


class CallRecorded(LedgerError):
    """The account has a call of that `tool_call_id` already."""


_TABLES: Final = """
CREATE TABLE entry(
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  account TEXT NOT NULL,
  at_ns INTEGER NOT NULL,
  clock_ns INTEGER NOT NULL,
  body BLOB NOT NULL,
  hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;
CREATE INDEX entry_of_account ON entry(account, seq);
CREATE INDEX entry_by_wall_time ON entry(account, at_ns);
CREATE INDEX entry_by_market_time ON entry(account, clock_ns, kind);
CREATE INDEX entry_of_clock ON entry(seq) WHERE kind IN ('clock', 'open-clock');
CREATE TABLE call(
  entry INTEGER PRIMARY KEY,
  account TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  params_sha256 TEXT NOT NULL,
  params BLOB NOT NULL,
  desk_call TEXT NOT NULL,
  code TEXT,
  response BLOB NOT NULL,
  UNIQUE(account, tool_call_id)
) STRICT;
CREATE INDEX call_by_id ON call(tool_call_id);
CREATE TABLE trade_order(
  entry INTEGER NOT NULL,
  line INTEGER NOT NULL,
  id TEXT NOT NULL UNIQUE,
  account TEXT NOT NULL,
  leg INTEGER NOT NULL,
  symbol TEXT NOT NULL,
  side TEXT NOT NULL CHECK(side IN ('buy', 'sell')),
  quantity INTEGER NOT NULL CHECK(quantity > 0),
  type TEXT NOT NULL,
  price INTEGER,
  stop_price INTEGER,
  time_in_force TEXT NOT NULL,
  client_id TEXT NOT NULL,
  PRIMARY KEY(entry, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX order_of_account ON trade_order(account, entry, line);
CREATE TABLE order_state(
  entry INTEGER NOT NULL,
  line INTEGER NOT NULL,
  account TEXT NOT NULL,
  order_id TEXT NOT NULL,
  status TEXT NOT NULL,
  filled INTEGER NOT NULL,
  reason TEXT,
  PRIMARY KEY(entry, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX state_of_order ON order_state(order_id, entry, line);
CREATE INDEX state_of_account ON order_state(account, entry);
CREATE TABLE fill(
  entry INTEGER NOT NULL,
  line INTEGER NOT NULL,
  order_id TEXT NOT NULL,
  symbol TEXT NOT NULL,
  side TEXT NOT NULL CHECK(side IN ('buy', 'sell')),
  quantity INTEGER NOT NULL CHECK(quantity > 0),
  price INTEGER NOT NULL,
  notional INTEGER NOT NULL,
  fees INTEGER NOT NULL,
  PRIMARY KEY(entry, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX fill_of_order ON fill(order_id);
CREATE TABLE posting(
  entry INTEGER NOT NULL,
  line INTEGER NOT NULL,
  account TEXT NOT NULL,
  book TEXT NOT NULL,
  asset TEXT NOT NULL,
  units INTEGER NOT NULL,
  PRIMARY KEY(entry, line)
) STRICT, WITHOUT ROWID;
CREATE TABLE edge(
  entry INTEGER NOT NULL,
  line INTEGER NOT NULL,
  relation TEXT NOT NULL,
  ref TEXT NOT NULL,
  pointer TEXT NOT NULL,
  PRIMARY KEY(entry, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_to ON edge(ref);
CREATE TABLE holding(
  account TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  clock_ns INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE day(
  account TEXT PRIMARY KEY,
  through_ns INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE open_order(
  account TEXT NOT NULL,
  entry INTEGER NOT NULL,
  line INTEGER NOT NULL,
  state_entry INTEGER NOT NULL,
  state_line INTEGER NOT NULL,
  PRIMARY KEY(account, entry, line)
) STRICT, WITHOUT ROWID;
"""
"""The last three are caches, neither chained nor guarded, and follow from the rest: `holding` and `day` are
each account's `book.Course`, and `open_order` has the orders that may still be filled."""

CACHES: Final = ("holding", "day", "open_order")
OPEN_ORDERS: Final = (
    "SELECT o.account, o.entry, o.line, s.entry, s.line FROM trade_order o "
    "JOIN order_state s ON s.order_id = o.id AND (s.entry, s.line) = (SELECT entry, line FROM order_state "
    "WHERE order_id = o.id ORDER BY entry DESC, line DESC LIMIT 1) WHERE s.status IN ('open', 'sent')"
)
"""What `open_order` must hold."""

LINES: Final = ("trade_order", "order_state", "fill", "posting", "edge")
"""The tables that hold an entry's numbered lines."""

CHILDREN: Final = ("call", *LINES)
CHAINED: Final = ("entry", *CHILDREN)


def _line_is_taken(table: str) -> str:
    return f"EXISTS(SELECT 1 FROM {table} WHERE entry = NEW.entry AND line = NEW.line)"


_TAKEN: Final = {
    "entry": "NEW.seq IN (SELECT seq FROM entry)",
    "call": "NEW.entry IN (SELECT entry FROM call) OR EXISTS("
    "SELECT 1 FROM call WHERE account = NEW.account AND tool_call_id = NEW.tool_call_id)",
    **{table: _line_is_taken(table) for table in LINES},
    "trade_order": f"{_line_is_taken('trade_order')} OR NEW.id IN (SELECT id FROM trade_order)",
}

SCHEMA: Final = _TABLES + "".join(immutable(table, taken) for table, taken in _TAKEN.items())
FORMAT: Final = Format("ledger", APPLICATION_ID, SCHEMA, LedgerError)
definitions = FORMAT.definitions
open_reader = FORMAT.open_reader
open_writer = FORMAT.open_writer
STREAM: Final = "entries"
"""The name under which another file stores the head of this one's only chain."""


def contradiction(connection: Connection, head: Head) -> str | None:
    """The reason why a ledger cannot have had that head; None if it had."""
    query = "SELECT seq, hash FROM entry WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
    found = next((Head(*row) for row in connection.execute(query, (head.seq,))), Head(0, GENESIS))
    return compared(head, found)


# --- entries -----------------------------------------------------------------------------------

GENESIS: Final = hashlib.sha256(b"tracedesk ledger 1").digest()
"""The hash before the first entry: it binds the format."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call that changed the ledger or was refused: what was asked, and the answer byte for byte.

    `account`, `entry` and `at_ns` are those of the entry it stands in, and are filled in by reading.
    """

    tool_call_id: str
    tool: str
    params_sha256: str
    params: bytes
    desk_call: str
    response: bytes
    code: str | None = None
    """The error code, when the call was refused."""
    account: str = ""
    entry: int = 0
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class New:
    """An entry to append. The account is empty for what concerns them all, like a move of the clock."""

    kind: str
    account: str
    clock_ns: int
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    call: CallRow | None = None
    orders: Sequence[Order] = ()
    states: Sequence[OrderState] = ()
    fills: Sequence[Fill] = ()
    postings: Sequence[Posting] = ()
    edges: Sequence[EdgeTo] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """An appended entry: its seq is its identity and its order."""

    seq: int
    kind: str
    account: str
    at_ns: int
    clock_ns: int
    body: Mapping[str, Any]
    hash: bytes
    call: CallRow | None = None
    orders: tuple[Order, ...] = ()
    states: tuple[OrderState, ...] = ()
    fills: tuple[Fill, ...] = ()
    postings: tuple[Posting, ...] = ()
    edges: tuple[EdgeTo, ...] = ()


Row = tuple[Any, ...]


@dataclass(slots=True)
class Rows:
    """An entry as it stands in the tables; `entry` is its row without the hash."""

    entry: Row
    hash: bytes = b""
    children: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in CHILDREN})


def rows_of(new: New, seq: int, at_ns: int) -> Rows:
    """The rows that an entry is written as."""
    rows = Rows((seq, new.kind, new.account, at_ns, new.clock_ns, _canonical(new.body)))
    call, children = new.call, rows.children
    if call is not None:
        asked = (call.tool_call_id, call.tool, call.params_sha256, call.params, call.desk_call)
        children["call"] = [(seq, new.account, *asked, call.code, call.response)]
    children["trade_order"] = [(seq, line, *_order_row(order)) for line, order in enumerate(new.orders)]
    children["order_state"] = [
        (seq, line, new.account, s.order, s.status, s.filled, s.reason) for line, s in enumerate(new.states)
    ]
    children["fill"] = [
        (seq, line, f.order, f.symbol, f.side, f.quantity, f.price, f.notional, f.fees)
        for line, f in enumerate(new.fills)
    ]
    children["posting"] = [
        (seq, line, new.account, p.book, p.asset, p.units) for line, p in enumerate(new.postings)
    ]
    children["edge"] = [(seq, line, e.relation, e.ref, e.pointer) for line, e in enumerate(new.edges)]
    return rows


def _order_row(order: Order) -> Row:
    trade = order.trade
    asked = (trade.symbol, trade.side, trade.quantity, trade.type, trade.price, trade.stop_price)
    return order.id, order.account, order.leg, *asked, trade.time_in_force, order.client_id


def entry_of(rows: Rows) -> Entry:
    """The entry that was written as these rows."""
    seq, kind, account, at_ns, clock_ns, body = rows.entry
    of = rows.children
    calls = [
        CallRow(call, tool, digest, params, desk, response, code, owner, seq, at_ns)
        for _, owner, call, tool, digest, params, desk, code, response in of["call"]
    ]
    return Entry(
        seq,
        kind,
        account,
        at_ns,
        clock_ns,
        json.loads(body),
        rows.hash,
        calls[0] if calls else None,
        tuple(Order(i, a, Trade(*t), leg, client) for _, _, i, a, leg, *t, client in of["trade_order"]),
        tuple(OrderState(*row[3:]) for row in of["order_state"]),
        tuple(Fill(*row[2:]) for row in of["fill"]),
        tuple(Posting(*row[3:]) for row in of["posting"]),
        tuple(EdgeTo(*row[2:]) for row in of["edge"]),
    )


def link(previous: bytes, rows: Rows) -> bytes:
    """The hash after an entry: of the hash before it, its own row and every row that belongs to it."""
    tables = [[rows.entry], *(rows.children[table] for table in CHILDREN)]
    text = json.dumps([[[_plain(cell) for cell in row] for row in table] for table in tables])
    return hashlib.sha256(previous + text).digest()


def _plain(cell: Any) -> Any:
    """Bytes as hexadecimal text; each column has one type, so they are not mistaken for text."""
    return cell.hex() if isinstance(cell, bytes) else cell


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(_sorted(body))


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
