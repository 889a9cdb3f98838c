"""Hosts for tests: in this process on a real socket, or as real processes of a home."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.hosts.tick_host import METHODS
from tests.support import BOUND, ROOT
from tracedesk.hosts import Host, HostClient, HostInfo, Method, find_one, spawn
from tracedesk.hosts.processes import system_processes

MODULE: Final = "tests.hosts.tick_host"
ENVIRONMENT: Final = {"PYTHONPATH": str(ROOT)}


@asynccontextmanager
async def hosting(
    home: Path, methods: Mapping[str, Method] = METHODS, **options: Any
) -> AsyncGenerator[Host]:
    """A host in this process."""
    host = Host(home, "tick", "a", methods, **options)
    ready = asyncio.Event()
    serving = asyncio.ensure_future(host.serve(lambda _: ready.set()))
    try:
        async with asyncio.timeout(BOUND):
            await ready.wait()
        yield host
    finally:
        host.stop(now=True)
        await asyncio.wait_for(serving, BOUND)


@asynccontextmanager
async def connected(info: HostInfo) -> AsyncGenerator[HostClient]:
    client = await HostClient.connect(info)
    try:
        yield client
    finally:
        await asyncio.wait_for(client.close(), BOUND)


@asynccontextmanager
async def spawned(home: Path, *options: str, kind: str = "tick", id: str = "a") -> AsyncGenerator[HostInfo]:
    """A host in a detached process of its own, killed at the end if it still runs."""
    info = await spawn(home, kind, id, MODULE, options, environment=ENVIRONMENT)
    try:
        yield info
    finally:
        kill(info)


def kill(info: HostInfo) -> None:
    """Kill a host, unless its pid is another's by now, and wait until it is dead."""
    if system_processes().started(info.pid) == info.process_start:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself since
            os.kill(info.pid, signal.SIGKILL)
        _until_ended(info.pid, info.process_start)


@contextmanager
def watching(pid: int) -> Generator[Callable[[], None]]:
    """Gives a function that waits for the end of a process, which may be someone else's child."""
    born = system_processes().started(pid)
    assert born is not None, f"process {pid} has ended already"
    yield lambda: _until_ended(pid, born)


def _until_ended(pid: int, born: str) -> None:
    bound = time.monotonic() + BOUND
    while system_processes().started(pid) == born:
        assert time.monotonic() < bound, f"process {pid} did not end"
        time.sleep(0.005)


@contextmanager
def started(home: Path, *options: str, id: str = "a") -> Generator[subprocess.Popen[bytes]]:
    """A host as a child of the test, which learns its exit code."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(home), "tick", id, *options],
        cwd=ROOT,
        env={**os.environ, "TRACEDESK_READY_FD": str(writer)},
        pass_fds=(writer,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as ready:
            assert b'"ready"' in ready.read()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(BOUND)


def found(home: Path, id: str = "a") -> HostInfo:
    info = find_one(home, "tick", id)
    assert info is not None
    return info


class Heard:
    """Remembers progress, and can be waited for."""

    def __init__(self) -> None:
        self.all: list[tuple[float, float | None, str | None]] = []
        self._first = asyncio.Event()

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        self.all.append((done, total, message))
        self._first.set()

    async def first(self) -> None:
        await asyncio.wait_for(self._first.wait(), BOUND)


async def cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
