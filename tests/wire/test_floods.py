"""Floods of requests, heads, bodies and streams: what one connection may hold, and who is always served."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tests.support import BOUND, HELLO, ROOT, Client, desk_client, read_head, read_reply, rpc, run, until
from tracedesk.contract import Annotations, Arguments, Call, Tool, Toolset
from tracedesk.errors import STANDARD
from tracedesk.wire.exchange import Exchange
from tracedesk.wire.heads import MAX_PIPELINED
from tracedesk.wire.quota import Room
from tracedesk.wire.request import Request

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def alive(kind: type[object]) -> int:
    """Objects of that kind that nobody has collected yet."""
    return sum(isinstance(found, kind) for found in gc.get_objects())


@contextmanager
def no_collector() -> Generator[None]:
    """The collector off: what is alive afterwards is held, or part of a reference cycle."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def deaf(client: Client, data: bytes) -> socket.socket:
    """A connection that sends as much of `data` as the desk takes, and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", client.port))
    connection.setblocking(False)
    sent, refused = 0, 0
    while sent < len(data) and refused < 5:
        try:
            sent += connection.send(data[sent : sent + 65_536])
            refused = 0
        except BlockingIOError:
            refused += 1
        except ConnectionError:
            return connection  # closed for room
        # Each answer to somebody else is a turn of the desk's loop in which it could read on.
        assert (await client.request("GET", "/health")).status == 200
    return connection


# --- pipelined requests


def test_pipelined_requests_of_a_client_that_does_not_read_wait_in_its_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            flood = client.encode("GET", "/openapi.json") * 20_000
            with closing(await deaf(client, flood)):
                assert alive(RequestResponseCycle) <= 2 * MAX_PIPELINED
            assert (await client.call("say")).status == 200

    run(main())


def test_pipelined_requests_behind_a_waiting_one_are_parsed_up_to_a_bound(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            first = client.encode("POST", "/tools/wait_for_release", b"{}")
            with closing(await deaf(client, first + client.encode("GET", "/health") * 20_000)):
                assert client.desk.dispatch.in_flight == 1
                assert alive(RequestResponseCycle) <= 2 * MAX_PIPELINED

    run(main())


def test_pipelined_requests_are_all_answered_in_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            count = 1_000
            bodies = [json.dumps({"n": n, "text": "\r\n\r\n" + "x" * (n * 7 % 3_000)}) for n in range(count)]
            flood = b"".join(client.encode("POST", "/tools/say", body.encode()) for body in bodies)
            writer.write(flood)
            for number in range(count):
                reply = await read_reply(reader)
                assert (reply.status, reply.json["said"]["n"]) == (200, number)
            writer.close()

    run(main())


def test_chunked_bodies_are_read_whole_however_they_are_cut(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            text = "a\r\n\r\nb" * 10_000
            body = json.dumps({"text": text}).encode()
            head = client.encode("POST", "/tools/say", None, CHUNKED)
            sizes = [1, 2, 3, 500, 70_000]
            for step in sizes:
                parts = [body[at : at + step] for at in range(0, 5_000, step)]
                parts.append(body[len(b"".join(parts)) :])
                whole = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
                writer.write(head + whole + b"0\r\n\r\n")
            for _ in sizes:
                reply = await read_reply(reader)
                assert reply.json["said"]["text"] == text
            writer.close()

    run(main())


def test_a_connection_leaves_nothing_behind_for_the_collector(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            await client.call("say")
            with no_collector():
                for _ in range(5):
                    (await deaf(client, client.encode("GET", "/openapi.json") * 2_000)).close()
                    await client.call("say")
                await until(lambda: alive(RequestResponseCycle) + alive(HttpToolsProtocol) == 0)

    run(main())


def test_a_refused_call_leaves_its_body_to_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            for _ in range(2):
                with no_collector():
                    for tool in ("touch", "none_of_these"):
                        await client.post(f"/tools/{tool}", {})
                        await client.call(tool)
                    await until(lambda: alive(Request) + alive(Exchange) + alive(RequestResponseCycle) == 0)

    run(main())


def test_a_request_ends_with_its_client_though_others_are_queued_behind_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(client.encode("GET", "/mcp/sse") + client.encode("GET", "/health"))
            await reader.readuntil(b"session_id=")
            await until(lambda: client.app.streams.open_streams == 1)
            writer.close()
            await until(lambda: client.app.streams.open_streams == 0)
            assert len(client.app.sessions) == 0

    run(main())


# --- framing

CHUNKED: Final = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
FRAMING: Final[dict[str, bytes]] = {
    "trailers": b"2\r\n{}\r\n0\r\n" + b"x-more: yes\r\n" * 20_000,
    "one long trailer": b"2\r\n{}\r\n0\r\nx-more: " + b"y" * 200_000,
    "a chunk extension": b"2;" + b"e" * 200_000,
    "extensions of chunks": (b"1;" + b"e" * 500 + b"\r\n \r\n") * 1_000,
    "chunks of one byte": b"1\r\n \r\n" * 100_000,
    "blank lines before a request": b"2\r\n{}\r\n0\r\n\r\n" + b"\r\n" * 100_000,
}


@pytest.mark.parametrize("kind", FRAMING)
def test_framing_counts_like_a_head_and_has_its_bound(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(client.encode("POST", "/tools/say", None, CHUNKED) + FRAMING[kind])
            if kind.startswith("blank"):
                assert (await read_reply(reader)).status == 200
            assert (await asyncio.wait_for(read_head(reader), BOUND))[0] == 431
            writer.close()

    run(main())


def test_a_trailer_never_passes_for_a_header(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            head = client.encode("POST", "/tools/touch", None, CHUNKED)
            body = b"2\r\n{}\r\n0\r\n" + f"Authorization: Bearer {client.token}\r\n\r\n".encode()
            assert (await client.raw(head + body)).status == 401

    run(main())


# --- connections, bodies, streams: no token, no place before a token


async def held(client: Client, data: bytes, count: int) -> list[Wire]:
    """Connections that have sent that much, and wait."""
    wires: list[Wire] = []
    for _ in range(count):
        wire = await asyncio.open_connection("127.0.0.1", client.port)
        wire[1].write(data)
        wires.append(wire)
    return wires


def close(wires: list[Wire]) -> None:
    for _, writer in wires:
        writer.close()


HALVES: Final = {
    "nothing": b"",
    "a request line": b"GET /hea",
    "a head": b"GET /health HTTP/1.1\r\nHost: 127",
}


@pytest.mark.parametrize("kind", HALVES)
def test_connections_that_send_no_request_make_room_for_one_that_does(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.quota.room = Room(connections=20, anonymous=8)
            wires = await held(client, HALVES[kind], 60)
            for _ in range(3):
                assert (await client.authorised().call("say")).status == 200
                assert (await client.call("say")).status == 200
            assert len(client.app.quota) <= 20
            close(wires)
            await until(lambda: len(client.app.quota) == 0)

    run(main())


def test_half_sent_bodies_shut_out_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.quota.room = Room(connections=40, anonymous=8)
            half = client.encode("POST", "/tools/say", b"{", {"Content-Length": "80"})
            wires = await held(client, half, 100)
            assert (await asyncio.wait_for(read_head(wires[0][0]), BOUND))[0] == 503
            for _ in range(3):
                assert (await client.authorised().call("say")).status == 200
                assert (await client.call("say")).status == 200
            assert client.app.quota.anonymous <= 8
            close(wires)

    run(main())


def test_half_sent_bodies_of_a_token_are_never_closed_for_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.quota.room = Room(connections=12, anonymous=4)
            owner = client.authorised()
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            whole = owner.encode("POST", "/tools/say", b'{"n": 1}')
            writer.write(whole[:-1])
            await until(lambda: len(client.app.quota) == 1)
            await owner.call("say")
            wires = await held(
                client, client.encode("POST", "/tools/say", b"{", {"Content-Length": "80"}), 40
            )
            assert (await asyncio.wait_for(read_head(wires[0][0]), BOUND))[0] == 503
            writer.write(whole[-1:])
            assert (await read_reply(reader)).status == 200
            writer.close()
            close(wires)

    run(main())


def test_large_bodies_of_callers_without_a_token_share_a_bound(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.quota.room = Room(received=1 << 20)
            size = 900_000
            half = client.encode("POST", "/tools/say", b"{" * (size - 1), {"Content-Length": str(size)})
            wires = await held(client, half, 4)
            replies = [asyncio.create_task(read_head(reader)) for reader, _ in wires]
            await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
            refused = [task.result() for task in replies if task.done()]
            assert {(status, headers["retry-after"]) for status, headers in refused} == {(503, "1")}
            body = json.dumps({"text": "x" * size}).encode()
            assert (await client.authorised().request("POST", "/tools/say", body)).status == 200
            assert (await client.call("say")).status == 200
            for task in replies:
                task.cancel()
            close(wires)

    run(main())


def test_answers_that_nobody_takes_have_a_bound_in_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.quota.room = Room(unsent=2 << 20)
            body = json.dumps({"text": "x" * 900_000}).encode()
            wanted = client.encode("POST", "/tools/say", body) * 12
            deafs = [await deaf(client, wanted) for _ in range(8)]
            await until(lambda: client.app.quota.unsent > 0)
            for _ in range(10):
                assert (await client.authorised().call("say")).status == 200
            assert client.app.quota.unsent <= 2 << 20
            for connection in deafs:
                connection.close()

    run(main())


async def endpoint(stream: socket.socket) -> str:
    """Read the address that the deprecated stream names, and no byte more."""
    head = b""
    while b"session_id=" not in head or not head.endswith(b"\r\n\r\n"):
        head += await asyncio.get_running_loop().sock_recv(stream, 1)
    return head.partition(b"data: ")[2].decode().split()[0]


def test_answers_that_wait_for_an_unread_stream_count_as_unsent(tmp_path: Path) -> None:
    """Calls accepted while the stream had room end together, each with a long answer for it."""
    waits, release = 0, asyncio.Event()

    async def answer_long(args: Arguments, call: Call[None]) -> dict[str, Any]:
        nonlocal waits
        waits += 1
        await release.wait()
        return {"text": "x" * 500_000}

    bulky: Toolset[None] = Toolset("bulky", summary="Long answers.", guide="call answer_long.")
    bulky.add(
        Tool(
            name="answer_long",
            toolset="bulky",
            description="Answers at length, once released.",
            input={"type": "object"},
            output={"type": "object"},
            annotations=Annotations(read_only=True),
            scope="read",
            family=STANDARD,
            deadline=20.0,
            handler=answer_long,
        )
    )

    async def main() -> None:
        async with desk_client(tmp_path, extra=[bulky]) as client:
            client.app.quota.room = Room(unsent=2 << 20)
            with closing(socket.socket()) as stream:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                stream.connect(("127.0.0.1", client.port))
                stream.sendall(client.encode("GET", "/mcp/sse"))
                stream.setblocking(False)
                place = await endpoint(stream)
                await client.post(place, rpc("initialize", HELLO))
                for number in range(40):
                    message = rpc("tools/call", {"name": "answer_long", "arguments": {}}, number)
                    assert (await client.post(place, message)).status == 202
                await until(lambda: waits == 40)
                release.set()
                await until(lambda: len(client.app.sessions) == 0, 10)
                assert client.app.quota.unsent <= 2 << 20
                assert (await client.authorised().call("say")).status == 200

    run(main())


def test_idle_streams_make_room_for_whoever_has_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            client.app.quota.room = Room(connections=200, anonymous=100)
            wires = await held(client, client.encode("GET", "/mcp/sse"), 60)
            await until(lambda: len(client.app.sessions) == 50)
            owner = client.authorised()
            for _ in range(3):
                session = await owner.open_session()
                assert (await session.call("say")).status == 200
            assert len(client.app.sessions) == 50
            close(wires)

    run(main())


# --- a real process with few descriptors


@contextmanager
def small_desk(home: Path, descriptors: int) -> Generator[tuple[int, str]]:
    """A served desk that may open only so many files and sockets."""
    command = [sys.executable, "-m", "tests.fixtures.serve", "http", str(home), "echo", "probe"]
    limit = (descriptors, descriptors)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PORT": "0"},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
    )
    try:
        assert process.stdout is not None
        url, token = process.stdout.readline().split()
        yield int(url.rpartition(":")[2]), token
    finally:
        process.terminate()
        process.wait(BOUND)
        if process.stdout:
            process.stdout.close()


def test_few_descriptors_shut_out_no_holder_of_a_token(tmp_path: Path) -> None:
    async def main(port: int, token: str) -> None:
        client: Any = Client(None, None, port, token)  # pyright: ignore[reportArgumentType]
        halves = b"", b"GET /hea", client.encode("POST", "/tools/say", b"{", {"Content-Length": "80"})
        wires = [wire for half in halves for wire in await held(client, half, 25)]
        for _ in range(20):
            assert (await client.authorised().call("say")).status == 200
        close(wires)

    with small_desk(tmp_path, 64) as (port, token):
        run(main(port, token))
