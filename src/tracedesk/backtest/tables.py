"""Events as tables: one for each event type, columns named once, ids short."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tracedesk.backtest.costs import cost, cut
from tracedesk.backtest.model import DEFAULT_CATEGORY, DEFAULT_SEVERITY, EventType
from tracedesk.backtest.paths import shallow
from tracedesk.backtest.query import CATEGORY_NAMES, SEVERITY_NAMES, TYPE_NAMES, Row
from tracedesk.primitives import json
from tracedesk.primitives.time import format

LEGEND: Final = "seq and parent are event ids; oN an order id, pN a position id"
_DEEPEST: Final = 3
_EMPTY_TABLE: Final = 24
"""Tokens of a table without columns and rows."""
_NULL: Final = 2
_LENGTHS: Final = (4_000, 1_000, 250, 60)
"""Characters of a value in a row that is too large, tried in turn."""

_FIXED: Final = ("seq", "time")
_OWN: Final = ("parent", "severity", "category", "errors")

Mark = tuple[int, dict[int, tuple[int, int]]]
"""Tokens spent, and how many rows and columns each table had."""

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

    def price(self, cells: Mapping[str, Any]) -> int:
        """Tokens that a row adds: itself, its new columns, and a null wherever a row lacks a column."""
        new = [name for name in cells if name not in self.columns]
        empty = len(self.columns) + len(new) - len(cells) + len(new) * len(self.rows)
        frame = 0 if self.rows else _EMPTY_TABLE
        values = cost(json.dumps(list(cells.values()))) + 1
        return frame + values + _NULL * empty + sum(cost(name.encode()) + 2 for name in new)

    def cut(self, rows: int, columns: int) -> None:
        """Go back to the first rows, which had the first columns."""
        del self.rows[rows:]
        while len(self.columns) > columns:
            self.columns.popitem()

    def body(self) -> dict[str, Any]:
        width = len(self.columns)
        rows = [row + [None] * (width - len(row)) for row in self.rows]
        return {"eventType": TYPE_NAMES[self.type], "columns": list(self.columns), "rows": rows}


@dataclass(slots=True)
class Filling:
    """Tables that are filled row by row, in the order in which their types first appear."""

    wanted: frozenset[str] | None
    """The properties to show; None for all."""
    shorten: Shorten
    spent: int = 0
    _tables: dict[int, Table] = field(default_factory=dict[int, Table])

    def add(self, row: Row, room: int) -> bool:
        """Add an event if it costs no more than the room; whether it did."""
        return self._put(row.type, _cells(row, self.wanted, self.shorten), room)

    def add_short(self, row: Row, room: int) -> bool:
        """The same with its long values cut, as little as the room allows."""
        cells = _cells(row, self.wanted, self.shorten)
        shorter = ({name: _short(value, longest) for name, value in cells.items()} for longest in _LENGTHS)
        return any(self._put(row.type, short, room) for short in shorter)

    def mark(self) -> Mark:
        """Where the tables are now, to go back to."""
        sizes = {kind: (len(table.rows), len(table.columns)) for kind, table in self._tables.items()}
        return self.spent, sizes

    def back(self, mark: Mark) -> None:
        """Take everything away that was added after the mark."""
        self.spent, sizes = mark
        for kind in list(self._tables):
            if kind in sizes:
                self._tables[kind].cut(*sizes[kind])
            else:
                del self._tables[kind]

    def bodies(self) -> list[dict[str, Any]]:
        return [table.body() for table in self._tables.values()]

    def _put(self, kind: int, cells: Mapping[str, Any], room: int) -> bool:
        table = self._tables.get(kind) or Table(kind)
        price = table.price(cells)
        if price > room:
            return False
        self.spent += price
        table.add(cells)
        self._tables[kind] = table
        return True


def fit(
    rows: Sequence[Row], fields: Sequence[str] | None, shorten: Shorten, budget: int
) -> tuple[list[dict[str, Any]], int, bool]:
    """As many whole rows as the budget holds, how many they are, and whether the first had to be cut.

    None, if it cannot even be cut to the budget.
    """
    wanted = None if fields is None else frozenset(name.removeprefix("$.") for name in fields)
    filling = Filling(wanted, shorten)
    for number, row in enumerate(rows):
        if not filling.add(row, budget - filling.spent):
            is_cut = not number and filling.add_short(row, budget)
            return filling.bodies(), 1 if is_cut else number, is_cut
    return filling.bodies(), len(rows), False


def _short(value: Any, longest: int) -> Any:
    """A value that is not longer than that, its beginning as text if it is."""
    if isinstance(value, str):
        return cut(value, longest)
    text = json.dumps(value)
    return value if len(text) <= longest else cut(text.decode(), longest)


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
    for name, value in flat(shallow(row.body)).items():
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
