"""Live, played at an exchange of this process: every order waits for a person, and only profiles trade."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import grpc as _grpc  # pyright: ignore[reportMissingTypeStubs]
import pytest

import tracedesk
from tests.exchange.confirming import enter_code, file_of, page_of, submit
from tests.exchange.desks import BUY, Agent, agent, text
from tests.exchange.test_accounts import elicited
from tests.exchange.test_key_page import ask
from tests.support import BOUND, ENVELOPE, HELLO, events, read_chunk, read_head, rpc, run, until
from tracedesk.backup import back_up
from tracedesk.exchange.orders.pace import Pace
from tracedesk.primitives.paths import PRIVATE, Jail, PathRefused
from tracedesk.serve import build_guard
from tracedesk.wire import provider_pb2 as pb
from tracedesk.wire.grpc import serving
from tracedesk.wire.grpc_room import SERVICE

grpc: Final[Any] = _grpc


def declaring(*modes: str) -> dict[str, Any]:
    """The envelope of a client that can put such questions to its user."""
    capabilities: dict[str, dict[str, Any]] = {"elicitation": {mode: {} for mode in modes}}
    return {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": capabilities}


async def sent(owner: Agent, token: str, answers: dict[str, Any] | None = None, *modes: str) -> Any:
    """Send the order by a client that can send its user to a page, or ask it in these ways."""
    params = {
        "name": "place_order",
        "arguments": {**BUY, "preview_token": token},
        **(answers or {}),
        "_meta": declaring(*(modes or ("url",))),
    }
    lines = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "place_order"}
    return (await owner.client.post("/mcp", rpc("tools/call", params), lines)).json


async def place(owner: Agent, token: str, answers: dict[str, Any] | None = None) -> Any:
    return (await sent(owner, token, answers))["result"]


async def asked(owner: Agent) -> tuple[str, str, dict[str, Any]]:
    """A previewed order, the name of the question about it, and the first answer."""
    preview = await owner.call("preview_order", **BUY)
    assert preview["needs_confirmation"] is True
    first = await place(owner, preview["preview_token"])
    [name] = first["inputRequests"]
    return preview["preview_token"], name, first


def answers(name: str, first: dict[str, Any], **answer: Any) -> dict[str, Any]:
    return {"inputResponses": {name: answer}, "requestState": first["requestState"]}


def hasten(owner: Agent) -> None:
    """Let calls wait for no person."""
    owner.provider.orders.pace = Pace(confirms=0.0)


def test_an_order_goes_out_only_when_the_code_was_entered_on_the_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token, name, first = await asked(owner)
            question = first["inputRequests"][name]["params"]
            assert question["mode"] == "url"
            assert "LIVE" in question["message"]
            assert "BUY 0.01 BTCUSDT" in question["message"]
            shown = await ask(page_of(question))
            assert b"BUY 0.01 BTCUSDT" in shown.body
            assert str(file_of(question)).encode() in shown.body
            assert (await owner.call("get_open_orders"))["orders"] == []
            assert (await enter_code(question)).status == 200
            done = await place(owner, token, answers(name, first, action="accept"))
            assert (done["structuredContent"]["status"], done["structuredContent"]["mode"]) == ("NEW", "live")
            assert len((await owner.call("get_open_orders"))["orders"]) == 1
            assert (await owner.call("provider_status"))["real_money"] is True

    run(main())


def test_a_bearer_token_that_answers_its_own_question_sends_nothing(tmp_path: Path) -> None:
    """With every scope, in whichever words, as often as it likes, and with the page it was told of."""

    async def main() -> None:
        async with agent(tmp_path, {"confirm": "always"}) as client:
            owner = client.owner()
            hasten(owner)
            token, name, first = await asked(owner)
            question = first["inputRequests"][name]["params"]
            tries = (
                {"action": "accept"},
                {"action": "accept", "content": {"confirm": True}},
                {"action": "accept", "content": {"code": owner.client.token}},
            )
            for answer in tries:
                refused = await place(owner, token, answers(name, first, **answer))
                assert "APPROVAL_PENDING" in text(refused) or refused["resultType"] == "input_required"
            forms: tuple[dict[str, str], ...] = (
                {},
                {"decision": "send"},
                {"code": owner.client.token, "decision": "send"},
            )
            for form in forms:
                assert (await submit(question, None, **form)).status == 422
            assert (await owner.call("get_all_orders", symbol="BTCUSDT"))["orders"] == []

    run(main())


def test_the_page_answers_to_its_own_host_and_origin_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            _, name, first = await asked(owner)
            question = first["inputRequests"][name]["params"]
            code = file_of(question).read_text(encoding="ascii").strip()
            for headers in (
                {"Host": "evil.test"},
                {"Origin": "http://127.0.0.1:1"},
                {"Sec_Fetch_Site": "cross-site"},
            ):
                assert (await submit(question, headers, code=code, decision="send")).status == 404
            shown = await ask(page_of(question))
            assert shown.headers["x-frame-options"] == "DENY"
            assert shown.headers["cache-control"] == "no-store"
            assert code.encode() not in shown.body
            assert (await submit(question, code=f" {code.upper()} ", decision="send")).status == 200
            assert (await submit(question, code=code, decision="send")).status == 404

    run(main())


def test_the_code_is_in_a_file_of_this_user_alone_and_nowhere_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token, name, first = await asked(owner)
            file = file_of(first["inputRequests"][name]["params"])
            code = file.read_text(encoding="ascii").strip()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
            assert file.is_relative_to(tmp_path)
            assert code not in text(first)
            # What a caller repeats of it is kept by no record.
            await owner.raw("get_order", symbol=code, order_id=1)
            await until(lambda: owner.client.desk.calls.unwritten == 0)
            back_up(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
            for folder in (tmp_path, tmp_path.parent / f"{tmp_path.name}-copy"):
                for path in [p for p in folder.rglob("*") if p.is_file() and p != file]:
                    assert code.encode() not in path.read_bytes(), path
            with pytest.raises(PathRefused, match="never opened"):
                Jail([tmp_path]).open_read(None, str(file))
            await enter_code(first["inputRequests"][name]["params"])
            assert not file.exists()
            assert (await place(owner, token))["structuredContent"]["status"] == "NEW"

    run(main())


def test_a_user_who_declines_ends_the_preview(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token, name, first = await asked(owner)
            refused = await place(owner, token, answers(name, first, action="decline"))
            assert "PREVIEW_INVALID" in text(refused)
            assert (await owner.call("get_open_orders"))["orders"] == []

    run(main())


def test_a_client_that_cannot_send_its_user_to_a_page_sends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            token = (await owner.call("preview_order", **BUY))["preview_token"]
            reply = await owner.raw("place_order", **BUY, preview_token=token)
            assert "elicitation" in text(reply.json["error"])
            # One that shows forms is not asked by a form instead.
            for modes in (("form",), ()):
                reply = await owner.client.post(
                    "/mcp",
                    rpc(
                        "tools/call",
                        {
                            "name": "place_order",
                            "arguments": {**BUY, "preview_token": token},
                            "_meta": declaring(*modes),
                        },
                    ),
                    {
                        "MCP-Protocol-Version": "2026-07-28",
                        "Mcp-Method": "tools/call",
                        "Mcp-Name": "place_order",
                    },
                )
                assert reply.json["error"]["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}
            plain = await owner.client.post("/tools/place_order", {**BUY, "preview_token": token})
            assert plain.json["error"]["code"] == "CLIENT_UNSUPPORTED"
            assert (await owner.call("get_open_orders"))["orders"] == []
            assert list((tmp_path / "run" / PRIVATE).iterdir()) == []

    run(main())


def test_nothing_that_the_product_does_rests_on_the_answer_to_a_form() -> None:
    source = Path(tracedesk.__file__).parent
    asking = re.compile(r"\bForm\(")
    users = [path.name for path in source.rglob("*.py") if asking.search(path.read_text(encoding="utf-8"))]
    assert users == [], "a client answers forms by itself; ask on a page"


def test_over_grpc_an_order_that_waits_for_a_person_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            desk, owner = client.client.desk, client.owner()
            token = (await owner.call("preview_order", **BUY))["preview_token"]
            guard, _ = build_guard(desk, "grpc://127.0.0.1")
            async with (
                serving(desk.kernel, guard, desk.clock, "127.0.0.1:0") as port,
                grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
            ):
                invoke = channel.unary_unary(
                    f"/{SERVICE}/Invoke",
                    request_serializer=pb.InvokeRequest.SerializeToString,
                    response_deserializer=pb.InvokeResponse.FromString,
                )
                payload = pb.Json(value=json.dumps({**BUY, "preview_token": token}).encode())
                request = pb.InvokeRequest(tool_name="place_order", payload=payload)
                bearer = (("authorization", f"Bearer {owner.client.token}"),)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await invoke(request, metadata=bearer, timeout=30)
            error = json.loads(dict(refused.value.trailing_metadata())["tracedesk-error-bin"])["error"]
            assert error["code"] == "CLIENT_UNSUPPORTED"
            assert (await owner.call("get_open_orders"))["orders"] == []

    run(main())


def test_a_client_of_the_handshake_era_is_asked_in_the_same_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode="live") as client:
            owner = client.owner()
            hello: dict[str, Any] = {**HELLO, "capabilities": {"elicitation": {"url": {}}}}
            opened = await owner.client.post("/mcp", rpc("initialize", hello))
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            # A session has previews of its own.
            preview = rpc("tools/call", {"name": "preview_order", "arguments": BUY})
            shown = (await owner.client.post("/mcp", preview, session)).structured
            token = shown["preview_token"]
            call = rpc("tools/call", {"name": "place_order", "arguments": {**BUY, "preview_token": token}}, 7)
            reader, writer = await asyncio.open_connection("127.0.0.1", owner.client.port)
            writer.write(owner.client.encode("POST", "/mcp", json.dumps(call).encode(), session))
            await read_head(reader)
            question = await heard(reader)
            assert question["params"]["mode"] == "url"
            await owner.client.post(
                "/mcp", {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}, session
            )
            assert (await owner.call("get_open_orders"))["orders"] == []
            assert (await enter_code(question["params"])).status == 200
            done = await heard(reader)
            assert (done["id"], done["result"]["structuredContent"]["status"]) == (7, "NEW")
            writer.close()

    run(main())


async def heard(reader: asyncio.StreamReader) -> Any:
    """The next message of an event stream; pings are passed over."""
    while True:
        found = events(await asyncio.wait_for(read_chunk(reader), BOUND))
        if found:
            return found[0]


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
