"""Aggregates of one numeric property: from the chunks' exact moments, or by a scan that says so."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from math import floor
from operator import mul
from typing import Any, Final, NamedTuple

from tracedesk.backtest import paths
from tracedesk.backtest.bodies import nests_deeper
from tracedesk.backtest.costs import cost, told_apart
from tracedesk.backtest.model import TYPES, EventType
from tracedesk.backtest.moments import Part, numbers
from tracedesk.backtest.page import Ask
from tracedesk.backtest.paths import MISSING, Path
from tracedesk.backtest.query import Recording, Selection
from tracedesk.backtest.rejections import CODE, REASON, code_of
from tracedesk.backtest.shapes import step
from tracedesk.backtest.times import span
from tracedesk.journal import JournalError
from tracedesk.primitives import json, money
from tracedesk.primitives.money import Deviation, Moments

_KINDS: Final = "numbers, texts, decimals, unfit, booleans, nulls, objects, arrays"
_LONGEST_GROUP: Final = 120
_SHORT: Final = 256
"""Characters of a text that is its own key; longer ones are known by their digest."""

_MANY_REASONS: Final = 10
"""Groups beyond which reasons are taken to have figures in them."""
_TOO_DEEP: Final = "(nests too deeply)"
_AT_ONCE: Final = 4_096


@dataclass(slots=True)
class Tally:
    """Exact moments of numbers as they come, with the least and the greatest."""

    parts: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    least: Decimal | None = None
    greatest: Decimal | None = None
    values: list[tuple[int, Sequence[int]]] = field(default_factory=list[tuple[int, Sequence[int]]])
    """Scales and units, kept only when quantiles are asked for."""
    _waiting: list[Decimal] = field(default_factory=list[Decimal])

    def merge(self, scale: int, count: int, total: int, squares: int) -> None:
        if not 0 <= scale <= money.MAX_PLACES:
            raise JournalError(f"the run's moments are damaged: a scale of {scale}")
        part = self.parts.setdefault(scale, [0, 0, 0])
        part[0] += count
        part[1] += total
        part[2] += squares

    def bound(self, low: Decimal, high: Decimal) -> None:
        if self.least is None or low < self.least:
            self.least = low
        if self.greatest is None or high > self.greatest:
            self.greatest = high

    def add(self, value: Decimal, *, keep: bool = False) -> None:
        """Take one number; many together are counted at once, which is several times faster."""
        self._waiting.append(value)
        if len(self._waiting) >= _AT_ONCE:
            self.count(keep=keep)

    def count(self, *, keep: bool = False) -> None:
        """Count what waits."""
        column = numbers(self._waiting) if self._waiting else None
        self._waiting = []
        if column is None:
            return
        found = column.moments
        self.merge(found.scale, found.count, found.total, found.squares)
        self.bound(column.least, column.greatest)
        if keep:
            self.values.append((column.scale, column.units))

    def take_in(self, other: Tally) -> None:
        """Everything that another tally has counted."""
        for scale, (count, total, squares) in other.parts.items():
            self.merge(scale, count, total, squares)
        if other.least is not None and other.greatest is not None:
            self.bound(other.least, other.greatest)
        self.values += other.values

    def add_units(self, scale: int, units: Sequence[int]) -> None:
        if not units:
            return
        self.merge(scale, len(units), sum(units), sum(map(mul, units, units)))
        low, high = money.from_units(min(units), scale), money.from_units(max(units), scale)
        self.bound(money.trim(low), money.trim(high))

    @property
    def moments(self) -> Moments:
        whole = Moments()
        for scale, (count, total, squares) in self.parts.items():
            whole += Moments(count, total, squares, scale)
        return whole


class Skipped(NamedTuple):
    """Events of the type that have no number at the path, by why; None where it is not known."""

    missing: int | None
    not_numeric: int | None


@dataclass(slots=True)
class _Answer:
    tally: Tally
    skipped: Skipped
    method: str


class _Known(NamedTuple):
    """What the run's tables know of a path."""

    id: int
    has_moments: bool
    numeric: int
    other: int
    nulls: int


class _Chunk(NamedTuple):
    number: int
    min_ts: int
    max_ts: int
    is_sorted: int
    event: int
    last: int


