"""The one door to the native part, `tracedesk_runs`; without it Python does the same, more slowly."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, cast

from tracedesk.backtest.model import EventType
from tracedesk.journal.sqlite import Connection, load
from tracedesk.primitives.natively import is_wanted

log = logging.getLogger(__name__)

VERSION: Final = "0.2.0"
"""Of the native part that makes the tables which this desk reads."""

_ENTRY: Final = "sqlite3_tracedeskruns_init"

GivenRow = tuple[int | None, int | None, bytes | None, bytes | None]
"""Severity, category, GUID and faults that an event was given."""


class Packed(Protocol):
    """Events that were taken to be written."""

    @property
    def count(self) -> int: ...
    @property
    def handle(self) -> int: ...
    @property
    def given(self) -> list[tuple[int, GivenRow]]: ...
    @property
    def tally(self) -> tuple[list[tuple[str, int]], int, int]: ...
    def give(self, given: list[tuple[int, GivenRow]]) -> None: ...
    def link(self, previous: bytes, first: int) -> bytes: ...


class Tape(Protocol):
    """Events that wait to be written."""

    @property
    def waiting(self) -> int: ...
    @property
    def next(self) -> int: ...
    def emit(self, kind: Any, time: Any, properties: Any, parent: Any) -> int: ...
    def push(self, kind: int, time: int, body: bytes, parent: int, given: GivenRow | None = None) -> int: ...
    def take(self, most: int) -> Packed: ...
    def stop(self) -> None: ...
    def turns(self, events: int) -> None: ...


class Projector(Protocol):
    """The tables of a run while they are made."""

    @property
    def handle(self) -> int: ...
    def begin(self, packed: Packed, first: int) -> None: ...


class Core(Protocol):
    """The module."""

    def Tape(self, event_type: type[EventType], full: int, most: int) -> Tape: ...
    def Projector(self, base: int, guids: bool, start_ns: int, end_ns: int) -> Projector: ...
    def pack(
        self,
        kinds: Sequence[int],
        times: Sequence[int],
        bodies: Sequence[bytes],
        parents: Sequence[int],
        given: Sequence[tuple[int, GivenRow]],
    ) -> Packed: ...
    @property
    def TABLES(self) -> str: ...
    @property
    def FIND_TEXT(self) -> str: ...


class _Library(NamedTuple):
    core: Core
    file: str


@cache
def installed() -> _Library | None:
    """What is installed, if this desk can use it; looked for once."""
    try:
        found: Any = importlib.import_module("tracedesk_runs.tracedesk_runs")
    except ModuleNotFoundError:
        return None
    if found.__version__ != VERSION:
        problem = (
            "tracedesk_runs %s is installed, and %s is needed: runs are recorded by Python; run `make setup`"
        )
        log.warning(problem, found.__version__, VERSION)
        return None
    return _Library(cast("Core", found), found.__file__)


def _library() -> _Library | None:
    return installed() if is_wanted() else None


def core() -> Core | None:
    """The native part, imported at its first use; None where it is not installed, or switched off."""
    library = _library()
    return None if library is None else library.core


def attach(connection: Connection) -> None:
    """Let a connection use the native functions, and read the packed facts of a run as the table `fact`."""
    library = _library()
    if library is not None:
        load(connection, library.file, _ENTRY)


def call(connection: Connection, function: str, *values: int) -> int:
    """Have a native function work on the connection, without the interpreter."""
    places = ",".join("?" * len(values))
    return next(iter(list(connection.execute(f"SELECT {function}({places})", values))))[0]
