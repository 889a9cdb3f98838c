"""Answers that are costly to make: made once for all who ask at the same time, and kept for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

from tracedesk.primitives.time import Clock


@dataclass(slots=True, eq=False)
class Made:
    """An answer that is being made or was, and when it was begun."""

    answer: asyncio.Task[Any]
    begun: float


class Memo:
    """The answers of the last moments, by what was asked."""

    def __init__(self, clock: Clock, *, fresh: float, kept: float) -> None:
        self._clock = clock
        self._fresh = fresh
        self._kept = kept
        self._made: dict[Hashable, Made] = {}
        self._last: dict[Hashable, tuple[Any, float]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Any:
        """A fresh answer; several who ask at once wait for the same one."""
        return await asyncio.shield(self._begun(key, make))

    async def soon(self, key: Hashable, make: Callable[[], Awaitable[Any]], seconds: float) -> Any | None:
        """A fresh answer if it comes so soon, else the last one; None while there is none."""
        task = self._begun(key, make)
        await asyncio.wait((task,), timeout=seconds)
        if task.done():
            return task.result()
        known = self._last.get(key)
        return None if known is None or known[1] + self._kept < self._clock.monotonic() else known[0]

    def _begun(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        now = self._clock.monotonic()
        self._forget(now)
        made = self._made.get(key)
        if made is None or (made.answer.done() and not self._is_fresh(made, now)):
            made = Made(asyncio.get_running_loop().create_task(self._kept_of(key, make)), now)
            self._made[key] = made
        return made.answer

    def _is_fresh(self, made: Made, now: float) -> bool:
        failed = made.answer.cancelled() or made.answer.exception() is not None
        return not failed and now - made.begun < self._fresh

    async def _kept_of(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Any:
        answer = await make()
        self._last[key] = (answer, self._clock.monotonic())
        return answer

    def _forget(self, now: float) -> None:
        """Let go of what is too old to be told."""
        for key in [k for k, (_, made) in self._last.items() if made + self._kept < now]:
            del self._last[key]
        for key in [k for k, m in self._made.items() if m.answer.done() and m.begun + self._kept < now]:
            del self._made[key]

    async def close(self) -> None:
        tasks = [made.answer for made in self._made.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
