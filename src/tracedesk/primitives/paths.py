"""The jail: files named by an agent are opened only below roots that the operator configured."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Literal

MAX_PATH = 4096
MAX_NAME = 255
"""Bytes of a path and of one component, as Linux and macOS limit them."""

PRIVATE = "tracedesk-private"
"""The name of folders that hold what no tool may show, in whichever root they lie."""

HOME_FILES = ("home.lock", "format.json")
"""Files that a desk's home has, and no other folder: it holds tokens, keys and other people's data."""

Reason = Literal[
    "empty",
    "nul",
    "encoding",
    "too_long",
    "drive",
    "parent",
    "outside",
    "missing",
    "not_directory",
    "not_regular",
    "symlink",
    "exists",
    "hard_linked",
    "denied",
]

_DRIVE = re.compile(r"[A-Za-z]:|[\\/]{2}")
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# Opening must not wait for a FIFO's other end, nor make a terminal ours.
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_REASONS: dict[int, tuple[Reason, str]] = {
    errno.ENOENT: ("missing", "does not exist"),
    errno.ENOTDIR: ("not_directory", "goes through something that is not a directory"),
    errno.ELOOP: ("symlink", "is a symlink that leads nowhere or changed while it was opened"),
    # What realpath meets when a link vanishes between its look and its read.
    errno.EINVAL: ("symlink", "changed while it was looked up"),
    errno.ENXIO: ("not_regular", "is not a regular file"),
    errno.EISDIR: ("not_regular", "is a directory, not a file"),
    errno.EEXIST: ("exists", "exists already; choose another name or allow overwriting"),
    errno.ENAMETOOLONG: ("too_long", "is too long for this file system"),
}


class PathRefused(ValueError):
    """A path the jail does not open, with the reason as a code."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class Location:
    """A place inside the jail: a real root and the real path below it ("." for the root itself)."""

    root: str
    relative: str

    @property
    def path(self) -> str:
        """The absolute real path."""
        return self.root if self.relative == "." else os.path.join(self.root, self.relative)


