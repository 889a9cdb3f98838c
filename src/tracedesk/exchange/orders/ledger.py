"""The ledger of orders: every intent, outcome and halt in the journal, and tables that find them.

An order is written down before it is sent, under an id that is never used again. The entries of a month are
the stream `orders-YYYY-MM` of the trace journal. They are never sealed, and so never pruned: what an id was
used for must be known for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.calls.log import prepare as prepare_calls
from tracedesk.contract import Edge, Source
from tracedesk.exchange.orders import identity as identities
from tracedesk.exchange.orders.caps import Judge, Usage
from tracedesk.exchange.orders.identity import Identity
from tracedesk.exchange.orders.report import (
    CONTRADICTION,
    OPEN,
    REFUSED,
    SENT,
    UNRESOLVED,
    State,
    kind_of,
)
from tracedesk.journal import Entry, Journal, Reader, StreamPruned, UnknownStream
from tracedesk.journal.append import Transaction
from tracedesk.journal.file import SMALL_PAGE
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives import json
from tracedesk.primitives.ids import StreamRef, parse_ref
from tracedesk.primitives.redaction import is_plain, redact
from tracedesk.primitives.time import DAY, HOUR, MINUTE, Clock, format, month

if TYPE_CHECKING:
    from tracedesk.calls import CallLog
    from tracedesk.contract import Call
    from tracedesk.primitives.redaction import Secrets

STREAM_KIND: Final = "orders"
PREFIX: Final = "orders-"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS exchange_order(
  client_order_id TEXT PRIMARY KEY,
  intent TEXT NOT NULL,
  latest TEXT NOT NULL,
  account TEXT NOT NULL,
  mode TEXT NOT NULL,
  symbol TEXT NOT NULL,
  side TEXT NOT NULL,
  order_type TEXT NOT NULL,
  quantity INTEGER NOT NULL,
  quote TEXT NOT NULL,
  notional INTEGER NOT NULL,
  sent_ns INTEGER NOT NULL,
  venue_ms INTEGER NOT NULL,
  status TEXT NOT NULL,
  order_id INTEGER,
  executed INTEGER NOT NULL DEFAULT 0,
  spent INTEGER NOT NULL DEFAULT 0,
  identity TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS exchange_order_status ON exchange_order(status, account);
CREATE INDEX IF NOT EXISTS exchange_order_sent ON exchange_order(account, sent_ns);
CREATE TABLE IF NOT EXISTS exchange_order_entry(
  client_order_id TEXT NOT NULL, ref TEXT NOT NULL, PRIMARY KEY(client_order_id, ref)
) WITHOUT ROWID, STRICT;
"""
_MARKED: Final = """
CREATE INDEX IF NOT EXISTS exchange_order_identity ON exchange_order(identity, sent_ns);
"""
_COLUMNS: Final = (
    "client_order_id, intent, latest, account, mode, symbol, side, order_type, quantity, quote, notional, "
    "sent_ns, venue_ms, status, order_id, executed, spent, identity"
)


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the ledger, as far as it is known."""

    client_order_id: str
    intent: str
    """The reference of the entry that it was written down by."""
    latest: str
    account: str
    mode: str
    symbol: str
    side: str
    order_type: str
    quantity: int
    quote: str
    notional: int
    sent_ns: int
    venue_ms: int
    """The venue's time when it was written down."""
    state: State
    identity: str = ""
    """The account at the venue, under whatever name; see `identity`."""

    @property
    def is_unresolved(self) -> bool:
        return self.state.status in UNRESOLVED

    def shown(self) -> dict[str, Any]:
        """How lists name it."""
        return {
            "client_order_id": self.client_order_id,
            "account": self.account,
            "symbol": self.symbol,
            "side": self.side,
            "status": self.state.status,
            "sent_at": format(self.sent_ns),
            "ref": self.latest,
        }


@dataclass(frozen=True, slots=True)
class Intent:
    """An order to write down."""

    client_order_id: str
    account: str
    mode: str
    symbol: str
    side: str
    order_type: str
    quantity: int
    quote: str
    notional: int
    venue_ms: int
    body: Mapping[str, Any]
    edges: Sequence[Edge] = ()
    marks: tuple[str, ...] = ()

    @property
    def identity(self) -> Identity:
        return Identity(self.account, self.marks)


class Duplicate(Exception):
    """The id was used before."""

    def __init__(self, order: Order) -> None:
        super().__init__(order.client_order_id)
        self.order = order


class Moved(Exception):
    """The account is not what it was when its turn was taken: others have sent, or it is told by another."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An account as its turn found it: what it was told by, and how much it had sent of late."""

    identity: str
    since_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class News:
    """What was heard of an order that is in the ledger."""

    client_order_id: str
    state: State
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    edges: Sequence[Edge] = ()


