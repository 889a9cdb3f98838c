"""Results about ended runs: computed once for all callers who ask at the same time, and kept in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

MOST_KEPT: Final = 256
"""Results in memory: a comparison uses up to five of each of its runs."""


@dataclass(slots=True, eq=False)
class _Work:
    task: asyncio.Task[Any]
    callers: int = 0


class RunCache:
    """Results by key; the one not asked for longest is forgotten first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._running: dict[Hashable, _Work] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """The result of the key. The computation is cancelled when all who wait for it are gone."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        work = self._running.get(key)
        if work is None:
            work = self._running[key] = _Work(asyncio.ensure_future(self._compute(key, compute)))
        work.callers += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.callers -= 1
            if not work.callers and not work.task.done():
                self._forget(key, work)
                work.task.cancel()

    async def close(self) -> None:
        """Cancel what is being computed."""
        tasks = [work.task for work in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _compute(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        try:
            result = self._kept[key] = await compute()
        finally:
            work = self._running.get(key)
            if work is not None and work.task is asyncio.current_task():
                del self._running[key]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return result

    def _forget(self, key: Hashable, work: _Work) -> None:
        if self._running.get(key) is work:
            del self._running[key]
