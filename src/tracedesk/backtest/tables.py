"""Events as tables: one for each event type, columns named once, ids short."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY, EventType
from tracedesk.backtest.paths import properties
from tracedesk.backtest.query import CATEGORY_NAMES, SEVERITY_NAMES, TYPE_NAMES, Row
from tracedesk.primitives import json
from tracedesk.primitives.time import format

LEGEND: Final = "seq and parent are event ids; oN an order id, pN a position id"
_DEEPEST: Final = 3
_FIXED: Final = ("seq", "time")
_OWN: Final = ("parent", "severity", "category", "errors")

Shorten = Callable[[str, Any], Any]
"""`(property, value) -> value`: ids that are long become short ones of the run."""


@dataclass(slots=True)
class Table:
    """The events of one type; a column appears when the first event has it."""

    type: int
    columns: dict[str, int] = field(default_factory=dict[str, int])
    rows: list[list[Any]] = field(default_factory=list[list[Any]])

    def add(self, cells: Mapping[str, Any]) -> None:
        row: list[Any] = [None] * len(self.columns)
        for name, value in cells.items():
            place = self.columns.setdefault(name, len(self.columns))
            if place == len(row):
                row.append(value)
            else:
                row[place] = value
        self.rows.append(row)

    def body(self) -> dict[str, Any]:
        width = len(self.columns)
        rows = [row + [None] * (width - len(row)) for row in self.rows]
        return {"eventType": TYPE_NAMES[self.type], "columns": list(self.columns), "rows": rows}


def build(rows: Sequence[Row], fields: Sequence[str] | None, shorten: Shorten) -> list[dict[str, Any]]:
    """The rows as tables, in the order in which their types first appear."""
    tables: dict[int, Table] = {}
    wanted = None if fields is None else frozenset(name.removeprefix("$.") for name in fields)
    for row in rows:
        tables.setdefault(row.type, Table(row.type)).add(_cells(row, wanted, shorten))
    return [table.body() for table in tables.values()]


def fit(
    rows: Sequence[Row], fields: Sequence[str] | None, shorten: Shorten, budget: int
) -> tuple[list[dict[str, Any]], int]:
    """As many whole rows as the budget holds, at least one, and how many they are."""
    kept = len(rows)
    while True:
        tables = build(rows[:kept], fields, shorten)
        spent = cost(json.dumps(tables))
        if spent <= budget or kept <= 1:
            return tables, kept
        kept = max(1, min(kept - 1, kept * budget // spent))


def cost(document: bytes) -> int:
    """Tokens of numbers, times and short ids, which vocabularies cut into pieces of about two bytes."""
    return len(document) * 10 // 19 + 1


def absent(tables: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> list[str]:
    """The fields asked for that no row has."""
    found = {name for table in tables for name in table["columns"]}
    names = [name.removeprefix("$.") for name in fields]
    return [name for name in names if not any(f == name or f.startswith(f"{name}.") for f in found)]


def _cells(row: Row, wanted: frozenset[str] | None, shorten: Shorten) -> dict[str, Any]:
    cells: dict[str, Any] = {"seq": row.seq, "time": format(row.ts)}
    for name, value in _own(row).items():
        if wanted is None or name in wanted:
            cells[name] = value
    for name, value in flat(properties(row.body)).items():
        if wanted is None or _is_wanted(name, wanted):
            # A property that is called like a column of the event itself keeps its path's full name.
            cells[f"$.{name}" if name in _FIXED or name in _OWN else name] = shorten(name, value)
    return cells


def _own(row: Row) -> dict[str, Any]:
    """What the event says beside its properties, where it differs from what its type says anyway."""
    kind = EventType(row.type)
    cells: dict[str, Any] = {}
    if row.parent is not None:
        cells["parent"] = row.parent
    if row.severity != DEFAULT_SEVERITY[kind]:
        cells["severity"] = SEVERITY_NAMES[row.severity]
    if row.category != DEFAULT_CATEGORY[kind]:
        cells["category"] = CATEGORY_NAMES[row.category]
    if row.faults is not None:
        cells["errors"] = json.loads(row.faults)
    return cells


def _is_wanted(name: str, wanted: frozenset[str]) -> bool:
    if name in wanted:
        return True
    return any(name.startswith(f"{field}.") for field in wanted)


def flat(value: Any, prefix: str = "", depth: int = 1) -> dict[str, Any]:
    """Nested properties under dotted names; what nests too deeply stays an object."""
    if not isinstance(value, dict):
        return {prefix.rstrip(".") or "value": value}
    cells: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        if isinstance(inner, dict) and inner and depth < _DEEPEST:
            cells |= flat(cast("Any", inner), f"{prefix}{name}.", depth + 1)
        else:
            cells[f"{prefix}{name}"] = inner
    return cells
