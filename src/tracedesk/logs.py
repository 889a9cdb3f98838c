"""The desk's log: a rotating file in the home, and warnings on stderr; neither ever shows a secret."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Generator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import gmtime
from typing import Final

from tracedesk.primitives.redaction import RedactingFilter, Secrets
from tracedesk.primitives.text import sanitize_terminal

FILES: Final = 5
BYTES: Final = 2_000_000


def path(home: Path) -> Path:
    """The log file of a home."""
    return home / "logs" / "tracedesk.log"


@contextlib.contextmanager
def writing(
    home: Path,
    level: str,
    secrets: Secrets | None = None,
    *,
    echo: bool = True,
    files: int = FILES,
    size: int = BYTES,
) -> Generator[None]:
    """While this holds, everything logged goes to the home's log, and warnings to stderr too (`echo`)."""
    handlers = [_file(path(home), files, size), *((_stderr(),) if echo else ())]
    root = logging.getLogger()
    before = root.level
    for handler in handlers:
        handler.addFilter(RedactingFilter(secrets))
        root.addHandler(handler)
    root.setLevel(level)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


def _file(file: Path, files: int, size: int) -> logging.Handler:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = SharedFile(file, maxBytes=size, backupCount=files - 1, encoding="utf-8")
    handler.setFormatter(_Lines())
    return handler


def _stderr() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Brief())
    return handler


class _Lines(logging.Formatter):
    """One record, one line; what follows it (a traceback) is indented, so no text can pose as a record."""

    converter = gmtime

    def __init__(self) -> None:
        pattern = "{asctime}.{msecs:03.0f}Z {levelname:<7} [{process}] {name}: {message}"
        super().__init__(pattern, "%Y-%m-%dT%H:%M:%S", style="{")

    def format(self, record: logging.LogRecord) -> str:
        return sanitize_terminal(super().format(record)).replace("\n", "\n    ")


class _Brief(logging.Formatter):
    """For people and for clients that show stderr: the first line, never the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        first = record.getMessage().partition("\n")[0]
        return sanitize_terminal(f"tracedesk: {first}")


class SharedFile(RotatingFileHandler):
    """A rotating file that several desks of one home write at once; it is readable by its owner alone."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=_private)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._follow()
        except OSError:
            self.handleError(record)
        super().emit(record)

    def doRollover(self) -> None:
        with open(f"{self.baseFilename}.lock", "a", opener=_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another desk may have rotated while this one waited for the lock.
            if not self._follow():
                super().doRollover()

    def _follow(self) -> bool:
        """Reopen the file when another desk has moved it away; say whether it had."""
        if self.stream is None or _is_same(self.stream, self.baseFilename):  # pyright: ignore[reportUnnecessaryComparison]
            return False
        self.stream.close()
        self.stream = self._open()
        return True


def _is_same(stream: TextIOWrapper, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(name))
    except FileNotFoundError:
        return False


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
