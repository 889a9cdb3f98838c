"""Exchange desks under test: on a real socket of this process, at an exchange on another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from tests.exchange.local.support import Bench, bench
from tests.support import Client, Reply
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.exchange.provider import Provider
from tracedesk.exchange.units import units
from tracedesk.primitives.time import Clock, SystemClock
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving

PROFILE: Final = "main"
BUY: Final = {
    "symbol": "BTCUSDT",
    "side": "BUY",
    "order_type": "LIMIT",
    "time_in_force": "GTC",
    "quantity": "0.01",
    "price": "49900.00",
}
"""An order that rests below the book's best bid."""


@dataclass(slots=True)
class Agent:
    """A client of a desk, and the exchange behind it."""

    client: Client
    market: Bench

    @property
    def provider(self) -> Provider:
        return cast("Provider", self.client.desk.states["exchange"])

    def owner(self) -> Agent:
        """The same desk, asked with the owner's token."""
        return Agent(self.client.authorised(), self.market)

    def bearing(self, token: str) -> Agent:
        """The same desk, asked with another token."""
        return Agent(replace(self.client, extra={"Authorization": f"Bearer {token}"}), self.market)

    async def session(self) -> Agent:
        """The same desk, asked in a session of its own."""
        return Agent(await self.client.open_session(), self.market)

    async def raw(self, tool: str, **arguments: Any) -> Reply:
        return await self.client.call(tool, arguments)

    async def call(self, tool: str, **arguments: Any) -> Any:
        return (await self.raw(tool, **arguments)).structured

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return (await self.raw(tool, **arguments)).envelope["error"]

    async def finds(self, ref: str) -> bool:
        """Whether a reference leads to something for this client."""
        found = (await self.raw("get_source", ref=ref)).json["result"]
        assert not found["isError"] or "NOT_FOUND" in found["content"][0]["text"], found
        return not found["isError"]

    async def read(self, uri: str) -> str:
        reply = await self.client.modern("resources/read", {"uri": uri})
        assert "result" in reply.json, reply.json
        return reply.json["result"]["contents"][0]["text"]

    async def unread(self, uri: str) -> dict[str, Any]:
        """The protocol error of a resource that cannot be read."""
        return (await self.client.modern("resources/read", {"uri": uri})).json["error"]

    async def prompt(self, name: str, **arguments: str) -> str:
        reply = await self.client.modern("prompts/get", {"name": name, "arguments": arguments})
        assert "result" in reply.json, reply.json
        [message] = reply.json["result"]["messages"]
        assert message["role"] == "user"
        return message["content"]["text"]

    async def unprompted(self, name: str, **arguments: str) -> dict[str, Any]:
        return (await self.client.modern("prompts/get", {"name": name, "arguments": arguments})).json["error"]

    async def placed(self, **order: Any) -> Any:
        """An order, previewed and placed."""
        asked = {**BUY, **order}
        token = (await self.call("preview_order", **asked))["preview_token"]
        return await self.call("place_order", **asked, preview_token=token)


@asynccontextmanager
async def pulsing(market: Bench) -> AsyncGenerator[None]:
    """Publish the exchange's timed streams, as its host does."""

    async def beat() -> None:
        while True:
            market.pulse()
            await asyncio.sleep(0.05)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


def keys_file(home: Path, api_key: str, secret: str) -> str:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "main.keys"
    path.write_text(f"api_key = {api_key}\nsecret = {secret}\n")
    path.chmod(0o600)
    return path.name


def table_of(market: Bench, home: Path, mode: str = "testnet") -> dict[str, Any]:
    """Settings under which a desk takes the exchange of the test for the venue of `mode`."""
    found = market.address
    table: dict[str, Any] = {
        "mode": mode,
        "addresses": {"rest": found.rest, "streams": found.streams, "ws_api": found.ws_api},
        "profile": PROFILE,
        "profiles": {
            PROFILE: {"mode": mode, "file": keys_file(home, market.key.api_key, market.key.material)}
        },
    }
    if mode == "live":
        table |= {"live_trading": True, "allowed_symbols": ["BTCUSDT"]}
    return table


@asynccontextmanager
async def agent(
    home: Path,
    table: Mapping[str, Any] | None = None,
    *,
    mode: str = "testnet",
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncGenerator[Agent]:
    """An agent without a token at a desk, whose answers are all checked against their contracts."""
    async with bench(SystemClock()) as market, pulsing(market):
        market.exchange.venue.flow_market("BTCUSDT", "BUY", units("0.1"))
        tables = {"exchange": {**table_of(market, home, mode), **(table or {})}}
        chosen = Settings(home=home, toolsets=("exchange",), check_output=True, tables=tables, **settings)
        listener = listen("127.0.0.1", 0)
        bind = Bind(listener)
        async with open_desk(chosen, clock=clock) as desk:
            app, token = build_app(desk, bind)
            async with serving(app, bind):
                yield Agent(Client(desk, app, listener.getsockname()[1], token), market)


def text(result: Any) -> str:
    return json.dumps(result, ensure_ascii=False)
