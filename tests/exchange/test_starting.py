"""Starting a local exchange beside one that begins, ends or hangs: nobody is waited for in vain."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.test_host import SIM, stopped
from tests.support import BOUND, run
from tracedesk.errors import ToolError
from tracedesk.exchange.link import Link
from tracedesk.exchange.local import launch
from tracedesk.exchange.local.launch import Files, ensure, running
from tracedesk.exchange.settings import read
from tracedesk.primitives.locks import try_lock
from tracedesk.primitives.time import SystemClock


@contextmanager
def held(home: Path) -> Generator[int]:
    """The lock of an exchange that nobody can find."""
    lock = Files(home).lock
    lock.parent.mkdir(parents=True, mode=0o700)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    assert try_lock(descriptor)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.judge
def test_a_start_that_another_exchange_was_in_the_way_of_is_made_again_once_that_one_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = vars(launch)["_refusal"]

    async def main() -> None:
        with held(tmp_path) as lock:

            def told(failure: Path) -> Any:
                """The lock is let go of when the first start has been given up for it."""
                fcntl.flock(lock, fcntl.LOCK_UN)
                return refusal(failure)

            monkeypatch.setattr(launch, "_refusal", told)
            async with asyncio.timeout(BOUND):
                info = await ensure(tmp_path, SIM)
            assert running(tmp_path) == info
            await stopped(info)
            assert not list(Files(tmp_path).lock.parent.glob("*.failure"))

    run(main())


def test_a_start_behind_one_that_neither_begins_nor_ends_is_given_up_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PATIENCE", 3.0)

    async def main() -> None:
        link = Link(tmp_path, read({}), SystemClock())
        with held(tmp_path), pytest.raises(ToolError, match="Try again; `tracedesk exchange") as refused:
            await link.site()
        assert refused.value.code == "VENUE_UNAVAILABLE"

    run(main())
    assert running(tmp_path) is None


def test_a_home_that_takes_no_files_is_named_and_not_a_fault_of_the_desk(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    with pytest.raises(ToolError, match=r"could not start: .*run") as refused:
        run(ensure(tmp_path, SIM))
    assert refused.value.code == "VENUE_UNAVAILABLE"


def test_a_start_goes_on_when_the_one_who_asked_for_it_has_no_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    async def main() -> None:
        go = asyncio.Event()
        start = launch.ensure

        async def slowly(home: Path, sim: Any) -> Any:
            begun.append(1)
            await go.wait()
            return await start(home, sim)

        monkeypatch.setattr(launch, "ensure", slowly)
        link = Link(tmp_path, replace(read({}), sim=SIM), SystemClock())
        try:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await link.site()
            waiting = asyncio.ensure_future(link.site())
            go.set()
            await waiting
            assert len(begun) == 1
            assert link.host == running(tmp_path)
        finally:
            await link.close()
            if (info := running(tmp_path)) is not None:
                await stopped(info)

    run(main())
