"""A client and a host: answers, refusals, progress, deadlines, cancels, and rude ends."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from tests.hosts.support import Heard, cancelled, connected, hosting, kill, spawned
from tests.hosts.tick_host import METHODS
from tests.support import BOUND, run
from tracedesk.errors import ToolError
from tracedesk.hosts import HostCall, HostClient, HostGone, HostInfo, HostTimeout, Method
from tracedesk.hosts.frames import Decoder, Fault, Progress, Request, Result, encode, parse
from tracedesk.hosts.host import MAX_IN_FLIGHT
from tracedesk.hosts.link import peer_uid

Params = dict[str, Any]


def talk(home: Path, test: Callable[[HostClient], Any], **options: Any) -> None:
    """Run a test's coroutine with a client of a host in this process."""

    async def main() -> None:
        async with hosting(home, **options) as host, connected(host.info) as client:
            await test(client)

    run(main())


# --- answers -----------------------------------------------------------------------------------


def test_a_call_is_answered_exactly(tmp_path: Path) -> None:
    async def test(client: HostClient) -> None:
        params = {"price": Decimal("1.10"), "big": 2**80, "text": "ü\u2028", "none": None}
        answer = await client.call("echo", params)
        assert answer == params
        assert str(answer["price"]) == "1.10"
        assert await client.call("add", {"a": Decimal("0.1"), "b": Decimal("0.20")}) == Decimal("0.30")

    talk(tmp_path, test)


def test_ping_says_who_answers_and_what_it_can_do(tmp_path: Path) -> None:
    async def test(client: HostClient) -> None:
        answer = await client.call("ping")
        assert (answer["pid"], answer["kind"], answer["id"]) == (os.getpid(), "tick", "a")
        assert answer["methods"] == sorted(METHODS)

    talk(tmp_path, test)


def test_many_calls_share_a_connection_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            waits = asyncio.ensure_future(client.call("finish", timeout=None))
            answers = await asyncio.gather(*(client.call("echo", {"n": n}) for n in range(40)))
            assert [answer["n"] for answer in answers] == list(range(40))
            assert not waits.done(), "a call that waits holds up no other"
            await cancelled(waits)

    run(main())


def test_two_clients_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as one, connected(info) as two:
            first, second = Heard(), Heard()
            results = await asyncio.gather(
                one.call("count", {"n": 300}, on_progress=first),
                two.call("count", {"n": 200}, on_progress=second),
            )
            assert results == [300, 200]
            assert {total for _, total, _ in first.all} == {300}
            assert {total for _, total, _ in second.all} == {200}

    run(main())


# --- refusals ----------------------------------------------------------------------------------


def test_a_refusal_comes_back_as_the_tool_error_it_was(tmp_path: Path) -> None:
    async def test(client: HostClient) -> None:
        with pytest.raises(ToolError, match=r"^No\.$") as refusal:
            await client.call("refuse")
        assert (refusal.value.code, refusal.value.details) == ("INVALID_INPUT", {"price": Decimal("1.10")})

    talk(tmp_path, test)


@pytest.mark.parametrize("method", ["bug", "panic", "strange"])
def test_a_bug_is_an_internal_error_with_an_id_that_the_log_repeats(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: HostClient) -> None:
        with pytest.raises(ToolError) as refusal:
            await client.call(method)
        assert refusal.value.code == "INTERNAL_ERROR"
        assert refusal.value.details is not None
        assert refusal.value.details["correlationId"] in caplog.text
        assert "a bug" not in refusal.value.message
        assert await client.call("echo") == {}

    talk(tmp_path, test)


def test_an_unknown_method_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    async def test(client: HostClient) -> None:
        with pytest.raises(ToolError, match="No method 'dance'; there are: ping, snapshot, stop, about,"):
            await client.call("dance")

    talk(tmp_path, test)


def test_an_answer_too_large_for_a_frame_is_a_refusal_and_the_connection_lives(tmp_path: Path) -> None:
    async def test(client: HostClient) -> None:
        with pytest.raises(ToolError, match="too large") as refusal:
            await client.call("large", {"bytes": 17 << 20})
        assert refusal.value.code == "RESULT_TOO_LARGE"
        with pytest.raises(ToolError, match="The request is too large"):
            await client.call("echo", {"text": "x" * (17 << 20)})
        assert len(await client.call("large", {"bytes": 15 << 20})) == 15 << 20

    talk(tmp_path, test)


