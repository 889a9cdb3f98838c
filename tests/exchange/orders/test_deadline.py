"""A venue that is too slow: the call is answered before its deadline, and its work goes on to the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.local.support import eventually
from tests.exchange.orders.desks import LIMIT, MARKET, Trader, trader
from tests.support import BOUND, run
from tracedesk.contract import Call
from tracedesk.errors import ToolError
from tracedesk.exchange.orders import errand
from tracedesk.exchange.orders.desk import Pace
from tracedesk.exchange.orders.errand import Errand
from tracedesk.exchange.orders.party import View


class Time:
    """The time of a call: it stands still until the work has come so far, and is over from then on."""

    def __init__(self) -> None:
        self.is_over: Callable[[], bool] = lambda: False
        self.end = 0.0
        self.has_ended = False

    def left(self, until: float) -> float:
        self.end = until
        self.has_ended = self.is_over()
        return -1.0 if self.has_ended else 0.01


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(errand, "_time_left", made.left)
    return made


def call(it: Trader) -> Call[Any]:
    """A call whose time is long, unless it is said to be over."""
    made = it.call()
    made.deadline = asyncio.get_running_loop().time() + 1_000
    return made


async def late(it: Trader, work: Any, of: Call[Any], time: Time) -> ToolError:
    """What a call fails with that is answered without an outcome, before its deadline by the pace."""
    with pytest.raises(ToolError) as problem:
        await work
    assert time.end == of.deadline - it.desk.pace.answer
    return problem.value


def state(it: Trader, name: str) -> str:
    found = it.desk.ledger.order(name)
    assert found is not None
    return found.state.status


def test_an_order_that_is_not_answered_in_time_is_told_as_unknown_and_found_afterwards(
    tmp_path: Path, time: Time
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate, time.is_over = asyncio.Event(), it.venue.arrived.is_set
            shown = await it.preview(MARKET)
            asked, name = call(it), shown["client_order_id"]
            placing = it.desk.place(it.party, MARKET, shown["preview_token"], asked)
            unknown = await late(it, placing, asked, time)
            assert unknown.code == "OUTCOME_UNKNOWN"
            details = unknown.details or {}
            assert (details["client_order_id"], details["status"]) == (name, "SENT")
            assert details["ref"] == it.desk.ledger.resolve(details["ref"]).ref  # type: ignore[union-attr]
            assert f"get_order (orig_client_order_id {name})" in unknown.message
            assert "never sent again" in unknown.message
            assert not asked.recorded
            again = await it.refusal(MARKET, token=shown["preview_token"])
            assert (again.code, (again.details or {})["reason"]) == ("PREVIEW_INVALID", "used")
            it.venue.gate.set()
            await eventually(lambda: state(it, name) == "FILLED")
            assert it.venue.taken == it.venue.posted == {name: 1}
            assert it.kinds() == ["intent", "outcome"]
            # The record of the call says what its caller was told, not what came later.
            assert not asked.recorded
            time.is_over = lambda: False
            assert (await it.place(MARKET))["status"] == "FILLED"
            it.assert_sound()

    run(main())


def test_what_nobody_waits_for_any_more_is_settled_by_the_rounds_of_the_desk(
    tmp_path: Path, time: Time
) -> None:
    async def main() -> None:
        async with trader(tmp_path, pace=Pace(asks=(0.0, 1.0, 1.0))) as it:
            it.venue.gate, time.is_over = asyncio.Event(), it.venue.arrived.is_set
            it.venue.lies.append("drop_after")
            shown = await it.preview(MARKET)
            asked, name = call(it), shown["client_order_id"]
            await late(it, it.desk.place(it.party, MARKET, shown["preview_token"], asked), asked, time)
            it.venue.gate.set()
            await eventually(lambda: state(it, name) == "UNKNOWN")
            await it.desk.look()
            assert state(it, name) == "FILLED"
            assert it.venue.taken == it.venue.posted == {name: 1}
            assert it.kinds() == ["intent", "unknown", "outcome"]

    run(main())


def test_an_order_that_arrives_nowhere_is_resolved_though_its_call_has_gone(
    tmp_path: Path, time: Time
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate, time.is_over = asyncio.Event(), it.venue.arrived.is_set
            it.venue.lies.append("drop_before")
            shown = await it.preview(MARKET)
            asked, name = call(it), shown["client_order_id"]
            await late(it, it.desk.place(it.party, MARKET, shown["preview_token"], asked), asked, time)
            it.venue.gate.set()
            await eventually(lambda: state(it, name) == "UNKNOWN")
            it.clock.advance(30)
            await it.desk.look()
            assert state(it, name) == "NEVER_ARRIVED"
            assert (it.venue.posted[name], it.venue.taken[name]) == (1, 0)

    run(main())


def test_an_order_that_could_not_be_judged_in_time_is_not_sent_and_can_be_placed_again(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]

            async def look(_: str) -> View:
                await asyncio.Event().wait()
                raise AssertionError

            asked = call(it)
            asked.deadline = asyncio.get_running_loop().time() + it.desk.pace.answer + 0.1
            with pytest.raises(ToolError) as problem:
                await it.desk.place(replace(it.party, look=look), MARKET, token, asked)
            refused = problem.value
            assert refused.code == "VENUE_UNAVAILABLE"
            assert "The call's time was over before anything was sent" in refused.message
            assert not it.venue.posted
            assert it.kinds() == []
            assert (await it.place(MARKET, token=token))["status"] == "FILLED"

    run(main())


def test_a_call_without_time_begins_nothing(tmp_path: Path, time: Time) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]
            asked, time.is_over = call(it), lambda: True
            refused = await late(it, it.desk.place(it.party, MARKET, token, asked), asked, time)
            assert refused.code == "VENUE_UNAVAILABLE"
            assert not it.venue.posted

    run(main())


@pytest.mark.parametrize("by", ["client_order_id", "order_id"])
def test_a_cancel_that_is_not_answered_in_time_is_told_as_unknown_and_written_down_later(
    tmp_path: Path, by: str, time: Time
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place(LIMIT)
            it.venue.cancel_gate = asyncio.Event()
            asked, time.is_over = call(it), lambda: it.venue.cancels == 1
            which: dict[str, Any] = {by: placed[by]}
            unknown = await late(it, it.desk.cancel(it.party, asked, "BTCUSDT", **which), asked, time)
            assert unknown.code == "OUTCOME_UNKNOWN"
            assert f"order_id {placed[by]})" in unknown.message
            assert placed[by] in (unknown.details or {}).values()
            assert it.kinds()[-1] == "cancel"
            it.venue.cancel_gate.set()
            await eventually(lambda: it.kinds()[-1] == "cancelled")
            assert state(it, placed["client_order_id"]) == "CANCELED"
            assert (it.venue.cancels, asked.recorded) == (1, False)

    run(main())


def test_an_outcome_that_is_being_written_down_is_the_answer_though_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: Time
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            shown = await it.preview(MARKET)
            inside, goes_on = threading.Event(), threading.Event()
            tell = it.desk.ledger.tell

            def slowly(news: Any, *, answer: Any = None, **more: Any) -> Any:
                def made(ref: str, order: Any) -> Any:
                    found = answer(ref, order)
                    inside.set()
                    assert goes_on.wait(BOUND)
                    return found

                return tell(news, answer=None if answer is None else made, **more)

            monkeypatch.setattr(it.desk.ledger, "tell", slowly)
            asked, time.is_over = call(it), inside.is_set
            placing = asyncio.create_task(it.desk.place(it.party, MARKET, shown["preview_token"], asked))
            await eventually(lambda: time.has_ended)
            assert not placing.done()
            goes_on.set()
            assert (await placing)["status"] == "FILLED"
            assert asked.recorded

    run(main())


def test_a_caller_that_gives_up_and_a_deadline_after_it_lose_nothing(tmp_path: Path, time: Time) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            shown = await it.preview(MARKET)
            asked = call(it)
            placing = asyncio.create_task(it.desk.place(it.party, MARKET, shown["preview_token"], asked))
            await it.venue.arrived.wait()
            placing.cancel()
            time.is_over = lambda: True
            assert (await late(it, placing, asked, time)).code == "OUTCOME_UNKNOWN"
            it.venue.gate.set()
            await eventually(lambda: state(it, shown["client_order_id"]) == "FILLED")

    run(main())


def test_a_desk_that_closes_waits_for_work_whose_call_has_gone(tmp_path: Path, time: Time) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate, time.is_over = asyncio.Event(), it.venue.arrived.is_set
            shown = await it.preview(MARKET)
            asked = call(it)
            await late(it, it.desk.place(it.party, MARKET, shown["preview_token"], asked), asked, time)
            asyncio.get_running_loop().call_later(0.05, it.venue.gate.set)
        assert it.kinds() == ["intent", "outcome"]

    run(main())


def test_either_the_call_or_the_work_has_the_last_word() -> None:
    for _ in range(200):
        errand = Errand()
        with ThreadPoolExecutor(2) as threads:
            left, concluded = threads.submit(errand.leave), threads.submit(errand.conclude)
        assert left.result() is not concluded.result()
        assert errand.is_left is left.result()
        assert errand.leave() is left.result()
