"""A call that waits for work which must come to its own end: it is answered in time, and the work goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from tracedesk.errors import ToolError
from tracedesk.jobs import whatever_happens

if TYPE_CHECKING:
    from tracedesk.exchange.orders.ledger import Order

log = logging.getLogger(__name__)
T = TypeVar("T")


class Errand:
    """What a call and the work that it waits for tell each other."""

    def __init__(self) -> None:
        self.begun = False
        """Set before anything is written down or sent: from then on the work is not cut off."""
        self.order: Order | None = None
        """The order, once it is written down."""
        self._lock = threading.Lock()
        self._first: Literal["call", "work"] | None = None

    @property
    def is_left(self) -> bool:
        """Whether the call was answered without the work's outcome."""
        return self._first == "call"

    def conclude(self) -> bool:
        """The work writes its outcome down now; False where the call did not wait for it. In any thread."""
        return self._claim("work")

    def leave(self) -> bool:
        """The call is answered now; False where the work is just writing down what the answer must be."""
        return self._claim("call")

    def _claim(self, by: Literal["call", "work"]) -> bool:
        with self._lock:
            self._first = self._first or by
            return self._first == by


async def answered(
    work: asyncio.Task[T],
    errand: Errand,
    until: float,
    *,
    late: Callable[[], ToolError],
    unsent: Callable[[], ToolError],
) -> T:
    """What the work comes to; at `until`, on the loop's clock, `late` is raised and the work goes on.

    Work that has not begun by then, or when the caller gives up, is ended and has done nothing.
    """
    while not work.done():
        left = _time_left(until)
        if left <= 0:
            break
        try:
            await asyncio.wait({work}, timeout=left)
        except asyncio.CancelledError:
            if not errand.begun and await _is_ended(work):
                raise
    if work.done():
        return work.result()
    if not errand.begun and await _is_ended(work):
        raise unsent()
    if not work.done() and errand.leave():
        work.add_done_callback(_forgotten)
        raise late()
    return await whatever_happens(work)


def _time_left(until: float) -> float:
    return until - asyncio.get_running_loop().time()


async def _is_ended(work: asyncio.Task[T]) -> bool:
    """Cut work off that has not begun; False where it came to an end of its own."""
    work.cancel()
    await whatever_happens(asyncio.wait({work}))
    return work.cancelled()


def _forgotten(work: asyncio.Task[T]) -> None:
    """What work came to that nobody waits for is in the ledger; only what is not goes to the log."""
    fault = None if work.cancelled() else work.exception()
    if fault is not None and not isinstance(fault, ToolError):
        log.error("an order's work ended by %s after its call was answered", type(fault).__name__)
