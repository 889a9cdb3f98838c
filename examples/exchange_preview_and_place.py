"""Previews and places an order at the local exchange with the official MCP client, and follows its audit.

Run it with `python examples/exchange_preview_and_place.py` once `make setup` has been done.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent, TextResourceContents


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(result.content)
    return result.structured_content or {}


async def main(home: Path) -> None:
    desk = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tracedesk.cli", "--home", str(home), "serve", "--stdio", "--toolsets", "exchange"],
    )
    async with Client(stdio_client(desk)) as client:
        # Without settings the venue is the local exchange, which starts now: no keys, no real money.
        status = await call(client, "provider_status")
        print("mode:", status["mode"], "- real money:", status["real_money"])

        touch = await call(client, "orderbook_l1", symbol="BTCUSDT")
        print("bid and ask:", touch["best_bid"], touch["best_ask"])

        order = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "MARKET", "quantity": "0.01"}
        preview = await call(client, "preview_order", **order)
        print(
            "fills at once:", preview["fills_at_once"], "- needs confirmation:", preview["needs_confirmation"]
        )

        # The token places exactly this order, once.
        placed = await call(client, "place_order", **order, preview_token=preview["preview_token"])
        print("placed:", placed["status"], placed["executed_quantity"])
        again = await client.call_tool("place_order", {**order, "preview_token": preview["preview_token"]})
        refusal = again.content[0]
        print("placed twice:", not (isinstance(refusal, TextContent) and "PREVIEW_INVALID" in refusal.text))

        [page] = (await client.read_resource("binance://account/balances")).contents
        assert isinstance(page, TextResourceContents)
        print("balances:", next(line for line in page.text.splitlines() if line.startswith("| BTC")))

        source = await call(client, "get_source", ref=placed["ref"])
        print("the audit knows it:", placed["client_order_id"] in str(source))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        try:
            asyncio.run(main(home))
        finally:
            stop = [sys.executable, "-m", "tracedesk.cli", "exchange", "stop", "--home", str(home)]
            subprocess.run(stop, check=False, capture_output=True)
