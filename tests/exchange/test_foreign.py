"""Orders planted in every field of every answer of a venue: no tool, page or prompt gives one as its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest

from tests.exchange import desks
from tests.exchange.test_tools import READS
from tests.fixtures.foreign import distinct, judged, spoken, tools_of
from tests.fixtures.injections import INJECTIONS
from tests.support import Reply, run, until
from tracedesk.exchange.client.calling import Caller, Request
from tracedesk.exchange.units import units

Place = tuple[str, ...]


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Each place of a text in a document, and each object's name for it; rows are one place together."""
    if isinstance(value, dict):
        for name, below in cast("dict[str, Any]", value).items():
            yield (*place, f"{name}?")
            yield from _places(below, (*place, name))
    elif isinstance(value, list):
        for number, below in enumerate(cast("list[Any]", value)[:14]):
            inner = isinstance(below, (dict, list))
            yield from _places(below, (*place, "*" if inner else str(number)))
    elif value is not None:
        yield place


def _planted(value: Any, place: Place, order: str) -> Any:
    """The document with an order at one place of each row."""
    if not place:
        return order
    first, *rest = place
    if isinstance(value, list):
        rows = cast("list[Any]", value)
        return [
            _planted(row, tuple(rest), order) if first in ("*", str(number)) else row
            for number, row in enumerate(rows)
        ]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    if first.endswith("?"):
        return {order if f"{name}?" == first else name: below for name, below in found.items()}
    return {
        name: _planted(below, tuple(rest), order) if name == first else below for name, below in found.items()
    }


@dataclass(slots=True)
class Lies:
    """The places of a venue's answers seen so far, and the lie that it gives next."""

    seen: dict[tuple[str, Place], None] = field(default_factory=dict[tuple[str, Place], None])
    lie: tuple[str, Place] | None = None
    order: str = ""

    def told(self, path: str, document: Any) -> Any:
        for place in _places(document):
            self.seen[path, place] = None
        if self.lie is None or self.lie[0] != path:
            return document
        return _planted(document, self.lie[1], self.order)


@pytest.fixture
def lies(monkeypatch: pytest.MonkeyPatch) -> Lies:
    """A venue that gives an order in the place of any one of its fields."""
    lies = Lies()
    honest = Caller.call
    known: dict[Any, Any] = {}

    async def call(self: Caller, request: Request) -> Any:
        key = (request.path, *sorted(request.params.items(), key=str))
        if request.effect or key not in known:
            known[key] = await honest(self, request)
        return lies.told(request.path, known[key])

    monkeypatch.setattr(Caller, "call", call)
    return lies


async def _each_lie(
    agent: desks.Agent, lies: Lies, ask: Callable[[], Awaitable[Any]], only: str | None = None
) -> None:
    """Ask honestly, then once for each place of what the venue was asked for meanwhile, or of one path."""
    orders = cycle(INJECTIONS)
    lies.seen.clear()
    lies.lie = None
    _forget(agent)
    await ask()
    for lie in list(lies.seen):
        if lie[0] == "time" or only not in (None, lie[0]):
            continue
        _forget(agent)
        lies.lie, lies.order = lie, next(orders)
        await ask()
    lies.lie = None
    _forget(agent)


def _forget(agent: desks.Agent) -> None:
    """Have the listing and the reports asked for again, and the orders of the last seconds not counted."""
    site = agent.provider.link.current
    assert site is not None
    site.feeds.listing._asked = float("-inf")  # pyright: ignore[reportPrivateUsage]
    site.client.public.limits._orders.clear()  # pyright: ignore[reportPrivateUsage]
    agent.provider.reports.clear()


async def _stirred(agent: desks.Agent) -> None:
    """Change the book, so that the followed one is of now; orders are not judged on an old one."""
    site = agent.provider.link.current
    market = site.feeds.market("BTCUSDT") if site is not None else None
    if market is None:
        return
    before = market.sync.last_update_id
    agent.market.exchange.venue.flow_limit("BTCUSDT", "BUY", units("49000"), units("0.01"))
    await until(lambda: market.sync.last_update_id != before)


ROOMY = {"max_orders_per_minute": 0, "max_open_orders": 0, "max_day_notional": 0}
"""Caps that the many orders of one test do not meet."""
PROMPTS = {
    "liquidity_mapping": {"symbol": "BTCUSDT"},
    "market_microstructure_analysis": {"symbol": "BTCUSDT"},
    "order_flow_trading": {"symbol": "BTCUSDT"},
    "portfolio_risk": {},
    "trading_analysis": {"symbol": "BTCUSDT"},
}
PAGES = (
    "binance://market/btcusdt",
    "binance://account/balances",
    "binance://account/holdings",
    "binance://orders/open",
    "binance://orders/history/btcusdt",
)


def test_a_lying_venue_gives_no_orders_in_the_desks_voice(tmp_path: Path, lies: Lies) -> None:
    found: list[Any] = []
    asked: set[str] = set()

    async def main() -> None:
        async with desks.agent(tmp_path, {"caps": ROOMY}) as agent:
            owner = agent.owner()
            await owner.call("get_ticker", symbol="BTCUSDT")

            async def tool(name: str, **arguments: Any) -> Reply:
                asked.add(name)
                reply = await owner.raw(name, **arguments)
                judged(name, reply, found)
                if b"INTERNAL_ERROR" in reply.body:
                    found.append((name, str(lies.lie), "INTERNAL_ERROR"))
                return reply

            async def page(uri: str) -> None:
                heard = await owner.client.modern("resources/read", {"uri": uri})
                answer = heard.json.get("result", {}).get("contents") or heard.json["error"]
                found.extend((uri, *each) for each in spoken(answer, {}))

            async def prompt(name: str, given: dict[str, str]) -> None:
                heard = await owner.client.modern("prompts/get", {"name": name, "arguments": given})
                answer = heard.json.get("result", {}).get("messages") or heard.json["error"]
                found.extend((name, *each) for each in spoken(answer, {}))

            async def order() -> None:
                lie, lies.lie = lies.lie, None
                await _stirred(agent)
                token = (await owner.call("preview_order", **desks.BUY))["preview_token"]
                lies.lie = lie
                await tool("place_order", **desks.BUY, preview_token=token)

            async def cancelled() -> None:
                lie, lies.lie = lies.lie, None
                await _stirred(agent)
                placed = await owner.placed()
                lies.lie = lie
                await tool("cancel_order", symbol="BTCUSDT", order_id=placed["order_id"])

            for name, arguments in READS:
                await _each_lie(owner, lies, lambda n=name, a=arguments: tool(n, **a))
            for uri in PAGES:
                await _each_lie(owner, lies, lambda u=uri: page(u))
            for name, arguments in PROMPTS.items():
                await _each_lie(owner, lies, lambda n=name, a=arguments: prompt(n, a))
            await _each_lie(owner, lies, lambda: tool("preview_order", **desks.BUY))
            await _each_lie(owner, lies, order, "order")
            await _each_lie(owner, lies, cancelled, "order")
            await _stirred(agent)
            placed = await owner.placed()
            which = {"symbol": "BTCUSDT", "order_id": placed["order_id"]}
            await _each_lie(owner, lies, lambda: tool("get_order", **which))
            await tool("kill_switch", reason="the test is over")

    run(main())
    assert distinct(found) == {}
    assert asked == tools_of("exchange")
