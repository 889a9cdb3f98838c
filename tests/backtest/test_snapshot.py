"""The state at a time, against a plain replay of everything up to it."""

from __future__ import annotations

import random
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backtest.desks import MINUTE, T0, agent, record, story
from tests.support import run
from tracedesk.backtest import snapshot
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.page import Ask
from tracedesk.backtest.schema import CHECKPOINT
from tracedesk.home import Home
from tracedesk.primitives import json
from tracedesk.primitives.time import format


def ask(home: Path, id: str, ns: int, **more: Any) -> Any:
    """The answer of the tool's own function, without the wire."""
    args = {"runId": id, "timestamp": format(ns), "includeIndicators": True, "includeActiveOrders": True}

    async def main() -> Any:
        shelf = Shelf(Home.open(home))
        try:
            question = Ask("get_state_snapshot", {**args, **more}, 8_000, 1 << 20)
            return await shelf.read(id, lambda recording: snapshot.answer(recording, question))
        finally:
            await shelf.close()

    return json.loads(json.dumps(run(main())))


def test_the_state_at_a_time_includes_what_happened_at_it(tmp_path: Path) -> None:
    id = story(tmp_path)
    before = ask(tmp_path, id, T0 + MINUTE - 1)["state"]
    assert before["positions"] == []
    assert before["activeOrders"][0]["quantity"] == 100
    assert before["pnl"] == {"total": 0, "realized": 0, "unrealized": 0}
    state = ask(tmp_path, id, T0 + MINUTE)["state"]
    assert state["positions"] == [
        {
            "securitySymbol": "AAPL",
            "quantity": 60,
            "averagePrice": Decimal("175.50"),
            "unrealizedPnL": Decimal("250.00"),
            "realizedPnL": Decimal("500.00"),
        }
    ]
    assert state["pnl"]["total"] == Decimal("750.00")
    (order,) = state["activeOrders"]
    assert (order["engineOrderId"], order["quantity"], order["direction"]) == ("ord-1", 40, "Buy")


def test_indicators_of_one_name_are_kept_apart_by_their_parameters(tmp_path: Path) -> None:
    id = story(tmp_path)
    values = {
        one["parameters"]["Period"]: one["value"] for one in ask(tmp_path, id, T0)["state"]["indicators"]
    }
    assert values == {10: Decimal("176.20"), 20: Decimal("174.80")}
    assert ask(tmp_path, id, T0, includeIndicators=False)["state"]["indicators"] == []


def test_only_the_asked_security_is_in_the_state(tmp_path: Path) -> None:
    id = story(tmp_path)
    state = ask(tmp_path, id, T0 + 2 * MINUTE, securitySymbol="msft")["state"]
    assert [order["engineOrderId"] for order in state["activeOrders"]] == ["ord-2"]
    assert state["positions"] == state["indicators"] == []
    nothing = ask(tmp_path, id, T0 + 2 * MINUTE, securitySymbol="' OR 1=1 --")
    assert nothing["state"]["activeOrders"] == nothing["state"]["positions"] == []
    everything = ask(tmp_path, id, T0 + 2 * MINUTE, securitySymbol="")["state"]
    assert len(everything["activeOrders"]) == 2
    assert ask(tmp_path, id, T0 + 2 * MINUTE, includeActiveOrders=False)["state"]["activeOrders"] == []


