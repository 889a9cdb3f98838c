"""Long jobs: one handle, exact counts, few updates, always the last."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.fixtures.probe import OPEN, READS
from tests.hosts.support import Heard, connected, hosting
from tests.support import BOUND, ENVELOPE, VERSION, desk_client, events, rpc, run, until
from tracedesk.contract import Arguments, Call, Tool, Toolset
from tracedesk.errors import STANDARD, ToolError
from tracedesk.hosts import HostCall
from tracedesk.jobs import Job, JobCancelled, JobTable, JobView, in_thread
from tracedesk.primitives.time import ManualClock, parse

NOON = parse("2026-01-02T12:00:00Z").ns


class Shown:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.all: list[tuple[float, float | None, str | None]] = []

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self.all.append((done, total, message))


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


# --- the handle --------------------------------------------------------------------------------


def test_a_job_tells_how_far_it_is_and_how_it_ended() -> None:
    clock = ManualClock(NOON)
    job = Job[str]("index", clock=clock)
    job.report(3, 10, "files")
    job.report(message="more files")
    view = job.view()
    assert (view.state, view.done, view.total, view.message) == ("running", 3, 10, "more files")
    clock.advance(2)
    assert job.finish("indexed")
    assert job.view().document() == {
        "id": job.id,
        "kind": "index",
        "state": "done",
        "done": 3,
        "total": 10,
        "message": "more files",
        "startedAt": "2026-01-02T12:00:00Z",
        "endedAt": "2026-01-02T12:00:02Z",
        "result": "indexed",
        "error": None,
    }
    assert job.outcome() == "indexed"


def test_a_failed_job_raises_its_error_to_everyone_who_asks() -> None:
    job = Job[None]("index")
    job.fail(ToolError("INVALID_INPUT", "No such folder.", {"path": "x"}))
    for _ in range(2):
        with pytest.raises(ToolError, match="No such folder") as refusal:
            job.outcome()
        assert refusal.value.code == "INVALID_INPUT"
    error = {"code": "INVALID_INPUT", "message": "No such folder.", "details": {"path": "x"}}
    assert job.view().document()["error"] == error


def test_a_kept_job_does_not_keep_what_its_work_held() -> None:
    class Large:
        pass

    def work(job: Job[None]) -> None:
        large = Large()
        held.append(weakref.ref(large))
        raise ToolError("INVALID_INPUT", "No.")

    held: list[weakref.ref[Large]] = []

    async def main() -> JobTable:
        table = JobTable()
        job = table.start_thread("index", work)
        with pytest.raises(ToolError):
            await job.wait()
        return table

    table = run(main())
    gc.collect()
    assert held[0]() is None
    assert len(table.list()) == 1


class JobLife(RuleBasedStateMachine):
    """Whatever happens to a job, it ends once, and nothing moves after its end."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(NOON)
        self.job = Job[int]("index", clock=self.clock)
        self.state = "running"
        self.expected: list[Any] = [0, None, None]
        self.cancelling = False
        self.end: tuple[Any, str | None, int | None] = (None, None, None)

    @rule(done=st.none() | st.integers(0, 9), total=st.none() | st.integers(1, 9), text=st.none() | st.text())
    def report(self, done: int | None, total: int | None, text: str | None) -> None:
        self.job.report(done, total, text)
        if self.state == "running":
            given = (done, total, text)
            self.expected = [
                old if new is None else new for old, new in zip(self.expected, given, strict=True)
            ]

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def cancel(self) -> None:
        assert self.job.cancel() == (self.state == "running")
        self.cancelling = self.cancelling or self.state == "running"

    @rule(result=st.integers())
    def finish(self, result: int) -> None:
        self._ended(self.job.finish(result), "done", result, None)

    @rule(code=st.sampled_from(("A", "B")))
    def fail(self, code: str) -> None:
        self._ended(self.job.fail(ToolError(code, "m")), "failed", None, code)

    @rule()
    def abandon(self) -> None:
        self._ended(self.job.abandon(), "cancelled", None, None)

    def _ended(self, accepted: bool, state: str, result: int | None, code: str | None) -> None:
        assert accepted == (self.state == "running")
        if accepted:
            self.state, self.end = state, (result, code, self.clock.now_ns())

    @invariant()
    def view_is_the_model(self) -> None:
        view = self.job.view()
        assert view.state == self.state == self.job.state
        assert [view.done, view.total, view.message] == self.expected
        assert (view.result, view.error and view.error.code, view.ended_ns) == self.end
        assert self.job.is_cancelling == self.cancelling

    @precondition(lambda self: self.cancelling)
    @rule()
    def check_raises(self) -> None:
        with pytest.raises(JobCancelled):
            self.job.check()

    @precondition(lambda self: not self.cancelling)
    @rule()
    def check_passes(self) -> None:
        self.job.check()


JobLife.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestJobLife = JobLife.TestCase


# --- watching ----------------------------------------------------------------------------------