def test_more_calls_than_one_connection_may_have_under_way_are_refused(tmp_path: Path) -> None:
    methods, _, over = _hanging()

    async def test(client: HostClient) -> None:
        waiting = [asyncio.ensure_future(client.call("hang")) for _ in range(MAX_IN_FLIGHT)]
        await client.call("ping")
        with pytest.raises(ToolError, match="Too many calls in flight"):
            await client.call("echo")
        await cancelled(waiting.pop())
        await asyncio.wait_for(over.wait(), BOUND)
        await client.call("ping")
        assert await client.call("echo") == {}
        await asyncio.gather(*(cancelled(task) for task in waiting))

    talk(tmp_path, test, methods=methods)


def test_a_host_keeps_its_own_methods_names_to_itself(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="every host has its own ping, stop"):
            async with hosting(tmp_path, {"stop": METHODS["echo"], "ping": METHODS["echo"]}):
                pass

    run(main())


# --- progress ----------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [False, True])
def test_progress_arrives_in_order_ends_with_the_last_and_precedes_the_answer(
    tmp_path: Path, thread: bool
) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            heard = Heard()
            assert await client.call("count", {"n": 500, "thread": thread}, on_progress=heard) == 500
            done = [done for done, _, _ in heard.all]
            assert done == sorted(set(done))
            assert heard.all[-1] == (500, 500, "step 500")

    run(main())


def test_a_slow_reader_of_progress_sees_the_newest_and_always_the_last(tmp_path: Path) -> None:
    async def test(client: HostClient) -> None:
        heard: list[float] = []

        async def slowly(done: float, total: float | None, message: str | None) -> None:
            heard.append(done)
            await client.call("ping")

        assert await client.call("count", {"n": 2000, "thread": True}, on_progress=slowly) == 2000
        assert heard == sorted(set(heard))
        assert heard[-1] == 2000
        assert len(heard) < 2000

    talk(tmp_path, test)


def test_a_client_that_did_not_read_still_gets_the_last_progress_before_the_answer(tmp_path: Path) -> None:
    async def much(params: Params, call: HostCall) -> str:
        for done in range(1, 101):
            await call.progress(done, 100, "x" * 100_000)
        ended.set()
        return "done"

    ended = asyncio.Event()

    async def main() -> None:
        async with hosting(tmp_path, {"much": much}) as host:
            reader, writer = await asyncio.open_unix_connection(str(host.info.socket))
            cast("asyncio.ReadTransport", writer.transport).pause_reading()
            writer.write(encode(Request(1, "much", {})))
            await asyncio.wait_for(ended.wait(), BOUND)
            cast("asyncio.ReadTransport", writer.transport).resume_reading()
            done: list[float] = []
            while isinstance(message := await _read(reader), Progress):
                done.append(message.done)
            assert message == Result(1, "done")
            assert done == sorted(set(done))
            assert done[-1] == 100
            assert len(done) < 100, "what nobody reads is not piled up"
            writer.close()

    run(main())


