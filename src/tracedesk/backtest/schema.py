"""The tables that a run's file has beside its journal: everything a query needs, rebuilt from the events.

`event` is always a journal row id: `journal.file.key(stream.id, seq)`; the stream of a run is the first of
its file, so `event & MAX_SEQ` is the seq. Tables about many events name the first of them in `event`, so that
pruning the run's stream finds their rows too. Times are UTC nanoseconds. Types, severities and categories are
the numbers of `model`. Everything is written in the transaction of the append that it describes.

recording   one row: the tables' version, whether the tables below are complete (`indexed`; 0 while a fast
            run is recorded or its tables are built), and the process that records (`pid`, `started`).
given       what an event was recorded with and its journal row does not hold: a severity, category, GUID or
            faults other than the derived ones. Not rebuilt: with the journal it is what the rest is made of.
fact        one row per event, in a file of version ROWS; one of version PACKED has `zone`, `strip` and `seen`
            instead, which the native part writes and shows as a table of this name and these columns
            (native/runs/README.md). `symbol`, `order_ref`, `position_ref`, `indicator` are `text.id`;
            `slot` is `slot.id`; `parent` is a seq, as in the journal; `errors` has the bits HAS_WARNING and
            HAS_ERROR.
named       where a text is found by its value, in a file of version PACKED; else an index of `text` does it.
fault       the validation errors of an event, as JSON: [{"Field", "Error", "Severity"}].
text        texts by number and number by text; `kind` is one of the numbers below. Exact texts: `canonical`.
used        how many events of a type name a symbol or an indicator (kinds SYMBOL and INDICATOR only; for
            orders and positions count the index, which has few rows for each).
slot        what has one latest value at any time: a PositionUpdate per symbol and position; an
            IndicatorCalculation per name, symbol and parameters; a StateChange of StateType "PnL" per symbol
            or none. `symbol` and `indicator` are `text.id`; `params` is the Parameters object as compact JSON
            with sorted names, or ''; of a position it is the PositionId. A symbol that has a position slot
            without one has a single position: that of the latest of its slots.
tally       how many events there are per type, severity and category.
span        per type: `n` events, `chunks` (the last may be open), time bounds, and whether the times never
            step back in recording order (`is_sorted`); else use the index, which is always right.
chunk       per type, CHUNK events each but the last: chunk `number` holds the events with ordinals
            number*CHUNK .. of that type in recording order. `last` is the row id of its last event.
            `errors`, `warnings`, `infos`, `debugs` count severities. min_ts and max_ts are bounds (the first
            and the last time, if sorted).
path        per type, every property path: how many values of each kind, numeric range with the digits of the
            values, a sample. `texts` counts all strings, `decimals` those of them that are decimal numbers;
            numeric values are `numbers` + `decimals` - `unfit` (outside the range of exact numbers).
            `has_moments` is 1 for the first MAX_PATHS numeric paths of a type. At most MAX_KNOWN paths of a
            type are kept; span.unlisted counts values at paths beyond that. Nested members are `$.a.b`; a
            name that is not of letters, digits, `_` and `-` is quoted: `$["a.b"]`.
moment      per path with moments and chunk: n values, their exact sum and sum of squares in units of
            10**-scale, min and max with their own digits. All integers and decimals are text.
            No row when the chunk has no numeric value at the path.
value       the numbers themselves in units of 10**-scale, in recording order, in one or more parts (several
            only while the chunk is open). `width` bytes each, little-endian, signed. `places`: the values'
            ordinals in the chunk as little-endian uint16; NULL when the part has every event from ordinal
            `start` on.
checkpoint  the orders that were open after the order event `event`; `n` order events lie up to it. `ts` is
            the latest order time so far. `is_sorted` is 0 when the order events' times step back anywhere
            before: then replay from the beginning. `open` is what `orders.OpenOrders.restored` takes.
"""

from __future__ import annotations

from typing import Final

from tracedesk.backtest import native
from tracedesk.journal.sqlite import Connection

