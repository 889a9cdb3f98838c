"""Every tool over the official MCP client, in both eras and over both doors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client

from tests.backtest.desks import agent, story
from tests.official import Mode, connected
from tests.support import run
from tracedesk.backtest.tools import backtest

WHEN: Final = {"startTime": "2025-01-02T14:30:00Z", "endTime": "2025-01-02T14:40:00Z"}


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


def asked(id: str) -> dict[str, tuple[dict[str, Any], str]]:
    """For each tool its arguments, and a member that its answer must have."""
    about = {"runId": id}
    trades = {**about, "eventType": "TradeExecution"}
    return {
        "list_backtest_runs": ({}, "runs"),
        "describe_run": (about, "eventTypes"),
        "get_events_by_type": (trades, "events"),
        "get_events_by_entity": (
            {**about, "entityType": "OrderId", "entityValue": "ord-1"},
            "events",
        ),
        "aggregate_metrics": (
            {**trades, "propertyPath": "$.Price", "aggregations": ["sum"]},
            "aggregations",
        ),
        "get_state_snapshot": ({**about, "timestamp": WHEN["endTime"]}, "state"),
        "state_delta": ({**about, **WHEN}, "positions"),
        "query_event_sequence": (about, "sequences"),
        "get_validation_errors": (about, "events"),
        "compare_runs": ({"runId": id, "otherRunId": id}, "firstDivergence"),
        "explain_event": ({**about, "eventId": "2"}, "chain"),
    }


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_lists_and_calls_every_tool(tmp_path: Path, transport: str, mode: Mode) -> None:
    id = story(tmp_path / "home")

    async def main() -> None:
        home = tmp_path / "home"
        async with connected(transport, mode, home, "backtest", agent(home)) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert set(backtest.tools) == set(asked(id)) <= listed
            for tool, (arguments, member) in asked(id).items():
                assert member in await ask(client, tool, **arguments), tool

    run(main())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_reads_a_refusal_as_an_answer(tmp_path: Path, transport: str) -> None:
    home = tmp_path / "home"
    story(home)

    async def main() -> None:
        async with connected(transport, "auto", home, "backtest", agent(home)) as client:
            unknown = "00000000-0000-4000-8000-000000000000"
            result = await client.call_tool("describe_run", {"runId": unknown})
            assert result.is_error
            assert "RUN_NOT_FOUND" in str(result.content)

    run(main())
