"""What a backtest records, our journal, and the event table that the seed describes, both on `apsw`.

The table has the seed's columns, keyed by GUID text, with the indexes its origin keeps; WAL and
synchronous=FULL, as ours. Both get their values ready made, except in the rows that time the encoding.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from tracedesk.journal import Entry, Journal
from tracedesk.journal.sqlite import Connection, connect
from tracedesk.primitives import json
from tracedesk.primitives.time import format as iso

BATCH: Final = 1_000
STREAM: Final = "run"
_START_NS: Final = 1_700_000_000_000_000_000
_SYMBOLS: Final = ("AAPL", "FB", "GOOG", "IBM", "MSFT")
_CATEGORIES: Final = {
    "MarketDataEvent": "MarketData",
    "IndicatorCalculation": "Indicators",
    "StateChange": "Execution",
    "TradeExecution": "Execution",
    "PositionUpdate": "Performance",
}

_TABLE: Final = """
CREATE TABLE Runs(Id TEXT PRIMARY KEY, StartTime TEXT, EndTime TEXT, ConfigHash TEXT);
CREATE TABLE Events(
  Id INTEGER PRIMARY KEY AUTOINCREMENT,
  EventId TEXT NOT NULL UNIQUE,
  RunId TEXT NOT NULL REFERENCES Runs(Id),
  Timestamp TEXT NOT NULL,
  EventType TEXT NOT NULL,
  Severity TEXT NOT NULL,
  Category TEXT NOT NULL,
  Properties TEXT NOT NULL CHECK(json_valid(Properties)),
  ParentEventId TEXT
);
CREATE INDEX ByTime ON Events(RunId, Timestamp);
CREATE INDEX ByType ON Events(EventType);
CREATE INDEX BySeverity ON Events(Severity);
CREATE INDEX ByCategory ON Events(Category);
CREATE INDEX ByParent ON Events(ParentEventId) WHERE ParentEventId IS NOT NULL;
"""
_INSERT: Final = (
    "INSERT INTO Events(EventId, RunId, Timestamp, EventType, Severity, Category, Properties, ParentEventId) "
    "VALUES(?,?,?,?,?,?,?,?)"
)


Turned = tuple[Sequence[str], Sequence[int], Sequence[bytes], Sequence[int | None]]
"""A batch by columns: kinds, times, bodies, parents."""


class Sample(NamedTuple):
    """One recorded event, before either store gives it its shape."""

    kind: str
    time_ns: int
    properties: dict[str, Any]
    parent: int | None


class Contestant(Protocol):
    """A store that takes one batch of what it was given when made, durably, per call."""

    name: str
    size: int
    held: int

    def prepare(self, round_number: int) -> None:
        """What a round needs done before its clock starts."""
        ...

    def append(self, batch: int) -> None: ...
    def close(self) -> None: ...


def samples(count: int) -> list[Sample]:
    """A causal stream: a bar, two indicators, an order, its fill, the position after it."""
    dice = random.Random(7)
    made: list[Sample] = []
    while len(made) < count:
        made += _bar(dice, len(made) + 1, _START_NS + len(made) * 1_000_000_000)
    return made[:count]


def _bar(dice: random.Random, seq: int, time_ns: int) -> list[Sample]:
    symbol, price = dice.choice(_SYMBOLS), round(dice.uniform(20, 700), 2)
    order = str(UUID(int=dice.getrandbits(128), version=4))
    bar = {
        "Open": price,
        "High": price + 1,
        "Low": price - 1,
        "Close": price + 0.5,
        "Volume": dice.randrange(9**7),
    }
    means = [
        {"IndicatorName": f"SMA_{n}", "Value": price + n / 7, "Parameters": {"Length": n}} for n in (20, 50)
    ]
    shared = {"SecuritySymbol": symbol}
    placed = {"StateType": "Order", "OrderId": order, "OrderStatus": "Placed", "ChangeReason": "cross"}
    fill = {
        "OrderId": order,
        "Direction": "Buy",
        "Quantity": 100,
        "Price": price,
        "Commission": 1.0,
        "Slippage": 0.05,
    }
    held = {"Quantity": 100, "AveragePrice": price, "UnrealizedPnL": 0.0, "RealizedPnL": round(price / 3, 2)}
    return [
        Sample("MarketDataEvent", time_ns, {**shared, "DataType": "Candle", "Data": bar}, None),
        *(Sample("IndicatorCalculation", time_ns, {**shared, **mean}, seq) for mean in means),
        Sample("StateChange", time_ns, {**shared, **placed}, seq + 2),
        Sample("TradeExecution", time_ns, {**shared, **fill}, seq + 3),
        Sample("PositionUpdate", time_ns, {**shared, **held}, seq + 4),
    ]


def entries(given: Sequence[Sample]) -> list[Entry]:
    return [Entry(s.kind, s.time_ns, json.dumps(s.properties), s.parent) for s in given]


def columns(given: Sequence[Sample]) -> Turned:
    """What a batch is appended by, as a recorder has it."""
    kinds, times, properties, parents = zip(*given, strict=True)
    return kinds, times, [json.dumps(each) for each in properties], parents


def batches(given: Sequence[Sample]) -> list[Sequence[Sample]]:
    return [given[at : at + BATCH] for at in range(0, len(given), BATCH)]


class Ours:
    """The journal: chain on, guards on, one transaction and one sync a batch."""

    size = BATCH

    def __init__(self, path: Path, given: Sequence[Sample], *, encoding: bool = False) -> None:
        self.name = "ours, encoding" if encoding else "ours"
        self._given = batches(given) if encoding else []
        self._ready = [] if encoding else [columns(batch) for batch in batches(given)]
        self.held = 0
        self._journal = Journal(path)
        self._journal.open(STREAM, "run")

    def prepare(self, round_number: int) -> None: ...

    def append(self, batch: int) -> None:
        self.held += BATCH
        ready = self._ready[batch] if self._ready else columns(self._given[batch])
        self._journal.append_columns(STREAM, *ready)

    def close(self) -> None:
        self._journal.close()


class Seed:
    """The seed's table, a batch a transaction."""

    size = BATCH

    def __init__(self, path: Path, given: Sequence[Sample], *, encoding: bool = False) -> None:
        self.name = f"the seed's table, {BATCH} a commit" + (", encoding" if encoding else "")
        self.held = 0
        self._given = given
        self._ids = _identities(len(given))
        self._ready = [] if encoding else self._rows(0, len(given))
        self._connection = _seed_connection(path, self._ids[0])

    def prepare(self, round_number: int) -> None: ...

    def append(self, batch: int) -> None:
        self._insert(batch * BATCH, (batch + 1) * BATCH)

    def close(self) -> None:
        self._connection.close()

    def _insert(self, start: int, end: int) -> None:
        rows = self._ready[start:end] if self._ready else self._rows(start, end)
        with self._connection:
            self._connection.executemany(_INSERT, rows)
        self.held += end - start

    def _rows(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return [self._row(seq, s) for seq, s in enumerate(self._given[start:end], start + 1)]

    def _row(self, seq: int, s: Sample) -> tuple[Any, ...]:
        return (
            self._ids[seq],
            self._ids[0],
            iso(s.time_ns),
            s.kind,
            "Info",
            _CATEGORIES[s.kind],
            json.dumps(s.properties).decode(),
            None if s.parent is None else self._ids[s.parent],
        )


class SeedPerEvent(Seed):
    """The origin's habit: an event a transaction, on a table as large as the others have by then."""

    size = 1

    def __init__(self, path: Path, given: Sequence[Sample], events_a_round: int, timed: int) -> None:
        super().__init__(path, given)
        self.name = "the seed's table, an event a commit"
        self._events_a_round = events_a_round
        self._timed = timed

    def prepare(self, round_number: int) -> None:
        start = round_number * self._events_a_round
        self._insert(start, start + self._events_a_round - self._timed)

    def append(self, batch: int) -> None:
        self._insert(self.held, self.held + 1)


def _identities(count: int) -> list[str]:
    """Random GUIDs: the run's, and one an event."""
    dice = random.Random(11)
    return [str(UUID(int=dice.getrandbits(128), version=4)) for _ in range(count + 1)]


def _seed_connection(path: Path, run: str) -> Connection:
    connection = connect(path)
    connection.transaction_mode = "IMMEDIATE"
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cache_size = -8192"):
        list(connection.execute(f"PRAGMA {setting}"))
    connection.execute(_TABLE)
    connection.execute("INSERT INTO Runs(Id) VALUES(?)", (run,))
    return connection
