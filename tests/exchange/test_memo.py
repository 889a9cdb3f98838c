"""Costly answers: made once for all who ask at once, kept for a moment, told late rather than waited for."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import run
from tracedesk.exchange.memo import Memo
from tracedesk.primitives.time import ManualClock


class Work:
    """Something that takes until it is let go."""

    def __init__(self) -> None:
        self.times = 0
        self.let_go = asyncio.Event()

    async def __call__(self) -> int:
        self.times += 1
        number = self.times
        await self.let_go.wait()
        return number


def test_those_who_ask_at_once_share_one_answer_which_is_fresh_for_a_moment() -> None:
    async def main() -> None:
        clock, work = ManualClock(), Work()
        memo = Memo(clock, fresh=2, kept=60)
        asked = [asyncio.create_task(memo.get("a", work)) for _ in range(5)]
        await asyncio.sleep(0)
        work.let_go.set()
        assert await asyncio.gather(*asked) == [1] * 5
        clock.advance(1)
        assert await memo.get("a", work) == 1
        assert await memo.get("b", work) == 2
        clock.advance(2)
        assert await memo.get("a", work) == 3

    run(main())


def test_who_cannot_wait_gets_the_last_answer_and_the_new_one_is_made_meanwhile() -> None:
    async def main() -> None:
        clock, work = ManualClock(), Work()
        memo = Memo(clock, fresh=2, kept=60)
        assert await memo.soon("a", work, 0.01) is None
        work.let_go.set()
        assert await memo.soon("a", work, 5) == 1
        work.let_go.clear()
        clock.advance(3)
        assert await memo.soon("a", work, 0.01) == 1
        work.let_go.set()
        assert await memo.get("a", work) == 2
        work.let_go.clear()
        clock.advance(61)
        assert await memo.soon("a", work, 0.01) is None
        await memo.close()

    run(main())


def test_a_failure_is_told_and_not_kept() -> None:
    async def main() -> None:
        memo = Memo(ManualClock(), fresh=2, kept=60)

        async def fails() -> None:
            raise LookupError("no")

        async def works() -> str:
            return "yes"

        with pytest.raises(LookupError):
            await memo.get("a", fails)
        assert await memo.get("a", works) == "yes"

    run(main())


def test_an_asker_who_leaves_does_not_take_the_answer_along() -> None:
    async def main() -> None:
        work = Work()
        memo = Memo(ManualClock(), fresh=2, kept=60)
        leaving, staying = (asyncio.create_task(memo.get("a", work)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        work.let_go.set()
        assert await staying == 1

    run(main())
