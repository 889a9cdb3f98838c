"""One run as of one moment: selections of its events, counted and paged in the order (time, seq)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from tracedesk.backtest import native, schema, shadow
from tracedesk.backtest.cursors import Key
from tracedesk.backtest.ids import event_id, guid_bytes, guid_text, seq_of
from tracedesk.backtest.model import Category, EventType, Severity
from tracedesk.backtest.times import ALWAYS, Span
from tracedesk.errors import ToolError
from tracedesk.journal import Reader
from tracedesk.journal.file import MAX_SEQ, key
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.ids import StreamRef, is_uuid, parse_ref
from tracedesk.primitives.time import EARLIEST

TYPE_NAMES: Final[Mapping[int, str]] = {kind.value: kind.name for kind in EventType}
SEVERITY_NAMES: Final[Mapping[int, str]] = {severity.value: severity.name for severity in Severity}
CATEGORY_NAMES: Final[Mapping[int, str]] = {category.value: category.top.name for category in Category}
"""Answers show the five; the three finer ones appear as the one they belong to."""

_SEVERITY_COUNTS: Final[Mapping[int, str]] = {1: "errors", 2: "warnings", 3: "infos", 4: "debugs"}
_INDEXES: Final[Mapping[str, str]] = {
    "symbol": "fact_by_symbol",
    "order_ref": "fact_by_order",
    "position_ref": "fact_by_position",
    "indicator": "fact_by_indicator",
    "type": "fact_by_type",
    "slot": "fact_by_slot",
    "errors": "fact_with_errors",
}
_PARENT_GUID: Final = (
    "CASE WHEN f.parent IS NOT NULL THEN (SELECT p.guid FROM fact p "
    f"WHERE p.event = f.event - f.event % {MAX_SEQ + 1} + f.parent) END"
)


_FAULTS: Final = (
    "CASE WHEN f.errors IS NOT NULL THEN (SELECT list FROM fault WHERE fault.event = f.event) END"
)


def _columns(parent_guid: str) -> str:
    """What a `Row` is made of, in its order."""
    seq = f"f.event & {MAX_SEQ}"
    return f"{seq}, f.ts, f.type, f.severity, f.category, f.parent, f.guid, e.body, {parent_guid}, {_FAULTS}"


_COLUMNS: Final = {True: _columns(_PARENT_GUID), False: _columns("NULL")}
"""By whether any event of the run has a GUID of its own: most runs have none to look for."""

_FEW: Final = frozenset(("order_ref", "position_ref"))
"""What few events name: they are not tallied, and are counted by looking at them."""

_REMEMBERED: Final = 64
"""Selections whose chunks are kept while the run stays as it is."""


class Row(NamedTuple):
    """One event with everything an answer tells of it."""

    seq: int
    ts: int
    type: int
    severity: int
    category: int
    parent: int | None
    guid: bytes | None
    body: bytes
    parent_guid: bytes | None
    faults: bytes | None

    @property
    def key(self) -> Key:
        return Key(self.ts, self.seq)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events a question is about."""

    types: tuple[int, ...] = ()
    """None means all."""
    column: str | None = None
    refs: tuple[int, ...] = ()
    """With `column`: the texts of an entity; none of them means that no event is meant."""
    severity: int | None = None
    categories: tuple[int, ...] = ()
    span: Span = ALWAYS
    faults: int | None = None
    """Bits of the validation errors' severities; any event with one of them."""

    @property
    def is_empty(self) -> bool:
        return self.column is not None and not self.refs


@dataclass(frozen=True, slots=True)
class Window:
    """The events with `floor` < seq <= `mark`, after `last` in the order of answers."""

    mark: int
    floor: int = 0
    last: Key | None = None


class _Sql(NamedTuple):
    source: str
    where: str
    values: tuple[Any, ...]
    in_order: bool
    """Whether the source's index gives the rows by time already."""


@dataclass(slots=True)
class _Chunk:
    """A stretch of a sorted type: its first key, and how many of its events are selected."""

    ts: int
    event: int
    count: int


