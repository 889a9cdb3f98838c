"""Chunks: per type and 4,096 events, counts, time bounds and the moments of every numeric path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import lt
from typing import Any, Final

from tracedesk.backtest.model import EventType, exactly
from tracedesk.backtest.moments import Numbers, Part, merge, numbers
from tracedesk.backtest.schema import CHUNK, MAX_KNOWN, MAX_PATHS
from tracedesk.backtest.shapes import Column, Gathering
from tracedesk.journal.sqlite import Connection, insert
from tracedesk.primitives import json, money
from tracedesk.primitives.money import Moments

_MOST_PARTS: Final = 16
"""Parts of an open chunk before they are joined: small batches must not leave thousands."""

_LONGEST_SAMPLE: Final = 60
_NUMERIC: Final = (int, float, Decimal)


@dataclass(slots=True)
class _Series:
    """A path's numbers in the open chunk."""

    chunk: int
    event: int
    parts: int
    moments: Moments
    least: Decimal
    greatest: Decimal

    def add(self, found: Numbers) -> None:
        self.moments += found.moments
        self.least = min(self.least, found.least)
        self.greatest = max(self.greatest, found.greatest)
        self.parts += 1

    def row(self, path: int) -> tuple[Any, ...]:
        m = self.moments
        ends = (money.to_text(self.least), money.to_text(self.greatest))
        return (path, self.chunk, m.count, m.scale, str(m.total), str(m.squares), *ends, self.event)


@dataclass(slots=True)
class _Path:
    """What is known of one path of a type."""

    id: int
    text: str
    sample: str
    event: int
    kinds: Counter[str] = field(default_factory=Counter[str])
    least: Decimal | None = None
    greatest: Decimal | None = None
    has_moments: bool = False
    series: _Series | None = None

    def widen(self, found: Numbers) -> None:
        self.least = found.least if self.least is None else min(self.least, found.least)
        self.greatest = found.greatest if self.greatest is None else max(self.greatest, found.greatest)

    def facts(self) -> tuple[Any, ...]:
        ends = [None if end is None else money.to_text(end) for end in (self.least, self.greatest)]
        return (*(self.kinds[kind] for kind in _KINDS), *ends, int(self.has_moments))


_KINDS: Final = ("numbers", "texts", "decimals", "unfit", "booleans", "nulls", "objects", "arrays")
_KIND_OF: Final[dict[type, str]] = {
    int: "numbers",
    float: "numbers",
    Decimal: "numbers",
    str: "texts",
    bool: "booleans",
    type(None): "nulls",
    dict: "objects",
    list: "arrays",
}


@dataclass(slots=True)
class _Chunk:
    """The open chunk of a type."""

    number: int
    event: int
    last: int
    min_ts: int
    max_ts: int
    n: int = 0
    is_sorted: bool = True
    severities: list[int] = field(default_factory=lambda: [0, 0, 0, 0])

    def row(self, kind: int) -> tuple[Any, ...]:
        bounds = (self.min_ts, self.max_ts, int(self.is_sorted), self.event, self.last)
        return (kind, self.number, self.n, *bounds, *self.severities)


@dataclass(slots=True)
class _Span:
    """All events of a type."""

    event: int
    min_ts: int
    max_ts: int
    last_ts: int
    n: int = 0
    is_sorted: bool = True
    unlisted: int = 0
    numeric: int = 0
    chunk: _Chunk | None = None
    paths: dict[str, _Path] = field(default_factory=dict[str, _Path])

    def row(self, kind: int) -> tuple[Any, ...]:
        chunks = (self.n + CHUNK - 1) // CHUNK
        return (
            kind,
            self.n,
            chunks,
            self.min_ts,
            self.max_ts,
            int(self.is_sorted),
            self.unlisted,
            self.event,
        )


