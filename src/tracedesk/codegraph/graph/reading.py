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
    """Reads files of a project by their real paths. The folder of the last one stays open for the next.

    Folders and files are opened one below the other and no link is followed, as the jail does it; whatever is
    not a plain file of the root's own file system is left to the jail, which says what is wrong.
    """

    def __init__(self, jail: Jail, root: str, limits: Limits) -> None:
        self._jail = jail
        self._root = root
        self._limits = limits
        self._device = os.stat(jail.resolve(root, ".").path).st_dev
        self._folder = ""
        self._fd: int | None = None

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

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
            self._enter(folder)
            fd = os.open(name, _FILE, dir_fd=self._fd)
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

    def _enter(self, folder: str) -> None:
        if self._fd is not None and folder == self._folder:
            return
        self._leave()
        # The jail vouches for the root each time, and everything below it is walked.
        fd = os.open(self._jail.resolve(self._root, ".").path, _FOLDER)
        try:
            for part in folder.split("/") if folder else ():
                if part in ("", ".", ".."):
                    raise NotADirectoryError(part)
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
        except OSError:
            os.close(fd)
            raise
        self._folder, self._fd = folder, fd

    def _leave(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


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
    if len(data) > limits.line_chars and max(map(len, data.split(b"\n"))) > limits.line_chars:
        return "minified"
    return None


def decoded(data: bytes) -> str | None:
    """The text of the bytes, None when they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
