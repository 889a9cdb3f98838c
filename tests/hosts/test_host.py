"""The host's side: snapshots that never wait, and an end in good order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.support import Heard, cancelled, connected, found, hosting, started
from tests.support import BOUND, run
from tracedesk import logs
from tracedesk.errors import ToolError
from tracedesk.hosts import Host, HostBusy, HostCall, HostGone, find, last_snapshots
from tracedesk.hosts.frames import FrameTooLarge
from tracedesk.hosts.keepsakes import KEPT, keep
from tracedesk.primitives.time import ManualClock, parse

Params = dict[str, Any]


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


# --- snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_is_the_value_as_it_was_when_published(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(parse("2026-01-02T03:04:05Z").ns)
        async with hosting(tmp_path, clock=clock) as host, connected(host.info) as client:
            value: dict[str, Any] = {"price": Decimal("1.10"), "orders": [1]}
            assert host.publish("book", value) == 1
            value["orders"].append(2)
            snapshot = await client.snapshot("book")
            assert (snapshot.name, snapshot.seq) == ("book", 1)
            assert snapshot.published_at == "2026-01-02T03:04:05Z"
            assert snapshot.value == {"price": Decimal("1.10"), "orders": [1]}
            assert str(snapshot.value["price"]) == "1.10"
            assert host.publish("book", None) == 2
            assert (await client.snapshot("book")).seq == 2

    run(main())


def test_an_unknown_snapshot_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path) as host, connected(host.info) as client:
            with pytest.raises(ToolError, match="No snapshot 'x'; there are: none yet"):
                await client.snapshot("x")
            host.publish("y", 1)
            with pytest.raises(ToolError, match="there are: y") as refusal:
                await client.snapshot("x")
            assert refusal.value.code == "SNAPSHOT_NOT_FOUND"

    run(main())


def test_a_snapshot_too_large_to_be_read_cannot_be_published(tmp_path: Path) -> None:
    host = Host(tmp_path, "tick", "a", {})
    with pytest.raises(FrameTooLarge):
        host.publish("all", "x" * (16 << 20))


def test_threads_publish_without_losing_a_number(tmp_path: Path) -> None:
    host = Host(tmp_path, "tick", "a", {})
    threads = [threading.Thread(target=lambda: [host.publish("n", i) for i in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert host.publish("n", "last") == 1601


def test_snapshots_are_read_while_a_method_computes_without_a_pause(tmp_path: Path) -> None:
    async def main() -> None:
        with started(tmp_path):
            async with connected(found(tmp_path)) as busy, connected(found(tmp_path)) as reader:
                heard = Heard()
                spinning = asyncio.ensure_future(busy.call("spin", timeout=None, on_progress=heard))
                await heard.first()
                numbers = [(await reader.snapshot("spin", timeout=BOUND)).seq]
                async with asyncio.timeout(BOUND):
                    while len(numbers) < 100 or numbers[-1] == numbers[0]:
                        numbers.append((await reader.snapshot("spin")).seq)
                assert not spinning.done()
                assert numbers == sorted(numbers), "what is read moves on while the method runs"
                await cancelled(spinning)

    run(main())


# --- the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["stop", "SIGTERM", "SIGINT"])
def test_a_host_told_to_stop_lets_methods_finish_keeps_its_snapshots_and_exits_0(
    tmp_path: Path, way: str
) -> None:
    async def main() -> None:
        with started(tmp_path) as process:
            info = found(tmp_path)
            async with connected(info) as client, connected(info) as other:
                heard = Heard()
                running = asyncio.ensure_future(client.call("finish", timeout=None, on_progress=heard))
                await heard.first()
                if way == "stop":
                    await other.stop(timeout=BOUND)
                else:
                    process.send_signal(signal.Signals[way])
                assert await running == "finished"
            assert process.wait(BOUND) == 0
            assert find(tmp_path) == []
            assert not (tmp_path / "run" / "tick-a.json").exists()
            assert not info.socket.exists()
            assert last_snapshots(tmp_path, "tick", "a")["tick"].value == {"final": True}

    run(main())


def test_when_stop_returns_the_name_is_free_again(tmp_path: Path) -> None:
    async def main() -> None:
        with started(tmp_path) as process:
            async with connected(found(tmp_path)) as client:
                await client.stop(timeout=BOUND)
                assert find(tmp_path) == []
                with started(tmp_path):
                    assert last_snapshots(tmp_path, "tick", "a") == {}, "a new life begins without the old"
                    assert found(tmp_path).pid != process.pid
            assert process.wait(BOUND) == 0

    run(main())


def test_an_ending_host_refuses_new_work_but_still_shows_its_snapshots(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def last(params: Params, call: HostCall) -> str:
        begun.set()
        await release.wait()
        return "done"

    async def main() -> None:
        async with hosting(tmp_path, {"last": last}) as host, connected(host.info) as client:
            host.publish("tick", 1)
            running = asyncio.ensure_future(client.call("last"))
            await asyncio.wait_for(begun.wait(), BOUND)
            assert await client.call("stop") == {"stopping": True}
            with pytest.raises(ToolError, match="only snapshots") as refusal:
                await client.call("last")
            assert refusal.value.code == "HOST_STOPPING"
            assert (await client.snapshot("tick")).value == 1
            async with connected(host.info) as late:
                assert (await late.call("ping"))["stopping"] is True
            release.set()
            assert await running == "done"

    run(main())


def test_a_method_that_outlasts_the_grace_is_cancelled_and_its_caller_told(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow(params: Params, call: HostCall) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        clock = ManualClock()
        async with (
            hosting(tmp_path, {"slow": slow}, clock=clock, grace=5.0) as host,
            connected(host.info) as client,
        ):
            running = asyncio.ensure_future(client.call("slow", timeout=None))
            await asyncio.wait_for(begun.wait(), BOUND)
            await client.call("stop")
            clock.advance(4.9)
            await settle()
            await client.call("ping")
            assert not running.done()
            clock.advance(0.2)
            with pytest.raises(ToolError, match="ended before the method did") as refusal:
                await asyncio.wait_for(running, BOUND)
            assert refusal.value.code == "HOST_STOPPING"

    run(main())


def test_a_second_signal_cuts_the_grace_short(tmp_path: Path) -> None:
    async def main() -> None:
        with started(tmp_path) as process:
            async with connected(found(tmp_path)) as client:
                heard = Heard()
                running = asyncio.ensure_future(client.call("hang", timeout=None, on_progress=heard))
                await heard.first()
                process.send_signal(signal.SIGTERM)
                while not (await client.call("ping"))["stopping"]:
                    pass
                process.send_signal(signal.SIGTERM)
                with pytest.raises((ToolError, HostGone)):
                    await asyncio.wait_for(running, BOUND)
            assert process.wait(BOUND) == 0

    run(main())


def test_a_thread_that_never_ends_does_not_keep_a_stopped_host_alive(tmp_path: Path) -> None:
    async def main() -> None:
        with started(tmp_path, "--impatient") as process:
            async with connected(found(tmp_path)) as client:
                heard = Heard()
                stuck = asyncio.ensure_future(client.call("stubborn", timeout=None, on_progress=heard))
                await heard.first()
                process.send_signal(signal.SIGTERM)
                with pytest.raises((ToolError, HostGone)):
                    await stuck
            assert process.wait(BOUND) == 0
            assert not (tmp_path / "run" / "tick-a.json").exists()

    run(main())


def test_a_host_whose_work_is_done_ends_by_itself(tmp_path: Path) -> None:
    with started(tmp_path, "--short") as process:
        assert process.wait(BOUND) == 0
    assert find(tmp_path) == []
    assert last_snapshots(tmp_path, "tick", "a")["tick"].value == {"short": True}


def test_a_host_whose_work_breaks_ends_with_1_and_says_why(tmp_path: Path) -> None:
    with started(tmp_path, "--broken", id="b") as process:
        assert process.wait(BOUND) == 1

    async def broken(host: Host) -> None:
        raise RuntimeError("the work broke")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="the work broke"):
            async with hosting(tmp_path, work=broken):
                pass
        assert find(tmp_path) == []

    run(main())


def test_a_host_cancelled_from_outside_still_unregisters(tmp_path: Path) -> None:
    async def main() -> None:
        host = Host(tmp_path, "tick", "a", {})
        ready = asyncio.Event()
        serving = asyncio.ensure_future(host.serve(lambda _: ready.set()))
        await asyncio.wait_for(ready.wait(), BOUND)
        assert [info.pid for info in find(tmp_path)] == [os.getpid()]
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert find(tmp_path) == []

    run(main())


def test_after_a_host_has_ended_a_forked_child_keeps_every_descriptor(tmp_path: Path) -> None:
    async def main() -> None:
        host = Host(tmp_path, "tick", "a", {})
        ready = asyncio.Event()
        serving = asyncio.ensure_future(host.serve(lambda _: ready.set()))
        await asyncio.wait_for(ready.wait(), BOUND)
        await cancelled(serving)
        await settle()

    run(main())
    # What is opened now takes the numbers that the host had.
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
    child = os.fork()
    if child == 0:
        lost = any(not Path(f"/dev/fd/{number}").exists() for number in taken)
        os._exit(1 if lost else 0)
    _, status = os.waitpid(child, 0)
    for number in taken:
        os.close(number)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_second_host_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path) as host:
            with pytest.raises(HostBusy):
                await Host(tmp_path, "tick", "a", {}).serve()
            async with connected(host.info) as client:
                assert await client.call("echo") == {}

    run(main())


def test_a_hosts_life_is_in_the_homes_log(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        process.terminate()
        assert process.wait(BOUND) == 0
    text = logs.path(tmp_path).read_text()
    assert f"tick a is process {process.pid}" in text
    assert "tick a has ended" in text


# --- keepsakes ---------------------------------------------------------------------------------


def test_the_last_snapshots_are_private_and_only_the_newest_hosts_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    document = json.dumps({"seq": 1, "publishedAt": "2026-01-01T00:00:00Z", "value": 7}).encode()
    for number in range(KEPT + 3):
        keep(tmp_path, "tick", f"n{number}", {"x": document})
        os.utime(tmp_path / "run" / "last" / f"tick-n{number}.json", ns=(number, number))
    keep(tmp_path, "tick", "newest", {"x": document})
    files = list((tmp_path / "run" / "last").iterdir())
    assert len(files) == KEPT
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert last_snapshots(tmp_path, "tick", "newest")["x"].value == 7
    assert last_snapshots(tmp_path, "tick", "n0") == {}


def test_a_host_that_published_nothing_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosting(tmp_path):
            pass

    run(main())
    assert not (tmp_path / "run" / "last").exists()
