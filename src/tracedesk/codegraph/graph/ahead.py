"""Items that a thread makes while those before them are used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

Make = Callable[[Callable[[], None]], Iterator[Item]]
"""Makes items; what it is given raises when nobody uses them any more, which it may ask at any time."""

_AHEAD: Final = 4
"""Items that wait at most, so memory stays bounded."""


class _End:
    """Nothing follows, or what went wrong."""

    def __init__(self, problem: BaseException | None = None) -> None:
        self.problem = problem


class _Dropped(Exception):
    """Nobody uses the items any more."""


class _Maker(Generic[Item]):
    def __init__(self, make: Make[Item]) -> None:
        self._make = make
        self._made: Queue[Item | _End] = Queue(_AHEAD)
        self._is_dropped = False
        self._thread = threading.Thread(target=self._run, name="codegraph-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self._make(self._check):
                self._put(item)
            self._put(_End())
        except _Dropped:
            pass
        except BaseException as problem:
            self._made.put(_End(problem))

    def _put(self, item: Item | _End) -> None:
        self._check()
        self._made.put(item)

    def _check(self) -> None:
        if self._is_dropped:
            raise _Dropped

    def items(self) -> Generator[Item]:
        while not isinstance(item := self._made.get(), _End):
            yield item
        if item.problem is not None:
            raise item.problem

    def drop(self) -> None:
        """Have it end where it asks next, at the latest with the item it makes now, and wait for that."""
        self._is_dropped = True
        while self._thread.is_alive():
            while not self._made.empty():
                self._made.get()
            self._thread.join(0.01)


@contextmanager
def made_ahead(make: Make[Item]) -> Generator[Iterator[Item]]:
    """What `make` gives, made in a thread of its own that has ended when this does."""
    maker = _Maker(make)
    try:
        yield maker.items()
    finally:
        maker.drop()
