"""Which files a compilation may read: any, or only those below some folders, wherever names lead."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from tracedesk.fuzz.project import CompileError
from tracedesk.primitives.paths import Jail, PathRefused

LARGEST_SOURCE: Final = 4 << 20
"""Bytes of one source file."""
LARGEST_SETTINGS: Final = 256 << 10
"""Bytes of foundry.toml, of remappings.txt."""
LARGEST_OUTPUT: Final = 128 << 20
"""Bytes of one file that a compiler or a builder wrote."""
_SOURCES: Final = (".sol", ".vy", ".vyi", ".json")


class Reach:
    """Looks at files and reads them; of what lies outside it says nothing, not even whether it is there."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        within = tuple(folders)
        try:
            self._jail = Jail(within) if within else None
        except PathRefused as refused:
            raise CompileError("OUTSIDE", f"fuzz.roots: {refused}.") from None
        self._roots = tuple(Path(root) for root in self._jail.roots) if self._jail else ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that everything must lie in; none allows any."""
        return self._roots

    def holds(self, path: Path) -> bool:
        """Whether a path leads to where files may be read."""
        if self._jail is None:
            return True
        try:
            real = Path(os.path.realpath(path))
        except (OSError, ValueError):
            return False
        return any(real.is_relative_to(root) for root in self._roots)

    def keep(self, path: Path, subject: str) -> Path:
        """The path, if it may be read; the subject begins the refusal."""
        if not self.holds(path):
            raise CompileError(
                "OUTSIDE",
                f"{subject} lies outside the folders that may be read. The operator may add folders as "
                "fuzz.roots.",
            )
        return path

    def has(self, path: Path) -> bool:
        """Whether there is a file that may be read."""
        try:
            return self.holds(path) and path.is_file()
        except (OSError, ValueError):
            return False

    def keep_foreign(self, path: Path, root: Path, name: str) -> None:
        """Refuse a file outside the project that is no source: an import must not show other files."""
        real = path.resolve()
        if not self.holds(path):
            return  # it is refused when it is read
        if not real.is_relative_to(root) and real.suffix not in _SOURCES:
            raise CompileError(
                "OUTSIDE",
                f"{name}: leads out of the project to a file that is no source (.sol, .vy, .vyi, .json).",
            )

    def read(self, path: Path, name: str, most: int = LARGEST_SOURCE) -> bytes:
        """The bytes of a file of at most some size; one that cannot be read is refused by its name."""
        self.keep(path, f"{name}:")
        try:
            if self._jail is None:
                # A FIFO or a terminal would let its reader wait.
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                with os.fdopen(os.open(path, flags), "rb") as file:
                    return _whole(file, name, most)
            with self._jail.open_read(None, os.path.realpath(path)) as file:
                return _whole(file, name, most)
        except PathRefused as refused:
            raise CompileError("NO_SOURCE", f"{name}: cannot be read ({refused.reason}).") from None
        except (OSError, ValueError) as fault:
            why = getattr(fault, "strerror", None) or "the name is none"
            raise CompileError("NO_SOURCE", f"{name}: cannot be read: {why}.") from None


def _whole(file: BinaryIO, name: str, most: int) -> bytes:
    """A regular file that is not larger than it may be."""
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise CompileError("NO_SOURCE", f"{name}: is not a regular file; name one that is.")
    # A file of the system may be longer than it says.
    data = file.read(most + 1)
    if len(data) > most:
        raise CompileError("NO_SOURCE", f"{name}: is larger than {most >> 10:,} KiB; name a smaller file.")
    return data


ANYWHERE: Final = Reach()
"""Of someone who may read the files anyway."""