def test_a_time_outside_the_run_is_answered_with_a_note(tmp_path: Path) -> None:
    id = story(tmp_path)
    early = ask(tmp_path, id, T0 - MINUTE)
    assert early["state"]["positions"] == []
    assert "begins later" in early["metadata"]["warnings"][0]
    late = ask(tmp_path, id, T0 + 10**6 * MINUTE)
    assert "final state" in late["metadata"]["warnings"][0]
    assert len(late["state"]["positions"]) == 2


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (Decimal("12.50"), {"total": Decimal("12.50"), "realized": None, "unrealized": None}),
        ({"Realized": 1, "Unrealized": Decimal("0.5")}, {"total": Decimal("1.5"), "realized": 1}),
        ({"TotalPnL": 7}, {"total": 7, "realized": None}),
    ],
)
def test_a_later_state_change_of_the_profit_is_believed_over_the_positions(
    tmp_path: Path, after: Any, told: dict[str, Any]
) -> None:
    with record(tmp_path) as rec:
        rec.position(T0, "A", 1, 10, unrealized=1, realized=2)
        rec.state_change(T0, "PnL", after=after)
        rec.position(T0 + 1, "A", 1, 10, unrealized=3, realized=4)
    found = ask(tmp_path, rec.run_id, T0)
    assert {name: found["state"]["pnl"][name] for name in told} == told
    assert found["metadata"]["pnlSource"] == "stateChange"
    later = ask(tmp_path, rec.run_id, T0 + 1)
    assert later["state"]["pnl"]["total"] == 7
    assert later["metadata"]["pnlSource"] == "positions"


def test_profit_that_nobody_tells_is_unknown_and_not_zero(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.position(T0, "A", 1)
    found = ask(tmp_path, rec.run_id, T0)
    assert found["state"]["pnl"] == {"total": None, "realized": None, "unrealized": None}


def test_an_order_id_that_is_a_guid_stays_and_another_gets_one_that_finds_the_order(tmp_path: Path) -> None:
    async def main() -> None:
        guid = "99999999-8888-7777-6666-555555555555"
        with record(tmp_path) as rec:
            rec.order_placed(T0, guid, "A", "Sell", 1, price=2)
            rec.order_placed(T0, 17, "A", "hold", 3)
        async with agent(tmp_path) as desk:
            state = (await desk.call("get_state_snapshot", runId=rec.run_id, timestamp="2025-01-02"))["state"]
            first, second = state["activeOrders"]
            assert (first["orderId"], first["direction"], first["price"]) == (guid, "Sell", 2)
            assert (second["engineOrderId"], second["price"]) == ("17", None)
            assert "direction" not in second
            found = await desk.call(
                "get_events_by_entity", runId=rec.run_id, entityType="OrderId", entityValue=second["orderId"]
            )
            assert [event["properties"]["OrderId"] for event in found["events"]] == [17]

    run(main())


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["place", "fill", "cancel", "reject", "position"]),
        st.integers(0, 5),
        st.integers(1, 4),
        st.integers(0, 9),
    ),
    max_size=40,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=EVENTS, late=st.booleans(), filler=st.sampled_from([0, 4_100]), at=st.integers(-1, 11))
