"""Results about ended runs: computed once, for all who ask at once, and never for a run that has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.backtest.desks import T0, record
from tests.support import run, until
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.query import Recording
from tracedesk.backtest.run_cache import RunCache
from tracedesk.home import Home


class Slow:
    """A computation that waits, and counts how often it was begun and how often it was cancelled."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return number


def test_callers_who_ask_at_once_share_one_computation_and_later_ones_its_result() -> None:
    async def main() -> None:
        cache, slow = RunCache(), Slow()
        tasks = [asyncio.ensure_future(cache.get("key", slow)) for _ in range(4)]
        await until(lambda: slow.begun == 1)
        slow.may_end.set()
        assert await asyncio.gather(*tasks) == [1, 1, 1, 1]
        assert await cache.get("key", slow) == 1
        assert await cache.get("other", slow) == 2

    run(main())


def test_a_computation_goes_on_while_anybody_waits_and_ends_with_the_last_of_them() -> None:
    async def main() -> None:
        cache, slow = RunCache(), Slow()
        tasks = [asyncio.ensure_future(cache.get("key", slow)) for _ in range(2)]
        await until(lambda: slow.begun == 1)
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        assert slow.cancelled == 0
        tasks[1].cancel()
        await asyncio.wait(tasks[1:])
        await until(lambda: slow.cancelled == 1)
        slow.may_end.set()
        assert await cache.get("key", slow) == 2

    run(main())


def test_a_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    async def main() -> None:
        async def fail() -> int:
            await asyncio.sleep(0)
            raise ValueError("damaged")

        async def succeed() -> int:
            return 5

        cache = RunCache()
        found = await asyncio.gather(*(cache.get("key", fail) for _ in range(3)), return_exceptions=True)
        assert [str(one) for one in found] == ["damaged"] * 3
        assert await cache.get("key", succeed) == 5

    run(main())


def test_the_result_not_asked_for_longest_is_forgotten_first() -> None:
    async def main() -> None:
        cache, calls = RunCache(most=2), list[str]()

        async def get(key: str) -> None:
            async def compute() -> str:
                calls.append(key)
                return key

            await cache.get(key, compute)

        for key in ("a", "b", "a", "c", "a", "b"):
            await get(key)
        assert calls == ["a", "b", "c", "b"]

    run(main())


@pytest.mark.parametrize("is_running", [False, True])
def test_a_run_that_has_ended_is_read_once_and_one_that_is_recorded_each_time(
    tmp_path: Path, is_running: bool
) -> None:
    async def main() -> None:
        recorder = record(tmp_path)
        recorder.risk(T0, "x")
        recorder.flush()
        if not is_running:
            recorder.close()
        seen: list[int] = []

        def work(recording: Recording) -> int:
            seen.append(recording.head)
            return recording.head

        shelf = Shelf(Home.open(tmp_path))
        await asyncio.gather(*(shelf.read_once(recorder.run_id, "heads", work) for _ in range(4)))
        await shelf.read_once(recorder.run_id.upper(), "heads", work)
        assert len(seen) == (5 if is_running else 1)
        await shelf.read_once(recorder.run_id, "other", work)
        assert len(seen) == (6 if is_running else 2)
        await shelf.close()
        recorder.close()

    run(main())
