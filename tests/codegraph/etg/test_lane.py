"""A thread that stays: order, failures, and those who no longer wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support import BOUND
from tracedesk.codegraph.etg.lane import Lane


def test_pieces_are_done_in_order_by_one_thread() -> None:
    lane, threads = Lane("pieces"), set[int]()

    def piece(number: int) -> int:
        threads.add(threading.get_ident())
        return number

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(lane.run(lambda n=n: piece(n)) for n in range(50)))

    assert asyncio.run(all_of_them()) == list(range(50))
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    lane.close()


def test_a_failure_is_heard_by_who_waits_and_the_next_piece_is_done() -> None:
    lane = Lane("pieces")

    def fail() -> None:
        raise ValueError("no")

    async def both() -> int:
        with pytest.raises(ValueError, match="no"):
            await lane.run(fail)
        return await lane.run(lambda: 7)

    assert asyncio.run(both()) == 7
    lane.close()


def test_a_piece_ends_and_is_told_also_when_the_one_who_waits_is_cancelled() -> None:
    lane = Lane("pieces")
    begun, go = threading.Event(), threading.Event()

    def piece() -> str:
        begun.set()
        assert go.wait(BOUND)
        return "done"

    async def cancelled() -> str:
        waiting = asyncio.ensure_future(lane.run(piece))
        await asyncio.to_thread(begun.wait, BOUND)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not lane.is_idle
        go.set()
        return await waiting

    assert asyncio.run(cancelled()) == "done"
    assert lane.is_idle
    lane.close()


def test_a_closed_lane_has_done_what_it_was_given_and_refuses_more() -> None:
    lane, done = Lane("pieces"), list[int]()

    async def closing() -> None:
        waiting = [asyncio.ensure_future(lane.run(lambda n=n: done.append(n))) for n in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(lane.close)
        await asyncio.gather(*waiting)
        with pytest.raises(RuntimeError, match="has ended"):
            await lane.run(lambda: None)

    asyncio.run(closing())
    assert done == list(range(20))
    lane.close()
