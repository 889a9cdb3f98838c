"""References of the trading toolset: ledger entries, orders, and the bare ids of calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Edge, Source
from tracedesk.hooks import Requester
from tracedesk.primitives import json
from tracedesk.primitives.time import format
from tracedesk.trading.draft import order_id
from tracedesk.trading.ledger import Entry, Reading
from tracedesk.trading.units import money, price, quantity

if TYPE_CHECKING:
    from tracedesk.trading.trader import Trader

LEDGER: Final = "tracedesk://trading/ledger/"
ORDERS: Final = "tracedesk://trading/orders/"


async def resolve(ref: str, trader: Trader, requester: Requester) -> Source | None:
    """The source behind a reference.

    A bare id is one of the caller's session, else one in the ledger, else one that the caller read by on
    another desk of the home.
    """
    if ref.startswith("tracedesk://"):
        return await trader.ledger(lambda ledger: stored(ledger, ref, trader.accounts))
    for account in trader.accounts:
        told = trader.memory.find((account, requester.scope, ref))
        if told is not None:
            return await trader.desk.book.resolve(f"tracedesk://calls/{told.call}")
    found = await trader.ledger(lambda ledger: stored(ledger, ref, trader.accounts))
    if found is not None or requester.subject is None:
        return found
    return await trader.desk.book.named(read_under(ref, requester.holder, trader.accounts))


def stored(ledger: Reading, ref: str, accounts: tuple[str, ...]) -> Source | None:
    """The ledger's own source behind a reference or the bare id of a change."""
    if ref.startswith("tracedesk://"):
        return _named(ledger, ref, accounts)
    return _called(ledger, ref, accounts)


def read_under(id: str, holder: str, accounts: Iterable[str]) -> list[tuple[str, str, str]]:
    """The names under which the calls that only read are recorded, for one holder's id."""
    return [(holder, account, id) for account in accounts]


def _named(ledger: Reading, ref: str, accounts: tuple[str, ...]) -> Source | None:
    """An entry or order of an account that this desk serves, or an entry of none."""
    if ref.startswith(LEDGER):
        seq = ref.removeprefix(LEDGER)
        found = ledger.entry(int(seq)) if seq.isdecimal() and len(seq) < 16 else None
        return _entry(found) if found is not None and found.account in ("", *accounts) else None
    if ref.startswith(ORDERS):
        return _order(ledger, ref.removeprefix(ORDERS), accounts)
    return None


def _called(ledger: Reading, id: str, accounts: tuple[str, ...]) -> Source | None:
    call = ledger.call_anywhere(id, accounts)
    found = _intended(ledger, id, accounts) if call is None else ledger.entry(call.entry)
    return None if found is None else _entry(found)


def _intended(ledger: Reading, id: str, accounts: tuple[str, ...]) -> Entry | None:
    """The entry that wrote a call's orders down, while their outcome is not known."""
    seqs = (ledger.entry_of_order(order_id(account, id, 0)) for account in accounts)
    return next((ledger.entry(seq) for seq in seqs if seq is not None), None)


def _order(ledger: Reading, id: str, accounts: tuple[str, ...]) -> Source | None:
    from tracedesk.trading.reading import shown_order

    found, seq = ledger.order(id), ledger.entry_of_order(id)
    if found is None or seq is None or found[0].account not in accounts:
        return None
    placed = ledger.entry(seq)
    body = shown_order(*found, placed.clock_ns if placed else 0)
    later = [Edge("changed_by", f"{LEDGER}{entry}") for entry in ledger.entries_of_order(id) if entry != seq]
    return Source(ORDERS + id, "order", body, (Edge("placed_by", f"{LEDGER}{seq}"), *later))


def _entry(entry: Entry) -> Source:
    body: dict[str, Any] = {
        "seq": entry.seq,
        "kind": entry.kind,
        "account": entry.account,
        "at": format(entry.at_ns),
        "clock": format(entry.clock_ns),
        "hash": entry.hash.hex(),
        "facts": entry.body,
        "fills": [
            {
                "order_id": fill.order,
                "symbol": fill.symbol,
                "action": fill.side,
                "quantity": quantity(fill.quantity),
                "price": price(fill.price),
                "fees": money(fill.fees),
                "total_cost": money(fill.total_cost),
            }
            for fill in entry.fills
        ],
    }
    if entry.call is not None:
        body["call"] = {
            "tool": entry.call.tool,
            "tool_call_id": entry.call.tool_call_id,
            "params": json.loads(entry.call.params),
            "params_sha256": entry.call.params_sha256,
            "code": entry.call.code,
        }
    # What a move of the clock did to an order leads to the order, and so to who placed it and why.
    placed = {order.id for order in entry.orders}
    moved = [Edge("of_order", ORDERS + state.order) for state in entry.states if state.order not in placed]
    made_from = [Edge(edge.relation, edge.ref) for edge in entry.edges]
    return Source(f"{LEDGER}{entry.seq}", "ledger entry", body, tuple(dict.fromkeys((*made_from, *moved))))
