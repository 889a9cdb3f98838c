"""Which files of a project the graph takes: named, or found below folders, and never outside the root."""

from __future__ import annotations

import errno
import heapq
import os
import re
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from tracedesk.codegraph.graph.ignore import Ignore, builtin
from tracedesk.codegraph.graph.limits import DEEPEST, Limits, Skip
from tracedesk.codegraph.graph.secrets import without_secrets
from tracedesk.primitives.paths import HOME_FILES, Jail, PathRefused

Takes = Callable[[str], bool]
"""Whether a file found in a folder is of a kind that the graph reads."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IGNORE_BYTES: Final = 1_000_000
_LONGEST_STRAIGHT: Final = 200
_SIMPLE: Final = re.compile(r"[\w.][\w./ +,@=-]*").fullmatch
MOST_SKIPPED: Final = 20_000
"""So many skipped files are named; the rest are counted."""


@dataclass(slots=True)
class Scan:
    """The files that were found, by their real paths below the root, sorted; and the others."""

    root: str
    files: list[str] = field(default_factory=list[str])
    skipped: list[Skip] = field(default_factory=list[Skip])
    warnings: list[str] = field(default_factory=list[str])
    others: int = 0
    """Files in folders that are of no kind the graph reads."""
    unnamed: int = 0
    """Skipped files beyond the number that is named."""

    def skip(self, file: str, reason: str) -> None:
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(Skip(shown(file), reason))
        else:
            self.unnamed += 1


def name_flaw(path: str) -> str | None:
    """Why a name is not kept: it cannot be encoded or printed, or it holds a secret."""
    if not path.isprintable():
        return "unprintable"
    return None if without_secrets(path) is path else "secret"


def shown(path: str) -> str:
    """A name that was not taken, in a form that can be shown: without secrets and signs that act."""
    printable = path if path.isprintable() else path.encode("unicode_escape", "surrogatepass").decode()
    return without_secrets(printable)


def project_root(jail: Jail, root: str) -> str:
    """The real path of a project's root, which must be a folder inside the jail."""
    if not os.path.isabs(root):
        raise PathRefused("outside", f"the project root {root[:120]!r} is not absolute; name it from /")
    real = jail.resolve(root, ".").path
    if not os.path.isdir(real):
        raise PathRefused("not_directory", f"the project root {root[:120]!r} is not a directory")
    return real


def scan(
    jail: Jail,
    root: str,
    entries: Sequence[str],
    takes: Takes,
    limits: Limits,
    cancelled: Callable[[], None] = lambda: None,
) -> Scan:
    """Find the files that the entries name; a folder stands for what is below it, none for the root."""
    walk = _Walk(jail, project_root(jail, root), takes, limits, cancelled)
    for entry in entries or (".",):
        cancelled()
        if walk.is_full:
            break
        walk.enter(entry)
    return walk.result()


def ignore_of(jail: Jail, root: str) -> Ignore:
    """The ignore rules of a project."""

    def read(path: str) -> str | None:
        try:
            with jail.open_read(root, path) as file:
                return file.read(_IGNORE_BYTES).decode("utf-8", "replace")
        except (PathRefused, OSError):
            return None

    return Ignore(read)


def relative(jail: Jail, root: str, entry: str) -> str:
    """The real path below the root that an entry names; absolute entries must lie inside the root."""
    return jail.resolve(root, entry).relative


