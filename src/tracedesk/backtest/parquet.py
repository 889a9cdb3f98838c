"""A run as a Parquet file, for tools that read columns; it needs the extra `parquet`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.backtest.export import Exported, events, whole
from tracedesk.backtest.model import INDICATOR, ORDER, POSITION, SYMBOL
from tracedesk.primitives import json

if TYPE_CHECKING:
    from tracedesk.backtest.query import Recording

ROWS: Final = 65_536
"""Rows of a group: what is in memory at once."""

_TEXTS: Final = {"symbol": SYMBOL, "orderId": ORDER, "positionId": POSITION, "indicator": INDICATOR}
_ENTITIES: Final = """
SELECT f.event - ?1, s.value, o.value, p.value, i.value FROM fact f
LEFT JOIN text s ON s.id = f.symbol LEFT JOIN text o ON o.id = f.order_ref
LEFT JOIN text p ON p.id = f.position_ref LEFT JOIN text i ON i.id = f.indicator
WHERE f.event > ?1 AND f.event <= ?1 + ?2 ORDER BY f.event
"""


class ParquetMissing(Exception):
    """The library that writes Parquet is not installed."""

    def __init__(self) -> None:
        super().__init__("Parquet needs pyarrow: pip install 'tracedesk[parquet]'")


def keep(recording: Recording, out: Path) -> int:
    """Write the run to a file and return how many events it has.

    One row an event, in the order of seqs. `properties` and `validationErrors` are JSON text with every
    digit; the entities an event names have columns of their own. The run's meta is in the file's metadata.
    """
    arrow, parquet = _libraries()
    schema = _schema(arrow).with_metadata(_metadata(recording))
    count = 0
    with whole(out) as fresh, parquet.ParquetWriter(str(fresh), schema, compression="zstd") as writer:
        for group in _groups(recording):
            writer.write_table(arrow.Table.from_pydict(group, schema=schema))
            count += len(group["seq"])
    return count


def _libraries() -> tuple[Any, Any]:
    """Imported here and untyped, because most installations do without."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise ParquetMissing from None


def _schema(arrow: Any) -> Any:
    name = arrow.dictionary(arrow.int32(), arrow.string())
    return arrow.schema(
        [
            ("seq", arrow.int64()),
            ("eventId", arrow.string()),
            ("timestamp", arrow.timestamp("ns", tz="UTC")),
            ("eventType", name),
            ("severity", name),
            ("category", name),
            *((column, name) for column in _TEXTS),
            ("properties", arrow.string()),
            ("parentSeq", arrow.int64()),
            ("parentEventId", arrow.string()),
            ("validationErrors", arrow.string()),
        ]
    )


def _metadata(recording: Recording) -> dict[str, str]:
    facts = {"runId": recording.run, "status": recording.status, "events": recording.head}
    return {"tracedesk": json.dumps({**facts, "meta": dict(recording.meta)}).decode()}


def _groups(recording: Recording) -> Iterator[dict[str, list[Any]]]:
    found = events(recording)
    entities = recording.connection.execute(_ENTITIES, (recording.base, recording.head))
    while rows := list(islice(found, ROWS)):
        _, *texts = zip(*islice(entities, len(rows)), strict=True)
        yield {**_columns(rows), **dict(zip(_TEXTS, map(list, texts), strict=True))}


def _columns(rows: list[Exported]) -> dict[str, list[Any]]:
    return {
        "seq": [row.seq for row in rows],
        "eventId": [row.event_id for row in rows],
        "timestamp": [row.time_ns for row in rows],
        "eventType": [row.type for row in rows],
        "severity": [row.severity for row in rows],
        "category": [row.category for row in rows],
        "properties": [row.body.decode() for row in rows],
        "parentSeq": [row.parent for row in rows],
        "parentEventId": [row.parent_id for row in rows],
        "validationErrors": [None if row.faults is None else row.faults.decode() for row in rows],
    }
