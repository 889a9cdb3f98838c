"""Moving the market's clock: what the move brings about and the move itself, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tracedesk.market import Move, ReplayClock
from tracedesk.payloads import Payloads
from tracedesk.primitives import json
from tracedesk.trading.advance import Happening, Resting, plan
from tracedesk.trading.ledger import Ledger, LedgerError, New, Writer
from tracedesk.trading.settings import Trading

SAMPLE: Final = "embedded"
"""The provider whose bars a move is judged on."""

Step = Callable[[ReplayClock], Move]
"""Moves the clock it is given, by its own rule."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A move that was made, and the entries it left."""

    move: Move
    happenings: list[tuple[int, Happening]]


def advance(ledger: Ledger, payloads: Payloads, settings: Trading, step: Step) -> Advance:
    """Move the clock by `step`; raises `ClockError` for a move that the replay does not allow."""
    with ledger.writing() as writer:
        move = step(_clock(writer))
        accounts = [writer.portfolio(account) for account in writer.accounts()]
        foreign = [(p.account, s) for p in accounts for s in p.positions if _is_foreign(ledger, p.account, s)]
        found = plan(move, accounts, _resting(writer), settings, foreign=foreign)
        return Advance(move, [(_append(writer, payloads, each), each) for each in found])


def _clock(writer: Writer) -> ReplayClock:
    at = writer.clock_ns()
    if at is None:
        raise LedgerError("this ledger has no replay clock: it was opened with the system's")
    return ReplayClock(at)


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


def _append(writer: Writer, payloads: Payloads, each: Happening) -> int:
    if each.evidence and payloads.put(each.evidence, must=True) is None:
        raise LedgerError(
            "the payload folder is full, and what a move rests on must be kept; run tracedesk prune"
        )
    return writer.append(
        New(
            each.kind,
            each.account,
            each.clock_ns,
            each.body,
            states=each.states,
            fills=each.fills,
            postings=each.postings,
            edges=each.edges,
        )
    )
