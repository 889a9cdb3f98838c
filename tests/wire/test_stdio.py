"""The pipe transport: nothing but messages on the wire, and a clean end however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import BOUND, ENVELOPE, HELLO, ROOT, StdioDesk, modern, rpc, run, until
from tests.wire.test_http_abuse import BAD_JSON
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.wire.auth import Identity
from tracedesk.wire.documents import Documents
from tracedesk.wire.stdio import MAX_LINE, Stdio


def test_stray_prints_writes_and_children_never_reach_the_wire(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        reply = desk.ask(modern("tools/call", {"name": "shout"}))
        assert reply["result"]["structuredContent"] == {"shouted": True}
        assert desk.ask(modern("tools/call", {"name": "say"}, 2))["id"] == 2
        code, rest, log = desk.finish()
        assert (code, rest) == (0, b"")
        assert "stray print" in log
        assert "stray write" in log
        assert "stray child" in log


def test_a_ten_megabyte_line_is_a_message_like_any_other(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        big = "x" * 10_000_000
        reply = desk.ask(modern("tools/call", {"name": "say", "arguments": {"text": big}}))
        envelope = json.loads(reply["result"]["content"][0]["text"])
        assert envelope["error"]["code"] == "RESULT_TOO_LARGE"
        assert desk.ask(modern("ping", None, 2))["id"] == 2


@pytest.mark.parametrize("how", ["panic", "awaits what was cancelled"])
def test_a_handler_that_ends_by_no_ordinary_exception_is_answered_too(tmp_path: Path, how: str) -> None:
    with StdioDesk(tmp_path) as desk:
        broken = modern("tools/call", {"name": "break_down", "arguments": {"how": how}})
        desk.send(broken)
        first = desk.ask(modern("ping", None, 2))
        second = desk.ask(modern("ping", None, 3))
        answers = {answer["id"]: answer for answer in (first, second)}
        assert 1 in answers, answers
        envelope = json.loads(answers[1]["result"]["content"][0]["text"])
        assert envelope["error"]["code"] == "INTERNAL_ERROR"


def test_a_long_line_that_cannot_be_read_does_not_keep_those_behind_it(tmp_path: Path) -> None:
    class NoMemory(Documents):
        async def read(self, data: bytes, limits: Any, *, stranger: bool) -> Any:
            if len(data) > 10_000:
                raise MemoryError
            return await super().read(data, limits, stranger=stranger)

    async def serve() -> None:
        async with open_desk(Settings(home=tmp_path, toolsets=("desk",))) as desk:
            written: list[dict[str, Any]] = []
            desk.dispatch.documents = NoMemory()
            client = Stdio(desk.kernel, Identity("stdio:1"))
            client._write = lambda data: written.append(json.loads(data))  # pyright: ignore[reportPrivateUsage]
            client._on_line(b" " * 20_000)  # pyright: ignore[reportPrivateUsage]
            client._on_line(json.dumps(modern("ping", None, 2)).encode())  # pyright: ignore[reportPrivateUsage]
            await until(lambda: len(written) == 2)
            assert (written[0]["id"], written[0]["error"]["code"]) == (None, -32603)
            assert written[1]["id"] == 2

    run(serve())


def test_a_line_past_the_limit_is_refused_and_the_next_is_answered(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.send_bytes(b"x" * (MAX_LINE + 10) + b"\n")
        assert desk.read()["error"]["code"] == -32700
        assert desk.ask(modern("tools/list", None, 2))["id"] == 2


def test_a_huge_line_without_an_end_ends_cleanly(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.send_bytes(b"x" * 10_000_000)
        code, rest, _ = desk.finish()
        assert code == 0
        assert json.loads(rest)["error"]["code"] == -32700


def test_malformed_lines_are_answered_and_the_desk_lives_on(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        for name, line in BAD_JSON.items():
            desk.send_bytes(line + b"\n")
            assert desk.read()["error"]["code"] in (-32700, -32600), name
            assert desk.ask(modern("tools/call", {"name": "say"}, name))["id"] == name


def test_what_was_accepted_before_the_input_closed_is_still_answered(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        for number in range(20):
            desk.send(modern("tools/call", {"name": "say", "arguments": {"n": number}}, number))
        code, rest, _ = desk.finish()
        answers = [json.loads(line) for line in rest.splitlines()]
        assert code == 0
        assert sorted(a["id"] for a in answers) == list(range(20))


def test_closed_input_mid_call_ends_within_the_grace_time(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.send(modern("tools/call", {"name": "hang"}))
        code, rest, _ = desk.finish()
        assert code == 0
        assert b"QUERY_TIMEOUT" in rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_desk_cleanly_even_with_a_call_in_flight(
    tmp_path: Path, number: signal.Signals
) -> None:
    with StdioDesk(tmp_path) as desk:
        call = modern("tools/call", {"name": "wait_for_release"})
        call["params"]["_meta"] = {**call["params"]["_meta"], "progressToken": 1}
        assert desk.ask(call)["method"] == "notifications/progress"
        desk.process.send_signal(number)
        assert desk.process.wait(BOUND) == 0


def test_a_client_that_vanishes_ends_the_desk(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.ask(modern("ping"))
        desk.stdout.close()
        desk.send(modern("tools/list"))
        desk.stdin.close()
        assert desk.process.wait(BOUND) == 0


def test_a_cancelled_call_gets_no_answer_and_its_record_says_so(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", HELLO))
        desk.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        desk.ask(rpc("tools/call", {"name": "wait_for_release", "_meta": {"progressToken": 1}}, 5))
        desk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        assert desk.ask(rpc("ping", None, 6))["id"] == 6
        status = desk.ask(rpc("tools/call", {"name": "desk_status"}, 7))
        assert status["id"] == 7
        assert status["result"]["structuredContent"]["calls"]["inFlight"] == 1


def test_a_connection_keeps_to_the_era_it_opened_with(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.ask(modern("tools/list"))
        refused = desk.ask(rpc("initialize", HELLO, 2))
        assert refused["error"]["code"] == -32022
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", HELLO))
        refused = desk.ask(modern("tools/list", None, 2))
        assert refused["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-29"}, -32022),
        ({"io.modelcontextprotocol/protocolVersion": 1}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": ...}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": ...}, -32602),
    ],
)
def test_an_envelope_is_looked_at_however_often_another_was_accepted(
    tmp_path: Path, changed: dict[str, object], code: int
) -> None:
    kept = {name: value for name, value in {**ENVELOPE, **changed}.items() if value is not ...}
    with StdioDesk(tmp_path) as desk:
        for number in range(3):
            assert "result" in desk.ask(modern("tools/call", {"name": "say"}, number))
        assert desk.ask(rpc("tools/call", {"name": "say", "_meta": kept}, 4))["error"]["code"] == code
        assert desk.ask(rpc("tools/call", {"name": "say", "_meta": []}, 5))["error"]["code"] == -32602
        assert "result" in desk.ask(modern("tools/call", {"name": "say"}, 6))


def test_an_envelope_that_nests_deeply_is_refused_for_its_version(tmp_path: Path) -> None:
    deep: dict[str, object] = {"large": 10**23}
    for _ in range(700):
        deep = {"a": deep}
    odd = {"protocolVersion": "2099-01-01", "clientCapabilities": deep}
    envelope = {**ENVELOPE, **{f"io.modelcontextprotocol/{name}": value for name, value in odd.items()}}
    with StdioDesk(tmp_path) as desk:
        assert desk.ask(rpc("tools/list", {"_meta": envelope}))["error"]["code"] == -32022


def test_lines_are_told_apart_however_they_are_cut(tmp_path: Path) -> None:
    lines = [json.dumps(modern("tools/call", {"name": "say"}, number)).encode() for number in range(4)]
    with StdioDesk(tmp_path) as desk:
        desk.send_bytes(b"\n \n" + lines[0] + b"\n" + lines[1][:10])
        assert desk.read()["id"] == 0
        desk.send_bytes(lines[1][10:])
        desk.send_bytes(b"\n")
        assert desk.read()["id"] == 1
        desk.send_bytes(b"  \n")
        desk.send_bytes(b"\n")
        desk.send_bytes(lines[2] + b"\r\n" + lines[3] + b"\n")
        assert [desk.read()["id"] for _ in range(2)] == [2, 3]


def test_a_request_that_was_cancelled_before_it_came_is_let_go_of(tmp_path: Path) -> None:
    async def serve() -> None:
        async with open_desk(Settings(home=tmp_path, toolsets=("desk",))) as desk:
            client = Stdio(desk.kernel, Identity("stdio:1"))
            (peer,) = desk.kernel.peers
            await asyncio.wait_for(client.serve(inward[0], outward[1], asyncio.Event()), BOUND)
            assert (peer.in_flight, peer.running) == ({}, set())

    inward, outward = os.pipe(), os.pipe()
    for number in range(20):
        taken_back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        called = modern("tools/call", {"name": "desk_status"}, number)
        os.write(inward[1], b"".join(json.dumps(each).encode() + b"\n" for each in (taken_back, called)))
    os.close(inward[1])
    asyncio.run(serve())
    os.close(outward[0])


def test_requests_before_the_handshake_are_refused(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        assert desk.ask(rpc("tools/call", {"name": "say"}))["error"]["code"] == -32600
        assert desk.ask(rpc("ping", None, 2))["result"] == {}


def test_the_same_id_twice_in_flight_is_answered_twice(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        for number in range(10):
            desk.send(modern("tools/call", {"name": "say", "arguments": {"n": number}}, 3))
        replies = [desk.read() for _ in range(10)]
        assert sorted(r["result"]["structuredContent"]["said"]["n"] for r in replies) == list(range(10))


def test_input_and_output_may_be_plain_files(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text(json.dumps(modern("tools/list")) + "\n", encoding="utf-8")
    with source.open("rb") as reader, target.open("wb") as writer:
        command = [sys.executable, "-m", "tests.fixtures.serve", "stdio", str(tmp_path / "home"), "echo"]
        subprocess.run(command, stdin=reader, stdout=writer, cwd=ROOT, timeout=BOUND, check=True)
    assert json.loads(target.read_bytes())["result"]["tools"]


def test_an_empty_device_as_input_and_output_ends_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fixtures.serve", "stdio", str(tmp_path), "echo"]
    nothing = subprocess.DEVNULL
    assert (
        subprocess.run(
            command, stdin=nothing, stdout=nothing, cwd=ROOT, timeout=BOUND, check=False
        ).returncode
        == 0
    )


def test_old_clients_are_not_sent_what_their_version_does_not_know(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", {**HELLO, "protocolVersion": "2024-11-05"}))
        tools = desk.ask(rpc("tools/list", None, 2))["result"]["tools"]
        assert {key for tool in tools for key in tool} == {"name", "description", "inputSchema"}
        result = desk.ask(rpc("tools/call", {"name": "say"}, 3))["result"]
        assert "structuredContent" not in result


def test_a_string_result_is_structured_only_where_the_version_allows(tmp_path: Path) -> None:
    with StdioDesk(tmp_path) as desk:
        result = desk.ask(modern("tools/call", {"name": "plain_text"}))["result"]
        assert result["structuredContent"] == result["content"][0]["text"] == "TN:\nend_of_record\n"
    with StdioDesk(tmp_path) as desk:
        desk.ask(rpc("initialize", HELLO))
        result = desk.ask(rpc("tools/call", {"name": "plain_text"}, 2))["result"]
        assert "structuredContent" not in result
        listed = desk.ask(rpc("tools/list", None, 3))["result"]["tools"]
        assert all(t["outputSchema"]["type"] == "object" for t in listed if "outputSchema" in t)


def test_children_do_not_inherit_the_wire(tmp_path: Path) -> None:
    """The private pipe ends are close-on-exec, so a daemonised child cannot keep the client waiting."""
    with StdioDesk(tmp_path) as desk:
        desk.ask(modern("tools/list"))
        folder = Path(f"/proc/{desk.process.pid}/fdinfo")
        if not folder.exists():
            pytest.skip("needs /proc")
        for entry in folder.iterdir():
            if int(entry.name) <= 2:
                continue
            with suppress(FileNotFoundError):  # it was closed since it was listed
                flags = next(x for x in entry.read_text().splitlines() if x.startswith("flags")).split()[1]
                assert int(flags, 8) & os.O_CLOEXEC, entry.name
