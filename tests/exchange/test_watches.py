"""Subscriptions: followed once for all, told not too often, and account news to their owner alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest

from tests.exchange.desks import Agent, agent
from tests.support import run, until
from tracedesk.errors import ToolError
from tracedesk.exchange.credentials.keys import Keys
from tracedesk.exchange.feeds.market import Market
from tracedesk.exchange.link import Site
from tracedesk.exchange.units import units
from tracedesk.exchange.watches import APART

MARKET = "binance://market/btcusdt"
OPEN = "binance://orders/open"


@dataclass(eq=False)
class Ear:
    """A subscriber that notes when it was told."""

    uri: str
    scope: str = "principal:owner"
    principal: str | None = "owner"
    may_read: bool = True
    times: list[float] = field(default_factory=list[float])

    def notify(self) -> CoroutineType[Any, Any, None]:
        # Noted when it is told, not when the loop gets to run what was told.
        self.times.append(asyncio.get_running_loop().time())
        return self._heard()

    async def _heard(self) -> None: ...


def trade(client: Agent) -> None:
    client.market.exchange.venue.flow_market("BTCUSDT", "BUY", units("0.001"))


def test_changes_of_a_market_are_told_at_most_once_a_second_and_the_last_is_never_lost(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            ear = Ear(MARKET)
            await client.provider.watches.begin(ear, "btcusdt")
            await until(lambda: bool(ear.times))
            told = 0
            for _ in range(30):
                trade(client)
                told = len(ear.times)
                await asyncio.sleep(0.05)
            await until(lambda: len(ear.times) > told)
            gaps = [late - early for early, late in zip(ear.times, ear.times[1:], strict=False)]
            assert min(gaps) >= APART - 0.01

    run(main())


def test_a_market_is_followed_once_for_all_and_let_go_with_the_last(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            watches = client.provider.watches
            one, two = Ear(MARKET), Ear(MARKET, "anonymous", None)
            await watches.begin(one, "btcusdt")
            await watches.begin(two, "BTCUSDT")
            site = await client.provider.site()
            market = site.feeds.market("BTCUSDT")
            assert market is not None
            assert len(market.holders) == 2
            watches.end(one)
            assert len(market.holders) == 1
            trade(client)
            told = len(one.times)
            await until(lambda: bool(two.times))
            assert len(one.times) == told
            watches.end(two)
            assert market.holders == set()
            assert len(watches) == 0

    run(main())


def test_news_of_an_account_reach_its_owner_and_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            ear = Ear(OPEN)
            await client.provider.watches.begin(ear, None)
            stranger = Ear(OPEN, "anonymous", None)
            with pytest.raises(ToolError) as refused:
                await client.provider.watches.begin(stranger, None)
            assert refused.value.code == "CREDENTIALS_REQUIRED"
            await until(lambda: bool(ear.times))
            told = len(ear.times)
            await owner.placed()
            await until(lambda: len(ear.times) > told)
            assert stranger.times == []

    run(main())


def test_an_account_is_followed_no_longer_than_its_keys_are_there_and_the_next_one_instead(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"profile": "", "profiles": {}}) as client:
            provider, scope = client.provider, "session:one"
            issued = [client.market.exchange.keys.issue("bob") for _ in range(2)]
            first, second = (Keys(key.api_key, secret=key.material) for key in issued)
            provider.accounts.bring(scope, first)
            ear = Ear(OPEN, scope, None)
            await provider.watches.begin(ear, None)
            feeds = (await provider.site()).feeds
            await until(lambda: feeds.status()["accounts"] == 1)
            provider.ended(scope)
            assert feeds.status()["accounts"] == 0
            await provider.watches.renew()
            assert feeds.status()["accounts"] == 0
            provider.accounts.bring(scope, second)
            await provider.watches.renew()
            assert feeds.status()["accounts"] == 1
            told = len(ear.times)
            await until(lambda: len(ear.times) > told)
            provider.watches.end(ear)
            assert feeds.status()["accounts"] == 0

    run(main())


def test_pages_of_an_account_follow_the_profile_that_is_chosen(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            ear = Ear(OPEN)
            await client.provider.watches.begin(ear, None)
            feeds = (await client.provider.site()).feeds
            assert feeds.status()["accounts"] == 1
            await client.owner().call("connect", profile="main")
            assert feeds.status()["accounts"] == 0
            await client.provider.watches.renew()
            assert feeds.status()["accounts"] == 1

    run(main())


def test_a_subscription_that_cannot_be_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            session = await client.session()

            async def subscribed(uri: str) -> Any:
                message = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}}
                return (await session.client.post("/mcp", message)).json

            assert "Did you mean BTCUSDT" in (await subscribed("binance://market/btcusd"))["error"]["message"]
            assert "names no symbol" in (await subscribed("binance://market/"))["error"]["message"]
            assert "bearer token" in (await subscribed(OPEN))["error"]["message"]
            past = await subscribed("binance://orders/history/btcusd")
            assert "Did you mean BTCUSDT" in past["error"]["message"]
            assert "result" in await subscribed(MARKET)
            assert len(client.provider.watches) == 1
            await session.client.request("DELETE", "/mcp")
            await until(lambda: len(client.provider.watches) == 0)

    run(main())


def test_a_fault_of_one_subscription_keeps_no_other_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            watches, good = client.provider.watches, Ear(MARKET)
            await watches.begin(Ear("binance://market/ethusdt"), "ethusdt")
            await watches.begin(good, "btcusdt")
            leases = client.provider.leases
            acquire = leases.acquire

            async def failing(site: Site, symbol: str, holder: str) -> Market:
                if symbol == "ethusdt":
                    raise KeyError("filterType")
                return await acquire(site, symbol, holder)

            monkeypatch.setattr(leases, "acquire", failing)
            await client.provider.link.close()
            await client.provider.site()
            with pytest.raises(KeyError):
                await watches.renew()
            told = len(good.times)
            await until(lambda: len(good.times) > told)

    run(main())


def test_a_subscription_outlives_a_venue_that_moves(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            ear = Ear(MARKET)
            await client.provider.watches.begin(ear, "btcusdt")
            await client.provider.link.close()
            told = len(ear.times)
            await client.provider.site()
            await client.provider.watches.renew()
            await until(lambda: len(ear.times) > told)

    run(main())
