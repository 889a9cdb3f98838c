"""Which orders are open after they were amended, by whatever way an engine tells that."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.desks import T0, agent, record
from tests.support import run
from tracedesk.backtest.adapters.guard import Guard
from tracedesk.backtest.adapters.nautilus import _Teller  # pyright: ignore[reportPrivateUsage]
from tracedesk.backtest.adapters.tape import Fill, Tape, Ticket
from tracedesk.backtest.recorder import Recorder
from tracedesk.primitives.time import format as iso


def open_at(home: Path, id: str, *times: int) -> list[list[tuple[Any, Any]]]:
    """Quantity and price of each open order at each time."""
    found: list[list[tuple[Any, Any]]] = []

    async def main() -> None:
        async with agent(home) as desk:
            for ns in times:
                state = (await desk.call("get_state_snapshot", runId=id, timestamp=iso(ns)))["state"]
                found.append([(order["quantity"], order["price"]) for order in state["activeOrders"]])

    run(main())
    return found


@pytest.mark.parametrize(
    ("after", "left"), [(5, [5]), (Decimal("2.5"), [Decimal("2.5")]), (None, [10]), ("many", [10]), (0, [])]
)
def test_a_change_of_an_orders_quantity_is_what_it_asks_for_from_then_on(
    tmp_path: Path, after: Any, left: list[Any]
) -> None:
    with record(tmp_path) as rec:
        tape = Tape(rec)
        tape.placed(T0, Ticket("o", "A", "Sell", 10, "StopLoss"))
        tape.order_changed(T0 + 1, "o", 10, after, "Its trade was reduced")
    assert [[quantity for quantity, _ in orders] for orders in open_at(tmp_path, rec.run_id, T0, T0 + 1)] == [
        [10],
        left,
    ]


def test_a_change_of_quantity_counts_what_was_filled_before_it(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        tape = Tape(rec)
        tape.placed(T0, Ticket("o", "A", "Buy", 10, "Limit", 7))
        tape.executed(T0 + 1, "o", Fill(4, "Buy", 7))
        tape.order_changed(T0 + 2, "o", 10, 6, "Reduced")
        tape.executed(T0 + 3, "o", Fill(2, "Buy", 7))
    assert open_at(tmp_path, rec.run_id, T0 + 2, T0 + 3) == [[(2, 7)], []]


def initialized(**more: Any) -> dict[str, Any]:
    """The engine's own account of a new order."""
    return {
        "type": "OrderInitialized",
        "instrument_id": "X.SIM",
        "order_side": "BUY",
        "quantity": "10",
        "order_type": "LIMIT",
        "options": {"price": "5.00", "trigger_price": None},
        "parent_order_id": None,
        "tags": None,
        "time_in_force": "GTC",
        "strategy_id": "S-1",
        **more,
    }


def told(rec: Recorder, *events: tuple[str, dict[str, Any]]) -> None:
    teller = _Teller(None, Guard(rec))
    for number, (name, event) in enumerate(events):
        getattr(teller, f"_{name}")(T0 + number, "N1", event)


def test_a_nautilus_order_that_was_updated_has_its_new_terms_until_it_is_filled(tmp_path: Path) -> None:
    filled = {
        "commission": None,
        "liquidity_side": "MAKER",
        "position_id": None,
        "order_side": "BUY",
        "last_qty": "5",
        "last_px": "4.50",
        "instrument_id": "X.SIM",
    }
    with record(tmp_path) as rec:
        updated = {"price": "4.50", "trigger_price": None, "quantity": "5"}
        told(rec, ("OrderInitialized", initialized()), ("OrderUpdated", updated), ("OrderFilled", filled))
    assert open_at(tmp_path, rec.run_id, T0, T0 + 1, T0 + 2) == [[(10, 5)], [(5, Decimal("4.5"))], []]


def test_what_a_nautilus_update_leaves_out_is_as_it_was(tmp_path: Path) -> None:
    options = {"price": "5.00", "trigger_price": "5.50"}
    with record(tmp_path) as rec:
        updated = {"price": None, "trigger_price": None, "quantity": "7"}
        told(rec, ("OrderInitialized", initialized(options=options)), ("OrderUpdated", updated))

    async def main() -> None:
        async with agent(tmp_path) as desk:
            arguments = {"entityType": "OrderId", "entityValue": "N1"}
            first, second = (await desk.call("get_events_by_entity", runId=rec.run_id, **arguments))["events"]
            assert second["parentEventId"] == first["eventId"]
            changed = {"Quantity": 7, "ChangeReason": "Updated"}
            assert second["properties"] == {**first["properties"], **changed}

    run(main())
