"""What the codegraph tools answer with: attempts, events and reports as the contracts have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tracedesk.codegraph.etg.read import AttemptView, Brief, CallView, EventView
from tracedesk.primitives import json
from tracedesk.primitives.text import sanitize_terminal, strip_invisible
from tracedesk.primitives.time import format

LONGEST_TEXT: Final = 4_000
"""Characters of one stored text that are shown; its reference leads to all of it."""
LONGEST_SUMMARY: Final = 1_200
MOST_TOOL_CALLS: Final = 50
_SKIPPED_SHARE: Final = 8
"""Of an answer that must be cut, an eighth goes to what was skipped."""


def warned(warnings: Sequence[str]) -> dict[str, Any]:
    """The warnings of an answer that seldom has any."""
    return {"warnings": list(warnings)} if warnings else {}


# --- stored text --------------------------------------------------------------------------------


def told(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text that someone else wrote, as data: visible characters only, and no more than so many."""
    plain = strip_invisible(sanitize_terminal(text))
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def told_all(value: Any) -> Any:
    """The same for every text in a document."""
    if isinstance(value, str):
        return told(value)
    if isinstance(value, Mapping):
        return {told(str(k), 200): told_all(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence):
        return [told_all(item) for item in cast("Sequence[Any]", value)]
    return value


# --- attempts -----------------------------------------------------------------------------------


def brief(found: Brief) -> dict[str, Any]:
    """An attempt in a line."""
    return {
        "attempt_id": found.attempt_id,
        "ref": found.ref,
        "started_at": format(found.started_ns),
        "ended_at": format(found.last_ns) if found.state == "closed" else None,
        "project_root": found.project,
        "graph_version": found.graph_version,
        "outcome": found.verdict.outcome,
        "outcome_confidence": found.verdict.confidence,
        "outcome_basis": found.verdict.reason,
        "summary": told(found.summary, LONGEST_SUMMARY),
        "events": found.events,
        "failed_tools": [told(tool, 200) for tool in found.failed_tools],
        "files": list(found.files),
        "source": found.source,
    }


def tool_calls(found: AttemptView) -> list[dict[str, Any]]:
    """The newest tool calls of an attempt, in order of time."""
    return [_tool_call(call) for call in found.tool_calls[-MOST_TOOL_CALLS:]]


def _tool_call(call: CallView) -> dict[str, Any]:
    return {
        "name": told(call.tool, 200),
        "status": told(call.status or "open", 200),
        "duration_ms": None if call.duration_us is None else call.duration_us / 1000,
        "inferred": call.pairing == "inferred",
        "origin": call.origin,
        "ref": call.ref,
    }


def event(found: EventView) -> dict[str, Any]:
    """One event, its payload as data."""
    shown: dict[str, Any] = {
        "event_id": found.event_id,
        "kind": found.kind,
        "timestamp": format(found.time_ns),
        "ref": found.ref,
        "source": found.source,
        "payload": told_all(found.payload),
    }
    more = {"outcome": found.outcome, "call_id": found.call_id, "payload_ref": found.payload_ref}
    return {**shown, **{name: value for name, value in more.items() if value is not None}}


# --- reports ------------------------------------------------------------------------------------


def within(body: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """An index report in at most so many bytes: whole, or its lists cut after whole rows and marked."""
    if len(json.dumps(body)) <= max_bytes:
        return {**body, "truncated": False}
    bare: dict[str, Any] = {**body, "indexed_files": [], "skipped": [], "truncated": True}
    room = max_bytes - len(json.dumps(bare))
    skipped = first_within(body["skipped"], room // _SKIPPED_SHARE)
    room -= len(json.dumps(skipped))
    return {**bare, "skipped": skipped, "indexed_files": first_within(body["indexed_files"], room)}


def first_within(rows: Sequence[Any], room: int) -> list[Any]:
    """The first rows that fit into so many bytes of JSON."""
    kept: list[Any] = []
    for row in rows:
        room -= len(json.dumps(row)) + 1
        if room < 0:
            break
        kept.append(row)
    return kept
