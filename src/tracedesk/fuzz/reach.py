"""Which files a compilation may read: any, or only those below some folders, wherever names lead."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tracedesk.fuzz.project import CompileError
from tracedesk.primitives.paths import Jail, PathRefused


class Reach:
    """Looks at files and reads them; of what lies outside it says nothing, not even whether it is there."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        within = tuple(folders)
        try:
            self._jail = Jail(within) if within else None
        except PathRefused as refused:
            raise CompileError("OUTSIDE", f"fuzz.roots: {refused}.") from None
        self._roots = tuple(Path(root) for root in self._jail.roots) if self._jail else ()

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

    def read(self, path: Path, name: str) -> bytes:
        """The bytes of a file; what cannot be read is refused by its name."""
        self.keep(path, f"{name}:")
        try:
            if self._jail is None:
                return path.read_bytes()
            with self._jail.open_read(None, os.path.realpath(path)) as file:
                return file.read()
        except PathRefused as refused:
            raise CompileError("NO_SOURCE", f"{name}: cannot be read ({refused.reason}).") from None
        except (OSError, ValueError) as fault:
            why = getattr(fault, "strerror", None) or "the name is none"
            raise CompileError("NO_SOURCE", f"{name}: cannot be read: {why}.") from None


ANYWHERE: Final = Reach()
"""Of someone who may read the files anyway."""
