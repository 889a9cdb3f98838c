"""From events to the tables that queries read: one pass over a batch, in columns, many rows a statement.

A projector begins with a run and sees all of its events in order; what it has written depends on the events
alone and not on how they were batched, so a rebuild gives the same tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import repeat
from json import JSONDecoder
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tracedesk.backtest import validation
from tracedesk.backtest.bodies import nanoseconds
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
from tracedesk.backtest.shapes import Gathering, Part, Row, at_places
from tracedesk.backtest.texts import SlotKey, Slots, Texts
from tracedesk.backtest.validation import Fault, Judgement, Profile
from tracedesk.journal import Stream
from tracedesk.journal.file import MAX_SEQ, key
from tracedesk.journal.sqlite import Connection, insert
from tracedesk.primitives import json
from tracedesk.primitives.time import EARLIEST, LATEST

_parse: Final = JSONDecoder(parse_float=Decimal).decode
_SLOTTED: Final = frozenset((EventType.PositionUpdate, EventType.IndicatorCalculation, EventType.StateChange))
_NAMED: Final = (
    (SYMBOL, SYMBOL_TEXT),
    (ORDER, ORDER_TEXT),
    (INDICATOR, INDICATOR_TEXT),
    (POSITION, POSITION_TEXT),
)
"""The properties that name something, in the order in which one event's texts get their numbers."""


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


class Asked(NamedTuple):
    """What a run's meta asks of whoever makes its tables."""

    profile: Profile
    start_ns: int
    end_ns: int

    @classmethod
    def by(cls, stream: Stream) -> Asked:
        start, end = stream.meta.get("startTime"), stream.meta.get("endTime")
        return cls(
            stream.meta.get("profile", ""),
            EARLIEST if start is None else nanoseconds(start),
            LATEST if end is None else nanoseconds(end),
        )


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

    @classmethod
    def of(cls, stream: Stream) -> Projector:
        """A projector for a run, as its meta asks."""
        profile, start, end = Asked.by(stream)
        return cls(stream, profile=profile, start_ns=start, end_ns=end)

    def write(
        self, connection: Connection, first: int, batch: Batch, *, taken: Callable[[], None] | None = None
    ) -> None:
        """Write what these events add, the first of which has the seq `first`.

        `taken` is called when what is left to do is SQLite's.
        """
        self.take(connection, first, batch)
        if taken is not None:
            taken()
        self.put(connection)
        self.settle()

    def take(self, connection: Connection, first: int, batch: Batch) -> None:
        """Take events in; their rows wait for `put`."""
        events = range(self._base + first, self._base + first + len(batch.types))
        self._texts.begin(connection)
        facts = _Facts(batch)
        parts = self._parts(batch)
        self._name(parts, facts, events)
        self._check(parts, facts, events, batch)
        self._waiting = _Taken(events, batch, facts, self._fill(parts, facts, events, batch))

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

    def _parts(self, batch: Batch) -> list[Part]:
        """The batch by types, and each type's events as far as they lie in one chunk."""
        members: defaultdict[EventType, list[int]] = defaultdict(list)
        for at, kind in enumerate(batch.types):
            members[kind].append(at)
        return [
            Part.of(kind, places[part], ordinal, batch.rows)
            for kind, places in members.items()
            for part, ordinal in self._chunks.cut(kind, len(places))
        ]

    def _name(self, parts: Sequence[Part], facts: _Facts, events: range) -> None:
        """What each event names: a symbol, an order, a position, an indicator, a slot."""
        named = (facts.symbols, facts.orders, facts.indicators, facts.positions)
        new: list[tuple[int, int, Any]] = []
        for part in parts:
            for share in part.shares:
                for turn, (name, kind) in enumerate(_NAMED):
                    values = share.columns.get(name)
                    if values is not None:
                        found = self._texts.known_of(kind, values)
                        _put_at(named[turn], share.places, found)
                        new += [
                            (at, turn, value)
                            for at, value, number in zip(share.places, values, found, strict=True)
                            if number is None
                        ]
        # Numbers are given in the order of the events, and of the names in each.
        for at, turn, value in sorted(new, key=_turn):
            named[turn][at] = self._texts.number(_NAMED[turn][1], value, events[at])
        self._slot(parts, facts, events)

    def _slot(self, parts: Sequence[Part], facts: _Facts, events: range) -> None:
        """Which slot each event sets."""
        new: list[tuple[int, SlotKey]] = []
        for part in parts:
            if part.kind in _SLOTTED:
                for share in part.shares:
                    take = at_places(share.places)
                    keys = self._slots.keys(
                        part.kind, take(facts.symbols), take(facts.indicators), share.columns
                    )
                    found = self._slots.known_of(keys)
                    _put_at(facts.slots, share.places, found)
                    new += [
                        (at, key)
                        for at, key, number in zip(share.places, keys, found, strict=True)
                        if number is None and key is not None
                    ]
        for at, slot in sorted(new, key=itemgetter(0)):
            facts.slots[at] = self._slots.number(slot, events[at])

    def _check(self, parts: Sequence[Part], facts: _Facts, events: range, batch: Batch) -> None:
        """Follow the orders, event after event."""
        told: list[tuple[int, EventType]] = []
        for part in parts:
            if part.kind in ORDER_TYPES:
                for share in part.shares:
                    if ORDER in share.columns:
                        told += zip(share.places, repeat(part.kind))
        add, orders = self._checkpoints.add, facts.orders
        for at, kind in sorted(told):
            order = orders[at]
            if order is not None:
                add(kind, order, events[at], batch.times[at], batch.rows[at])

    def _fill(
        self, parts: Sequence[Part], facts: _Facts, events: range, batch: Batch
    ) -> list[tuple[int, bytes]]:
        """Chunks and moments by type, and the events' faults on the way."""
        faults: _Faults = defaultdict(list)
        for part in parts:
            self._fill_part(part, facts, events, batch, faults)
        self._judge_frames(batch, faults)
        judged = {at: Judgement.of(found) for at, found in sorted(faults.items())}
        for at, judgement in judged.items():
            facts.errors[at] = judgement.bits
        return [(events[at], judgement.document) for at, judgement in judged.items()]

    def _fill_part(self, part: Part, facts: _Facts, events: range, batch: Batch, faults: _Faults) -> None:
        gathering = Gathering()
        for share in part.shares:
            gathering.add(share.group, share.columns)
            if validation.may_be_faulty(part.kind, share.columns, self._profile):
                for row, at in zip(share.group.rows, share.places, strict=True):
                    found = validation.faults_of(part.kind, row, self._profile)
                    if found:
                        faults[at] += found
        take = at_places(part.places)
        self._chunks.add(part.kind, take(events), take(batch.times), take(facts.severities), gathering)

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


