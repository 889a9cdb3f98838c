"""Fills in the vectors that are missing, in short steps, while nothing waits for them."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from tracedesk.codegraph.embed.chunks import Chunks
from tracedesk.codegraph.embed.vectors import Coverage, Stopped, Vectors
from tracedesk.primitives.supervision import SupervisedThread

log = logging.getLogger(__name__)

Progress = Callable[[int, int], object]
State = Literal["filled", "cancelled"]

_FIRST: Final = 16
_MOST: Final = 4096
_STEP_SECONDS: Final = 0.25
"""What one step should take: so long a cancel may wait."""
_NICE: Final = 10


@dataclass(frozen=True, slots=True)
class Filled:
    """How a filling ended, how many vectors it added, and what there is now."""

    state: State
    added: int
    coverage: Coverage

    def document(self) -> dict[str, Any]:
        return {"state": self.state, "added": self.added, **self.coverage.document()}


def fill(
    vectors: Vectors,
    chunks: Chunks,
    *,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Filled:
    """Embed and keep every chunk without a vector. What was kept before a cancel stays.

    Several may fill the same vectors at once: they take turns, and no text is embedded twice.
    """
    numbers = chunks.keys()
    state, added = _steps(vectors, chunks, numbers, progress, cancelled or (lambda: False))
    return Filled(state, added, vectors.coverage(list(numbers)))


def _steps(
    vectors: Vectors,
    chunks: Chunks,
    numbers: dict[bytes, int],
    progress: Progress | None,
    cancelled: Callable[[], bool],
) -> tuple[State, int]:
    missing = vectors.missing(list(numbers))
    at, added, size = 0, 0, _FIRST
    while at < len(missing):
        if cancelled():
            return "cancelled", added
        some = missing[at : at + size]
        try:
            with vectors.filling(cancelled):
                began = time.monotonic()
                # Another may have embedded some of them since.
                left = vectors.missing(some)
                added += _step(vectors, left, chunks.texts([numbers[key] for key in left]), cancelled)
                seconds = time.monotonic() - began
        except Stopped:
            return "cancelled", added
        at += len(some)
        if progress is not None:
            progress(at, len(missing))
        size = _next_size(size, seconds)
    return "filled", added


def _step(
    vectors: Vectors, keys: Sequence[bytes], texts: Sequence[str | None], cancelled: Callable[[], bool]
) -> int:
    known = [(key, text) for key, text in zip(keys, texts, strict=True) if text is not None]
    if not known:
        return 0
    embedded = vectors.embedder.embed([text for _, text in known])
    return vectors.put([key for key, _ in known], embedded, cancelled)


def _next_size(size: int, seconds: float) -> int:
    if seconds > _STEP_SECONDS:
        return max(_FIRST, size // 2)
    return min(_MOST, size * 2) if seconds < _STEP_SECONDS / 2 else size


At = Callable[[str, int, int], object]
"""Told the model that fills, how many chunks are done, and of how many."""

Filling = Callable[[str, At, Callable[[], bool]], object]
"""Fills the vectors of a project, until it is done or cancelled."""


def here(models: Sequence[Vectors], chunks: Callable[[str], Chunks]) -> Filling:
    """Fills in the thread that asks, model after model."""

    def work(root: str, at: At, cancelled: Callable[[], bool]) -> None:
        for vectors in models:
            fill(vectors, chunks(root), progress=partial(at, vectors.model), cancelled=cancelled)

    return work


class Filler:
    """A thread of low priority that has the vectors filled of the projects it is told of."""

    def __init__(self, filling: Filling) -> None:
        self._filling = filling
        self._change = threading.Condition()
        self._waiting: dict[str, None] = {}
        self._now: dict[str, tuple[str, int, int]] = {}
        self._stopped = False
        self._thread = SupervisedThread("vector filling", self._work)

    def ask(self, root: str) -> None:
        """Fill this project's vectors soon; asking twice is asking once."""
        with self._change:
            if self._stopped:
                return
            self._waiting[root] = None
            self._thread.start()
            self._change.notify_all()

    def status(self, root: str) -> dict[str, Any]:
        """Whether the project waits, is being filled (model, done, total) or neither."""
        with self._change:
            if root in self._now:
                model, done, total = self._now[root]
                return {"state": "filling", "model": model, "done": done, "total": total}
            return {"state": "waiting" if root in self._waiting else "idle"}

    def wait(self, timeout: float | None = None) -> bool:
        """Until nothing waits and nothing is being filled; False when that took longer than allowed."""
        with self._change:
            return self._change.wait_for(lambda: not self._waiting and not self._now, timeout)

    def close(self) -> None:
        """Stop after the step that runs; what another process does is not waited for."""
        with self._change:
            self._stopped = True
            self._waiting.clear()
            self._change.notify_all()
        self._thread.join()
        self._thread.forget()

    def _work(self) -> None:
        _give_way()
        while (root := self._next()) is not None:
            try:
                self._fill(root)
                self._thread.well()
            except Exception as problem:
                log.error("the vectors of %s were not filled", root)
                self._thread.report(problem)
            finally:
                self._done(root)

    def _next(self) -> str | None:
        with self._change:
            self._change.wait_for(lambda: self._stopped or self._waiting)
            if self._stopped:
                return None
            root = next(iter(self._waiting))
            del self._waiting[root]
            self._now[root] = ("", 0, 0)
            return root

    def _fill(self, root: str) -> None:
        self._filling(root, partial(self._at, root), lambda: self._stopped)

    def _at(self, root: str, model: str, done: int, total: int) -> None:
        with self._change:
            self._now[root] = (model, done, total)

    def _done(self, root: str) -> None:
        with self._change:
            self._now.pop(root, None)
            self._change.notify_all()


def _give_way() -> None:
    """Let everything else go first; only Linux has priorities of single threads."""
    if sys.platform == "linux":
        with suppress(OSError):  # slower for others, but it works
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
