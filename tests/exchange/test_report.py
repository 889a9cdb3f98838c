"""The market report: its sections, its options, its cache, and what happens when a part fails."""

from __future__ import annotations

from pathlib import Path

from tests.exchange.desks import agent
from tests.support import run

SECTIONS = [
    "Price",
    "Order book",
    "Liquidity",
    "Order flow",
    "Anomalies",
    "Health of the market",
    "Health of the data",
]


def headings(markdown: str) -> list[str]:
    return [line.removeprefix("## ") for line in markdown.splitlines() if line.startswith("## ")]


def test_a_report_has_all_sections_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            made = await client.call("generate_market_report", symbol="btcusdt")
            assert headings(made["markdown"]) == SECTIONS
            assert made["markdown"].startswith("# Market report: BTCUSDT\n\nMode: **testnet**")
            assert made["failed_sections"] == []
            assert made["from_cache"] is False
            assert "| Last price | 50001.00 |" in made["markdown"]
            assert "Insufficient data" in made["markdown"]

    run(main())


def test_only_the_asked_for_sections_are_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            options = {"include_sections": ["data_health", "price_overview"]}
            made = await client.call("generate_market_report", symbol="BTCUSDT", options=options)
            assert headings(made["markdown"]) == ["Price", "Health of the data"]

    run(main())


def test_a_report_is_given_again_for_a_minute_unless_a_fresh_one_is_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            first = await client.call("generate_market_report", symbol="BTCUSDT")
            again = await client.call("generate_market_report", symbol="BTCUSDT")
            assert (again["from_cache"], again["markdown"]) == (True, first["markdown"])
            assert again["data_age_ms"] >= first["data_age_ms"]
            fresh = await client.call(
                "generate_market_report", symbol="BTCUSDT", options={"force_refresh": True}
            )
            assert fresh["from_cache"] is False
            other = await client.call(
                "generate_market_report", symbol="BTCUSDT", options={"orderbook_levels": 5}
            )
            assert other["from_cache"] is False
            assert "Imbalance of the best 5 levels" in other["markdown"]

    run(main())


def test_a_section_that_fails_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            await client.call("orderbook_l2", symbol="BTCUSDT")
            assert client.provider.link.current is not None
            market = client.provider.link.current.feeds.market("BTCUSDT")
            assert market is not None
            market.ticker = None
            client.market.exchange.faults.set(
                {"kind": "error_before", "on": "ticker.24hr", "times": 0, "status": 503}
            )
            made = await client.call("generate_market_report", symbol="BTCUSDT")
            assert made["failed_sections"] == ["price_overview"]
            assert headings(made["markdown"]) == SECTIONS
            assert "*Data unavailable.*" in made["markdown"]

    run(main())
