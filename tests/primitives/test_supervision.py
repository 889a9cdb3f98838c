"""Background work that fails by an exception nobody foresaw: begun again, shown, and taken back."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from tests.support import BOUND, run, until
from tracedesk.primitives.supervision import FIRST_PAUSE, Supervised, SupervisedThread, persist, reasons


@pytest.mark.parametrize("problem", [MemoryError(), RuntimeError("x"), SystemExit(), KeyboardInterrupt()])
def test_a_thread_that_ends_by_an_exception_begins_its_work_again(problem: BaseException) -> None:
    failures: list[BaseException] = []
    left, reached, release = [problem], threading.Event(), threading.Event()

    def work() -> None:
        if left:
            raise left.pop()
        reached.set()
        assert release.wait(BOUND)
        thread.well()

    thread = SupervisedThread("a thread", work, failed=failures.append)
    thread.start()
    assert reached.wait(BOUND)
    assert failures == [problem]
    assert reasons()["a thread"] == type(problem).__name__
    release.set()
    thread.join()
    assert "a thread" not in reasons()
    assert not thread.is_running


def test_a_failure_to_report_does_not_end_the_thread_either() -> None:
    left = [1, 2]

    def work() -> None:
        if left:
            left.pop()
            raise MemoryError

    def fail(_: BaseException) -> None:
        raise MemoryError

    thread = SupervisedThread("another thread", work, failed=fail)
    thread.start()
    thread.join()
    assert left == []
    thread.forget()


def test_work_of_the_loop_is_begun_again_and_its_failure_is_shown_until_then() -> None:
    async def main() -> None:
        may_end, seen = asyncio.Event(), list[str]()

        async def work() -> None:
            seen.append(reasons().get("a task", ""))
            if len(seen) < 3:
                raise MemoryError
            await may_end.wait()

        task = asyncio.ensure_future(persist("a task", work))
        await until(lambda: len(seen) == 3)
        assert seen == ["", "MemoryError", "MemoryError"]
        may_end.set()
        await task
        assert "a task" not in reasons()

    run(main())


class Panic(BaseException):
    """Stand-in for a panic of native code, which is no `Exception`."""


@pytest.mark.parametrize("problem", [Panic(), asyncio.CancelledError()])
def test_a_panic_and_the_cancellation_of_what_it_awaits_end_no_work_of_the_loop(
    problem: BaseException,
) -> None:
    async def main() -> None:
        may_end, left = asyncio.Event(), [problem]

        async def work() -> None:
            if left:
                raise left.pop()
            await may_end.wait()

        rounds, ended = Supervised("rounds"), asyncio.Event()

        async def go_round() -> None:
            for each in (problem, None):
                with rounds.round():
                    if each is not None:
                        raise each
            ended.set()

        tasks = [asyncio.ensure_future(persist("a work", work)), asyncio.ensure_future(go_round())]
        await until(lambda: not left and "a work" in reasons() and ended.is_set())
        may_end.set()
        await asyncio.gather(*tasks)
        assert "rounds" not in reasons()

    run(main())


def test_work_that_succeeded_in_between_is_begun_again_as_soon_as_the_first_time() -> None:
    work = Supervised("now and then")
    pauses: list[float] = []
    for _ in range(12):
        pauses.append(work.failed(MemoryError()))
        work.well()
    assert pauses == [FIRST_PAUSE] * 12
    assert work.failed(MemoryError()) < work.failed(MemoryError())
    work.forget()


def test_failures_of_before_leave_work_its_last_tries() -> None:
    tries = list[int]()

    def work() -> None:
        assert thread._ending.wait(20)  # pyright: ignore[reportPrivateUsage]
        tries.append(1)
        if len(tries) < 3:
            raise MemoryError

    thread = SupervisedThread("a thread that failed before", work)
    thread.failures = 9
    thread.start()
    thread.join()
    thread.forget()
    assert len(tries) == 3


def test_work_of_the_loop_can_be_cancelled_while_it_waits_to_begin_again() -> None:
    async def main() -> None:
        async def work() -> None:
            raise ValueError

        task = asyncio.ensure_future(persist("a third task", work))
        await until(lambda: "a third task" in reasons())
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert "a third task" not in reasons()

    run(main())


def test_a_reason_names_no_file_and_no_caller() -> None:
    supervised = Supervised("a writer")
    supervised.report(OSError(28, "No space left on device", "/home/someone/trace.db"))
    assert reasons()["a writer"] == "OSError: No space left on device"
    supervised.report(ValueError("/home/someone/secret"))
    assert reasons()["a writer"] == "ValueError"
    del supervised
    gc.collect()
    assert "a writer" not in reasons()


def test_of_two_works_of_one_name_the_one_that_failed_is_shown() -> None:
    first, second = Supervised("twins"), Supervised("twins")
    with first.round():
        raise MemoryError
    with second.round():
        pass
    assert reasons()["twins"] == "MemoryError"
    with first.round():
        pass
    assert "twins" not in reasons()
