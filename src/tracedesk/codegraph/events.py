"""Logging an event for a call: the event and the record of the call that logs it, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from tracedesk.codegraph.desk import Atlas, as_tool_errors
from tracedesk.codegraph.etg.checks import timestamp
from tracedesk.codegraph.etg.model import Logged, NewEvent
from tracedesk.contract import Call
from tracedesk.journal import Journal
from tracedesk.primitives import json

_SMALL_CHARS: Final = 16_384
_SMALL_PARTS: Final = 100


async def log(atlas: Atlas, args: Mapping[str, Any], call: Call[Any]) -> dict[str, Any]:
    """Log one event; it is on the disk when this returns, whatever becomes of the one who waits."""
    given = args.get("timestamp")
    project = args.get("project_root")
    event = NewEvent(
        args["attempt_id"],
        args["kind"],
        args["payload"],
        None if given is None else timestamp(given),
        None if project is None else atlas.root(project),
        args.get("outcome"),
        args.get("call_id"),
        args.get("event_id"),
    )
    logged = _logged(atlas, event, call, atlas.etg.log_at_once) if _is_quick(atlas, event) else None
    if logged is None:
        logged = await atlas.logging.run(lambda: _logged(atlas, event, call, atlas.etg.log))
    return answer(logged)


def _is_quick(atlas: Atlas, event: NewEvent) -> bool:
    """Whether no event waits that came before, and this one is small.

    Then the only thing to wait for is the disk, which takes less than handing it to a thread and back
    while other processes keep the cores busy.
    """
    return atlas.logging.is_idle and _is_small(event.payload)


def _is_small(payload: object) -> bool:
    """Whether a payload has few parts and little text; decided without looking at all of a large one."""
    left, parts = _SMALL_CHARS, [payload]
    for part in parts:  # which grows meanwhile
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, (dict, list)):
            items = cast("dict[str, Any] | list[Any]", part)
            if len(parts) + len(items) >= _SMALL_PARTS:
                return False
            if isinstance(items, dict):
                left -= sum(map(len, items))
                parts += items.values()
            else:
                parts += items
    return left >= 0


L = TypeVar("L", bound=Logged | None)


def _logged(atlas: Atlas, event: NewEvent, call: Call[Any], log: Callable[..., L]) -> L:
    calls, record = atlas.calls, call.record
    assert calls is not None

    def beside(journal: Journal, logged: Logged) -> None:
        calls.store(journal, record, json.dumps(answer(logged)))

    try:
        logged = log(event, by=record.ref, beside=beside)
    except Exception:
        with as_tool_errors():
            raise
    if logged is not None:
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
