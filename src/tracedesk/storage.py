"""Faults of the disk that a home lies on: one place that names them, for every family and command."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tracedesk.journal.sqlite import (
    AuthError,
    CantOpenError,
    DiskIOError,
    FullError,
    ReadOnlyError,
)

if TYPE_CHECKING:
    from tracedesk.errors import Family, ToolError
    from tracedesk.primitives.time import Clock

Kind = Literal["DISK_FULL", "READ_ONLY", "NOT_PERMITTED", "DISK_FAULT"]
_PROBLEMS: Final[dict[Kind, str]] = {
    "DISK_FULL": "The disk of the desk's home is full",
    "READ_ONLY": "The desk's home is on a read-only disk",
    "NOT_PERMITTED": "The desk's home cannot be written by this user",
    "DISK_FAULT": "The disk of the desk's home cannot be read or written",
}
_REMEDIES: Final[dict[Kind, str]] = {
    "DISK_FULL": "Make room there, then try again; tracedesk prune removes old streams.",
    "READ_ONLY": "Mount it writable, or choose another home with --home.",
    "NOT_PERMITTED": "Give the folder to this user, or choose another home with --home.",
    "DISK_FAULT": "Check the disk and the system's log, then try again.",
}
_TEMPORARY: Final[dict[Kind, str]] = {
    "DISK_FULL": "The temporary folder has no room left",
    "READ_ONLY": "The temporary folder is on a read-only disk",
    "NOT_PERMITTED": "The temporary folder cannot be written by this user",
    "DISK_FAULT": "The temporary folder cannot be read or written",
}
_ELSEWHERE: Final = "Set TMPDIR to another folder, which this user can write, and start again."
_ERRNOS: Final[dict[int | None, Kind]] = {
    errno.ENOSPC: "DISK_FULL",
    errno.EDQUOT: "DISK_FULL",
    errno.EROFS: "READ_ONLY",
    errno.EIO: "DISK_FAULT",
}
_LAST_WORDS: Final[dict[str, Kind]] = {
    "database or disk is full": "DISK_FULL",
    os.strerror(errno.ENOSPC): "DISK_FULL",
    os.strerror(errno.EDQUOT): "DISK_FULL",
    os.strerror(errno.EROFS): "READ_ONLY",
}
"""Words of SQLite and the system with which another process ends that met such a fault."""
_VAGUE: Final = (CantOpenError, DiskIOError, AuthError)
"""SQLite's errors that say too little: the disk itself is asked for the cause.

A statement that is compiled anew after a failed write can end in AuthError, for a journal's guarded tables.
"""
_LEAST: Final = 65_536
"""Bytes that a commit needs at least, with its log and shared memory."""
_WORKING: Final = 2 << 20
"""Bytes that a home in the temporary folder needs: an exercise took at most 0.5 MB."""
_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class StorageFault:
    """The reason why a home, or the temporary folder, cannot be written, and the remedy."""

    kind: Kind
    is_temporary: bool = False

    @property
    def problem(self) -> str:
        return (_TEMPORARY if self.is_temporary else _PROBLEMS)[self.kind]

    @property
    def remedy(self) -> str:
        if self.is_temporary:
            return f"Make room there. Or: {_ELSEWHERE}" if self.kind == "DISK_FULL" else _ELSEWHERE
        return _REMEDIES[self.kind]

    @property
    def text(self) -> str:
        return f"{self.problem}. {self.remedy}"

    def error(self, family: Family, before: str = "") -> ToolError:
        """The refusal of a family; `before` says what was or was not done."""
        from tracedesk.errors import ToolError

        message = f"{before}. {self.text}" if before else self.text
        return ToolError(family.storage, message, {"kind": self.kind, "retryable": True})


def fault_of(problem: BaseException, home: Path) -> StorageFault | None:
    """The disk's fault behind an exception, or behind one that it was raised from; None for any other."""
    for each in _chain(problem):
        kind = _kind(each, home)
        if kind is not None:
            return StorageFault(kind)
    return None


