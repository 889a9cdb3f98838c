"""The gate's limits: allowances, repetitions and time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.trading.sources.parts import (
    BUSY,
    DOWN,
    NOTHING,
    NOW,
    Scripted,
    all_good,
    gate,
    got,
    priced,
    refused,
    settle,
    turning,
)
from tracedesk.errors import ToolError
from tracedesk.primitives.time import ManualClock
from tracedesk.trading.sources.seam import Fetch, Quote, invalid_symbol


def test_requests_beyond_the_allowance_are_refused_with_the_wait(tmp_path: Path) -> None:
    async def scene() -> None:
        clock, far = ManualClock(), Scripted("far", all_good)
        desk = gate(tmp_path, clock, far, requests_per_minute=2)
        answers = [(await desk.quotes([symbol], NOW, "1"))[symbol] for symbol in "ABC"]
        assert [isinstance(answer, ToolError) for answer in answers] == [False, False, True]
        error = refused(answers[2])
        assert (error.code, error.details and error.details["retry_after_s"]) == ("RATE_LIMITED", 30)
        clock.advance(30)
        got((await desk.quotes(["C"], NOW, "2"))["C"])
        assert far.asked == [["A"], ["B"], ["C"]]

    asyncio.run(scene())


def test_a_provider_on_this_machine_has_no_allowance(tmp_path: Path) -> None:
    async def scene() -> None:
        near = Scripted("near", all_good, local=True)
        desk = gate(tmp_path, ManualClock(), near, requests_per_minute=1)
        for number in range(20):
            got((await desk.quotes([f"S{number}"], NOW, "1"))[f"S{number}"])

    asyncio.run(scene())


def test_a_provider_that_asks_for_each_symbol_pays_for_each(tmp_path: Path) -> None:
    async def scene() -> None:
        far = Scripted("far", all_good)
        far.per_symbol = True  # type: ignore[attr-defined]
        desk = gate(tmp_path, ManualClock(), far, requests_per_minute=3)
        got((await desk.quotes(["A", "B"], NOW, "1"))["A"])
        assert refused((await desk.quotes(["C", "D"], NOW, "1"))["C"]).code == "RATE_LIMITED"
        got((await desk.quotes(["E"], NOW, "1"))["E"])

    asyncio.run(scene())


def test_an_unreachable_provider_is_asked_again_after_longer_and_longer_waits(tmp_path: Path) -> None:
    async def scene() -> None:
        clock, far = ManualClock(), Scripted("far", DOWN, DOWN, all_good)
        desk = gate(tmp_path, clock, far, attempts=3)
        task = asyncio.create_task(desk.quotes(["A"], NOW, "1"))
        for before, wait in ((1, 0.25), (2, 0.5)):
            await settle(lambda before=before: len(far.asked) == before)
            clock.advance(wait - 0.01)
            await asyncio.sleep(0.01)
            assert len(far.asked) == before
            clock.advance(0.01)
        assert got((await task)["A"]).cache == "miss"

    asyncio.run(scene())


def test_attempts_are_bounded_and_only_the_network_is_worth_one(tmp_path: Path) -> None:
    async def scene() -> None:
        for failure, requests in ((DOWN, 3), (BUSY, 1), (NOTHING, 1)):
            clock, far = ManualClock(), Scripted("far", failure)
            desk = gate(tmp_path, clock, far, attempts=3)
            answers = await turning(clock, desk.quotes(["A"], NOW, "1"))
            assert (refused(answers["A"]).code, len(far.asked)) == (failure.code, requests)

    asyncio.run(scene())


def test_only_the_symbols_that_were_out_of_reach_are_asked_for_again(tmp_path: Path) -> None:
    async def half(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        fetch = priced(["A"], now_ns, "10.00")
        return Fetch(fetch.values, {"B": DOWN, "C": invalid_symbol("C")}, fetch.body)

    async def scene() -> None:
        clock, far = ManualClock(), Scripted("far", half, all_good)
        answers = await turning(clock, gate(tmp_path, clock, far).quotes(["A", "B", "C"], NOW, "1"))
        assert far.asked == [["A", "B", "C"], ["B"]]
        assert (got(answers["A"]).cache, got(answers["B"]).cache) == ("miss", "miss")
        assert refused(answers["C"]).code == "INVALID_SYMBOL"

    asyncio.run(scene())


def test_silence_ends_at_the_time_limit(tmp_path: Path) -> None:
    cancelled: list[bool] = []

    async def silent(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        raise AssertionError

    async def scene() -> None:
        clock = ManualClock()
        desk = gate(tmp_path, clock, Scripted("far", silent), attempts=1, timeout_ms=700)
        task = asyncio.create_task(desk.quotes(["A"], NOW, "1"))
        await asyncio.sleep(0.01)
        clock.advance(0.69)
        await asyncio.sleep(0.01)
        assert not task.done()
        clock.advance(0.01)
        error = refused((await task)["A"])
        assert (error.code, cancelled) == ("NETWORK_ERROR", [True])
        assert "700 ms" in error.message

    asyncio.run(scene())
