"""Starting hosts: detached, ready when they answer, and honest about why not."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.support import ENVIRONMENT, MODULE, connected, found, kill, spawned, watching
from tests.support import BOUND, ROOT, run
from tracedesk.hosts import HostBusy, HostFailed, HostTimeout, find, find_one, spawn
from tracedesk.hosts.launch import log_path


def test_a_spawned_host_answers_at_once_in_a_session_of_its_own_and_niced(tmp_path: Path) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            about = await client.call("about")
            assert about["pid"] == info.pid == about["session"] != os.getsid(0)
            assert about["nice"] == min(19, os.nice(0) + 5)
            assert about["cwd"] == str(tmp_path)
            assert find(tmp_path) == [info]

    run(main())


def test_a_spawned_host_does_not_inherit_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINANCE_SECRET_KEY", "very-secret")

    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            names = (await client.call("about"))["environment"]
            assert "PATH" in names
            assert "BINANCE_SECRET_KEY" not in names

    run(main())


def test_a_host_outlives_the_process_that_spawned_it(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from tracedesk.hosts import spawn
info = asyncio.run(spawn(Path({str(tmp_path)!r}), "tick", "a", {MODULE!r}))
print(info.pid)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **ENVIRONMENT},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    info = found(tmp_path)
    assert info.pid == int(done.stdout)

    async def main() -> None:
        async with connected(info) as client:
            assert await client.call("echo", {"a": 1}) == {"a": 1}

    try:
        run(main())
    finally:
        kill(info)


def test_a_spawned_host_that_is_killed_is_no_zombie_of_ours(tmp_path: Path) -> None:
    async def main() -> int:
        async with spawned(tmp_path) as info:
            with watching(info.pid) as ended:
                os.kill(info.pid, signal.SIGKILL)
                ended()
        return info.pid

    run(main())
    assert find(tmp_path) == []


def test_spawning_a_host_that_runs_is_refused_with_its_pid(tmp_path: Path) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info:
            with pytest.raises(HostBusy, match=f"process {info.pid};") as refusal:
                await spawn(tmp_path, "tick", "a", MODULE, environment=ENVIRONMENT)
            assert refusal.value.pid == info.pid

    run(main())


def test_of_several_spawns_at_once_one_wins_and_the_others_name_it(tmp_path: Path) -> None:
    async def main() -> None:
        spawns = (spawn(tmp_path, "tick", "a", MODULE, environment=ENVIRONMENT) for _ in range(4))
        ends = await asyncio.gather(*spawns, return_exceptions=True)
        info = found(tmp_path)
        try:
            assert [end for end in ends if not isinstance(end, BaseException)] == [info]
            assert [end.pid for end in ends if isinstance(end, HostBusy)] == [info.pid] * 3
        finally:
            kill(info)

    run(main())


def test_a_host_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(HostFailed, match="code 1: no campaign of that name"):
            await spawn(tmp_path, "tick", "a", MODULE, ["--fail"], environment=ENVIRONMENT)
        with pytest.raises(HostFailed, match="No module named"):
            await spawn(tmp_path, "tick", "a", "tests.hosts.no_such_module", environment=ENVIRONMENT)

    run(main())
    assert find_one(tmp_path, "tick", "a") is None


def test_a_failure_inside_the_host_is_told_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder belongs")

    async def main() -> None:
        with pytest.raises(HostFailed, match="FileExistsError"):
            await spawn(tmp_path, "tick", "a", MODULE, environment=ENVIRONMENT)

    run(main())


def test_a_host_that_is_never_ready_is_killed_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(HostTimeout, match=r"not ready within 0\.5 s and was killed"):
            await spawn(tmp_path, "tick", "a", MODULE, ["--mute"], environment=ENVIRONMENT, timeout=0.5)

    run(main())
    assert find(tmp_path) == []


def test_a_cancelled_spawn_leaves_no_process(tmp_path: Path) -> None:
    async def main() -> None:
        spawning = asyncio.ensure_future(
            spawn(tmp_path, "tick", "a", MODULE, ["--mute"], environment=ENVIRONMENT)
        )
        await asyncio.sleep(0)
        spawning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spawning

    run(main())


def test_what_a_host_prints_is_in_a_private_log_of_the_home(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(HostFailed):
            await spawn(tmp_path, "tick", "a", MODULE, ["--fail"], environment=ENVIRONMENT)

    run(main())
    path = log_path(tmp_path, "tick", "a")
    assert path.parent == tmp_path / "logs"
    assert path.read_text() == "no campaign of that name\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_that_has_grown_large_starts_anew(tmp_path: Path) -> None:
    path = log_path(tmp_path, "tick", "a")
    path.parent.mkdir()
    path.write_text("x" * 1_000_001)

    async def main() -> None:
        with pytest.raises(HostFailed, match=r"code 1: no campaign of that name$"):
            await spawn(tmp_path, "tick", "a", MODULE, ["--fail"], environment=ENVIRONMENT)

    run(main())
    assert path.read_text() == "no campaign of that name\n"


def test_a_file_in_the_home_cannot_stand_in_for_a_module(tmp_path: Path) -> None:
    (tmp_path / "tracedesk.py").write_text("raise SystemExit('hijacked')")

    async def main() -> None:
        async with spawned(tmp_path) as info:
            assert info.pid

    run(main())
