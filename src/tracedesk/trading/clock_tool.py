"""`advance_clock`: moves of the replay clock by calls, made as `tracedesk market advance` makes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tracedesk.errors import ToolError
from tracedesk.market import ClockError, calendar
from tracedesk.primitives import json
from tracedesk.primitives.time import format
from tracedesk.trading import clockwork, replay
from tracedesk.trading.execution import absent, check_enabled, row
from tracedesk.trading.model import EdgeTo
from tracedesk.trading.provenance import LEDGER

if TYPE_CHECKING:
    from tracedesk.trading.clockwork import Advance
    from tracedesk.trading.ledger import CallRow, Ledger, Writer
    from tracedesk.trading.replay import Range, Step
    from tracedesk.trading.trader import Request, Trader

MOST_ENTRIES: Final = 100
"""Entries of a move that its answer lists."""


async def advance(trader: Trader, request: Request) -> bytes:
    """Move the clock, or refuse."""
    check_enabled(trader)
    _check_replay(trader)
    step = _step(request.args)
    within = await asyncio.to_thread(trader.replay)
    # From here on the deadline cannot say that nothing was done: the commit goes on without the call.
    request.call.sent = True
    try:
        return await trader.commit(lambda ledger: _commit(ledger, trader, request, step, within))
    except ClockError as fault:
        _refuse(_field(request.args), str(fault))
    except clockwork.NoRoom as fault:
        details = {"kind": "payloads_full", "retryable": True}
        raise ToolError("DATABASE_ERROR", f"Nothing was moved: {fault}.", details) from None


def _check_replay(trader: Trader) -> None:
    if trader.broker is not None:
        problem = "Orders go to a real broker, whose market nobody moves."
    elif trader.is_live:
        problem = "The market runs by the system's clock ([trading] clock), which nobody moves."
    else:
        return
    raise ToolError("EXECUTION_DISABLED", problem, {"retryable": False})


def _step(args: Any) -> Step:
    if ("to" in args) == ("by" in args):
        _refuse(_field(args), "give either 'to' (a time, open or close) or 'by' (a span such as 5d)")
    try:
        if "by" in args:
            return replay.by_span(args["by"])
        named = {"open": replay.to_open, "close": replay.to_close}
        return named.get(args["to"]) or replay.to_time(args["to"])
    except replay.BadStep as fault:
        _refuse(_field(args), str(fault))


def _field(args: Any) -> str:
    return "by" if "by" in args else "to"


def _refuse(field: str, problem: str) -> NoReturn:
    raise ToolError("INVALID_INPUT", f"{field}: {problem}.", {"path": [field], "retryable": False})


class _Caller:
    """The call behind a move; `body` is its answer once the move is written."""

    def __init__(self, request: Request) -> None:
        self.account = request.account
        self.body = b""
        self._request = request

    def check(self, writer: Writer) -> None:
        absent(writer, self._request)

    def row(self, done: Advance) -> CallRow:
        self.body = json.dumps({**described(done), "source_refs": self._request.source_refs})
        return row(self._request, self.body)

    def edges(self) -> list[EdgeTo]:
        return [EdgeTo("recorded_as", self._request.by)]


def _commit(ledger: Ledger, trader: Trader, request: Request, step: Step, within: Range) -> bytes:
    caller = _Caller(request)
    clockwork.advance(ledger, trader.desk.payloads, trader.settings, step, within, caller)
    return caller.body


def described(done: Advance) -> dict[str, Any]:
    """Return the move and the entries it left, as the tool answers them."""
    entries = [
        {"ref": f"{LEDGER}{seq}", "kind": each.kind, "account": each.account, "clock": format(each.clock_ns)}
        for seq, each in done.happenings
    ]
    body: dict[str, Any] = {
        "from": format(done.move.from_ns),
        "to": format(done.move.to_ns),
        "sessions_closed": len(done.move.closed),
        "open": calendar.is_open(done.move.to_ns),
        # The move itself comes last, and is always listed.
        "entries": [*entries[: MOST_ENTRIES - 1], *entries[MOST_ENTRIES - 1 :][-1:]],
    }
    return {**body, "truncated": True, "total_entries": len(entries)} if len(entries) > MOST_ENTRIES else body
