"""Reads in threads: bounded in number, and ended with the call that wanted them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.support import BOUND, run
from tracedesk.journal import Entry, Journal, Reader
from tracedesk.journal.pool import ReadPool

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with Journal(path) as journal:
        journal.open("s", "test")
        journal.append("s", [Entry("k", n, b"{}") for n in range(10)])
    return path


def _count(reader: Reader) -> int:
    return len(reader.events("s"))


def test_a_read_runs_in_a_thread_and_returns_its_value(file: Path) -> None:
    async def main() -> None:
        pool = ReadPool(file)
        threads = await pool.run(lambda reader: (threading.current_thread().name, _count(reader)))
        assert threads == ("read-a_0", 10)
        pool.close()

    run(main())


def test_cancelling_the_caller_interrupts_a_read_that_would_never_end(file: Path) -> None:
    async def main() -> None:
        pool = ReadPool(file, size=1)
        begun = threading.Event()

        def forever(reader: Reader) -> None:
            begun.set()
            next(reader.connection.execute(ENDLESS))

        task = asyncio.create_task(pool.run(forever))
        await asyncio.to_thread(begun.wait, BOUND)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await pool.run(_count) == 10
        pool.close()

    run(main())


def test_a_deadline_interrupts_a_read(file: Path) -> None:
    async def main() -> None:
        pool = ReadPool(file, size=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.run(lambda reader: next(reader.connection.execute(ENDLESS)))
        assert await pool.run(_count) == 10
        pool.close()

    run(main())


def test_no_more_reads_run_at_once_than_the_pool_has_places(file: Path) -> None:
    async def main() -> None:
        pool = ReadPool(file, size=2)
        inside, most, lock = 0, 0, threading.Lock()

        def busy(reader: Reader) -> int:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            count = _count(reader)
            with lock:
                inside -= 1
            return count

        assert await asyncio.gather(*(pool.run(busy) for _ in range(50))) == [10] * 50
        assert most <= 2
        pool.close()

    run(main())


def test_a_read_that_fails_gives_its_reader_back(file: Path) -> None:
    async def main() -> None:
        pool = ReadPool(file, size=1)

        def fail(reader: Reader) -> None:
            raise KeyError("no such thing")

        for _ in range(3):
            with pytest.raises(KeyError):
                await pool.run(fail)
        assert await pool.run(_count) == 10
        pool.close()

    run(main())
