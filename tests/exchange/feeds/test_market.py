"""A live market: its book is the venue's or says that it is not, its trades have no hole."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.exchange.client.scripted import Said, bench, run, soon
from tests.exchange.feeds.support import Local, local
from tests.exchange.local.support import eventually
from tracedesk.exchange.feeds.feeds import Feeds
from tracedesk.exchange.feeds.market import Market
from tracedesk.exchange.units import units

ALL = 2**62


def _same(given: Local, market: Market) -> bool:
    """Whether the market shows exactly what the venue holds."""
    last, bids, asks = given.venue_book()
    book = market.sync.book
    return market.sync.last_update_id == last and (book.bids, book.asks) == (bids, asks)


def _trade(given: Local, quantity: str = "0.1", side: Any = "BUY") -> None:
    given.exchange.venue.flow_market("BTCUSDT", side, units(quantity))


def test_a_market_comes_into_step_and_follows_the_venue() -> None:
    async def main() -> None:
        async with local() as given:
            market = await given.market("btcusdt")
            assert _same(given, market)
            given.exchange.venue.flow_limit("BTCUSDT", "BUY", units("49995"), units("3"))
            _trade(given)
            await given.until(lambda: _same(given, market))
            assert market.touch() == (units("50000"), units("1"), units("50001"), units("0.9"))
            await eventually(lambda: len(market.tape.prints(0, ALL).id) == 1)
            prints, changes = market.tape.prints(0, ALL), market.tape.changed(0, ALL)
            assert (prints.price[0], prints.quantity[0], prints.maker[0]) == (units("50001"), units("0.1"), 0)
            rows = {
                (row[0], row[1], row[2])
                for row in zip(changes.price, changes.before, changes.after, strict=True)
            }
            assert rows == {(units("49995"), 0, units("3")), (units("50001"), units("1"), units("0.9"))}
            touches = market.tape.touches(0, ALL)
            assert touches.ask_quantity[-1] == units("0.9")

    run(main())


def test_the_status_says_what_is_true() -> None:
    async def main() -> None:
        async with local() as given:
            market = await given.feeds.acquire("BTCUSDT", "h")
            assert market.status().state == "starting"
            await given.until(lambda: market.sync.synced)
            before = market.status()
            assert (before.state, before.synced, before.resyncs, before.holders) == ("synced", True, 0, 1)
            given.bench.advance(2.0)
            assert 1990 <= (market.status().age_ms or 0) <= 3000
            given.exchange.cut()
            await eventually(lambda: market.status().state == "disconnected")
            assert not market.status().synced
            assert market.status().last_error == "the connection was cut"
            assert market.status().document()["state"] == "disconnected"
            await given.until(lambda: market.sync.synced)
            assert market.status().resyncs == 1
            assert given.feeds.status()["reconnects"] == 1
            assert _same(given, market)

    run(main())


@pytest.mark.parametrize("fault", ["drop_event", "duplicate_event", "reorder_event", "malformed"])
def test_a_book_that_left_the_stream_is_fetched_again_and_is_the_venues(fault: str) -> None:
    async def main() -> None:
        async with local() as given:
            market = await given.market()
            done = given.exchange.faults.set({"kind": fault, "on": "btcusdt@depth*", "times": 2})
            for number in range(6):
                given.exchange.venue.flow_limit("BTCUSDT", "BUY", units(f"499{number}0"), units("1"))
                given.bench.advance(0.1)
            await given.until(lambda: _same(given, market) and market.sync.synced)
            assert done.hit == 2
            if fault == "drop_event":
                assert market.status().resyncs >= 1
                assert "fetched again" in (market.status().last_error or "")

    run(main())


def test_a_snapshot_older_than_the_stream_is_asked_for_again_with_the_events_kept() -> None:
    async def main() -> None:
        async with local() as given:
            stale = given.exchange.faults.set({"kind": "stale_snapshot", "on": "*", "times": 4})
            await given.bench.get("depth", symbol="BTCUSDT")  # the book that will be served for too long
            _bid(given, 1)
            given.bench.advance(0.1)
            market = await given.feeds.acquire("BTCUSDT", "h")
            await eventually(lambda: given.client.streams.status.connected)
            shown: list[bool] = []
            market.listen(lambda told: shown.append(told.sync.synced))
            for number in range(2, 40):
                _bid(given, number)
                given.bench.advance(0.1)
                await given.work()
                assert not market.sync.synced or stale.hit == 4
            await given.until(lambda: _same(given, market) and market.sync.synced)
            assert stale.hit == 4
            assert shown[-1]

    run(main())


def _bid(given: Local, number: int) -> None:
    given.exchange.venue.flow_limit("BTCUSDT", "BUY", units(str(49_000 + number)), units("1"))


def test_whenever_it_says_synced_the_book_is_the_venues_through_a_bad_day() -> None:
    async def main() -> None:
        chance = Random(11)
        async with local() as given:
            market = await given.market()
            for fault, every in (
                ("drop_event", 17),
                ("duplicate_event", 5),
                ("reorder_event", 7),
                ("malformed", 23),
            ):
                given.exchange.faults.set({"kind": fault, "on": "btcusdt@depth*", "times": 0, "every": every})
            compared = 0
            for step in range(250):
                for _ in range(chance.randrange(4)):
                    _stir(given, chance)
                if step % 60 == 59:
                    given.exchange.cut()
                given.bench.advance(0.1)
                await given.work()
                if market.sync.synced and market.sync.last_update_id == given.venue_book()[0]:
                    assert _same(given, market)
                    compared += 1
            given.exchange.faults.clear()
            await given.until(lambda: market.sync.synced and _same(given, market))
            assert compared > 50
            assert market.status().resyncs >= 3

    run(main())


def test_a_change_of_lines_leaves_the_book_in_step_and_the_trades_whole() -> None:
    async def main() -> None:
        chance = Random(4)
        async with local() as given:
            _trade(given, "0.01")
            market = await given.market()
            streams = given.client.streams
            for step in range(120):
                _stir(given, chance)
                _trade(given, "0.01")
                if step % 30 == 10:
                    streams._keeper.renew()  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
                given.bench.advance(0.1)
                await given.work()
                assert market.status().state == "synced"
            await given.until(lambda: streams.status.rollovers == 4 and _same(given, market))
            assert (market.status().resyncs, streams.status.reconnects) == (0, 0)
            last = given.exchange.market.of("BTCUSDT").trades(1)[0]["id"]
            await eventually(lambda: _ids(market)[-1] == last)
            ids = _ids(market)
            assert ids == list(range(ids[0], last + 1))

    run(main())


def _stir(given: Local, chance: Random) -> None:
    venue, side = given.exchange.venue, chance.choice(("BUY", "SELL"))
    if chance.random() < 0.2:
        venue.flow_market("BTCUSDT", side, units("0.01"))
        return
    price = 50_000 - chance.randrange(1, 40) if side == "BUY" else 50_001 + chance.randrange(1, 40)
    venue.flow_limit("BTCUSDT", side, units(str(price)), units(f"0.{chance.randrange(1, 99):02d}"))


# --- trades -----------------------------------------------------------------------------------------


def _ids(market: Market) -> list[int]:
    return market.tape.prints(0, ALL).id.tolist()


def test_trades_before_the_first_look_are_on_the_tape() -> None:
    async def main() -> None:
        async with local() as given:
            for _ in range(5):
                _trade(given, "0.01")
            market = await given.market()
            await eventually(lambda: len(_ids(market)) == 5)
            _trade(given, "0.01")
            await eventually(lambda: len(_ids(market)) == 6)
            ids = _ids(market)
            assert ids == list(range(ids[0], ids[0] + 6))

    run(main())


def test_trades_missed_during_a_cut_are_asked_for_by_number() -> None:
    async def main() -> None:
        async with local() as given:
            _trade(given, "0.01")
            market = await given.market()
            await eventually(lambda: len(_ids(market)) == 1)
            given.exchange.cut()
            await eventually(lambda: market.status().state == "disconnected")
            for _ in range(7):
                _trade(given, "0.01")
            await given.until(lambda: len(_ids(market)) == 8)
            began = market.tape.coverage["prints"]
            assert began is not None
            assert began.dropped == 0
            _trade(given, "0.01")
            await eventually(lambda: len(_ids(market)) == 9)
            ids = _ids(market)
            assert ids == list(range(ids[0], ids[0] + 9))

    run(main())


def test_a_dropped_trade_is_asked_for_when_the_next_one_shows_it() -> None:
    async def main() -> None:
        async with local() as given:
            _trade(given, "0.01")
            market = await given.market()
            await eventually(lambda: len(_ids(market)) == 1)
            given.exchange.faults.set({"kind": "drop_event", "on": "btcusdt@trade", "times": 1})
            _trade(given, "0.01")
            _trade(given, "0.01")
            await eventually(lambda: len(_ids(market)) == 3)
            ids = _ids(market)
            assert ids == [ids[0], ids[0] + 1, ids[0] + 2]

    run(main())


# --- the day and changes ----------------------------------------------------------------------------


def test_the_days_figures_have_the_names_of_rest_from_the_stream_too() -> None:
    async def main() -> None:
        async with local() as given:
            market = await given.market()
            await eventually(lambda: market.ticker is not None)
            asked = set(market.ticker or {})
            _trade(given)
            await given.until(lambda: (market.ticker or {}).get("count") == 1)
            assert set(market.ticker or {}) == asked
            assert (market.ticker or {})["lastPrice"] == "50001.00000000"
            given.bench.advance(3.0)
            assert (market.ticker_age_ms() or 0) >= 2000

    run(main())


def test_changes_are_told_a_few_times_a_second_and_the_last_one_always() -> None:
    async def main() -> None:
        async with local() as given:
            market = await given.market()
            await eventually(lambda: market.ticker is not None)
            given.bench.advance(1.0)
            seen: list[int | None] = []
            stop = market.listen(lambda told: seen.append(told.sync.last_update_id))
            for number in range(20):
                given.exchange.venue.flow_limit("BTCUSDT", "BUY", units(f"49{number + 100}"), units("1"))
                given.bench.advance(0.1)
                await eventually(lambda: _same(given, market))
            await given.until(lambda: bool(seen) and seen[-1] == market.sync.last_update_id)
            assert 4 <= len(seen) <= 11
            stop()
            count = len(seen)
            given.exchange.venue.flow_limit("BTCUSDT", "BUY", units("49500"), units("1"))
            await given.until(lambda: _same(given, market))
            given.bench.advance(1.0)
            assert len(seen) == count

    run(main())


def test_waiting_for_a_market_that_does_not_come_into_step_ends() -> None:
    async def main() -> None:
        async with local() as given:
            given.exchange.faults.set({"kind": "error_before", "on": "depth", "times": 0, "status": 503})
            market = await given.feeds.acquire("BTCUSDT", "h")
            waiting = asyncio.ensure_future(market.ready(5.0))
            await given.until(waiting.done, step=1.0)
            assert waiting.result() is False
            await given.until(lambda: "503" in (market.status().last_error or ""))
            given.exchange.faults.clear()
            await given.until(lambda: market.sync.synced)
            assert await market.ready(5.0)

    run(main())


def test_quantities_beyond_the_tape_are_told_and_leave_the_book_right() -> None:
    async def main() -> None:
        async with bench() as given:
            huge = "100000000000.00000000"
            entry: dict[str, Any] = {"symbol": "X", "status": "TRADING", "baseAsset": "A", "quoteAsset": "B"}
            given.venue.always("GET", "exchangeInfo", lambda asked: Said(body={"symbols": [entry]}))
            book = {"lastUpdateId": 1, "bids": [["1.00000000", huge]], "asks": [["2.00000000", "1.00000000"]]}
            given.venue.always("GET", "depth", lambda asked: Said(body=book))
            given.venue.always("GET", "trades", lambda asked: Said(body=[]))
            feeds = Feeds(given.client)
            market = await feeds.acquire("X", "h")
            peer = await given.venue.peer()
            await peer.accept()
            level = {
                "e": "depthUpdate",
                "E": 9,
                "s": "X",
                "U": 2,
                "u": 2,
                "b": [["1.00000000", "7"]],
                "a": [],
            }
            await peer.event("x@depth@100ms", level)
            assert await soon(market.ready(5.0))
            changed = {**level, "U": 3, "u": 3, "b": [["1.00000000", huge]]}
            await peer.event("x@depth@100ms", changed)
            await peer.event("x@bookTicker", {"u": 3, "s": "X", "b": "1", "B": huge, "a": "2", "A": "1"})
            trade = {"e": "trade", "E": 9, "s": "X", "t": 1, "p": "1", "q": huge, "T": 9, "m": True}
            await peer.event("x@trade", trade)
            await peer.event("x@trade", {**trade, "t": 2, "q": "1"})
            await eventually(lambda: market.sync.last_update_id == 3 and len(market.tape.prints(0, ALL)) == 1)
            assert market.touch() == (units("1"), units(huge), units("2"), units("1"))
            assert "too large for the tape" in (market.status().last_error or "")
            assert market.tape.prints(0, ALL).id.tolist() == [2]
            assert len(market.tape.touches(0, ALL)) == len(market.tape.changed(0, ALL)) == 0
            assert given.client.streams.status.malformed == 0
            await feeds.close()

    run(main())
