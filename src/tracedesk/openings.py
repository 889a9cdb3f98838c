"""The toolsets of a desk as they open: each once, when it is first needed or in a quiet moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.primitives.redaction import Secrets, redact_text

QUIET: Final = 0.25
"""Seconds without a message, after the first ones, in which a desk opens what nobody has asked for."""
LATEST: Final = 1.0
"""Seconds of serving after which it no longer waits for quiet: toolsets have duties that nobody asks for,
such as settling what a crash left behind."""
PATIENCE: Final = 5.0
"""Seconds that what is opening just then gets to end when the desk closes."""

Context = AbstractAsyncContextManager[Any]


@dataclass(slots=True, eq=False)
class _Opening:
    """One toolset whose opening has begun, in a task of its own that also leaves it."""

    toolset: str
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    fault: BaseException | None = None
    task: asyncio.Task[None] = field(init=False)


class Openings:
    """What the toolsets have opened, and the way to what they have not opened yet."""

    def __init__(self, contexts: Mapping[str, Context], states: dict[str, Any], secrets: Secrets) -> None:
        self.states = states
        """What is open, by toolset."""
        self._contexts = contexts
        self._secrets = secrets
        self._begun: dict[str, _Opening] = {}
        self._open = AsyncExitStack()
        self._failed = asyncio.Event()
        self._told = False
        self._closing = False

    async def state(self, toolset: str) -> Any:
        """What a toolset opens; it is waited for. Raises `ToolError` when it cannot be opened.

        All who ask share one opening, and none who stops waiting ends it.
        """
        if toolset not in self.states and toolset in self._contexts:
            opening = await self._settled(toolset)
            if opening.fault is not None:
                raise self._refusal(opening) from opening.fault
        return self.states.get(toolset)

    async def all(self) -> None:
        """Open every toolset, one after the other; raises what an opening fails with."""
        for toolset in self._contexts:
            await self._settled(toolset)
            self._check()

    async def rest(self, messages: Callable[[], int]) -> None:
        """Open what nobody has asked for yet while a client is served; raises what any opening fails with.

        `messages` counts those that have passed.
        """
        latest = asyncio.get_running_loop().time() + LATEST
        for toolset in self._contexts:
            if toolset not in self.states:
                await self._lull(messages, latest)
                self._check()
                await self._settled(toolset)
        self._check()

    async def close(self) -> None:
        """Leave what is open, the last one first; what is just opening ends before that.

        Raises what an opening has failed with, where nothing else has raised it.
        """
        self._closing = True
        try:
            await self._settle()
        finally:
            await self._open.aclose()
        if not self._told:
            self._check()

    # --- one opening

    async def _settled(self, toolset: str) -> _Opening:
        opening = self._begun.get(toolset) or self._begin(toolset)
        await opening.settled.wait()
        return opening

    def _begin(self, toolset: str) -> _Opening:
        if self._closing:
            raise ToolError("INTERNAL_ERROR", "The desk is closing. Start it again.", {"toolset": toolset})
        opening = self._begun[toolset] = _Opening(toolset)
        opening.task = asyncio.get_running_loop().create_task(self._hold(opening))
        return opening

    async def _hold(self, opening: _Opening) -> None:
        """Enter a toolset's context, and leave it when told to: both belong into one task."""
        try:
            async with self._contexts[opening.toolset] as state:
                self.states[opening.toolset] = state
                self._open.push_async_callback(_left, opening)
                opening.settled.set()
                await opening.leave.wait()
        except BaseException as fault:
            if opening.settled.is_set():
                raise  # it did open: whoever closes hears of it
            opening.fault = fault
            opening.settled.set()
            self._failed.set()
            if not isinstance(fault, Exception):
                raise

    def _refusal(self, opening: _Opening) -> ToolError:
        kind = type(opening.fault).__name__
        cause = redact_text(str(opening.fault), self._secrets).rstrip(".") or kind
        message = (
            f"The toolset {opening.toolset} cannot be opened, so the desk stops: {cause}. Mend that, or ask "
            "`tracedesk doctor`, and start the desk again."
        )
        return ToolError("INTERNAL_ERROR", message, {"toolset": opening.toolset, "kind": kind})

    def _check(self) -> None:
        """Raise what the first opening that failed has failed with."""
        for opening in self._begun.values():
            if isinstance(opening.fault, Exception):  # and not broken off
                self._told = True
                raise opening.fault

    # --- waiting

    async def _lull(self, messages: Callable[[], int], latest: float) -> None:
        """Wait until the client pauses after its first messages; not beyond `latest`, or a failure."""
        now = asyncio.get_running_loop().time
        while (left := latest - now()) > 0 and not self._failed.is_set():
            before = messages()
            # Not wait_for: in Python 3.11 it can swallow the cancellation that ends this.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(QUIET, left)):
                    await self._failed.wait()
            if before and messages() == before:
                return
        await asyncio.sleep(0)  # between two openings, what has arrived is answered

    async def _settle(self) -> None:
        """Wait for what is opening; what takes too long is broken off."""
        opening = [each for each in self._begun.values() if not each.settled.is_set()]
        if not opening:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                for each in opening:
                    await each.settled.wait()
        for late in [each for each in opening if not each.settled.is_set()]:
            late.task.cancel()
            await late.settled.wait()  # and not the task: one that opens all the same waits to be left


async def _left(opening: _Opening) -> None:
    opening.leave.set()
    await opening.task
