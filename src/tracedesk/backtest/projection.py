"""From events to the tables that queries read: one pass over a batch, in columns, many rows a statement.

A projector begins with a run and sees all of its events in order; what it has written depends on the events
alone and not on how they were batched, so a rebuild gives the same tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from json import JSONDecoder
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tracedesk.backtest import schema, validation
from tracedesk.backtest.chunks import Chunks
from tracedesk.backtest.model import (
    DEFAULT_CATEGORY,
    DEFAULT_SEVERITY,
    INDICATOR,
    ORDER,
    POSITION,
    SYMBOL,
    TYPES,
    EventType,
)
from tracedesk.backtest.orders import ORDER_TYPES, OpenOrders
from tracedesk.backtest.schema import CHECKPOINT, INDICATOR_TEXT, ORDER_TEXT, POSITION_TEXT, SYMBOL_TEXT
from tracedesk.backtest.shapes import Gathering, Row, grouped
from tracedesk.backtest.texts import Slots, Texts
from tracedesk.backtest.validation import Fault, Judgement, Profile
from tracedesk.journal import Stream
from tracedesk.journal.file import MAX_SEQ, key
from tracedesk.journal.sqlite import Connection, insert
from tracedesk.primitives import json
from tracedesk.primitives.time import EARLIEST, LATEST

REBUILD_BATCH: Final = 8_192
"""Events a rebuild takes at a time."""

_parse: Final = JSONDecoder(parse_float=Decimal).decode
_SLOTTED: Final = frozenset((EventType.PositionUpdate, EventType.IndicatorCalculation, EventType.StateChange))


class Given(NamedTuple):
    """What an event was recorded with beside what its journal row holds; None is the type's own."""

    severity: int | None = None
    category: int | None = None
    guid: bytes | None = None
    faults: bytes | None = None


Draft = tuple[EventType, int, Row, int | None, int, Given | None]
"""An event on its way into the tables: type, time, properties, parent, the size of its body, what was given.

A plain tuple: one is made for every event.
"""


class Batch(NamedTuple):
    """Drafts, turned on their side."""

    types: tuple[EventType, ...]
    times: tuple[int, ...]
    rows: tuple[Row, ...]
    parents: tuple[int | None, ...]
    sizes: tuple[int, ...]
    given: tuple[Given | None, ...]

    @classmethod
    def of(cls, drafts: Sequence[Draft]) -> Batch:
        """At least one draft."""
        return cls(*zip(*drafts, strict=True))