ROWS: Final = 1
PACKED: Final = 2
"""The versions of the tables: by whether `fact` is a table of rows or is packed into zones."""
CHUNK: Final = 4_096
"""Events of a type in a full chunk."""
CHECKPOINT: Final = 32
"""Order events between two checkpoints of the open orders, unless more than half as many are open."""
MAX_PATHS: Final = 64
"""Numeric paths of a type that have moments."""
MAX_KNOWN: Final = 512
"""Paths of a type that are listed at all: names may be data, and data has no bound."""

SYMBOL_TEXT: Final = 1
ORDER_TEXT: Final = 2
POSITION_TEXT: Final = 3
INDICATOR_TEXT: Final = 4

TABLES: Final = """
CREATE TABLE IF NOT EXISTS recording(
  id INTEGER PRIMARY KEY CHECK(id = 1),
  version INTEGER NOT NULL,
  indexed INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  started TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS given(
  event INTEGER PRIMARY KEY,
  severity INTEGER,
  category INTEGER,
  guid BLOB,
  faults BLOB
) STRICT;
CREATE TABLE IF NOT EXISTS fault(event INTEGER PRIMARY KEY, list BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS used(
  text INTEGER NOT NULL,
  type INTEGER NOT NULL,
  n INTEGER NOT NULL,
  event INTEGER NOT NULL,
  PRIMARY KEY(text, type)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS slot(
  id INTEGER PRIMARY KEY,
  type INTEGER NOT NULL,
  symbol INTEGER,
  indicator INTEGER,
  params TEXT NOT NULL,
  event INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS tally(
  type INTEGER NOT NULL,
  severity INTEGER NOT NULL,
  category INTEGER NOT NULL,
  n INTEGER NOT NULL,
  event INTEGER NOT NULL,
  PRIMARY KEY(type, severity, category)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS span(
  type INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  min_ts INTEGER NOT NULL,
  max_ts INTEGER NOT NULL,
  is_sorted INTEGER NOT NULL,
  unlisted INTEGER NOT NULL,
  event INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS chunk(
  type INTEGER NOT NULL,
  number INTEGER NOT NULL,
  n INTEGER NOT NULL,
  min_ts INTEGER NOT NULL,
  max_ts INTEGER NOT NULL,
  is_sorted INTEGER NOT NULL,
  event INTEGER NOT NULL,
  last INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  warnings INTEGER NOT NULL,
  infos INTEGER NOT NULL,
  debugs INTEGER NOT NULL,
  PRIMARY KEY(type, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS path(
  id INTEGER PRIMARY KEY,
  type INTEGER NOT NULL,
  path TEXT NOT NULL,
  numbers INTEGER NOT NULL,
  texts INTEGER NOT NULL,
  decimals INTEGER NOT NULL,
  unfit INTEGER NOT NULL,
  booleans INTEGER NOT NULL,
  nulls INTEGER NOT NULL,
  objects INTEGER NOT NULL,
  arrays INTEGER NOT NULL,
  min TEXT,
  max TEXT,
  sample TEXT NOT NULL,
  has_moments INTEGER NOT NULL,
  event INTEGER NOT NULL,
  UNIQUE(type, path)
) STRICT;
CREATE TABLE IF NOT EXISTS moment(
  path INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  n INTEGER NOT NULL,
  scale INTEGER NOT NULL,
  total TEXT NOT NULL,
  squares TEXT NOT NULL,
  min TEXT NOT NULL,
  max TEXT NOT NULL,
  event INTEGER NOT NULL,
  PRIMARY KEY(path, chunk)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS value(
  id INTEGER PRIMARY KEY,
  path INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  part INTEGER NOT NULL,
  n INTEGER NOT NULL,
  scale INTEGER NOT NULL,
  width INTEGER NOT NULL,
  start INTEGER NOT NULL,
  units BLOB NOT NULL,
  places BLOB,
  event INTEGER NOT NULL,
  UNIQUE(path, chunk, part)
) STRICT;
CREATE TABLE IF NOT EXISTS checkpoint(
  event INTEGER PRIMARY KEY,
  ts INTEGER NOT NULL,
  n INTEGER NOT NULL,
  is_sorted INTEGER NOT NULL,
  open BLOB NOT NULL
) STRICT;
"""

