"""The official MCP client drives everything over stdio and HTTP, in both eras, against a real exchange."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.exchange.desks import BUY, agent, pulsing, table_of
from tests.exchange.local.support import Bench, bench
from tests.exchange.test_tools import READS
from tests.official import Mode
from tests.support import BOUND, run
from tracedesk.exchange.units import units
from tracedesk.primitives.time import SystemClock

EVERY = [(transport, mode) for transport in ("stdio", "http") for mode in ("auto", "legacy")]
URIS = (
    "binance://market/btcusdt",
    "binance://account/balances",
    "binance://account/holdings",
    "binance://orders/open",
    "binance://orders/history/btcusdt",
)


class User:
    """A person in front of the client: enters keys on the page they are sent to, and hears of changes."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.pages: list[str] = []
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def asked(self, context: Any, params: Any) -> types.ElicitResult:
        self.pages.append(params.url)
        async with httpx2.AsyncClient() as browser:
            shown = await browser.get(params.url)
            assert shown.status_code == 200
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            sent = await browser.post(params.url, content=urlencode(self.keys), headers=form)
            assert sent.status_code == 200, sent.text
        return types.ElicitResult(action="accept")

    async def hears(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.told.put_nowait(str(message.params.uri))


def toml(table: dict[str, Any], path: str = "exchange") -> str:
    """A table of tracedesk.toml; JSON's texts and lists are TOML's too."""
    plain = {k: v for k, v in table.items() if not isinstance(v, dict)}
    lines = [f"[{path}]", *(f"{name} = {json.dumps(value)}" for name, value in plain.items())]
    inner = [toml(table[name], f"{path}.{name}") for name in table if name not in plain]
    return "\n".join([*lines, *inner]) + "\n"


@asynccontextmanager
async def official(
    transport: str, mode: Mode, home: Path, user: User
) -> AsyncGenerator[tuple[Client, Bench]]:
    """The official client of a desk at an exchange of this process."""
    hooks: dict[str, Any] = {"elicitation_callback": user.asked, "message_handler": user.hears, "mode": mode}
    if transport == "stdio":
        async with bench(SystemClock()) as market, pulsing(market):
            market.exchange.venue.flow_market("BTCUSDT", "BUY", units("0.1"))
            (home / "tracedesk.toml").write_text(toml(table_of(market, home)))
            words = [
                "-P",
                "-m",
                "tracedesk.cli",
                "--home",
                str(home),
                "serve",
                "--stdio",
                "--toolsets",
                "exchange",
            ]
            server = StdioServerParameters(command=sys.executable, args=words)
            async with Client(server, **hooks) as client:
                yield client, market
        return
    async with agent(home) as found:
        headers = {"Authorization": f"Bearer {found.client.token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            way = streamable_http_client(f"http://127.0.0.1:{found.client.port}/mcp", http_client=http)
            async with Client(way, **hooks) as client:
                yield client, found.market


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result)
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize(("transport", "mode"), EVERY)
def test_the_official_client_calls_every_tool_and_reads_every_resource_and_prompt(
    tmp_path: Path, transport: str, mode: Mode
) -> None:
    async def main() -> None:
        async with official(transport, mode, tmp_path, User()) as (client, _):
            listed = {tool.name for tool in (await client.list_tools()).tools}
            for tool, arguments in READS:
                assert (await call(client, tool, **arguments))["mode"] == "testnet"
            token = (await call(client, "preview_order", **BUY))["preview_token"]
            placed = await call(client, "place_order", **BUY, preview_token=token)
            found = await call(client, "get_order", symbol="BTCUSDT", order_id=placed["order_id"])
            assert found["order"]["status"] == "NEW"
            await call(client, "cancel_order", symbol="BTCUSDT", order_id=placed["order_id"])
            await call(client, "kill_switch", reason="the end")
            refused = await client.call_tool("preview_order", BUY)
            assert refused.is_error
            called = {tool for tool, _ in READS} | {
                "preview_order",
                "place_order",
                "get_order",
                "cancel_order",
                "kill_switch",
            }
            assert called == listed - {"desk_status", "get_source", "trace"}
            for uri in URIS:
                [page] = (await client.read_resource(uri)).contents
                assert isinstance(page, types.TextResourceContents)
                assert page.mime_type == "text/markdown"
                assert "Mode: **testnet**" in page.text
            for prompt in (await client.list_prompts()).prompts:
                wants = {"symbol": "BTCUSDT"} if prompt.arguments else {}
                [message] = (await client.get_prompt(prompt.name, wants)).messages
                assert message.role == "user"
                assert isinstance(message.content, types.TextContent)
                assert "## Your task" in message.content.text
            reference = types.PromptReference(type="ref/prompt", name="trading_analysis")
            done = await client.complete(reference, {"name": "strategy", "value": "c"})
            assert done.completion.values == ["conservative"]

    run(main())


@pytest.mark.parametrize(("transport", "mode"), EVERY)
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
def test_the_official_client_is_told_of_changes(tmp_path: Path, transport: str, mode: Mode) -> None:
    async def main() -> None:
        user = User()
        async with official(transport, mode, tmp_path, user) as (client, market):

            async def happens() -> None:
                while True:
                    market.exchange.venue.flow_market("BTCUSDT", "BUY", units("0.001"))
                    await asyncio.sleep(0.05)

            busy = asyncio.create_task(happens())
            try:
                uri = "binance://Market/BTCUSDT"
                if mode == "legacy":
                    await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
                    assert await asyncio.wait_for(user.told.get(), BOUND) == uri
                    await client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]
                else:
                    async with client.listen(resource_subscriptions=[uri]) as changes:
                        event: Any = await asyncio.wait_for(anext(aiter(changes)), BOUND)
                        assert event.uri == uri
            finally:
                busy.cancel()

    run(main())


@pytest.mark.parametrize(("transport", "mode"), EVERY)
def test_the_official_client_sends_its_user_to_the_page_for_keys(
    tmp_path: Path, transport: str, mode: Mode
) -> None:
    async def main() -> None:
        user = User()
        async with official(transport, mode, tmp_path, user) as (client, market):
            key = market.exchange.keys.issue("bob")
            user.keys = {"api_key": key.api_key, "secret": key.material}
            assert (await call(client, "connect"))["account"] == "testnet/main"
            made = await call(client, "connect", enter_keys=True)
            assert made["credentials"] == "own"
            assert made["account"].startswith("testnet/key-")
            assert len(user.pages) == 1
            assert (await call(client, "get_account"))["account"] == made["account"]
            await call(client, "connect", end=True)
            assert (await call(client, "get_account"))["account"] == "testnet/main"

    run(main())
