"""From the inbox into the trace: every drop once, in order, and none that stops the others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tracedesk.codegraph.capture.bounds import folder
from tracedesk.codegraph.capture.hooks import Meaning, Newest, Turns, meaning
from tracedesk.codegraph.capture.inbox import Inbox, shown_name
from tracedesk.codegraph.etg.model import Logged, NewEvent
from tracedesk.errors import ToolError
from tracedesk.journal.model import BadEntry, JournalError
from tracedesk.journal.sqlite import SQLiteError

log = logging.getLogger(__name__)

BATCH: Final = 256
"""Drops that go into the trace in one transaction."""
MOST_BATCHES: Final = 64
"""Batches of one run: as many as the inbox may hold, four times over."""

ProjectOf = Callable[[str], str | None]
"""`(a working folder) -> the indexed project that holds it`."""
VersionOf = Callable[[str | None], str | None]


class Trace(Protocol):
    """Where events go."""

    def log_many(self, events: Sequence[NewEvent]) -> Sequence[Logged]: ...


@dataclass(slots=True)
class Drained:
    """What one run did."""

    drops: int = 0
    logged: int = 0
    duplicates: int = 0
    aside: int = 0
    lost: Counter[str] = field(default_factory=Counter[str])
    edited: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By project, the files that clients changed."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A file of the inbox and what it means."""

    path: Path
    root: str | None
    meaning: Meaning


class Drain:
    """Takes drops out of an inbox and logs what they mean."""

    def __init__(
        self, inbox: Inbox, trace: Trace, newest: Newest, project_of: ProjectOf, version_of: VersionOf
    ) -> None:
        self._inbox = inbox
        self._trace = trace
        self._newest = newest
        self._project_of = project_of
        self._version_of = version_of
        self._stuck: set[str] = set()
        """Names of files that could not be put out of the way: they are passed over."""

    def run(self) -> Drained:
        """Take everything that waits; nothing when another desk is doing so."""
        done = Drained()
        with self._inbox.alone() as mine:
            if mine:
                self._inbox.tidy()
                done.lost = self._inbox.take_losses()
                # Sessions are looked up anew each time: another desk may have drained in between.
                turns = Turns(self._newest)
                for _ in range(MOST_BATCHES):
                    if not self._batch(turns, done):
                        break
        if done.lost:
            log.warning("hooks lost %d drops: %s", done.lost.total(), dict(done.lost))
        return done

    def _batch(self, turns: Turns, done: Drained) -> bool:
        """One batch into the trace; False when nothing was left to take."""
        paths = self._inbox.waiting(BATCH, self._stuck)
        taken = [*self._read(paths, turns, done)]
        self._store(taken, done)
        done.drops += len(paths)
        return len(paths) == BATCH

    def _read(self, paths: Sequence[Path], turns: Turns, done: Drained) -> Iterator[_Taken]:
        for path in paths:
            try:
                drop = self._inbox.read(path)
                cwd = folder(drop.hook.get("cwd"))
                # A folder that is not in an indexed project is a project of its own.
                root = None if cwd is None else self._project_of(cwd) or cwd
                yield _Taken(path, root, meaning(drop, turns, root, self._version_of(root)))
            except FileNotFoundError:
                continue
            except Exception as fault:
                if _is_the_desks(fault):
                    raise
                self._set_aside(path, _reason(fault), done)

    def _store(self, taken: Sequence[_Taken], done: Drained) -> None:
        """Log a batch; when the trace refuses it, each drop by itself, so that only the culprit is out."""
        try:
            self._log(taken, done)
        except Exception as fault:
            if _is_the_desks(fault):
                raise
            if len(taken) > 1:
                for one in taken:
                    self._store([one], done)
            else:
                self._set_aside(taken[0].path, _reason(fault), done)

    def _log(self, taken: Sequence[_Taken], done: Drained) -> None:
        events = [event for one in taken for event in one.meaning.events]
        told = self._trace.log_many(events) if events else ()
        for one in taken:
            if one.root is not None and one.meaning.edited:
                done.edited.setdefault(one.root, set()).update(one.meaning.edited)
            self._out_of_the_way(one.path, self._inbox.remove)
        done.logged += sum(not each.duplicate for each in told)
        done.duplicates += sum(each.duplicate for each in told)

    def _set_aside(self, path: Path, reason: str, done: Drained) -> None:
        log.warning("the drop %s was set aside: %s", shown_name(path), reason)
        self._out_of_the_way(path, lambda each: self._inbox.set_aside(each, reason))
        done.aside += 1

    def _out_of_the_way(self, path: Path, move: Callable[[Path], None]) -> None:
        try:
            move(path)
        except OSError as fault:
            log.warning("the drop %s stays in the inbox and is passed over: %s", shown_name(path), fault)
            self._stuck.add(path.name)


def _is_the_desks(fault: Exception) -> bool:
    """Whether a failure is of the disk or the journal, to be tried again, and not of the drop."""
    if isinstance(fault, ToolError):
        return fault.code != "INVALID_PARAMETER"
    if isinstance(fault, BadEntry):
        return False
    return isinstance(fault, OSError | SQLiteError | JournalError)


def _reason(fault: Exception) -> str:
    """Why a drop was set aside; a failure that nobody foresaw is named by its kind."""
    if isinstance(fault, ToolError):
        return fault.message
    return str(fault) if isinstance(fault, ValueError) else f"{type(fault).__name__}: {fault}"
