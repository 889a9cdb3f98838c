"""Previewing and placing orders: what is judged, what is bound, what is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.exchange.orders.desks import LIMIT, MARKET, trader
from tests.support import run
from tracedesk.calls.log import find
from tracedesk.errors import ToolError
from tracedesk.exchange.orders.previews import client_order_id
from tracedesk.journal import Reader
from tracedesk.journal.sqlite import connect


def test_a_placed_order_is_answered_with_its_mode_its_state_and_where_it_is_written_down(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            shown = await it.preview()
            placed = await it.place(token=shown["preview_token"])
            assert placed["mode"] == "sim"
            assert placed["status"] == "NEW"
            assert placed["client_order_id"] == shown["client_order_id"]
            assert placed["price"] == "49900.00"
            assert placed["executed_quantity"] == "0"
            assert placed["ref"].startswith("tracedesk://exchange/orders-2026-11/")
            assert it.kinds() == ["intent", "outcome"]
            assert it.venue.taken == {shown["client_order_id"]: 1}
            it.assert_sound()

    run(main())


def test_a_filled_order_tells_its_average_price_and_fills(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place(MARKET)
            assert placed["status"] == "FILLED"
            assert placed["average_price"] == "50000"
            assert placed["quote_quantity"] == "500"
            assert placed["fills"][0]["quantity"] == "0.01000000"

    run(main())


def test_a_preview_shows_cost_slippage_fees_and_what_would_be_held(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.market.asks = [("50001", "1"), ("50010", "5")]
            shown = await it.preview(MARKET, quantity="2")
            assert shown["mode"] == "sim"
            assert shown["notional"] == "100011"
            assert shown["average_price"] == "50005.5"
            assert str(shown["slippage_bps"]) == "1.1"
            assert shown["fees"] == {
                "asset": "BTC",
                "amount": "0.004",
                "taker_rate": "0.002",
                "maker_rate": "0.001",
            }
            assert shown["exposure"]["BTC"] == {"now": "100", "after": "102"}
            assert shown["exposure"]["USDT"] == {"now": "1000000", "after": "899989"}
            assert "PRICE_FILTER" in shown["filters_passed"]
            assert shown["expires_at"] == "2026-11-16T09:00:30Z"
            assert shown["venue_tested"] is False

    run(main())


def test_outside_sim_the_venue_itself_tests_the_order_at_the_preview(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, mode="testnet") as it:
            assert (await it.preview())["venue_tested"] is True
            assert it.venue.tested == 1
            assert not it.venue.taken

    run(main())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quantity", "0.02"),
        ("price", "49901"),
        ("side", "SELL"),
        ("time_in_force", "IOC"),
    ],
)
def test_any_difference_from_the_preview_is_named_and_nothing_is_sent(
    tmp_path: Path, field: str, value: str
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview())["preview_token"]
            with pytest.raises(ToolError) as refused:
                await it.place(LIMIT | {field: value}, token=token)
            assert refused.value.code == "PREVIEW_INVALID"
            assert refused.value.details == {"reason": "differs", "field": field}
            assert field in refused.value.message
            assert not it.venue.posted

    run(main())


def test_the_same_order_written_otherwise_is_the_same_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview())["preview_token"]
            wanted = {
                **LIMIT,
                "quantity": "0.0100",
                "price": "49900.00",
                "time_in_force": "GTC",
                "side": "buy",
            }
            assert (await it.place(wanted, token=token))["status"] == "NEW"

    run(main())


def test_a_preview_is_placed_within_thirty_seconds_or_not_at_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            early = (await it.preview())["preview_token"]
            it.clock.advance(30)
            assert (await it.place(token=early))["status"] == "NEW"
            late = (await it.preview())["preview_token"]
            it.clock.advance(30.001)
            refused = await it.refusal(token=late)
            assert (refused.code, refused.details) == ("PREVIEW_INVALID", {"reason": "expired"})
            assert sum(it.venue.posted.values()) == 1

    run(main())


def test_a_foreign_or_invented_token_is_refused_alike(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview())["preview_token"]
            foreign = await it.as_scope("session:other").refusal(token=token)
            invented = await it.refusal(token="pv_nonsense")
            assert foreign.message == invented.message
            assert foreign.code == "PREVIEW_INVALID"
            assert (await it.place(token=token))["status"] == "NEW"

    run(main())


def test_a_token_is_used_once_and_then_tells_what_it_became(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview())["preview_token"]
            placed = await it.place(token=token)
            again = await it.refusal(token=token)
            assert again.code == "PREVIEW_INVALID"
            assert again.details is not None
            assert again.details["reason"] == "used"
            assert again.details["client_order_id"] == placed["client_order_id"]
            assert it.venue.posted == {placed["client_order_id"]: 1}

    run(main())


def test_a_used_token_is_known_after_a_restart_even_when_its_order_is_long_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]
            await it.place(MARKET, token=token)
            venue, clock = it.venue, it.clock
        clock.advance(40 * 86_400)
        async with trader(tmp_path, venue=venue, clock=clock) as it:
            again = await it.refusal(MARKET, token=token)
            assert again.details is not None
            assert again.details["reason"] == "used"
            assert again.details["status"] == "FILLED"
            assert sum(venue.posted.values()) == 1

    run(main())


def test_ids_come_from_caller_and_token_alone() -> None:
    assert client_order_id("stdio:1", "pv_a") == client_order_id("stdio:1", "pv_a")
    assert client_order_id("stdio:1", "pv_a") != client_order_id("stdio:2", "pv_a")
    assert client_order_id("stdio:1", "pv_a") != client_order_id("stdio:1", "pv_b")
    assert len(client_order_id("stdio:1", "pv_a")) <= 36


def test_the_record_of_the_call_is_on_the_disk_with_the_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview())["preview_token"]
            call = it.call(arguments=LIMIT)
            placed = await it.desk.place(it.party, LIMIT, token, call)
            assert call.recorded
            assert call.record.stored
            with Reader(tmp_path / "trace.db") as reader:
                recorded = find(reader, call.id)
            assert recorded is not None
            assert recorded.body["outcome"] == "ok"
            assert placed["client_order_id"] in recorded.body["result"]["text"]

    run(main())


def test_a_reference_leads_from_the_outcome_to_intent_call_and_preview(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            call = it.call("preview_order")
            shown = await it.desk.preview(it.party, LIMIT, call)
            placed = await it.place(token=shown["preview_token"])
            outcome = await it.desk.resolve(placed["ref"])
            assert outcome is not None
            edges = {edge.relation: edge.ref for edge in outcome.edges}
            assert edges["intent"] == placed["intent_ref"]
            assert edges["recorded_as"].startswith("tracedesk://calls/")
            intent = await it.desk.resolve(edges["intent"])
            assert intent is not None
            assert intent.kind == "order_intent"
            assert intent.body["order"]["price"] == "49900.00"
            assert {edge.relation: edge.ref for edge in intent.edges} == {
                "call": edges["recorded_as"],
                "preview": f"tracedesk://calls/{call.id}",
            }
            for wrong in (
                "tracedesk://exchange/orders-2026-11/99",
                "tracedesk://exchange/nothing/1",
                "nonsense",
            ):
                assert await it.desk.resolve(wrong) is None

    run(main())


def test_an_order_is_not_judged_on_a_book_that_is_old_empty_or_out_of_step(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            for change in ({"synced": False}, {"age_ms": 10_001}, {"asks": list[Any]()}):
                kept = {name: getattr(it.market, name) for name in change}
                for name, value in change.items():
                    setattr(it.market, name, value)
                assert (await it.refusal()).code == "VENUE_UNAVAILABLE"
                for name, value in kept.items():
                    setattr(it.market, name, value)
            assert (await it.place())["status"] == "NEW"

    run(main())


def test_what_the_account_cannot_pay_is_refused_with_the_shortfall(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.balances["USDT"] = ("100.00000000", "0.00000000")
            refused = await it.refusal()
            assert refused.code == "INSUFFICIENT_BALANCE"
            assert refused.details == {
                "asset": "USDT",
                "required": "499",
                "available": "100",
                "shortfall": "399",
            }

    run(main())


def test_a_market_that_moved_since_the_preview_is_judged_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"collar_bps": 100}) as it:
            token = (await it.preview())["preview_token"]
            it.market.bids, it.market.asks = [("60000", "1")], [("60001", "1")]
            refused = await it.refusal(token=token)
            assert (refused.code, (refused.details or {})["cap"]) == ("LIMIT_EXCEEDED", "collar_bps")
            assert not it.venue.posted

    run(main())


def test_a_key_that_may_withdraw_is_warned_of(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            assert "warning" not in await it.preview()
            it.venue.can_withdraw = True
            assert "withdraw" in (await it.preview())["warning"]

    run(main())


def test_an_order_that_could_not_be_written_down_is_not_sent_and_can_be_placed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.journal.sqlite.BUSY_SECONDS", 0.05)

    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview())["preview_token"]
            holder = connect(it.home / "trace.db")
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(ToolError, match="Nothing was sent") as refused:
                await it.place(token=token)
            assert refused.value.code == "DATABASE_ERROR"
            assert it.venue.taken == {}
            holder.execute("ROLLBACK")
            holder.close()
            assert (await it.place(token=token))["status"] == "NEW"

    run(main())
