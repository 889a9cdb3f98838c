"""Places for calls: one scope waits for its own, in order, and never more of its calls than may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from tests.support import run
from tracedesk.wire.admission import Admission, Load

T = TypeVar("T")

LATER = 1e9
SMALL = Load(total=6, per_scope=2, strangers=4, waiting=5, waiting_per_scope=3)


async def started(coroutine: Awaitable[T]) -> asyncio.Task[T]:
    """A task that has run to its first wait."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert isinstance(task, asyncio.Task)
    return task


def test_a_hundred_calls_of_one_scope_are_admitted_in_their_order() -> None:
    async def main() -> None:
        places, order = Admission(Load()), list[int]()

        async def call(number: int) -> None:
            assert await places.enter("one", stranger=True, until=LATER) is None
            order.append(number)
            await asyncio.sleep(0)
            assert places.running <= 64
            places.leave("one", stranger=True)

        await asyncio.gather(*map(call, range(100)))
        assert order == list(range(100))
        assert (places.running, places.waiting) == (0, 0)

    run(main())


def test_a_scope_that_is_full_leaves_other_scopes_their_places() -> None:
    async def main() -> None:
        places = Admission(SMALL)
        for _ in range(2):
            assert await places.enter("busy", stranger=False, until=LATER) is None
        waiting = [await started(places.enter("busy", stranger=False, until=LATER)) for _ in range(3)]
        assert await places.enter("busy", stranger=False, until=LATER) == 2
        assert await places.enter("other", stranger=False, until=LATER) is None
        places.leave("busy", stranger=False)
        assert await waiting[0] is None
        assert not waiting[1].done()
        for task in waiting[1:]:
            task.cancel()

    run(main())


def test_all_scopes_together_have_a_bound_of_waiting_calls() -> None:
    async def main() -> None:
        places = Admission(SMALL)
        tasks: list[asyncio.Task[int | None]] = []
        for scope in ("one", "two"):
            for _ in range(5):
                tasks.append(await started(places.enter(scope, stranger=False, until=LATER)))
        assert places.waiting == 5
        assert [task.result() for task in tasks if task.done()] == [None, None, None, None, 2]
        for task in tasks:
            task.cancel()

    run(main())


def test_waiting_calls_of_strangers_count_against_their_share() -> None:
    async def main() -> None:
        places = Admission(SMALL)
        tasks = [await started(places.enter("one", stranger=True, until=LATER)) for _ in range(4)]
        assert await places.enter("two", stranger=True, until=LATER) == 4
        assert await places.enter("two", stranger=False, until=LATER) is None
        tasks[2].cancel()
        await asyncio.wait(tasks[2:3])
        assert await places.enter("two", stranger=True, until=LATER) is None
        tasks[3].cancel()

    run(main())


@pytest.mark.parametrize("is_passed_on", [False, True])
def test_a_cancelled_call_loses_no_place(is_passed_on: bool) -> None:
    """Also when its place was passed on to it just before."""

    async def main() -> None:
        places = Admission(Load(per_scope=1))
        await places.enter("one", stranger=False, until=LATER)
        waiting = await started(places.enter("one", stranger=False, until=LATER))
        if is_passed_on:
            places.leave("one", stranger=False)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        if not is_passed_on:
            places.leave("one", stranger=False)
        assert (places.running, places.waiting) == (0, 0)
        assert await places.enter("one", stranger=False, until=LATER) is None

    run(main())


def test_a_call_that_gets_no_place_by_its_deadline_is_refused() -> None:
    async def main() -> None:
        places = Admission(Load(per_scope=1))
        await places.enter("one", stranger=False, until=LATER)
        now = asyncio.get_running_loop().time()
        assert await places.enter("one", stranger=False, until=now) == 1
        assert (places.running, places.waiting) == (1, 0)

    run(main())
