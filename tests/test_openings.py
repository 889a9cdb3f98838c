"""Toolsets open once, when they are needed or in a quiet moment, and close in the reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import run, until
from tracedesk import openings as module
from tracedesk.config import BadSetting, Settings
from tracedesk.contract import Source, Toolset
from tracedesk.desk import open_desk
from tracedesk.errors import ToolError
from tracedesk.hooks import Requester
from tracedesk.openings import Openings
from tracedesk.primitives.redaction import Secrets

NAMES = ("one", "two", "three")


class Doors:
    """Contexts that open when they are let, and what became of them."""

    def __init__(self, *, shut: bool = False) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.entered: list[str] = []
        self.broken: dict[str, Exception] = {}
        self.let = {name: asyncio.Event() for name in NAMES}
        if not shut:
            for event in self.let.values():
                event.set()
        self.openings = Openings({name: self.context(name) for name in NAMES}, {}, Secrets())

    @asynccontextmanager
    async def context(self, name: str) -> AsyncGenerator[str]:
        task = asyncio.current_task()
        self.entered.append(name)
        await self.let[name].wait()
        if name in self.broken:
            raise self.broken[name]
        self.opened.append(name)
        try:
            yield f"state of {name}"
        finally:
            assert asyncio.current_task() is task
            self.closed.append(name)


def _never() -> int:
    return 0


# --- one opening for all who ask ---------------------------------------------------------------

asking = st.tuples(st.just("ask"), st.sampled_from(NAMES))
leaving = st.tuples(st.just("leave"), st.integers(0, 20))
letting = st.tuples(st.just("let"), st.sampled_from(NAMES))


@settings(max_examples=60)
@given(st.lists(st.one_of(asking, leaving, letting), max_size=14))
def test_whoever_asks_and_whoever_leaves_each_toolset_opens_once_and_closes_in_reverse(
    steps: list[tuple[str, Any]],
) -> None:
    async def main() -> None:
        doors = Doors(shut=True)
        asked: list[tuple[str, asyncio.Task[Any]]] = []
        for step, what in steps:
            if step == "ask":
                asked.append((what, asyncio.create_task(doors.openings.state(what))))
            elif step == "let":
                doors.let[what].set()
            elif asked:
                number: int = what % len(asked)
                asked[number][1].cancel()
            await asyncio.sleep(0)
        for event in doors.let.values():
            event.set()
        await asyncio.gather(*(task for _, task in asked), return_exceptions=True)
        for name, task in asked:
            assert task.cancelled() or task.result() == f"state of {name}"
        await doors.openings.close()
        assert len(set(doors.entered)) == len(doors.entered)
        assert sorted(doors.opened) == sorted(doors.entered)
        assert doors.closed == doors.opened[::-1]

    run(main())


def test_a_caller_that_is_cancelled_does_not_end_the_opening_for_others() -> None:
    async def main() -> None:
        doors = Doors(shut=True)
        first = asyncio.create_task(doors.openings.state("one"))
        second = asyncio.create_task(doors.openings.state("one"))
        await until(lambda: doors.entered == ["one"])
        first.cancel()
        await asyncio.wait([first])
        doors.let["one"].set()
        assert await second == "state of one"
        await doors.openings.close()

    run(main())


def test_toolsets_open_beside_each_other() -> None:
    async def main() -> None:
        doors = Doors(shut=True)
        slow = asyncio.create_task(doors.openings.state("one"))
        doors.let["two"].set()
        assert await doors.openings.state("two") == "state of two"
        assert not slow.done()
        doors.let["one"].set()
        await slow
        await doors.openings.close()
        assert doors.closed == ["one", "two"]

    run(main())


def test_a_toolset_that_opens_nothing_has_no_state() -> None:
    async def main() -> None:
        assert await Doors().openings.state("four") is None

    run(main())


# --- the rest ----------------------------------------------------------------------------------


def test_the_rest_opens_in_the_first_pause_after_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", 0.01)
    monkeypatch.setattr(module, "LATEST", 3600.0)

    async def main() -> None:
        doors = Doors()
        passed = 0
        rest = asyncio.create_task(doors.openings.rest(lambda: passed))
        await asyncio.sleep(0.1)
        assert doors.entered == []  # the client has not said anything yet
        passed = 1
        await rest
        assert doors.opened == list(NAMES)
        await doors.openings.close()

    run(main())


def test_the_rest_does_not_wait_for_ever_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", 0.01)
    monkeypatch.setattr(module, "LATEST", 0.1)

    async def main() -> None:
        for messages in (_never, iter(range(1, 10**9)).__next__):
            doors = Doors()
            await doors.openings.rest(messages)
            assert doors.opened == list(NAMES)
            await doors.openings.close()

    run(main())


# --- failures ----------------------------------------------------------------------------------


def test_a_failure_is_an_envelope_for_callers_and_the_fault_itself_for_the_desk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATEST", 3600.0)
    fault = BadSetting("the second cannot be opened.")

    async def main() -> None:
        doors = Doors()
        doors.broken["two"] = fault
        rest = asyncio.create_task(doors.openings.rest(_never))
        for _ in range(2):
            with pytest.raises(
                ToolError, match=r"two cannot be opened.*: the second cannot be opened\. "
            ) as told:
                await doors.openings.state("two")
            assert told.value.code == "INTERNAL_ERROR"
            assert told.value.details == {"toolset": "two", "kind": "BadSetting"}
        await asyncio.wait([rest])
        assert rest.exception() is fault
        await doors.openings.close()
        assert doors.entered == ["two"]

    run(main())


def test_a_failure_that_nobody_has_told_is_told_at_the_end_after_the_others_are_closed() -> None:
    fault = OSError("no room")

    async def main() -> None:
        doors = Doors(shut=True)
        doors.broken["two"] = fault
        doors.let["one"].set()
        await doors.openings.state("one")
        waiting = asyncio.create_task(doors.openings.state("two"))
        await until(lambda: "two" in doors.entered)
        waiting.cancel()
        closing = asyncio.create_task(doors.openings.close())
        await asyncio.sleep(0)
        doors.let["two"].set()
        await asyncio.wait([closing])
        assert closing.exception() is fault
        assert doors.closed == ["one"]

    run(main())


def test_what_is_opening_at_the_end_is_waited_for_and_closed() -> None:
    async def main() -> None:
        doors = Doors(shut=True)
        asked = asyncio.create_task(doors.openings.state("one"))
        await until(lambda: doors.entered == ["one"])
        closing = asyncio.create_task(doors.openings.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        doors.let["one"].set()
        await closing
        assert doors.closed == doors.opened == ["one"]
        assert await asked == "state of one"
        with pytest.raises(ToolError, match="closing"):
            await doors.openings.state("two")

    run(main())


def test_what_never_ends_to_open_is_broken_off_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)

    async def main() -> None:
        doors = Doors(shut=True)
        doors.let["one"].set()
        await doors.openings.state("one")
        asked = asyncio.create_task(doors.openings.state("two"))
        await until(lambda: "two" in doors.entered)
        await doors.openings.close()
        assert doors.closed == ["one"]
        with pytest.raises(ToolError):
            await asked

    run(main())


def test_what_opens_although_it_was_broken_off_is_left_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    left: list[str] = []

    @asynccontextmanager
    async def stubborn() -> AsyncGenerator[None]:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        yield
        left.append("stubborn")

    async def main() -> None:
        openings = Openings({"stubborn": stubborn()}, {}, Secrets())
        asked = asyncio.create_task(openings.state("stubborn"))
        await asyncio.sleep(0)
        await openings.close()
        await asked
        assert left == ["stubborn"]

    run(main())


# --- the desk ----------------------------------------------------------------------------------


def _toolset(name: str, open: Callable[[Any], AbstractAsyncContextManager[Any]]) -> Toolset[Any]:
    return Toolset(name, summary="A test toolset.", guide="call nothing.", open=open)


def test_a_desk_is_given_with_all_toolsets_open_unless_it_is_asked_to_be_lazy(tmp_path: Path) -> None:
    async def main(lazily: bool) -> None:
        doors = Doors()
        extra = [_toolset(name, lambda desk, name=name: doors.context(name)) for name in NAMES]
        chosen = Settings(home=tmp_path, toolsets=("desk",))
        async with open_desk(chosen, extra=extra, lazily=lazily) as desk:
            assert doors.opened == ([] if lazily else list(NAMES))
            assert await desk.openings.state("two") == "state of two"
            assert desk.states["desk"] is desk
        assert doors.closed == doors.opened[::-1]
        assert len(doors.opened) == (1 if lazily else 3)

    run(main(False))
    run(main(True))


def test_settings_are_refused_before_any_toolset_opens(tmp_path: Path) -> None:
    async def main() -> None:
        doors = Doors()

        def refuse(desk: Any) -> AbstractAsyncContextManager[Any]:
            raise BadSetting("two.doors must be a number")

        extra = [_toolset("one", lambda desk: doors.context("one")), _toolset("two", refuse)]
        for lazily in (False, True):
            with pytest.raises(BadSetting, match="must be a number"):
                async with open_desk(Settings(home=tmp_path, toolsets=("desk",)), extra=extra, lazily=lazily):
                    pass
        assert doors.entered == []

    run(main())


def test_a_reference_opens_the_toolsets_that_may_know_it_and_an_ended_scope_none(tmp_path: Path) -> None:
    async def main() -> None:
        doors, ended = Doors(), list[tuple[str, Any]]()
        extra = [
            Toolset[Any](
                name,
                summary="A test toolset.",
                guide="call nothing.",
                open=lambda desk, name=name: doors.context(name),
                ended=lambda scope, state: ended.append((scope, state)),
            )
            for name in NAMES
        ]

        async def resolve(ref: str, state: Any, requester: Requester) -> Source | None:
            return Source(ref, "door", state)

        extra[1].resolves(resolve)
        chosen = Settings(home=tmp_path, toolsets=("desk",))
        async with open_desk(chosen, extra=extra, lazily=True) as desk:
            desk.end_scope("session:1")
            assert (ended, doors.entered) == ([], [])
            found = await desk.resolve("tracedesk://two/1", "stdio:1", None)
            assert found is not None
            assert found.body == "state of two"
            desk.end_scope("session:2")
            assert ended == [("session:2", "state of two")]
            assert doors.opened == ["two"]

    run(main())
