"""One line after another: a planned end loses nothing, repeats nothing, and tells what it could not avoid."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from random import Random
from typing import Any

import pytest

from tests.exchange.client.scripted import Bench, Ear, Peer, depth, run, soon, trade
from tests.exchange.client.streaming import DEPTH, TRADES, live, streaming
from tracedesk.exchange.client.keeper import LIFE
from tracedesk.exchange.client.streams import OVERLAP


async def _successor(given: Bench) -> Peer:
    await given.clock.asleep(LIFE - 1, LIFE)
    given.clock.advance(LIFE)
    peer = await given.venue.peer()
    await peer.accept()
    return peer


def test_a_line_is_replaced_before_its_day_is_over_without_loss_or_repetition() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            one, two = Ear(), Ear()
            streams.subscribe(TRADES, one)
            streams.subscribe(DEPTH, two)
            old = await live(given, one, two)
            await old.event(TRADES, trade(1))
            await old.event(DEPTH, depth(1, 10))
            assert (await one.data(), await two.data()) == (trade(1), depth(1, 10))
            new = await _successor(given)
            assert not old.closed.is_set()
            # The new line is ahead of the old one, which goes on and is still heard.
            await new.event(TRADES, trade(3))
            await new.event(DEPTH, depth(16, 25))
            for number in (2, 3):
                await old.event(TRADES, trade(number))
                assert await one.data() == trade(number)
            assert not old.closed.is_set()
            await old.event(DEPTH, depth(11, 20))
            assert await two.data() == depth(11, 20)
            await soon(old.closed.wait())
            assert await two.data() == depth(16, 25)
            await new.event(TRADES, trade(4))
            assert await one.data() == trade(4)
            assert one.told.empty()
            assert two.told.empty()
            assert (streams.status.rollovers, streams.status.reconnects) == (1, 0)

    run(main())


@pytest.mark.parametrize("seed", range(8))
def test_however_two_lines_interleave_every_event_arrives_once_and_in_order(seed: int) -> None:
    async def main() -> None:
        chance = Random(seed)
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            for number in range(1, 6):
                await old.event(TRADES, trade(number))
            new = await _successor(given)
            ahead = chance.randrange(6, 12)  # the first event that the new line brings
            rest = {old: deque(range(6, 41)), new: deque(range(ahead, 41))}
            while any(rest.values()):
                peer = chance.choice([each for each, numbers in rest.items() if numbers])
                for _ in range(min(len(rest[peer]), chance.randrange(1, 5))):
                    number = rest[peer].popleft()
                    with contextlib.suppress(ConnectionError):  # the old line may be closed by now
                        await peer.event(TRADES, trade(number))
                await asyncio.sleep(0)
            assert [(await ear.data())["t"] for _ in range(40)] == list(range(1, 41))
            await soon(old.closed.wait())
            assert ear.told.empty()

    run(main())


def test_quiet_streams_are_handed_over_after_a_while() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            new = await _successor(given)
            await given.clock.pass_sleep(OVERLAP, OVERLAP)
            await soon(old.closed.wait())
            await new.event(TRADES, trade(1))
            assert await ear.data() == trade(1)

    run(main())


def test_a_hole_between_two_lines_is_told() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            await old.event(TRADES, trade(1))
            assert await ear.data() == trade(1)
            new = await _successor(given)
            await new.event(TRADES, trade(5))
            await given.clock.pass_sleep(OVERLAP, OVERLAP)
            assert [(await ear.next())[0] for _ in range(3)] == ["lost", "live", "frame"]

    run(main())


def test_an_old_line_that_ends_early_is_followed_by_what_the_new_one_brought() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            streams.subscribe("ethusdt@trade", quiet := Ear())
            old = await live(given, ear, quiet)
            await old.event(TRADES, trade(1))
            assert await ear.data() == trade(1)
            new = await _successor(given)
            await given.clock.asleep(OVERLAP, OVERLAP)
            await new.event(TRADES, trade(2))
            old.cut()
            assert await ear.data() == trade(2)
            assert quiet.told.empty()

    run(main())


def test_a_successor_that_fails_leaves_the_old_line_in_use() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            await given.clock.asleep(LIFE - 1, LIFE)
            given.clock.advance(LIFE)
            (await given.venue.peer()).cut()
            await given.clock.pass_sleep(0.25, 0.5)
            await old.event(TRADES, trade(1))
            assert await ear.data() == trade(1)
            new = await given.venue.peer()
            await new.accept()
            await new.event(TRADES, trade(1))
            await soon(old.closed.wait())
            await new.event(TRADES, trade(2))
            assert await ear.data() == trade(2)

    run(main())


@pytest.mark.parametrize(
    "farewell",
    [
        {"stream": "!serverShutdown", "data": {"e": "serverShutdown", "E": 1}},
        {"e": "serverShutdown", "E": 1},
    ],
)
def test_a_venue_that_announces_its_end_is_left_for_a_new_line_at_once(farewell: dict[str, Any]) -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            await old.event(TRADES, trade(1))
            assert await ear.data() == trade(1)
            await old.say(farewell)
            new = await given.venue.peer()
            await new.accept()
            assert not old.closed.is_set()
            await new.event(TRADES, trade(2))
            await soon(old.closed.wait())
            assert await ear.data() == trade(2)
            assert ear.told.empty()
            assert "shutting" in (streams.status.last_error or "")

    run(main())


def test_a_stream_subscribed_while_lines_change_is_heard_on_the_new_one() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            new = await _successor(given)
            streams.subscribe(DEPTH, late := Ear())
            assert await old.accept() == [DEPTH]
            assert await new.accept() == [DEPTH]
            assert await late.next() == ("live", None)
            await given.clock.pass_sleep(OVERLAP, OVERLAP)
            await soon(old.closed.wait())
            await new.event(DEPTH, depth(1, 2))
            assert await late.data() == depth(1, 2)

    run(main())


def test_streams_without_a_count_go_on_after_a_hand_over() -> None:
    async def main() -> None:
        partial, unnumbered = "btcusdt@depth20", "btcusdt@news"

        def book(number: int) -> dict[str, Any]:
            return {"lastUpdateId": number, "bids": [], "asks": []}

        async with streaming() as (given, streams):
            one, two = Ear(), Ear()
            streams.subscribe(partial, one)
            streams.subscribe(unnumbered, two)
            old = await live(given, one, two)
            await old.event(partial, book(160))
            await old.event(unnumbered, {"text": "before"})
            assert (await one.data(), await two.data()) == (book(160), {"text": "before"})
            new = await _successor(given)
            await new.event(partial, book(160))
            await new.event(unnumbered, {"text": "after"})
            await soon(old.closed.wait())
            await new.event(partial, book(175))
            assert (await one.data(), await two.data()) == (book(175), {"text": "after"})
            assert (one.told.empty(), two.told.empty()) == (True, True)

    run(main())


def test_a_stream_that_only_the_next_line_is_refused_is_told_at_the_change_and_comes_back() -> None:
    async def main() -> None:
        async with streaming() as (given, streams):
            streams.subscribe(TRADES, ear := Ear())
            old = await live(given, ear)
            await given.clock.asleep(LIFE - 1, LIFE)
            given.clock.advance(LIFE)
            new = await given.venue.peer()
            message = await new.next()
            await new.say({"code": 2, "msg": "Invalid request", "id": message["id"]})
            await soon(old.closed.wait())
            kind, reason = await ear.next()
            assert (kind, reason) == ("lost", "the next connection does not bring it yet")
            assert "Invalid request" in (streams.status.last_error or "")
            assert await new.accept() == [TRADES]
            assert await ear.next() == ("live", None)
            await new.event(TRADES, trade(7))
            assert await ear.data() == trade(7)

    run(main())
