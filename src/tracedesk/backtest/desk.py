"""The shelf: the runs of one home, each read through its own few lanes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracedesk.backtest import runs
from tracedesk.backtest.lanes import Lanes
from tracedesk.backtest.query import Recording
from tracedesk.backtest.run_cache import RunCache
from tracedesk.catalog import CatalogError
from tracedesk.errors import ToolError
from tracedesk.home import Home
from tracedesk.journal import JournalError, StreamPruned, UnknownStream
from tracedesk.journal.sqlite import BusyError, InterruptError, SQLiteError
from tracedesk.primitives.time import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")
log = logging.getLogger(__name__)

MOST_OPEN: Final = 16
"""Run files held open at once; the one not asked for longest is closed first."""

READERS: Final = 4


@dataclass(slots=True)
class _Open:
    lanes: Lanes
    path: str
    file: tuple[int, int]
    users: int = 0


class Shelf:
    """What the backtest tools share: a way to read any run of the home, as of one moment."""

    def __init__(
        self,
        home: Home,
        *,
        max_bytes: int = 1 << 20,
        most_open: int = MOST_OPEN,
        clock: Clock | None = None,
    ) -> None:
        self.home = home
        self.clock = clock or SystemClock()
        self.max_bytes = max_bytes
        self._most = most_open
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._settling: asyncio.Future[Any] | None = None
        self._cache = RunCache()

    async def read(self, run: str, work: Callable[[Recording], T]) -> T:
        """`work` on the run as it is now, in a thread; the call's deadline interrupts it."""
        name = run.lower()
        with _told(name):
            held = self._take(name)
            try:
                return await held.lanes.run(work)
            finally:
                held.users -= 1
                self._close_spare(name, held)

    async def read_once(self, run: str, part: str, work: Callable[[Recording], T]) -> T:
        """The same; of a run that has ended the result is kept by the name of the part."""
        state = await self.read(run, _state_of)
        if state is None:
            return await self.read(run, work)
        return await self._cache.get((run.lower(), state, part), lambda: self.read(run, work))

    async def in_thread(self, work: Callable[[Home], T]) -> T:
        """`work` on the home itself, in a thread."""
        with _told(""):
            return await asyncio.to_thread(work, self.home)

    async def open(self, *, settle: bool) -> None:
        """Begin; runs whose recorder has died meanwhile are settled beside the first calls."""
        if settle:
            self._settling = asyncio.ensure_future(asyncio.to_thread(runs.settle, self.home))

    async def close(self) -> None:
        await self._cache.close()
        if self._settling is not None:
            await asyncio.wait([self._settling])
            if (problem := self._settling.exception()) is not None:
                log.warning("runs that were left unfinished could not be settled: %s", problem)
        for held in self._open.values():
            held.lanes.close()
        self._open.clear()

    def _take(self, run: str) -> _Open:
        held = self._open.get(run)
        path = str(self.home.run_file(run)) if held is None else held.path
        file = _identity(path, run)
        if held is not None and held.file != file:
            self._drop(run)
            held = None
        if held is None:
            held = self._open[run] = _Open(Lanes(Path(path), run, READERS), path, file)
        self._open.move_to_end(run)
        held.users += 1
        return held

    def _drop(self, run: str) -> None:
        """Forget a file that another has replaced; whoever still reads the old one finishes first."""
        held = self._open.pop(run)
        if not held.users:
            held.lanes.close()

    def _close_spare(self, run: str, used: _Open) -> None:
        if self._open.get(run) is not used and not used.users:
            used.lanes.close()
        if len(self._open) <= self._most:
            return
        spare = [run for run, held in self._open.items() if not held.users]
        for run in spare[: len(self._open) - self._most]:
            self._open.pop(run).lanes.close()


def _state_of(recording: Recording) -> tuple[str, bytes] | None:
    """The status and the chain's hash of a run that has ended and has its tables; None for any other."""
    if recording.is_running or not recording.is_indexed:
        return None
    return recording.status, recording.chain_head


def _identity(path: str, run: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise unknown(run) from None
    return found.st_dev, found.st_ino


def unknown(run: str, why: str = "No backtest run has this id") -> ToolError:
    message = f"runId: {why}. list_backtest_runs names the runs of this desk."
    return ToolError("RUN_NOT_FOUND", message, {"runId": run})


@contextmanager
def _told(run: str) -> Generator[None]:
    """What a store can fail with, under the contract's codes."""
    try:
        yield
    except InterruptError:
        message = "The reading was interrupted at its deadline. Narrow the time range, or ask for less."
        raise ToolError("QUERY_TIMEOUT", message, {"runId": run}) from None
    except StreamPruned as pruned:
        raise unknown(run, f"Its {pruned.manifest.get('events', 0)} events were pruned") from None
    except UnknownStream:
        raise unknown(run, "The file of this run holds no run yet") from None
    except (SQLiteError, JournalError, CatalogError) as problem:
        raise ToolError("DATABASE_ERROR", _advice(problem), _facts(run, problem)) from None


def _advice(problem: Exception) -> str:
    if isinstance(problem, BusyError) or "rebuilt" in str(problem):
        return "Another process holds the run's file. Try again."
    return "The run's file cannot be read. Run `tracedesk doctor`, or restore it from a backup."


def _facts(run: str, problem: Exception) -> dict[str, Any]:
    return {"runId": run, "kind": type(problem).__name__}