class Chunks:
    """The chunks of one run while it is recorded."""

    def __init__(self) -> None:
        self._spans: dict[EventType, _Span] = {}
        self._next_path = 1
        self._chunk_rows: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._moment_rows: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._value_rows: list[tuple[Any, ...]] = []
        self._new_paths: list[_Path] = []
        self._path_types: dict[int, EventType] = {}
        self._touched: dict[int, _Path] = {}
        self._joins: dict[tuple[int, int], int] = {}

    def cut(self, kind: EventType, count: int) -> Generator[tuple[slice, int]]:
        """The next events of a type as slices within one chunk each, with the first one's ordinal there."""
        span = self._spans.get(kind)
        done = 0
        ordinal = (span.n if span else 0) % CHUNK
        while done < count:
            size = min(CHUNK - ordinal, count - done)
            yield slice(done, done + size), ordinal
            done += size
            ordinal = 0

    def add(
        self,
        kind: EventType,
        events: Sequence[int],
        times: Sequence[int],
        severities: Sequence[int],
        gathering: Gathering,
    ) -> None:
        """Take in events of one type that lie in one chunk."""
        span = self._spans.get(kind)
        if span is None:
            span = self._spans[kind] = _Span(events[0], times[0], times[0], times[0])
        chunk = _grown(span, events, times, severities)
        self._chunk_rows[kind, chunk.number] = chunk.row(kind)
        self._take(kind, span, chunk, events, gathering)
        if chunk.n == CHUNK:
            self._close(span)

    def put(self, connection: Connection) -> None:
        """Write what the batch changed."""
        rows = [span.row(kind) for kind, span in self._spans.items()]
        connection.executemany("INSERT OR REPLACE INTO span VALUES(?,?,?,?,?,?,?,?)", rows)
        if self._chunk_rows:
            insert(connection, "INSERT OR REPLACE INTO chunk", _columns(self._chunk_rows.values()))
        self._put_paths(connection)
        if self._moment_rows:
            insert(connection, "INSERT OR REPLACE INTO moment", _columns(self._moment_rows.values()))
        if self._value_rows:
            insert(connection, _INSERT_VALUE, _columns(self._value_rows))
        for (path, chunk), event in self._joins.items():
            _join(connection, path, chunk, event)

    def settle(self) -> None:
        """What the batch changed is written."""
        for pending in (self._chunk_rows, self._moment_rows, self._value_rows, self._joins):
            pending.clear()
        self._new_paths.clear()
        self._touched.clear()

    def _put_paths(self, connection: Connection) -> None:
        for path in self._new_paths:
            row = (path.id, self._path_types[path.id], path.text, *path.facts()[:-1], path.sample)
            places = ",".join("?" * 16)
            connection.execute(
                f"INSERT INTO path VALUES({places})", (*row, int(path.has_moments), path.event)
            )
        new = {path.id for path in self._new_paths}
        known = [path for path in self._touched.values() if path.id not in new]
        if known:
            connection.executemany(_UPDATE_PATH, [(*path.facts(), path.id) for path in known])

    def _take(
        self, kind: EventType, span: _Span, chunk: _Chunk, events: Sequence[int], gathering: Gathering
    ) -> None:
        """Every path of the events: known ones, then new ones in the order in which they appeared."""
        base = chunk.n - len(events)
        fresh = [item for item in gathering.columns.items() if item[0] not in span.paths]
        fresh.sort(key=_rank)
        for text, column in fresh:
            self._admit(kind, span, text, column, events[column.rank[0] - base])
        found: list[tuple[_Path, Sequence[int], Numbers]] = []
        for text, column in gathering.columns.items():
            path = span.paths.get(text)
            if path is None:
                span.unlisted += sum(len(ordinals) for ordinals, _ in column.pieces)
                continue
            ordinals, values = column.joined()
            numeric = _counted(path, values, column.kinds)
            self._touched[path.id] = path
            if numeric is not None:
                path.widen(numeric)
                found.append((path, _placed(ordinals, numeric), numeric))
        self._choose(span, found)
        for path, ordinals, numeric in found:
            if path.has_moments:
                self._append(path, chunk, ordinals, numeric)

    def _admit(self, kind: EventType, span: _Span, text: str, column: Column, event: int) -> None:
        if len(span.paths) >= MAX_KNOWN:
            return
        values = min(column.pieces, key=lambda piece: piece[0][0])[1]
        path = _Path(self._next_path, text, _sample(values[0]), event)
        self._next_path += 1
        span.paths[text] = path
        self._path_types[path.id] = kind
        self._new_paths.append(path)

    def _choose(self, span: _Span, found: list[tuple[_Path, Sequence[int], Numbers]]) -> None:
        """Give moments to the first numeric paths of the type, by when they were first numeric."""
        if span.numeric >= MAX_PATHS:
            return
        fresh = [(ordinals[0], path.id, path) for path, ordinals, _ in found if not path.has_moments]
        for _, _, path in sorted(fresh)[: MAX_PATHS - span.numeric]:
            path.has_moments = True
            span.numeric += 1

    def _append(self, path: _Path, chunk: _Chunk, ordinals: Sequence[int], found: Numbers) -> None:
        series = path.series
        if series is None or series.chunk != chunk.number:
            series = path.series = _Series(
                chunk.number, chunk.event, 0, Moments(), found.least, found.greatest
            )
        part = Part.of(found.units, found.scale, ordinals)
        at = (path.id, chunk.number)
        number = series.parts
        series.add(found)
        self._moment_rows[at] = series.row(path.id)
        self._value_rows.append((*at, number, len(found.units), *_stored(part), chunk.event))
        if series.parts >= _MOST_PARTS:
            self._joins[at] = chunk.event
            series.parts = 1

    def _close(self, span: _Span) -> None:
        for path in span.paths.values():
            series = path.series
            if series is not None and series.parts > 1:
                self._joins[path.id, series.chunk] = series.event
            path.series = None
        span.chunk = None


