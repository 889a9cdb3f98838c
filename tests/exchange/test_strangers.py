"""Callers not known to be the desk's own user: markets are open to them, and accounts of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.exchange.desks import Agent, agent, text
from tests.exchange.test_accounts import (
    ACCOUNT_TOOLS,
    ACCOUNT_URIS,
    NO_PROFILE,
    elicited,
    handshake,
    message,
)
from tests.exchange.test_key_page import ask
from tests.support import rpc, run
from tracedesk.exchange.credentials.keys import Keys

FORWARDED: Final = {"X-Forwarded-For": "203.0.113.7"}
"""What makes a caller one whose user cannot be known."""
SIM: Final[dict[str, Any]] = {"mode": "sim", "profile": ""}


def stranger(client: Agent) -> Agent:
    return Agent(replace(client.client, extra={**client.client.extra, **FORWARDED}), client.market)


async def played(client: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the desk take the test's exchange for its local one."""
    key = client.market.exchange.keys.issue("bob")

    async def issued(account: str) -> Keys:
        return Keys(key.api_key, secret=key.material)

    monkeypatch.setattr(client.provider.link, "sim_keys", issued)


def test_a_stranger_reads_markets_as_pages_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path, SIM) as client:
            await played(client, monkeypatch)
            other = stranger(client)
            assert "BTCUSDT" in await other.read("binance://market/btcusdt")
            assert "BTCUSDT" in await other.prompt("trading_analysis", symbol="BTCUSDT")
            more: tuple[tuple[str, dict[str, Any]], ...] = (
                ("get_ticker", {"symbol": "BTCUSDT"}),
                ("provider_status", {}),
            )
            for tool, arguments in (*ACCOUNT_TOOLS, *more):
                refused = await other.raw(tool, **arguments)
                assert refused.status == 401, tool
                assert 'scope="read"' in refused.headers["www-authenticate"]
            for uri in ACCOUNT_URIS:
                assert (await other.client.modern("resources/read", {"uri": uri})).status == 401, uri
            assert (await client.call("get_account"))["account"] == "sim/default"

    run(main())


def test_a_prompt_on_the_portfolio_is_open_to_a_stranger_and_shows_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path, SIM) as client:
            await played(client, monkeypatch)
            own = await client.prompt("portfolio_risk")
            assert "sim/default" in own
            risk = await stranger(client).prompt("portfolio_risk")
            assert "Data unavailable" in risk
            assert "sim/default" not in risk
            assert "USDT" not in risk

    run(main())


def test_a_stranger_follows_markets_and_no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with agent(tmp_path, SIM) as client:
            await played(client, monkeypatch)
            session = await stranger(client).session()
            for uri, status in (("binance://market/btcusdt", 200), *((uri, 401) for uri in ACCOUNT_URIS)):
                reply = await session.client.post("/mcp", rpc("resources/subscribe", {"uri": uri}))
                assert reply.status == status, (uri, reply)
            assert len(client.provider.watches) == 1
            listening = {"notifications": {"resourceSubscriptions": [ACCOUNT_URIS[0]]}}
            refused = await session.client.modern("subscriptions/listen", listening)
            assert refused.status == 401

    run(main())


def test_connect_shows_a_stranger_no_account_of_the_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path, SIM) as client:
            await played(client, monkeypatch)
            connected = await stranger(client).call("connect")
            assert (connected["credentials"], connected["account"]) == ("none", None)
            handle = connected["connection_id"]
            assert (await stranger(client).raw("get_account", connection_id=handle)).status == 401
            # A handle is of use to nobody else, also not to one who may read.
            assert "Call connect" in (await client.refused("get_account", connection_id=handle))["message"]
            assert (await stranger(client).raw("connect", profile="main")).status == 401

    run(main())


def test_a_stranger_with_keys_of_its_own_reads_its_own_account_by_its_handle(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, NO_PROFILE) as client:
            other, key = stranger(client), client.market.exchange.keys.issue("bob")
            handle = (await other.call("connect"))["connection_id"]
            await elicited(other, connection_id=handle, enter_keys=True)
            page = client.provider.pages.of(f"connection:{handle}")
            assert page is not None
            assert (
                await ask(page, urlencode({"api_key": key.api_key, "secret": key.material}))
            ).status == 200
            for tool, arguments in ACCOUNT_TOOLS:
                reply = await other.raw(tool, **arguments, connection_id=handle)
                assert reply.status == 200, (tool, reply)
            account = await other.call("get_account", connection_id=handle)
            assert account["account"].startswith("testnet/key-")
            assert (await other.raw("get_account")).status == 401
            assert (await other.raw("provider_status")).status == 401
            for odd in (1, None, ["x"], "x"):
                assert (await other.raw("get_account", connection_id=odd)).status == 401

    run(main())


def test_a_strangers_session_that_brought_keys_reads_and_follows_its_own_account(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {**NO_PROFILE, "header_credentials": True}) as client:
            key = client.market.exchange.keys.issue("bob")
            session = await handshake(stranger(client), key=key.api_key, secret=key.material)
            assert (await message(session, "get_account"))["account"].startswith("testnet/key-")
            for method in ("resources/read", "resources/subscribe"):
                for uri in ACCOUNT_URIS:
                    reply = await session.client.post("/mcp/message", rpc(method, {"uri": uri}))
                    assert (reply.status, "result" in reply.json) == (200, True), (method, uri, reply)
            risk = await session.client.post("/mcp/message", rpc("prompts/get", {"name": "portfolio_risk"}))
            assert "testnet/key-" in text(risk.json)
            other = await handshake(stranger(client))
            call = rpc("tools/call", {"name": "get_account", "arguments": {}})
            assert (await other.client.post("/mcp/message", call)).status == 401

    run(main())


def test_when_a_strangers_keys_end_what_it_followed_moves_to_no_account_of_the_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path, {**SIM, "header_credentials": True}) as client:
            await played(client, monkeypatch)
            key = client.market.exchange.keys.issue("carol")
            session = await handshake(stranger(client), key=key.api_key, secret=key.material)
            subscribe = rpc("resources/subscribe", {"uri": ACCOUNT_URIS[0]})
            assert "result" in (await session.client.post("/mcp/message", subscribe)).json
            assert (await message(session, "connect", end=True))["ended"] is True
            await client.provider.watches.renew()
            assert [account.name for account in client.provider.accounts.opened] == []

    run(main())


def test_the_symbols_of_a_market_are_completed_for_a_stranger_and_nothing_else_is(tmp_path: Path) -> None:
    def completing(uri: str) -> dict[str, Any]:
        ref = {"type": "ref/resource", "uri": uri}
        return {"ref": ref, "argument": {"name": "symbol", "value": "BTC"}}

    async def main() -> None:
        async with agent(tmp_path) as client:
            other = stranger(client)
            await client.read("binance://market/btcusdt")
            market = completing("binance://market/{symbol}")
            found = (await other.client.modern("completion/complete", market)).json
            assert found["result"]["completion"]["values"] == ["BTCUSDT"]
            history = completing("binance://orders/history/{symbol}")
            assert (await other.client.modern("completion/complete", history)).status == 401

    run(main())