def test_an_error_in_the_progress_callback_reaches_the_caller_and_cancels_the_call(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def hang(params: Params, call: HostCall) -> None:
        try:
            await call.progress(1)
            await asyncio.Event().wait()
        finally:
            over.set()

    def complain(done: float, total: float | None, message: str | None) -> None:
        raise LookupError("no")

    async def test(client: HostClient) -> None:
        with pytest.raises(LookupError):
            await client.call("hang", on_progress=complain)
        await asyncio.wait_for(over.wait(), BOUND)

    talk(tmp_path, test, methods={"hang": hang})


def test_progress_that_is_no_number_is_refused_where_it_is_reported(tmp_path: Path) -> None:
    async def lost(params: Params, call: HostCall) -> str:
        with pytest.raises(ValueError, match="finite"):
            await call.progress(float("nan"))
        with pytest.raises(ValueError, match="finite"):
            call.report(1, float("inf"))
        return "fine"

    async def test(client: HostClient) -> None:
        assert await client.call("lost") == "fine"

    talk(tmp_path, test, methods={"lost": lost})


# --- deadlines and cancels ---------------------------------------------------------------------


def _hanging() -> tuple[dict[str, Method], asyncio.Event, asyncio.Event]:
    begun, over = asyncio.Event(), asyncio.Event()

    async def hang(params: Params, call: HostCall) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    return {**METHODS, "hang": hang}, begun, over


def test_a_call_past_its_deadline_ends_here_and_there(tmp_path: Path) -> None:
    methods, begun, over = _hanging()

    async def test(client: HostClient) -> None:
        for seconds in (0.05, 0.5, 5.0):  # a busy host may get to see a call only when it is over
            with pytest.raises(HostTimeout):
                await client.call("hang", timeout=seconds)
            if begun.is_set():
                break
        await asyncio.wait_for(over.wait(), BOUND)
        assert await client.call("echo") == {}

    talk(tmp_path, test, methods=methods)


def test_the_host_keeps_the_deadline_even_when_the_client_sleeps(tmp_path: Path) -> None:
    methods, _, over = _hanging()

    async def main() -> None:
        async with hosting(tmp_path, methods) as host:
            reader, writer = await asyncio.open_unix_connection(str(host.info.socket))
            writer.write(encode(Request(1, "hang", {}, 0.05)))
            fault = await _read(reader)
            assert isinstance(fault, Fault)
            assert (fault.id, fault.code) == (1, "HOST_TIMEOUT")
            assert over.is_set()
            writer.close()

    run(main())


def test_a_method_that_times_out_by_itself_is_a_bug_and_no_deadline(tmp_path: Path) -> None:
    async def tired(params: Params, call: HostCall) -> None:
        raise TimeoutError("mine")

    async def test(client: HostClient) -> None:
        with pytest.raises(ToolError) as refusal:
            await client.call("tired")
        assert refusal.value.code == "INTERNAL_ERROR"

    talk(tmp_path, test, methods={"tired": tired})


def test_cancelling_the_caller_cancels_the_method(tmp_path: Path) -> None:
    methods, begun, over = _hanging()

    async def test(client: HostClient) -> None:
        call = asyncio.ensure_future(client.call("hang"))
        await asyncio.wait_for(begun.wait(), BOUND)
        await cancelled(call)
        await asyncio.wait_for(over.wait(), BOUND)

    talk(tmp_path, test, methods=methods)


def test_a_cancel_reaches_work_in_a_thread(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def spin(params: Params, call: HostCall) -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            call.report(0)
            try:
                while True:
                    call.check()
            finally:
                loop.call_soon_threadsafe(ended.set)

        await call.run(work)

    async def test(client: HostClient) -> None:
        heard = Heard()
        call = asyncio.ensure_future(client.call("spin", on_progress=heard))
        await heard.first()
        await cancelled(call)
        await asyncio.wait_for(ended.wait(), BOUND)

    talk(tmp_path, test, methods={"spin": spin})


def test_a_client_that_vanishes_takes_its_calls_with_it_and_nothing_else(tmp_path: Path) -> None:
    methods, begun, over = _hanging()

    async def main() -> None:
        async with hosting(tmp_path, methods) as host, connected(host.info) as stays:
            _, writer = await asyncio.open_unix_connection(str(host.info.socket))
            writer.write(encode(Request(1, "hang", {}, None)))
            await asyncio.wait_for(begun.wait(), BOUND)
            cast("asyncio.Transport", writer.transport).abort()
            await asyncio.wait_for(over.wait(), BOUND)
            assert await stays.call("echo", {"still": "here"}) == {"still": "here"}

    run(main())


# --- a host that dies --------------------------------------------------------------------------


async def connect_until_gone(info: HostInfo) -> None:
    """A thread of a dead process may hold its socket for a moment longer."""
    while True:
        await (await HostClient.connect(info)).close()


def test_a_host_that_dies_in_a_call_is_gone_at_once_for_every_call_on_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            heard = Heard()
            waiting = asyncio.ensure_future(client.call("hang", timeout=None, on_progress=heard))
            await heard.first()
            with pytest.raises(HostGone, match=f"process {info.pid}"):
                await client.call("die", timeout=None)
            with pytest.raises(HostGone):
                await waiting
            with pytest.raises(HostGone):
                await client.call("ping")
            kill(info)
            with pytest.raises(HostGone):
                await connect_until_gone(info)

    run(main())


def test_a_host_that_is_frozen_is_a_timeout_and_not_a_hang(tmp_path: Path) -> None:
    import signal

    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            os.kill(info.pid, signal.SIGSTOP)
            try:
                with pytest.raises(HostTimeout, match="did not answer 'ping' within"):
                    await client.call("ping", timeout=0.1)
                with pytest.raises(HostTimeout, match="did not end within"):
                    await client.stop(timeout=0.1)
            finally:
                os.kill(info.pid, signal.SIGCONT)

    run(main())


# --- rude clients ------------------------------------------------------------------------------


async def _read(reader: asyncio.StreamReader) -> Any:
    (size,) = struct.unpack(">I", await asyncio.wait_for(reader.readexactly(4), BOUND))
    return parse(await reader.readexactly(size))


async def _say(info: HostInfo, data: bytes) -> tuple[Any, bytes]:
    """Send bytes; the message that comes back, and whatever follows it to the end."""
    reader, writer = await asyncio.open_unix_connection(str(info.socket))
    writer.write(data)
    message = await _read(reader)
    rest = await asyncio.wait_for(reader.read(), BOUND)
    writer.close()
    return message, rest


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", (16 << 20) + 1),
        b"\xff" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 0),
        struct.pack(">I", 3) + b"{]}",
        struct.pack(">I", 2) + b"{}",
        struct.pack(">I", 16) + b'{"id":1,"result"',
        encode(Fault(1, "X", "clients do not refuse")),
        encode(Request(1, "hang", {})) + encode(Request(1, "hang", {})),
    ],
)
def test_a_bad_frame_ends_its_connection_with_a_reason_and_the_host_lives_on(
    tmp_path: Path, data: bytes
) -> None:
    async def main() -> None:
        async with hosting(tmp_path) as host, connected(host.info) as polite:
            fault, rest = await _say(host.info, data)
            assert isinstance(fault, Fault)
            assert (fault.id, fault.code, rest) == (None, "BAD_FRAME", b"")
            assert await polite.call("echo") == {}

    run(main())