class Jail:
    """Opens files below its roots and nowhere else, even while symlinks are being swapped.

    Names are resolved with ``realpath`` first, which only says where to look; the file is then reached from
    the root by directory descriptors that follow no link, so a link that appears in between is refused.
    """

    def __init__(self, roots: Iterable[str | os.PathLike[str]]) -> None:
        self._roots = tuple(dict.fromkeys(_configured(os.fspath(root)) for root in roots))
        if not self._roots:
            raise ValueError("a jail needs at least one root; name a directory")

    @property
    def roots(self) -> tuple[str, ...]:
        """The configured roots as real paths."""
        return self._roots

    def resolve(self, root: str | None, path: str) -> Location:
        """Return where a path lies below a root, which itself lies in the jail; the file need not exist.

        Without a root, an absolute path picks the configured root that holds it, a relative one the first.
        The answer is a name, not a promise: read it with ``open_read``.
        """
        self._check(path)
        with self._explained(path):
            base = self._base(root, path)
            real = os.path.realpath(os.path.join(base, path))
            relative = _below(base, real)
        if relative is None:
            raise self._refused("outside", path, "lies outside the root")
        if PRIVATE in real.split("/"):
            raise self._refused("outside", path, "lies in a folder that is never opened")
        if any(map(is_home, _folders(base, relative))):
            raise self._refused("outside", path, "lies in the home of a desk, which is never opened")
        return Location(base, relative)

    def open_read(self, root: str | None, path: str) -> BinaryIO:
        """Open a regular file for reading."""
        location = self.resolve(root, path)
        if location.relative == ".":
            raise self._refused("not_regular", path, "is a directory, not a file")
        with self._explained(path), self._directory(os.path.dirname(location.path)) as directory:
            fd = self._open_regular(directory, os.path.basename(location.path), os.O_RDONLY, path)
        return os.fdopen(fd, "rb")

    def create_file(
        self, root: str | None, path: str, *, overwrite: bool = False, mode: int = 0o600
    ) -> BinaryIO:
        """Create a file for writing in an existing directory; an existing file is emptied only on request."""
        self._check(path)
        head, name = os.path.split(path)
        if name in ("", "."):
            raise self._refused("empty", path, "ends without a file name")
        parent = self.resolve(root, head or ".")
        with self._explained(path), self._directory(parent.path) as directory:
            fd = self._overwrite(directory, name, mode, path) if overwrite else _create(directory, name, mode)
        return os.fdopen(fd, "wb")

    def _check(self, path: str) -> None:
        if flaw := _flaw(path):
            raise self._refused(flaw[0], path, flaw[1])

    def _base(self, root: str | None, path: str) -> str:
        if root is None:
            return self._holder(os.path.realpath(path)) if os.path.isabs(path) else self._roots[0]
        self._check(root)
        real = os.path.realpath(root)
        if all(_below(configured, real) is None for configured in self._roots):
            raise self._refused("outside", root, "lies outside the configured roots")
        return real

    def _holder(self, real: str) -> str:
        holders = (root for root in self._roots if _below(root, real) is not None)
        return next(holders, self._roots[0])

    @contextmanager
    def _directory(self, real: str) -> Generator[int]:
        # The walk begins at the configured root, not at the agent's: what lies between could be swapped too.
        anchor = self._holder(real)
        fd = os.open(anchor, _DIRECTORY)
        try:
            for part in _parts(anchor, real):
                child = os.open(part, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = child
            yield fd
        finally:
            os.close(fd)

    def _open_regular(self, directory: int, name: str, flags: int, path: str) -> int:
        # Looked at before opening, because opening a device can already act on it.
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(info.st_mode):
            raise self._refused("not_regular", path, "is not a regular file")
        fd = os.open(name, flags | _CAREFUL, dir_fd=directory)
        try:
            self._keep_regular(fd, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _keep_regular(self, fd: int, path: str) -> None:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_dev in _pseudo_devices():
            raise self._refused("not_regular", path, "is not a regular file")
        os.set_blocking(fd, True)

    def _overwrite(self, directory: int, name: str, mode: int, path: str) -> int:
        try:
            fd = self._open_regular(directory, name, os.O_WRONLY, path)
        except FileNotFoundError:
            return _create(directory, name, mode)
        try:
            self._empty(fd, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _empty(self, fd: int, path: str) -> None:
        # A second name of the same file may lie outside every root.
        if os.fstat(fd).st_nlink > 1:
            raise self._refused(
                "hard_linked", path, "has a second hard link; remove it or choose another name"
            )
        os.ftruncate(fd, 0)

    @contextmanager
    def _explained(self, path: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            reason, problem = _REASONS.get(
                error.errno or 0, ("denied", f"cannot be opened: {error.strerror}")
            )
            raise self._refused(reason, path, problem) from None

    def _refused(self, reason: Reason, path: str, problem: str) -> PathRefused:
        return PathRefused(reason, f"{_shown(path)} {problem} (configured roots: {', '.join(self._roots)})")


def is_home(folder: str) -> bool:
    """True for the home of a desk."""
    return all(os.path.lexists(f"{folder}/{name}") for name in HOME_FILES)


def _folders(base: str, relative: str) -> Iterator[str]:
    """The folders from the root down to a place below it, which may be one of them."""
    yield base
    if relative != ".":
        place = base
        for part in relative.split("/"):
            place = f"{place}/{part}"
            yield place


def _configured(root: str) -> str:
    real = os.path.realpath(root)
    if not os.path.isdir(real):
        raise PathRefused(
            "missing", f"the root {_shown(root)} is not a directory; create it or configure another"
        )
    return real


def _create(directory: int, name: str, mode: int) -> int:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL, mode, dir_fd=directory)
    os.set_blocking(fd, True)
    return fd


def _flaw(path: str) -> tuple[Reason, str] | None:
    if not path:
        return "empty", "is empty; name a file"
    if "\0" in path:
        return "nul", "contains a NUL character"
    if _DRIVE.match(path):
        return "drive", "begins with a drive or network prefix; use a path relative to the root"
    if ".." in re.split(r"[\\/]", path):
        return "parent", "contains '..'; name the file from the root downwards"
    return _oversize(path)


def _oversize(path: str) -> tuple[Reason, str] | None:
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        return "encoding", "cannot be encoded as a file name"
    if len(raw) > MAX_PATH:
        return "too_long", f"is longer than {MAX_PATH} bytes"
    if max(map(len, raw.split(b"/"))) > MAX_NAME:
        return "too_long", f"has a name longer than {MAX_NAME} bytes"
    return None


def _below(root: str, real: str) -> str | None:
    if real == root:
        return "."
    prefix = root if root.endswith("/") else root + "/"
    return real.removeprefix(prefix) if real.startswith(prefix) else None


def _parts(root: str, real: str) -> list[str]:
    relative = _below(root, real)
    if relative is None:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return [] if relative == "." else relative.split("/")


@cache
def _pseudo_devices() -> frozenset[int]:
    # Files of /proc and /sys call themselves regular. Where nothing is mounted, the device is that of /.
    mounts = [path for path in ("/proc", "/sys", "/dev") if os.path.isdir(path)]
    return frozenset(os.stat(path).st_dev for path in mounts) - {os.stat("/").st_dev}


def _shown(path: str) -> str:
    return repr(path if len(path) <= 120 else path[:120] + "…")
