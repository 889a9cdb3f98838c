"""Trades on the tape: what is told as complete has no hole, whatever the venue answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.exchange.client.scripted import Asked, Bench, Said, Script, bench, run
from tests.exchange.local.support import eventually
from tracedesk.exchange.book.tape import Tape
from tracedesk.exchange.client.calling import ATTEMPTS
from tracedesk.exchange.client.streams import Frame
from tracedesk.exchange.feeds import prints
from tracedesk.exchange.feeds.prints import Trades

ALL = 2**62
TIME = 1_760_000_000_000
MS = 1_000_000


@dataclass(slots=True)
class Told:
    """Trades of a scripted venue that has made those up to `made`."""

    bench: Bench
    tape: Tape
    trades: Trades
    made: int = 0
    down: bool = False
    shows: int | None = None
    """The last trade that REST shows, where it is behind."""
    busy: bool = False
    """Whether another trade is made and streamed while a question is answered."""

    def answer(self, asked: Asked) -> Script:
        if self.down:
            return Said(503)
        last = self.made if self.shows is None else self.shows
        if self.busy:
            self.streamed(self.made + 1)
        first = int(asked.params.get("fromId", max(1, last - 999)))
        return Said(body=[_row(id) for id in range(first, min(last, first + 999) + 1)])

    def streamed(self, *ids: int) -> None:
        for id in ids:
            self.made = max(self.made, id)
            self.trades.frame(_frame(id))

    @property
    def ids(self) -> list[int]:
        return self.tape.prints(0, ALL).id.tolist()

    @property
    def began(self) -> int:
        covered = self.tape.printed.coverage
        assert covered is not None
        return covered.from_ns

    async def passing(self, holds: Any) -> None:
        """Let time pass until something holds."""

        def passed() -> bool:
            self.bench.clock.advance(1.0)
            return holds()

        await eventually(passed)


def _row(id: int) -> dict[str, Any]:
    return {"id": id, "time": TIME + id, "price": "1", "qty": "1", "isBuyerMaker": True}


def _frame(id: int) -> Frame:
    data = {"e": "trade", "E": TIME + id, "T": TIME + id, "t": id, "p": "1", "q": "1", "m": True}
    return Frame("x@trade", data, b"", 0)


@asynccontextmanager
async def printing(made: int = 9) -> AsyncGenerator[Told, None]:
    async with bench() as given:
        tape = Tape()
        told = Told(given, tape, Trades("X", given.client, tape, lambda: None), made)
        for path in ("trades", "historicalTrades"):
            given.venue.always("GET", path, told.answer)
        try:
            yield told
        finally:
            await told.trades.stop()


async def _live(told: Told) -> None:
    told.trades.live()
    await eventually(lambda: told.trades.complete)


def test_missed_trades_that_cannot_be_asked_for_leave_the_tape_incomplete_until_they_can() -> None:
    async def main() -> None:
        async with printing() as told:
            await _live(told)
            told.trades.lost("cut")
            told.made, told.down = 20, True
            told.trades.live()
            await told.passing(lambda: told.bench.venue.count("GET", "historicalTrades") > 3 * ATTEMPTS)
            assert not told.trades.complete
            assert "503" in (told.trades.last_error or "")
            told.down = False
            await told.passing(lambda: told.trades.complete)
            assert told.ids == list(range(1, 21))
            assert told.trades.last_error is None

    run(main())


def test_where_missed_trades_never_come_the_tape_begins_anew_behind_them() -> None:
    async def main() -> None:
        async with printing() as told:
            await _live(told)
            told.trades.lost("cut")
            told.down = True
            told.trades.live()
            told.streamed(15, 16)
            assert not told.trades.complete
            await told.passing(lambda: told.trades.complete)
            told.streamed(17)
            assert (told.ids, told.began) == ([15, 16, 17], (TIME + 15) * MS)

    run(main())


def test_a_break_while_missed_trades_are_asked_for_leaves_no_hole() -> None:
    async def main() -> None:
        async with printing() as told:
            told.bench.venue.script("GET", "trades", "hang")
            told.trades.live()
            await eventually(lambda: told.bench.venue.hung.is_set())
            told.streamed(10, 11)
            told.trades.lost("cut")
            told.made = 15
            told.trades.live()
            told.streamed(16, 17)
            told.bench.venue.release.set()
            await told.passing(lambda: told.trades.complete)
            told.streamed(18)
            assert told.ids == list(range(1, 19))

    run(main())


def test_a_break_that_no_trade_has_shown_yet_is_asked_about_too() -> None:
    async def main() -> None:
        async with printing() as told:
            await _live(told)
            told.bench.venue.script("GET", "historicalTrades", "hang")
            told.trades.frame(_frame(11))
            await eventually(lambda: told.bench.venue.hung.is_set())
            told.trades.lost("cut")
            told.made = 15
            told.trades.live()
            told.bench.venue.release.set()
            await told.passing(lambda: told.trades.complete)
            assert told.ids == list(range(1, 16))

    run(main())


def test_a_trade_that_cannot_be_read_is_asked_for() -> None:
    async def main() -> None:
        async with printing() as told:
            await _live(told)
            told.made = 10
            with pytest.raises(ValueError, match="not a trade"):
                told.trades.frame(Frame("x@trade", {"e": "trade"}, b"", 0))
            assert not told.trades.complete
            await eventually(lambda: told.trades.complete)
            assert told.ids == list(range(1, 11))

    run(main())


def test_a_venue_that_shows_trades_later_than_its_stream_is_waited_for() -> None:
    async def main() -> None:
        async with printing() as told:
            await _live(told)
            told.shows = 9
            told.streamed(12)
            await told.bench.clock.asleep(0.125, 0.25)
            assert (told.trades.complete, told.ids) == (False, list(range(1, 10)))
            told.shows = None
            await told.passing(lambda: told.trades.complete)
            assert told.ids == list(range(1, 13))

    run(main())


def test_trades_that_come_while_others_are_asked_for_need_no_further_question() -> None:
    async def main() -> None:
        async with printing() as told:
            told.busy = True
            await _live(told)
            assert [asked.path for asked in told.bench.venue.asked] == ["trades"]
            told.trades.lost("cut")
            told.made += 5
            await _live(told)
            assert [asked.path for asked in told.bench.venue.asked] == ["trades", "historicalTrades"]
            assert told.ids == list(range(1, told.made + 1))

    run(main())


def test_a_venue_whose_first_answer_is_behind_its_stream_is_asked_for_the_rest() -> None:
    async def main() -> None:
        async with printing() as told:
            told.busy, told.shows = True, 7
            told.trades.live()
            await told.bench.clock.asleep(0.125, 0.25)
            assert not told.trades.complete
            told.busy, told.shows = False, None
            await told.passing(lambda: told.trades.complete)
            assert told.ids == list(range(1, 11))

    run(main())


def test_more_trades_than_can_wait_begin_the_tape_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prints, "_WAITING", 100)

    async def main() -> None:
        async with printing() as told:
            await _live(told)
            told.down = True
            told.streamed(*range(12, 132))
            assert told.ids == list(range(12, 112))
            told.down = False
            await told.passing(lambda: told.trades.complete)
            assert (told.ids, told.began) == (list(range(12, 132)), (TIME + 12) * MS)

    run(main())


@pytest.mark.parametrize("seed", range(6))
def test_whatever_goes_wrong_what_is_told_as_complete_has_no_hole(seed: int) -> None:
    async def main() -> None:
        chance = Random(seed)
        async with printing() as told:
            up = False
            for _ in range(150):
                deed = chance.random()
                if deed < 0.1:
                    up = not up
                    told.trades.live() if up else told.trades.lost("cut")
                elif deed < 0.15:
                    told.down = not told.down
                elif deed < 0.6:
                    told.made += 1
                    if up and chance.random() < 0.9:
                        told.streamed(told.made)
                else:
                    told.bench.clock.advance(chance.random() * 10)
                    await asyncio.sleep(0.001)
                assert told.ids == list(range(told.ids[0], told.ids[0] + len(told.ids))) if told.ids else True
            told.trades.lost("cut")
            told.down = False
            told.trades.live()
            await told.passing(lambda: told.trades.complete)
            assert told.ids[-1] == told.made

    run(main())
