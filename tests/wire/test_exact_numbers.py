"""A number keeps every digit it came with, on every door, both ways."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import ENVELOPE, HELLO, VERSION, Client, StdioDesk, desk_client, rpc, run

DIGITS = [
    "1.10",
    "0.00000001",
    "123456789.000000000000000010",
    "-0.100000000000000001",
    "1208925819614629174706176",
]


def _body(number: str, envelope: bool) -> bytes:
    """A tools/call whose number was never a float."""
    meta = f',"_meta":{json.dumps(ENVELOPE)}' if envelope else ""
    params = f'{{"name":"echo","arguments":{{"n":{number}}}{meta}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()


def _assert_verbatim(wire: bytes, number: str) -> None:
    assert f'"text":"{{\\"n\\":{number}}}"'.encode() in wire
    assert f'"structuredContent":{{"n":{number}}}'.encode() in wire


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_numbers_arrive_digit_for_digit_over_stdio(tmp_path: Path, era: str) -> None:
    with StdioDesk(tmp_path) as desk:
        if era == "handshake":
            desk.ask(rpc("initialize", HELLO))
        for number in DIGITS:
            desk.send_bytes(_body(number, era == "modern") + b"\n")
            _assert_verbatim(desk.read_line(), number)


def test_numbers_arrive_digit_for_digit_over_http_in_both_eras(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            session = await client.open_session()
            lines = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
            for number in DIGITS:
                reply = await client.request("POST", "/mcp", _body(number, True), lines)
                _assert_verbatim(reply.body, number)
                reply = await session.request("POST", "/mcp", _body(number, False))
                _assert_verbatim(reply.body, number)
                reply = await session.request("POST", "/mcp/message", _body(number, False))
                _assert_verbatim(reply.body, number)

    run(main())


def test_numbers_arrive_digit_for_digit_through_the_plain_door(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            for number in DIGITS:
                reply = await client.request("POST", "/tools/echo", f'{{"n":{number}}}'.encode())
                assert reply.body == f'{{"n":{number}}}'.encode()

    run(main())


def test_decimals_made_by_a_handler_keep_their_scale_on_an_event_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.call("prices")
            expected = b'{"two":1.10,"eight":0.00000001,"eighteen":123456789.000000000000000010,'
            assert expected in reply.body
            assert b'"large":1208925819614629174706176}' in reply.body

    run(main())


def test_exact_numbers_travel_over_the_deprecated_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(client.encode("GET", "/mcp/sse"))
            head = await reader.readuntil(b"session_id=")
            assert b"text/event-stream" in head
            identifier = (await reader.readuntil(b"\r\n")).strip().decode()
            place = f"/mcp/message?session_id={identifier}"
            await _posted(client, place, rpc("initialize", HELLO, 1))
            reply = await client.request("POST", place, _body("0.000000000000000010", False))
            assert reply.status == 202
            _assert_verbatim(await reader.readuntil(b"tracedesk://calls/"), "0.000000000000000010")
            writer.close()

    run(main())


async def _posted(client: Client, place: str, message: Any) -> None:
    assert (await client.post(place, message)).status == 202
