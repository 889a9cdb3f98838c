"""Attempts with their events, tool calls and summaries as nodes, and their edges into the code."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tracedesk.codegraph.etg import read, schema
from tracedesk.codegraph.etg.files import normalised
from tracedesk.codegraph.etg.read import AttemptView, CallView, EventView, Wanted
from tracedesk.codegraph.jac.code import Code, Piece, embedded
from tracedesk.codegraph.jac.types import Attempt, Draft, Event, File, Moment, Summary, ToolCall
from tracedesk.codegraph.rank.attempts import texts
from tracedesk.journal import Reader

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.vectors import Vectors

_PAGE: Final = 50


@contextmanager
def opened(path: Path | None) -> Generator[Reader | None]:
    """A reader of a file with attempts; none where there are none yet."""
    if path is None or not path.exists():
        yield None
        return
    with Reader(path) as reader:
        yield reader if schema.exists(reader.connection) else None


def newest(reader: Reader, project: str, now_ns: int, nodes: int) -> list[AttemptView]:
    """The project's latest attempts, whole ones only, as many as make no more than so many nodes."""
    chosen: list[AttemptView] = []
    for name in _names(reader, project, now_ns):
        view = read.attempt(reader, name, now_ns)
        if view is not None and nodes_of(view) <= nodes:
            nodes -= nodes_of(view)
            chosen.append(view)
        if nodes < 2:
            break
    return chosen


def _names(reader: Reader, project: str, now_ns: int) -> Iterator[str]:
    cursor: str | None = None
    while True:
        page = read.timeline(reader, now_ns, Wanted(project=project), limit=_PAGE, cursor=cursor)
        yield from (brief.attempt_id for brief in page.attempts)
        if not page.more:
            return
        cursor = page.last


def nodes_of(view: AttemptView) -> int:
    """How many nodes an attempt makes, with the files that only it may know."""
    records = sum(call.pairing == "record" for call in view.tool_calls)
    return 2 + len(view.events) + len(view.tool_calls) + records + len(view.files)


def totals(reader: Reader, project: str) -> dict[str, int]:
    """How many nodes of each type all attempts of the project would make."""
    one = "SELECT count(*) FROM {} JOIN attempt a ON a.id = {}.attempt WHERE a.project = ? AND a.evidence"
    found = {name: _one(reader, one.format(table, table), project) for name, table in _TABLES.items()}
    attempts = _one(reader, "SELECT count(*) FROM attempt WHERE project = ? AND evidence", project)
    records = _one(reader, one.format("tool_call", "tool_call") + " AND pairing = 'record'", project)
    return {"Attempt": attempts, **found, "Event": found["Event"] + records}


_TABLES: Final = {"Event": "attempt_event", "ToolCall": "tool_call", "Summary": "summary"}


def _one(reader: Reader, query: str, project: str) -> int:
    return next(reader.connection.execute(query, (project,)))[0]


# --- nodes ----------------------------------------------------------------------------------------


Embeddings = Mapping[int, tuple[float, ...]]
"""The vectors of attempts by their row ids."""


def embeddings(
    reader: Reader, project: str, views: Sequence[AttemptView], vectors: Vectors | None
) -> Embeddings:
    """The vector of each attempt's text, of those that have one."""
    if vectors is None or not views:
        return {}
    wanted = {view.brief.id for view in views}
    keys = {id: key for id, key, _ in texts(reader.connection, project) if id in wanted}
    return dict(zip(keys, embedded(list(keys.values()), vectors), strict=True))


def take(
    draft: Draft, views: Sequence[AttemptView], code: Code, live: frozenset[str], vectors: Embeddings
) -> None:
    """Add attempts to a draft that has its code.

    `live` are the paths of all files of the graph. A file that none of them is becomes a node without
    language and hash.
    """
    trail = _Trail(draft, code, live)
    for view in views:
        trail.add(view, vectors.get(view.brief.id, ()))


