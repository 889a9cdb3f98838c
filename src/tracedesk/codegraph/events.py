"""Logging an event for a call: the event and the record of the call that logs it, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracedesk.codegraph.desk import Atlas, as_tool_errors
from tracedesk.codegraph.etg.checks import timestamp
from tracedesk.codegraph.etg.model import Logged, NewEvent
from tracedesk.contract import Call
from tracedesk.jobs import in_thread, whatever_happens
from tracedesk.journal import Journal
from tracedesk.primitives import json


async def log(atlas: Atlas, args: Mapping[str, Any], call: Call[Any]) -> dict[str, Any]:
    """Log one event; it is on the disk when this returns, whatever becomes of the one who waits."""
    given = args.get("timestamp")
    project = args.get("project_root")
    event = NewEvent(
        attempt_id=args["attempt_id"],
        kind=args["kind"],
        payload=args["payload"],
        timestamp_ns=None if given is None else timestamp(given),
        project=None if project is None else atlas.root(project),
        outcome=args.get("outcome"),
        call_id=args.get("call_id"),
        event_id=args.get("event_id"),
    )
    return answer(await whatever_happens(in_thread(lambda: _logged(atlas, event, call))))


def _logged(atlas: Atlas, event: NewEvent, call: Call[Any]) -> Logged:
    calls, record = atlas.calls, call.record
    assert calls is not None

    def beside(journal: Journal, logged: Logged) -> None:
        calls.store(journal, record, json.dumps(answer(logged)))

    with as_tool_errors():
        logged = atlas.etg.log(event, by=record.ref, beside=beside)
    record.stored = call.recorded = True
    return logged


def answer(logged: Logged) -> dict[str, Any]:
    """What the tool says of an event that is on the disk."""
    return {
        "event_id": logged.event_id,
        "attempt_id": logged.attempt_id,
        "ref": logged.ref,
        "duplicate": logged.duplicate,
        "warnings": list(logged.warnings),
    }
