"""The resources: pages that state what they show, and notices when they change."""

from __future__ import annotations

import re
from pathlib import Path

from tests.exchange.desks import agent
from tests.exchange.venue.support import entry
from tests.support import run, until
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.resources import day_table

STATED = re.compile(
    r"^Mode: \*\*testnet\*\* \(.+\) · as of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z · data age \d+ ms", re.M
)


def test_the_five_resources_are_listed_for_everyone_and_are_markdown(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            fixed = (await client.client.modern("resources/list")).json["result"]["resources"]
            assert {r["uri"] for r in fixed if r["uri"].startswith("binance:")} == {
                "binance://account/balances",
                "binance://account/holdings",
                "binance://orders/open",
            }
            listed = (await client.client.modern("resources/templates/list")).json["result"][
                "resourceTemplates"
            ]
            ours = [r for r in listed if r["uriTemplate"].startswith("binance:")]
            assert {r["uriTemplate"] for r in ours} == {
                "binance://market/{symbol}",
                "binance://orders/history/{symbol}",
            }
            assert {r["mimeType"] for r in ours} == {"text/markdown"}

    run(main())


def test_a_market_shows_its_day_its_best_levels_and_the_spread(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            page = await client.read("binance://market/btcusdt")
            assert page.startswith("# BTCUSDT\n")
            assert STATED.search(page)
            assert "| Last price | 50001.00 |" in page
            assert "| 1.00000 | 50000.00 | 50001.00 | 0.90000 |" in page
            assert "Spread: 1.00 USDT (0.2000 bps of the mid)." in page
            assert page.endswith("Book: followed.\n")

    run(main())


def test_a_day_without_volumes_leaves_their_places_empty() -> None:
    instrument = Instrument.of(entry())
    shown = day_table(instrument, {"last_price": "50001", "quote_volume": "7.5"})
    assert shown.splitlines()[2:] == [
        "| Last price | 50001.00 |",
        "| Volume (BTC) | — |",
        "| Volume (USDT) | 7.5 |",
        "| Trades | — |",
    ]


def test_a_market_may_be_cached_for_everyone_for_a_second_and_an_account_for_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            found = [
                (await owner.client.modern("resources/read", {"uri": uri})).json["result"]
                for uri in ("binance://market/btcusdt", "binance://account/balances")
            ]
            assert [(r["ttlMs"], r["cacheScope"]) for r in found] == [(1000, "public"), (0, "private")]

    run(main())


def test_the_account_pages_follow_an_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            assert "No order is open." in await owner.read("binance://orders/open")
            placed = await owner.placed()
            account = await client.provider.accounts.of(Caller.of_scope("principal:owner", "owner"))
            feed = await client.provider.leases.account(account, "test")
            await until(lambda: bool(feed.open_orders))
            shown = await owner.read("binance://orders/open")
            assert STATED.search(shown)
            assert f"| {placed['order_id']} | BTCUSDT | BUY | LIMIT | 49900.00000000 | 0.01000000 |" in shown
            balances = await owner.read("binance://account/balances")
            assert "| USDT | 999501.00000000 | 499.00000000 | 1000000.00000000 |" in balances
            assert "account testnet/main" in balances
            worth = await owner.read("binance://account/holdings")
            assert "Valued in **USDT** at last prices." in worth
            assert "| BTC | 10.00000000 | 50001.00000000 | 500010.00000000 |" in worth
            history = await owner.read("binance://orders/history/BTCUSDT")
            assert f"| {placed['order_id']} | BTCUSDT |" in history

    run(main())


def test_a_market_whose_book_is_lost_is_asked_for_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            await client.read("binance://market/btcusdt")
            assert client.provider.link.current is not None
            market = client.provider.link.current.feeds.market("BTCUSDT")
            assert market is not None
            market.sync.lost()
            page = await client.read("binance://market/btcusdt")
            assert "Book: asked just now, for the followed book is" in page or page.endswith(
                "Book: followed.\n"
            )
            assert "| 1.00000 | 50000.00 | 50001.00 | 0.90000 |" in page

    run(main())


def test_symbols_complete_in_a_template(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            params = {
                "ref": {"type": "ref/resource", "uri": "binance://market/{symbol}"},
                "argument": {"name": "symbol", "value": "eth"},
            }
            found = (await client.client.modern("completion/complete", params)).json["result"]["completion"]
            assert found["values"] == ["ETHUSDT", "ETHBTC"]

    run(main())


def test_a_market_nobody_has_read_for_ten_minutes_is_let_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            await client.read("binance://market/btcusdt")
            provider = client.provider
            assert provider.link.current is not None
            market = provider.link.current.feeds.market("BTCUSDT")
            assert market is not None
            assert market.holders == {"anonymous"}
            markets = provider.leases._markets  # pyright: ignore[reportPrivateUsage]
            for key in markets:
                markets[key] -= 601
            provider.leases.sweep()
            assert market.holders == set()

    run(main())