class _Trail:
    """Attempts on their way into a draft."""

    def __init__(self, draft: Draft, code: Code, live: frozenset[str]) -> None:
        self._draft = draft
        self._code = code
        self._live = live

    def add(self, view: AttemptView, embedding: tuple[float, ...]) -> None:
        brief, draft = view.brief, self._draft
        attempt = draft.add(Attempt(brief.attempt_id, Moment(brief.started_ns), brief.graph_version or ""))
        draft.link("project_has_attempt", 0, attempt)
        places = {event.ref: self._event(attempt, event) for event in view.events}
        for call in view.tool_calls:
            self._call(attempt, call, places)
        summary = draft.add(Summary(brief.summary, brief.summary_source, embedding))
        draft.link("attempt_has_summary", attempt, summary)

    def _event(self, attempt: int, event: EventView) -> int:
        node = Event(event.event_id, event.kind, Moment(event.time_ns), event.payload)
        place = self._draft.add(node)
        self._draft.link("attempt_has_event", attempt, place)
        for path, _ in event.files:
            self._reads(place, path)
        for path, symbols, lines in _quoted(event, self._draft.project.project_root):
            self._quotes(place, path, symbols, lines)
        return place

    def _call(self, attempt: int, call: CallView, places: Mapping[str, int]) -> None:
        duration = None if call.duration_us is None else call.duration_us / 1000
        place = self._draft.add(ToolCall(call.tool, call.arguments, call.status or "open", duration))
        ref = call.start_ref or call.end_ref
        if call.pairing == "record":
            event = self._draft.add(_recorded(call, duration))
            self._draft.link("attempt_has_event", attempt, event)
            self._draft.link("event_invokes_tool", event, place)
        elif ref is not None and ref in places:
            self._draft.link("event_invokes_tool", places[ref], place)

    # --- edges into the code

    def _reads(self, event: int, path: str) -> None:
        if path not in self._code.paths and path in self._live:
            self._code.left_out["event_reads_file"] += 1
            return
        if path not in self._code.paths:
            root = self._draft.project.project_root
            self._code.paths[path] = self._draft.add(File(path, "", "", root))
            self._draft.link("project_has_file", 0, self._code.paths[path])
        self._draft.link("event_reads_file", event, self._code.paths[path])

    def _quotes(self, event: int, path: str, symbols: frozenset[str], lines: range | None) -> None:
        pieces = self._code.pieces.get(path)
        if pieces is None:
            self._code.left_out["event_links_context"] += path in self._live
            return
        found = [piece for piece in pieces if _is_meant(piece, symbols, lines)]
        for piece in found or [piece for piece in pieces if piece.symbol is None]:
            self._draft.link("event_links_context", event, piece.place)


def _recorded(call: CallView, duration_ms: float | None) -> Event:
    """The event that the desk's own record of a call stands for: its reference leads to the whole record."""
    told = {"tool": call.tool, "status": call.status, "duration_ms": duration_ms, "output_ref": call.ref}
    return Event(call.ref, "tool_end", Moment(call.ended_ns or call.started_ns or 0), told)


def _quoted(event: EventView, root: str) -> Iterator[tuple[str, frozenset[str], range | None]]:
    """The places in files that an event shows or cites: symbols by name, or lines."""
    if event.kind == "context_retrieved":
        for snippet in cast("list[Mapping[str, Any]]", event.payload.get("snippets") or []):
            path = normalised(snippet["file"], root)
            if path is not None:
                yield path, frozenset(snippet.get("symbols") or ()), None
    for cited in event.citations:
        path = None if cited.path is None else normalised(cited.path, root)
        if path is not None and cited.start is not None and cited.end is not None:
            yield path, frozenset(), range(cited.start, cited.end + 1)


def _is_meant(piece: Piece, symbols: frozenset[str], lines: range | None) -> bool:
    if lines is not None:
        return piece.start < lines.stop and lines.start <= piece.end
    return piece.symbol in symbols