def _put_at(column: list[Any], places: Sequence[int], values: Sequence[Any]) -> None:
    for at, value in zip(places, values, strict=True):
        column[at] = value


def _turn(new: tuple[int, int, Any]) -> tuple[int, int]:
    return new[:2]


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
    _add(connection, _ADD_USED, [(*pair, n, events[0]) for pair, n in used.items()])
    _add(connection, _ADD_TALLY, [(*three, n, events[0]) for three, n in tally.items()])


def _add(connection: Connection, statement: str, rows: list[tuple[int, ...]]) -> None:
    """All rows by one statement: each one hands the interpreter over and waits to get it back."""
    if rows:
        connection.execute(statement, (json.dumps(rows).decode(),))


_ADD_USED: Final = (
    "INSERT INTO used SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?) WHERE 1 "
    "ON CONFLICT DO UPDATE SET n = n + excluded.n"
)
_ADD_TALLY: Final = (
    "INSERT INTO tally SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 "
    "FROM json_each(?) WHERE 1 ON CONFLICT DO UPDATE SET n = n + excluded.n"
)


def write_given(connection: Connection, stream: Stream, given: Mapping[int, Given]) -> None:
    """Keep what the journal does not: severities, categories, GUIDs and faults that were given, by seq."""
    rows = [(key(stream.id, seq), *one) for seq, one in given.items()]
    if rows:
        insert(connection, "INSERT INTO given", list(zip(*rows, strict=True)))


# --- from the journal --------------------------------------------------------------------------


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