def test_half_a_frame_and_silence_hold_up_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path) as host, connected(host.info) as polite:
            _, writer = await asyncio.open_unix_connection(str(host.info.socket))
            writer.write(encode(Request(1, "echo", {}))[:-1])
            assert await polite.call("echo") == {}
            writer.close()

    run(main())


def test_a_client_that_asks_and_never_reads_is_not_read_any_further(tmp_path: Path) -> None:
    asked = 0

    async def much(params: Params, call: HostCall) -> str:
        nonlocal asked
        asked += 1
        return "x" * 100_000

    async def main() -> None:
        async with hosting(tmp_path, {"much": much}) as host, connected(host.info) as polite:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(host.info.socket))
            sock.setblocking(False)
            frames = b"".join(encode(Request(n, "much", {})) for n in range(1, 20_000))
            sent = 0
            while sent < len(frames):
                try:
                    sent += sock.send(frames[sent : sent + 4096])
                except BlockingIOError:
                    break
                await polite.call("ping")
            assert sent < len(frames)
            assert asked < 5_000
            sock.close()
            assert await polite.call("much") == "x" * 100_000

    run(main())


def test_a_host_that_breaks_the_protocol_is_gone_for_its_client(tmp_path: Path) -> None:
    async def main() -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"\xff" * 8)
            await writer.drain()
            await reader.read()
            writer.close()

        path = tmp_path / "s"
        async with await asyncio.start_unix_server(babble, str(path)):
            info = HostInfo("tick", "a", os.getpid(), "", path, "0", "")
            async with connected(info) as client:
                with pytest.raises(HostGone, match="ended the connection"):
                    await client.call("ping")

    run(main())


# --- who is there ------------------------------------------------------------------------------


def test_the_system_says_who_is_at_the_other_end() -> None:
    one, two = socket.socketpair(socket.AF_UNIX)
    with one, two:
        assert peer_uid(one) == os.geteuid()
        assert peer_uid(one, platform="plan9") is None


def test_macos_says_it_in_a_structure_of_its_own() -> None:
    class Darwin:
        def getsockopt(self, level: int, name: int, size: int) -> bytes:
            assert (level, name, size) == (0, 1, 76)
            return struct.pack("2Ih2x16I", 0, 501, 1, 20, *[0] * 15)

    assert peer_uid(cast("socket.socket", Darwin()), platform="darwin") == 501


def _stranger(connection: Any) -> int:
    return os.geteuid() + 1


def test_another_user_is_turned_away_by_the_host(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path, peer=_stranger) as host:
            client = await HostClient.connect(host.info)
            with pytest.raises(HostGone, match="serves its own user alone"):
                await client.call("ping")

    run(main())


def test_a_socket_answered_by_another_user_is_not_talked_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path) as host:
            with pytest.raises(HostGone, match="answered by another user"):
                await HostClient.connect(host.info, peer=_stranger)

    run(main())


def test_a_frame_that_comes_in_single_bytes_is_understood(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path) as host:
            reader, writer = await asyncio.open_unix_connection(str(host.info.socket))
            for byte in encode(Request(1, "echo", {"a": 1})):
                writer.write(bytes((byte,)))
                await writer.drain()
            assert (await _read(reader)).value == {"a": 1}
            writer.close()

    run(main())


def test_a_decoder_holds_no_more_than_what_is_unfinished() -> None:
    decoder = Decoder()
    frame = encode(Request(1, "echo", {}))
    assert len(list(decoder.feed(frame * 100 + frame[:3]))) == 100
    assert len(list(decoder.feed(frame[3:]))) == 1
