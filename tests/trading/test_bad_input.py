"""Bad input over MCP: the right code with its place, nothing executed, and the books as they were."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import ENVELOPE, VERSION, Reply, run
from tests.trading.desks import Agent, agent
from tracedesk.journal.sqlite import connect

TABLES: Final = ("entry", "call", "trade_order", "order_state", "fill", "posting", "edge", "holding")
LEG: Final = {"symbol": "IBM", "action": "buy", "quantity": 1, "order_type": "market"}
NOT_JSON: Final = -32700

Books = dict[str, list[tuple[Any, ...]]]


def books(home: Path) -> tuple[Books, list[str]]:
    """Every row of the ledger but those of kept refusals, and the codes of those."""
    ledger = connect(home / "ledger.db", read_only=True)
    try:
        refused = {seq for (seq,) in ledger.execute("SELECT seq FROM entry WHERE kind = 'refusal'")}
        codes = [code for (code,) in ledger.execute("SELECT code FROM call WHERE code IS NOT NULL")]
        rows = {table: list(ledger.execute(f"SELECT * FROM {table}")) for table in TABLES}
    finally:
        ledger.close()
    assert all(row[0] not in refused for t in TABLES[2:6] for row in rows[t]), "a refusal moved something"
    return {table: [row for row in found if row[0] not in refused] for table, found in rows.items()}, codes


@asynccontextmanager
async def standing(home: Path, table: dict[str, Any] | None = None) -> AsyncGenerator[Agent]:
    """An agent with a position, a resting order and an event, at a desk whose books must not change now."""
    async with agent(home, table) as found:
        await found.buy("IBM", 5, "had")
        await found.buy("AAPL", 2, order_type="limit", price=400, time_in_force="gtc")
        await found.call("log_event", event_type="signal", data={"source_refs": ["had"]})
        before, _ = books(home)
        yield found
        after, codes = books(home)
        assert after == before
        assert (await found.call("ledger_verify"))["sound"] is True
        kept = {"INSUFFICIENT_FUNDS", "INSUFFICIENT_POSITION", "MARKET_CLOSED", "RISK_LIMIT_EXCEEDED"}
        assert set(codes) <= kept | {"INVALID_SYMBOL"}


async def sent(found: Agent, tool: str, arguments: str) -> Reply:
    """A call whose arguments are exactly this text."""
    params = f'{{"name":"{tool}","arguments":{arguments},"_meta":{json.dumps(ENVELOPE)}}}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()
    lines = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return await found.client.request("POST", "/mcp", body, lines)


def with_quantity(number: str) -> str:
    leg = f'{{"symbol":"IBM","action":"buy","order_type":"market","quantity":{number}}}'
    return f'{{"tool_call_id":"bad","trades":[{leg}]}}'


# --- numbers -------------------------------------------------------------------------------------


def test_what_is_no_json_number_never_reaches_a_tool(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            for number in ("NaN", "Infinity", "-Infinity", "+1", "0x10", "01", "1.", ".5", "1e"):
                reply = await sent(found, "trade_execute", with_quantity(number))
                assert (reply.status, reply.json["error"]["code"]) == (400, NOT_JSON), number

    run(main())


NO_QUANTITIES: Final = (
    *("0", "0.0", "-0", "-1", "-0.000000001"),
    *("1e308", "1e400", "1" + "0" * 400, "1000000000.5"),
    *("1234567.890123456", "0.0000000001", "1e-400"),
    *("true", "false", "null", '"1"', '"NaN"', "[1]", "{}"),
)


@pytest.mark.parametrize("tool", ["trade_execute", "trade_simulate"])
def test_a_quantity_that_is_none_is_refused_with_its_place(tmp_path: Path, tool: str) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            for number in NO_QUANTITIES:
                arguments = with_quantity(number)
                if tool == "trade_simulate":
                    arguments = arguments.replace(',"order_type":"market"', "")
                envelope = (await sent(found, tool, arguments)).envelope
                error = envelope["error"]
                assert (error["code"], envelope["source_refs"]) == ("INVALID_INPUT", ["bad"]), number
                assert "quantity" in error["message"]
                assert len(error["message"]) < 500

    run(main())


@pytest.mark.parametrize("name", ["price", "stop_price"])
def test_a_price_that_is_none_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    kind = "limit" if name == "price" else "stop"

    async def main() -> None:
        async with standing(tmp_path) as found:
            for number in ("0", "-5", "1e308", "10000000.01", "0.0000001", "123456789.1234567", "true"):
                leg = f'"symbol":"IBM","action":"buy","quantity":1,"order_type":"{kind}","{name}":{number}'
                reply = await sent(found, "trade_execute", f'{{"tool_call_id":"bad","trades":[{{{leg}}}]}}')
                error = reply.envelope["error"]
                assert error["code"] == "INVALID_INPUT", number
                assert name in error["message"]

    run(main())


# --- shapes --------------------------------------------------------------------------------------

SHAPES: Final[list[tuple[dict[str, Any], list[Any]]]] = [
    ({"trades": []}, ["trades"]),
    ({"trades": [LEG] * 101}, ["trades"]),
    ({"trades": [LEG, {**LEG, "price": 200}]}, ["trades", 1, "price"]),
    ({"trades": [{**LEG, "stop_price": 200}]}, ["trades", 0, "stop_price"]),
    ({"trades": [{**LEG, "order_type": "limit"}]}, ["trades", 0, "price"]),
    ({"trades": [{**LEG, "order_type": "stop"}]}, ["trades", 0, "stop_price"]),
    (
        {"trades": [{**LEG, "order_type": "stop", "stop_price": 100, "price": 99}]},
        ["trades", 0, "price"],
    ),
    (
        {"trades": [{**LEG, "order_type": "limit", "price": 99, "stop_price": 100}]},
        ["trades", 0, "stop_price"],
    ),
    ({"trades": [{**LEG, "time_in_force": "gtc"}]}, ["trades", 0, "time_in_force"]),
    ({"trades": [{**LEG, "symbol": "I B M"}]}, ["trades", 0, "symbol"]),
    ({"trades": [{**LEG, "symbol": "X" * 16}]}, ["trades", 0, "symbol"]),
    ({"trades": [{**LEG, "symbol": ""}]}, ["trades", 0, "symbol"]),
    ({"trades": [{**LEG, "symbol": "../etc"}]}, ["trades", 0, "symbol"]),
    ({"trades": [LEG], "rationale_refs": ["had", "nowhere"]}, ["rationale_refs", 1]),
    ({"trades": [LEG], "rationale_refs": ["had"] * 101}, ["rationale_refs"]),
    ({"trades": [LEG], "simulation_ref": "had"}, ["simulation_ref"]),
    ({"trades": [LEG], "user_id": "mallory"}, ["user_id"]),
]


def test_a_batch_that_cannot_be_is_refused_with_its_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            before = books(tmp_path)
            for arguments, path in SHAPES:
                error = (await found.refused("trade_execute", "bad", **arguments))["error"]
                assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", path), arguments
                assert error["details"]["retryable"] is False
                if path[0] == "trades" and len(path) > 1:
                    assert error["details"]["trade_index"] == path[1]
                assert books(tmp_path) == before, arguments

    run(main())


UNKNOWN: Final[list[tuple[str, dict[str, Any]]]] = [
    ("trade_execute", {"trades": [LEG], "dry_run": True}),
    ("trade_execute", {"trades": [{**LEG, "leverage": 10}]}),
    ("trade_execute", {"trades": [{**LEG, "order_type": "trailing"}]}),
    ("trade_execute", {"trades": [{**LEG, "action": "short"}]}),
    ("trade_execute", {"trades": [{**LEG, "time_in_force": "fok"}]}),
    ("trade_execute", {"trades": LEG}),
    ("trade_execute", {"trades": [[LEG]]}),
    ("trade_execute", {}),
    ("trade_simulate", {"trades": [LEG]}),
    ("log_event", {"event_type": "gossip", "data": {}}),
    ("log_event", {"event_type": "alert", "data": [1]}),
    ("log_event", {"event_type": "alert", "data": {}, "severity": "huge"}),
    ("cancel_trade_order", {"order_id": 5}),
    ("list_trade_orders", {"limit": 0}),
    ("list_trade_orders", {"limit": 201}),
    ("get_risk", {"window": 1}),
    ("get_risk", {"weights": {"IBM": True}}),
    ("get_risk", {"weights": {"ibm": 0.5, "IBM": 0.5}}),
    ("get_risk", {"weights": {"IBM": 1e308}}),
    ("get_quotes", {"symbols": []}),
    ("get_quotes", {"symbols": [f"S{n}" for n in range(101)]}),
    ("get_history", {"symbol": "IBM", "period": "7d"}),
]


def test_what_the_contract_does_not_know_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            before = books(tmp_path)
            for tool, arguments in UNKNOWN:
                envelope = await found.refused(tool, "bad", **arguments)
                assert envelope["error"]["code"] == "INVALID_INPUT", (tool, arguments)
                assert envelope["source_refs"] == ["bad"]
                assert books(tmp_path) == before, (tool, arguments)

    run(main())


@pytest.mark.parametrize("tool", ["trade_execute", "log_event", "cancel_trade_order"])
def test_an_id_of_129_characters_changes_nothing(tmp_path: Path, tool: str) -> None:
    asked: dict[str, dict[str, Any]] = {
        "trade_execute": {"trades": [LEG]},
        "log_event": {"event_type": "alert", "data": {}},
        "cancel_trade_order": {"order_id": "x"},
    }

    async def main() -> None:
        async with standing(tmp_path) as found:
            error = (await found.refused(tool, "x" * 129, **asked[tool]))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["tool_call_id"])

    run(main())


def nested(depth: int) -> dict[str, Any]:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"in": value}
    return value


def test_an_event_may_be_eight_levels_deep_and_64_kib_large_and_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            for data in (nested(9), {"text": "x" * 65_536}, {"list": [[[[[[[[1]]]]]]]]}):
                error = (await found.refused("log_event", event_type="alert", data=data))["error"]
                assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["data"])
            for refs in (["nowhere"], "had", [1], ["had"] * 101):
                error = (await found.refused("log_event", event_type="signal", data={"source_refs": refs}))[
                    "error"
                ]
                assert error["code"] == "INVALID_INPUT"
        async with agent(tmp_path) as found:
            most = {"text": "x" * (65_536 - len('{"text":""}'))}
            for id, data in (("deep", nested(8)), ("large", most)):
                assert (await found.call("log_event", id, event_type="alert", data=data))["logged"] is True

    run(main())


# --- what the moment forbids ---------------------------------------------------------------------

SELL: Final = {**LEG, "action": "sell"}
FORBIDDEN: Final[list[tuple[list[dict[str, Any]], str, int | None]]] = [
    ([SELL | {"quantity": 6}], "INSUFFICIENT_POSITION", 0),
    ([SELL, SELL | {"quantity": 5}], "INSUFFICIENT_POSITION", 1),
    ([SELL | {"symbol": "MSFT"}], "INSUFFICIENT_POSITION", 0),
    ([LEG, LEG | {"symbol": "AAPL", "quantity": 200}], "INSUFFICIENT_FUNDS", 1),
    ([LEG, LEG | {"symbol": "ZZZZ"}], "INVALID_SYMBOL", 1),
    ([LEG | {"quantity": 60}], "RISK_LIMIT_EXCEEDED", None),
    ([LEG | {"quantity": 20}, LEG | {"quantity": 50}, LEG | {"quantity": 50}], "RISK_LIMIT_EXCEEDED", None),
    ([LEG] * 61, "RISK_LIMIT_EXCEEDED", None),
]


@pytest.mark.parametrize(("trades", "code", "index"), FORBIDDEN)
def test_one_leg_that_is_forbidden_stops_the_whole_batch(
    tmp_path: Path, trades: list[dict[str, Any]], code: str, index: int | None
) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            error = (await found.refused("trade_execute", "bad", trades=trades))["error"]
            assert (error["code"], error["details"].get("trade_index")) == (code, index)
            assert books(tmp_path)[1] == [code]

    run(main())


def test_a_closed_market_executes_nothing_and_names_the_next_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2012-12-24T19:00:00Z"}) as found:
            before, _ = books(tmp_path)
            error = (await found.refused("trade_execute", trades=[LEG]))["error"]
            assert error["code"] == "MARKET_CLOSED"
            assert error["details"]["next_open"] == "2012-12-26T14:30:00Z"
            assert books(tmp_path) == (before, ["MARKET_CLOSED"])

    run(main())


@pytest.mark.parametrize("state", ["HALTED", "REDUCING"])
def test_a_halted_desk_executes_nothing_and_a_reducing_one_only_reduces(tmp_path: Path, state: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("IBM", 5, "had")
        async with agent(tmp_path, {"state": state}) as found:
            before, _ = books(tmp_path)
            error = (await found.refused("trade_execute", trades=[LEG]))["error"]
            assert [v["limit"] for v in error["details"]["violations"]] == ["state"]
            assert books(tmp_path) == (before, ["RISK_LIMIT_EXCEEDED"])
            if state == "REDUCING":
                await found.call("trade_execute", trades=[SELL])
            else:
                assert (await found.refused("trade_execute", trades=[SELL]))["error"]["code"] == (
                    "RISK_LIMIT_EXCEEDED"
                )

    run(main())


def test_an_id_used_with_other_parameters_executes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as found:
            error = (await found.refused("trade_execute", "had", trades=[LEG]))["error"]
            assert error["code"] == "TOOL_CALL_ID_CONFLICT"

    run(main())


def test_fractions_are_refused_where_they_are_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path, {"fractional": False}) as found:
            error = (await found.refused("trade_execute", trades=[{**LEG, "quantity": 0.5}]))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["trades", 0, "quantity"])

    run(main())
