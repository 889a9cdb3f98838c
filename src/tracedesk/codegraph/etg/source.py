"""Events and attempts as sources: what a reference or a bare event id leads to, and on from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tracedesk.codegraph.etg import body, read, schema
from tracedesk.codegraph.etg.model import LONGEST_ID, attempt_of, attempt_ref, place_of
from tracedesk.codegraph.etg.read import AttemptView, EventView
from tracedesk.codegraph.etg.text import visible
from tracedesk.contract import Edge, Source
from tracedesk.journal import Reader
from tracedesk.journal.file import SEQ_BITS, key
from tracedesk.journal.sqlite import Connection
from tracedesk.journal.stream import find
from tracedesk.primitives.time import format

FileRef = Callable[[str, str], str | None]
"""`(project, path) -> a file's reference`, where the code graph has one."""

_MOST_EDGES: Final = 100
_RELATIONS: Final = {"changed": "changes_file", "read": "reads_file", "cited": "cites_file"}


def resolve(reader: Reader, ref: str, now_ns: int, file_ref: FileRef | None = None) -> Source | None:
    """What a reference to an event or attempt, or a bare event id, leads to; None when that is not here."""
    if not schema.exists(reader.connection):
        return None
    name = attempt_of(ref)
    if name is not None:
        found = read.attempt(reader, name, now_ns, limit=_MOST_EDGES)
        return None if found is None else _attempt(found)
    with reader.connection:
        event = _event_id(reader.connection, ref)
        return None if event is None else _event(reader.connection, event, file_ref)


def _event_id(connection: Connection, ref: str) -> int | None:
    place = place_of(ref)
    if place is not None:
        stream = find(connection, place[0])
        return None if stream is None else key(stream.id, place[1])
    if "://" in ref or len(ref) > LONGEST_ID:
        return None
    query = "SELECT max(event) FROM attempt_event WHERE event_id = ?"
    return next(iter(connection.execute(query, (ref,))))[0]


def _event(connection: Connection, event: int, file_ref: FileRef | None) -> Source | None:
    query = (
        "SELECT e.kind, e.time_ns, e.body, a.project FROM attempt_event x JOIN event e ON e.id = x.event "
        "JOIN attempt a ON a.id = x.attempt WHERE x.event = ?"
    )
    for kind, time_ns, text, project in connection.execute(query, (event,)):
        names = dict(connection.execute("SELECT id, name FROM stream WHERE id = ?", (event >> SEQ_BITS,)))
        shown = read.view(body.read(event, kind, time_ns, text), project, names)
        edges = [*_edges(shown), *_tool(connection, event), *_files(shown, project, file_ref)]
        return Source(shown.ref, "event", event_document(shown), tuple(edges))
    return None


def event_document(shown: EventView) -> dict[str, Any]:
    """An event as JSON, its texts as data; what it does not have is left out."""
    facts = {
        "event_id": shown.event_id,
        "attempt_id": shown.attempt_id,
        "kind": shown.kind,
        "timestamp": format(shown.time_ns),
        "received_at": format(shown.received_ns),
        "source": shown.source,
        "payload": shown.payload,
        "outcome": shown.outcome,
        "call_id": shown.call_id,
        "known": shown.known,
        "skewed": shown.skewed or None,
        "payload_ref": shown.payload_ref,
        "files": [{"path": path, "role": role} for path, role in shown.files] or None,
        "citations": [_citation(one) for one in shown.citations] or None,
    }
    return visible({name: value for name, value in facts.items() if value is not None})


def _citation(one: read.Citation) -> dict[str, Any]:
    facts = {"text": one.text, "file": one.path, "start": one.start, "end": one.end}
    return {name: value for name, value in facts.items() if value is not None}


def _edges(shown: EventView) -> list[Edge]:
    edges = [Edge("attempt", attempt_ref(shown.attempt_id))]
    if shown.by is not None:
        edges.append(Edge("logged_by", shown.by))
    if shown.payload_ref is not None:
        edges.append(Edge("payload", shown.payload_ref))
    output = shown.payload.get("output_ref") if shown.kind == "tool_end" else None
    if isinstance(output, str) and output != shown.payload_ref:
        edges.append(Edge("output", output))
    return edges


def _tool(connection: Connection, event: int) -> list[Edge]:
    """From an end to its start, and from a start to its end."""
    query = (
        "SELECT start, finish FROM tool_call WHERE (attempt, tool) = "
        "(SELECT attempt, tool FROM attempt_event WHERE event = ?) AND (start = ? OR finish = ?)"
    )
    names = dict(connection.execute("SELECT id, name FROM stream"))
    for start, finish in connection.execute(query, (event, event, event)):
        other, relation = (start, "started_by") if finish == event else (finish, "ended_by")
        if other is not None:
            return [Edge(relation, read.reference(other, names))]
    return []


def _files(shown: EventView, project: str, file_ref: FileRef | None) -> list[Edge]:
    if file_ref is None:
        return []
    found = ((_RELATIONS[role], file_ref(project, path)) for path, role in shown.files[:_MOST_EDGES])
    return [Edge(relation, ref) for relation, ref in found if ref is not None]


def _attempt(found: AttemptView) -> Source:
    brief = found.brief
    document: dict[str, Any] = {
        "attempt_id": brief.attempt_id,
        "project": brief.project,
        "started_at": format(brief.started_ns),
        "last_at": format(brief.last_ns),
        "graph_version": brief.graph_version,
        "state": brief.state,
        "outcome": brief.verdict.outcome,
        "outcome_source": brief.verdict.source,
        "confidence": brief.verdict.confidence,
        "summary": {"text": brief.summary, "source": brief.summary_source},
        "events": brief.events,
        "calls": brief.calls,
        "files": [file.path for file in found.files[:_MOST_EDGES]],
        "failed_tools": list(brief.failed_tools),
    }
    edges = [Edge("has_event", event.ref) for event in found.events[:_MOST_EDGES]]
    edges += [Edge("called", call.ref) for call in found.tool_calls if call.pairing == "record"][:_MOST_EDGES]
    return Source(brief.ref, "attempt", visible(document), tuple(edges))
