"""Keeping a line open: again after a cut, and another one in time before the venue ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, Protocol

from tracedesk.exchange.client.line import CannotOpen, Line
from tracedesk.exchange.client.waiting import ended, within
from tracedesk.primitives.supervision import Supervised, is_ending
from tracedesk.primitives.time import Clock

log = logging.getLogger(__name__)

LIFE: Final = 23.5 * 3600
"""Seconds after which a line is replaced; the venue ends it after 24 hours."""
READY: Final = 15.0
"""Seconds for what must be said first on a new line."""
_FIRST: Final = 0.5
_LONGEST: Final = 30.0
_BROKEN: Final = 5
"""A failure inside is followed by the pause of so many failures outside."""
_STEADY: Final = 30.0
"""Seconds that a line must have lasted for the next pause to be short again."""


class Owner(Protocol):
    """Who uses the line that is kept."""

    async def prepare(self, line: Line) -> None:
        """Say what must be said first; raises `CannotOpen` where it was not accepted."""
        ...

    def begin(self, line: Line) -> None:
        """`line` is the one in use, and nothing was before it."""
        ...

    async def joined(self, old: Line, new: Line) -> None:
        """Return once `new` can take over from `old`, which is still heard."""
        ...

    def switch(self, old: Line, new: Line) -> None:
        """`new` takes over."""
        ...

    def drop(self, line: Line) -> None:
        """A line that was prepared, or was to be, is not used."""
        ...

    def lost(self, reason: str) -> None:
        """The line in use is gone and there is no other yet."""
        ...


class Keeper:
    """Keeps one line in use for its owner, from `start` to `stop`."""

    def __init__(
        self,
        owner: Owner,
        connect: Callable[[], Awaitable[Line]],
        clock: Clock,
        random: Random,
        *,
        life: float = LIFE,
        hold: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._owner = owner
        self._supervised = Supervised("a connection's owner")
        self._connect = connect
        self._clock = clock
        self._random = random
        self._life = life
        self._hold = hold
        self._renew = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lines: set[Line] = set()
        self.reconnects = 0
        self.rollovers = 0

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Close the line; nothing is told any more."""
        if self._task is not None:
            await ended(self._task)
        self._supervised.forget()
        await self._retire_all()

    def renew(self) -> None:
        """Replace the line soon: the venue has said that it will end it."""
        self._renew.set()

    # --- inside

    async def _run(self) -> None:
        while True:
            try:
                await self._keep()
            except BaseException as problem:
                if is_ending(problem):
                    raise
                self._supervised.report(problem)
                self._owner.lost("the client failed inside; its log has the cause")
                await self._retire_all()
                await self._pause(_BROKEN)

    async def _keep(self) -> None:
        failures = 0
        while True:
            line = await self._first(failures)
            began = self._clock.monotonic()
            self._renew.clear()
            self._owner.begin(line)
            self._supervised.well()
            line = await self._serve(line)
            self._owner.lost(line.gone.result())
            await self._retire(line)
            self.reconnects += 1
            failures = 1 if self._clock.monotonic() - began >= _STEADY else failures + 1
            await self._pause(failures)

    async def _first(self, failures: int) -> Line:
        """A line, however long it takes."""
        while True:
            try:
                return await self._open()
            except CannotOpen as fault:
                self._owner.lost(str(fault))
                failures += 1
                await self._pause(failures)

    async def _serve(self, line: Line) -> Line:
        """Use the line and those that replace it, until one is gone; returns that one."""
        failures = 0
        while not line.gone.done():
            if not self._renew.is_set():
                await self._first_of(line.gone, self._renew.wait(), self._clock.sleep_until(self._due(line)))
                self._renew.set()
                continue
            try:
                line = await self._replaced(line)
                failures = 0
            except CannotOpen:
                failures += 1
                await self._first_of(line.gone, self._pause(failures))
        return line

    async def _replaced(self, old: Line) -> Line:
        """The line that takes over from `old`, or `old` itself where it is gone before that."""
        opening = asyncio.ensure_future(self._open())
        try:
            await self._first_of(old.gone, opening)
        finally:
            if not opening.done():
                await ended(opening)
        if opening.cancelled():
            return old
        new = opening.result()
        await self._first_of(old.gone, new.gone, self._owner.joined(old, new))
        if new.gone.done():
            await self._retire(new)
            raise CannotOpen(new.gone.result())
        self._renew.clear()
        self.rollovers += 1
        self._owner.switch(old, new)
        await self._retire(old)
        return new

    def _due(self, line: Line) -> float:
        return line.opened + self._life

    async def _open(self) -> Line:
        """A line on which everything is said that must be."""
        line = await self._connect()
        self._lines.add(line)
        try:
            await within(self._clock, READY, self._prepared(line))
        except TimeoutError:
            await self._retire(line)
            raise CannotOpen("the venue did not confirm in time") from None
        except BaseException:
            await self._retire(line)
            raise
        return line

    async def _prepared(self, line: Line) -> None:
        preparing = asyncio.ensure_future(self._owner.prepare(line))
        try:
            await asyncio.wait({preparing, line.gone}, return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                raise CannotOpen(line.gone.result())
            preparing.result()
        finally:
            await ended(preparing)

    async def _retire(self, line: Line) -> None:
        self._owner.drop(line)
        await line.close()
        self._lines.discard(line)

    async def _retire_all(self) -> None:
        for line in tuple(self._lines):
            await self._retire(line)

    async def _pause(self, failures: int) -> None:
        """Wait longer after each failure, never twice the same, and as long as the venue wants."""
        longest = min(_LONGEST, _FIRST * 2 ** min(failures - 1, 10))
        seconds = max(longest * self._random.uniform(0.5, 1.0), self._hold())
        await self._clock.sleep_until(self._clock.monotonic() + seconds)

    async def _first_of(self, gone: asyncio.Future[str], *others: Awaitable[object]) -> None:
        """Return when one of them is over; what was begun for this is ended, `gone` is not."""
        tasks = [asyncio.ensure_future(each) for each in others]
        mine = [task for task, given in zip(tasks, others, strict=True) if task is not given]
        try:
            await asyncio.wait({gone, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(*mine)