def answer(recording: Recording, ask: Ask) -> dict[str, Any]:
    """The aggregations that the question asks for."""
    args = ask.args
    path = paths.parse(args["propertyPath"])
    group = paths.parse_plain(args["groupBy"], "groupBy") if "groupBy" in args else None
    within = span(args)
    ask.warnings += within.warnings
    selection = Selection(types=(TYPES[args["eventType"]],), span=within)
    total = recording.count(selection)
    if group is not None:
        return _grouped(recording, ask, selection, path, group, total)
    quantiles = args.get("quantiles") or ()
    found = _find(recording, selection, path, total, keep=bool(quantiles))
    if not found.tally.parts and total:
        ask.warnings.append("no selected event has a number at this path; describe_run lists the paths")
    body = _aggregations(found.tally, args)
    if quantiles:
        body["quantiles"] = _quantiles(found.tally, quantiles)
    return {"aggregations": body, "metadata": _metadata(recording, ask, total, found)}


def _metadata(recording: Recording, ask: Ask, total: int, found: _Answer) -> dict[str, Any]:
    skipped = {"missing": found.skipped.missing, "nonNumeric": found.skipped.not_numeric}
    return ask.metadata(
        recording,
        totalEvents=total,
        eventType=ask.args["eventType"],
        propertyPath=ask.args["propertyPath"],
        stddevKind=ask.args["stddevKind"],
        skipped=skipped,
        method=found.method,
    )


def _aggregations(tally: Tally, args: Mapping[str, Any]) -> dict[str, Any]:
    """Count always; the others where they were asked for, null where nothing has a number."""
    wanted: Sequence[str] = args["aggregations"]
    moments = tally.moments
    kind: Deviation = args["stddevKind"]
    some = moments.count > 0
    return {
        "count": moments.count,
        "sum": moments.sum() if some and "sum" in wanted else None,
        "avg": moments.mean() if some and "avg" in wanted else None,
        "min": tally.least if "min" in wanted else None,
        "max": tally.greatest if "max" in wanted else None,
        "stddev": moments.deviation(kind) if some and "stddev" in wanted else None,
    }


# --- where the numbers come from --------------------------------------------------------------------


def _find(recording: Recording, selection: Selection, path: Path, total: int, *, keep: bool) -> _Answer:
    known = _known(recording, selection.types[0], path)
    if known is None or (known.numeric and not known.has_moments):
        return _scanned(recording, selection, path, keep=keep)
    tally = _stored(recording, selection, known, keep=keep) if known.numeric else Tally()
    count = tally.moments.count
    return _Answer(tally, _skipped(recording, selection, known, total, count), "moments")


def _known(recording: Recording, kind: int, path: Path) -> _Known | None:
    """The one stored path that answers; None when a scan must decide."""
    literal = f"${step(path.dotted)}"
    query = f"SELECT id, has_moments, {_KINDS} FROM path WHERE type = ? AND path IN (?, ?)"
    rows = list(recording.connection.execute(query, (kind, str(path), literal)))
    if len(rows) == 1:
        id, has_moments, plain, texts, decimals, unfit, booleans, nulls, objects, arrays = rows[0]
        numeric = plain + decimals - unfit
        return _Known(
            id, bool(has_moments), numeric, texts - decimals + unfit + booleans + objects + arrays, nulls
        )
    complete = all(
        not n for (n,) in recording.connection.execute("SELECT unlisted FROM span WHERE type = ?", (kind,))
    )
    return _Known(0, True, 0, 0, 0) if not rows and complete else None


def _skipped(recording: Recording, selection: Selection, known: _Known, total: int, count: int) -> Skipped:
    rest = total - count
    if selection.span.is_all:
        return Skipped(rest - known.other, known.other)
    if not known.other:
        return Skipped(rest, 0)
    everything = recording.count(Selection(types=selection.types))
    if everything == known.numeric + known.other:
        return Skipped(0, rest)
    return Skipped(None, None) if rest else Skipped(0, 0)


def _scanned(recording: Recording, selection: Selection, path: Path, *, keep: bool) -> _Answer:
    tally, missing, other = Tally(), 0, 0
    for _, body in recording.bodies(selection):
        value = path.of(paths.properties(body))
        if value is MISSING or value is None:
            missing += 1
            continue
        number = paths.number(value)
        if number is None:
            other += 1
        else:
            tally.add(number, keep=keep)
    tally.count(keep=keep)
    return _Answer(tally, Skipped(missing, other), "scan")


