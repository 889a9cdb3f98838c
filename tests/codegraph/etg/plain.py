"""A trace in plain lists: what the real one must say, worked out anew from all events every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.codegraph.etg.bench import SECOND
from tracedesk.codegraph.etg import text
from tracedesk.codegraph.etg.files import named, normalised
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.codegraph.etg.read import AttemptView


@dataclass(slots=True)
class Kept:
    """An event that was new, with its place in the journal."""

    place: tuple[str, int]
    order: tuple[int, int]
    """The same with the number of its stream, for streams are in the order they were opened."""
    event: NewEvent
    time_ns: int
    event_id: str


@dataclass(slots=True)
class PlainCall:
    tool: str
    start: Kept | None = None
    end: Kept | None = None
    pairing: str = "open"
    call_id: str | None = None

    @property
    def when(self) -> tuple[int, tuple[int, int]]:
        first = self.start or self.end
        assert first is not None
        made = self.end if self.pairing == "exact" and self.joined else first
        assert made is not None
        return first.time_ns, made.order

    joined: bool = False
    """Whether the end was there first, in the order of times."""


@dataclass(slots=True)
class Plain:
    """Every attempt's events, in the order they were kept."""

    attempts: dict[str, list[Kept]] = field(default_factory=dict[str, list[Kept]])
    seqs: dict[str, int] = field(default_factory=dict[str, int])

    def log(self, event: NewEvent, now_ns: int, stream: str, event_id: str) -> Kept | None:
        """Keep an event; the one it repeats, when it is not new."""
        mine = self.attempts.setdefault(event.attempt_id, [])
        self.seqs.setdefault(stream, 0)
        known = self._repeated(mine, event, now_ns)
        if known is not None:
            return known
        self.seqs[stream] += 1
        order = (list(self.seqs).index(stream), self.seqs[stream])
        time_ns = now_ns if event.timestamp_ns is None else event.timestamp_ns
        mine.append(Kept((stream, self.seqs[stream]), order, event, time_ns, event_id))
        return None

    def _repeated(self, mine: list[Kept], event: NewEvent, now_ns: int) -> Kept | None:
        if event.event_id is not None:
            return next((kept for kept in mine if kept.event_id == event.event_id), None)
        same = [kept for kept in mine if _says_the_same(kept.event, event)]
        if event.timestamp_ns is not None:
            same = [kept for kept in same if kept.time_ns == event.timestamp_ns]
            return min(same, key=lambda kept: kept.order, default=None)
        newest = max((kept.order for kept in mine), default=None)
        close = [k for k in same if k.order == newest and abs(k.time_ns - now_ns) <= 5 * SECOND]
        return close[0] if close else None

    def view(self, name: str) -> dict[str, Any]:
        """What is to be said of an attempt."""
        mine = sorted(self.attempts[name], key=lambda kept: (kept.time_ns, kept.order))
        calls = _pairs(mine)
        project = _project(self.attempts[name])
        failing = _failing(calls)
        said = text.Said(
            queries=_texts(mine, "query"),
            messages=[kept.event.payload["message"] for kept in mine if kept.event.kind == "checkpoint"],
            failing=failing,
            answer=_answer(mine),
        )
        own = _texts(mine, "summary")
        return {
            "project": project,
            "started": mine[0].time_ns,
            "last": mine[-1].time_ns,
            "events": [(kept.place, kept.event_id, kept.event.kind, kept.time_ns) for kept in mine],
            "calls": [_call(call) for call in sorted(calls, key=lambda call: call.when)],
            "files": _files(mine, project),
            "outcome": next((k.event.outcome for k in reversed(mine) if k.event.outcome), None),
            "failed": tuple(failing),
            "summary": (own[-1], "client") if own else (text.summarise(said), "extractive:1"),
        }


def shown(view: AttemptView) -> dict[str, Any]:
    """The same of the real view."""
    verdict = view.brief.verdict
    return {
        "project": view.brief.project,
        "started": view.brief.started_ns,
        "last": view.brief.last_ns,
        "events": [(_place(e.ref), e.event_id, e.kind, e.time_ns) for e in view.events],
        "calls": [
            (
                c.tool,
                c.arguments,
                c.status,
                c.pairing,
                c.call_id,
                c.duration_us,
                _at(c.start_ref),
                _at(c.end_ref),
            )
            for c in view.tool_calls
        ],
        "files": {(file.path, file.roles, file.events) for file in view.files},
        "outcome": verdict.outcome if verdict.source == "given" else None,
        "failed": view.brief.failed_tools,
        "summary": (view.brief.summary, view.brief.summary_source),
    }