def test_updates_are_throttled_show_the_newest_and_always_the_last() -> None:
    async def main() -> None:
        clock = ManualClock()
        job = Job[str]("index", clock=clock)
        updates = job.updates(rate=10)
        assert (await anext(updates)).done == 0
        for done in range(50):
            job.report(done)
        following = asyncio.ensure_future(anext(updates))
        clock.advance(0.09)
        await settle()
        assert not following.done(), "a tenth of a second has not passed"
        clock.advance(0.01)
        assert (await asyncio.wait_for(following, BOUND)).done == 49
        job.report(60)
        job.finish("r")
        last = await asyncio.wait_for(anext(updates), BOUND)  # at once: the clock stands still
        assert (last.done, last.state, last.result) == (60, "done", "r")
        with pytest.raises(StopAsyncIteration):
            await anext(updates)

    run(main())


def test_nothing_new_is_not_shown_again() -> None:
    async def main() -> None:
        clock = ManualClock()
        job = Job[None]("index", clock=clock)
        updates = job.updates(rate=10)
        await anext(updates)
        following = asyncio.ensure_future(anext(updates))
        await settle()
        clock.advance(5)
        await settle()
        assert not following.done()
        job.report(1)
        assert (await asyncio.wait_for(following, BOUND)).done == 1
        await updates.aclose()

    run(main())


def test_a_watcher_that_comes_late_sees_the_end() -> None:
    async def main() -> None:
        job = Job[str]("index")
        job.finish("r")
        assert [view.state async for view in job.updates()] == ["done"]
        assert await job.wait() == "r"
        assert await job.report_to(Shown()) == "r"

    run(main())


def test_several_watchers_each_see_the_last() -> None:
    async def main() -> None:
        job = Job[int]("index")

        async def watch() -> JobView:
            return [view async for view in job.updates(rate=1000)][-1]

        watchers = [asyncio.ensure_future(watch()) for _ in range(5)]
        waiters = [asyncio.ensure_future(job.wait()) for _ in range(5)]
        await settle()
        await in_thread(lambda: [job.report(n) for n in range(10_000)])
        await in_thread(lambda: job.finish(7))
        views = await asyncio.gather(*watchers)
        assert {(view.done, view.result) for view in views} == {(9_999, 7)}
        assert set(await asyncio.gather(*waiters)) == {7}

    run(main())


