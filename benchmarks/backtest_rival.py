"""The seed's own event table with its origin's indexes, filled in batches, and the SQL the seed prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.backtest_events import Sample
from benchmarks.journal_rivals import BATCH, Seed
from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY
from tracedesk.primitives import json
from tracedesk.primitives.time import format as iso

NAME: Final = "the seed's table and SQL"

_INSERT: Final = (
    "INSERT INTO Events(EventId, RunId, Timestamp, EventType, Severity, Category, Properties, ParentEventId) "
    "VALUES(?,?,?,?,?,?,?,?)"
)
BY_ORDER: Final = (
    "SELECT * FROM Events WHERE RunId = ? AND json_extract(Properties, '$.OrderId') = ? "
    "ORDER BY Timestamp LIMIT 100 OFFSET 0"
)
PAGE: Final = (
    "SELECT * FROM Events WHERE RunId = ? AND EventType = ? AND Timestamp BETWEEN ? AND ? "
    "ORDER BY Timestamp LIMIT 100 OFFSET ?"
)
_VALUE: Final = "CAST(json_extract(Properties, ?1) AS REAL)"
AGGREGATE: Final = (
    f"SELECT COUNT(*), SUM({_VALUE}), AVG({_VALUE}), MIN({_VALUE}), MAX({_VALUE}), AVG({_VALUE} * {_VALUE}) "
    "FROM Events WHERE RunId = ?2 AND EventType = ?3 AND Timestamp BETWEEN ?4 AND ?5"
)
"""With what the application needs for the deviation as one column more: a second pass would cost as much."""
POSITIONS: Final = (
    "SELECT json_extract(Properties, '$.SecuritySymbol'), Properties, max(Timestamp) FROM Events "
    "WHERE RunId = ? AND EventType = 'PositionUpdate' AND Timestamp <= ? GROUP BY 1"
)
INDICATORS: Final = (
    "SELECT json_extract(Properties, '$.IndicatorName'), json_extract(Properties, '$.SecuritySymbol'), "
    "Properties, max(Timestamp) FROM Events "
    "WHERE RunId = ? AND EventType = 'IndicatorCalculation' AND Timestamp <= ? GROUP BY 1, 2"
)

Values = tuple[Any, ...]


class Table(Seed):
    """Several runs in one table; the caller brings the GUIDs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, [])
        self.name = NAME

    def begin(self, run: str) -> None:
        self._connection.execute("INSERT INTO Runs(Id) VALUES(?)", (run,))

    def insert(self, rows: Sequence[Values], batch: int = BATCH) -> None:
        """A transaction and a sync for each batch."""
        for at in range(0, len(rows), batch):
            with self._connection:
                self._connection.executemany(_INSERT, rows[at : at + batch])

    def insert_samples(self, run: str, samples: Sequence[Sample], ids: Sequence[str], first: int) -> None:
        """The same from samples: each batch takes its shape inside the clock."""
        for at in range(0, len(samples), BATCH):
            self.insert(shaped(run, samples[at : at + BATCH], ids, first + at))

    def ask(self, sql: str, *values: Any) -> list[Values]:
        return list(self._connection.execute(sql, values))


def shaped(run: str, samples: Sequence[Sample], ids: Sequence[str], first: int) -> list[Values]:
    """Rows of the table; `ids` has the run's GUIDs by seq from 1, `first` is the first sample's seq."""
    return [
        (
            ids[seq],
            run,
            iso(sample.time_ns),
            sample.type.name,
            DEFAULT_SEVERITY[sample.type].name,
            DEFAULT_CATEGORY[sample.type].name,
            json.dumps(sample.properties).decode(),
            None if sample.parent is None else ids[sample.parent],
        )
        for seq, sample in enumerate(samples, first)
    ]
