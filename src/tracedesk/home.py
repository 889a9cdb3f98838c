"""The home: the folder with everything a desk keeps, its format, and the way to a newer one."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tracedesk
from tracedesk.primitives import json
from tracedesk.primitives.disk import sync
from tracedesk.primitives.paths import HOME_FILES
from tracedesk.primitives.time import Clock, SystemClock, format

FILE: Final = HOME_FILES[1]
LOCK: Final = HOME_FILES[0]
FOLDERS: Final = ("runs", "campaigns", "payloads", "run", "inbox", "logs")
PATIENCE: Final = 30.0
"""Seconds to wait for a migration, backup or prune of another process."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_RETRY_SECONDS: Final = 0.01

Migration = Callable[[Path], None]
"""Brings a home one format further. It may be killed at any moment and run again from its start."""


class HomeError(OSError):
    """A home that cannot be used as it is, with what to do."""


class HomeTooNew(HomeError):
    """A home that a newer tracedesk has written."""

    def __init__(self, path: Path, found: Format, known: int) -> None:
        super().__init__(
            f"{path} has format {found.number}, written by tracedesk {found.written_by}; this is tracedesk "
            f"{tracedesk.__version__}, which knows formats up to {known}. Update tracedesk, or choose "
            "another home with --home"
        )
        self.found = found.number
        self.known = known


class HomeInUse(HomeError):
    """Another process migrates, backs up or prunes the home."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is being migrated, backed up or pruned by another process; wait for it")


@dataclass(frozen=True, slots=True)
class Format:
    """What `format.json` says."""

    number: int
    created_at: str
    written_by: str

    def document(self) -> dict[str, Any]:
        return {"format": self.number, "createdAt": self.created_at, "writtenBy": self.written_by}


@dataclass(frozen=True, slots=True)
class Home:
    """An open home of the current format, and where each thing in it is."""

    path: Path

    @classmethod
    def open(
        cls, path: Path, migrations: Sequence[Migration] | None = None, *, clock: Clock | None = None
    ) -> Home:
        """Open the home at `path`: made if it is new, brought to the current format if it is older."""
        steps = MIGRATIONS if migrations is None else migrations
        found = read_format(path)
        if found is None or found.number != len(steps):
            _refuse_newer(path, found, len(steps))
            _bring_up(path, steps, clock or SystemClock())
        return cls(path)

    # --- databases

    @property
    def trace(self) -> Path:
        """The journal of calls and attempts."""
        return self.path / "trace.db"

    @property
    def ledger(self) -> Path:
        """Orders, fills and positions."""
        return self.path / "ledger.db"

    @property
    def graph(self) -> Path:
        """The index of code; it can be rebuilt."""
        return self.path / "graph.db"

    @property
    def catalog(self) -> Path:
        """The index of backtest runs; it can be rebuilt."""
        return self.path / "catalog.db"

    def run_file(self, id: str) -> Path:
        """The journal of one backtest run."""
        return self.runs / f"{_safe(id)}.db"

    def databases(self) -> list[Path]:
        """Every SQLite file that is there."""
        return [
            *sorted(self.path.glob("*.db")),
            *sorted(self.runs.glob("*.db")),
            *sorted(self.campaigns.rglob("*.db")),
        ]

    # --- folders

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def campaigns(self) -> Path:
        return self.path / "campaigns"

    @property
    def payloads(self) -> Path:
        """Bodies by SHA-256."""
        return self.path / "payloads"

    @property
    def run(self) -> Path:
        """Where live hosts are registered."""
        return self.path / "run"

    @property
    def inbox(self) -> Path:
        """Where clients' hooks drop files."""
        return self.path / "inbox"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def campaign(self, id: str) -> Path:
        """The folder of one campaign."""
        return self.campaigns / _safe(id)

    def payload(self, sha256: str) -> Path:
        """The file of one body."""
        if not _DIGEST.fullmatch(sha256):
            raise ValueError(f"{sha256[:80]!r} is not a SHA-256 in small hexadecimal digits")
        return self.payloads / sha256[:2] / sha256


def _safe(id: str) -> str:
    if not _ID.fullmatch(id):
        raise ValueError(f"{id[:80]!r} cannot name a file: use letters, digits, dots, dashes, underscores")
    return id


# --- the format --------------------------------------------------------------------------------


def read_format(path: Path) -> Format | None:
    """The format of the home at `path`; None when it has no format file."""
    file = path / FILE
    try:
        document = json.loads(file.read_bytes())
        found = Format(document["format"], document["createdAt"], document["writtenBy"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        raise HomeError(f"{file} is damaged. Restore it from a backup of this home") from None
    if type(found.number) is not int or found.number < 1:
        raise HomeError(f"{file} is damaged: its format is {found.number!r}. Restore it from a backup")
    return found


def _refuse_newer(path: Path, found: Format | None, known: int) -> None:
    if found is not None and found.number > known:
        raise HomeTooNew(path, found, known)


def _bring_up(path: Path, migrations: Sequence[Migration], clock: Clock) -> None:
    """Run the migrations that are missing, one process at a time; the version follows each one."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(path):
        # Another desk may have migrated while this one waited for the lock.
        found = read_format(path)
        _refuse_newer(path, found, len(migrations))
        created = found.created_at if found else format(clock.now_ns())
        for number in range(found.number if found else 0, len(migrations)):
            migrations[number](path)
            _write_format(path, Format(number + 1, created, tracedesk.__version__))


def _write_format(path: Path, new: Format) -> None:
    """Replace the format file whole. Only the holder of the lock comes here, so one spare name is enough."""
    fresh = path / f".{FILE}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(new.document()) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path / FILE)
    sync(path)


@contextmanager
def alone(path: Path, seconds: float = PATIENCE) -> Generator[None]:
    """One migration, backup or prune of a home at a time; desks that serve do not come here."""
    descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, path, time.monotonic() + seconds)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise HomeInUse(path) from None
        time.sleep(_RETRY_SECONDS)


# --- migrations, oldest first ------------------------------------------------------------------


def lay_out(path: Path) -> None:
    """0 to 1: the folders, and the first desk's own files for their owner alone.

    Format 0 has no format file: a new folder, or what tracedesk 0.1.0 left (token, tokens.json,
    tokens.lock, logs/ and perhaps tracedesk.toml).
    """
    for name in FOLDERS:
        (path / name).mkdir(exist_ok=True, mode=0o700)
    for file in (path / name for name in ("token", "tokens.json", "tokens.lock")):
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)


MIGRATIONS: Final[tuple[Migration, ...]] = (lay_out,)
FORMAT: Final = len(MIGRATIONS)
