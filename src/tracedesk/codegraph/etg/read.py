"""Reading attempts: one with all its parts, many in the order they began, and what a reference leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.codegraph.etg import body, outcome
from tracedesk.codegraph.etg.body import Stored
from tracedesk.codegraph.etg.files import Citation, Named, arguments_of, citation, normalised
from tracedesk.codegraph.etg.model import (
    DEFAULT_PROJECT,
    STATUSES,
    Outcome,
    Role,
    attempt_ref,
    canonical,
    event_ref,
)
from tracedesk.codegraph.etg.outcome import State, Verdict
from tracedesk.errors import ToolError
from tracedesk.journal import Reader
from tracedesk.journal.file import MAX_SEQ, SEQ_BITS
from tracedesk.journal.sqlite import Connection
from tracedesk.primitives.time import EARLIEST, LATEST

MOST_EVENTS: Final = 1_000
"""Events of one page; its cursor leads to those that follow."""
_ALL: Final = 1 << 40
MOST_CALLS: Final = 1_000
"""Tool calls of an attempt that are shown: its newest."""
MOST_FILES: Final = 500
_MOST_LOOKED_AT: Final = 5_000
"""Attempts that one page looks at for those with the wanted outcome."""

_TOP: Final = f"{LATEST}.{LATEST}"
"""The cursor before everything, where the latest comes first."""
_BOTTOM: Final = f"{EARLIEST}.0"
"""The same where the earliest does."""

_CALLS: Final = "tracedesk://calls/"
_NAMED_FILES: Final = 10


@dataclass(frozen=True, slots=True)
class EventView:
    """One event, with its files relative to the attempt's project and its citations taken apart."""

    ref: str
    place: str
    """The cursor that continues after it."""
    event_id: str
    attempt_id: str
    kind: str
    time_ns: int
    payload: Mapping[str, Any]
    source: str
    received_ns: int
    outcome: str | None
    call_id: str | None
    known: bool | None
    """Whether the graph version of a checkpoint was one of a graph here."""
    skewed: bool
    by: str | None
    payload_ref: str | None
    files: tuple[Named, ...]
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class CallView:
    """One tool call. A record of the desk has no arguments here: its reference leads to them."""

    ref: str
    tool: str
    arguments: Mapping[str, Any] | None
    status: str | None
    duration_us: int | None
    started_ns: int | None
    ended_ns: int | None
    call_id: str | None
    output_ref: str | None
    origin: str
    pairing: str
    start_ref: str | None
    end_ref: str | None

    @property
    def has_known_status(self) -> bool:
        return self.status in STATUSES


@dataclass(frozen=True, slots=True)
class FileView:
    """A file of an attempt: what the attempt had to do with it, and in how many events."""

    path: str
    roles: tuple[str, ...]
    events: int


