"""Readers in threads: a bounded number per file, interrupted when the call that uses one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from tracedesk.journal.read import Reader


class Interruptible(Protocol):
    """Something that reads a file and can be told to stop."""

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


T = TypeVar("T")
R = TypeVar("R", bound=Interruptible)


_AGAIN_SECONDS: Final = 0.01


class Pool(Generic[R]):
    """At most `size` reads of one file at once; readers are opened when first needed."""

    def __init__(self, path: Path, open: Callable[[Path], R], size: int = 4) -> None:
        self.path = path
        self._open = open
        self._free: list[R] = []
        self._places = asyncio.Semaphore(size)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"read-{path.stem}")

    async def run(self, work: Callable[[R], T]) -> T:
        """`work` on a reader of its own, in a thread. Cancelling the caller interrupts the read."""
        async with self._places:
            reader = self._free.pop() if self._free else await self._in_thread(self._open, self.path)
            try:
                return await self._interruptibly(work, reader)
            finally:
                self._free.append(reader)

    async def _interruptibly(self, work: Callable[[R], T], reader: R) -> T:
        running = asyncio.ensure_future(self._in_thread(work, reader))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await _interrupt(reader, running)
            raise

    def _in_thread(self, work: Callable[..., T], *args: object) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for reader in self._free:
            reader.close()
        self._free.clear()


class ReadPool(Pool[Reader]):
    """The readers of one journal file."""

    def __init__(self, path: Path, size: int = 4) -> None:
        super().__init__(path, Reader, size)


async def _interrupt(reader: Interruptible, running: asyncio.Future[Any]) -> None:
    """End a read. An interrupt between two statements has no effect, so it is repeated until one has."""
    while not running.done():
        reader.interrupt()
        await asyncio.wait({running}, timeout=_AGAIN_SECONDS)
    running.exception()
