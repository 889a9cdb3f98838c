"""Guard between a recording and its engine: no fault of the recording reaches the code that runs the engine.

Each function that an engine calls is `guarded`. The first fault ends the recording of that run: it becomes a
`RiskEvent` of the run, the run is sealed as crashed with the reason, and the engine goes on unrecorded. An
indicator that cannot be read is left out alone. Only an `Exception` of the recording is a fault. An interrupt
passes unchanged, and so does an error of the user's code: the guard is never around the engine's functions.
"""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from tracedesk.backtest.adapters.tape import Keeper, Sink, Tape

FAULT: Final = "RecorderFault"
"""Risk type of a fault of the recording."""
NOT_RECORDED: Final = "RunNotRecorded"
"""Risk type of an engine's run that was left out as a whole."""
STOPPED: Final = "Recording stopped"
LEFT_OUT: Final = "Indicator left out"
SKIPPED: Final = "Run left out"

_LONGEST: Final = 1_000
_SECOND: Final = "this recorder has a run of an engine already; give each run a Recorder of its own"

log = logging.getLogger(__name__)


class Unrecordable(ValueError):
    """Bad input of the caller who records, with its remedy; raised before the engine runs."""


class Guard:
    """State of one run's recording: open until its first fault."""

    def __init__(self, sink: Sink) -> None:
        self.tape: Final = Tape(sink)
        self.is_open = True
        self._sink = sink
        self._undo: list[Callable[[], object]] = []

    def claim(self) -> bool:
        """Take the sink for this run; a second run in one sink would make one false account of two."""
        first = self._sink.claim(self.tape) if isinstance(self._sink, Keeper) else self.tape
        if first is not self.tape:
            if isinstance(first, Tape):
                self.tape.latest = first.latest
            self.leave_run_out(_SECOND)
        return self.is_open

    def leave_run_out(self, reason: str) -> None:
        """Record nothing of this run but the reason."""
        self.is_open = False
        self._note(NOT_RECORDED, reason, SKIPPED)

    def stop(self, fault: Exception) -> None:
        """End the recording because of a fault. What was recorded before is true; the rest is missing."""
        self.is_open = False
        message = _message(fault)
        self._note(FAULT, message, STOPPED, place=_place(fault))
        self.mark_incomplete(f"{STOPPED}: {message}")

    def mark_incomplete(self, reason: str) -> None:
        """Have the run sealed as crashed, because events are missing."""
        if isinstance(self._sink, Keeper):
            self._sink.mark_incomplete(reason)

    def leave_out(self, indicator: str, fault: Exception) -> None:
        """Record that one indicator cannot be read, and go on without it."""
        self._note(FAULT, _message(fault), LEFT_OUT, place=_place(fault), indicator=indicator)

    def at_end(self, act: Callable[[], object]) -> None:
        """Keep an act that takes something of the recording out of the engine again."""
        self._undo.append(act)

    def leave(self) -> None:
        """Leave the engine as it would be without the recording, the latest change first."""
        while self._undo:
            self.attempt(self._undo.pop())

    def attempt(self, act: Callable[[], object]) -> None:
        """Do something for the recording, even after its end: leaving the engine must not depend on it."""
        try:
            act()
        except Unrecordable:
            raise
        except Exception as fault:
            if self.is_open:
                self.stop(fault)
            else:
                log.debug("a recording that has stopped could not clean up", exc_info=fault)

    def _note(
        self, kind: str, message: str, action: str, *, place: str | None = None, indicator: str | None = None
    ) -> None:
        log.warning("%s: %s", action, message)
        try:
            self.tape.fault(kind, message, action, place, indicator)
        except Exception as second:
            # A full disk or a closed recorder: the log has the first fault, and the run's seal the second.
            log.warning("the run could not take the event of it: %s", _message(second))


class Guarded(Protocol):
    """An object whose methods an engine calls."""

    @property
    def guard(self) -> Guard: ...


T = TypeVar("T", bound=Guarded)
P = ParamSpec("P")


def guarded(act: Callable[Concatenate[T, P], None]) -> Callable[Concatenate[T, P], None]:
    """Keep the faults of a method from its caller, and skip the method once the recording has stopped."""

    @functools.wraps(act)
    def safely(self: T, /, *given: P.args, **named: P.kwargs) -> None:
        guard = self.guard
        if guard.is_open:
            try:
                act(self, *given, **named)
            except Exception as fault:
                guard.stop(fault)

    return safely


def _message(fault: Exception) -> str:
    return "".join(traceback.format_exception_only(fault)).strip()[:_LONGEST]


def _place(fault: Exception) -> str | None:
    """The file, line and function that raised a fault."""
    frames = list(traceback.walk_tb(fault.__traceback__))
    if not frames:
        return None
    frame, line = frames[-1]
    return f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
