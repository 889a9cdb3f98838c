"""Moving the market's clock: what the move brings about and the move itself, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from tracedesk.market import Move, ReplayClock
from tracedesk.payloads import Payloads
from tracedesk.primitives import json
from tracedesk.trading.advance import Happening, Resting, plan
from tracedesk.trading.ledger import CallRow, Ledger, LedgerError, New, Writer
from tracedesk.trading.model import EdgeTo
from tracedesk.trading.replay import SHIPPED, Range, Step
from tracedesk.trading.settings import Trading

SAMPLE: Final = "embedded"
"""The provider whose bars a move is judged on."""


class NoRoom(LedgerError):
    """The evidence of a move cannot be kept."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A move that was made, and the entries it left."""

    move: Move
    happenings: list[tuple[int, Happening]]


class Caller(Protocol):
    """The call that moves the clock; its row is written with the move."""

    account: str

    def check(self, writer: Writer) -> None:
        """Raise when another desk has answered the call."""
        ...

    def row(self, done: Advance) -> CallRow:
        """Return the call's row, with its answer."""
        ...

    def edges(self) -> list[EdgeTo]:
        """Return the references of the move to its call."""
        ...


def advance(
    ledger: Ledger,
    payloads: Payloads,
    settings: Trading,
    step: Step,
    within: Range = SHIPPED,
    caller: Caller | None = None,
) -> Advance:
    """Move the clock by `step`; raises `ClockError` for a move that the replay does not allow."""
    with ledger.writing() as writer:
        if caller is not None:
            caller.check(writer)
        move = step(_clock(writer, within))
        accounts = [writer.portfolio(account) for account in writer.accounts()]
        foreign = [(p.account, s) for p in accounts for s in p.positions if _is_foreign(ledger, p.account, s)]
        *brought, moved = plan(
            move, accounts, _resting(writer), settings, foreign=foreign, replaced=within.replaced
        )
        entries = [(_append(writer, payloads, _new(each), each.evidence), each) for each in brought]
        done = Advance(move, [*entries, (writer.head()[0] + 1, moved)])
        writer.append(_new(moved) if caller is None else _called(_new(moved), caller, done))
        return done


def _clock(writer: Writer, within: Range) -> ReplayClock:
    at = writer.clock_ns()
    if at is None:
        raise LedgerError("this ledger has no replay clock: it was opened with the system's")
    return within.clock(at)


def _called(new: New, caller: Caller, done: Advance) -> New:
    return replace(new, account=caller.account, call=caller.row(done), edges=[*new.edges, *caller.edges()])


def _resting(writer: Writer) -> list[Resting]:
    found: list[Resting] = []
    for order, state in writer.open_orders():
        if state.status == "open":
            placed = writer.entry(writer.entry_of_order(order.id) or 0)
            found.append(Resting(order, state.filled, placed.clock_ns if placed else 0))
    return found


def _is_foreign(ledger: Ledger, account: str, symbol: str) -> bool:
    """Whether the last fill of a holding was priced by another provider than the replay's own."""
    query = (
        "SELECT body FROM fill JOIN trade_order o ON o.id = order_id JOIN entry ON seq = o.entry "
        "WHERE o.account = ? AND fill.symbol = ? ORDER BY fill.entry DESC, fill.line DESC LIMIT 1"
    )
    for (body,) in ledger.connection.execute(query, (account, symbol)):
        return json.loads(body).get("providers", {}).get(symbol, SAMPLE) != SAMPLE
    return False


def _append(writer: Writer, payloads: Payloads, new: New, evidence: bytes) -> int:
    if evidence and payloads.put(evidence, must=True) is None:
        raise NoRoom("the payload folder is full, and what a move rests on must be kept; run tracedesk prune")
    return writer.append(new)


def _new(each: Happening) -> New:
    return New(
        each.kind,
        each.account,
        each.clock_ns,
        each.body,
        states=each.states,
        fills=each.fills,
        postings=each.postings,
        edges=each.edges,
    )
