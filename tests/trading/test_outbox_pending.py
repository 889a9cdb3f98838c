"""A call whose outcome is unknown: what it keeps back, and what does not wait for it."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path

import pytest

from tests.support import run
from tests.trading.ledgers import call, trading
from tests.trading.loopback_broker import LoopbackBroker, Venue
from tests.trading.outbox_desks import (
    AAPL,
    IBM,
    WALL_NS,
    close_the_market,
    desk,
    leg,
    pending,
    text,
    write_elsewhere,
)
from tracedesk.trading import outbox
from tracedesk.trading.broker import Report
from tracedesk.trading.ledger import New
from tracedesk.trading.model import Order

# --- ids, desks and accounts --------------------------------------------------------------------


def test_another_request_under_the_id_of_a_pending_one_is_a_conflict(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id) as found:
            before = await found.kinds()
            assert await found.code(id, AAPL) == "TOOL_CALL_ID_CONFLICT"
            assert await found.code(id, IBM, AAPL) == "TOOL_CALL_ID_CONFLICT"
            assert await found.kinds() == before
            assert at.submissions[leg(id)] == 1

    run(main())


def test_a_fill_is_booked_even_when_its_id_was_taken_in_the_meantime(
    tmp_path: Path, at: Venue, id: str
) -> None:
    class Overtaken(LoopbackBroker):
        async def submit(self, order: Order) -> Report:
            write_elsewhere(tmp_path, New("event", "default", WALL_NS, call=call(id)))
            return await super().submit(order)

    async def main() -> None:
        async with desk(tmp_path, None) as found:
            found.trader.broker = Overtaken(at.port)
            assert await found.code(id) == "TOOL_CALL_ID_CONFLICT"
            assert await found.kinds() == ["intent", "event", "report"]
            assert await found.holdings() == {"IBM": 10}
            found.assert_sound()

    run(main())


def test_nothing_is_added_to_an_account_with_an_unknown_order(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id) as found:
            before = await found.kinds()
            error = (await found.trade(f"{id}-2", AAPL)).envelope["error"]
            assert error["code"] == "NETWORK_ERROR"
            assert error["details"] == {"retryable": True, "order_ids": [leg(id)]}
            assert leg(f"{id}-2") not in at.submissions
            assert await found.kinds() == before
            at.tell({leg(id): "ok"})
            assert await found.status(f"{id}-2", AAPL) == "filled"
            assert await found.holdings() == {"AAPL": 4, "IBM": 10}
            replay = await found.trade(id)
            assert replay.json["result"]["_meta"]["tracedesk/replayed"] is True, "answered on the way"

    run(main())


def test_two_desks_with_the_same_call_send_it_once_and_answer_alike(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell(delay_s=0.02)

    async def main() -> None:
        async with desk(tmp_path, at) as one, desk(tmp_path, at) as two:
            await one.answer(f"{id}-one")
            await two.answer(f"{id}-two")
            for n in range(5):
                replies = await asyncio.gather(
                    one.trade(f"{id}-{n}"), two.trade(f"{id}-{n}"), one.trade(f"{id}-{n}")
                )
                assert len({text(reply) for reply in replies}) == 1
                assert replies[0].structured["execution"]["trades"][0]["status"] == "filled"
                assert at.submissions[leg(f"{id}-{n}")] == 1
            assert await two.holdings() == {"IBM": 70}
            one.assert_sound()

    run(main())


def test_calls_of_one_account_are_sent_one_after_the_other(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell(delay_s=0.01)

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            replies = await asyncio.gather(*(found.trade(f"{id}-{n}") for n in range(4)))
            assert {r.structured["execution"]["trades"][0]["status"] for r in replies} == {"filled"}
            assert await found.kinds() == ["intent", "trade"] * 4

    run(main())


def test_a_desk_that_opens_answers_what_a_dead_one_left(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id):
            pass
        at.tell({leg(id): "ok"})
        async with desk(tmp_path, at) as found:
            assert await outbox.reconcile(found.trader) == outbox.Reconciled(booked=[leg(id)])
            assert await found.holdings() == {"IBM": 10}
            reply = await found.trade(id)
            assert reply.json["result"]["_meta"]["tracedesk/replayed"] is True
            assert reply.structured["execution"]["trades"][0]["status"] == "filled"
            found.assert_sound()

    run(main())


def test_a_silent_broker_does_not_hold_up_a_desk_that_opens(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id) as found:
            assert await outbox.reconcile(found.trader) == outbox.Reconciled(unknown=[leg(id)])
            at.tell({leg(id): "ok"})
            with monkeypatch.context() as patch:
                patch.setattr(outbox, "BATCH_S", 0.0)
                assert await outbox.reconcile(found.trader) == outbox.Reconciled(unknown=[leg(id)])
            assert (await outbox.reconcile(found.trader)).booked == [leg(id)]

    run(main())


def test_a_call_that_waits_too_long_for_another_of_its_account_is_told_to_come_again(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LOCK_S", 0.05)

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.answer(f"{id}-first")
            (lock,) = (tmp_path / "run").glob("outbox-*.lock")
            before = await found.kinds()
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                error = (await found.trade(id)).envelope["error"]
                assert await outbox.reconcile(found.trader) == outbox.Reconciled()
            assert error["code"] == "RATE_LIMITED"
            assert error["details"] == {"retryable": True, "retry_after_s": 1}
            assert await found.kinds() == before
            assert await found.status(id) == "filled"

    run(main())


# --- what does not depend on the moment ---------------------------------------------------------


def test_a_pending_call_is_reconciled_while_the_market_is_closed(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id, "close-after") as found:
            await close_the_market(found)
            assert await found.code(f"{id}-2") == "MARKET_CLOSED"
            assert await found.status(id) == "filled"

    run(main())


def test_a_pending_call_is_reconciled_after_its_simulation_is_forgotten(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id): "close-after"})
    simulated = {"symbol": "IBM", "action": "buy", "quantity": 10}

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.call("trade_simulate", "sim", trades=[simulated])
            assert await found.code(id, simulation_ref="sim") == "OUTCOME_UNKNOWN"
        async with desk(tmp_path, at) as found:
            assert await found.status(id, simulation_ref="sim") == "filled"

    run(main())


def test_a_simulation_is_answered_beside_a_pending_order(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id) as found:
            answer = await found.call(
                "trade_simulate", trades=[{"symbol": "AAPL", "action": "buy", "quantity": 1}]
            )
            assert answer["simulation"]["trades"][0]["status"] == "filled"

    run(main())


@pytest.mark.parametrize(("symbol", "is_quoted"), [("AAPL", True), ("ZZZ", False)])
def test_what_came_to_be_held_since_is_valued_by_its_quote_or_the_answer_waits(
    tmp_path: Path, at: Venue, id: str, symbol: str, is_quoted: bool
) -> None:
    async def main() -> None:
        async with pending(tmp_path, at, id) as found:
            write_elsewhere(tmp_path, trading("bought", symbol))
            at.tell({leg(id): "ok"})
            if not is_quoted:
                assert await found.code(id) == "DATA_UNAVAILABLE"
                assert await found.holdings() == {"IBM": 10, symbol: 10}, "it is booked all the same"
                write_elsewhere(tmp_path, trading("sold", symbol, "sell"))
            assert await found.status(id) == "filled"
            assert await found.holdings() == ({"IBM": 10, symbol: 10} if is_quoted else {"IBM": 10})
            found.assert_sound()

    run(main())
