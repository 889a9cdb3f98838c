"""The gate and time: kept, under way or old, no answer tells what came after the time asked about."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trading.sources.parts import DOWN, NOW, Scripted, all_good, at, gate, got, held, refused, settle
from tracedesk.market import calendar
from tracedesk.primitives.time import DAY, SECOND, ManualClock
from tracedesk.trading.sources.embedded import Embedded
from tracedesk.trading.sources.gate import Gate, Got
from tracedesk.trading.sources.seam import Fetch, Series, Story

JUNE = at("2012-06-01T23:59:59Z")
TTL = 15


def last_day(answer: Got[Series]) -> date:
    return date.fromordinal(answer.value.days[-1])


def bars(folder: Path, clock: ManualClock, **more: Any) -> Gate:
    return gate(folder, clock, Embedded(), system_clock=True, quotes=(), history=("embedded",), **more)


# --- what is kept ----------------------------------------------------------------------------------


def test_daily_bars_of_a_past_day_never_come_from_those_of_today(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = bars(tmp_path, ManualClock(NOW))
        for when, last in ((NOW, date(2012, 11, 30)), (JUNE, date(2012, 6, 1)), (NOW, date(2012, 11, 30))):
            assert last_day(got((await desk.daily(["IBM"], 20, when, "1"))["IBM"])) == last

    asyncio.run(scene())


def test_daily_bars_of_a_past_day_are_kept_beside_those_of_today(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = bars(tmp_path, ManualClock(NOW))
        asked = [
            got((await desk.daily(["IBM"], 20, when, "1"))["IBM"]).cache for when in (NOW, JUNE, NOW, JUNE)
        ]
        assert asked == ["miss", "miss", "hit", "hit"]

    asyncio.run(scene())


def test_a_history_of_a_past_day_never_comes_from_that_of_today(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = bars(tmp_path, ManualClock(NOW))
        for when, last in ((NOW, date(2012, 11, 30)), (JUNE, date(2012, 6, 1)), (NOW, date(2012, 11, 30))):
            found = await desk.history("IBM", "1mo", "1d", when, "1")
            assert found.value[-1].start_ns == calendar.open_ns(last)

    asyncio.run(scene())


def test_just_before_a_close_nothing_of_after_it_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        close = at("2012-12-03T21:00:00Z")
        desk = bars(tmp_path, ManualClock(close + SECOND))
        after = got((await desk.daily(["IBM"], 20, close, "1"))["IBM"])
        before = got((await desk.daily(["IBM"], 20, close - 1, "2"))["IBM"])
        assert (last_day(after), last_day(before)) == (date(2012, 12, 3), date(2012, 11, 30))

    asyncio.run(scene())


class Wire:
    """A provider of news with a story each second."""

    name, local, kinds = "wire", True, ("news",)

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]:
        stories = tuple(Story("A", "Head", "", now_ns - n * SECOND, "x") for n in range(5))
        return Fetch(dict.fromkeys(symbols, stories), {}, b"{}")


@pytest.mark.parametrize("back", [1, SECOND, 30 * SECOND, 90 * SECOND, DAY])
def test_news_of_an_earlier_time_have_no_later_story(tmp_path: Path, back: int) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(NOW), Wire(), system_clock=True, quotes=(), news=("wire",))
        await desk.news(["A"], NOW - DAY, NOW, "1")
        earlier = NOW - back
        found = got((await desk.news(["A"], earlier - DAY, earlier, "2"))["A"])
        assert max(story.published_ns for story in found.value) <= earlier

    asyncio.run(scene())


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 5, 14, 15, 59, 61, 90_000])), max_size=20)
)
def test_a_quote_is_never_of_after_the_time_asked_about_nor_long_before(moves: list[tuple[int, int]]) -> None:
    async def scene(folder: Path) -> None:
        clock = ManualClock(NOW)
        desk = gate(folder, clock, Scripted("far", all_good, local=True), system_clock=True, quotes_ttl=TTL)
        for on, back in moves:
            clock.advance(on)
            asked = clock.now_ns() - back * SECOND
            quote = got((await desk.quotes(["A"], asked, "1"))["A"]).value
            assert 0 <= asked - quote.as_of_ns < TTL * SECOND

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scene(Path(folder)))


def test_a_denial_about_a_past_day_does_not_hold_today(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(NOW), Embedded(), system_clock=True)
        early = at("2004-01-05T15:00:00Z")
        assert refused((await desk.quotes(["GOOG"], early, "1"))["GOOG"]).code == "INVALID_SYMBOL"
        got((await desk.quotes(["GOOG"], NOW, "2"))["GOOG"])

    asyncio.run(scene())


# --- what is under way -----------------------------------------------------------------------------


def test_a_request_under_way_serves_later_questions_and_no_earlier_one(tmp_path: Path) -> None:
    async def scene() -> None:
        release = asyncio.Event()
        far = held(release)
        desk = gate(tmp_path, ManualClock(NOW), far, system_clock=True)
        times = [NOW - 2 * SECOND, NOW - SECOND, NOW - 3 * SECOND]
        tasks: list[asyncio.Task[Any]] = []
        for when, requests in zip(times, (1, 1, 2), strict=True):
            tasks.append(asyncio.create_task(desk.quotes(["A"], when, "1")))
            await settle(lambda requests=requests: len(far.asked) == requests)
            await asyncio.sleep(0.01)
            assert len(far.asked) == requests
        release.set()
        told = [got((await task)["A"]).value.as_of_ns for task in tasks]
        assert told == [times[0], times[0], times[2]]
        await desk.close()

    asyncio.run(scene())


# --- what is old -----------------------------------------------------------------------------------


def test_an_old_answer_is_not_told_of_an_earlier_time(tmp_path: Path) -> None:
    async def scene() -> None:
        for back in (1, 10 * SECOND, 59 * SECOND, DAY):
            clock, far = ManualClock(NOW), Scripted("far", all_good, DOWN)
            desk = gate(tmp_path, clock, far, system_clock=True, allow_stale=True, attempts=1)
            await desk.quotes(["A"], NOW, "1")
            answer = (await desk.quotes(["A"], NOW - back, "2"))["A"]
            assert refused(answer).code == "NETWORK_ERROR"
            clock.advance(20)
            assert got((await desk.quotes(["A"], clock.now_ns(), "3"))["A"]).stale

    asyncio.run(scene())
