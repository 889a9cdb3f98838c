"""Queue positions of users' orders among the quantities that a recording shows.

A recording gives quantities by price, not orders. They rest in the book's own queues as parts without an
owner, and the risk-averse model moves users' orders among them: a trade at a price takes from the front of
its queue, and what leaves a level without a trade leaves from the end, as far as anything is behind.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from tracedesk.exchange.venue.engine import Engine, Half, Match, Resting

QueueModel = Literal["risk-averse", "none"]


class Recorded(Resting):
    """Part of a queue that a recording shows."""

    __slots__ = ()


class RecordedLiquidity:
    """Quantities that a recording shows, in the queues of a book."""

    __slots__ = ("_engine", "_shown", "is_queued")

    def __init__(self, engine: Engine, model: QueueModel = "risk-averse") -> None:
        self._engine = engine
        self.is_queued = model != "none"
        """False where users' orders are filled as if nobody was in front of them."""
        self._shown: dict[int, dict[int, int]] = {1: {}, -1: {}}
        """Quantities as recorded, by sign and key: also those that users have taken meanwhile."""

    def show(self, sign: int, price: int, quantity: int) -> None:
        """Set the quantity that the recording shows at a price.

        Only additions join the queue: what users took of the rest stays taken.
        """
        half, key, shown = self._engine.half(sign), -price if sign > 0 else price, self._shown[sign]
        change = quantity - shown.get(key, 0)
        if quantity:
            shown[key] = quantity
        elif change:
            del shown[key]
        if change > 0:
            _join(half, sign, key, change)
        elif change < 0:
            self._leave(half, key, -change)

    def _leave(self, half: Half, key: int, quantity: int) -> None:
        """Take recorded quantity from the end of a level, as far as users have left any there."""
        level = half.levels.get(key)
        for each in reversed(tuple(level.queue)) if level is not None else ():
            if isinstance(each, Recorded) and each.open:
                part = min(each.open, quantity)
                self._engine.reduce(each, part)
                quantity -= part
                if not quantity:
                    return

    def trade(self, sign: int, price: int, quantity: int) -> list[Match]:
        """Match a recorded trade with the queue at its price and return the users' orders in it.

        The recorded quantity that the trade passed joins the end: the recording itself takes it away.
        """
        half, key = self._engine.half(sign), -price if sign > 0 else price
        if not self.is_queued:
            self.step_back(sign, price)
        matches = self._engine.take_level(half, key, quantity)
        passed = sum(part for maker, _, part in matches if isinstance(maker, Recorded))
        if passed:
            _join(half, sign, key, passed)
        return [each for each in matches if not isinstance(each[0], Recorded)]

    def step_back(self, sign: int, price: int) -> None:
        """Put the recorded quantity at a price behind the users' orders."""
        self._sort(sign, price, recorded_first=False)

    def step_ahead(self, sign: int, price: int) -> None:
        """Put the recorded quantity at a price before the users' orders."""
        self._sort(sign, price, recorded_first=True)

    def _sort(self, sign: int, price: int, *, recorded_first: bool) -> None:
        level = self._engine.half(sign).levels.get(-price if sign > 0 else price)
        if level is not None and len(level.queue) > 1:
            level.queue = deque(
                sorted(level.queue, key=lambda each: isinstance(each, Recorded) is not recorded_first)
            )


def _join(half: Half, sign: int, key: int, quantity: int) -> None:
    level = half.levels.get(key)
    last = None if level is None else level.youngest()
    if level is None or not isinstance(last, Recorded):
        half.add(Recorded(0, sign, abs(key), quantity))
        return
    last.open += quantity
    level.quantity += quantity
    half.touched.add(key)
