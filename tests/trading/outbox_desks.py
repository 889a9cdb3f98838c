"""Desks under test whose orders go to a broker's venue on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from tests.support import Reply
from tests.trading.desks import Agent, agent
from tests.trading.loopback_broker import LoopbackBroker, Venue
from tracedesk.market import Move, ReplayClock
from tracedesk.primitives.time import HOUR, Clock, ManualClock
from tracedesk.trading import audit
from tracedesk.trading.clockwork import advance
from tracedesk.trading.draft import order_id
from tracedesk.trading.ledger import Entry, Ledger, New

SHARE: Final = 10**9
WALL_NS: Final = 1_790_000_000_000_000_000
LIVE: Final = {"live_trading": True}
IBM: Final = {"symbol": "IBM", "action": "buy", "quantity": 10, "order_type": "market"}
AAPL: Final = {"symbol": "AAPL", "action": "buy", "quantity": 4, "order_type": "market"}
MSFT: Final = {"symbol": "MSFT", "action": "buy", "quantity": 6, "order_type": "market"}


def leg(id: str, number: int = 0) -> str:
    """The client id of a call's order."""
    return order_id("default", id, number)


@dataclass(slots=True)
class Desk(Agent):
    """An agent whose orders go to a venue."""

    home: Path = Path()

    async def trade(self, id: str, *legs: dict[str, Any], **more: Any) -> Reply:
        return await self.raw("trade_execute", id, trades=list(legs or (IBM,)), **more)

    async def answer(self, id: str, *legs: dict[str, Any], **more: Any) -> Any:
        reply = await self.trade(id, *legs, **more)
        return json.loads(json.dumps(reply.structured), parse_float=Decimal)["execution"]

    async def trades(self, id: str, *legs: dict[str, Any], **more: Any) -> Any:
        return (await self.answer(id, *legs, **more))["trades"]

    async def status(self, id: str, *legs: dict[str, Any], **more: Any) -> str:
        """What became of the first leg."""
        return (await self.trades(id, *legs, **more))[0]["status"]

    async def code(self, id: str, *legs: dict[str, Any], **more: Any) -> str:
        return (await self.trade(id, *legs, **more)).envelope["error"]["code"]

    async def entries(self) -> list[Entry]:
        """What was written since the account was opened."""
        return (await self.trader.ledger(lambda ledger: ledger.entries(limit=1_000)))[2:]

    async def kinds(self) -> list[str]:
        return [entry.kind for entry in await self.entries()]

    async def holdings(self) -> dict[str, int]:
        account = await self.trader.ledger(lambda ledger: ledger.portfolio("default"))
        return {symbol: position.quantity // SHARE for symbol, position in account.positions.items()}

    async def cash(self) -> int:
        return (await self.trader.ledger(lambda ledger: ledger.portfolio("default"))).cash

    def assert_sound(self) -> None:
        assert audit.verify(self.home / "ledger.db").faults == []


@asynccontextmanager
async def desk(
    home: Path, at: Venue | None, *, clock: Clock | None = None, arrives_s: float = 0.0, **table: Any
) -> AsyncGenerator[Desk]:
    async with agent(home, {**LIVE, **table}, clock=clock) as found:
        if at is not None:
            found.trader.broker = LoopbackBroker(at.port, arrives_s=arrives_s)
        yield Desk(found.client, found.numbers, home)


@asynccontextmanager
async def pending(home: Path, at: Venue, id: str, fate: str = "mute", **more: Any) -> AsyncGenerator[Desk]:
    """A desk that does not know what became of its call, for the venue met it with that fate."""
    at.tell({leg(id): fate})
    async with desk(home, at, **more) as found:
        assert await found.code(id) == "OUTCOME_UNKNOWN"
        yield found


def text(reply: Reply) -> str:
    return reply.json["result"]["content"][0]["text"]


def write_elsewhere(home: Path, entry: New) -> None:
    with Ledger(home / "ledger.db", clock=ManualClock(WALL_NS)) as other, other.writing() as writer:
        writer.append(entry)


async def close_the_market(found: Agent) -> None:
    def past_the_close(clock: ReplayClock) -> Move:
        return clock.set(clock.now_ns() + 8 * HOUR)

    trader = found.trader
    await trader.commit(lambda ledger: advance(ledger, trader.desk.payloads, trader.settings, past_the_close))
