"""Who holds which market: one subscription for all, a grace after the last, and room for twenty."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.exchange.client.scripted import Bench, Peer, Said, bench, run, soon
from tests.exchange.feeds.support import local
from tests.exchange.local.support import eventually
from tests.support import BOUND
from tracedesk.errors import ToolError
from tracedesk.exchange.feeds.feeds import CAPACITY, GRACE, Feeds


def _listed(*symbols: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "status": "TRADING",
        "baseAsset": "A",
        "quoteAsset": "B",
        "orderTypes": [],
        "filters": [],
    }
    return {"rateLimits": [], "symbols": [{"symbol": symbol, **entry} for symbol in symbols]}


def _feeds(given: Bench, *symbols: str, **settings: Any) -> Feeds:
    given.venue.always("GET", "exchangeInfo", lambda asked: Said(body=_listed(*symbols)))
    book = {"lastUpdateId": 5, "bids": [["1.00000000", "1.00000000"]], "asks": [["2.00000000", "1.00000000"]]}
    given.venue.always("GET", "depth", lambda asked: Said(body=book))
    given.venue.always("GET", "trades", lambda asked: Said(body=[]))
    return Feeds(given.client, **settings)


async def _changes(peer: Peer, method: str) -> list[str]:
    message = await peer.next()
    assert message["method"] == method
    await peer.say({"result": None, "id": message["id"]})
    return message["params"]


def test_many_holders_are_one_subscription_of_four_streams() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT")
            one = await feeds.acquire("btcusdt", "ann")
            assert await feeds.acquire("BTCUSDT", "bob") is one
            assert await feeds.acquire("BtcUsdt", "ann") is one
            assert one.holders == {"ann", "bob"}
            peer = await given.venue.peer()
            names = await _changes(peer, "SUBSCRIBE")
            assert names == [f"btcusdt@{kind}" for kind in ("depth@100ms", "bookTicker", "trade", "ticker")]
            await given.clock.pass_sleep(0.5, 0.5)
            assert await soon(one.ready(5.0))
            assert given.venue.count("GET", "exchangeInfo") == 1
            assert given.venue.count("GET", "depth") == 1
            await feeds.close()

    run(main())


def test_the_last_holder_starts_a_grace_after_which_the_market_is_closed() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT", "ETHUSDT")
            await feeds.acquire("ETHUSDT", "keeper")
            await feeds.acquire("BTCUSDT", "ann")
            market = await feeds.acquire("BTCUSDT", "bob")
            peer = await given.venue.peer()
            await _changes(peer, "SUBSCRIBE")
            feeds.release("btcusdt", "ann")
            feeds.release("BTCUSDT", "ann")
            feeds.release("BTCUSDT", "nobody")
            feeds.release_all("bob")
            await given.clock.asleep(GRACE, GRACE)
            given.clock.advance(GRACE - 1)
            assert feeds.market("BTCUSDT") is market
            again = await feeds.acquire("BTCUSDT", "cid")
            assert again is market
            given.clock.advance(GRACE)
            feeds.release("BTCUSDT", "cid")
            await given.clock.pass_sleep(GRACE, GRACE)
            assert sorted(await _changes(peer, "UNSUBSCRIBE")) == sorted(
                f"btcusdt@{kind}" for kind in ("depth@100ms", "bookTicker", "trade", "ticker")
            )
            assert feeds.market("BTCUSDT") is None
            assert [each.symbol for each in feeds.markets()] == ["ETHUSDT"]
            await feeds.close()

    run(main())


def test_a_market_is_held_for_as_long_as_a_block_runs() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT")
            async with feeds.held("btcusdt", "call-1") as market:
                assert market.holders == {"call-1"}
            assert market.holders == set()
            await feeds.close()

    run(main())


def test_the_21st_symbol_is_refused_with_the_remedy_and_one_in_grace_makes_room() -> None:
    async def main() -> None:
        async with bench() as given:
            symbols = [f"S{number:02d}USDT" for number in range(CAPACITY + 1)]
            feeds = _feeds(given, *symbols)
            for symbol in symbols[:-1]:
                await feeds.acquire(symbol, "ann")
            with pytest.raises(ToolError) as refusal:
                await feeds.acquire(symbols[-1], "bob")
            assert refusal.value.code == "LIMIT_EXCEEDED"
            assert "20 symbols are watched already" in refusal.value.message
            assert "end a subscription" in refusal.value.message
            await feeds.acquire(symbols[3], "bob")
            feeds.release(symbols[7], "ann")
            feeds.release(symbols[5], "ann")
            await feeds.acquire(symbols[-1], "bob")
            assert feeds.market(symbols[7]) is None
            assert feeds.market(symbols[5]) is not None
            assert len(feeds.markets()) == CAPACITY
            await feeds.close()

    run(main())


def test_a_symbol_that_is_not_listed_is_refused_with_those_that_look_like_it() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT", "BTCUSDC", "ETHBTC")
            with pytest.raises(ToolError) as refusal:
                await feeds.acquire("BTCUSD", "ann")
            assert refusal.value.code == "INVALID_SYMBOL"
            assert "BTCUSDT" in refusal.value.message
            assert set((refusal.value.details or {})["near"]) >= {"BTCUSDT", "BTCUSDC"}
            assert feeds.markets() == []
            assert given.venue.peers.empty()
            with pytest.raises(ToolError, match="get_exchange_info"):
                await feeds.acquire("￿￿￿￿", "ann")
            assert given.venue.count("GET", "exchangeInfo") == 1

    run(main())


def test_a_listing_is_renewed_after_an_hour_and_for_a_symbol_that_is_new() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT")
            assert (await feeds.listing.instrument("BTCUSDT")).base == "A"
            given.venue.always("GET", "exchangeInfo", lambda asked: Said(body=_listed("BTCUSDT", "新币USDT")))
            given.clock.advance(61.0)
            assert (await feeds.listing.instrument("新币usdt")).symbol == "新币USDT"
            assert feeds.listing.symbols("b") == ["BTCUSDT"]
            given.clock.advance(3600.0)
            await feeds.listing.info()
            assert given.venue.count("GET", "exchangeInfo") == 3

    run(main())


def test_an_old_listing_serves_while_the_venue_is_away_and_the_status_says_so() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT")
            await feeds.listing.info()
            given.venue.always(
                "GET", "exchangeInfo", lambda asked: Said(400, {"code": -1016, "msg": "Closed."})
            )
            given.clock.advance(3601.0)
            assert (await feeds.listing.instrument("BTCUSDT")).symbol == "BTCUSDT"
            assert "Closed" in (feeds.status()["last_error"] or "")
            fresh = Feeds(given.client)
            with pytest.raises(ToolError, match="Closed"):
                await fresh.acquire("BTCUSDT", "ann")

    run(main())


@pytest.mark.parametrize(
    "told", [{}, {"symbols": None}, {"symbols": [{"status": "TRADING"}]}, {"symbols": ["BTCUSDT"]}]
)
def test_a_listing_that_cannot_be_read_is_refused_and_replaces_no_other(told: dict[str, Any]) -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT")
            await feeds.listing.info()
            given.venue.always("GET", "exchangeInfo", lambda asked: Said(body=told))
            given.clock.advance(3601.0)
            assert (await feeds.listing.instrument("BTCUSDT")).symbol == "BTCUSDT"
            assert "cannot be read" in (feeds.status()["last_error"] or "")
            with pytest.raises(ToolError, match="listing of symbols cannot be read") as refused:
                await Feeds(given.client).acquire("BTCUSDT", "ann")
            assert refused.value.code == "VENUE_UNAVAILABLE"

    run(main())


def test_a_symbol_whose_listing_cannot_be_read_is_refused_by_name() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT")
            entries = _listed("BTCUSDT")["symbols"]
            del entries[0]["status"]
            given.venue.always("GET", "exchangeInfo", lambda asked: Said(body={"symbols": entries}))
            with pytest.raises(ToolError, match="listing of BTCUSDT cannot be read") as refused:
                await feeds.acquire("BTCUSDT", "ann")
            assert refused.value.code == "VENUE_UNAVAILABLE"

    run(main())


def test_several_who_ask_at_once_ask_the_venue_once() -> None:
    async def main() -> None:
        async with bench() as given:
            feeds = _feeds(given, "BTCUSDT", "ETHUSDT")
            asked = [feeds.acquire(symbol, f"h{n}") for n in range(5) for symbol in ("BTCUSDT", "ETHUSDT")]
            async with asyncio.timeout(BOUND):
                markets = await asyncio.gather(*asked)
            assert len({id(market) for market in markets}) == 2
            assert given.venue.count("GET", "exchangeInfo") == 1
            await feeds.close()

    run(main())


def test_the_status_counts_accounts_without_naming_them() -> None:
    async def main() -> None:
        async with local() as given:
            await given.market()
            account = await given.feeds.account(given.credentials, "ann")
            await eventually(lambda: account.status().state == "live")
            status = given.feeds.status()
            assert (status["venue"], status["connected"], status["accounts"]) == ("sim", True, 1)
            assert status["markets"][0]["state"] == "synced"
            assert status["clock_offset_ms"] == 0
            assert given.bench.key.api_key not in str(status)
            assert given.credentials.fingerprint not in str(status)

    run(main())
