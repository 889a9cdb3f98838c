"""A source file read once: refused when it is too large, binary, minified or not text."""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass
from typing import Final

from tracedesk.codegraph.graph.limits import SNIFFED, Limits
from tracedesk.primitives.paths import Jail, PathRefused


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of a file and when they were written."""

    data: bytes
    mtime_ns: int


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Reading:
    """Reads files of a project by their real paths. The folders of the last one stay open for the next.

    Folders and files are opened one below the other and no link is followed, as the jail does it; whatever is
    not a plain file of the root's own file system is left to the jail, which says what is wrong.
    """

    def __init__(self, jail: Jail, root: str, limits: Limits) -> None:
        self._jail = jail
        self._root = root
        self._limits = limits
        # The jail vouches for the root, and everything below it is walked.
        self._top = os.open(jail.resolve(root, ".").path, _FOLDER)
        self._device = os.fstat(self._top).st_dev
        self._open: list[tuple[str, int]] = []
        """The folders from the root's own to that of the last file."""

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(0)
        os.close(self._top)

    def read(self, path: str) -> Source | str:
        """The file, or the reason for which it is left out."""
        try:
            data, mtime_ns = self._directly(path) or self._by_the_jail(path)
        except PathRefused as refused:
            return refused.reason
        except OSError:
            return "unreadable"
        return flaw(data, self._limits) or Source(data, mtime_ns)

    def _directly(self, path: str) -> tuple[bytes, int] | None:
        folder, name = posixpath.split(path)
        try:
            fd = os.open(name, _FILE, dir_fd=self._enter(folder))
        except OSError:
            return None
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_dev != self._device:
                return None
            return _content(fd, self._limits.file_bytes + 1), info.st_mtime_ns
        finally:
            os.close(fd)

    def _by_the_jail(self, path: str) -> tuple[bytes, int]:
        with self._jail.open_read(self._root, path) as file:
            return file.read(self._limits.file_bytes + 1), os.fstat(file.fileno()).st_mtime_ns

    def _enter(self, folder: str) -> int:
        """Open a folder; those above it that are open already are not opened again."""
        parts = folder.split("/") if folder else []
        shared = 0
        for part, (known, _) in zip(parts, self._open, strict=False):
            if part != known:
                break
            shared += 1
        self._leave(shared)
        for part in parts[shared:]:
            if part in ("", ".", ".."):
                raise NotADirectoryError(part)
            self._open.append((part, os.open(part, _FOLDER, dir_fd=self._fd)))
        return self._fd

    @property
    def _fd(self) -> int:
        return self._open[-1][1] if self._open else self._top

    def _leave(self, depth: int) -> None:
        """Close all folders that are deeper."""
        while len(self._open) > depth:
            os.close(self._open.pop()[1])


def read_source(jail: Jail, root: str, path: str, limits: Limits) -> Source | str:
    """One file, or the reason for which it is left out."""
    with Reading(jail, root, limits) as reading:
        return reading.read(path)


def _content(fd: int, most: int) -> bytes:
    data = os.read(fd, most)
    while len(data) < most and (more := os.read(fd, most - len(data))):
        data += more
    return data


def flaw(data: bytes, limits: Limits) -> str | None:
    """Why the graph does not take these bytes."""
    if len(data) > limits.file_bytes:
        return "too_large"
    if b"\0" in data[:SNIFFED]:
        return "binary"
    return "minified" if _has_longer_line(data, limits.line_chars) else None


def _has_longer_line(data: bytes, most: int) -> bool:
    at = 0
    while len(data) - at > most:
        # The last end of a line within reach: all lines before it are short enough.
        end = data.rfind(b"\n", at, at + most + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def decoded(data: bytes) -> str | None:
    """The text of the bytes, None when they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