@dataclass(frozen=True, slots=True)
class Brief:
    """An attempt in a line."""

    id: int
    attempt_id: str
    ref: str
    project: str
    started_ns: int
    last_ns: int
    graph_version: str | None
    events: int
    calls: int
    evidence: bool
    source: str
    """Where its first event came from; `desk` when it has calls of this desk alone."""
    state: State
    verdict: Verdict
    summary: str
    summary_source: str
    files: tuple[str, ...]
    """The files it touched most, changed ones first; `file_count` says of how many."""
    file_count: int
    failed_tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt with its parts, each cut where it is very long; the brief's counts tell of all."""

    brief: Brief
    events: tuple[EventView, ...]
    """A page of them, in order of time."""
    more: bool
    """Whether events follow on this page."""
    tool_calls: tuple[CallView, ...]
    """The newest, in order of time."""
    files: tuple[FileView, ...]
    complete: bool
    """Whether these are all its events, tool calls and files."""
    first: str
    """Where the page of events begins."""

    def cursor(self, count: int) -> str:
        """The cursor that continues after the first `count` events of this page."""
        return self.events[count - 1].place if count else self.first


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of attempts, the latest first, and the cursor after its n-th; `more` says that some follow."""

    attempts: tuple[Brief, ...]
    more: bool
    first: str
    """Where the page begins."""
    last: str
    """Where the next one does, also after attempts that were looked at and not wanted."""

    def cursor(self, count: int) -> str:
        """The cursor that continues after the first `count` attempts of this page."""
        if count >= len(self.attempts):
            return self.last
        return _cursor(self.attempts[count - 1]) if count else self.first


# --- one attempt -------------------------------------------------------------------------------


def attempt(
    reader: Reader, name: str, now_ns: int, *, limit: int = MOST_EVENTS, cursor: str | None = None
) -> AttemptView | None:
    """The attempt of that name, as far as it is known now, with a page of its events."""
    with reader.connection:  # one state for all that is read
        return _attempt(reader, canonical(name), now_ns, min(limit, MOST_EVENTS), cursor)


def whole(reader: Reader, name: str, now_ns: int) -> AttemptView | None:
    """The attempt of that name with all of its events, however many, for who takes it elsewhere."""
    with reader.connection:
        return _attempt(reader, canonical(name), now_ns, _ALL, None)


def _attempt(reader: Reader, name: str, now_ns: int, limit: int, cursor: str | None) -> AttemptView | None:
    connection = reader.connection
    query = "SELECT id, project FROM attempt WHERE name = ?"
    found = next(iter(connection.execute(query, (name,))), None)
    if found is None:
        return None
    identifier, project = found
    first = _BOTTOM if cursor is None else cursor
    events = _events(connection, identifier, project, first, limit + 1)
    calls, files = _tool_calls(connection, identifier), _files(connection, identifier)
    more = len(events) > limit
    fits = len(calls) <= MOST_CALLS and len(files) <= MOST_FILES
    return AttemptView(
        brief=briefs(reader, [identifier], now_ns)[identifier],
        events=tuple(events[:limit]),
        more=more,
        tool_calls=tuple(calls[:MOST_CALLS][::-1]),
        files=tuple(files[:MOST_FILES]),
        complete=fits and not more and cursor is None,
        first=first,
    )


def _events(connection: Connection, attempt: int, project: str, after: str, most: int) -> list[EventView]:
    query = (
        "SELECT e.id, e.kind, e.time_ns, e.body FROM attempt_event a JOIN event e ON e.id = a.event "
        "WHERE a.attempt = ? AND (a.time_ns, a.event) > (?, ?) ORDER BY a.time_ns, a.event LIMIT ?"
    )
    names = _streams(connection)
    rows = connection.execute(query, (attempt, *_place(after), most))
    return [view(body.read(*row), project, names) for row in rows]


def view(event: Stored, project: str, streams: Mapping[int, str]) -> EventView:
    """An event as it is shown."""
    files: list[tuple[str | None, Role]] = [(normalised(path, project), role) for path, role in event.files]
    cited = event.payload.get("citations") if event.kind == "answer_rendered" else None
    return EventView(
        ref=reference(event.event, streams),
        place=f"{event.time_ns}.{event.event}",
        event_id=event.event_id,
        attempt_id=event.attempt,
        kind=event.kind,
        time_ns=event.time_ns,
        payload=event.payload,
        source=event.source,
        received_ns=event.body["at"],
        outcome=event.outcome,
        call_id=event.call_id,
        known=event.body.get("known"),
        skewed=event.body.get("skewed", False),
        by=event.body.get("by"),
        payload_ref=event.payload_ref,
        files=tuple((path, role) for path, role in files if path is not None),
        citations=tuple(map(citation, cited or ())),
    )


_CALL_COLUMNS: Final = (
    "t.event, t.tool, t.call_id, t.start, t.finish, t.start_ns, t.end_ns, t.judged, t.duration_us, "
    "t.output_ref, t.origin, t.pairing, e.kind, e.time_ns, e.body"
)


def _tool_calls(connection: Connection, attempt: int) -> list[CallView]:
    """The newest first."""
    query = (
        f"SELECT {_CALL_COLUMNS} FROM tool_call t LEFT JOIN event e ON e.id = t.start "
        "AND t.pairing != 'record' WHERE t.attempt = ? "
        "ORDER BY coalesce(t.start_ns, t.end_ns) DESC, t.event DESC LIMIT ?"
    )
    names = _streams(connection)
    rows = connection.execute(query, (attempt, MOST_CALLS + 1))
    return [_call(row, names) for row in rows]


def _call(row: tuple[Any, ...], streams: Mapping[int, str]) -> CallView:
    (
        event,
        tool,
        call_id,
        start,
        finish,
        start_ns,
        end_ns,
        status,
        duration,
        output,
        origin,
        pairing,
        *begun,
    ) = row
    is_record = pairing == "record"
    ref = f"{_CALLS}{call_id}" if is_record else reference(event, streams)
    kind, time_ns, text = begun
    return CallView(
        ref=ref,
        tool=tool,
        arguments=None if text is None else arguments_of(body.read(start, kind, time_ns, text).payload),
        status=status,
        duration_us=duration,
        started_ns=start_ns,
        ended_ns=end_ns,
        call_id=call_id,
        output_ref=output,
        origin=origin,
        pairing=pairing,
        start_ref=None if is_record or start is None else reference(start, streams),
        end_ref=None if is_record or finish is None else reference(finish, streams),
    )


def _files(connection: Connection, attempt: int) -> list[FileView]:
    query = (
        "SELECT path, group_concat(DISTINCT role), count(*) FROM attempt_file WHERE attempt = ? "
        "GROUP BY path ORDER BY max(role = 'changed') DESC, count(*) DESC, path LIMIT ?"
    )
    rows = connection.execute(query, (attempt, MOST_FILES + 1))
    return [FileView(path, tuple(sorted(roles.split(","))), count) for path, roles, count in rows]


def _streams(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT id, name FROM stream"))


def reference(event: int, streams: Mapping[int, str]) -> str:
    """The reference of an event's row."""
    return event_ref(streams[event >> SEQ_BITS], event & MAX_SEQ)