def test_a_flood_of_reports_from_threads_wakes_a_watcher_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        job = Job[None]("index", clock=ManualClock())
        updates = job.updates()
        await anext(updates)
        loop, woken = asyncio.get_running_loop(), 0
        original = loop.call_soon_threadsafe

        def counting(*args: Any) -> Any:
            nonlocal woken
            woken += 1
            return original(*args)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counting)
        threads = [threading.Thread(target=lambda: [job.report(n) for n in range(5_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
        assert woken == 1
        await updates.aclose()

    asyncio.run(main())  # the standard loop: the fast one cannot be watched


# --- running -----------------------------------------------------------------------------------


def test_work_in_a_thread_reports_and_returns() -> None:
    async def main() -> None:
        table = JobTable()

        def work(job: Job[str]) -> str:
            for done in range(100):
                job.check()
                job.report(done + 1, 100)
            return threading.current_thread().name

        job = table.start_thread("index", work)
        assert await job.wait() != threading.main_thread().name
        assert (job.view().done, job.state) == (100, "done")
        assert table.get(job.id) is job

    run(main())


def test_a_cancel_ends_work_in_a_thread_at_its_next_check() -> None:
    async def main() -> None:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(job: Job[None]) -> None:
            while True:
                job.check()
                loop.call_soon_threadsafe(begun.set)

        job = JobTable().start_thread("index", work)
        await asyncio.wait_for(begun.wait(), BOUND)
        assert job.cancel()
        with pytest.raises(JobCancelled):
            await asyncio.wait_for(job.wait(), BOUND)
        assert job.state == "cancelled"
        assert not job.cancel()

    run(main())


def test_a_cancel_ends_async_work_even_when_another_thread_asks() -> None:
    async def main() -> None:
        async def work(job: Job[None]) -> None:
            await asyncio.Event().wait()

        job = JobTable().start("index", work)
        await settle()
        assert await in_thread(job.cancel)
        with pytest.raises(JobCancelled):
            await asyncio.wait_for(job.wait(), BOUND)

    run(main())


def test_work_that_ends_despite_a_cancel_is_done() -> None:
    async def main() -> None:
        go = threading.Event()

        def work(job: Job[str]) -> str:
            go.wait(BOUND)
            return "too late"

        job = JobTable().start_thread("index", work)
        job.cancel()
        go.set()
        assert await job.wait() == "too late"

    run(main())


@pytest.mark.parametrize("threaded", [False, True])
def test_a_bug_in_the_work_fails_the_job_with_an_id_that_the_log_repeats(
    threaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        def work(job: Job[None]) -> None:
            raise RuntimeError("a bug")

        async def async_work(job: Job[None]) -> None:
            work(job)

        table = JobTable()
        job = table.start_thread("index", work) if threaded else table.start("index", async_work)
        with pytest.raises(ToolError) as refusal:
            await job.wait()
        assert refusal.value.code == "INTERNAL_ERROR"
        assert job.id in refusal.value.message
        assert job.id in caplog.text
        assert "a bug" in caplog.text

    run(main())


def test_the_table_forgets_the_oldest_that_ended_and_never_one_that_runs() -> None:
    async def main() -> None:
        async def forever(job: Job[None]) -> None:
            await asyncio.Event().wait()

        async def at_once(job: Job[int]) -> int:
            return 1

        table = JobTable(history=3)
        running = table.start("long", forever)
        ended: list[Job[int]] = []
        for _ in range(6):
            ended.append(table.start("short", at_once))
            await ended[-1].wait()
        assert table.list() == [running, *ended[-4:]]
        newest = table.start("short", at_once)
        assert table.list() == [running, *ended[-3:], newest]
        await table.close()
        assert running.state == "cancelled"
        assert table.get(ended[0].id) is None

    run(main())


def test_closing_a_table_waits_no_longer_than_its_grace() -> None:
    async def main() -> None:
        release = threading.Event()
        table = JobTable()
        job = table.start_thread("deaf", lambda job: release.wait(BOUND))
        await table.close(grace=0.01)
        assert (job.state, job.is_cancelling) == ("running", True)
        release.set()
        await job.wait()

    run(main())


# --- one convention for all who show progress --------------------------------------------------


@pytest.mark.parametrize(("for_mcp", "expected"), [(False, [0, 1, 1, 0, 2, 2]), (True, [0, 1, 2])])
def test_followers_see_every_change_and_calls_only_what_goes_up(for_mcp: bool, expected: list[int]) -> None:
    async def main() -> None:
        clock, shown = ManualClock(), Shown()
        job = Job[str]("index", clock=clock)
        watching = asyncio.ensure_future(job.report_to(shown) if for_mcp else job.follow(shown))
        await settle()
        for done, message in [(1, "a"), (1, "b"), (0, "c"), (2, "d")]:
            job.report(done, 2, message)
            clock.advance(1)
            await settle()
        job.finish("r")
        assert await asyncio.wait_for(watching, BOUND) == "r"
        assert [done for done, _, _ in shown.all] == expected

    run(main())


def test_a_call_that_ends_early_ends_its_job_unless_it_is_to_be_kept() -> None:
    async def main() -> None:
        for keep in (False, True):
            job = Job[None]("index")
            call = asyncio.ensure_future(job.report_to(Shown(), keep=keep))
            await settle()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert job.is_cancelling is not keep

    run(main())


def test_a_jobs_progress_reaches_an_mcp_client(tmp_path: Path) -> None:
    toolset: Toolset[None] = Toolset("longwork", summary="Long work.", guide="call work.")
    table: list[JobTable] = []

    async def work(args: Arguments, call: Call[Any]) -> dict[str, Any]:
        table.append(JobTable())

        def count(job: Job[dict[str, Any]]) -> dict[str, Any]:
            job.report(5, 5, "all five")
            return {"counted": 5}

        return await table[0].start_thread("count", count).report_to(call)

    toolset.add(
        Tool(
            name="work",
            toolset="longwork",
            description="Count.",
            input=OPEN,
            output=OPEN,
            annotations=READS,
            scope="read",
            family=STANDARD,
            deadline=5.0,
            handler=work,
        )
    )

    async def main() -> None:
        async with desk_client(tmp_path, extra=[toolset]) as client:
            meta = {**ENVELOPE, "progressToken": "p"}
            message = rpc("tools/call", {"name": "work", "arguments": {}, "_meta": meta})
            headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "work"}
            reply = await client.post("/mcp", message, headers)
            *told, answer = events(reply.body)
            assert answer["result"]["structuredContent"] == {"counted": 5}
            assert [t["params"]["progressToken"] for t in told] == ["p"] * len(told)
            assert told[-1]["params"]["progress"] == 5
            assert told[-1]["params"]["message"] == "all five"

    run(main())


def test_a_jobs_progress_reaches_a_hosts_client(tmp_path: Path) -> None:
    async def index(params: dict[str, Any], call: HostCall) -> str:
        def work(job: Job[str]) -> str:
            for done in range(1, 101):
                job.report(done, 100)
            return "indexed"

        return await JobTable().start_thread("index", work).report_to(call)

    async def main() -> None:
        async with hosting(tmp_path, {"index": index}) as host, connected(host.info) as client:
            heard = Heard()
            assert await client.call("index", on_progress=heard) == "indexed"
            assert heard.all[-1] == (100, 100, None)

    run(main())


# --- threads -----------------------------------------------------------------------------------


def test_a_thread_gives_back_its_result_or_its_error() -> None:
    async def main() -> None:
        assert await in_thread(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)

    run(main())


def test_a_failed_job_keeps_the_cause_and_not_its_frames() -> None:
    async def main() -> None:
        def work(job: Job[None]) -> None:
            raise OSError(28, "No space left on device")

        job = JobTable().start_thread("fill", work)
        await until(lambda: job.state == "failed")
        for _ in range(2):
            with pytest.raises(ToolError) as refused:
                job.outcome()
            cause = refused.value.__cause__
            assert isinstance(cause, OSError)
            assert (cause.errno, cause.__traceback__) == (28, None)

    run(main())