Answer = Callable[[str, Order], Any]
"""`(reference of the entry, the order after it) -> the answer of the call that made it`."""


class Ledger:
    """The orders of one home; any thread may use it, and any process beside."""

    def __init__(
        self, path: Path, clock: Clock, calls: CallLog | None = None, secrets: Secrets | None = None
    ) -> None:
        self.path = path
        self._clock = clock
        self._calls = calls
        self._secrets = secrets
        self._lock = threading.Lock()
        self._journal: Journal | None = None

    def close(self) -> None:
        with self._lock:
            self._shut()

    # --- writing

    def intend(self, intent: Intent, judge: Judge, seen: Seen | None = None) -> Order:
        """Write an order down, judged on what the account has sent under any name.

        Raises `Duplicate` for a used id, and `Moved` where the account is not the one that was seen.
        """
        with self._writing() as journal:
            known = _find(journal.connection, intent.client_order_id)
            if known is not None:
                raise Duplicate(known)
            now = self._clock.now_ns()
            whose = identities.join(journal.connection, intent.identity)
            if seen is not None and _seen(journal.connection, intent.identity, whose, seen.since_ns) != seen:
                raise Moved
            judge(_usage(journal.connection, intent.identity, intent.quote, now))
            body = {"client_order_id": intent.client_order_id, "account": intent.account, "mode": intent.mode}
            ref = self._append(journal, "intent", {**body, **intent.body}, intent.edges)
            _insert(journal.connection, intent, whose, ref, now)
            found = _find(journal.connection, intent.client_order_id)
            assert found is not None
            return found

    def tell(
        self, news: News, *, call: Call[Any] | None = None, answer: Answer | None = None
    ) -> tuple[Order, Any]:
        """Write down what was heard of an order, with the record of the call that answers by it.

        A state that is no news leaves no entry; the answer is made and recorded all the same. Where it is
        None, the call was answered otherwise.
        """
        with self._writing() as journal:
            order = _find(journal.connection, news.client_order_id)
            assert order is not None
            if news.state.follows(order.state):
                order = self._applied(journal, order, news)
            elif news.state.denies(order.state):
                order = self._contradicted(journal, order, news)
            made = None if answer is None else answer(order.latest, order)
            self._record(journal, call, made)
        _mark(call, self._calls, made)
        return order, made

    def note(
        self,
        kind: str,
        body: Mapping[str, Any],
        edges: Sequence[Edge] = (),
        *,
        call: Call[Any] | None = None,
        answer: Callable[[str], Any] | None = None,
    ) -> tuple[str, Any]:
        """Write down what is about no single order of the ledger: a halt, a foreign order's cancelling."""
        with self._writing() as journal:
            ref = self._append(journal, kind, body, edges)
            made = None if answer is None else answer(ref)
            self._record(journal, call, made)
        _mark(call, self._calls, made)
        return ref, made

    def join(self, identity: Identity) -> None:
        """Know an account by all its marks from now on; for marks that the venue has confirmed."""
        with self._reading() as connection:
            if identities.is_joined(connection, identity):
                return
        with self._writing() as journal:
            identities.join(journal.connection, identity)

    def _applied(self, journal: Journal, order: Order, news: News) -> Order:
        state = news.state
        body = {
            "client_order_id": order.client_order_id,
            "account": order.account,
            "mode": order.mode,
            "status": state.status,
            "order_id": state.order_id,
        }
        edges = [Edge("intent", order.intent), *news.edges]
        if order.latest != order.intent:
            edges.insert(1, Edge("follows", order.latest))
        ref = self._append(journal, kind_of(order.state, state), {**body, **news.body}, edges)
        journal.connection.execute(
            "UPDATE exchange_order SET latest = ?, status = ?, order_id = coalesce(?, order_id), "
            "executed = ?, spent = ? WHERE client_order_id = ?",
            (ref, state.status, state.order_id, state.executed, state.spent, order.client_order_id),
        )
        _index(journal.connection, order.client_order_id, ref)
        found = _find(journal.connection, order.client_order_id)
        assert found is not None
        return found

    def _contradicted(self, journal: Journal, order: Order, news: News) -> Order:
        """The venue has no such order, and had it: both are written down, and what was seen stays seen."""
        before = self.resolve(order.latest)
        if before is not None and before.kind == f"order_{CONTRADICTION}":
            return order  # it was said before
        body = {"client_order_id": order.client_order_id, "account": order.account, "mode": order.mode}
        said = {"known": order.state.status, "heard": news.state.status, "order_id": order.state.order_id}
        edges = [Edge("intent", order.intent), Edge("contradicts", order.latest), *news.edges]
        ref = self._append(journal, CONTRADICTION, {**body, **said, **news.body}, edges)
        connection = journal.connection
        connection.execute(
            "UPDATE exchange_order SET latest = ? WHERE client_order_id = ?", (ref, order.client_order_id)
        )
        _index(connection, order.client_order_id, ref)
        return replace(order, latest=ref)

    def _append(self, journal: Journal, kind: str, body: Mapping[str, Any], edges: Sequence[Edge]) -> str:
        now = self._clock.now_ns()
        name = f"{PREFIX}{month(now)}"
        journal.open(name, STREAM_KIND)
        document = {**body, "edges": [[edge.relation, edge.ref] for edge in edges]}
        raw = json.dumps(document)
        # Reasons and refusals are the words of others, who may repeat what they should not.
        if not is_plain(raw, self._secrets):
            raw = json.dumps(redact(document, self._secrets))
        seqs = journal.append(name, [Entry(kind, now, raw)])
        return str(StreamRef("exchange", name, seqs[0]))

    def _record(self, journal: Journal, call: Call[Any] | None, answer: Any) -> None:
        if call is not None and call.record is not None and self._calls is not None and answer is not None:
            self._calls.store(journal, call.record, json.dumps(answer))

    # --- reading

    def order(self, client_order_id: str) -> Order | None:
        with self._reading() as connection:
            return _find(connection, client_order_id)

    def order_of(self, identity: Identity, client_order_id: str) -> Order | None:
        """An order of an account, under whatever name it was sent."""
        with self._reading() as connection:
            found = _find(connection, client_order_id)
            if found is None or found.mode != identity.venue:
                return None
            is_theirs = found.account == identity.name or found.identity in identities.own(
                connection, identity
            )
            return found if is_theirs else None

    def identity(self, identity: Identity) -> str:
        """What an account is told by, the same under all its names."""
        with self._reading() as connection:
            return identities.known(connection, identity)[0]

    def own(self, identity: Identity) -> frozenset[str]:
        """The identities of orders that are the account's for certain."""
        with self._reading() as connection:
            return identities.own(connection, identity)

    def seen(self, whose: Identity, identity: str) -> Seen:
        """The account now, in the turn that was taken on `identity`; compare `intend`."""
        with self._reading() as connection:
            return _seen(connection, whose, identity, self._clock.now_ns() - HOUR)

    def is_renewed(self, whose: Identity) -> bool:
        """Whether the name has live orders of another key, and only the venue's number can tell whose."""
        left = [*self._in(OPEN, whose), *self._in(UNRESOLVED, whose)]
        with self._reading() as connection:
            own = identities.own(connection, whose)
            return any(order.identity not in own for order in left) and not identities.is_numbered(
                connection, whose
            )

    def unresolved(self, whose: Identity | None = None) -> list[Order]:
        """The orders that nobody knows the outcome of, oldest first."""
        return self._in(UNRESOLVED, whose)

    def open(self, whose: Identity | None = None) -> list[Order]:
        """The orders that rested when they were last heard of, oldest first."""
        return self._in(OPEN, whose)

    def absent(self, whose: Identity, since_ns: int) -> list[Order]:
        """The late orders that the venue did not have."""
        return [order for order in self._in(("NEVER_ARRIVED",), whose) if order.sent_ns >= since_ns]

    def usage(self, whose: Identity, quote: str) -> Usage:
        with self._reading() as connection:
            return _usage(connection, whose, quote, self._clock.now_ns())

    def _in(self, statuses: Sequence[str], whose: Identity | None) -> list[Order]:
        """Of an account: at its venue alone, though under its name they may be of another key."""
        places = ",".join("?" * len(statuses))
        query = f"SELECT {_COLUMNS} FROM exchange_order WHERE status IN ({places})"
        values: tuple[Any, ...] = (*statuses,)
        with self._reading() as connection:
            if whose is not None:
                theirs, names = _theirs(connection, whose)
                query, values = f"{query} AND mode = ? AND {theirs}", (*values, whose.venue, *names)
            return [_order(row) for row in connection.execute(f"{query} ORDER BY sent_ns", values)]

    def resolve(self, ref: str) -> Source | None:
        """Resolve a reference to an entry; see `resolve`."""
        return resolve(self.path, ref)

    # --- the file

    @contextmanager
    def _writing(self) -> Generator[Journal]:
        """One transaction; after a failure the journal is opened anew, for it remembers undone streams."""
        with self._lock:
            try:
                journal = self._opened()
                with Transaction(journal.connection):
                    yield journal
            except BaseException:
                self._shut()
                raise

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        with self._lock:
            yield self._opened().connection

    def _opened(self) -> Journal:
        if self._journal is None:
            witness = None if self._calls is None else self._calls.witness
            journal = Journal(self.path, self._clock, page=SMALL_PAGE, witness=witness)
            try:
                prepare_calls(journal)
                with Transaction(journal.connection):
                    _prepare(journal.connection)
            except BaseException:
                journal.close()
                raise
            self._journal = journal
        return self._journal

    def _shut(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = None


def _prepare(connection: Connection) -> None:
    """Make the tables; orders from before identities were kept have their account's name for one."""
    connection.execute(_TABLES + identities.TABLES)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(exchange_order)")]
    if "identity" not in columns:
        connection.execute("ALTER TABLE exchange_order ADD COLUMN identity TEXT NOT NULL DEFAULT ''")
        connection.execute("UPDATE exchange_order SET identity = account")
    connection.execute(_MARKED)


def _mark(call: Call[Any] | None, calls: CallLog | None, answer: Any) -> None:
    """The record of the call is on the disk: the desk need not write it."""
    if call is not None and call.record is not None and calls is not None and answer is not None:
        call.record.stored = call.recorded = True


def _insert(connection: Connection, intent: Intent, whose: str, ref: str, now_ns: int) -> None:
    row = (
        intent.client_order_id,
        ref,
        ref,
        intent.account,
        intent.mode,
        intent.symbol,
        intent.side,
        intent.order_type,
        intent.quantity,
        intent.quote,
        intent.notional,
        now_ns,
        intent.venue_ms,
        SENT,
        None,
        0,
        0,
        whose,
    )
    connection.execute(f"INSERT INTO exchange_order({_COLUMNS}) VALUES({','.join('?' * len(row))})", row)
    _index(connection, intent.client_order_id, ref)


def _index(connection: Connection, client_order_id: str, ref: str) -> None:
    connection.execute("INSERT INTO exchange_order_entry VALUES(?,?)", (client_order_id, ref))


def _find(connection: Connection, client_order_id: str) -> Order | None:
    query = f"SELECT {_COLUMNS} FROM exchange_order WHERE client_order_id = ?"
    return next((_order(row) for row in connection.execute(query, (client_order_id,))), None)


def _order(row: Sequence[Any]) -> Order:
    return Order(*row[:13], state=State(*row[13:17]), identity=row[17])


def _usage(connection: Connection, whose: Identity, quote: str, now_ns: int) -> Usage:
    theirs, names = _theirs(connection, whose)
    minute = f"SELECT count(*) FROM exchange_order WHERE sent_ns > ? AND {theirs}"
    in_minute = next(connection.execute(minute, (now_ns - MINUTE, *names)))[0]
    day = (
        "SELECT coalesce(sum(max(notional, spent)), 0) FROM exchange_order "
        f"WHERE sent_ns >= ? AND quote = ? AND status NOT IN (?, 'NEVER_ARRIVED') AND {theirs}"
    )
    values = (now_ns - now_ns % DAY, quote, REFUSED, *names)
    return Usage(in_minute, next(connection.execute(day, values))[0])


def _seen(connection: Connection, whose: Identity, identity: str, since_ns: int) -> Seen:
    """An order takes far less than an hour: what was sent before has long been told by the venue."""
    theirs, names = _theirs(connection, whose)
    query = f"SELECT count(*) FROM exchange_order WHERE sent_ns >= ? AND {theirs}"
    return Seen(identity, since_ns, next(connection.execute(query, (since_ns, *names)))[0])


def _theirs(connection: Connection, whose: Identity) -> tuple[str, tuple[str, ...]]:
    """The condition that an order may be an account's: by its marks, or by its name.

    A name may have a new key, of the same account or of another: limits count both, which is the safe side.
    """
    found = identities.known(connection, whose)
    return f"(identity IN ({','.join('?' * len(found))}) OR account = ?)", (*found, whose.name)


def resolve(path: Path, ref: str) -> Source | None:
    """The entry behind a reference in a trace journal, with its edges and the principal that may see it.

    What became of an order is for the principal that placed it; an entry that names nobody is the owner's.
    """
    found = _entry(path, ref)
    if found is None or "principal" in found.body:
        return found
    intents = (_entry(path, edge.ref) for edge in found.edges if edge.relation == "intent")
    whose = next((intent.body.get("principal") for intent in intents if intent is not None), None)
    return replace(found, body={**found.body, "principal": whose})


def _entry(path: Path, ref: str) -> Source | None:
    try:
        parsed = parse_ref(ref)
    except ValueError:
        return None
    if not isinstance(parsed, StreamRef) or parsed.toolset != "exchange":
        return None
    if not parsed.stream.startswith(PREFIX) or not path.exists():
        return None
    with Reader(path) as reader:
        try:
            event = reader.event(parsed.stream, parsed.seq)
        except (UnknownStream, StreamPruned):
            return None
    if event is None:
        return None
    body = json.loads(event.body)
    edges = tuple(Edge(relation, to) for relation, to in body.pop("edges", ()))
    return Source(ref, f"order_{event.kind}", {**body, "at": format(event.time_ns)}, edges)