class _Walk:
    def __init__(
        self, jail: Jail, root: str, takes: Takes, limits: Limits, cancelled: Callable[[], None]
    ) -> None:
        self._jail = jail
        self._takes = takes
        self._limits = limits
        self._cancelled = cancelled
        self._ignore = ignore_of(jail, root)
        self._found: set[str] = set()
        self._walked: set[str] = set()
        self._linked: list[str] = []
        self._straight: dict[str, bool] = {}
        self._scan = Scan(root)

    @property
    def is_full(self) -> bool:
        return len(self._found) >= self._limits.files

    def result(self) -> Scan:
        if self.is_full:
            self._scan.warnings.append(
                f"The project has more than {self._limits.files} files; the first {self._limits.files} were "
                "taken. Index a folder of it, or raise the limit of files in the settings."
            )
        self._scan.warnings += self._ignore.warnings
        self._scan.files = sorted(self._found)
        # A list without a secret has no name with one.
        listed = "\n".join(self._scan.files)
        if without_secrets(listed) is not listed:
            self._leave_secret_names()
        return self._scan

    def _leave_secret_names(self) -> None:
        flaws = {path: name_flaw(path) for path in self._scan.files}
        self._scan.files = [path for path, flaw in flaws.items() if flaw is None]
        for path, flaw in flaws.items():
            if flaw is not None:
                self._scan.skip(path, flaw)

    def enter(self, entry: str) -> None:
        """Take one entry of the caller's list."""
        try:
            path, mode = self._located(entry)
        except PathRefused as refused:
            return self._scan.skip(entry, refused.reason)
        except OSError as problem:
            return self._scan.skip(entry, "missing" if problem.errno == errno.ENOENT else "denied")
        if stat.S_ISDIR(mode):
            return self._folder("" if path == "." else path)
        if not stat.S_ISREG(mode):
            return self._scan.skip(entry, "not_regular")
        # A named file is wanted whatever .gitignore says; secrets are not.
        if (verdict := builtin(path)) == "secret":
            return self._scan.skip(entry, verdict)
        return self._take(path)

    def _located(self, entry: str) -> tuple[str, int]:
        """The real path below the root that an entry names, with its mode."""
        if self._is_straight(entry):
            # What is there need not be found out again for each part of the path.
            with suppress(OSError):
                mode = os.lstat(f"{self._scan.root}/{entry}").st_mode
                if stat.S_ISREG(mode):
                    return entry, mode
        path = relative(self._jail, self._scan.root, entry)
        return path, os.lstat(os.path.join(self._scan.root, path)).st_mode

    def _is_straight(self, entry: str) -> bool:
        """Whether an entry is relative and of simple signs, and its folder's real path is as it is named."""
        folder, _, name = entry.rpartition("/")
        if folder == "." or name in ("", ".", "..") or len(entry) > _LONGEST_STRAIGHT or not _SIMPLE(entry):
            return False
        if folder not in self._straight:
            self._straight[folder] = not folder or self._is_real(folder)
        return self._straight[folder]

    def _is_real(self, folder: str) -> bool:
        try:
            return relative(self._jail, self._scan.root, folder) == folder
        except PathRefused:
            return False

    def _take(self, path: str) -> None:
        if not path.isprintable():
            return self._scan.skip(path, "unprintable")
        if self.is_full:
            return self._scan.skip(path, "too_many_files")
        self._found.add(path)
        return None

    def _folder(self, folder: str) -> None:
        """Walk a folder, and then the folders inside the root that links in it led to."""
        verdict = builtin(folder) if folder else None
        if verdict or self._ignore.leaves_out_folder(folder):
            return self._scan.skip(folder, verdict or "ignored")
        self._linked.append(folder)
        while self._linked and not self.is_full:
            self._open(self._linked.pop())
        return None

    def _open(self, folder: str) -> None:
        opened = _opened(os.path.join(self._scan.root, folder) if folder else self._scan.root)
        if opened is None:
            return self._scan.skip(folder, "denied")
        with opened as fd:
            self._read(fd, folder, folder.count("/") + 1)
        return None

    def _read(self, fd: int, folder: str, depth: int) -> None:
        if folder in self._walked:
            return
        self._walked.add(folder)
        self._cancelled()
        entries = _entries(fd, self._limits.files + 1)
        if {name for name, _ in entries}.issuperset(HOME_FILES):
            self._scan.skip(folder, "secret")
            return
        if not any(name == ".gitignore" for name, _ in entries):
            self._ignore.has_none(folder)
        for name, kind in entries:
            if self.is_full:
                return
            path = f"{folder}/{name}" if folder else name
            if kind == "d":
                self._below(fd, name, path, folder, depth)
            elif builtin(path):
                self._refuse(path, kind)
            elif kind == "l":
                self._link(path)
            elif kind == "f":
                self._file(path, folder)
            else:
                self._scan.skip(path, "not_regular")

    def _refuse(self, path: str, kind: str) -> None:
        if kind in "fl" and builtin(path) == "secret":
            self._scan.skip(path, "secret")

    def _file(self, path: str, folder: str) -> None:
        if self._ignore.says(path, folder):
            return
        if self._takes(path):
            self._take(path)
        else:
            self._scan.others += 1

    def _below(self, fd: int, name: str, path: str, folder: str, depth: int) -> None:
        if builtin(path) or self._ignore.says(path + "/", folder):
            return None
        if depth >= DEEPEST:
            return self._scan.skip(path, "too_deep")
        opened = _opened(name, fd)
        if opened is None:
            return self._scan.skip(path, "denied")
        with opened as child:
            self._read(child, path, depth + 1)
        return None

    def _link(self, path: str) -> None:
        """A link stands for what it leads to, when that is inside the root; it is taken there, once."""
        try:
            real = relative(self._jail, self._scan.root, path)
            mode = os.lstat(os.path.join(self._scan.root, real)).st_mode
        except PathRefused as refused:
            return self._scan.skip(path, refused.reason)
        except OSError:
            return self._scan.skip(path, "symlink")
        if stat.S_ISDIR(mode):
            if real != "." and not builtin(real) and not self._ignore.leaves_out_folder(real):
                self._linked.append(real)
        elif not stat.S_ISREG(mode):
            self._scan.skip(path, "not_regular")
        elif self._ignore.verdict(real) is None and self._takes(real):
            self._take(real)
        return None


def _opened(path: str, below: int | None = None) -> AbstractContextManager[int] | None:
    """A folder's descriptor that follows no link, closed in the end; None when it cannot be read."""
    try:
        fd = os.open(path, _FOLDER, dir_fd=below)
    except OSError:
        return None
    return _closing(fd)


@contextmanager
def _closing(fd: int) -> Generator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _entries(fd: int, most: int) -> list[tuple[str, str]]:
    """The names in a folder with their kinds, sorted; of a very large folder only the first so many."""
    return heapq.nsmallest(most, _listed(fd))


def _listed(fd: int) -> Generator[tuple[str, str]]:
    with os.scandir(fd) as entries:
        for entry in entries:
            yield entry.name, _kind(entry)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "l"
    if entry.is_dir(follow_symlinks=False):
        return "d"
    return "f" if entry.is_file(follow_symlinks=False) else "?"
