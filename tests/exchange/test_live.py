"""Live, played at an exchange of this process: every order waits for a person, and only profiles trade."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.exchange.desks import BUY, Agent, agent, text
from tests.exchange.test_accounts import elicited
from tests.exchange.test_key_page import ask
from tests.support import ENVELOPE, rpc, run

FORM: dict[str, Any] = {
    **ENVELOPE,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


async def place(owner: Agent, token: str, answers: dict[str, Any] | None = None) -> Any:
    """Send the order by a client that can ask its user."""
    params = {
        "name": "place_order",
        "arguments": {**BUY, "preview_token": token},
        **(answers or {}),
        "_meta": FORM,
    }
    lines = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "place_order"}
    return (await owner.client.post("/mcp", rpc("tools/call", params), lines)).json["result"]


async def asked(owner: Agent) -> tuple[str, str, dict[str, Any]]:
    """A previewed order, the name of the question about it, and the first answer."""
    preview = await owner.call("preview_order", **BUY)
    assert preview["needs_confirmation"] is True
    first = await place(owner, preview["preview_token"])
    [name] = first["inputRequests"]
    return preview["preview_token"], name, first


def test_an_order_goes_out_only_when_the_user_says_yes(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token, name, first = await asked(owner)
            question = first["inputRequests"][name]["params"]
            assert question["mode"] == "form"
            assert "LIVE" in question["message"]
            assert "BUY 0.01 BTCUSDT" in question["message"]
            assert (await owner.call("get_open_orders"))["orders"] == []
            yes = {name: {"action": "accept", "content": {"confirm": True}}}
            done = await place(owner, token, {"inputResponses": yes, "requestState": first["requestState"]})
            assert (done["structuredContent"]["status"], done["structuredContent"]["mode"]) == ("NEW", "live")
            assert len((await owner.call("get_open_orders"))["orders"]) == 1
            assert (await owner.call("provider_status"))["real_money"] is True

    run(main())


def test_a_user_who_declines_ends_the_preview(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token, name, first = await asked(owner)
            no = {name: {"action": "decline"}}
            refused = await place(owner, token, {"inputResponses": no, "requestState": first["requestState"]})
            assert "PREVIEW_INVALID" in text(refused)
            assert (await owner.call("get_open_orders"))["orders"] == []

    run(main())


def test_a_client_that_cannot_ask_its_user_sends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token = (await owner.call("preview_order", **BUY))["preview_token"]
            reply = await owner.raw("place_order", **BUY, preview_token=token)
            assert "elicitation" in text(reply.json["error"])
            assert (await owner.call("get_open_orders"))["orders"] == []

    run(main())


def test_a_symbol_that_is_not_allowed_and_keys_that_a_caller_brought_cannot_trade(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            other = await owner.refused("preview_order", **{**BUY, "symbol": "ETHUSDT", "price": "2000"})
            assert "allowed_symbols" in other["message"]
            key = client.market.exchange.keys.issue("bob")
            await elicited(owner, enter_keys=True)
            page = client.provider.pages.of("principal:owner")
            assert page is not None
            await ask(page, urlencode({"api_key": key.api_key, "secret": key.material}))
            assert (await owner.call("get_account"))["account"].startswith("live/key-")
            refused = await owner.refused("preview_order", **BUY)
            assert "profile" in refused["message"]

    run(main())
