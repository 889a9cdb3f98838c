"""The gate: who is asked, how often, for how long an answer holds, and what stands behind it."""

from __future__ import annotations

import asyncio
import time as wall
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.judges.size import Size
from tests.trading.sources.parts import (
    BUSY,
    DOWN,
    NOTHING,
    NOW,
    Scripted,
    all_good,
    at,
    gate,
    got,
    held,
    priced,
    refused,
    settle,
)
from tracedesk.errors import ToolError
from tracedesk.payloads import LARGEST, Payloads
from tracedesk.primitives import json
from tracedesk.primitives.time import DAY, SECOND, ManualClock, SystemClock
from tracedesk.trading.settings import BadTradingSetting, Providers
from tracedesk.trading.sources.embedded import Embedded
from tracedesk.trading.sources.gate import Gate
from tracedesk.trading.sources.seam import (
    Fetch,
    Quote,
    Story,
    invalid_symbol,
    nothing_in_file,
)

# --- where a value comes from ----------------------------------------------------------------------


def test_a_value_names_its_payload_its_provider_its_time_and_the_call_that_fetched_it(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = ManualClock(5 * SECOND)
        desk = gate(tmp_path, clock, Embedded())
        first = got((await desk.quotes(["AAPL"], NOW, "call-1"))["AAPL"])
        again = got((await desk.quotes(["AAPL"], NOW, "call-2"))["AAPL"])
        assert (first.cache, first.by, first.provider) == ("miss", "call-1", "embedded")
        assert (again.cache, again.by, again.ref, again.value) == ("hit", "call-1", first.ref, first.value)
        assert (first.fetched_ns, first.stale) == (5 * SECOND, False)
        body = Payloads(tmp_path / "payloads").get(first.ref.removeprefix("tracedesk://payloads/"))
        assert body is not None
        assert json.loads(body)["symbols"]["AAPL"]["price"] == first.value.price

    asyncio.run(scene())


def test_the_misses_of_a_question_are_one_request_and_one_payload(tmp_path: Path) -> None:
    async def scene() -> None:
        far = Scripted("far", all_good)
        desk = gate(tmp_path, ManualClock(), far)
        await desk.quotes(["A"], NOW, "1")
        answers = await desk.quotes(["C", "A", "B", "C"], NOW, "2")
        assert far.asked == [["A"], ["C", "B"]]
        assert list(answers) == ["C", "A", "B"]
        assert got(answers["B"]).ref == got(answers["C"]).ref != got(answers["A"]).ref

    asyncio.run(scene())


def test_without_room_for_its_payload_a_value_is_not_given(tmp_path: Path) -> None:
    async def scene() -> None:
        far = Scripted("far", all_good)
        store = Payloads(tmp_path, all=1)
        desk = Gate(
            {"far": far},
            Providers(quotes=("far",), history=(), news=(), fundamentals=()),
            store,
            ManualClock(),
        )
        error = refused((await desk.quotes(["A"], NOW, "1"))["A"])
        assert error.code == "DATA_UNAVAILABLE"
        assert "tracedesk prune" in error.message
        assert refused((await desk.quotes(["A"], NOW, "2"))["A"]).code == "DATA_UNAVAILABLE"
        assert len(far.asked) == 2

    asyncio.run(scene())


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "payloads").write_text("in the way", encoding="ascii")
        desk = gate(tmp_path, ManualClock(), Scripted("far", all_good))
        error = refused((await desk.quotes(["A"], NOW, "1"))["A"])
        assert error.code == "DATA_UNAVAILABLE"
        assert "could not be written" in error.message

    asyncio.run(scene())