def test_open_orders_and_positions_equal_a_replay_of_all_events_up_to_the_time(
    events: list[tuple[str, int, int, int]], late: bool, filler: int, at: int
) -> None:
    """`late` records times that step back; the filler of ended orders makes checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        times = [time for *_, time in events] if late else sorted(time for *_, time in events)
        stream: list[tuple[int, int, str, int, int]] = []
        with record(home) as rec:
            for number in range(filler // 2):
                rec.order_placed(T0, f"f{number}", "A", "Buy", 1)
                rec.trade(T0, f"f{number}", "A", "Buy", 1, 1)
            for (kind, order, size, _), time in zip(events, times, strict=True):
                seq = _emit(rec, kind, order, size, T0 + time)
                stream.append((time, seq, kind, order, size))
        state = ask(home, rec.run_id, T0 + at)["state"]
        orders, positions = _replayed(sorted(event for event in stream if event[0] <= at))
        assert {o["engineOrderId"]: o["quantity"] for o in state["activeOrders"]} == orders
        assert {p["securitySymbol"]: p["quantity"] for p in state["positions"]} == positions


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 32), steps_back=st.sampled_from([0.0, 0.0, 0.01, 0.2]))
def test_open_orders_between_many_checkpoints_equal_a_replay(seed: int, steps_back: float) -> None:
    dice = random.Random(seed)
    kinds = ("place", "place", "fill", "fill", "cancel", "reject", "position")
    now = 0
    stream: list[tuple[int, int, str, int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with record(home) as rec:
            for _ in range(10 * CHECKPOINT):
                now += dice.choice((0, 0, 1, 2))
                time = now - dice.randrange(20) if dice.random() < steps_back else now
                kind, order, size = dice.choice(kinds), dice.randrange(30), dice.randrange(1, 5)
                stream.append((time, _emit(rec, kind, order, size, T0 + time), kind, order, size))
        for at in (0, *(dice.randrange(now + 1) for _ in range(4)), now):
            state = ask(home, rec.run_id, T0 + at)["state"]
            orders, positions = _replayed(sorted(event for event in stream if event[0] <= at))
            assert {o["engineOrderId"]: o["quantity"] for o in state["activeOrders"]} == orders
            assert {p["securitySymbol"]: p["quantity"] for p in state["positions"]} == positions


def _emit(rec: Any, kind: str, order: int, size: int, ns: int) -> int:
    match kind:
        case "place":
            return rec.order_placed(ns, f"o{order}", "A", "Buy", size)
        case "fill":
            return rec.trade(ns, f"o{order}", "A", "Buy", size, 1, Note={"Quantity": 99})
        case "cancel":
            return rec.order_cancelled(ns, f"o{order}")
        case "reject":
            return rec.order_rejected(ns, f"o{order}", "no")
        case _:
            return rec.position(ns, f"S{order}", size)


def _replayed(events: list[tuple[int, int, str, int, int]]) -> tuple[dict[str, int], dict[str, int]]:
    asked: dict[str, int] = {}
    filled: dict[str, int] = {}
    positions: dict[str, int] = {}
    for _, _, kind, order, size in events:
        name = f"o{order}"
        if kind == "position":
            positions[f"S{order}"] = size
        elif kind == "place":
            asked[name] = size
            if name in filled and filled[name] >= size:
                del asked[name], filled[name]
        elif name in asked and kind == "fill":
            filled[name] = filled.get(name, 0) + size
            if filled[name] >= asked[name]:
                del asked[name], filled[name]
        elif kind in ("cancel", "reject"):
            asked.pop(name, None)
            filled.pop(name, None)
    return {name: size - filled.get(name, 0) for name, size in asked.items()}, positions


def test_a_delta_tells_what_changed_after_the_first_time_up_to_the_second(tmp_path: Path) -> None:
    async def main() -> None:
        id = story(tmp_path)
        async with agent(tmp_path) as desk:
            found = await desk.call(
                "state_delta", runId=id, startTime=format(T0), endTime=format(T0 + 2 * MINUTE)
            )
            (position,) = found["positions"]
            assert position["quantity"] == {"before": None, "after": 60}
            changes = {order["engineOrderId"]: order["change"] for order in found["orders"]}
            assert changes == {"ord-1": "filled in part", "ord-2": "opened"}
            assert found["indicators"] == []
            assert found["pnl"]["change"]["total"] == Decimal("750.00")
            assert found["metadata"]["events"] == {
                "TradeExecution": 1,
                "PositionUpdate": 1,
                "OrderPlaced": 1,
            }
            ended = await desk.call(
                "state_delta", runId=id, startTime=format(T0 + 2 * MINUTE), endTime=format(T0 + 5 * MINUTE)
            )
            assert [(o["change"], o["engineOrderId"]) for o in ended["orders"]] == [("ended", "ord-2")]
            same = await desk.call("state_delta", runId=id, startTime=format(T0), endTime=format(T0))
            assert same["positions"] == same["orders"] == []
            assert same["metadata"]["events"] == {}
            one = await desk.call(
                "state_delta", runId=id, startTime="2025-01-01", endTime="2025-01-03", securitySymbol="MSFT"
            )
            assert [p["securitySymbol"] for p in one["positions"]] == ["MSFT"]
            bad = await desk.refused("state_delta", runId=id, startTime="2025-01-03", endTime="2025-01-02")
            assert bad["code"] == "INVALID_TIME_RANGE"

    run(main())


def test_a_delta_of_very_many_positions_is_cut_to_the_budget_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(2_000):
                rec.position(T0, f"SYM{number}", number)
        async with agent(tmp_path) as desk:
            arguments = {"runId": rec.run_id, "startTime": "2025-01-01", "endTime": "2025-01-03"}
            assert len(await desk.text("state_delta", **arguments)) <= 24_000
            found = await desk.call("state_delta", **arguments)
            assert found["metadata"]["truncated"] is True
            assert len(found["positions"]) + found["metadata"]["omitted"]["positions"] == 2_000

    run(main())


def test_an_event_recorded_after_a_checkpoint_but_of_an_earlier_time_is_taken_in_its_place(
    tmp_path: Path,
) -> None:
    with record(tmp_path) as rec:
        rec.order_placed(T0 + 10, "kept", "A", "Buy", 5)
        for number in range(2_100):
            rec.order_placed(T0 + 20, f"f{number}", "A", "Buy", 1)
            rec.trade(T0 + 20, f"f{number}", "A", "Buy", 1, 1)
        rec.order_cancelled(T0 + 5, "kept")  # before it was placed, so it cancels nothing
    state = ask(tmp_path, rec.run_id, T0 + 30)["state"]
    assert [order["engineOrderId"] for order in state["activeOrders"]] == ["kept"]


def test_a_cancellation_recorded_after_a_checkpoint_but_of_an_earlier_time_ends_its_order(
    tmp_path: Path,
) -> None:
    with record(tmp_path) as rec:
        rec.order_placed(T0, "ended", "A", "Buy", 5)
        for number in range(2 * CHECKPOINT):
            rec.order_placed(T0 + 20, f"f{number}", "A", "Buy", 1)
            rec.trade(T0 + 20, f"f{number}", "A", "Buy", 1, 1)
        rec.order_cancelled(T0 + 5, "ended")  # the only one of its type, whose times are thus in order
    assert ask(tmp_path, rec.run_id, T0 + 30)["state"]["activeOrders"] == []


def test_a_quantity_inside_another_property_is_not_the_orders_own(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.emit("OrderPlaced", T0, {"OrderId": "o", "Note": {"Quantity": 3}})
    (order,) = ask(tmp_path, rec.run_id, T0)["state"]["activeOrders"]
    assert order["quantity"] is None


def test_a_fill_in_an_earlier_chunk_than_the_last_ends_its_order(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.order_placed(T0, "o", "A", "Buy", 1)
        rec.trade(T0 + 1, "o", "A", "Buy", 1, 1)
        for number in range(5_000):
            rec.emit("TradeExecution", T0 + 2 + number, {"Price": 1, "Quantity": 1})
    assert ask(tmp_path, rec.run_id, T0 + 10_000)["state"]["activeOrders"] == []


def changes(home: Path, id: str, start: int, end: int) -> Any:
    """What changed between two times."""

    async def main() -> Any:
        async with agent(home) as desk:
            return await desk.call("state_delta", runId=id, startTime=format(start), endTime=format(end))

    return run(main())


def test_a_delta_tells_an_order_that_was_enlarged_or_repriced_as_amended(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        for name in ("larger", "dearer", "stop", "filled", "same"):
            rec.order_placed(T0, name, "A", "Buy", 2, price=10, StopPrice=9)
        rec.order_placed(T0 + MINUTE, "larger", "A", "Buy", 5, price=10, StopPrice=9)
        rec.order_placed(T0 + MINUTE, "dearer", "A", "Buy", 2, price=11, StopPrice=9)
        rec.order_placed(T0 + MINUTE, "stop", "A", "Buy", 2, price=10, StopPrice=8)
        rec.trade(T0 + MINUTE, "filled", "A", "Buy", 1, 10)
    told = {
        order["engineOrderId"]: order for order in changes(tmp_path, rec.run_id, T0, T0 + MINUTE)["orders"]
    }
    assert {name: order["change"] for name, order in told.items()} == {
        "larger": "amended",
        "dearer": "amended",
        "stop": "amended",
        "filled": "filled in part",
    }
    assert told["larger"]["terms"] == {"Quantity": {"before": 2, "after": 5}}
    assert (told["larger"]["quantity"], told["larger"]["quantityBefore"]) == (5, 2)
    assert told["dearer"]["terms"] == {"Price": {"before": 10, "after": 11}}
    assert told["stop"]["terms"] == {"StopPrice": {"before": 9, "after": 8}}
    assert (told["filled"]["quantity"], told["filled"]["quantityBefore"]) == (1, 2)


def test_a_delta_knows_an_indicator_whatever_order_its_parameters_are_in(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.indicator(T0, "m", 1, symbol="A", parameters={"a": 1, "b": {"c": 2, "d": 3}})
        rec.indicator(T0 + MINUTE, "m", 2, symbol="A", parameters={"b": {"d": 3, "c": 2}, "a": 1})
    (change,) = changes(tmp_path, rec.run_id, T0, T0 + MINUTE)["indicators"]
    assert change["value"] == {"before": 1, "after": 2}


def test_positions_of_one_symbol_with_ids_are_held_side_by_side(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.position(T0, "A", 1, 10, realized=2, unrealized=3, position_id="long")
        rec.position(T0, "A", -5, 12, realized=0, unrealized=4, position_id=7)
        for number in range(2):
            rec.position(T0 + MINUTE, "A", 1, 9, realized=0, unrealized=1, position_id=f"brief {number}")
            rec.position(T0 + MINUTE, "A", 0, 9, realized=10, unrealized=0, position_id=f"brief {number}")
    first = ask(tmp_path, rec.run_id, T0)["state"]
    assert [(p["positionId"], p["quantity"]) for p in first["positions"]] == [("long", 1), ("7", -5)]
    assert first["pnl"] == {"total": 9, "realized": 2, "unrealized": 7}
    second = ask(tmp_path, rec.run_id, T0 + MINUTE)["state"]
    assert second["positions"][:2] == first["positions"]
    (closed,) = second["positions"][2:]
    assert (closed["quantity"], closed["realizedPnL"], closed["closedPositions"]) == (0, 20, 2)
    assert second["pnl"] == {"total": 29, "realized": 22, "unrealized": 7}
    moved = changes(tmp_path, rec.run_id, T0, T0 + MINUTE)["positions"]
    assert [(p["positionId"], p["realizedPnL"]["after"]) for p in moved] == [("brief 0", 10), ("brief 1", 10)]


def test_a_symbol_with_an_update_that_names_no_position_has_a_single_one(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.position(T0, "A", 1, 10, realized=1, unrealized=1, position_id="p")
        rec.position(T0 + 1, "A", 2, 10, realized=2, unrealized=2)
        rec.position(T0 + 2, "A", 3, 10, realized=3, unrealized=3, position_id="q")
    for step, quantity in ((1, 2), (2, 3)):
        state = ask(tmp_path, rec.run_id, T0 + step)["state"]
        assert [p["quantity"] for p in state["positions"]] == [quantity]
        assert state["pnl"]["total"] == 2 * quantity


def test_the_profit_is_found_however_its_state_type_is_spelled(tmp_path: Path) -> None:
    for spelled in ("PnL", "pnl", "PNL"):
        with record(tmp_path) as rec:
            rec.state_change(T0, spelled, after={"Total": -5})
        found = ask(tmp_path, rec.run_id, T0)
        assert (found["state"]["pnl"]["total"], found["metadata"]["pnlSource"]) == (-5, "stateChange")
