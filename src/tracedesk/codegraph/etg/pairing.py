"""Tool calls made of their starts and ends: within one attempt and tool, in the order of their times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from tracedesk.codegraph.etg import body, commands
from tracedesk.codegraph.etg.body import Stored
from tracedesk.codegraph.etg.files import arguments_of
from tracedesk.codegraph.etg.model import is_own
from tracedesk.journal.sqlite import Connection

_COMMANDS: Final = ("cmd", "command", "script", "commands", "args")
_LONGEST: Final = 20_000
"""Characters of a command that are looked at."""
_OPEN: Final = (
    "SELECT event, start_ns FROM tool_call WHERE attempt = ? AND tool = ? AND finish IS NULL{also} "
    "ORDER BY start_ns DESC, event DESC LIMIT 1"
)
_ANY: Final = _OPEN.format(also="")
_SAME_ID: Final = _OPEN.format(also=" AND call_id = ?")
_WITHOUT_ID: Final = _OPEN.format(also=" AND call_id IS NULL")


def add(connection: Connection, attempt: int, event: Stored) -> bool:
    """Take a start or end in; not one that is earlier than another, for then all are to be paired anew."""
    tool: str = event.payload["tool"]
    later = "SELECT 1 FROM attempt_event WHERE attempt = ? AND tool = ? AND tool IS NOT NULL AND time_ns > ?"
    if any(connection.execute(f"{later} LIMIT 1", (attempt, tool, event.time_ns))):
        return False
    _take(connection, attempt, tool, event)
    return True


def pair_anew(connection: Connection, attempt: int, tool: str) -> None:
    """Pair all starts and ends of a tool."""
    mine = "attempt = ? AND tool = ? AND pairing != 'record'"
    connection.execute(f"DELETE FROM tool_call WHERE {mine}", (attempt, tool))
    query = (
        "SELECT e.id, e.kind, e.time_ns, e.body FROM attempt_event a JOIN event e ON e.id = a.event "
        "WHERE a.attempt = ? AND a.tool = ? AND a.tool IS NOT NULL ORDER BY a.time_ns, a.event"
    )
    for row in list(connection.execute(query, (attempt, tool))):
        _take(connection, attempt, tool, body.read(*row))


def _take(connection: Connection, attempt: int, tool: str, event: Stored) -> None:
    if event.kind == "tool_start":
        _begin(connection, attempt, tool, event)
    else:
        _end(connection, attempt, tool, event)


def _begin(connection: Connection, attempt: int, tool: str, event: Stored) -> None:
    if event.call_id is not None:
        query = (
            "SELECT event FROM tool_call WHERE attempt = ? AND tool = ? AND call_id = ? AND start IS NULL "
            "ORDER BY end_ns, event LIMIT 1"
        )
        for (waiting,) in connection.execute(query, (attempt, tool, event.call_id)):
            change = (
                "UPDATE tool_call SET start = ?, start_ns = ?, pairing = 'exact', checks = ? WHERE event = ?"
            )
            values = (event.event, event.time_ns, is_check(tool, event.payload), waiting)
            connection.execute(change, values)
            return
    row = (event.event, attempt, tool, event.call_id, event.event, None, event.time_ns)
    _insert(connection, (*row, None, None, None, None), event, "open")


def _end(connection: Connection, attempt: int, tool: str, event: Stored) -> None:
    found, pairing = _match(connection, attempt, tool, event.call_id)
    status, output = event.payload["status"], event.payload.get("output_ref")
    if found is None:
        row = (event.event, attempt, tool, event.call_id, None, event.event, None, event.time_ns)
        _insert(connection, (*row, status, _duration_us(event, None), output), event, "orphan")
        return
    call, start_ns = found
    change = (
        "UPDATE tool_call SET finish = ?, end_ns = ?, status = ?, duration_us = ?, output_ref = ?, "
        "pairing = ?, call_id = coalesce(call_id, ?), spoken = ? WHERE event = ?"
    )
    duration = _duration_us(event, start_ns)
    values = (
        event.event,
        event.time_ns,
        status,
        duration,
        output,
        pairing,
        event.call_id,
        event.spoken,
        call,
    )
    connection.execute(change, values)


def _match(
    connection: Connection, attempt: int, tool: str, call_id: str | None
) -> tuple[tuple[int, int] | None, str]:
    """The call that ends, and whether its id says so; a call of another id is never taken."""
    if call_id is None:
        return _first(connection, _ANY, (attempt, tool)), "inferred"
    exact = _first(connection, _SAME_ID, (attempt, tool, call_id))
    if exact is not None:
        return exact, "exact"
    return _first(connection, _WITHOUT_ID, (attempt, tool)), "inferred"


def _first(connection: Connection, query: str, values: tuple[Any, ...]) -> tuple[int, int] | None:
    return next(iter(connection.execute(query, values)), None)


def _insert(connection: Connection, row: tuple[Any, ...], event: Stored, pairing: str) -> None:
    tool: str = event.payload["tool"]
    origin = "self" if event.source == "self" or is_own(tool) else "client"
    values = (*row, origin, pairing, is_check(tool, event.payload), event.spoken)
    connection.execute("INSERT INTO tool_call VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", values)


def _duration_us(event: Stored, start_ns: int | None) -> int | None:
    """As it was told, else from the two times."""
    told = event.payload.get("duration_ms")
    if told is not None:
        return round(told * 1000)
    return None if start_ns is None else max(0, event.time_ns - start_ns) // 1000


def is_check(tool: str, payload: Mapping[str, Any]) -> int:
    """How a call's end says how the work stands: it tests or builds (2: its status may be another's).

    0 is for commands that may; -1 for calls that do not.
    """
    arguments = arguments_of(payload)
    told = [text for text in (_command(arguments.get(name)) for name in _COMMANDS) if text]
    if any(commands.is_check(text) for text in told):
        return 2 if any(commands.hides_status(text) for text in told) else 1
    if commands.is_check(tool.replace("_", " ")):
        return 1
    return 0 if not arguments or any(not commands.is_read(text) for text in told) else -1


def _command(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(item for item in cast("list[Any]", value) if isinstance(item, str))[:_LONGEST]
    return value[:_LONGEST] if isinstance(value, str) else ""
