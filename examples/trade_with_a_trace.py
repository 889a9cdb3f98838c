"""Trades on the paper portfolio with the official MCP client, repeats the trade, and follows its price back.

Run it with `python examples/trade_with_a_trace.py` once `make setup` has been done.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(result.content)
    return result


def body(result: CallToolResult) -> dict[str, Any]:
    return result.structured_content or {}


async def main(home: Path) -> None:
    desk = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio", "--toolsets", "trading"],
    )
    async with Client(stdio_client(desk)) as client:
        # Every call carries an id of yours. It comes back in source_refs, and can be cited later.
        quotes = body(await call(client, "get_quotes", tool_call_id="quote-1", symbols=["IBM"]))
        print("quote:", quotes["quotes"][0]["price"])

        leg = {"symbol": "IBM", "action": "buy", "quantity": 10}
        simulated = body(await call(client, "trade_simulate", tool_call_id="sim-1", trades=[leg]))
        print("would cost:", simulated["simulation"]["trades"][0]["total_cost"])
        print("would break:", simulated["simulation"]["risk_violations"] or "no limit")

        order = {
            "tool_call_id": "trade-1",
            "trades": [{**leg, "order_type": "market"}],
            "simulation_ref": "sim-1",
            "rationale_refs": ["quote-1"],
        }
        first = await call(client, "trade_execute", **order)
        print("filled at:", body(first)["execution"]["trades"][0]["price"])

        # A retry with the same id never trades twice: it gets the same answer again.
        again = await call(client, "trade_execute", **order)
        repeated = body(again) == body(first) and (again.meta or {}).get("tracedesk/replayed") is True
        print("sent twice, traded once:", repeated)

        # From the trade back to the bytes that its price was read from, each named by its SHA-256.
        nodes = body(await call(client, "trace", ref="trade-1"))["nodes"]
        root, *causes = nodes
        print(
            "traced:", root["kind"], "from", ", ".join(sorted({edge["relation"] for edge in root["edges"]}))
        )
        (source,) = [n for n in causes if n["kind"] == "payload" and n["body"]["kind"] == "quotes"]
        print("the price was read from:", source["ref"])
        print("which says:", source["body"]["symbols"]["IBM"]["price"])

        proof = body(await call(client, "ledger_verify", tool_call_id="verify-1"))
        print("ledger is sound:", proof["sound"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