class Projector:
    """Writes the tables of one run, batch after batch."""

    def __init__(
        self, stream: Stream, *, profile: Profile = "", start_ns: int | None = None, end_ns: int | None = None
    ) -> None:
        self._base = key(stream.id, 0)
        self._profile: Profile = profile
        self._bounds = (EARLIEST if start_ns is None else start_ns, LATEST if end_ns is None else end_ns)
        self._texts = Texts()
        self._slots = Slots()
        self._chunks = Chunks()
        self._checkpoints = _Checkpoints()
        self._waiting: _Taken | None = None

    def write(self, connection: Connection, first: int, batch: Batch) -> None:
        """Write what these events add, the first of which has the seq `first`."""
        self.take(connection, first, batch)
        self.put(connection)
        self.settle()

    def take(self, connection: Connection, first: int, batch: Batch) -> None:
        """Take events in; their rows wait for `put`."""
        events = range(self._base + first, self._base + first + len(batch.types))
        self._texts.begin(connection)
        facts = _Facts(batch)
        self._name(facts, events, batch)
        self._waiting = _Taken(events, batch, facts, self._fill(facts, events, batch))

    def put(self, connection: Connection) -> None:
        """Write the rows that wait; again, if the transaction was not committed."""
        if self._waiting is None:
            return
        events, batch, facts, faults = self._waiting
        self._texts.put(connection)
        self._slots.put(connection)
        facts.write(connection, events, batch)
        _write_faults(connection, faults)
        _write_counts(connection, facts, events)
        self._chunks.put(connection)
        self._checkpoints.put(connection)

    def settle(self) -> None:
        """What waited is written, and the next events may come."""
        self._waiting = None
        for part in (self._texts, self._slots, self._chunks, self._checkpoints):
            part.settle()

    def _name(self, facts: _Facts, events: range, batch: Batch) -> None:
        """What each event names: a symbol, an order, a position, an indicator, a slot."""
        number, slot = self._texts.number, self._slots.number
        symbols, orders = self._texts.known(SYMBOL_TEXT), self._texts.known(ORDER_TEXT)
        indicators = self._texts.known(INDICATOR_TEXT)
        for at, (row, kind, event) in enumerate(zip(batch.rows, batch.types, events, strict=True)):
            symbol = indicator = None
            if SYMBOL in row:
                value = row[SYMBOL]
                symbol = symbols.get(value) if type(value) is str else None
                facts.symbols[at] = symbol = symbol or number(SYMBOL_TEXT, value, event)
            if ORDER in row:
                value = row[ORDER]
                order = orders.get(value) if type(value) is str else None
                facts.orders[at] = order = order or number(ORDER_TEXT, value, event)
                if order is not None and kind in ORDER_TYPES:
                    self._checkpoints.add(kind, order, event, batch.times[at], row)
            if INDICATOR in row:
                value = row[INDICATOR]
                indicator = indicators.get(value) if type(value) is str else None
                facts.indicators[at] = indicator = indicator or number(INDICATOR_TEXT, value, event)
            if kind in _SLOTTED:
                facts.slots[at] = slot(kind, symbol, indicator, row, event)
            if POSITION in row:
                facts.positions[at] = number(POSITION_TEXT, row[POSITION], event)

    def _fill(self, facts: _Facts, events: range, batch: Batch) -> list[tuple[int, bytes]]:
        """Chunks and moments by type, and the events' faults on the way."""
        faults: _Faults = defaultdict(list)
        members: defaultdict[EventType, list[int]] = defaultdict(list)
        for at, kind in enumerate(batch.types):
            members[kind].append(at)
        for kind, places in members.items():
            for part, ordinal in self._chunks.cut(kind, len(places)):
                self._fill_part(kind, places[part], ordinal, facts, events, batch, faults)
        self._judge_frames(batch, faults)
        judged = {at: Judgement.of(found) for at, found in sorted(faults.items())}
        for at, judgement in judged.items():
            facts.errors[at] = judgement.bits
        return [(events[at], judgement.document) for at, judgement in judged.items()]

    def _fill_part(
        self,
        kind: EventType,
        places: list[int],
        ordinal: int,
        facts: _Facts,
        events: range,
        batch: Batch,
        faults: _Faults,
    ) -> None:
        gathering = Gathering()
        take = _at(places)
        for group in grouped(take(batch.rows), range(ordinal, ordinal + len(places))):
            columns = group.columns()
            gathering.add(group, columns)
            if validation.may_be_faulty(kind, columns, self._profile):
                for row, place in zip(group.rows, group.ordinals, strict=True):
                    found = validation.faults_of(kind, row, self._profile)
                    if found:
                        faults[places[place - ordinal]] += found
        self._chunks.add(kind, take(events), take(batch.times), take(facts.severities), gathering)

    def _judge_frames(self, batch: Batch, faults: _Faults) -> None:
        """Faults that are not in the properties: brought along, too large, outside the run's time."""
        if has_given(batch):
            for at, given in enumerate(batch.given):
                if given is not None and given.faults is not None:
                    faults[at][:0] = json.loads(given.faults)
        if max(batch.sizes) > validation.LARGEST_BODY:
            for at, size in enumerate(batch.sizes):
                if size > validation.LARGEST_BODY:
                    faults[at].append(validation.TOO_LARGE)
        start, end = self._bounds
        if min(batch.times) < start or max(batch.times) > end:
            for at, time_ns in enumerate(batch.times):
                if not start <= time_ns <= end:
                    faults[at].append(validation.OUTSIDE)


