"""Orders whose answer is lost: asked about, never sent again, and told truthfully all the while."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.exchange.orders.desks import MARKET, Trader, trader
from tests.exchange.orders.lying import Lie
from tests.support import BOUND, run
from tracedesk.errors import ToolError
from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.venue import Endpoints
from tracedesk.exchange.orders.caps import Judge
from tracedesk.exchange.orders.desk import OrderDesk, Pace
from tracedesk.exchange.orders.identity import Identity
from tracedesk.exchange.orders.ledger import Intent, Order, Seen
from tracedesk.exchange.orders.party import Party, View
from tracedesk.exchange.orders.report import State
from tracedesk.exchange.orders.settling import send
from tracedesk.primitives.time import SystemClock

AFTER: tuple[Lie, ...] = (
    "drop_after",
    "error_after",
    "malformed",
    "page",
    "empty",
    "other_order",
    "too_much",
    "hang",
)
BEFORE: tuple[Lie, ...] = ("drop_before", "error_before", "unclear")
REFUSALS: tuple[tuple[Lie, str], ...] = (
    ("refuse", "INSUFFICIENT_BALANCE"),
    ("limit", "RATE_LIMITED"),
    ("ban", "RATE_LIMITED"),
)


def status_of(it: Trader, name: str) -> str:
    found = it.desk.ledger.order(name)
    assert found is not None
    return found.state.status


@pytest.mark.parametrize("lie", AFTER)
def test_an_order_that_was_taken_is_found_by_its_id_though_its_answer_was_lost(
    tmp_path: Path, lie: Lie
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append(lie)
            placed = await it.place(MARKET)
            assert placed["status"] == "FILLED"
            assert it.venue.taken == it.venue.posted == {placed["client_order_id"]: 1}
            assert it.kinds() == ["intent", "outcome"]

    run(main())


@pytest.mark.parametrize("lie", BEFORE)
def test_an_order_that_never_came_is_unknown_until_it_can_no_longer_come(tmp_path: Path, lie: Lie) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append(lie)
            unknown = await it.refusal(MARKET)
            assert unknown.code == "OUTCOME_UNKNOWN"
            assert unknown.details is not None
            assert unknown.details["mode"] == "sim"
            name = unknown.details["client_order_id"]
            assert (await it.desk.reconcile())["unresolved"][0]["client_order_id"] == name
            it.clock.advance(29)
            await it.desk.reconcile()
            assert status_of(it, name) == "UNKNOWN"
            it.clock.advance(1)
            assert (await it.desk.reconcile())["unresolved"] == []
            assert status_of(it, name) == "NEVER_ARRIVED"
            assert it.kinds() == ["intent", "unknown", "outcome"]
            assert it.venue.posted[name] == 1
            assert it.venue.taken[name] == 0

    run(main())


@pytest.mark.parametrize(("lie", "code"), REFUSALS)
def test_a_refusal_is_told_as_one_and_is_no_order(tmp_path: Path, lie: Lie, code: str) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append(lie)
            refused = await it.refusal(MARKET)
            assert refused.code == code
            assert refused.details is not None
            assert refused.details["status"] == "REFUSED"
            assert refused.details["mode"] == "sim"
            assert it.desk.ledger.unresolved() == []
            assert not it.venue.taken

    run(main())


def test_an_order_that_never_left_this_machine_is_refused_and_not_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_before")
            name = ((await it.refusal(MARKET)).details or {})["client_order_id"]
            order = it.desk.ledger.order(name)
            assert order is not None
            nowhere = Client(Endpoints("sim", "http://127.0.0.1:1", "ws://127.0.0.1:1", "ws://127.0.0.1:1"))
            rest = nowhere.signed(Credentials.of("k" * 64, "s" * 64))
            found = await send(replace(it.party, venue=rest), order, {"symbol": "BTCUSDT"})
            await nowhere.close()
            assert found.state == State("REFUSED")
            assert found.refusal is not None
            assert found.refusal.code == "VENUE_UNAVAILABLE"

    run(main())


def test_an_order_that_arrives_late_is_found_and_not_called_absent_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("late")
            unknown = await it.refusal()
            assert unknown.code == "OUTCOME_UNKNOWN"
            name = (unknown.details or {})["client_order_id"]
            await it.desk.reconcile()
            it.clock.advance(4)
            it.venue.deliver()
            await it.desk.reconcile()
            assert status_of(it, name) == "NEW"
            assert it.venue.taken[name] == it.venue.posted[name] == 1

    run(main())


def test_a_desk_that_starts_again_settles_what_the_one_before_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_after")
            it.venue.silences = 3
            unknown = await it.refusal(MARKET)
            name = (unknown.details or {})["client_order_id"]
            assert status_of(it, name) == "UNKNOWN"
            venue, clock = it.venue, it.clock
        async with trader(tmp_path, venue=venue, clock=clock) as it:
            assert status_of(it, name) == "FILLED"
            assert venue.posted[name] == 1

    run(main())


def test_nothing_is_added_to_an_account_while_an_order_of_it_is_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_before")
            unknown = await it.refusal(MARKET)
            name = (unknown.details or {})["client_order_id"]
            refused = await it.refusal(MARKET)
            assert refused.code == "VENUE_UNAVAILABLE"
            assert (refused.details or {})["unresolved"] == [name]
            it.clock.advance(30)
            assert (await it.place(MARKET))["status"] == "FILLED"
            assert sum(it.venue.taken.values()) == 1

    run(main())


def test_a_request_that_the_network_repeated_is_one_order_and_told_as_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("twice")
            placed = await it.place()
            assert placed["status"] == "NEW"
            assert it.venue.taken == {placed["client_order_id"]: 1}

    run(main())


def test_an_answer_that_comes_twice_is_not_taken_for_that_of_the_next_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            for _ in range(3):
                it.venue.lies.append("echo")
                placed = await it.place(MARKET)
                assert placed["order_id"] == it.venue.orders[placed["client_order_id"]]["orderId"]
            assert it.venue.taken.total() == 3

    run(main())


def test_a_venue_that_remembers_an_order_it_denied_is_a_surprise_that_is_written_down(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_after")
            shown = await it.preview(MARKET)
            name = shown["client_order_id"]
            it.venue.forgotten.add(name)
            assert (await it.refusal(MARKET, token=shown["preview_token"])).code == "OUTCOME_UNKNOWN"
            it.clock.advance(31)
            await it.desk.reconcile()
            assert status_of(it, name) == "NEVER_ARRIVED"
            it.venue.forgotten.clear()
            await it.desk.reconcile()
            assert status_of(it, name) == "FILLED"
            assert it.kinds()[-1] == "surprise"

    run(main())


def test_an_order_that_was_seen_stays_seen_when_the_venue_forgets_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place()
            it.venue.forgotten.add(placed["client_order_id"])
            it.clock.advance(60)
            await it.desk.reconcile()
            assert status_of(it, placed["client_order_id"]) == "NEW"

    run(main())


def test_a_venue_that_denies_an_order_that_was_seen_is_written_down_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place()
            it.venue.forgotten.add(placed["client_order_id"])
            it.clock.advance(60)
            await it.desk.reconcile()
            await it.desk.reconcile()
            assert it.kinds() == ["intent", "outcome", "contradiction"]
            entry = it.entries()[-1][1]
            assert (entry["known"], entry["heard"]) == ("NEW", "NEVER_ARRIVED")
            assert ["contradicts", placed["ref"]] in entry["edges"]
            it.venue.forgotten.clear()
            it.venue.fill(placed["client_order_id"])
            await it.desk.reconcile()
            assert status_of(it, placed["client_order_id"]) == "FILLED"
            assert it.kinds()[-1] == "report"
            it.assert_sound()

    run(main())


def test_a_caller_that_gives_up_before_the_order_is_written_down_has_sent_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]
            judging, judged = asyncio.Event(), asyncio.Event()

            async def look(_: str) -> View:
                judging.set()
                await judged.wait()
                return it.market.view()

            slow = replace(it, party=replace(it.party, look=look))
            placing = asyncio.ensure_future(slow.place(MARKET, token=token))
            await judging.wait()
            placing.cancel()
            await asyncio.sleep(0)
            judged.set()
            with pytest.raises(asyncio.CancelledError):
                await placing
            assert not it.venue.posted
            assert it.kinds() == []
            assert (await it.place(MARKET, token=token))["status"] == "FILLED"

    run(main())


@pytest.mark.parametrize("slow", ["judging", "writing"])
def test_an_order_that_was_judged_too_long_ago_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]
            intend = it.desk.ledger.intend

            async def look(_: str) -> View:
                it.clock.advance(11 if slow == "judging" else 0)
                return it.market.view()

            def waiting(intent: Intent, judge: Judge, seen: Seen) -> Order:
                it.clock.advance(11 if slow == "writing" else 0)
                return intend(intent, judge, seen)

            monkeypatch.setattr(it.desk.ledger, "intend", waiting)
            late = replace(it, party=replace(it.party, look=look))
            refused = await late.refusal(MARKET, token=token)
            assert (refused.code, "took too long" in refused.message) == ("VENUE_UNAVAILABLE", True)
            assert not it.venue.posted
            assert it.kinds() == []

    run(main())


def test_the_ledger_tells_of_an_order_that_the_venue_tells_nothing_of(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_before")
            name = ((await it.refusal(MARKET)).details or {})["client_order_id"]
            found = await it.desk.known(it.party.account, name)
            assert found is not None
            assert (found["mode"], found["status"], found["quantity"]) == ("sim", "UNKNOWN", "0.01")
            assert "may still arrive" in found["note"]
            it.clock.advance(30)
            await it.desk.reconcile()
            assert "no longer can" in (await it.desk.known(it.party.account, name) or {})["note"]
            assert await it.desk.known("sim/other", name) is None
            assert await it.desk.known(it.party.account, "td-0") is None

    run(main())


def test_a_caller_that_goes_away_does_not_cut_off_what_is_being_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            token = (await it.preview(MARKET))["preview_token"]
            placing = asyncio.ensure_future(it.place(MARKET, token=token))
            await it.venue.arrived.wait()
            placing.cancel()
            await asyncio.sleep(0)
            it.venue.gate.set()
            assert (await placing)["status"] == "FILLED"
            assert it.kinds() == ["intent", "outcome"]

    run(main())


def test_a_desk_that_closes_waits_for_what_is_being_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            placing = asyncio.ensure_future(it.place(MARKET))
            await it.venue.arrived.wait()
            asyncio.get_running_loop().call_later(0.05, it.venue.gate.set)
        assert (await placing)["status"] == "FILLED"
        assert it.kinds() == ["intent", "outcome"]

    run(main())


def test_an_order_in_doubt_is_asked_about_without_anybody_calling(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_after")
            it.venue.silences = 6
            name = ((await it.refusal(MARKET)).details or {})["client_order_id"]
            await it.desk.look()
            await it.desk.look()
            assert status_of(it, name) == "UNKNOWN"
            it.clock.advance(2)
            await it.desk.look()
            assert status_of(it, name) == "FILLED"

    run(main())


def test_the_fate_of_a_resting_order_is_learnt_from_the_account_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place()
            name = placed["client_order_id"]
            report = {
                "e": "executionReport",
                "s": "BTCUSDT",
                "c": name,
                "C": "",
                "i": placed["order_id"],
                "X": "PARTIALLY_FILLED",
                "q": "0.01000000",
                "z": "0.00400000",
                "Z": "199.60000000",
            }
            await it.desk.observe(it.party.identity, report)
            await it.desk.observe(it.party.identity, {**report, "z": "0.00300000"})
            await it.desk.observe(Identity("sim/other"), {**report, "X": "CANCELED"})
            await it.desk.observe(it.party.identity, {**report, "z": "7.00000000"})
            found = it.desk.ledger.order(name)
            assert found is not None
            assert (found.state.status, found.state.executed) == ("PARTIALLY_FILLED", 400_000)
            assert it.kinds() == ["intent", "outcome", "report"]

    run(main())


def test_what_the_account_stream_told_meanwhile_is_the_answer_when_no_other_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            it.venue.lies.append("drop_after")
            it.venue.silences = 3
            shown = await it.preview(MARKET)
            placing = asyncio.ensure_future(it.place(MARKET, token=shown["preview_token"]))
            await it.venue.arrived.wait()
            report = {
                "symbol": "BTCUSDT",
                "clientOrderId": shown["client_order_id"],
                "orderId": 1,
                "status": "FILLED",
                "origQty": "0.01000000",
                "executedQty": "0.01000000",
                "cummulativeQuoteQty": "500.00000000",
            }
            await it.desk.observe(it.party.identity, report)
            it.venue.gate.set()
            placed = await placing
            assert (placed["status"], placed["average_price"]) == ("FILLED", "50000")
            assert it.kinds() == ["intent", "outcome"]

    run(main())


def test_a_desk_asks_by_itself_about_what_an_earlier_one_left(tmp_path: Path) -> None:
    """Also of accounts that nobody has used since: it opens them."""

    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_after")
            it.venue.silences = 3
            name = ((await it.refusal(MARKET)).details or {})["client_order_id"]
            opened: list[Party] = []

            async def gather() -> None:
                opened.append(it.party)

            quick = Pace(watch=0.02)
            later = OrderDesk(
                tmp_path, it.desk.settings, SystemClock(), None, lambda: opened, gather=gather, pace=quick
            )
            await later.start()
            async with asyncio.timeout(BOUND):
                while status_of(it, name) != "FILLED":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await later.stop()
            assert opened

    run(main())


def test_an_order_is_written_down_before_it_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            placing = asyncio.ensure_future(it.place(MARKET))
            await it.venue.arrived.wait()
            assert it.kinds() == ["intent"]
            it.venue.gate.set()
            await placing

    run(main())


def test_two_calls_with_one_token_send_one_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]
            found = await asyncio.gather(
                *(it.place(MARKET, token=token) for _ in range(4)), return_exceptions=True
            )
            placed = [each for each in found if isinstance(each, dict)]
            refused = [each.code for each in found if isinstance(each, ToolError)]
            assert (len(placed), refused) == (1, ["PREVIEW_INVALID"] * 3)
            assert sum(it.venue.posted.values()) == 1

    run(main())
