"""Documents that nest deeply, or are long: refused as ordinary arguments, and read beside the event loop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import ENVELOPE, HELLO, VERSION, Client, StdioDesk, desk_client, rpc, run
from tracedesk.contract import Annotations, Arguments, Call, Tool, Toolset
from tracedesk.errors import FUZZ, STANDARD, TRADING
from tracedesk.primitives.json import DEEPEST, MOST_VALUES

READS = Annotations(read_only=True, idempotent=True)
ANY = {"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}}}}

takes: Toolset[None] = Toolset("takes", summary="Takes anything.", guide="call take.")


async def _take(args: Arguments, call: Call[Any]) -> dict[str, Any]:
    return {"members": len(args.get("paths", args))}


for family in (STANDARD, FUZZ, TRADING):
    takes.add(
        Tool(
            name=f"take_{family.name}",
            toolset="takes",
            description="Counts what it is given.",
            input=ANY,
            output={"type": "object"},
            annotations=READS,
            scope="read",
            family=family,
            deadline=20.0,
            handler=_take,
        )
    )


def nested(levels: int) -> bytes:
    """Arguments that nest so deeply, themselves included."""
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def call_message(tool: str, arguments: bytes, meta: Any = None) -> bytes:
    envelope = b"" if meta is None else b',"_meta":' + json.dumps(meta).encode()
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b%b}}' % (
        tool.encode(),
        arguments,
        envelope,
    )


def modern_headers(tool: str) -> dict[str, str | None]:
    return {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}


async def ask(client: Client, door: str, tool: str, arguments: bytes) -> Any:
    """The envelope, or the result, of a call over one of the HTTP doors."""
    if door == "tools":
        return (await client.request("POST", f"/tools/{tool}", arguments)).json
    if door == "stateless":
        message = call_message(tool, arguments, ENVELOPE)
        reply = await client.request("POST", "/mcp", message, modern_headers(tool))
    else:
        session = await client.open_session()
        path = "/mcp" if door == "session" else "/mcp/message"
        reply = await session.request("POST", path, call_message(tool, arguments))
    assert reply.status == 200, reply
    return json.loads(reply.json["result"]["content"][0]["text"])


async def recorded(client: Client) -> list[dict[str, Any]]:
    """The calls that the desk has written, newest last."""
    from tracedesk.calls.history import newest
    from tracedesk.journal import Reader

    client.desk.calls.stop()
    with Reader(client.desk.calls.path) as reader:
        return [call.body for call in newest(reader, 100)]


DOORS = ["tools", "stateless", "session", "message"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("levels", [DEEPEST + 1, 253, 300, 1_100, 100_000])
def test_arguments_that_nest_too_deeply_are_an_invalid_argument_and_a_record(
    tmp_path: Path, door: str, levels: int
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            for family, code in ((STANDARD, "INVALID_PARAMETER"), (FUZZ, "INVALID_INPUT")):
                found = await ask(client, door, f"take_{family.name}", nested(levels))
                assert found["error"]["code"] == code
                assert f"{DEEPEST} levels" in found["error"]["message"]
            calls = await recorded(client)
            assert [(call["outcome"], call["code"]) for call in calls] == [
                ("error", "INVALID_PARAMETER"),
                ("error", "INVALID_INPUT"),
            ]
            assert all("64 levels" in call["arguments"]["omitted"] for call in calls)

    run(main())


@pytest.mark.parametrize("length", [1, 100_000], ids=["short", "long"])
@pytest.mark.parametrize(
    "number",
    [b"1e999999999", b"1e99999999999999999999", b"-1e-99999999999999999999", b"0." + b"1" * 13_000],
    ids=["nine digits", "twenty digits", "negative", "long"],
)
def test_a_number_of_boundless_exponent_is_no_json_at_every_door(
    tmp_path: Path, number: bytes, length: int
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            arguments = b'{"a":"' + b"x" * length + b'","n":' + number + b"}"
            assert (await client.request("POST", "/tools/take_standard", arguments)).status == 400
            session = await client.open_session()
            reply = await session.request("POST", "/mcp", call_message("take_standard", arguments))
            assert (reply.status, reply.json["error"]["code"]) == (400, -32700)
            with StdioDesk(tmp_path / "stdio") as desk:
                desk.ask(rpc("initialize", HELLO))
                desk.send_bytes(call_message("echo", arguments) + b"\n")
                assert desk.read()["error"]["code"] == -32700
                assert desk.ask(rpc("ping"))["result"] == {}

    run(main())


@pytest.mark.parametrize("door", DOORS)
def test_arguments_that_nest_as_deeply_as_they_may_are_taken_and_kept(tmp_path: Path, door: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            assert await ask(client, door, "take_standard", nested(DEEPEST)) == {"members": 1}
            (call,) = await recorded(client)
            assert call["arguments"] == json.loads(nested(DEEPEST))

    run(main())


def test_a_trading_tool_answers_deep_arguments_with_the_callers_own_reference(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            arguments = b'{"tool_call_id":"mine",' + nested(200)[1:]
            found = await ask(client, "tools", "take_trading", arguments)
            assert (found["error"]["code"], found["source_refs"]) == ("INVALID_INPUT", ["mine"])

    run(main())


@pytest.mark.parametrize("door", DOORS)
def test_arguments_of_too_many_values_are_refused_and_twenty_thousand_paths_pass(
    tmp_path: Path, door: str
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            many = b'{"paths":[' + b",".join([b'""'] * (MOST_VALUES + 1)) + b"]}"
            found = await ask(client, door, "take_standard", many)
            assert found["error"]["code"] == "INVALID_PARAMETER"
            assert f"{MOST_VALUES} values" in found["error"]["message"]
            paths = json.dumps({"paths": [f"src/part/{n}.py" for n in range(20_000)]}).encode()
            assert await ask(client, door, "take_standard", paths) == {"members": 20_000}
            half = b'{"paths":[' + b",".join([b'""'] * 500_000) + b"]}"
            assert await ask(client, door, "take_standard", half) == {"members": 500_000}

    run(main())


def test_a_fault_far_down_a_long_list_is_named_with_its_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            paths: list[Any] = ["a"] * 100_000
            paths[77_777] = 7
            found = await ask(client, "tools", "take_standard", json.dumps({"paths": paths}).encode())
            assert found["error"]["details"]["path"] == ["paths", 77_777]

    run(main())


@pytest.mark.parametrize("door", ["stateless", "session"])
def test_a_call_brings_little_beside_its_arguments(tmp_path: Path, door: str) -> None:
    """The SDK reads all of it on the event loop: 3 MB of capabilities stopped that for 0.3 seconds."""

    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            asker = client if door == "stateless" else await client.open_session()
            many: dict[str, Any] = {f"member {number}": {} for number in range(60_000)}
            meta: dict[str, Any] = {
                **ENVELOPE,
                "io.modelcontextprotocol/clientCapabilities": {"experimental": many},
            }
            headers = modern_headers("take_standard") if door == "stateless" else {}
            reply = await asker.request("POST", "/mcp", call_message("take_standard", b"{}", meta), headers)
            assert (reply.status, reply.json["error"]["code"]) == (400, -32602)
            assert "Beside its arguments" in reply.json["error"]["message"]

    run(main())


@pytest.mark.parametrize("door", ["stateless", "session"])
def test_a_message_that_calls_no_tool_and_nests_deeply_is_refused_by_its_id(
    tmp_path: Path, door: str
) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            asker = client if door == "stateless" else await client.open_session()
            meta = json.dumps(ENVELOPE).encode() if door == "stateless" else b"{}"
            message = b'{"jsonrpc":"2.0","method":"prompts/list","params":{"x":%b,"_meta":%b},"id":9}' % (
                nested(400),
                meta,
            )
            headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "prompts/list"}
            reply = await asker.request("POST", "/mcp", message, headers if door == "stateless" else {})
            assert reply.status == 400
            assert (reply.json["id"], reply.json["error"]["code"]) == (9, -32602)

    run(main())


def test_over_stdio_deep_and_long_lines_are_answered_in_order(tmp_path: Path) -> None:
    long = b'{"n":1,"x":[' + b",".join([b"1.5"] * 30_000) + b"]}"
    with StdioDesk(tmp_path) as desk:
        assert "result" in desk.ask(rpc("initialize", HELLO))
        desk.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        deep = call_message("echo", nested(100_000))
        desk.send_bytes(deep + b"\n" + call_message("echo", long).replace(b'"id":1', b'"id":2') + b"\n")
        desk.send({**rpc("tools/call", {"name": "echo", "arguments": {"n": 3}}), "id": 3})
        answers = {answer["id"]: answer["result"] for answer in (desk.read() for _ in range(3))}
    assert "64 levels" in answers[1]["content"][0]["text"]
    assert "additionalProperties" in answers[2]["content"][0]["text"]
    assert answers[3]["structuredContent"] == {"n": 3}


def test_what_stdio_has_accepted_is_answered_after_the_input_has_ended(tmp_path: Path) -> None:
    paths = b'{"n":4,"x":[' + b",".join([b"1.5"] * 30_000) + b"]}"
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", HELLO))
        desk.send_bytes(call_message("echo", paths).replace(b'"id":1', b'"id":7') + b"\n")
        code, out, _ = desk.finish()
    assert (code, json.loads(out)["id"]) == (0, 7)


@pytest.mark.parametrize(
    "body",
    [
        b'{"paths":[' + b",".join([b"1.5"] * 400_000) + b"]}",
        b'{"paths":[' + b",".join([b'{"a":1}'] * 200_000) + b"]}",
        b"{" + b",".join(b'"k%d":1' % n for n in range(200_000)) + b"}",
        b'{"paths":["' + b"\\u00e9" * 600_000 + b'"]}',
        b'{"paths":' + b"[" * 1_900_000 + b"]" * 1_900_000 + b"}",
    ],
    ids=["fractions", "objects", "names", "escapes", "depth"],
)
def test_the_loop_turns_while_a_long_body_is_read(tmp_path: Path, body: bytes) -> None:
    """Counted, not timed: with the whole body decoded in one go, the loop would not turn at all."""

    async def main() -> None:
        async with desk_client(tmp_path, extra=[takes]) as client:
            documents, turns = client.desk.dispatch.documents, 0
            whole = documents.read

            async def watched(*args: Any, **more: Any) -> Any:
                nonlocal turns
                reading = asyncio.ensure_future(whole(*args, **more))
                while not reading.done():
                    turns += 1
                    await asyncio.sleep(0)
                return reading.result()

            documents.read = watched
            await client.request("POST", "/tools/take_standard", body)
            assert turns > 5

    run(main())
