"""Other users of the machine: without a token they see what is served, and nothing of the owner's."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from grpc.aio import AioRpcError  # pyright: ignore[reportMissingTypeStubs]

from tests.fixtures.ward import ward
from tests.other_user import UID, Answer, OtherUser, become, needs_root, other_user, proxy_of, running
from tests.support import BOUND, HELLO, VERSION, Client, desk_client, modern, read_reply, rpc, run
from tests.wire.test_grpc import grpc_desk
from tracedesk.wire.auth import Tokens
from tracedesk.wire.guard import Guard
from tracedesk.wire.origins import Names

SESSION: Final = "mcp-session-id"


def envelope(method: str, params: dict[str, Any] | None = None) -> tuple[str, Any, dict[str, str]]:
    """A request of the stateless era, as `(path, body, headers)`."""
    lines = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
    name = (params or {}).get("name") or (params or {}).get("uri")
    return "/mcp", modern(method, params), lines | ({"Mcp-Name": str(name)} if name else {})


LISTENING: Final = {"notifications": {"resourceSubscriptions": ["probe://watched"]}}
READINGS: Final[tuple[tuple[str, Any, dict[str, str]], ...]] = (
    envelope("tools/call", {"name": "say", "arguments": {}}),
    envelope("tools/call", {"name": "desk_status", "arguments": {}}),
    envelope("resources/read", {"uri": "probe://watched"}),
    envelope("resources/read", {"uri": "tracedesk://calls/019e0000-0000-7000-8000-000000000000"}),
    envelope("subscriptions/listen", LISTENING),
    envelope(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "probe://item/{symbol}"},
            "argument": {"name": "symbol", "value": ""},
        },
    ),
    ("/tools/say", {}, {}),
    ("/tools/get_source", {"ref": "x"}, {}),
)
OPEN: Final = (
    envelope("tools/list"),
    envelope("resources/list"),
    envelope("resources/templates/list"),
    envelope("prompts/list"),
    envelope("prompts/get", {"name": "consider", "arguments": {"symbol": "BTC"}}),
)


def assert_needs_token(answer: Answer) -> None:
    assert answer.status == 401, answer
    assert 'scope="read"' in answer.headers["www-authenticate"]
    assert "bearer token" in answer.body


async def opened(user: OtherUser, path: str = "/mcp") -> dict[str, str]:
    """The header of a new handshake session of that user."""
    hello = await user.post(path, rpc("initialize", HELLO))
    assert hello.status == 200
    return {"Mcp-Session-Id": hello.headers[SESSION]}


@needs_root
def test_another_user_without_a_token_reads_nothing_on_any_door(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client, other_user(client.port) as user:
            for path, body, headers in READINGS:
                assert_needs_token(await user.post(path, body, headers))
            call = rpc("tools/call", {"name": "say", "arguments": {}})
            for path, message in (("/mcp", "/mcp"), ("/mcp/sse", "/mcp/message")):
                session = await opened(user, path)
                for request in (
                    call,
                    rpc("resources/read", {"uri": "probe://watched"}),
                    rpc("resources/subscribe", {"uri": "probe://watched"}),
                ):
                    assert_needs_token(await user.post(message, request, session))
            assert client.desk.calls.total == 0

    run(main())


@needs_root
def test_another_user_without_a_token_is_shown_what_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client, other_user(client.port) as user:
            for path in ("/", "/health", "/openapi.json", "/.well-known/oauth-protected-resource"):
                assert (await user.request("GET", path)).status == 200
            for path, body, headers in OPEN:
                answer = await user.post(path, body, headers)
                assert (answer.status, "result" in answer.json) == (200, True), answer
            session = await opened(user)
            assert "result" in (await user.post("/mcp", rpc("tools/list"), session)).json

    run(main())


@needs_root
def test_another_user_with_a_token_that_reads_is_served(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).issue("reader", ("read",))

    async def main() -> None:
        async with desk_client(tmp_path) as client, other_user(client.port) as user:
            for path, body, headers in (READINGS[0], READINGS[2], READINGS[6]):
                answer = await user.post(path, body, {**headers, "Authorization": f"Bearer {secret}"})
                assert answer.status == 200, answer

    run(main())


@needs_root
def test_the_session_of_the_desks_own_user_is_of_no_use_to_another_user_who_learns_its_id(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client, other_user(client.port) as user:
            own = await client.open_session()
            call = rpc("tools/call", {"name": "say", "arguments": {}})
            assert own.session is not None
            assert (await user.post("/mcp", call, {"Mcp-Session-Id": own.session})).status == 404
            assert (await own.post("/mcp", call)).status == 200

    run(main())


@needs_root
def test_a_proxy_of_another_user_lends_nobody_the_own_users_reading(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client, proxy_of(UID, client.port) as port:
            proxied = replace(client, port=port)
            host = {"Host": f"127.0.0.1:{client.port}"}
            refused = await proxied.call("say", headers=host)
            assert refused.status == 401
            assert (await proxied.authorised().call("say", headers=host)).status == 200

    run(main())


PROXIES: Final = (
    *(
        "X-Forwarded-For",
        "Forwarded",
        "Via",
        "X-Real-IP",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Client-IP",
    ),
    *("True-Client-IP", "CF-Connecting-IP", "X-Envoy-External-Address", "X-Original-Forwarded-For"),
)


@pytest.mark.parametrize("header", PROXIES)
def test_what_a_proxy_hands_on_needs_a_token_whoever_runs_the_proxy(tmp_path: Path, header: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            assert (await client.call("say", headers={header: "203.0.113.7"})).status == 401
            assert (await client.authorised().call("say", headers={header: "203.0.113.7"})).status == 200
            assert (await client.call("say")).status == 200

    run(main())


def test_only_the_desks_own_user_is_known_without_a_token_and_root_is_not(tmp_path: Path) -> None:
    guard = Guard(Tokens(tmp_path), "http://127.0.0.1:1", Names("http", 1), own_uid=1_000)
    assert guard.bearer(None, 1_000).granted == {"read"}
    assert guard.bearer(None, 1_000).subject == "owner"
    for uid in (0, 1_001, None):
        stranger = guard.bearer(None, uid)
        assert (stranger.granted, stranger.principal, stranger.subject) == (frozenset(), None, None)


def test_connections_of_one_client_are_looked_up_each_when_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with each request, and not by a port that another connection had before."""
    from tracedesk.wire import heads

    asked = list[Any]()
    users = iter((os.geteuid(), UID))

    class Users:
        def of(self, ends: Any) -> int | None:
            asked.append(ends)
            return next(users)

    async def main() -> None:
        monkeypatch.setattr(heads, "_UIDS", Users())
        async with desk_client(tmp_path) as client, AsyncExitStack() as stack:
            for expected in (200, 401):
                send = await _kept_open(client, stack)
                assert [await send(), await send()] == [expected, expected]
            assert [ends.server_port for ends in asked] == [client.port, client.port]

    run(main())