def _stored(recording: Recording, selection: Selection, known: _Known, *, keep: bool) -> Tally:
    tally = Tally()
    if keep:
        return _kept_values(recording, selection, known)
    if selection.span.is_all:
        _add_moments(recording, tally, "path = ?", (known.id,))
        return tally
    inside: list[int] = []
    for chunk in _chunks(recording, selection):
        if selection.span.holds(chunk.min_ts) and selection.span.holds(chunk.max_ts):
            inside.append(chunk.number)
        else:
            for scale, units in _edge(recording, selection, known, chunk):
                tally.add_units(scale, units)
    for first, last in _runs(inside):
        _add_moments(recording, tally, "path = ? AND chunk BETWEEN ? AND ?", (known.id, first, last))
    return tally


def _add_moments(recording: Recording, tally: Tally, where: str, values: Sequence[Any]) -> None:
    query = f"SELECT n, scale, total, squares, min, max FROM moment WHERE {where}"
    for n, scale, total, squares, least, greatest in recording.connection.execute(query, values):
        tally.merge(scale, n, int(total), int(squares))
        tally.bound(Decimal(least), Decimal(greatest))


def _runs(numbers: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Ascending numbers as stretches without gaps."""
    start = previous = None
    for number in numbers:
        if start is None or previous is None:
            start = number
        elif number != previous + 1:
            yield start, previous
            start = number
        previous = number
    if start is not None and previous is not None:
        yield start, previous


def _chunks(recording: Recording, selection: Selection) -> list[_Chunk]:
    query = (
        "SELECT number, min_ts, max_ts, is_sorted, event, last FROM chunk "
        "WHERE type = ? AND max_ts >= ? AND min_ts <= ? ORDER BY number"
    )
    bounds = (selection.span.start_ns, selection.span.end_ns)
    return [_Chunk(*row) for row in recording.connection.execute(query, (*selection.types, *bounds))]


def _parts(recording: Recording, known: _Known, chunk: int) -> list[Part]:
    query = "SELECT scale, width, start, units, places FROM value WHERE path = ? AND chunk = ? ORDER BY part"
    return [Part(*row) for row in recording.connection.execute(query, (known.id, chunk))]


def _edge(
    recording: Recording, selection: Selection, known: _Known, chunk: _Chunk
) -> Iterable[tuple[int, Sequence[int]]]:
    """The numbers of a chunk whose events lie inside the span."""
    chosen = _ordinals(recording, selection, chunk)
    for part in _parts(recording, known, chunk.number):
        ordinals, values = part.ordinals(), part.values()
        if isinstance(chosen, range):
            low, high = bisect_left(ordinals, chosen.start), bisect_right(ordinals, chosen.stop - 1)
            yield part.scale, values[low:high]
        else:
            pairs = zip(ordinals, values, strict=True)
            yield part.scale, [value for ordinal, value in pairs if ordinal in chosen]


def _ordinals(recording: Recording, selection: Selection, chunk: _Chunk) -> range | set[int]:
    """Which of the chunk's events lie inside the span, by their place in it."""
    kind, span = selection.types[0], selection.span
    events = "type = ? AND ts BETWEEN ? AND ? AND event BETWEEN ? AND ?"
    if chunk.is_sorted:
        query = f"SELECT count(*) FROM fact {recording.by('type')} WHERE {events}"
        place = (chunk.event, chunk.last)
        before = (kind, chunk.min_ts, span.start_ns - 1, *place)
        first = next(recording.connection.execute(query, before))[0] if span.start_ns > chunk.min_ts else 0
        upto = (kind, chunk.min_ts, min(span.end_ns, chunk.max_ts), *place)
        return range(first, next(recording.connection.execute(query, upto))[0])
    query = f"SELECT ts FROM fact {recording.by('type')} WHERE {events} ORDER BY event"
    times = recording.connection.execute(query, (kind, chunk.min_ts, chunk.max_ts, chunk.event, chunk.last))
    return {ordinal for ordinal, (ts,) in enumerate(times) if span.holds(ts)}


def _kept_values(recording: Recording, selection: Selection, known: _Known) -> Tally:
    tally = Tally()
    for chunk in _chunks(recording, selection):
        for scale, units in _edge(recording, selection, known, chunk):
            tally.add_units(scale, units)
            tally.values.append((scale, units))
    return tally


# --- quantiles ----------------------------------------------------------------------------------------


def _quantiles(tally: Tally, wanted: Sequence[Any]) -> dict[str, Decimal | None]:
    """Between the two nearest values in proportion (linear), rounded like an average."""
    scale = max((scale for scale, _ in tally.values), default=0)
    units = sorted(
        unit * 10 ** (scale - own) if own != scale else unit for own, some in tally.values for unit in some
    )
    return {f"{share}": _quantile(units, scale, money.parse(share)) for share in wanted}


def _quantile(units: Sequence[int], scale: int, share: Decimal) -> Decimal | None:
    if not units:
        return None
    top, bottom = share.as_integer_ratio()
    place, rest = divmod((len(units) - 1) * top, bottom)
    low = units[floor(place)]
    high = units[min(place + 1, len(units) - 1)]
    exact = (low * bottom + (high - low) * rest) * 10**money.EXTRA_PLACES
    return money.from_units(money.divide(exact, bottom), scale + money.EXTRA_PLACES)


# --- groups -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    value: Any
    """As it is shown; the whole of it is the group's key."""
    events: int = 0
    tally: Tally = field(default_factory=Tally)


def _grouped(
    recording: Recording, ask: Ask, selection: Selection, path: Path, group: Path, total: int
) -> dict[str, Any]:
    """One scan: the aggregations of all events, and of each value that the group's property has."""
    groups: dict[Any, _Group] = {}
    whole, missing, other = Tally(), 0, 0
    keep = bool(ask.args.get("quantiles"))
    is_rejection = ask.args["eventType"] == EventType.OrderRejection.name
    by_code = is_rejection and group.dotted == CODE
    for _, body in recording.bodies(selection):
        properties = paths.properties(body)
        found = _group_of(groups, code_of(properties) if by_code else group.of(properties))
        found.events += 1
        value = path.of(properties)
        number = None if value is MISSING else paths.number(value)
        if number is not None:
            found.tally.add(number, keep=keep)
        elif value is MISSING or value is None:
            missing += 1
        else:
            other += 1
    for one in groups.values():
        one.tally.count(keep=keep)
        whole.take_in(one.tally)
    if is_rejection and group.dotted == REASON and len(groups) > _MANY_REASONS:
        ask.warnings.append(
            "reasons with figures in them are groups of their own; groupBy RejectionCode joins them"
        )
    metadata = _metadata(recording, ask, total, _Answer(whole, Skipped(missing, other), "scan"))
    aggregations = _aggregations(whole, ask.args)
    if keep:
        aggregations["quantiles"] = _quantiles(whole, ask.args["quantiles"])
    shown = _shown(ask, groups.values())
    metadata |= {"groupBy": str(group), "groupCount": len(groups), "truncated": len(shown) < len(groups)}
    return {"aggregations": aggregations, "groups": shown, "metadata": metadata}


def _group_of(groups: dict[Any, _Group], value: Any) -> _Group:
    """The group of a value: a short text is its own key, anything else is known by its JSON bytes."""
    if type(value) is str and value in groups:
        return groups[value]
    value = None if value is MISSING else value
    key, shown = _key(value)
    if key not in groups:
        groups[key] = _Group(shown)
    return groups[key]


def _key(value: Any) -> tuple[str | bytes, Any]:
    """What tells a group from all others, and how it is shown before it is cut."""
    if isinstance(value, str):
        short = len(value) <= _SHORT
        return value if short else sha256(value.encode()).digest(), value[: _LONGEST_GROUP + 1]
    if nests_deeper(value):
        return b"", _TOO_DEEP
    document = json.dumps(value)
    if isinstance(value, (dict, list)):
        return document, document.decode()[: _LONGEST_GROUP + 1]
    return document, value


def _shown(ask: Ask, groups: Iterable[_Group]) -> list[dict[str, Any]]:
    """The largest groups first, as many as the budget holds."""
    rows: list[dict[str, Any]] = []
    spent = 0
    for group, name in _named(sorted(groups, key=_size)):
        body = _aggregations(group.tally, ask.args)
        row = {"group": name, "events": group.events}
        row |= {
            name: value for name, value in body.items() if name == "count" or name in ask.args["aggregations"]
        }
        if ask.args.get("quantiles"):
            row["quantiles"] = _quantiles(group.tally, ask.args["quantiles"])
        spent += cost(json.dumps(row)) + 1
        if rows and spent > ask.room:
            break
        rows.append(row)
    return rows


def _size(group: _Group) -> tuple[int, str, str]:
    """The most events first; "1" and 1 are two groups, always in one order."""
    return -group.events, str(group.value), type(group.value).__name__


def _named(groups: Sequence[_Group]) -> Iterable[tuple[_Group, Any]]:
    """Each group with its value as it is shown: long texts are cut, and numbered where they begin alike."""
    texts = [group.value for group in groups if isinstance(group.value, str)]
    names = iter(told_apart(texts, _LONGEST_GROUP))
    for group in groups:
        yield group, next(names) if isinstance(group.value, str) else group.value
