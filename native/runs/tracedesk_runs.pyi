"""The native part of the backtest toolset."""

from collections.abc import Sequence
from typing import Any

__version__: str
__file__: str
TABLES: str
"""The statements that make the tables which only packed files have."""
FIND_TEXT: str
"""The query for the number of a text, by its kind and value."""

_Given = tuple[int | None, int | None, bytes | None, bytes | None]
"""Severity, category, GUID and faults."""

class Tape:
    """The events of one run that wait to be written."""

    def __init__(self, event_type: type[Any], full: int, most: int) -> None: ...
    def emit(self, kind: Any, time: Any, properties: Any, parent: Any) -> int: ...
    def push(self, kind: int, time: int, body: bytes, parent: int, given: _Given | None = None) -> int: ...
    def take(self, most: int) -> Packed: ...
    def stop(self) -> None: ...
    def turns(self, events: int) -> None: ...
    @property
    def waiting(self) -> int: ...
    @property
    def next(self) -> int: ...

class Packed:
    """Events that were taken to be written."""

    @property
    def count(self) -> int: ...
    @property
    def handle(self) -> int: ...
    @property
    def given(self) -> list[tuple[int, _Given]]: ...
    @property
    def tally(self) -> tuple[list[tuple[str, int]], int, int]: ...
    def give(self, given: list[tuple[int, _Given]]) -> None: ...
    def link(self, previous: bytes, first: int) -> bytes: ...

class Projector:
    """The tables of one run while they are made."""

    def __init__(self, base: int, guids: bool, start_ns: int, end_ns: int) -> None: ...
    @property
    def handle(self) -> int: ...
    def begin(self, packed: Packed, first: int) -> None: ...

def pack(
    kinds: Sequence[int],
    times: Sequence[int],
    bodies: Sequence[bytes],
    parents: Sequence[int],
    given: Sequence[tuple[int, _Given]],
) -> Packed: ...

# --- parts by themselves, for tests and measurements

class Zones:
    """The zones of one run; `base` is the row id of the seq 0. SQL finds them by the number `handle`."""

    def __init__(self, base: int) -> None: ...
    @property
    def handle(self) -> int: ...

class EventBatch:
    """Consecutive events of one run, by columns; `given` holds severity, category, GUID and faults."""

    handle: int
    """What SQL knows it by, as long as it lives."""

    def __init__(
        self,
        types: bytes,
        times: Sequence[int],
        parents: Sequence[int | None],
        bodies: Sequence[bytes],
        given: Sequence[_Given | None],
    ) -> None: ...

class TableProjector:
    """Writes the tables of one run: `SELECT runs_project(projector, batch, first)`, batch after batch."""

    handle: int

    def __init__(
        self,
        base: int,
        are_guids: bool,
        bounds: tuple[int, int],
        *,
        chunk: int = 4_096,
        paths: int = 64,
        known: int = 512,
        remembered: int = 1_048_576,
    ) -> None: ...
    def facts(self) -> list[tuple[str, list[int]]]:
        """The columns of `fact` for the last batch; 0 stands for nothing."""