def temporary(folder: Path | None = None) -> StorageFault | None:
    """Return the fault that keeps a home from being made in the temporary folder; None where it can be."""
    try:
        found = probe(folder or Path(tempfile.gettempdir()), _WORKING)
    except FileNotFoundError:  # Python knows no folder that takes a file
        found = StorageFault("NOT_PERMITTED")
    return None if found is None else StorageFault(found.kind, is_temporary=True)


def temporary_fault_of(problem: BaseException, folder: Path) -> StorageFault | None:
    """The temporary folder's fault behind an exception of work in that folder; None for any other."""
    from tracedesk.errors import ToolError

    if isinstance(problem, ToolError):
        kind: Any = (problem.details or {}).get("kind")
        if kind in get_args(Kind):
            return StorageFault(kind, is_temporary=True)
    found = fault_of(problem, folder) or _in_words(str(problem)) or temporary(folder)
    return None if found is None else StorageFault(found.kind, is_temporary=True)


def _in_words(text: str) -> StorageFault | None:
    faults = (StorageFault(kind) for words, kind in _LAST_WORDS.items() if words in text)
    return next(faults, None)


def is_of_disk(problem: OSError) -> bool:
    """Return whether the system says that the disk takes nothing, or nothing now."""
    return problem.errno in _ERRNOS


def probe(home: Path, least: int = _LEAST) -> StorageFault | None:
    """Try to write a little to the home; return the fault that this meets, or that too few bytes are left."""
    found = glance(home, least)
    if found is not None:
        return found
    try:
        with tempfile.NamedTemporaryFile(prefix=".probe-", dir=_folder(home)) as file:
            file.write(bytes(_LEAST))
            file.flush()
    except OSError as fault:
        kind = "NOT_PERMITTED" if fault.errno in (errno.EACCES, errno.EPERM) else _ERRNOS.get(fault.errno)
        return StorageFault(kind or "DISK_FAULT")
    return None


def glance(home: Path, least: int = _LEAST) -> StorageFault | None:
    """Ask the file system for what it says of itself, without writing."""
    try:
        disk = os.statvfs(_folder(home))
    except OSError:
        return StorageFault("DISK_FAULT")
    if disk.f_flag & os.ST_RDONLY:
        return StorageFault("READ_ONLY")
    # A file system that counts no blocks has no bound to reach.
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < least:
        return StorageFault("DISK_FULL")
    return None


class StorageHealth:
    """The disk faults that a desk has met, and whether they last."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._met: StorageFault | None = None
        self._asked = 0.0

    def explain(self, problem: BaseException) -> StorageFault | None:
        """The disk's fault behind an exception, which `problems` then reports until a write succeeds."""
        found = fault_of(problem, self._home)
        self._met = found or self._met
        return found

    def problems(self) -> list[dict[str, Any]]:
        """The fault that keeps the home from being written now, for `/health`."""
        found = glance(self._home) or self._lasting()
        return [] if found is None else [{"what": f"{found.problem}.", "remedy": found.remedy}]

    def _lasting(self) -> StorageFault | None:
        """The fault that was met, if a write still fails; anyone may ask, so it is tried once a second."""
        now = self._clock.monotonic()
        if self._met is not None and now - self._asked >= _AGAIN_SECONDS:
            self._asked = now
            self._met = probe(self._home)
        return self._met


def _kind(problem: BaseException, home: Path) -> Kind | None:
    if isinstance(problem, FullError):
        return "DISK_FULL"
    if isinstance(problem, ReadOnlyError):
        return _of_disk(home) or "READ_ONLY"
    if isinstance(problem, _VAGUE):
        return _of_disk(home) or ("DISK_FAULT" if isinstance(problem, DiskIOError) else None)
    if isinstance(problem, OSError):
        return _ERRNOS.get(problem.errno)
    return None


def _of_disk(home: Path) -> Kind | None:
    found = probe(home)
    return None if found is None else found.kind


def _folder(home: Path) -> Path:
    """The home, or the folder that it would be made in."""
    return next(folder for folder in (home, *home.absolute().parents) if folder.is_dir())


def _chain(problem: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while problem is not None and id(problem) not in seen:
        seen.add(id(problem))
        yield problem
        problem = problem.__cause__ or problem.__context__
