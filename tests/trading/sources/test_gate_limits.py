"""The gate's limits: allowances, repetitions and time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.trading.sources.parts import (
    BUSY,
    DOWN,
    NOTHING,
    NOW,
    Scripted,
    WatchedClock,
    all_good,
    gate,
    got,
    priced,
    refused,
    turning,
)
from tracedesk.errors import ToolError
from tracedesk.payloads import Payloads
from tracedesk.primitives.time import DAY, SECOND, ManualClock
from tracedesk.trading.settings import Providers
from tracedesk.trading.sources.embedded import Embedded
from tracedesk.trading.sources.files import Files
from tracedesk.trading.sources.gate import MOST_STORIES, MOST_STORIES_IN_ALL, Gate
from tracedesk.trading.sources.seam import Fetch, Quote, Story, invalid_symbol


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
        clock, far = WatchedClock(), Scripted("far", DOWN, DOWN, all_good)
        desk = gate(tmp_path, clock, far, attempts=3)
        task = asyncio.create_task(desk.quotes(["A"], NOW, "1"))
        for before, wait in ((1, 0.25), (2, 0.5)):
            await clock.asleep(wait)
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
        clock = WatchedClock()
        desk = gate(tmp_path, clock, Scripted("far", silent), attempts=1, timeout_ms=700)
        task = asyncio.create_task(desk.quotes(["A"], NOW, "1"))
        await clock.asleep(0.7)
        clock.advance(0.69)
        await asyncio.sleep(0.01)
        assert not task.done()
        clock.advance(0.01)
        error = refused((await task)["A"])
        assert (error.code, cancelled) == ("NETWORK_ERROR", [True])
        assert "700 ms" in error.message

    asyncio.run(scene())


# --- the sample of shares ---------------------------------------------------------------------------


def test_dropped_files_are_asked_for_what_the_embedded_sample_does_not_know(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "quotes.csv").write_text(
            "symbol,time,price\nZZZ,2012-12-03T15:00:00Z,7\n", encoding="ascii"
        )
        desk = gate(tmp_path, ManualClock(), Embedded(), Files(tmp_path))
        answers = await desk.quotes(["IBM", "ZZZ", "NOPE"], NOW, "1")
        assert (got(answers["IBM"]).provider, got(answers["ZZZ"]).provider) == ("embedded", "files")
        error = refused(answers["NOPE"])
        assert (error.code, "AAPL, FB, GOOG, IBM, MSFT" in error.message) == ("INVALID_SYMBOL", True)

    asyncio.run(scene())


# --- news -------------------------------------------------------------------------------------------


class Presses:
    """A provider with a story about each symbol every second; the first symbol is in the news last."""

    name, local, kinds = "presses", True, ("news",)

    def __init__(self, stories: int) -> None:
        self.stories = stories

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]:
        found = {
            symbol: tuple(
                Story(symbol, f"{number}", "", now_ns - (number + late) * SECOND, "x")
                for number in range(self.stories)
            )
            for late, symbol in enumerate(symbols)
        }
        return Fetch(found, {}, b"{}")


def test_of_one_symbol_the_newest_stories_are_told_and_how_many_are_not(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Presses(MOST_STORIES + 7), quotes=(), news=("presses",))
        for by in ("1", "2"):
            answer = got((await desk.news(["A"], NOW - DAY, NOW, by))["A"])
            assert [story.headline for story in answer.value] == [str(n) for n in range(MOST_STORIES)]
            assert answer.left_out == 7

    asyncio.run(scene())


def test_of_many_symbols_the_newest_stories_of_all_are_told(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Presses(60), quotes=(), news=("presses",))
        symbols = [f"S{number:02}" for number in range(20)]
        answers = [got(answer) for answer in (await desk.news(symbols, NOW - DAY, NOW, "1")).values()]
        told = [story for answer in answers for story in answer.value]
        assert len(told) == MOST_STORIES_IN_ALL
        assert sum(answer.left_out for answer in answers) == 20 * 60 - MOST_STORIES_IN_ALL
        assert NOW - min(story.published_ns for story in told) < 20 * SECOND
        for answer in answers:
            assert [story.headline for story in answer.value] == [str(n) for n in range(len(answer.value))]

    asyncio.run(scene())


def test_few_stories_are_told_whole(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Presses(MOST_STORIES), quotes=(), news=("presses",))
        answers = (await desk.news(["A", "B", "C", "D"], NOW - DAY, NOW, "1")).values()
        assert [(len(got(a).value), got(a).left_out) for a in answers] == [(MOST_STORIES, 0)] * 4

    asyncio.run(scene())


# --- a full store -----------------------------------------------------------------------------------


def test_what_trades_rest_on_is_told_while_a_full_store_refuses_the_rest(tmp_path: Path) -> None:
    async def scene() -> None:
        chosen = Providers(quotes=("embedded",), history=("embedded",), news=(), fundamentals=())
        store = Payloads(tmp_path, all=4_000)
        desk = Gate({"embedded": Embedded()}, chosen, store, ManualClock())
        for symbol in ("AAPL", "GOOG"):
            got((await desk.daily([symbol], 252, NOW, "1"))[symbol])
        assert store.used() > 4_000
        got((await desk.quotes(["IBM"], NOW, "1"))["IBM"])
        with pytest.raises(ToolError, match="tracedesk prune") as caught:
            await desk.history("IBM", "1mo", "1d", NOW, "1")
        assert caught.value.code == "DATA_UNAVAILABLE"

    asyncio.run(scene())


def test_trades_within_one_session_share_the_payload_of_their_daily_bars(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Embedded(), history=("embedded",))
        refs = {
            got((await desk.daily(["IBM", "AAPL"], 253, NOW + minute * 60 * SECOND, "1"))["IBM"]).ref
            for minute in range(5)
        }
        assert len(refs) == 1
        evening = NOW + DAY // 4
        assert got((await desk.daily(["IBM", "AAPL"], 253, evening, "1"))["IBM"]).ref not in refs

    asyncio.run(scene())
