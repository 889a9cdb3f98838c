"""Rows pass through an index by the hundred thousand and make no cycles; looking for some takes its time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = 50_000
"""New things between two looks at them, while rows pass through."""


class _Threshold:
    """The interpreter's own, while anyone asks for fewer collections; with the last one it is as before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._before = (0, 0, 0)

    def raised(self) -> None:
        with self._lock:
            self._askers += 1
            if self._askers == 1:
                self._before = gc.get_threshold()
                young = self._before[0]
                # None at all were asked for where it is nought.
                gc.set_threshold(young and max(_YOUNG, young), *self._before[1:])

    def restored(self) -> None:
        with self._lock:
            self._askers -= 1
            if not self._askers:
                gc.set_threshold(*self._before)


_THRESHOLD: Final = _Threshold()


@contextmanager
def fewer_collections() -> Generator[None]:
    """Have cycles looked for seldom, in the whole process; they still are."""
    _THRESHOLD.raised()
    try:
        yield
    finally:
        _THRESHOLD.restored()