# --- many attempts -----------------------------------------------------------------------------

_BRIEF: Final = (
    "SELECT a.id, a.name, a.project, a.started_ns, a.last_ns, a.graph_version, a.events, a.calls, "
    "a.evidence, coalesce(a.source, 'desk'), coalesce(s.text, ''), coalesce(s.source, 'extractive:1') "
    "FROM attempt a LEFT JOIN summary s ON s.attempt = a.id"
)


def briefs(reader: Reader, attempts: Sequence[int], now_ns: int) -> dict[int, Brief]:
    """Attempts in a line each, by their row ids."""
    connection = reader.connection
    found: dict[int, Brief] = {}
    with connection:
        for identifier in attempts:
            for row in connection.execute(f"{_BRIEF} WHERE a.id = ?", (identifier,)):
                found[identifier] = _brief(connection, row, now_ns)
    return found


def _brief(connection: Connection, row: tuple[Any, ...], now_ns: int) -> Brief:
    identifier, name, project, started, last, graph, events, calls, evidence, source, text, origin = row
    standing = outcome.state(connection, identifier, last, now_ns)
    files, count = _touched(connection, identifier)
    return Brief(
        id=identifier,
        attempt_id=name,
        ref=attempt_ref(name),
        project=project,
        started_ns=started,
        last_ns=last,
        graph_version=graph,
        events=events,
        calls=calls,
        evidence=bool(evidence),
        source=source,
        state=standing,
        verdict=outcome.verdict(connection, identifier, standing),
        summary=text,
        summary_source=origin,
        files=files,
        file_count=count,
        failed_tools=_failed(connection, identifier),
    )


def _touched(connection: Connection, attempt: int) -> tuple[tuple[str, ...], int]:
    query = (
        "SELECT path, count(*) OVER () FROM (SELECT path, max(role = 'changed') AS changed, count(*) AS n "
        "FROM attempt_file WHERE attempt = ? GROUP BY path) ORDER BY changed DESC, n DESC, path LIMIT ?"
    )
    rows = list(connection.execute(query, (attempt, _NAMED_FILES)))
    return tuple(path for path, _ in rows), rows[0][1] if rows else 0