def test_a_body_too_large_to_store_is_asked_for_in_parts(tmp_path: Path) -> None:
    async def fat(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        fetch = priced(symbols, now_ns, "10.00")
        return Fetch(fetch.values, {}, fetch.body + b" " * (LARGEST // 4 * len(symbols)))

    async def scene() -> None:
        far = Scripted("far", fat)
        desk = gate(tmp_path, ManualClock(), far)
        symbols = [f"S{number}" for number in range(12)]
        answers = await desk.quotes(symbols, NOW, "1")
        assert all(got(answers[symbol]).value.symbol == symbol for symbol in symbols)
        assert sorted(symbol for part in far.asked[1:] for symbol in part) == sorted(symbols)
        assert len({got(answers[symbol]).ref for symbol in symbols}) == len(far.asked) - 1 > 1

    asyncio.run(scene())


def test_one_symbol_whose_body_is_too_large_is_not_given(tmp_path: Path) -> None:
    async def huge(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        return Fetch(priced(symbols, now_ns, "1").values, {}, b" " * (LARGEST + 1))

    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Scripted("far", huge))
        answers = await desk.quotes(["A", "B"], NOW, "1")
        assert {refused(answer).code for answer in answers.values()} == {"DATA_UNAVAILABLE"}

    asyncio.run(scene())


# --- for how long an answer holds ------------------------------------------------------------------


def test_a_quote_holds_for_its_seconds(tmp_path: Path) -> None:
    async def scene() -> None:
        clock, far = ManualClock(), Scripted("far", all_good)
        desk = gate(tmp_path, clock, far, quotes_ttl=15)
        for seconds, requests in ((0, 1), (14.9, 1), (0.1, 2), (15, 3)):
            clock.advance(seconds)
            await desk.quotes(["A"], NOW, "1")
            assert len(far.asked) == requests

    asyncio.run(scene())


def test_in_a_replay_the_clock_is_part_of_the_question_and_otherwise_not(tmp_path: Path) -> None:
    async def scene() -> None:
        for system_clock, requests in ((False, 2), (True, 1)):
            clock, far = ManualClock(NOW), Scripted("far", all_good)
            desk = gate(tmp_path, clock, far, system_clock=system_clock)
            await desk.quotes(["A"], NOW, "1")
            clock.advance(ns=1)
            await desk.quotes(["A"], NOW + 1, "2")
            assert len(far.asked) == requests

    asyncio.run(scene())


def test_a_denied_symbol_is_remembered_for_a_minute_and_a_failure_not_at_all(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = ManualClock()
        denied = Scripted("far", Fetch({}, {"A": invalid_symbol("A")}))
        desk = gate(tmp_path, clock, denied)
        for seconds, requests in ((0, 1), (59.9, 1), (0.1, 2)):
            clock.advance(seconds)
            assert refused((await desk.quotes(["A"], NOW, "1"))["A"]).code == "INVALID_SYMBOL"
            assert len(denied.asked) == requests
        for failure in (DOWN, BUSY, NOTHING):
            far = Scripted("far", failure, all_good)
            desk = gate(tmp_path, clock, far, attempts=1)
            assert refused((await desk.quotes(["A"], NOW, "1"))["A"]).code == failure.code
            assert got((await desk.quotes(["A"], NOW, "2"))["A"]).cache == "miss"

    asyncio.run(scene())


class Bars(Embedded):
    """The embedded bars, with a count of requests."""

    requests = 0

    async def daily(self, symbols: Sequence[str], count: int, now_ns: int) -> Fetch[Any]:
        self.requests += 1
        return await super().daily(symbols, count, now_ns)

    async def history(
        self, symbol: str, period: str, interval: str, now_ns: int, adjust: Any = None
    ) -> Fetch[Any]:
        self.requests += 1
        return await super().history(symbol, period, interval, now_ns, adjust)


def test_bars_hold_until_the_next_close(tmp_path: Path) -> None:
    async def scene() -> None:
        close = at("2012-12-03T21:00:00Z")
        clock, bars = ManualClock(NOW), Bars()
        desk = gate(tmp_path, clock, bars, system_clock=True, history=("embedded",))
        for instant, requests in ((NOW, 2), (close - 1, 2), (close, 4), (close + 10 * SECOND, 4)):
            clock.advance(ns=instant - clock.now_ns())
            got((await desk.daily(["IBM"], 20, instant, "1"))["IBM"])
            await desk.history("IBM", "5d", None, instant, "1")
            assert bars.requests == requests

    asyncio.run(scene())


def test_outside_the_calendar_no_bars_are_kept(tmp_path: Path) -> None:
    async def scene() -> None:
        bars = Bars()
        desk = gate(tmp_path, ManualClock(), bars, system_clock=True, history=("embedded",))
        for _ in range(2):
            refused((await desk.daily(["IBM"], 20, at("2031-01-02T15:00:00Z"), "1"))["IBM"])
        assert bars.requests == 2

    asyncio.run(scene())


def test_only_so_many_answers_are_kept_the_least_used_going_first(tmp_path: Path) -> None:
    async def scene() -> None:
        far = Scripted("far", all_good)
        chosen = Providers(quotes=("far",), history=(), news=(), fundamentals=())
        desk = Gate({"far": far}, chosen, Payloads(tmp_path), ManualClock(), entries=2)
        for symbol in ("A", "B", "A", "C", "A", "B"):
            await desk.quotes([symbol], NOW, "1")
        assert far.asked == [["A"], ["B"], ["C"], ["B"]]

    asyncio.run(scene())


def test_an_old_answer_is_given_only_if_allowed_and_is_marked(tmp_path: Path) -> None:
    async def scene() -> None:
        for allowed in (False, True):
            clock, far = ManualClock(), Scripted("far", all_good, DOWN)
            desk = gate(tmp_path, clock, far, allow_stale=allowed, attempts=1)
            fresh = got((await desk.quotes(["A"], NOW, "1"))["A"])
            clock.advance(16)
            answer = (await desk.quotes(["A"], NOW, "2"))["A"]
            if allowed:
                assert (got(answer).stale, got(answer).by, got(answer).ref) == (True, "1", fresh.ref)
                assert refused((await desk.quotes(["B"], NOW, "3"))["B"]).code == "NETWORK_ERROR"
            else:
                assert refused(answer).code == "NETWORK_ERROR"

    asyncio.run(scene())


def test_what_a_provider_no_longer_has_is_not_replaced_by_an_old_answer(tmp_path: Path) -> None:
    async def scene() -> None:
        clock, far = ManualClock(), Scripted("far", all_good, NOTHING)
        desk = gate(tmp_path, clock, far, allow_stale=True)
        await desk.quotes(["A"], NOW, "1")
        clock.advance(16)
        assert refused((await desk.quotes(["A"], NOW, "2"))["A"]).code == "DATA_UNAVAILABLE"

    asyncio.run(scene())


def test_nothing_is_kept_so_long_that_its_payload_could_be_swept(tmp_path: Path) -> None:
    async def scene() -> None:
        clock, far = ManualClock(), Scripted("far", all_good, all_good, DOWN)
        desk = gate(tmp_path, clock, far, allow_stale=True, attempts=1, quotes_ttl=10**6)
        await desk.quotes(["A"], NOW, "1")
        clock.advance(23 * 3_600)
        assert got((await desk.quotes(["A"], NOW, "2"))["A"]).cache == "miss"
        clock.advance(23 * 3_600)
        assert refused((await desk.quotes(["A"], NOW, "3"))["A"]).code == "NETWORK_ERROR"

    asyncio.run(scene())


class Wire:
    """A provider of news with one story at 09:00 and one at 10:00."""

    name, local, kinds = "wire", True, ("news",)
    requests = 0

    async def news(self, symbols: Sequence[str], since_ns: int, now_ns: int) -> Fetch[tuple[Story, ...]]:
        self.requests += 1
        times = [at("2012-12-03T10:00:00Z"), at("2012-12-03T09:00:00Z")]
        stories = tuple(Story("A", "Head", "", when, "x") for when in times if since_ns < when <= now_ns)
        return Fetch(dict.fromkeys(symbols, stories), {}, b"{}")


def test_kept_news_are_cut_to_what_is_asked_for(tmp_path: Path) -> None:
    async def scene() -> None:
        now = at("2012-12-03T10:30:00Z")
        clock, wire = ManualClock(now), Wire()
        desk = gate(tmp_path, clock, wire, system_clock=True, quotes=(), news=("wire",), news_ttl=7_200)
        first = await desk.news(["A"], now - 2 * 3_600 * SECOND, now, "1")
        clock.advance(3_600)
        later = await desk.news(["A"], now - 3_600 * SECOND, now + 3_600 * SECOND, "2")
        assert (len(got(first["A"]).value), len(got(later["A"]).value), wire.requests) == (2, 1, 1)

    asyncio.run(scene())


# --- several providers, several askers ---------------------------------------------------------------


@pytest.mark.parametrize("failure", [DOWN, BUSY, NOTHING])
def test_the_next_provider_is_asked_for_what_the_first_could_not_give(
    tmp_path: Path, failure: ToolError
) -> None:
    async def scene() -> None:
        async def partly(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
            fetch = priced(["A"], now_ns, "10.00")
            return Fetch(fetch.values, {"B": failure}, fetch.body)

        first, second = Scripted("first", partly), Scripted("second", all_good)
        desk = gate(tmp_path, ManualClock(), first, second, attempts=1)
        answers = await desk.quotes(["A", "B"], NOW, "1")
        assert (got(answers["A"]).provider, got(answers["B"]).provider) == ("first", "second")
        assert second.asked == [["B"]]

    asyncio.run(scene())


def test_a_denial_holds_only_if_no_other_provider_has_the_symbol(tmp_path: Path) -> None:
    async def scene() -> None:
        denial: Fetch[Quote] = Fetch({}, {"A": invalid_symbol("A")})
        for act, code in ((all_good, None), (denial, "INVALID_SYMBOL"), (NOTHING, "INVALID_SYMBOL"),
                          (DOWN, "NETWORK_ERROR"), (BUSY, "RATE_LIMITED")):  # fmt: skip
            first, second = Scripted("first", denial), Scripted("second", act)
            answers = await gate(tmp_path, ManualClock(), first, second, attempts=1).quotes(["A"], NOW, "1")
            if code is None:
                assert got(answers["A"]).provider == "second"
            else:
                assert refused(answers["A"]).code == code
            assert second.asked == [["A"]]

    asyncio.run(scene())


def test_a_dropped_file_outranks_a_denial_and_not_what_may_pass(tmp_path: Path) -> None:
    async def scene() -> None:
        denial: Fetch[Quote] = Fetch({}, {"A": invalid_symbol("A")})
        empty: Fetch[Quote] = Fetch({}, {"A": nothing_in_file("A", "a quote", "bars/A.csv", "Move on.")})
        for acts, code in (
            ((denial, empty), "DATA_UNAVAILABLE"),
            ((empty, denial), "DATA_UNAVAILABLE"),
            ((empty, DOWN, denial), "NETWORK_ERROR"),
        ):
            providers = [Scripted(f"p{index}", act) for index, act in enumerate(acts)]
            desk = gate(tmp_path, ManualClock(), *providers, attempts=1)
            error = refused((await desk.quotes(["A"], NOW, "1"))["A"])
            assert error.code == code
            assert ("dropped_file" in (error.details or {})) is (code == "DATA_UNAVAILABLE")

    asyncio.run(scene())


def test_a_second_provider_cannot_deny_what_the_first_may_know(tmp_path: Path) -> None:
    async def scene() -> None:
        denial: Fetch[Quote] = Fetch({}, {"A": invalid_symbol("A")})
        for failure, code in ((DOWN, "NETWORK_ERROR"), (BUSY, "RATE_LIMITED"), (NOTHING, "INVALID_SYMBOL")):
            desk = gate(
                tmp_path, ManualClock(), Scripted("first", failure), Scripted("second", denial), attempts=1
            )
            error = refused((await desk.quotes(["A"], NOW, "1"))["A"])
            assert error.code == code
            assert error.details is not None
            assert error.details["asked"] == [
                {"provider": "first", "code": failure.code},
                {"provider": "second", "code": "INVALID_SYMBOL"},
            ]

    asyncio.run(scene())


def test_a_provider_that_is_silent_about_a_symbol_has_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        far = Scripted("far", Fetch({}, {}, b"{}"))
        error = refused((await gate(tmp_path, ManualClock(), far).quotes(["A"], NOW, "1"))["A"])
        assert error.code == "DATA_UNAVAILABLE"

    asyncio.run(scene())


def test_without_a_provider_the_answer_names_the_setting(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Embedded())
        error = refused((await desk.news(["A"], NOW - DAY, NOW, "1"))["A"])
        assert error.code == "DATA_UNAVAILABLE"
        assert "[trading.providers] news" in error.message

    asyncio.run(scene())


def test_a_named_provider_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadTradingSetting, match="'far' is not there"):
        Gate({}, Providers(quotes=("far",)), Payloads(tmp_path), ManualClock())


def test_those_who_ask_at_once_share_one_request(tmp_path: Path) -> None:
    async def scene() -> None:
        release = asyncio.Event()
        far = held(release)
        desk = gate(tmp_path, ManualClock(), far)
        tasks = [asyncio.create_task(desk.quotes(["A", extra], NOW, extra)) for extra in ("B", "C", "D")]
        await settle(lambda: len(far.asked) == 3)
        release.set()
        answers = [got((await task)["A"]) for task in tasks]
        assert far.asked == [["A", "B"], ["C"], ["D"]]
        assert {(answer.ref, answer.by) for answer in answers} == {(answers[0].ref, "B")}
        assert [answer.cache for answer in answers] == ["miss", "hit", "hit"]

    asyncio.run(scene())


def test_one_who_gives_up_does_not_take_the_answer_from_the_others(tmp_path: Path) -> None:
    async def scene() -> None:
        release = asyncio.Event()
        desk = gate(tmp_path, ManualClock(), held(release))
        first = asyncio.create_task(desk.quotes(["A"], NOW, "1"))
        second = asyncio.create_task(desk.quotes(["A"], NOW, "2"))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0)
        release.set()
        assert got((await second)["A"]).by == "1"
        assert first.cancelled()

    asyncio.run(scene())


def test_a_gate_that_closes_gives_up_its_requests(tmp_path: Path) -> None:
    async def never(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        await asyncio.Event().wait()
        raise AssertionError

    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Scripted("far", never))
        waiting = asyncio.create_task(desk.quotes(["A"], NOW, "1"))
        await asyncio.sleep(0.01)
        await desk.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(scene())


def test_a_fault_of_a_provider_is_not_dressed_up_as_an_answer(tmp_path: Path) -> None:
    async def broken(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        raise ZeroDivisionError

    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Scripted("far", broken, all_good))
        with pytest.raises(ZeroDivisionError):
            await desk.quotes(["A"], NOW, "1")
        assert desk.stats()[0]["errors"] == {"INTERNAL_ERROR": 1}
        got((await desk.quotes(["A"], NOW, "2"))["A"])

    asyncio.run(scene())


def test_a_pair_that_does_not_fit_reaches_no_provider(tmp_path: Path) -> None:
    async def scene() -> None:
        bars = Bars()
        desk = gate(tmp_path, ManualClock(), bars, history=("embedded",))
        with pytest.raises(ToolError) as caught:
            await desk.history("IBM", "1y", "1m", NOW, "1")
        assert (caught.value.code, bars.requests) == ("INVALID_INPUT", 0)
        with pytest.raises(ToolError) as caught:
            await desk.history("IBM", "1d", None, NOW, "1")
        assert (caught.value.code, bars.requests) == ("DATA_UNAVAILABLE", 1)

    asyncio.run(scene())


# --- figures ----------------------------------------------------------------------------------------


def test_the_statistics_tell_of_each_provider_and_kind(tmp_path: Path) -> None:
    async def scene() -> None:
        clock = ManualClock(at("2026-01-05T12:00:00Z"))

        async def slow(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
            clock.advance(0.2)
            return await all_good(symbols, now_ns)

        far = Scripted("far", all_good, slow, DOWN)
        desk = gate(tmp_path, clock, far, attempts=1)
        await desk.quotes(["A"], NOW, "1")
        await desk.quotes(["A", "B"], NOW, "2")
        await desk.quotes(["C"], NOW, "3")
        (row,) = desk.stats()
        assert row == {
            "provider": "far",
            "kind": "quotes",
            "calls": 3,
            "errors": {"NETWORK_ERROR": 1},
            "cache": {"hits": 1, "misses": 3},
            "latency_ms": {"p50": 0.0, "p95": 200.0, "max": 200.0},
            "last_success": "2026-01-05T12:00:00.200Z",
            "last_error": {"at": "2026-01-05T12:00:00.200Z", "code": "NETWORK_ERROR"},
        }

    asyncio.run(scene())


@pytest.mark.judge
@pytest.mark.alone
def test_twenty_kept_quotes_cost_well_under_a_millisecond(tmp_path: Path, size: Size) -> None:
    async def scene() -> float:
        clock, far = SystemClock(), Scripted("far", all_good)
        chosen = Providers(quotes=("far",), history=(), news=(), fundamentals=(), quotes_ttl=600)
        desk = Gate({"far": far}, chosen, Payloads(tmp_path), clock)
        symbols = [f"S{number}" for number in range(20)]
        await desk.quotes(symbols, NOW, "1")
        spent: list[float] = []
        for _ in range(50):
            begun = wall.perf_counter()
            await desk.quotes(symbols, NOW, "2")
            spent.append(wall.perf_counter() - begun)
        assert len(far.asked) == 1
        return min(spent)

    size.at_most(1, asyncio.run(scene()) * 1e3, "twenty kept quotes, ms")


def test_a_quote_s_price_is_the_provider_s_exactly(tmp_path: Path) -> None:
    async def odd(symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        return priced(symbols, now_ns, "0.100000")

    async def scene() -> None:
        desk = gate(tmp_path, ManualClock(), Scripted("far", odd))
        answer = got((await desk.quotes(["A"], NOW, "1"))["A"])
        assert str(answer.value.price) == str(Decimal("0.100000"))

    asyncio.run(scene())
