"""A process for each suite, one after the other: forked from the one that holds the compiled project."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from tracedesk.errors import ToolError
from tracedesk.fuzz import native
from tracedesk.fuzz.abi import members
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.limits import Budget
from tracedesk.fuzz.project import Contract, Project
from tracedesk.fuzz.suites import Outcome, Runner, kind_of

LATE: Final = 1.5
"""Seconds after the end of its time in which a suite's process reports what it found."""
_CHUNK: Final = 1 << 16


class Interrupts:
    """Notes Ctrl-C and SIGTERM while the context lasts, for who waits for something else too.

    An exception, as Python raises for Ctrl-C, is lost where a fork calls its hooks.
    """

    def __init__(self) -> None:
        self.came = False
        self.reader, self._writer = os.pipe()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *fault: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.reader)
        os.close(self._writer)

    def _note(self, *_: object) -> None:
        self.came = True
        os.write(self._writer, b"x")


@contextmanager
def until(budget: Budget, phase: str) -> Generator[None]:
    """End what this process does itself when the time of the run is over, with the refusal of the budget."""
    left = budget.left()
    if left is None:
        yield
        return

    def stop(*_: object) -> None:
        raise budget.time_over(phase)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, slots=True)
class Plan:
    """The suites of a project that are run in turn, each within the time that is left."""

    project: Project
    suites: tuple[Contract, ...]
    config: Config
    budget: Budget
    interrupts: Interrupts

    def outcomes(self) -> Generator[Outcome]:
        """Each suite's outcome as soon as it is known, until an interrupt comes."""
        for contract in self.suites:
            outcome = None if self.interrupts.came else self._outcome(contract)
            if outcome is None:
                return
            yield outcome

    def _outcome(self, contract: Contract) -> Outcome | None:
        """One suite's outcome; none when it was interrupted."""
        budget = self._share()
        starter = os.getpid()
        runner = Runner(self.project, contract, self.config, native.engine(), budget)
        runner.ended = lambda: os.getppid() != starter
        if budget.is_over():
            return _undecided(runner, "the time of the run was over before this suite began")
        began = monotonic()
        with _Child(lambda: runner.run().document()) as child:
            said = child.answer((budget.left() or 0.0) + LATE, self.interrupts)
        if said is None:
            return None
        if isinstance(said, bytes):
            return Outcome.of(native.read(said))
        return _undecided(runner, said, monotonic() - began)

    def _share(self) -> Budget:
        left = self.budget.left()
        seconds = self.budget.limits.suite_seconds
        most = seconds if left is None else min(seconds, left)
        return Budget(self.budget.limits, max(0, int(most)))


def _undecided(runner: Runner, reason: str, seconds: float = 0.0) -> Outcome:
    tests = [each for each in members("", runner.contract) if kind_of(each)]
    rows = [
        {"name": each.signature, "kind": kind_of(each), "calls": 0, "status": "undecided", "reason": reason}
        for each in tests
    ]
    return Outcome(runner.name, tuple(rows), seconds)


class _Child:
    """A forked process that computes one document; leaving the context ends it."""

    def __init__(self, work: Callable[[], dict[str, object]]) -> None:
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reader)
            _serve(work, writer)
        os.close(writer)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *fault: object) -> None:
        os.close(self._reader)
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def answer(self, seconds: float, interrupts: Interrupts) -> bytes | str | None:
        """The document, or why there is none; None when an interrupt comes first."""
        end = monotonic() + seconds
        parts: list[bytes] = []
        while (left := end - monotonic()) > 0:
            ready, _, _ = select.select([self._reader, interrupts.reader], [], [], left)
            if interrupts.came:
                return None
            if not ready:
                break
            chunk = os.read(self._reader, _CHUNK)
            if not chunk:
                return self._ended(b"".join(parts))
            parts.append(chunk)
        return f"the suite did not end within {seconds:.0f} s"

    def _ended(self, said: bytes) -> bytes | str:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return said
        if code > 0:
            return said.decode(errors="replace") or "the suite's process failed"
        return (
            f"the suite's process was ended by {signal.Signals(-code).name}, as it is at its limit of memory"
        )


def _serve(work: Callable[[], dict[str, object]], writer: int) -> None:
    """Compute and write the document, and leave; Ctrl-C is the parent's."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        said, code = _computed(work)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(said)
    finally:
        os._exit(code)


def _computed(work: Callable[[], dict[str, object]]) -> tuple[bytes, int]:
    try:
        return native.text(work()).encode(), 0
    except MemoryError:
        return b"the suite reached its limit of memory (memory_mb in [fuzz.limits])", 1
    except ToolError as fault:
        return fault.message.encode(), 1
    except Exception as fault:
        return f"the suite's process failed: {type(fault).__name__}: {fault}".encode(), 1