@dataclass
class Recording:
    """A run inside one read transaction, or inside several between which nobody wrote to its file."""

    run: str
    version: int
    connection: Connection
    base: int
    head: int
    status: str
    meta: Mapping[str, Any]
    created_ns: int
    ended_ns: int | None
    is_indexed: bool
    is_packed: bool = False
    """Whether `fact` is the native part's, which chooses among its indexes itself."""
    manifest: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _counted: dict[Selection, list[_Chunk] | None] = field(default_factory=dict[Selection, Any])

    @classmethod
    def of(cls, reader: Reader, run: str) -> Recording | None:
        """The run as the reader sees it now; None when it has neither tables nor a shadow that serves.

        SQLite changes a connection's data version with every commit of any other connection: with the same
        version the file is the same, and so is everything that was found out about the run.
        """
        own = shadow.of(reader)
        if own is not None and not own.serves(reader, run):
            return None
        version = next(reader.connection.execute("PRAGMA data_version"))[0]
        known = _known.get(reader)
        if known is not None and own is None and (known.version, known.run) == (version, run):
            return known
        if own is None and not schema.is_indexed(reader.connection):
            return None
        found = cls._found(reader, run, version, own)
        if own is None:
            _known[reader] = found
        return found

    @classmethod
    def _found(cls, reader: Reader, run: str, version: int, own: shadow.Shadow | None) -> Recording:
        stream = reader.stream(run)
        head = reader.head(run).seq
        seal = reader.seal(run)
        is_packed = own is None and schema.version(reader.connection) == schema.PACKED
        if is_packed and reader not in _attached:
            native.attach(reader.connection)
            _attached.add(reader)
        return cls(
            run=run,
            version=version,
            connection=reader.connection,
            base=key(stream.id, 0),
            head=head if own is None else min(head, own.done),
            status=seal.status if seal else "running",
            meta=stream.meta,
            created_ns=stream.created_ns,
            ended_ns=seal.ended_ns if seal else None,
            is_indexed=own is None,
            is_packed=is_packed,
            manifest=seal.manifest if seal else {},
        )

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def now(self) -> Window:
        """Everything up to the watermark of this moment."""
        return Window(self.head)

    def by(self, column: str) -> str:
        """The words by which a statement names the index that serves a column of `fact`."""
        return "" if self.is_packed else f"INDEXED BY {_INDEXES[column]}"

    def text(self, kind: int, value: str) -> int | None:
        """The number of a text, exactly as it is."""
        for (number,) in self.connection.execute(self._find_text, (kind, value)):
            return number
        return None

    @cached_property
    def _find_text(self) -> str:
        core = native.core() if self.is_packed and schema.has_names(self.connection) else None
        return schema.FIND_TEXT if core is None else core.FIND_TEXT

    # --- time

    @cached_property
    def times(self) -> tuple[int, int] | None:
        """The first and the last simulated time, or None without events."""
        row = next(self.connection.execute("SELECT min(min_ts), max(max_ts) FROM span"))
        return None if row[0] is None else (row[0], row[1])

    @cached_property
    def chain_head(self) -> bytes:
        """The chain's hash at the last event, which binds everything before it; empty without events."""
        query = "SELECT hash FROM batch WHERE id > ?1 AND id <= ?1 + ?2 ORDER BY id DESC LIMIT 1"
        rows = self.connection.execute(query, (self.base, max(1, self.head)))
        return next((digest for (digest,) in rows), b"")

    @cached_property
    def has_guids(self) -> bool:
        """Whether any event has brought a GUID of its own."""
        return any(self.connection.execute("SELECT 1 FROM given WHERE guid IS NOT NULL LIMIT 1"))

    @cached_property
    def order_of_types(self) -> Mapping[int, bool]:
        """The types that the run has events of, and whether their times never step back."""
        found = self.connection.execute("SELECT type, is_sorted FROM span")
        return {kind: bool(is_sorted) for kind, is_sorted in found}

    # --- names

    def id_of(self, seq: int, guid: bytes | None) -> str:
        return event_id(self.run, seq) if guid is None else guid_text(guid)

    def ref(self, seq: int) -> str:
        return str(StreamRef("backtest", self.run, seq))

    def seq(self, text: str, name: str) -> int:
        """The seq of the event that an id, a seq or a reference of this run names; EVENT_NOT_FOUND else."""
        found = self._seq(text.strip(), name)
        if found is None:
            shown = text if len(text) <= 80 else text[:80] + "…"
            message = f"{name}: no event {shown!r} is in this run. Take ids or seqs from an answer about it."
            raise ToolError("EVENT_NOT_FOUND", message, {"runId": self.run, name: shown})
        return found

    def _seq(self, text: str, name: str) -> int | None:
        if text.isascii() and text.isdecimal() and len(text) <= 13:
            seq = int(text)
        elif text.startswith("tracedesk://"):
            seq = self._seq_of_reference(text)
        elif is_uuid(text):
            return self._seq_of_guid(text)
        else:
            raise ToolError("INVALID_PARAMETER", f"{name}: {_NO_EVENT_ID}", {"path": [name]})
        return seq if 0 < seq <= self.head else None

    def _seq_of_reference(self, text: str) -> int:
        try:
            ref = parse_ref(text)
        except ValueError:
            return 0
        is_own = isinstance(ref, StreamRef) and (ref.toolset, ref.stream) == ("backtest", self.run)
        return ref.seq if is_own else 0  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]

    def _seq_of_guid(self, text: str) -> int | None:
        for (event,) in self.connection.execute("SELECT event FROM fact WHERE guid = ?", (guid_bytes(text),)):
            return event - self.base
        seq = seq_of(self.run, text)
        if seq is None or seq > self.head:
            return None
        row = self.event(seq)
        return seq if row is not None and row.guid is None else None

    # --- rows

    def event(self, seq: int) -> Row | None:
        """One event by its seq."""
        return next(iter(self.events((seq,))), None)

    def events(self, seqs: Sequence[int]) -> list[Row]:
        """Events by their seqs, in the given order."""
        query = f"SELECT {self._columns} FROM fact f JOIN event e ON e.id = f.event WHERE f.event = ?"
        rows: list[Row] = []
        for seq in seqs:
            rows += self._rows(self.connection.execute(query, (self.base + seq,)))
        return rows

    def page(self, selection: Selection, window: Window, limit: int, offset: int = 0) -> list[Row]:
        """The selected events of the window, `limit` of them after the first `offset`."""
        if selection.is_empty or limit <= 0:
            return []
        sql = self._sql(selection, window)
        if sql.in_order and not offset:
            query = (
                f"SELECT {self._columns} FROM {sql.source} CROSS JOIN event e ON e.id = f.event "
                f"WHERE {sql.where} ORDER BY f.ts, f.event LIMIT ?"
            )
            return self._rows(self.connection.execute(query, (*sql.values, limit)))
        # What is skipped or sorted is keys alone; only the rows of the page are looked up.
        query = (
            f"SELECT {self._columns} FROM (SELECT f.event AS at FROM {sql.source} WHERE {sql.where} "
            "ORDER BY f.ts, f.event LIMIT ? OFFSET ?) CROSS JOIN fact f ON f.event = at "
            "CROSS JOIN event e ON e.id = f.event ORDER BY f.ts, f.event"
        )
        return self._rows(self.connection.execute(query, (*sql.values, limit, offset)))

    def page_of(self, selection: Selection, limit: int, offset: int) -> tuple[list[Row], int]:
        """A page by its offset in the view of now, and how many events are selected in all."""
        if not offset and selection.column in _FEW:
            # A first page that is not full has all of them, and no count is needed.
            rows = self.page(selection, self.now, limit)
            return rows, len(rows) if len(rows) < limit else self.count(selection)
        total = self.count(selection)
        return (self.page_at(selection, limit, offset) if offset < total else []), total

    def page_at(self, selection: Selection, limit: int, offset: int) -> list[Row]:
        """A page by its offset in the view of now; on a sorted type it is found through the chunks."""
        chunks = self._chunks(selection)
        if chunks is None:
            return self.page(selection, self.now, limit, offset)
        for chunk in chunks:
            if offset < chunk.count:
                before = Key(chunk.ts, chunk.event - self.base - 1)
                return self.page(selection, Window(self.head, last=before), limit, offset)
            offset -= chunk.count
        return []

    def scan(self, selection: Selection, window: Window | None = None) -> Iterator[Row]:
        """Every selected event in order, one at a time; finish it before the call ends."""
        if selection.is_empty:
            return
        sql = self._sql(selection, window or self.now)
        query = (
            f"SELECT {self._columns} FROM {sql.source} JOIN event e ON e.id = f.event "
            f"WHERE {sql.where} ORDER BY f.ts, f.event"
        )
        yield from map(Row._make, self.connection.execute(query, sql.values))

    def bodies(self, selection: Selection) -> Iterator[tuple[int, bytes]]:
        """Seq and properties of every selected event, in recording order where that is cheapest."""
        if selection.is_empty:
            return
        sql = self._sql(selection, self.now)
        query = f"SELECT f.event, e.body FROM {sql.source} JOIN event e ON e.id = f.event WHERE {sql.where}"
        for event, body in self.connection.execute(query, sql.values):
            yield event - self.base, body

    # --- counts

    def count(self, selection: Selection) -> int:
        """How many events are selected now."""
        if selection.is_empty:
            return 0
        known = self._known_count(selection)
        if known is not None:
            return known
        chunks = self._chunks(selection)
        if chunks is not None:
            return sum(chunk.count for chunk in chunks)
        sql = self._sql(selection, self.now)
        return self._one(f"SELECT count(*) FROM {sql.source} WHERE {sql.where}", sql.values)

    def _known_count(self, selection: Selection) -> int | None:
        """From the tallies, when the question is about all of time."""
        if not selection.span.is_all or selection.faults is not None:
            return None
        if selection.column is None:
            return self._tallied(selection)
        if selection.column not in ("symbol", "indicator") or selection.categories or selection.severity:
            return None
        query = f"SELECT coalesce(sum(n), 0) FROM used WHERE text IN {_places(selection.refs)}"
        query += f" AND type IN {_places(selection.types)}" if selection.types else ""
        return self._one(query, (*selection.refs, *selection.types))

    def _tallied(self, selection: Selection) -> int:
        query, values = "SELECT coalesce(sum(n), 0) FROM tally WHERE 1", list[Any]()
        for column, wanted in (
            ("type", selection.types),
            ("severity", () if selection.severity is None else (selection.severity,)),
            ("category", selection.categories),
        ):
            if wanted:
                query += f" AND {column} IN {_places(wanted)}"
                values += wanted
        return self._one(query, values)

    def _chunks(self, selection: Selection) -> list[_Chunk] | None:
        """The stretches of a sorted type with what is selected of each; None when chunks cannot tell."""
        if selection not in self._counted:
            if len(self._counted) >= _REMEMBERED:
                self._counted.clear()
            self._counted[selection] = self._count_chunks(selection)
        return self._counted[selection]

    def _count_chunks(self, selection: Selection) -> list[_Chunk] | None:
        if (
            len(selection.types) != 1
            or selection.column
            or selection.categories
            or selection.faults is not None
        ):
            return None
        kind = selection.types[0]
        if not self.order_of_types.get(kind):
            return None
        span, counted = selection.span, _SEVERITY_COUNTS.get(selection.severity or 0, "n")
        query = (
            f"SELECT min_ts, max_ts, event, last, {counted} FROM chunk "
            "WHERE type = ? AND max_ts >= ? AND min_ts <= ? ORDER BY number"
        )
        chunks: list[_Chunk] = []
        for first, last, event, end, n in self.connection.execute(query, (kind, span.start_ns, span.end_ns)):
            if not (span.start_ns <= first and last <= span.end_ns):
                n = self._count_between(selection, kind, (first, last), (event, end))
            chunks.append(_Chunk(first, event, n))
        return chunks

    def _count_between(
        self, selection: Selection, kind: int, times: tuple[int, int], events: tuple[int, int]
    ) -> int:
        """How many of a chunk at the edge of the span lie inside it."""
        span = selection.span
        query = (
            f"SELECT count(*) FROM fact f {self.by('type')} "
            "WHERE type = ? AND ts BETWEEN ? AND ? AND event BETWEEN ? AND ?"
        )
        bounds = (max(times[0], span.start_ns), min(times[1], span.end_ns))
        if selection.severity is None:
            return self._one(query, (kind, *bounds, *events))
        return self._one(f"{query} AND severity = ?", (kind, *bounds, *events, selection.severity))

    # --- SQL: fixed parts and bound values, never a caller's text

    def _sql(self, selection: Selection, window: Window) -> _Sql:
        """The source with the index that serves the selection, and its conditions."""
        where: list[str] = []
        values: list[Any] = []
        source = self._source(selection, window, where, values)
        if selection.column is None and selection.faults is None and not window.floor and selection.types:
            where.append(f"f.type IN {_places(selection.types)}")
            values += selection.types
        elif selection.types:
            where.append(f"+f.type IN {_places(selection.types)}")
            values += selection.types
        if selection.severity is not None:
            where.append("f.severity = ?")
            values.append(selection.severity)
        if selection.categories:
            where.append(f"f.category IN {_places(selection.categories)}")
            values += selection.categories
        if not selection.span.is_all:
            # From the last key's time on: so the index is entered there and not at the span's start.
            first = EARLIEST if window.last is None else window.last.ts
            where.append("f.ts BETWEEN ? AND ?")
            values += (max(selection.span.start_ns, first), selection.span.end_ns)
        elif window.last is not None and self.is_packed:
            where.append("f.ts >= ?")
            values.append(window.last.ts)
        if window.last is not None:
            where.append("(f.ts, f.event) > (?, ?)")
            values += (window.last.ts, self.base + window.last.seq)
        if window.mark < self.head:
            where.append("f.event <= ?")
            values.append(self.base + window.mark)
        in_order = not window.floor and (
            selection.faults is not None or len(selection.refs if selection.column else selection.types) == 1
        )
        return _Sql(source, " AND ".join(where) or "1", tuple(values), in_order)

    def _source(self, selection: Selection, window: Window, where: list[str], values: list[Any]) -> str:
        if window.floor:
            where.append("f.event > ?")
            values.append(self.base + window.floor)
        if selection.column is not None:
            plus = "+" if window.floor else ""
            where.append(f"{plus}f.{selection.column} IN {_places(selection.refs)}")
            values += selection.refs
            return "fact f" if window.floor else f"fact f {self.by(selection.column)}"
        if selection.faults is not None:
            where.append("f.errors IS NOT NULL AND f.errors & ?")
            values.append(selection.faults)
            return "fact f" if window.floor else f"fact f {self.by('errors')}"
        if window.floor or not selection.types:
            return "fact f"
        return f"fact f {self.by('type')}"

    @property
    def _columns(self) -> str:
        return _COLUMNS[self.has_guids]

    def _rows(self, found: Iterable[tuple[Any, ...]]) -> list[Row]:
        return list(map(Row._make, found))

    def _one(self, query: str, values: Sequence[Any]) -> int:
        return next(self.connection.execute(query, values))[0]


_known: Final[WeakKeyDictionary[Reader, Recording]] = WeakKeyDictionary()
_attached: Final[WeakSet[Reader]] = WeakSet()

_NO_EVENT_ID: Final = (
    "this is no event id. Give a GUID, a seq such as 41, or a tracedesk://backtest reference."
)


def _places(values: Sequence[Any]) -> str:
    return f"({','.join('?' * len(values))})"
