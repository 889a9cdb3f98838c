"""Why an event happened: what is left out is counted and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.backtest.desks import T0, agent, record
from tests.support import run


def explained(home: Path, id: str, seq: int) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def main() -> None:
        async with agent(home) as desk:
            found.update(await desk.call("explain_event", runId=id, eventId=str(seq)))

    run(main())
    return found


def test_every_effect_is_counted_though_not_all_are_told(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        root = rec.market_data(T0, "A", {"Close": 1})
        for number in range(400):
            rec.indicator(T0 + number, "sma", number, parent=root)
    found = explained(tmp_path, rec.run_id, root)
    assert "It led to 400 events, first #2 " in found["summary"]
    assert len(found["effects"]) == 50
    assert (found["metadata"]["effectCount"], found["metadata"]["truncated"]) == (400, True)


def test_fifty_effects_that_are_all_told_are_not_cut(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        root = rec.market_data(T0, "A", {"Close": 1})
        for number in range(50):
            rec.indicator(T0 + number, "sma", number, parent=root)
    found = explained(tmp_path, rec.run_id, root)
    assert "It led to 50 events" in found["summary"]
    assert found["metadata"]["truncated"] is False


def test_a_chain_that_is_longer_than_is_followed_goes_back_at_least_to_where_it_was_left(
    tmp_path: Path,
) -> None:
    with record(tmp_path) as rec:
        last: int | None = None
        for number in range(80):
            last = rec.state_change(T0 + number, "x", after=number, parent=last)
    found = explained(tmp_path, rec.run_id, 80)
    assert "which goes back at least to #31 " in found["summary"]
    assert found["metadata"]["truncated"] is True
    whole = explained(tmp_path, rec.run_id, 50)
    assert "which goes back to #1 " in whole["summary"]
    assert whole["metadata"]["truncated"] is False


def test_the_life_of_an_order_with_very_many_fills_is_counted_and_said_to_be_cut(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        placed = rec.order_placed(T0, "big", "A", "Buy", 120)
        for number in range(120):
            rec.trade(T0 + number, "big", "A", "Buy", 1, 1, parent=placed)
    found = explained(tmp_path, rec.run_id, 100)
    assert len(found["order"]) == 50
    assert (found["metadata"]["orderEventCount"], found["metadata"]["truncated"]) == (121, True)


def test_an_order_that_waits_for_a_price_is_told_with_it(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.order_placed(T0, "o", "A", "Sell", 5, StopPrice=90, LimitPrice=89)
    assert "Sell 5 A, limit 89, stop 90" in explained(tmp_path, rec.run_id, 1)["summary"]
