"""Orders to a broker that fails, times out and lies: what a call is told, and that the books stay true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import run
from tests.trading.loopback_broker import FEES, LIES, PRICE, LoopbackBroker, Venue, venue
from tests.trading.outbox_desks import (
    AAPL,
    IBM,
    MSFT,
    WALL_NS,
    desk,
    leg,
    pending,
    text,
)
from tracedesk.primitives.time import ManualClock
from tracedesk.trading import outbox
from tracedesk.trading.broker import Report, believed
from tracedesk.trading.ledger import Entry, Ledger
from tracedesk.trading.model import Order, Trade

# --- answers that come --------------------------------------------------------------------------


def test_every_leg_is_answered_as_the_broker_says(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id, 1): "partial", leg(id, 2): "reject", leg(id, 3): "refuse"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            before = await found.cash()
            reply = await found.trade(id, IBM, AAPL, MSFT, {**MSFT, "quantity": 1})
            trades = reply.structured["execution"]["trades"]
            assert [trade["status"] for trade in trades] == ["filled", "partial", "rejected", "rejected"]
            assert [trade["quantity"] for trade in trades] == [10, 2, 0, 0]
            assert [trade.get("reject_code") for trade in trades[2:]] == ["NO_BORROW", "ACCOUNT_RESTRICTED"]
            assert [trade["order_id"] for trade in trades] == [leg(id, n) for n in range(4)]
            assert await found.holdings() == {"AAPL": 2, "IBM": 10}
            assert before - await found.cash() == 12 * PRICE // 10**4 + 2 * FEES
            assert await found.kinds() == ["intent", "trade"]
            assert text(await found.trade(id, IBM, AAPL, MSFT, {**MSFT, "quantity": 1})) == text(reply)
            assert [at.submissions[leg(id, n)] for n in range(4)] == [1, 1, 1, 1]
            found.assert_sound()

    run(main())


def test_the_account_after_is_valued_at_the_prices_the_batch_was_judged_on(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            answer = await found.answer(id)
            account = await found.call("get_portfolio")
            assert answer["portfolio_after"]["cash"] == account["portfolio"]["cash"]
            assert answer["portfolio_after"]["total_value"] == account["portfolio"]["total_value"]

    run(main())


def test_a_trade_leads_to_its_intent_its_prices_and_the_brokers_own_words(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.answer(id)
            intent, trade = await found.entries()
            edges = {edge.relation: edge.ref for edge in trade.edges}
            assert edges["intent"] == f"tracedesk://trading/ledger/{intent.seq}"
            words = found.trader.desk.payloads.get(edges["reported_by"].rsplit("/", 1)[1])
            assert words is not None
            assert json.loads(words) == at.orders[leg(id)]
            assert {"priced_by", "risk_from", "recorded_as"} <= {edge.relation for edge in intent.edges}
            nodes = (await found.client.call("trace", {"ref": id, "depth": 4})).structured
            assert nodes["unresolved"] == []
            assert {edge.ref for edge in intent.edges} <= {node["ref"] for node in nodes["nodes"]}

    run(main())


def test_nothing_is_sent_before_the_intent_is_on_the_disk(tmp_path: Path, at: Venue, id: str) -> None:
    seen: list[Any] = []

    class Watched(LoopbackBroker):
        async def submit(self, order: Order) -> Report:
            with Ledger.read_only(tmp_path / "ledger.db") as ledger:
                seen.append(ledger.order(order.id))
            return await super().submit(order)

    async def main() -> None:
        async with desk(tmp_path, None) as found:
            found.trader.broker = Watched(at.port)
            await found.answer(id, IBM, AAPL)
            assert [(order.client_id, state.status) for order, state in seen] == [
                (leg(id), "sent"),
                (leg(id, 1), "sent"),
            ]

    run(main())


def test_a_leg_that_the_quote_rejects_is_not_sent(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            low = {**IBM, "order_type": "limit", "price": 1}
            answer = await found.answer(id, low, AAPL)
            assert [trade["status"] for trade in answer["trades"]] == ["rejected", "filled"]
            assert answer["trades"][0]["reject_code"] == "NOT_MARKETABLE"
            assert leg(id) not in at.submissions

    run(main())


# --- answers that do not come -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "became"),
    [
        ("close-after", "filled"),
        ("hang-after", "filled"),
        ("garbage", "filled"),
        ("close-before", "rejected"),
        ("hang-before", "rejected"),
    ],
)
def test_silence_is_an_unknown_outcome_and_the_same_id_reconciles_it(
    tmp_path: Path, at: Venue, id: str, failure: str, became: str
) -> None:
    at.tell({leg(id): failure})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            broker = found.trader.broker
            assert isinstance(broker, LoopbackBroker)
            patient = broker.answer_s
            # What never comes need not be waited for; all that comes later may take its time.
            broker.answer_s = 0.3 if failure.startswith("hang") else patient
            error = (await found.trade(id)).envelope["error"]
            broker.answer_s = patient
            assert error["code"] == "OUTCOME_UNKNOWN"
            assert error["details"] == {
                "retryable": False,
                "order_ids": [leg(id)],
                "reconcile": "send the same tool_call_id again",
            }
            assert await found.kinds() == ["intent", "unknown"]
            assert await found.holdings() == {}
            at.tell({leg(id): "ok"})
            reply = await found.trade(id)
            (trade,) = reply.structured["execution"]["trades"]
            assert trade["status"] == became
            assert trade.get("reject_code") == (None if became == "filled" else "NEVER_ARRIVED")
            assert await found.holdings() == ({"IBM": 10} if became == "filled" else {})
            assert text(await found.trade(id)) == text(reply)
            assert await found.kinds() == ["intent", "unknown", "trade"]
            assert at.submissions[leg(id)] == 1
            found.assert_sound()

    run(main())


def test_what_is_known_is_booked_at_once_and_what_follows_a_silence_is_held_back(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id, 1): "close-after"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id, IBM, AAPL, MSFT) == "OUTCOME_UNKNOWN"
            assert await found.holdings() == {"IBM": 10}
            assert await found.kinds() == ["intent", "report", "unknown"]
            trades = await found.trades(id, IBM, AAPL, MSFT)
            assert [trade["status"] for trade in trades] == ["filled", "filled", "rejected"]
            assert [trade["price"] for trade in trades] == [20, 20, None]
            assert trades[2]["reject_code"] == "NOT_SENT"
            assert leg(id, 2) not in at.submissions
            assert await found.holdings() == {"AAPL": 4, "IBM": 10}
            found.assert_sound()

    run(main())


def test_what_the_time_of_the_call_is_too_short_for_is_not_sent(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH_S", 0.0)

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            trades = await found.trades(id, IBM, AAPL)
            assert [trade["reject_code"] for trade in trades] == ["NOT_SENT", "NOT_SENT"]
            assert leg(id) not in at.submissions

    run(main())


def test_a_broker_that_stays_silent_keeps_the_outcome_unknown_and_the_ledger_as_it_was(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id) as found:
            before = await found.kinds()
            assert [await found.code(id) for _ in range(3)] == ["OUTCOME_UNKNOWN"] * 3
            assert await found.kinds() == before
            at.tell({leg(id): "ok"})
            assert await found.status(id) == "filled"
            assert at.submissions[leg(id)] == 1

    run(main())


def test_a_broker_that_cannot_be_reached_is_silent(tmp_path: Path, id: str) -> None:
    with venue(tmp_path / "orders.jsonl") as gone:
        pass

    async def main() -> None:
        async with desk(tmp_path / "home", gone) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            assert await found.code(id) == "OUTCOME_UNKNOWN"

    run(main())


def test_a_broker_that_was_started_again_still_knows_its_orders(tmp_path: Path, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home", None) as found:
            with venue(tmp_path / "orders.jsonl") as first:
                first.tell({leg(id): "close-after"})
                found.trader.broker = LoopbackBroker(first.port)
                assert await found.code(id) == "OUTCOME_UNKNOWN"
            with venue(tmp_path / "orders.jsonl") as second:
                found.trader.broker = LoopbackBroker(second.port)
                assert await found.status(id) == "filled"
                assert second.submissions == {}

    run(main())


def test_an_order_that_may_still_arrive_is_not_said_to_have_never_come(
    tmp_path: Path, at: Venue, id: str
) -> None:
    clock = ManualClock(WALL_NS)

    async def main() -> None:
        async with pending(tmp_path, at, id, "close-before", clock=clock, arrives_s=60) as found:
            clock.advance(59)
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            clock.advance(1)
            assert (await found.trades(id))[0]["reject_code"] == "NEVER_ARRIVED"

    run(main())


def test_a_ledger_that_fails_after_the_send_is_an_unknown_outcome(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            with monkeypatch.context() as patch:

                def full(*_: object) -> None:
                    raise OSError("no space left")

                patch.setattr(outbox, "_book", full)
                assert await found.code(id) == "OUTCOME_UNKNOWN"
            assert await found.status(id) == "filled"
            assert at.submissions[leg(id)] == 1

    run(main())


def test_an_order_of_another_broker_is_not_asked_for_at_this_one(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id, "close-before") as found:
            found.trader.broker = LoopbackBroker(at.port, name="elsewhere")
            assert await found.code(id) == "OUTCOME_UNKNOWN"

    run(main())


# --- lies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_lie_is_silence_and_is_kept(tmp_path: Path, at: Venue, id: str, lie: str) -> None:
    at.tell({leg(id): lie})
    bounded = {**IBM, "order_type": "limit", "price": 1_000}

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            before = await found.cash()
            assert await found.code(id, bounded) == "OUTCOME_UNKNOWN"
            assert await found.code(id, bounded) == "OUTCOME_UNKNOWN"
            assert (await found.cash(), await found.holdings()) == (before, {})
            assert await found.kinds() == ["intent", "dispute", "unknown"], "the same lie is kept once"
            dispute = (await found.entries())[1]
            said = found.trader.desk.payloads.get(_ref(dispute, "reported_by").rsplit("/", 1)[1])
            assert said is not None
            assert json.loads(said) == {**at.orders[leg(id)], **LIES[lie]}
            assert dispute.body["problem"]
            assert _ref(dispute, "disputes") == f"tracedesk://trading/orders/{leg(id)}"
            at.tell({leg(id): "ok"})
            assert await found.status(id, bounded) == "filled"
            assert await found.holdings() == {"IBM": 10}
            found.assert_sound()

    run(main())


def _ref(entry: Entry, relation: str) -> str:
    return next(edge.ref for edge in entry.edges if edge.relation == relation)


def test_an_order_that_never_came_and_was_traded_is_booked_as_a_surprise_and_disputed(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id, "never-came") as found:
            reply = await found.trade(id)
            assert reply.structured["execution"]["trades"][0]["reject_code"] == "NEVER_ARRIVED"
            assert (await outbox.reconcile(found.trader)).surprises == []
            at.tell({leg(id): "ok"})
            assert (await outbox.reconcile(found.trader)).surprises == [leg(id)]
            assert await found.kinds() == ["intent", "unknown", "trade", "dispute", "surprise"]
            assert await found.holdings() == {"IBM": 10}
            assert await outbox.reconcile(found.trader) == outbox.Reconciled()
            assert text(await found.trade(id)) == text(reply), "an answer that was given stays"
            found.assert_sound()

    run(main())


@given(
    st.sampled_from(["market", "limit"]),
    st.sampled_from(["buy", "sell"]),
    st.sampled_from(["filled", "partial", "rejected"]),
    st.integers(-2, 12),
    st.one_of(st.none(), st.integers(-2, 300)),
    st.integers(-1, 2),
)
def test_only_what_can_be_true_of_an_order_is_believed(
    type: Any, side: Any, status: Any, traded: int, paid: int | None, fees: int
) -> None:
    order = Order("o", "a", Trade("IBM", side, 10, type, 200 if type == "limit" else None), 0, "o")
    heard = believed(order, Report("o", "IBM", status, traded, paid, fees))
    if heard.state is None:
        assert heard.problem
        return
    assert heard.state.filled == traded
    if heard.fill is None:
        assert (status, traded, fees) == ("rejected", 0, 0)
        return
    assert paid is not None
    assert 0 < traded <= 10
    assert (status == "filled") == (traded == 10)
    assert paid > 0
    assert fees >= 0
    if type == "limit":
        assert paid <= 200 if side == "buy" else paid >= 200


# --- refusals -----------------------------------------------------------------------------------


def test_a_broker_without_its_owners_consent_gets_nothing(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, at, live_trading=False) as found:
            error = (await found.trade(id)).envelope["error"]
            assert (error["code"], error["details"]) == ("EXECUTION_DISABLED", {"retryable": False})
            assert await found.kinds() == []
            assert leg(id) not in at.submissions

    run(main())


@pytest.mark.parametrize("until", ["day", "gtc"])
def test_an_order_that_would_rest_at_the_broker_is_refused(
    tmp_path: Path, at: Venue, id: str, until: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            resting = {**IBM, "order_type": "limit", "price": 1, "time_in_force": until}
            error = (await found.trade(id, AAPL, resting)).envelope["error"]
            assert error["code"] == "INVALID_INPUT"
            assert error["details"]["path"] == ["trades", 1, "time_in_force"]
            assert await found.kinds() == []
            assert leg(id) not in at.submissions

    run(main())


def test_what_the_limits_forbid_is_not_sent(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id, {**IBM, "quantity": 400}) == "RISK_LIMIT_EXCEEDED"
            assert await found.kinds() == ["refusal"]
            assert leg(id) not in at.submissions

    run(main())
