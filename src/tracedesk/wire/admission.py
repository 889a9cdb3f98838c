"""Places for calls in flight: one scope's calls wait for a place, and a bounded number of them may wait."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """How many calls may be in flight: in all, and of one scope."""

    total: int = 256
    per_scope: int = 64
    strangers: int = 128
    """Calls of callers without a token over HTTP, running or waiting: the owner always finds room."""
    waiting: int = 256
    """Calls that may wait for another one of their scope to end."""
    waiting_per_scope: int = 128


class Admission:
    """Admits calls in the order of their coming, scope by scope."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.running = 0
        self._strangers = 0
        self._by_scope: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def enter(self, scope: str, *, stranger: bool, until: float) -> int | None:
        """Wait for a place until the loop's time `until`; the limit that refuses the call, if one does."""
        limit = self._limit_reached(scope, stranger)
        if limit is not None:
            return limit
        self._strangers += stranger
        if self._has_place(scope):
            self.running += 1
            self._by_scope[scope] += 1
            return None
        try:
            async with asyncio.timeout_at(until):
                await self._turn(scope)
        except TimeoutError:
            self._strangers -= stranger
            return self.load.per_scope
        except BaseException:
            self._strangers -= stranger
            raise
        return None

    def leave(self, scope: str, *, stranger: bool) -> None:
        """Give a place back, or on to the call of its scope that has waited longest."""
        self._strangers -= stranger
        self._pass_on(scope)

    def _has_place(self, scope: str) -> bool:
        return self._by_scope[scope] < self.load.per_scope and scope not in self._waiting

    def _limit_reached(self, scope: str, stranger: bool) -> int | None:
        load = self.load
        if self.running >= load.total:
            return load.total
        if stranger and self._strangers >= load.strangers:
            return load.strangers
        if self._has_place(scope):
            return None
        own = len(self._waiting.get(scope, ()))
        is_full = own >= load.waiting_per_scope or self.waiting >= load.waiting
        return load.per_scope if is_full else None

    async def _turn(self, scope: str) -> None:
        """Wait until a place is passed on to this call."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(scope, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._forget(scope, place)
            else:  # the place came with the cancellation
                self._pass_on(scope)
            raise

    def _pass_on(self, scope: str) -> None:
        waiting = self._waiting.get(scope, ())
        place = next((place for place in waiting if not place.done()), None)
        if place is not None:
            self._forget(scope, place)
            place.set_result(None)
            return
        self.running -= 1
        self._by_scope[scope] -= 1
        if not self._by_scope[scope]:
            del self._by_scope[scope]

    def _forget(self, scope: str, place: asyncio.Future[None]) -> None:
        waiting = self._waiting[scope]
        waiting.remove(place)
        if not waiting:
            del self._waiting[scope]