def _place(ref: str) -> tuple[str, int]:
    stream, _, seq = ref.removeprefix("tracedesk://codegraph/").partition("/")
    return stream, int(seq)


def _at(ref: str | None) -> tuple[str, int] | None:
    return None if ref is None else _place(ref)


def _says_the_same(one: NewEvent, other: NewEvent) -> bool:
    return (one.kind, one.call_id, one.payload) == (other.kind, other.call_id, other.payload)


def _project(mine: list[Kept]) -> str:
    told = [kept for kept in mine if kept.event.project]
    return min(told, key=lambda kept: kept.order).event.project or "" if told else "default"


def _texts(mine: list[Kept], key: str) -> list[str]:
    return [kept.event.payload[key] for kept in mine if kept.event.payload.get(key)]


def _answer(mine: list[Kept]) -> str | None:
    answers = [kept.event.payload["content"] for kept in mine if kept.event.kind == "answer_rendered"]
    said = [sentence for answer in answers if (sentence := text.first_sentence(answer))]
    return said[-1] if said else None


def _files(mine: list[Kept], project: str) -> set[tuple[str, tuple[str, ...], int]]:
    roles: dict[str, list[str]] = {}
    for kept in mine:
        once: dict[str, str] = {}
        for path, role in named(kept.event.kind, kept.event.payload):
            plain = normalised(path, project)
            if plain is not None and once.get(plain) != "changed":
                once[plain] = role
        for path, role in once.items():
            roles.setdefault(path, []).append(role)
    return {(path, tuple(sorted(set(found))), len(found)) for path, found in roles.items()}


# --- pairing, one event after the other --------------------------------------------------------


def _pairs(mine: list[Kept]) -> list[PlainCall]:
    calls: list[PlainCall] = []
    for kept in mine:
        if kept.event.kind == "tool_start":
            _begin(calls, kept)
        elif kept.event.kind == "tool_end":
            _end(calls, kept)
    return calls


def _begin(calls: list[PlainCall], kept: Kept) -> None:
    tool, call_id = kept.event.payload["tool"], kept.event.call_id
    for call in calls:
        waits = call.tool == tool and call.start is None
        if waits and call_id is not None and call.call_id == call_id:
            call.start, call.pairing, call.joined = kept, "exact", True
            return
    calls.append(PlainCall(tool, start=kept, call_id=call_id))


def _end(calls: list[PlainCall], kept: Kept) -> None:
    tool, call_id = kept.event.payload["tool"], kept.event.call_id
    candidates = [call for call in calls if call.tool == tool and call.end is None]
    exact = [call for call in candidates if call_id is not None and call.call_id == call_id]
    others = [call for call in candidates if call_id is None or call.call_id is None]
    chosen = (exact or others)[-1:]
    if not chosen:
        calls.append(PlainCall(tool, end=kept, pairing="orphan", call_id=call_id))
    for call in chosen:
        call.end, call.pairing = kept, "exact" if exact else "inferred"
        call.call_id = call.call_id or call_id


def _call(call: PlainCall) -> tuple[Any, ...]:
    end: Mapping[str, Any] = call.end.event.payload if call.end else {}
    told = end.get("duration_ms")
    duration = None if told is None else told * 1000
    if duration is None and call.start and call.end and not call.joined:
        duration = (call.end.time_ns - call.start.time_ns) // 1000
    return (
        call.tool,
        call.start.event.payload["arguments"] if call.start else None,
        end.get("status"),
        call.pairing,
        call.call_id,
        duration,
        call.start.place if call.start else None,
        call.end.place if call.end else None,
    )


def _failing(calls: list[PlainCall]) -> list[str]:
    first: dict[str, int] = {}
    for call in calls:
        if call.end is not None and call.end.event.payload["status"] in ("error", "timeout"):
            first[call.tool] = min(first.get(call.tool, call.end.time_ns), call.end.time_ns)
    return sorted(first, key=lambda tool: (first[tool], tool))
