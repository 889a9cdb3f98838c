"""Where everything came from: every price leads to the bytes it was read from, every trade to its reasons."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import BOUND, rpc, run
from tests.trading.desks import Agent, agent
from tracedesk.backtest import Recorder
from tracedesk.cli import main
from tracedesk.market import Move, ReplayClock
from tracedesk.payloads import Payloads
from tracedesk.primitives.time import MINUTE, SECOND, parse
from tracedesk.trading.clockwork import advance
from tracedesk.trading.ledger import Entry
from tracedesk.trading.units import price

D = Decimal
LEDGER: Final = "tracedesk://trading/ledger/"
ORDERS: Final = "tracedesk://trading/orders/"
PAYLOADS: Final = "tracedesk://payloads/"
BUY_IBM: Final = {"symbol": "IBM", "action": "buy", "quantity": 20}
BUY_MSFT: Final = {"symbol": "MSFT", "action": "buy", "quantity": 100}
STORY: Final = {
    "symbol": "IBM",
    "headline": "IBM raises its guidance",
    "published": "2012-12-03T13:00:00Z",
    "source": "Wire",
}


def market(leg: dict[str, Any]) -> dict[str, Any]:
    return {**leg, "order_type": "market"}


async def move(found: Agent, step: Callable[[ReplayClock], Move]) -> None:
    trader = found.trader
    await trader.commit(lambda ledger: advance(ledger, trader.desk.payloads, trader.settings, step))


def to(moment: str) -> Callable[[ReplayClock], Move]:
    return lambda clock: clock.set(parse(moment).ns)


async def traced(found: Agent, ref: str, depth: int = 6) -> dict[str, dict[str, Any]]:
    """Everything that a reference came from, by reference; it must all resolve."""
    nodes: dict[str, dict[str, Any]] = {}
    after: dict[str, Any] = {}
    async with asyncio.timeout(BOUND):
        while True:
            reply = await found.client.call("trace", {"ref": ref, "depth": depth, **after})
            page = json.loads(reply.body, parse_float=D)["result"]["structuredContent"]
            if page["unresolved"]:
                # The large answer of a reading call is written with its record, a moment after it was given.
                await asyncio.sleep(0.01)
                continue
            nodes |= {node["ref"]: node for node in page["nodes"]}
            if "nextCursor" not in page["metadata"]:
                return nodes
            after = {"cursor": page["metadata"]["nextCursor"]}


def payloads(home: Path, nodes: dict[str, dict[str, Any]]) -> list[Any]:
    """What providers said among nodes, read from the disk under the name that its bytes hash to."""
    store = Payloads(home / "payloads")
    found: list[Any] = []
    for ref, node in nodes.items():
        if ref.startswith(PAYLOADS):
            name = ref.removeprefix(PAYLOADS)
            stored = store.get(name)
            assert stored is not None
            assert hashlib.sha256(stored).hexdigest() == name
            body = json.loads(stored, parse_float=D)
            assert node["body"] == body
            found.append(body)
    return [body for body in found if "kind" in body]


def quoted(bodies: list[Any], symbol: str) -> set[Decimal]:
    """The last prices of a symbol in payloads of quotes."""
    kept = [body["symbols"] for body in bodies if body["kind"] == "quotes"]
    return {symbols[symbol]["price"] for symbols in kept if symbol in symbols}


async def entries(found: Agent) -> list[Entry]:
    return await found.trader.ledger(lambda ledger: list(ledger.walk()))


@asynccontextmanager
async def scripted(home: Path) -> AsyncGenerator[Agent]:
    """A session from the first look at the market to a dividend two months later."""
    news = home / "market" / "news"
    news.mkdir(parents=True)
    (news / "wire.jsonl").write_text(json.dumps(STORY))
    async with agent(home) as found:
        await found.call("get_quotes", "q1", symbols=["IBM", "MSFT", "AAPL"])
        await found.call("get_history", "h1", symbol="IBM", period="1mo")
        await found.call("get_news", "n1", symbols=["IBM"])
        await found.call("trade_simulate", "s1", trades=[BUY_IBM, BUY_MSFT])
        trades = [market(BUY_IBM), market(BUY_MSFT)]
        refs = ["q1", "h1", "n1"]
        await found.call("trade_execute", "t1", trades=trades, simulation_ref="s1", rationale_refs=refs)
        rests = {"order_type": "limit", "time_in_force": "gtc"}
        await found.buy("IBM", 5, "rest1", **rests, price=190)
        await found.buy("AAPL", 3, "rest2", **rests, price=540)
        await move(found, ReplayClock.to_close)
        await found.call("get_portfolio", "p1")
        await move(found, to("2013-02-20T15:00:00Z"))
        await found.call("get_quotes", "q2", symbols=["MSFT"])
        await found.call("trade_execute", "t2", trades=[{**market(BUY_MSFT), "action": "sell"}])
        await found.call("get_portfolio", "p2")
        yield found


# --- prices --------------------------------------------------------------------------------------


def test_every_fill_leads_to_the_payload_that_its_price_is_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with scripted(tmp_path) as found:
            seen: list[tuple[str, str]] = []
            for entry in await entries(found):
                for fill in entry.fills:
                    bodies = payloads(tmp_path, await traced(found, f"{LEDGER}{entry.seq}", 1))
                    paid, sign = price(fill.price), 1 if fill.side == "buy" else -1
                    if entry.kind == "trade":
                        (told,) = quoted(bodies, fill.symbol)
                        assert paid == (told * (1 + sign * D("0.0005"))).quantize(D("0.0001"))
                    else:
                        (bar,) = [body["bar"] for body in bodies if body["kind"] == "session"]
                        assert bar["low"] < paid <= bar["high"]
                    seen.append((entry.kind, fill.symbol))
            assert seen == [
                ("trade", "IBM"),
                ("trade", "MSFT"),
                ("fill", "IBM"),
                ("fill", "AAPL"),
                ("trade", "MSFT"),
            ]

    run(main())


def test_every_mark_of_a_portfolio_is_in_a_payload_that_its_call_leads_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with scripted(tmp_path) as found:
            marks = 0
            for id in ("p1", "p2"):
                bodies = payloads(tmp_path, await traced(found, id, 1))
                for position in (await found.call("get_portfolio", id))["portfolio"]["positions"]:
                    assert quoted(bodies, position["symbol"]) == {position["current_price"]}
                    marks += 1
            assert marks == 4

    run(main())


def test_what_a_move_of_the_clock_brought_leads_to_its_session_and_to_who_placed_the_order(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with scripted(tmp_path) as found:
            happened = {entry.kind: entry for entry in await entries(found)}
            dividend = await traced(found, f"{LEDGER}{happened['dividend'].seq}")
            (body,) = payloads(tmp_path, dividend)
            assert (body["symbol"], body["session"], body["action"]["dividend"]) == (
                "MSFT",
                "2013-02-19",
                D("0.23"),
            )
            fill = await traced(found, f"{LEDGER}{happened['fill'].seq}")
            orders = [ref for ref in fill if ref.startswith(ORDERS)]
            assert len(orders) == 1
            placed = [n for n in fill.values() if n["body"].get("call", {}).get("tool_call_id") == "rest2"]
            assert [node["kind"] for node in placed] == ["ledger entry"]

    run(main())


# --- reasons -------------------------------------------------------------------------------------


def test_a_trade_leads_to_its_simulation_its_reasons_and_all_their_payloads(tmp_path: Path) -> None:
    async def main() -> None:
        async with scripted(tmp_path) as found:
            nodes = await traced(found, "t1")
            root = next(iter(nodes.values()))
            assert root["body"]["call"]["tool_call_id"] == "t1"
            relations = {edge["relation"] for edge in root["edges"]}
            assert relations == {"priced_by", "risk_from", "rationale", "simulated_by", "recorded_as"}
            tools = {node["body"]["tool"] for node in nodes.values() if node["kind"] == "call"}
            assert tools == {"get_quotes", "get_history", "get_news", "trade_simulate", "trade_execute"}
            bodies = payloads(tmp_path, nodes)
            assert {body["kind"] for body in bodies} == {"quotes", "daily", "history", "news"}
            (story,) = [body for body in bodies if body["kind"] == "news"]
            assert story["symbols"]["IBM"][0]["headline"] == STORY["headline"]

    run(main())


def test_an_event_leads_to_what_it_cites(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.call("get_quotes", "q1", symbols=["IBM"])
            await found.call("trade_execute", "t1", trades=[market(BUY_IBM)])
            data = {"source_refs": ["q1", "t1"], "why": "cheap"}
            event = await found.call("log_event", "e1", event_type="signal", data=data)
            nodes = await traced(found, event["event_id"])
            root = nodes[event["event_id"]]
            cited = [edge["ref"] for edge in root["edges"] if edge["relation"] == "cites"]
            kinds = [nodes[ref]["kind"] for ref in cited]
            assert kinds == ["call", "ledger entry"]
            assert quoted(payloads(tmp_path, nodes), "IBM") == {D("190.76")}
            told = await found.call("log_event", event_type="alert", data={"source_refs": ["anything"]})
            assert told["logged"] is True

    run(main())


# --- references ----------------------------------------------------------------------------------


def test_orders_entries_and_bare_ids_are_sources(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:

            async def source(ref: str) -> Any:
                return (await found.client.call("get_source", {"ref": ref})).structured

            await found.call("get_quotes", "q1", symbols=["IBM"])
            answer = await found.call("trade_execute", "t1", trades=[market(BUY_IBM)])
            (leg,) = answer["execution"]["trades"]
            order = await source(f"{ORDERS}{leg['order_id']}")
            assert (order["kind"], order["body"]["status"], order["body"]["filled_quantity"]) == (
                "order",
                "filled",
                20,
            )
            (placed,) = order["edges"]
            entry = await source(placed["ref"])
            assert (placed["relation"], entry["kind"]) == ("placed_by", "ledger entry")
            assert entry == await source("t1")
            assert entry["body"]["fills"][0]["total_cost"] == float(leg["total_cost"])
            assert entry["body"]["call"]["params"]["arguments"]["trades"][0]["symbol"] == "IBM"
            assert entry["body"]["facts"]["quotes"] == {"IBM": 190.76}
            call = await source("q1")
            assert (call["kind"], call["body"]["tool"]) == ("call", "get_quotes")

    run(main())


@pytest.mark.parametrize(
    "ref",
    ["nobody", f"{LEDGER}99", f"{LEDGER}x", f"{LEDGER}{'9' * 40}", f"{ORDERS}none", "tracedesk://trading/"],
)
def test_a_reference_to_nothing_is_said_to_be_one(tmp_path: Path, ref: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            reply = await found.client.call("get_source", {"ref": ref})
            assert reply.envelope["error"]["code"] == "SOURCE_NOT_FOUND"

    run(main())


def test_the_read_ids_of_one_session_mean_nothing_in_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            one, other = await found.client.open_session(), await found.client.open_session()

            async def ask(session: Any, tool: str, **arguments: Any) -> Any:
                return await session.post("/mcp", rpc("tools/call", {"name": tool, "arguments": arguments}))

            await ask(one, "get_quotes", tool_call_id="q1", symbols=["IBM"])
            await ask(one, "trade_execute", tool_call_id="t1", trades=[market(BUY_IBM)])
            assert (await ask(one, "get_source", ref="q1")).structured["body"]["tool"] == "get_quotes"
            assert (await ask(other, "get_source", ref="q1")).envelope["error"]["code"] == "SOURCE_NOT_FOUND"
            assert (await ask(other, "get_source", ref="t1")).structured["kind"] == "ledger entry"

    run(main())


def test_every_answer_links_its_own_call_and_its_payloads(tmp_path: Path) -> None:
    async def main() -> None:
        async with scripted(tmp_path) as found:
            result = (await found.raw("trade_simulate", "s2", trades=[BUY_IBM])).json["result"]
            links = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
            assert links[0] == result["_meta"]["tracedesk/call"]
            assert len([uri for uri in links if uri.startswith(PAYLOADS)]) >= 2
            for uri in links:
                read = (await found.client.modern("resources/read", {"uri": uri})).json["result"]
                assert json.loads(read["contents"][0]["text"])["ref"] == uri

    run(main())


# --- bound to a simulation -----------------------------------------------------------------------


@asynccontextmanager
async def simulated(home: Path) -> AsyncGenerator[Agent]:
    async with agent(home) as found:
        await found.call("trade_simulate", "s1", trades=[BUY_IBM])
        yield found


async def broken(found: Agent, trades: list[dict[str, Any]]) -> dict[str, Any]:
    """The limits that an execution bound to the simulation breaks, with what was observed."""
    error = (await found.refused("trade_execute", trades=trades, simulation_ref="s1"))["error"]
    assert error["code"] == "RISK_LIMIT_EXCEEDED"
    return {v["limit"]: v["observed"] for v in error["details"]["violations"]}


@pytest.mark.parametrize(
    "trades",
    [
        [market({**BUY_IBM, "quantity": 21})],
        [market({**BUY_IBM, "symbol": "MSFT"})],
        [market(BUY_IBM), market(BUY_MSFT)],
        [{**BUY_IBM, "order_type": "limit", "price": 200}],
        [{**BUY_IBM, "order_type": "limit", "price": 185, "time_in_force": "gtc"}],
        [{**BUY_IBM, "order_type": "stop", "stop_price": 185}],
    ],
)
def test_other_trades_than_those_simulated_are_refused(tmp_path: Path, trades: list[dict[str, Any]]) -> None:
    async def main() -> None:
        async with simulated(tmp_path) as found:
            assert list(await broken(found, trades)) == ["simulation_trades"]
            assert (await found.call("list_trade_orders", status="all"))["orders"] == []

    run(main())


def test_a_portfolio_that_moved_on_since_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with simulated(tmp_path) as found:
            await found.buy("MSFT", 1)
            assert await broken(found, [market(BUY_IBM)]) == {"simulation_version": 3, "simulation_orders": 3}

    run(main())


def test_a_simulation_holds_for_sixty_seconds_of_market_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with simulated(tmp_path) as found:
            await move(found, lambda clock: clock.advance(MINUTE + SECOND))
            assert await broken(found, [market(BUY_IBM)]) == {"simulation_age_seconds": 61}
            await found.call("trade_simulate", "s2", trades=[BUY_IBM])
            await move(found, lambda clock: clock.advance(MINUTE))
            await found.call("trade_execute", trades=[market(BUY_IBM)], simulation_ref="s2")

    run(main())


@pytest.mark.parametrize("ref", ["q1", "nobody", "t1"])
def test_only_a_simulation_of_the_session_can_be_bound_to(tmp_path: Path, ref: str) -> None:
    async def main() -> None:
        async with simulated(tmp_path) as found:
            await found.call("get_quotes", "q1", symbols=["IBM"])
            await found.buy("MSFT", 1, "t1")
            error = (await found.refused("trade_execute", trades=[market(BUY_IBM)], simulation_ref=ref))[
                "error"
            ]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["simulation_ref"])

    run(main())


def test_a_trade_may_cite_a_whole_backtest_run_and_leads_to_it(tmp_path: Path) -> None:
    with Recorder(tmp_path, "alpha", engine="tests") as recorder:
        recorder.market_data(parse("2012-11-30T21:00:00Z").ns, "IBM", {"Close": D("190.07")})
        ref = f"tracedesk://backtest/{recorder.run_id}"

    async def main() -> None:
        async with agent(tmp_path, beside=("backtest",)) as found:
            trades = [market(BUY_IBM)]
            await found.call("trade_execute", "t1", trades=trades, rationale_refs=[ref])
            walked = await found.client.call("trace", {"ref": "t1"})
            nodes = {node["ref"]: node for node in walked.json["result"]["structuredContent"]["nodes"]}
            assert nodes[ref]["body"]["run"]["name"] == "alpha"
            unknown = f"tracedesk://backtest/{'0' * 8}-0000-7000-8000-{'0' * 12}"
            error = (await found.refused("trade_execute", trades=trades, rationale_refs=[unknown]))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["rationale_refs", 0])

    run(main())


def test_a_run_that_a_trade_rests_on_is_removed_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recorder(tmp_path, "alpha", engine="tests") as recorder:
        recorder.market_data(parse("2012-11-30T21:00:00Z").ns, "IBM", {"Close": D("190.07")})
        ref = f"tracedesk://backtest/{recorder.run_id}"

    async def cited() -> None:
        async with agent(tmp_path, beside=("backtest",)) as found:
            await found.call("trade_execute", "t1", trades=[market(BUY_IBM)], rationale_refs=[ref])

    run(cited())
    words = ["--home", str(tmp_path), "backtest", "rm", "alpha"]
    assert main(words) == 1
    assert "Trades of this home rest on run" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