_INSERT_VALUE: Final = "INSERT INTO value(path, chunk, part, n, scale, width, start, units, places, event)"
_UPDATE_PATH: Final = """
    UPDATE path SET numbers = ?, texts = ?, decimals = ?, unfit = ?, booleans = ?, nulls = ?, objects = ?,
      arrays = ?, min = ?, max = ?, has_moments = ? WHERE id = ?
"""


def _columns(rows: Any) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


def _rank(item: tuple[str, Column]) -> tuple[int, int]:
    return item[1].rank


def _grown(span: _Span, events: Sequence[int], times: Sequence[int], severities: Sequence[int]) -> _Chunk:
    """The span and its open chunk with these events in them."""
    chunk = span.chunk
    if chunk is None:
        number = span.n // CHUNK
        chunk = span.chunk = _Chunk(number, events[0], events[0], times[0], times[0])
    in_order = not any(map(lt, times[1:], times))
    low, high = min(times), max(times)
    chunk.is_sorted = chunk.is_sorted and in_order and (chunk.n == 0 or times[0] >= chunk.max_ts)
    span.is_sorted = span.is_sorted and in_order and times[0] >= span.last_ts
    chunk.min_ts, chunk.max_ts = min(chunk.min_ts, low), max(chunk.max_ts, high)
    span.min_ts, span.max_ts = min(span.min_ts, low), max(span.max_ts, high)
    span.last_ts = times[-1]
    chunk.last = events[-1]
    chunk.n += len(events)
    span.n += len(events)
    for severity, count in Counter(severities).items():
        chunk.severities[severity - 1] += count
    return chunk


def _counted(path: _Path, values: Sequence[Any], kinds: set[type]) -> Numbers | None:
    """Count the values by kind, and return those that are numbers."""
    found = None if kinds.isdisjoint(_WITH_NUMBERS) else numbers(values, kinds)
    numeric = 0 if found is None else len(found.units)
    counts = path.kinds
    if len(kinds) == 1:
        (kind,) = kinds
        counts[_KIND_OF[kind]] += len(values)
        if kind is str:
            counts["decimals"] += numeric
        elif kind in _NUMERIC:
            counts["unfit"] += len(values) - numeric
        return found
    per_kind = Counter(map(type, values))
    for kind, count in per_kind.items():
        counts[_KIND_OF[kind]] += count
    decimals = _decimals(values, found) if str in kinds and found is not None else 0
    counts["decimals"] += decimals
    counts["unfit"] += sum(per_kind[kind] for kind in _NUMERIC) + decimals - numeric
    return found


_WITH_NUMBERS: Final = frozenset((*_NUMERIC, str))


def _decimals(values: Sequence[Any], found: Numbers) -> int:
    """How many of the numbers were given as text."""
    places = range(len(values)) if found.places is None else found.places
    return sum(type(values[place]) is str for place in places)


def _placed(ordinals: Sequence[int], found: Numbers) -> Sequence[int]:
    return ordinals if found.places is None else [ordinals[place] for place in found.places]


def _sample(value: Any) -> str:
    """A short example of what a path holds."""
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list):
        return "[…]"
    if isinstance(value, str) and len(value) > _LONGEST_SAMPLE:
        value = value[:_LONGEST_SAMPLE] + "…"
    return json.dumps(exactly(value)).decode()


def _stored(part: Part) -> tuple[int, int, int, bytes, bytes | None]:
    return part.scale, part.width, part.start, part.units, part.places


def _join(connection: Connection, path: int, chunk: int, event: int) -> None:
    """Make one part of several."""
    where = "FROM value WHERE path = ? AND chunk = ?"
    query = f"SELECT scale, width, start, units, places {where} ORDER BY part"
    parts = [Part(*row) for row in connection.execute(query, (path, chunk))]
    whole = merge(parts)
    connection.execute(f"DELETE {where}", (path, chunk))
    row = (path, chunk, 0, whole.count, *_stored(whole), event)
    connection.execute(f"{_INSERT_VALUE} VALUES(?,?,?,?,?,?,?,?,?,?)", row)
