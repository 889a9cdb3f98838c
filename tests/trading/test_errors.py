"""The thirteen error codes, each reached over MCP and through the plain HTTP door."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import run
from tests.trading.desks import Agent, agent
from tests.trading.sources import loopback
from tracedesk.market import Move, ReplayClock
from tracedesk.trading.broker import BrokerSilent, Report
from tracedesk.trading.clockwork import advance
from tracedesk.trading.ledger import Ledger, LedgerBusy, Writer
from tracedesk.trading.model import Order
from tracedesk.trading.sources.embedded import Embedded
from tracedesk.trading.sources.seam import Fetch, Quote

BUY: Final = {"symbol": "IBM", "action": "buy", "quantity": 1, "order_type": "market"}
ID: Final = "the-id"


@dataclass(frozen=True, slots=True)
class Scene:
    """A desk at which one call is refused."""

    found: Agent
    tool: str
    arguments: dict[str, Any]


Setting = Callable[[Path], AbstractAsyncContextManager[Scene]]


def at_desk(tool: str, arguments: dict[str, Any], table: dict[str, Any] | None = None) -> Setting:
    @asynccontextmanager
    async def setting(home: Path) -> AsyncGenerator[Scene]:
        async with agent(home, table) as found:
            yield Scene(found, tool, arguments)

    return setting


def executing(table: dict[str, Any] | None = None, **leg: Any) -> Setting:
    return at_desk("trade_execute", {"trades": [{**BUY, **leg}]}, table)


# --- providers -----------------------------------------------------------------------------------


def served(*script: loopback.Act, **providers: Any) -> Setting:
    """A desk that asks a service on the loopback for its quotes."""

    @asynccontextmanager
    async def setting(home: Path) -> AsyncGenerator[Scene]:
        async with loopback.running(*script) as service:
            table = {"quotes": [service.url], "attempts": 1, **providers}
            async with agent(home, {"providers": table}) as found:
                yield Scene(found, "get_quotes", {"symbols": ["IBM"]})

    return setting


# --- brokers -------------------------------------------------------------------------------------


class Silent:
    """A broker that takes orders and does not say so; asked later, it may know them."""

    name = "silent"
    answer_s = 1.0
    arrives_s = 60.0

    def __init__(self) -> None:
        self.taken: list[Order] = []
        self.speaks = False

    async def submit(self, order: Order) -> Report:
        self.taken.append(order)
        raise BrokerSilent("the line went dead")

    async def lookup(self, client_id: str) -> Report | None:
        if not self.speaks:
            raise BrokerSilent("still dead")
        (order,) = [order for order in self.taken if order.client_id == client_id]
        return Report(client_id, order.trade.symbol, "filled", order.trade.quantity, 190_000_000, 100)


def brokered(*, live: bool) -> Setting:
    @asynccontextmanager
    async def setting(home: Path) -> AsyncGenerator[Scene]:
        async with agent(home, {"live_trading": live}) as found:
            found.trader.broker = Silent()
            yield Scene(found, "trade_execute", {"trades": [BUY]})

    return setting


# --- the others ----------------------------------------------------------------------------------


@asynccontextmanager
async def conflict(home: Path) -> AsyncGenerator[Scene]:
    async with agent(home) as found:
        await found.call("trade_execute", ID, trades=[BUY])
        yield Scene(found, "trade_execute", {"trades": [BUY, BUY]})


@asynccontextmanager
async def broken(home: Path) -> AsyncGenerator[Scene]:
    async def fail(self: Embedded, symbols: Sequence[str], now_ns: int) -> Fetch[Quote]:
        raise ZeroDivisionError("a provider with a bug")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedded, "quotes", fail)
        async with agent(home) as found:
            yield Scene(found, "get_quotes", {"symbols": ["IBM"]})


CODES: Final[dict[str, tuple[Setting, int, bool]]] = {
    "INVALID_INPUT": (executing(quantity=-1), 400, False),
    "INVALID_SYMBOL": (executing(symbol="NONE"), 404, False),
    "DATA_UNAVAILABLE": (at_desk("get_fundamentals", {"symbols": ["IBM"]}), 422, False),
    "RATE_LIMITED": (served(loopback.reply(429, Retry_After="7")), 429, True),
    "NETWORK_ERROR": (served(loopback.reply(503)), 502, True),
    "MARKET_CLOSED": (executing({"clock": "2012-12-08T15:00:00Z"}), 422, False),
    "INSUFFICIENT_FUNDS": (executing({"cash": 190}), 422, False),
    "INSUFFICIENT_POSITION": (executing(action="sell"), 422, False),
    "RISK_LIMIT_EXCEEDED": (executing(quantity=60), 422, False),
    "TOOL_CALL_ID_CONFLICT": (conflict, 422, False),
    "EXECUTION_DISABLED": (brokered(live=False), 403, False),
    "OUTCOME_UNKNOWN": (brokered(live=True), 504, False),
    "INTERNAL_ERROR": (broken, 500, False),
}


def test_there_are_thirteen() -> None:
    assert len(CODES) == 13


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_its_envelope_on_both_doors(
    tmp_path: Path, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    setting, status, retryable = CODES[code]

    async def main() -> None:
        async with setting(tmp_path) as scene:
            reply = await scene.found.raw(scene.tool, ID, **scene.arguments)
            result = reply.json["result"]
            assert (reply.status, result["isError"], "structuredContent" in result) == (200, True, False)
            assert [block["type"] for block in result["content"]] == ["text"]
            told = json.loads(result["content"][0]["text"])
            plain = await scene.found.client.post(
                f"/tools/{scene.tool}", {"tool_call_id": ID, **scene.arguments}
            )
            assert plain.status == status
            for envelope in (told, plain.json):
                assert set(envelope) == {"error", "source_refs"}
                assert envelope["source_refs"] == [ID]
                error = envelope["error"]
                assert (error["code"], set(error)) == (code, {"code", "message", "details"})
                assert error["message"].endswith((".", "s"))
                assert error["details"].get("retryable", False) is retryable

    with caplog.at_level(logging.CRITICAL, "tracedesk"):
        run(main())


# --- what a provider does ------------------------------------------------------------------------


@pytest.mark.parametrize("act", [loopback.hang, loopback.close, loopback.break_off])
def test_a_provider_that_cannot_be_understood_is_a_network_error(tmp_path: Path, act: loopback.Act) -> None:
    async def main() -> None:
        async with served(act, timeout_ms=100)(tmp_path) as scene:
            error = (await scene.found.refused(scene.tool, ID, **scene.arguments))["error"]
            assert error["code"] == "NETWORK_ERROR"
            assert "could not be reached" in error["message"]

    run(main())


def test_an_answer_that_means_nothing_is_no_denial_of_the_symbol(tmp_path: Path) -> None:
    async def main() -> None:
        for number, act in enumerate((loopback.garbage, loopback.ok({"symbols": {}}))):
            async with served(act)(tmp_path / str(number)) as scene:
                error = (await scene.found.refused(scene.tool, ID, **scene.arguments))["error"]
                assert error["code"] == "DATA_UNAVAILABLE"

    run(main())


def test_a_provider_s_wait_and_our_own_allowance_say_when_to_come_back(tmp_path: Path) -> None:
    quote = {"symbols": {"IBM": {"price": 190.5, "as_of": "2012-12-03T15:00:00Z"}}}

    async def main() -> None:
        async with served(loopback.reply(429, Retry_After="7"))(tmp_path / "theirs") as scene:
            error = (await scene.found.refused(scene.tool, ID, **scene.arguments))["error"]
            assert error["details"]["retry_after_s"] == 7
        async with served(loopback.ok(quote), requests_per_minute=1)(tmp_path / "ours") as scene:
            answer = await scene.found.call(scene.tool, symbols=["IBM"])
            assert str(answer["quotes"][0]["price"]) == "190.5"
            error = (await scene.found.refused(scene.tool, symbols=["AAPL"]))["error"]
            assert error["code"] == "RATE_LIMITED"
            assert 0 < error["details"]["retry_after_s"] <= 60

    run(main())


def test_a_trade_is_not_made_without_the_prices_it_needs_and_says_which(tmp_path: Path) -> None:
    quote = {"symbols": {"IBM": {"price": 190.5, "as_of": "2012-12-03T15:00:00Z"}}, "unknown": ["AAPL"]}

    async def main() -> None:
        async with served(loopback.reply(503), loopback.ok(quote))(tmp_path) as scene:
            trades = [BUY, {**BUY, "symbol": "AAPL"}]
            error = (await scene.found.refused("trade_execute", "t", trades=trades))["error"]
            assert (error["code"], error["details"]["trade_index"]) == ("NETWORK_ERROR", 0)
            error = (await scene.found.refused("trade_execute", "t", trades=trades))["error"]
            assert (error["code"], error["details"]["trade_index"]) == ("INVALID_SYMBOL", 1)
            done = await scene.found.call("trade_execute", "u", trades=[BUY])
            assert str(done["execution"]["trades"][0]["price"]) == "190.5952"

    run(main())


# --- what a broker does --------------------------------------------------------------------------


def test_an_unknown_outcome_is_learnt_with_the_same_id_even_after_the_close_and_nothing_is_sent_twice(
    tmp_path: Path,
) -> None:
    def to_close(clock: ReplayClock) -> Move:
        return clock.to_close()

    async def main() -> None:
        async with agent(tmp_path, {"live_trading": True}) as found:
            trader, broker = found.trader, Silent()
            trader.broker = broker
            first = (await found.refused("trade_execute", ID, trades=[BUY]))["error"]
            assert first["code"] == "OUTCOME_UNKNOWN"
            assert "same tool_call_id" in first["message"]
            await trader.commit(
                lambda ledger: advance(ledger, trader.desk.payloads, trader.settings, to_close)
            )
            assert (await found.refused("trade_execute", ID, trades=[BUY]))["error"]["code"] == (
                "OUTCOME_UNKNOWN"
            )
            broker.speaks = True
            answer = await found.call("trade_execute", ID, trades=[BUY])
            (leg,) = answer["execution"]["trades"]
            assert (leg["status"], str(leg["price"])) == ("filled", "190.00")
            again = await found.raw("trade_execute", ID, trades=[BUY])
            assert again.json["result"]["_meta"]["tracedesk/replayed"] is True
            assert len(broker.taken) == 1
            (order,) = (await found.call("list_trade_orders", status="all"))["orders"]
            assert order["status"] == "filled"

    run(main())


# --- the ledger ----------------------------------------------------------------------------------


def test_a_ledger_that_others_hold_may_be_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(self: Ledger) -> AbstractAsyncContextManager[Writer]:
        raise LedgerBusy("other writers held the ledger for five seconds; try again")

    async def main() -> None:
        async with agent(tmp_path) as found:
            asked: list[tuple[str, dict[str, Any]]] = [
                ("trade_execute", {"trades": [BUY]}),
                ("trade_execute", {"trades": [{**BUY, "symbol": "NONE"}]}),
                ("log_event", {"event_type": "alert", "data": {}}),
                ("cancel_trade_order", {"order_id": "x"}),
            ]
            with monkeypatch.context() as patch:
                patch.setattr(Ledger, "writing", held)
                for number, (tool, arguments) in enumerate(asked):
                    error = (await found.refused(tool, f"id{number}", **arguments))["error"]
                    assert (error["code"], error["details"]["retry_after_s"]) == ("RATE_LIMITED", 5), tool
            await found.call("trade_execute", "id0", trades=[BUY])

    run(main())
