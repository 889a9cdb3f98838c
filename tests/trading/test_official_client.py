"""The official MCP client trades over stdio and HTTP, in both eras, and holds answers to their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.official import Mode, connected
from tests.support import run
from tests.trading.desks import agent

LEG = {"symbol": "IBM", "action": "buy", "quantity": 10}


async def call(client: Client, tool: str, id: str, **arguments: Any) -> types.CallToolResult:
    result = await client.call_tool(tool, {"tool_call_id": id, **arguments})
    assert not result.is_error, result
    return result


def body(result: types.CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_simulates_trades_once_and_sees_it_in_the_portfolio(
    tmp_path: Path, transport: str, mode: Mode
) -> None:
    async def main() -> None:
        async with connected(transport, mode, tmp_path, "trading", agent(tmp_path)) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert listed["trade_execute"].output_schema is not None

            before = body(await call(client, "get_portfolio", "p1"))
            assert before["portfolio"]["cash"] == 100_000

            shown = body(await call(client, "trade_simulate", "s1", trades=[LEG]))
            (leg,) = shown["simulation"]["trades"]
            assert (leg["price"], leg["total_cost"]) == (190.8554, 1909.55)

            trades = [{**LEG, "order_type": "market"}]
            first = await call(client, "trade_execute", "t1", trades=trades, simulation_ref="s1")
            again = await call(client, "trade_execute", "t1", trades=trades, simulation_ref="s1")
            assert again.structured_content == first.structured_content
            assert again.content[0] == first.content[0]
            assert "tracedesk/replayed" not in (first.meta or {})
            assert (again.meta or {})["tracedesk/replayed"] is True

            after = body(await call(client, "get_portfolio", "p2"))
            assert after["portfolio"]["cash"] == 98_090.45
            assert [p["quantity"] for p in after["portfolio"]["positions"]] == [10]

    run(main())


def test_the_official_client_gets_a_refusal_as_a_result_it_can_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected("http", "auto", tmp_path, "trading", agent(tmp_path)) as client:
            await client.list_tools()
            trades = [{**LEG, "order_type": "market", "action": "sell"}]
            result = await client.call_tool("trade_execute", {"tool_call_id": "t1", "trades": trades})
            assert result.is_error
            assert result.structured_content is None
            block = result.content[0]
            assert isinstance(block, types.TextContent)
            assert '"code":"INSUFFICIENT_POSITION"' in block.text
            assert block.text.endswith('"source_refs":["t1"]}')

    run(main())


def test_the_official_client_would_refuse_an_answer_that_breaks_its_contract(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected("http", "auto", tmp_path, "trading", agent(tmp_path)) as client:
            result = await call(client, "get_portfolio", "p1")
            broken = result.model_copy(update={"structured_content": {"portfolio": {}}})
            await client.session.validate_tool_result("get_portfolio", result)
            with pytest.raises(RuntimeError, match="Invalid structured content"):
                await client.session.validate_tool_result("get_portfolio", broken)

    run(main())