def _at(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the items at these places out of a column."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda column: (column[places[0]],)


def has_given(batch: Batch) -> bool:
    """Whether any event was given something beside its properties."""
    return batch.given.count(None) < len(batch.given)


_SEVERITY: Final = {kind: int(severity) for kind, severity in DEFAULT_SEVERITY.items()}
_CATEGORY: Final = {kind: int(category) for kind, category in DEFAULT_CATEGORY.items()}


_Faults = defaultdict[int, list[Fault]]
"""Faults by the event's place in the batch."""


class _Facts:
    """The rows of `fact` for a batch, in columns; severity and category are the type's unless given."""

    def __init__(self, batch: Batch) -> None:
        count = len(batch.types)
        self.types = list(map(int, batch.types))
        self.severities = [_SEVERITY[kind] for kind in batch.types]
        self.categories = [_CATEGORY[kind] for kind in batch.types]
        self.symbols: list[int | None] = [None] * count
        self.orders: list[int | None] = [None] * count
        self.positions: list[int | None] = [None] * count
        self.indicators: list[int | None] = [None] * count
        self.slots: list[int | None] = [None] * count
        self.errors: list[int | None] = [None] * count
        self.guids: list[bytes | None] = [None] * count
        if has_given(batch):
            self._rate(batch)

    def _rate(self, batch: Batch) -> None:
        for at, given in enumerate(batch.given):
            if given is not None:
                self.severities[at] = given.severity or self.severities[at]
                self.categories[at] = given.category or self.categories[at]
                self.guids[at] = given.guid

    def write(self, connection: Connection, events: range, batch: Batch) -> None:
        """Insert the rows; columns without a value in the batch are left to their NULL."""
        columns: dict[str, Sequence[Any]] = {
            "event": events,
            "type": self.types,
            "ts": batch.times,
            "severity": self.severities,
            "category": self.categories,
        }
        perhaps: dict[str, Sequence[Any]] = {
            "parent": batch.parents,
            "symbol": self.symbols,
            "order_ref": self.orders,
            "position_ref": self.positions,
            "indicator": self.indicators,
            "slot": self.slots,
            "errors": self.errors,
            "guid": self.guids,
        }
        columns |= {name: column for name, column in perhaps.items() if any(column)}
        insert(connection, f"INSERT INTO fact({','.join(columns)})", list(columns.values()))


class _Taken(NamedTuple):
    """Events that a projector has taken in, and their rows."""

    events: range
    batch: Batch
    facts: _Facts
    faults: list[tuple[int, bytes]]


class _Checkpoints:
    """The open orders, and their checkpoints.

    The next one waits until twice as many order events have passed as orders are open, so that what
    checkpoints cost stays in proportion to the events, and a replay to its answer: telling an open order
    costs more than replaying two events.
    """

    def __init__(self) -> None:
        self._open = OpenOrders()
        self._count = 0
        self._due = CHECKPOINT
        self._ts: int | None = None
        self._is_sorted = True
        self._new: list[tuple[int, int, int, int, bytes]] = []

    def add(self, kind: EventType, order: int, event: int, time_ns: int, row: Row) -> None:
        if not self._open.apply(kind, order, event & MAX_SEQ, row):
            return
        self._count += 1
        if self._ts is None or time_ns >= self._ts:
            self._ts = time_ns
        else:
            self._is_sorted = False
        if self._count >= self._due:
            self._new.append((event, self._ts, self._count, int(self._is_sorted), self._open.dumped()))
            self._due = self._count + max(CHECKPOINT, 2 * len(self._open.by_ref))

    def put(self, connection: Connection) -> None:
        if self._new:
            insert(connection, "INSERT INTO checkpoint", list(zip(*self._new, strict=True)))

    def settle(self) -> None:
        self._new.clear()


def _write_faults(connection: Connection, faults: list[tuple[int, bytes]]) -> None:
    if faults:
        insert(connection, "INSERT INTO fault", list(zip(*faults, strict=True)))


def _write_counts(connection: Connection, facts: _Facts, events: range) -> None:
    """How often symbols and indicators are named, and the tally of types, severities and categories."""
    columns = (facts.symbols, facts.indicators, facts.types, facts.severities, facts.categories)
    used: Counter[tuple[int, int]] = Counter()
    tally: Counter[tuple[int, int, int]] = Counter()
    for (symbol, indicator, kind, *rating), count in Counter(zip(*columns, strict=True)).items():
        tally[kind, rating[0], rating[1]] += count
        if symbol is not None:
            used[symbol, kind] += count
        if indicator is not None:
            used[indicator, kind] += count
    connection.executemany(_ADD_USED, [(*pair, n, events[0]) for pair, n in used.items()])
    connection.executemany(_ADD_TALLY, [(*three, n, events[0]) for three, n in tally.items()])


_ADD_USED: Final = "INSERT INTO used VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n"
_ADD_TALLY: Final = "INSERT INTO tally VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n"


def write_given(connection: Connection, stream: Stream, first: int, given: Sequence[Given | None]) -> None:
    """Keep what the journal does not: severities, categories, GUIDs and faults that were given."""
    rows = [(key(stream.id, seq), *one) for seq, one in enumerate(given, first) if one is not None]
    if rows:
        insert(connection, "INSERT INTO given", list(zip(*rows, strict=True)))


# --- from the journal --------------------------------------------------------------------------


def rebuild(connection: Connection, stream: Stream, projector: Projector) -> int:
    """Make all tables anew from the journal and `given`; returns how many events there were.

    Each batch is a transaction of its own. Until the last one the tables count as incomplete, and a rebuild
    that was killed begins again.
    """
    with connection:
        connection.execute("UPDATE recording SET indexed = 0")
        schema.clear(connection)
        schema.drop_indexes(connection)
    done = 0
    while drafts := drafts_of(connection, stream, done, REBUILD_BATCH):
        with connection:
            projector.write(connection, done + 1, Batch.of(drafts))
        done += len(drafts)
    with connection:
        schema.create_indexes(connection)
        connection.execute("UPDATE recording SET indexed = 1")
    return done


def drafts_of(connection: Connection, stream: Stream, after: int, limit: int) -> list[Draft]:
    """The recorded events after a seq, as a projector takes them."""
    query = """
        SELECT e.kind, e.time_ns, e.parent, e.body, g.severity, g.category, g.guid, g.faults, g.event
        FROM event e LEFT JOIN given g ON g.event = e.id
        WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?
    """
    rows = connection.execute(query, (key(stream.id, after), key(stream.id, MAX_SEQ), limit))
    return [
        (TYPES[kind], time_ns, _parse(body.decode()), parent, len(body), Given(*given) if own else None)
        for kind, time_ns, parent, body, *given, own in rows
    ]
