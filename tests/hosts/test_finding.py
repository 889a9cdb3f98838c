"""Registrations: who is there, who only seems to be, and who may be."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.support import MODULE, Heard, connected, found, kill, spawned, started, watching
from tests.support import BOUND, ROOT, run
from tracedesk import __version__
from tracedesk.hosts import HostBusy, HostClient, HostGone, connect, find, find_one, survey
from tracedesk.hosts.finding import LONGEST_SOCKET, Claim, claim
from tracedesk.hosts.processes import system_processes


@contextmanager
def claimed(home: Path, id: str = "a") -> Generator[Claim]:
    held = claim(home, "tick", id)
    try:
        yield held
    finally:
        held.release()


def forge(home: Path, id: str = "a", **changes: Any) -> Path:
    """A registration that nobody holds, as a host killed long ago leaves it."""
    with claimed(home, id) as held:
        document = held.info.document()
        path = home / "run" / f"tick-{id}.json"
    path.write_text(json.dumps({**document, **changes}))
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- what a registration says ------------------------------------------------------------------


def test_a_host_is_found_with_what_it_says_about_itself(tmp_path: Path) -> None:
    with claimed(tmp_path) as held:
        (info,) = find(tmp_path)
        assert info == held.info == find_one(tmp_path, "tick", "a")
        assert (info.kind, info.id, info.pid, info.version) == ("tick", "a", os.getpid(), __version__)
        assert info.socket.is_socket()
        assert info.started_at.endswith("Z")
    assert find(tmp_path) == []
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_a_home_without_hosts_has_none_and_is_not_touched(tmp_path: Path) -> None:
    assert find(tmp_path / "nowhere") == []
    assert find_one(tmp_path / "nowhere", "tick", "a") is None
    assert not (tmp_path / "nowhere").exists()


def test_hosts_are_found_by_kind(tmp_path: Path) -> None:
    with claimed(tmp_path), claimed(tmp_path, "b"):
        other = claim(tmp_path, "ticker", "a")
        assert [info.id for info in find(tmp_path, "tick")] == ["a", "b"]
        assert [info.kind for info in find(tmp_path)] == ["tick", "tick", "ticker"]
        other.release()


def test_everything_of_a_host_belongs_to_its_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        (tmp_path / "run").mkdir(mode=0o777)
        with claimed(tmp_path) as held:
            assert mode(tmp_path / "run") == 0o700
            assert mode(tmp_path / "run" / "tick-a.json") == 0o600
            assert mode(held.info.socket) == 0o600
            assert mode(tmp_path / "run" / ".lock") == 0o600
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("kind", "id"), [("Tick", "a"), ("t-k", "a"), ("", "a"), ("tick", ""), ("tick", "../x"), ("tick", "a/b")]
)
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, kind: str, id: str) -> None:
    with pytest.raises(ValueError, match="use "):
        claim(tmp_path, kind, id)
    with pytest.raises(ValueError, match="use "):
        find_one(tmp_path, kind, id)


# --- the living and the dead -------------------------------------------------------------------


def test_a_killed_host_leaves_only_a_stale_registration_that_the_next_look_removes(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        info = found(tmp_path)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Not yet waited for: a zombie still has its pid, its start time and its registration.
        assert (tmp_path / "run" / "tick-a.json").exists()
        assert find(tmp_path) == []
    assert not (tmp_path / "run" / "tick-a.json").exists()
    assert not info.socket.exists()


def test_a_pid_that_was_given_again_is_not_the_host(tmp_path: Path) -> None:
    with claimed(tmp_path, "other") as other:
        path = forge(tmp_path, pid=other.info.pid, processStart="another boot:1")
        with path.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert find_one(tmp_path, "tick", "a") is None
            assert [info.id for info in find(tmp_path)] == ["other"]
    assert not path.exists()


def test_a_live_process_that_does_not_hold_the_lock_is_not_the_host(tmp_path: Path) -> None:
    path = forge(tmp_path)
    assert find_one(tmp_path, "tick", "a") is None
    assert path.exists(), "one look alone removes nothing"
    assert find(tmp_path) == []
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "tick"}', '{"pid": "x"}', "\x00" * 100])
def test_a_damaged_registration_is_stale(tmp_path: Path, text: str) -> None:
    path = forge(tmp_path)
    path.write_text(text)
    assert [(one.id, one.state, one.info) for one in survey(tmp_path)] == [("a", "stale", None)]
    assert not path.exists()


def test_a_registration_under_another_name_is_stale(tmp_path: Path) -> None:
    forge(tmp_path).rename(tmp_path / "run" / "tick-b.json")
    assert [(one.id, one.state) for one in survey(tmp_path)] == [("b", "stale")]


def test_what_cannot_be_read_but_is_locked_is_left_alone(tmp_path: Path) -> None:
    path = forge(tmp_path)
    path.write_text('{"format": "of a later version"}')
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [one.state for one in survey(tmp_path)] == ["held"]
        with pytest.raises(HostBusy, match="held by another program"):
            claim(tmp_path, "tick", "a")
        assert path.exists()


def test_nothing_is_removed_while_someone_else_holds_the_folder(tmp_path: Path) -> None:
    path = forge(tmp_path)
    with (tmp_path / "run" / ".lock").open() as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert find(tmp_path) == []
        assert path.exists()
    find(tmp_path)
    assert not path.exists()


def test_a_stale_registration_cannot_make_us_remove_a_file(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    forge(tmp_path, pid=2**22 - 1, socket=str(precious))
    assert find(tmp_path) == []
    assert precious.read_text() == "kept"


def test_a_link_in_place_of_a_registration_is_not_followed(tmp_path: Path) -> None:
    with claimed(tmp_path):
        os.symlink(tmp_path / "run" / "tick-a.json", tmp_path / "run" / "tick-b.json")
        assert [one.id for one in survey(tmp_path) if one.state == "live"] == ["a"]


# --- one host per name -------------------------------------------------------------------------


def test_a_second_host_of_the_same_name_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with claimed(tmp_path) as held:
        with pytest.raises(HostBusy, match=f"tick 'a' is running as process {os.getpid()}") as refusal:
            claim(tmp_path, "tick", "a")
        assert refusal.value.pid == os.getpid()
        assert find(tmp_path) == [held.info], "the refused one leaves the holder untouched"
        with claimed(tmp_path, "b"):
            pass
    with claimed(tmp_path):
        pass


def test_a_stale_registration_and_a_left_over_socket_do_not_stop_a_new_host(tmp_path: Path) -> None:
    forge(tmp_path)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "run" / "tick-a.sock"))
    left.close()
    (tmp_path / "run" / ".tick-a.json.new").write_text("half writ")
    with claimed(tmp_path) as held:
        assert find(tmp_path) == [held.info]


@pytest.mark.timeout(300)
def test_of_fifty_starts_at_once_exactly_one_wins_and_the_rest_name_it(tmp_path: Path) -> None:
    gate, push = os.pipe()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", MODULE, str(tmp_path), "tick", "a", "--gate"],
            stdin=gate,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        for _ in range(50)
    ]
    os.close(gate)
    os.close(push)
    threads = ThreadPoolExecutor(len(processes))
    ends = {threads.submit(process.communicate): process for process in processes}
    try:
        told = [end.result() for end in islice(as_completed(ends, timeout=200), 49)]
        winner = found(tmp_path).pid
        assert all(f"is running as process {winner};" in err.decode().splitlines()[-1] for _, err in told)
        os.kill(winner, signal.SIGTERM)
        codes = {process.pid: process.wait(BOUND) for process in processes}
        assert codes.pop(winner) == 0
        assert set(codes.values()) == {1}
    finally:
        for process in processes:
            process.kill()
        threads.shutdown()


def test_a_storm_of_claims_crashes_and_looks_never_takes_a_name_from_its_holder(tmp_path: Path) -> None:
    gate, push = os.pipe()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.hosts.contender", str(tmp_path), str(seed), "150"],
            stdin=gate,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for seed in range(8)
    ]
    os.close(gate)
    os.close(push)
    ends = [process.communicate(timeout=60) for process in processes]
    assert [err for _, err in ends] == [""] * 8
    assert sum(int(out) for out, _ in ends) > 8
    assert find(tmp_path) == []
    assert not list((tmp_path / "run").glob("prize*"))


def test_a_name_taken_between_a_look_and_the_sweep_is_not_swept(tmp_path: Path) -> None:
    path = forge(tmp_path, pid=2**22 - 1)

    class Meddling:
        """While someone asks about the dead host, a new one takes its name."""

        held: Claim | None = None

        def started(self, pid: int) -> str | None:
            if self.held is None:
                self.held = claim(tmp_path, "tick", "a")
                return None
            return system_processes().started(pid)

    meddling = Meddling()
    assert find(tmp_path, processes=meddling) == []
    assert meddling.held is not None
    assert find(tmp_path) == [meddling.held.info]
    meddling.held.release()
    assert not path.exists()


def test_a_forked_child_that_outlives_its_host_does_not_make_it_look_alive(tmp_path: Path) -> None:
    async def main() -> None:
        async with spawned(tmp_path) as info, connected(info) as client:
            heard = Heard()
            waiting = asyncio.ensure_future(client.call("hang", timeout=None, on_progress=heard))
            await heard.first()
            child = await client.call("fork")
            with watching(child) as child_ended:
                try:
                    kill(info)
                    with pytest.raises(HostGone):
                        await asyncio.wait_for(waiting, BOUND)
                    with pytest.raises(HostGone):
                        await HostClient.connect(info)
                    assert find(tmp_path) == []
                    with claimed(tmp_path):
                        assert found(tmp_path).pid == os.getpid()
                finally:
                    os.kill(child, signal.SIGKILL)
                    child_ended()

    run(main())


# --- deep homes --------------------------------------------------------------------------------


def deep(folder: Path) -> Path:
    return folder.joinpath(*["a-folder-with-a-rather-long-name"] * 5)


def test_a_home_too_deep_for_a_socket_gets_a_short_private_place(tmp_path: Path) -> None:
    home = deep(tmp_path)
    with claimed(home) as held:
        path = held.info.socket
        assert len(os.fsencode(path)) <= LONGEST_SOCKET
        assert home not in path.parents
        assert mode(path.parent) == 0o700
        assert mode(path) == 0o600
        assert find(home) == [held.info]
        assert json.loads((home / "run" / "tick-a.json").read_text())["socket"] == str(path)
    assert not path.parent.exists()


def test_a_host_in_a_deep_home_answers_and_its_place_is_cleared_after_kill_9(tmp_path: Path) -> None:
    home = deep(tmp_path)

    async def main() -> Path:
        async with spawned(home) as info:
            async with connected(info) as client:
                assert await client.call("echo", {"a": 1}) == {"a": 1}
            kill(info)
            assert info.socket.exists()
            return info.socket

    path = run(main())
    assert find(home) == []
    assert not path.parent.exists()


def test_connecting_to_a_host_that_is_not_there_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(HostGone, match="No tick 'a' is running"):
            await connect(tmp_path, "tick", "a")

    run(main())
