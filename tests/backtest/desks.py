"""Backtest desks under test: on a real socket of this process, asked over MCP about recorded runs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

from tests.support import Client, Reply
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.recorder import Recorder
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.serve import build_app, listen
from tracedesk.wire.http import Bind, serving

T0: Final = 1_735_828_200_000_000_000
"""2025-01-02T14:30:00Z."""
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND


@dataclass(slots=True)
class Agent:
    """A client that reads numbers exactly."""

    client: Client

    @property
    def shelf(self) -> Shelf:
        return cast("Shelf", self.client.desk.states["backtest"])

    async def raw(self, tool: str, **arguments: Any) -> Reply:
        return await self.client.call(tool, arguments)

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The answer of a call that succeeds, with `Decimal` for every fraction."""
        reply = await self.raw(tool, **arguments)
        result = json.loads(reply.body, parse_float=Decimal)["result"]
        assert result["isError"] is False, result
        return result["structuredContent"]

    async def text(self, tool: str, **arguments: Any) -> str:
        """The answer as the text that a model reads."""
        reply = await self.raw(tool, **arguments)
        result = json.loads(reply.body)["result"]
        assert result["isError"] is False, result
        return result["content"][0]["text"]

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that is refused."""
        return (await self.raw(tool, **arguments)).envelope["error"]


@asynccontextmanager
async def agent(home: Path, **settings: Any) -> AsyncGenerator[Agent]:
    """An agent at a desk that serves the backtest toolset, every answer checked against its contract."""
    chosen = Settings(home=home, toolsets=("backtest",), check_output=True, **settings)
    listener = listen("127.0.0.1", 0)
    bind = Bind(listener)
    async with open_desk(chosen) as desk:
        app, token = build_app(desk, bind)
        async with serving(app, bind):
            yield Agent(Client(desk, app, listener.getsockname()[1], token).authorised())


def record(home: Path, **options: Any) -> Recorder:
    """A recorder of a new run in the home."""
    return Recorder(home, options.pop("name", "sma cross"), engine="tests", **options)


def story(home: Path, **options: Any) -> str:
    """A short run in which everything happens: fills, a part fill, a rejection, a cancel; returns its id."""
    with record(home, **options) as run:
        bar = run.market_data(T0, "AAPL", {"Close": Decimal("175.50")})
        sma = run.indicator(
            T0, "SMA", Decimal("176.20"), symbol="AAPL", parameters={"Period": 10}, parent=bar
        )
        run.indicator(T0, "SMA", Decimal("174.80"), symbol="AAPL", parameters={"Period": 20}, parent=bar)
        first = run.order_placed(T0, "ord-1", "AAPL", "Buy", 100, price=Decimal("175.50"), parent=sma)
        fill = run.trade(
            T0 + MINUTE,
            "ord-1",
            "AAPL",
            "Buy",
            60,
            Decimal("175.50"),
            commission=Decimal("1.00"),
            parent=first,
        )
        gains = {"unrealized": Decimal("250.00"), "realized": Decimal("500.00")}
        run.position(T0 + MINUTE, "AAPL", 60, Decimal("175.50"), parent=fill, **gains)
        second = run.order_placed(
            T0 + 2 * MINUTE, "ord-2", "MSFT", "Sell", 5, price=Decimal("410.25"), parent=bar
        )
        third = run.order_placed(T0 + 3 * MINUTE, "ord-3", "MSFT", "Buy", 1_000_000, parent=bar)
        run.order_rejected(
            T0 + 3 * MINUTE, "ord-3", "insufficient margin", symbol="MSFT", quantity=1_000_000, parent=third
        )
        run.order_cancelled(T0 + 4 * MINUTE, "ord-2", symbol="MSFT", reason="end of day", parent=second)
        run.emit("PositionUpdate", T0 + 5 * MINUTE, {"SecuritySymbol": "MSFT", "Quantity": 0})
        run.risk(
            T0 + 6 * MINUTE, "MaxDrawdown", threshold=Decimal("0.10"), current=Decimal("0.12"), parent=fill
        )
        run.emit("TradeExecution", T0 + 7 * MINUTE, {"OrderId": "ord-9", "SecuritySymbol": "AAPL"})
    return run.run_id


@asynccontextmanager
async def storied(home: Path) -> AsyncGenerator[tuple[Agent, str]]:
    """An agent at a desk with the short run, and the run's id."""
    id = story(home)
    async with agent(home) as desk:
        yield desk, id
