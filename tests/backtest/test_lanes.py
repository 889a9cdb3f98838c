"""Questions about one run at once: quick ones together, long ones aside, each as of after it was asked."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.desks import T0, record
from tests.support import BOUND, run, until
from tracedesk.backtest import lanes
from tracedesk.backtest.lanes import LONG, LOOK, Lanes
from tracedesk.backtest.query import Recording
from tracedesk.backtest.recorder import Recorder
from tracedesk.journal import StreamPruned, UnknownStream
from tracedesk.journal.sqlite import InterruptError

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def recorded(home: Path, events: int = 3) -> Recorder:
    rec = record(home)
    for number in range(events):
        rec.risk(T0 + number, "x")
    rec.flush()
    return rec


def head(recording: Recording) -> int:
    return recording.head


def test_questions_that_come_together_are_answered_by_one_thread_as_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long the first is held, it does not count as long, which would bring in another thread.
    monkeypatch.setattr(lanes, "LONG", 10 * BOUND)

    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id)
        gate, entered = threading.Event(), threading.Event()
        threads: list[str] = []

        def first(recording: Recording) -> int:
            entered.set()
            gate.wait(BOUND)
            return recording.head

        def ask(recording: Recording) -> tuple[int, Any]:
            threads.append(threading.current_thread().name)
            return id(recording), recording.head

        blocker = asyncio.ensure_future(readers.run(first))
        await asyncio.to_thread(entered.wait, BOUND)
        others = [asyncio.ensure_future(readers.run(ask)) for _ in range(50)]
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(*others)
        assert await blocker == 3
        assert len(set(found)) == 1
        assert len(set(threads)) == 1
        readers.close()
        rec.close()

    run(main())


def test_a_question_sees_everything_that_was_durable_when_it_was_asked(tmp_path: Path) -> None:
    async def main() -> None:
        rec = recorded(tmp_path, 0)
        readers = Lanes(rec.path, rec.run_id)
        # Others keep a lane busy, so that a question meets transactions that began before it.
        busy = True

        async def crowd() -> None:
            while busy:
                await readers.run(head)

        crowds = [asyncio.ensure_future(crowd()) for _ in range(8)]
        for number in range(60):
            rec.risk(T0 + number, "x")
            rec.flush()
            assert await readers.run(head) == number + 1
        busy = False
        await asyncio.gather(*crowds)
        readers.close()
        rec.close()

    run(main())


def test_a_long_answer_holds_up_neither_the_answers_before_it_nor_the_questions_behind_it(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id)
        gates = [threading.Event(), threading.Event()]
        entered = [threading.Event(), threading.Event()]

        def held(number: int, recording: Recording) -> int:
            entered[number].set()
            gates[number].wait(2 * BOUND)
            return recording.head

        opener = asyncio.ensure_future(readers.run(lambda recording: held(0, recording)))
        await asyncio.to_thread(entered[0].wait, BOUND)
        before = asyncio.ensure_future(readers.run(head))
        long = asyncio.ensure_future(readers.run(lambda recording: held(1, recording)))
        behind = [asyncio.ensure_future(readers.run(head)) for _ in range(5)]
        await asyncio.sleep(0)
        gates[0].set()
        assert await asyncio.wait_for(asyncio.gather(opener, before, *behind), BOUND) == [3] * 7
        assert await asyncio.wait_for(readers.run(head), BOUND) == 3
        assert not long.done()
        gates[1].set()
        assert await long == 3
        readers.close()
        rec.close()

    run(main())


def test_no_more_threads_read_than_there_are_lanes(tmp_path: Path) -> None:
    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id, 2)
        gate = threading.Event()
        inside: list[int] = []
        most: list[int] = []

        def held(recording: Recording) -> int:
            inside.append(1)
            most.append(len(inside))
            gate.wait(BOUND)
            inside.pop()
            return recording.head

        asked = [asyncio.ensure_future(readers.run(held)) for _ in range(6)]
        await until(lambda: len(inside) == 2)
        await asyncio.sleep(5 * (LONG + LOOK))  # a third would have come by now
        gate.set()
        assert await asyncio.gather(*asked) == [3] * 6
        assert max(most) == 2
        readers.close()
        rec.close()

    run(main())


def test_an_interrupt_ends_its_own_read_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id, 1)
        begun = threading.Event()
        failed: list[BaseException] = []

        def endless(recording: Recording) -> None:
            begun.set()
            try:
                next(recording.connection.execute(ENDLESS))
            except InterruptError as problem:
                failed.append(problem)
                raise

        for _ in range(5):
            long = asyncio.ensure_future(readers.run(endless))
            waiting = asyncio.ensure_future(readers.run(endless))
            behind = [asyncio.ensure_future(readers.run(head)) for _ in range(5)]
            await asyncio.to_thread(begun.wait, BOUND)
            begun.clear()
            waiting.cancel()
            long.cancel()
            assert await asyncio.gather(*behind) == [3] * 5
            ended = await asyncio.gather(long, waiting, return_exceptions=True)
            assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
        assert len(failed) == 5
        readers.close()
        rec.close()

    run(main())


def test_what_a_question_fails_with_reaches_its_asker_alone(tmp_path: Path) -> None:
    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id)

        def broken(recording: Recording) -> int:
            raise KeyError(recording.run)

        found = await asyncio.gather(
            *(readers.run(work) for work in (head, broken, head)), return_exceptions=True
        )
        assert found[0] == found[2] == 3
        assert isinstance(found[1], KeyError)
        readers.close()
        rec.close()

    run(main())


def test_every_asker_is_told_that_the_run_cannot_be_read_and_later_ones_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id)

        def pruned(*_: object) -> None:
            raise StreamPruned("x", {})

        with monkeypatch.context() as patch:
            patch.setattr(lanes.Recording, "of", pruned)
            found = await asyncio.gather(*(readers.run(head) for _ in range(4)), return_exceptions=True)
            assert [type(one) for one in found] == [StreamPruned] * 4
        assert await readers.run(head) == 3
        readers.close()
        other = Lanes(rec.path, "0" * 36)
        with pytest.raises(UnknownStream):
            await other.run(head)
        other.close()
        rec.close()

    run(main())


def test_closing_waits_for_the_read_of_the_moment_and_ends_all_threads(tmp_path: Path) -> None:
    async def main() -> None:
        rec = recorded(tmp_path)
        readers = Lanes(rec.path, rec.run_id)
        assert await asyncio.gather(*(readers.run(head) for _ in range(3))) == [3] * 3
        readers.close()
        assert not [
            thread for thread in threading.enumerate() if thread.name.startswith(f"read-{rec.path.stem}")
        ]
        rec.close()

    run(main())
