"""The official MCP client fuzzes over stdio and HTTP, in both eras, and holds answers to their schemas."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.fuzz.desks import ENDLESS, PATIENCE, agent, no_host_left, vault
from tests.official import Mode, connected
from tests.support import BOUND, run
from tracedesk.fuzz.tools import fuzz


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    vault(tmp_path)
    with no_host_left(tmp_path / "home"):
        yield tmp_path / "home"


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """The answer of a call that succeeds; one that a busy machine made late is made again, as it says."""
    result = await client.call_tool(tool, arguments)
    for _ in range(PATIENCE):
        if not result.is_error or "EXECUTION_TIMEOUT" not in str(result.content):
            break
        result = await client.call_tool(tool, arguments)
    assert not result.is_error, str(result.content)
    if result.structured_content is not None:
        return result.structured_content
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def until_solved(client: Client) -> Any:
    async with asyncio.timeout(BOUND):
        while True:
            status = await call(client, "campaign_status")
            if any(test["status"] == "solved" for test in status["tests"]):
                return status
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_starts_watches_steers_and_ends_a_campaign_with_every_tool(
    home: Path, transport: str, mode: Mode
) -> None:
    async def main() -> None:
        async with connected(transport, mode, home, "fuzz", agent(home)) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(fuzz.tools) <= listed.keys()
            # A schema that is no object is not shown to clients of the handshake era.
            assert (listed["dump_lcov"].output_schema is None) == (mode == "legacy")

            chosen: dict[str, Any] = {"workers": 1, "seed": 7, "timeout": 100, "testLimit": ENDLESS}
            begun = await call(client, "start_campaign", path="Vault.vy", **chosen)
            used = {"start_campaign", "campaign_status"}
            status = await until_solved(client)
            assert status["campaign_id"] == begun["campaign_id"]
            calls: list[tuple[str, dict[str, Any]]] = [
                ("read_logs", {"count": 5}),
                ("show_coverage", {}),
                ("dump_lcov", {}),
                ("get_corpus_size", {}),
                ("inspect_corpus_transactions", {"limit": 3}),
                ("find_transaction_in_corpus", {"functionSignature": "set_fee(uint256)"}),
                ("inject_transaction", {"sequence": ["deposit()"], "value": "1"}),
                ("prioritize_function", {"functionSignature": "deposit()"}),
                ("clear_priorities", {}),
                ("target", {}),
                ("execute_sequence", {"sequence": ["set_fee(13)"], "trace": True}),
                ("get_reproducers", {"format": "foundry"}),
                ("sample_function", {"functionSignature": "deposit()"}),
                ("avoid_function", {"functionSignature": "fee()"}),
                ("stop_campaign", {}),
            ]
            for tool, arguments in calls:
                assert await call(client, tool, **arguments)
                used.add(tool)
            assert used == set(fuzz.tools)

    run(main())


def test_the_official_client_gets_a_refusal_as_a_result_it_can_read(home: Path) -> None:
    async def main() -> None:
        async with connected("http", "auto", home, "fuzz", agent(home)) as client:
            await client.list_tools()
            result = await client.call_tool("get_corpus_size", {})
            assert result.is_error
            assert result.structured_content is None
            block = result.content[0]
            assert isinstance(block, types.TextContent)
            assert block.text.startswith('{"success":false,"error":{"code":"INVALID_INPUT"')
            assert '"kind":"NO_CAMPAIGN"' in block.text

    run(main())


def test_the_official_client_would_refuse_an_answer_that_breaks_its_contract(home: Path) -> None:
    async def main() -> None:
        async with connected("http", "auto", home, "fuzz", agent(home)) as client:
            await call(client, "start_campaign", path="Vault.vy", workers=1, testLimit=500)
            result = await client.call_tool("get_corpus_size", {})
            broken = result.model_copy(update={"structured_content": {"size": "many"}})
            await client.session.validate_tool_result("get_corpus_size", result)
            with pytest.raises(RuntimeError, match="Invalid structured content"):
                await client.session.validate_tool_result("get_corpus_size", broken)

    run(main())
