"""Trading desks under test: on a real socket of this process, asked over MCP."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, cast

from tests.support import Client, Reply
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.primitives.time import Clock
from tracedesk.serve import build_app, listen
from tracedesk.trading.trader import Trader
from tracedesk.wire.http import Bind, serving


@dataclass(slots=True)
class Agent:
    """A client that numbers its calls, and reads numbers exactly."""

    client: Client
    numbers: Any = field(default_factory=lambda: count(1))

    @property
    def trader(self) -> Trader:
        return cast("Trader", self.client.desk.states["trading"])

    async def raw(self, tool: str, id: str | None = None, **arguments: Any) -> Reply:
        return await self.client.call(tool, {"tool_call_id": id or f"call_{next(self.numbers)}", **arguments})

    async def call(self, tool: str, id: str | None = None, **arguments: Any) -> Any:
        """The answer of a call that succeeds, with `Decimal` for every fraction."""
        reply = await self.raw(tool, id, **arguments)
        result = json.loads(reply.body, parse_float=Decimal)["result"]
        assert result["isError"] is False, result
        return result["structuredContent"]

    async def refused(self, tool: str, id: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The envelope of a call that is refused."""
        return (await self.raw(tool, id, **arguments)).envelope

    async def buy(self, symbol: str, quantity: Any, id: str | None = None, **leg: Any) -> Any:
        trade = {"symbol": symbol, "action": "buy", "quantity": quantity, "order_type": "market", **leg}
        return await self.call("trade_execute", id, trades=[trade])


@asynccontextmanager
async def agent(
    home: Path,
    table: Mapping[str, Any] | None = None,
    *,
    clock: Clock | None = None,
    lazily: bool = False,
    beside: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncGenerator[Agent]:
    """An agent at a desk that serves the trading toolset, every answer checked against its contract."""
    chosen = Settings(
        home=home,
        toolsets=("trading", *beside),
        check_output=True,
        tables={"trading": table or {}},
        **settings,
    )
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener)
    async with open_desk(chosen, clock=clock, lazily=lazily) as desk:
        app, token = build_app(desk, bind)
        async with serving(app, bind):
            yield Agent(Client(desk, app, listener.getsockname()[1], token).authorised())