ROW_TABLES: Final = """
CREATE TABLE IF NOT EXISTS text(
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  value TEXT NOT NULL,
  event INTEGER NOT NULL,
  UNIQUE(kind, value)
) STRICT;
CREATE TABLE IF NOT EXISTS fact(
  event INTEGER PRIMARY KEY,
  type INTEGER NOT NULL,
  ts INTEGER NOT NULL,
  severity INTEGER NOT NULL,
  category INTEGER NOT NULL,
  parent INTEGER,
  symbol INTEGER,
  order_ref INTEGER,
  position_ref INTEGER,
  indicator INTEGER,
  slot INTEGER,
  errors INTEGER,
  guid BLOB
) STRICT;
"""

GUIDS: Final = "CREATE UNIQUE INDEX IF NOT EXISTS given_by_guid ON given(guid) WHERE guid IS NOT NULL"

CHECKPOINTS: Final = (
    "CREATE INDEX IF NOT EXISTS checkpoint_by_time ON checkpoint(ts, event) WHERE is_sorted = 1"
)
INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS fact_by_type ON fact(type, ts, event)",
    "CREATE INDEX IF NOT EXISTS fact_by_symbol ON fact(symbol, ts, event) WHERE symbol IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS fact_by_order ON fact(order_ref, ts, event) WHERE order_ref IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS fact_by_slot ON fact(slot, ts, event) WHERE slot IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS fact_by_parent ON fact(parent) WHERE parent IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS fact_by_position ON fact(position_ref, ts, event) "
    "WHERE position_ref IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS fact_by_indicator ON fact(indicator, ts, event) WHERE indicator IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS fact_with_errors ON fact(ts, event, errors) WHERE errors IS NOT NULL",
    "CREATE UNIQUE INDEX IF NOT EXISTS fact_by_guid ON fact(guid) WHERE guid IS NOT NULL",
    CHECKPOINTS,
)
"""Partial ones are used when the query says the same: `symbol = ?` implies that it is not null."""

FIND_TEXT: Final = "SELECT id FROM text WHERE kind = ?1 AND value = ?2"

DERIVED: Final = (
    "fact",
    "fault",
    "text",
    "used",
    "slot",
    "tally",
    "span",
    "chunk",
    "path",
    "moment",
    "value",
    "checkpoint",
)
"""What a rebuild empties and fills again."""


PACKED_ALONE: Final = ("zone", "strip", "seen", "named")


def create(connection: Connection, *, indexed: bool = True, packed: bool = False) -> None:
    """Make the tables, and the indexes unless they are to be built at the end."""
    core = native.core() if packed else None
    connection.execute(TABLES + GUIDS)
    connection.execute(ROW_TABLES if core is None else core.TABLES + CHECKPOINTS)
    if indexed and core is None:
        create_indexes(connection)


def create_indexes(connection: Connection) -> None:
    for statement in INDEXES:
        connection.execute(statement)


def drop(connection: Connection) -> None:
    """Remove everything that a rebuild makes."""
    for table in (*DERIVED, *PACKED_ALONE):
        if _has(connection, table):
            connection.execute(f"DROP TABLE main.{table}")


def version(connection: Connection) -> int:
    """The version of the file's tables."""
    return PACKED if _has(connection, "zone") else ROWS


def has_names(connection: Connection) -> bool:
    """Whether texts are found by `named`; the first packed files had an index, like those of rows."""
    return _has(connection, "named")


def is_indexed(connection: Connection) -> bool:
    """Whether the tables describe every event up to the head, and can be read here."""
    return is_complete(connection) and (version(connection) == ROWS or native.core() is not None)


def is_complete(connection: Connection) -> bool:
    """Whether the tables are there and describe every event up to the head."""
    if not _has(connection, "recording"):
        return False
    return any(connection.execute("SELECT 1 FROM recording WHERE indexed = 1"))


def _has(connection: Connection, table: str) -> bool:
    query = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?"
    return any(connection.execute(query, (table,)))