def _failed(connection: Connection, attempt: int) -> tuple[str, ...]:
    query = (
        "SELECT tool FROM tool_call WHERE attempt = ? AND judged IN ('error', 'timeout') "
        "AND origin != 'self' GROUP BY tool ORDER BY min(end_ns), tool LIMIT 20"
    )
    return tuple(tool for (tool,) in connection.execute(query, (attempt,)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which attempts a timeline shows; times are of their beginnings, `until_ns` included."""

    project: str | None = None
    outcome: Outcome | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    path: str | None = None
    """A file that they touched, relative to their project or absolute."""
    evidence_only: bool = True
    """Without attempts that are nothing but our own look-ups."""


def timeline(
    reader: Reader, now_ns: int, wanted: Wanted | None = None, *, limit: int = 20, cursor: str | None = None
) -> Timeline:
    """Attempts by when they began, the latest first."""
    wanted = wanted or Wanted()
    kept: list[Brief] = []
    first = last = _TOP if cursor is None else cursor
    with reader.connection:
        for looked_at, brief in enumerate(_scan(reader.connection, wanted, first, now_ns)):
            if len(kept) == limit or looked_at == _MOST_LOOKED_AT:
                return Timeline(tuple(kept), True, first, last)
            last = _cursor(brief)
            if wanted.outcome is None or brief.verdict.outcome == wanted.outcome:
                kept.append(brief)
    return Timeline(tuple(kept), False, first, last)


def _scan(connection: Connection, wanted: Wanted, cursor: str, now_ns: int) -> Iterator[Brief]:
    conditions = ["(a.started_ns, a.id) < (?, ?)"]
    values: list[Any] = [*_place(cursor)]
    if wanted.evidence_only:
        conditions.append("a.evidence")
    for condition, value in (
        ("a.project = ?", wanted.project),
        ("a.started_ns >= ?", wanted.since_ns),
        ("a.started_ns <= ?", wanted.until_ns),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if wanted.path is not None:
        condition, paths = _touching(normalised(wanted.path, wanted.project or DEFAULT_PROJECT) or "")
        conditions.append(condition)
        values += paths
    query = f"{_BRIEF} WHERE {' AND '.join(conditions)} ORDER BY a.started_ns DESC, a.id DESC"
    for row in connection.execute(query, values):
        yield _brief(connection, row, now_ns)


def _touching(path: str) -> tuple[str, list[str]]:
    """The condition that an attempt touched a file: so named, or so named below its project."""
    parts = path.split("/")
    tails = ["/".join(parts[start:]) for start in range(1, len(parts))] if path.startswith("/") else []
    condition = (
        "a.id IN (SELECT f.attempt FROM attempt_file f JOIN attempt o ON o.id = f.attempt "
        f"WHERE f.path IN ({','.join('?' * (1 + len(tails)))}) "
        "AND ? IN (f.path, rtrim(o.project, '/') || '/' || f.path))"
    )
    return condition, [path, *tails, path]


def _cursor(brief: Brief) -> str:
    return f"{brief.started_ns}.{brief.id}"


def _place(cursor: str) -> tuple[int, int]:
    started, _, identifier = cursor.partition(".")
    digits = started.removeprefix("-"), identifier
    if not all(part.isascii() and part.isdecimal() and len(part) <= 19 for part in digits):
        message = "cursor: not one of this tool's. Send the nextCursor of the previous page, or none."
        raise ToolError("INVALID_PARAMETER", message, {"path": ["cursor"]})
    return max(EARLIEST, min(int(started), LATEST)), min(int(identifier), LATEST)


def newest_attempt(reader: Reader, prefix: str) -> tuple[str, bool] | None:
    """The attempt of that prefix which arrived last, whatever its clock, and whether it has an answer."""
    query = (
        "SELECT name, EXISTS(SELECT 1 FROM attempt_event e WHERE e.attempt = a.id "
        "AND e.kind = 'answer_rendered') FROM attempt a WHERE name >= ? AND name < ? "
        "ORDER BY id DESC LIMIT 1"
    )
    rows = reader.connection.execute(query, (prefix, prefix + "\U0010ffff"))
    return next(((name, bool(answered)) for name, answered in rows), None)