async def _kept_open(client: Client, stack: AsyncExitStack) -> Any:
    """One connection, and how to send a reading over it: returns the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    stack.callback(writer.close)

    async def send() -> int:
        body = json.dumps({}).encode()
        writer.write(client.encode("POST", "/tools/say", body))
        return (await asyncio.wait_for(read_reply(reader), BOUND)).status

    return send


_INVOKE: Final = (
    become(["grpc", "grpc._channel", "google.protobuf.empty_pb2", "tracedesk.wire.provider_pb2 as pb"])
    + """
SERVICE = "/tracedesk.provider.v1.Provider/"
channel = grpc.insecure_channel("127.0.0.1:" + sys.argv[2])
def call(name, answer):
    return channel.unary_unary(SERVICE + name, request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=answer.FromString)
def code(name, request, answer, metadata=()):
    try:
        call(name, answer)(request, metadata=metadata, timeout=30)
        return "OK"
    except grpc.RpcError as fault:
        return fault.code().name
stream = channel.unary_stream(SERVICE + "Stream", request_serializer=lambda m: m.SerializeToString(),
                              response_deserializer=pb.CloudEvent.FromString)
def followed(topic):
    try:
        next(iter(stream(pb.StreamRequest(topic=topic), timeout=30)))
    except grpc.RpcError as fault:
        return fault.code().name
say = pb.InvokeRequest(tool_name="say")
asked = pb.PromptRequest(prompt_name="consider", arguments=pb.Json(value=b'{"symbol":"A"}'))
print(json.dumps({
    "list": code("ListCapabilities", google.protobuf.empty_pb2.Empty(), pb.Capabilities),
    "prompt": code("GetPrompt", asked, pb.PromptResponse),
    "invoke": code("Invoke", say, pb.InvokeResponse),
    "read": code("ReadResource", pb.ResourceRequest(uri="probe://watched"), pb.ResourceResponse),
    "stream": followed("ward://bed/1"),
    "token": code("Invoke", say, pb.InvokeResponse, (("authorization", "Bearer " + sys.argv[3]),)),
}), flush=True)
"""
)


@pytest.mark.parametrize("header", ["x-forwarded-for", "via", "x-envoy-external-address"])
def test_over_grpc_too_what_a_proxy_hands_on_needs_a_token(tmp_path: Path, header: str) -> None:
    async def main() -> None:
        async with grpc_desk(tmp_path) as client:
            assert await client.invoke("say") is not None
            assert await client.invoke("say", metadata=((header, "203.0.113.7"), *client.bearer)) is not None
            with pytest.raises(AioRpcError) as refused:
                await client.invoke("say", metadata=((header, "203.0.113.7"),))
            assert refused.value.code().name == "UNAUTHENTICATED"

    run(main())


@needs_root
@pytest.mark.parametrize(
    ("uid", "code"), [(UID, "UNAUTHENTICATED"), (os.geteuid(), "OK")], ids=["another user", "the own user"]
)
def test_over_grpc_another_user_without_a_token_reads_nothing(tmp_path: Path, uid: int, code: str) -> None:
    async def main() -> None:
        async with (
            grpc_desk(tmp_path) as client,
            running(_INVOKE, str(client.port), client.token, uid=uid) as process,
        ):
            assert process.stdout is not None
            if uid == os.geteuid():
                # An own stream stays open until something changes.
                asyncio.get_running_loop().create_task(_changing(client))
            found = json.loads(await asyncio.wait_for(process.stdout.readline(), BOUND))
            assert found == {
                "list": "OK",
                "prompt": "OK",
                "invoke": code,
                "read": code,
                "stream": None if code == "OK" else code,
                "token": "OK",
            }

    run(main())


async def _changing(client: Any) -> None:
    while True:
        await client.desk.notify_resource("ward://bed/1")
        await asyncio.sleep(0.05)


def test_a_stranger_follows_no_resource_of_a_toolset_that_hears_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[ward]) as client:
            stranger = replace(client, extra={"Via": "1.1 proxy"})
            session = await stranger.open_session()
            for uri in ("ward://bed/1", "ward://nothing"):
                refused = await session.post("/mcp", rpc("resources/subscribe", {"uri": uri}))
                assert refused.status == 401, refused
            assert client.desk.states["ward"].watchers == []

    run(main())
