"""A user's yes is to one question, once."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.probe import PRICE, SALES
from tests.support import Client, desk_client, modern, run

YES = {"question-1": {"action": "accept", "content": {"ok": True}}}


@pytest.fixture(autouse=True)
def _market() -> Generator[None]:
    PRICE["now"] = 90
    SALES.clear()
    yield
    SALES.clear()


async def _sell(client: Client, **params: Any) -> dict[str, Any]:
    message = modern("tools/call", {"name": "sell_now", "arguments": {}, **params})
    meta: dict[str, Any] = dict(message["params"]["_meta"])
    meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {}}
    message["params"]["_meta"] = meta
    lines = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "sell_now"}
    return (await client.post("/mcp", message, lines)).json["result"]


def test_yes_to_one_price_is_not_yes_to_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as anyone:
            client = anyone.authorised()
            asked = await _sell(client)
            assert asked["inputRequests"]["question-1"]["params"]["message"] == "Sell at 90?"
            PRICE["now"] = 80
            again = await _sell(client, requestState=asked["requestState"], inputResponses=YES)
            assert again["inputRequests"]["question-1"]["params"]["message"] == "Sell at 80?"
            assert SALES == []
            done = await _sell(client, requestState=again["requestState"], inputResponses=YES)
            assert done["structuredContent"] == {"sold": [80]}

    run(main())


def test_a_yes_is_used_once_by_what_changes_state(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as anyone:
            client = anyone.authorised()
            asked = await _sell(client)
            answered = {"requestState": asked["requestState"], "inputResponses": YES}
            assert (await _sell(client, **answered))["structuredContent"] == {"sold": [90]}
            replayed = await _sell(client, **answered)
            assert replayed["resultType"] == "input_required"
            assert SALES == [90]

    run(main())


def test_an_answer_to_what_was_never_asked_is_no_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as anyone:
            result = await _sell(anyone.authorised(), inputResponses=YES)
            assert result["resultType"] == "input_required"
            assert SALES == []

    run(main())


def test_a_yes_given_to_one_caller_is_not_anothers(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as anyone:
            from tracedesk.wire.auth import Tokens

            other = Tokens(tmp_path).issue("other", ("read", "write", "trade"))
            asked = await _sell(anyone.authorised())
            anyone.extra = {"Authorization": f"Bearer {other}"}
            message = modern("tools/call", {"name": "sell_now", "arguments": {}})
            message["params"] |= {"requestState": asked["requestState"], "inputResponses": YES}
            lines = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "sell_now"}
            reply = await anyone.post("/mcp", message, lines)
            assert reply.json["error"]["message"] == "Invalid or expired requestState"
            assert SALES == []

    run(main())
