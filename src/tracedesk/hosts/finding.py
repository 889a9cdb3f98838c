"""Finding the hosts of a home: registrations in `run/`, and telling the living from the dead.

A host holds an flock on its registration for life. A registration appears under its name complete and
locked (it is renamed into place), and only someone holding the folder's lock gives or takes away a name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import stat
import tempfile
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import tracedesk
from tracedesk.hosts import forks
from tracedesk.hosts.errors import HostBusy
from tracedesk.hosts.processes import Processes, system_processes
from tracedesk.primitives import json, time

FOLDER: Final = "run"
LONGEST_SOCKET: Final = 103
"""Bytes of a Unix socket's path that every platform takes (macOS: 104 with the closing NUL)."""

_KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME: Final = re.compile(rf"({_KIND.pattern})-({_ID.pattern})\.json")
_MUTEX: Final = ".lock"
_PRIVATE: Final = "tracedesk-"
_BACKLOG: Final = 128
_MOST: Final = 65_536
"""Bytes read of a registration; ours have a few hundred."""

State = Literal["live", "stale", "held"]
"""`held`: not one of our files, or locked by someone and not readable as one of ours; left alone."""


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What a host says about itself in its registration."""

    kind: str
    id: str
    pid: int
    process_start: str
    socket: Path
    version: str
    started_at: str

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "id": self.id,
            "pid": self.pid,
            "processStart": self.process_start,
            "socket": str(self.socket),
            "version": self.version,
            "startedAt": self.started_at,
        }

    @classmethod
    def of(cls, document: Any) -> HostInfo | None:
        """What a document says, when it says everything."""
        match document:
            case {
                "kind": str(kind),
                "id": str(id),
                "pid": int(pid),
                "processStart": str(start),
                "socket": str(path),
                "version": str(version),
                "startedAt": str(started_at),
            } if pid > 0:
                return cls(kind, id, pid, start, Path(path), version, started_at)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A registration as it was found."""

    kind: str
    id: str
    state: State
    info: HostInfo | None


def find(home: Path, kind: str | None = None, *, processes: Processes | None = None) -> list[HostInfo]:
    """The live hosts of a home, by kind and id; stale registrations are removed on the way."""
    return [
        sighting.info
        for sighting in survey(home, kind, processes=processes)
        if sighting.state == "live" and sighting.info is not None
    ]


def find_one(home: Path, kind: str, id: str, *, processes: Processes | None = None) -> HostInfo | None:
    """The live host of that kind and id, if there is one."""
    check_name(kind, id)
    seen = _look(_registration(home, kind, id), processes or system_processes())
    return seen.info if seen is not None and seen.state == "live" else None


def survey(home: Path, kind: str | None = None, *, processes: Processes | None = None) -> list[Sighting]:
    """Every registration of a home with its state; the stale ones are shown this once and removed."""
    processes = processes or system_processes()
    paths = sorted(path for path in _listing(home) if kind is None or path.name.startswith(f"{kind}-"))
    seen = [sighting for path in paths if (sighting := _look(path, processes)) is not None]
    _sweep(home, [sighting for sighting in seen if sighting.state == "stale"], processes)
    return seen


def check_name(kind: str, id: str) -> None:
    """Refuse a kind or an id that cannot be part of a file name everywhere."""
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is no kind of host; use lower-case letters, digits and _")
    if not _ID.fullmatch(id):
        raise ValueError(f"{id!r} is no host id; use at most 64 letters, digits and . _ -")


# --- being found -------------------------------------------------------------------------------


class Claim:
    """The right to be the host of one kind and id, with the socket that answers for it."""

    def __init__(self, info: HostInfo, path: Path, lock: int, listener: socket.socket) -> None:
        self.info = info
        self.listener = listener
        self._path = path
        self._lock: int | None = forks.keep(lock)
        # Kept by number: a server that has closed the listener leaves none to ask for.
        self._listening = forks.keep(listener.fileno())

    def release(self) -> None:
        """Take the registration and the socket away; nobody can find this host any more."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        with contextlib.suppress(FileNotFoundError):
            # Another host's registration has this name only if ours was taken away by hand.
            if os.path.samestat(os.fstat(lock), os.stat(self._path)):
                # The socket first: once the registration is gone, its name is the next host's.
                _remove_socket(self.info.socket)
                self._path.unlink()
        forks.let_go(self._listening)
        self.listener.close()
        forks.let_go(lock)
        os.close(lock)


def claim(
    home: Path,
    kind: str,
    id: str,
    *,
    clock: time.Clock | None = None,
    processes: Processes | None = None,
) -> Claim:
    """Become the one host of that kind and id, listening already; raises `HostBusy` when there is one."""
    check_name(kind, id)
    processes = processes or system_processes()
    _open_folder(home)
    path = _registration(home, kind, id)
    with _folder_lock(home):
        _make_room(path, kind, id, processes)
        listener = _listen(_socket_path(path))
        try:
            info = _own_info(kind, id, listener, clock or time.SystemClock(), processes)
            return Claim(info, path, _write(path, info), listener)
        except BaseException:
            _remove_socket(Path(listener.getsockname()))
            listener.close()
            raise


def _make_room(path: Path, kind: str, id: str, processes: Processes) -> None:
    seen = _look(path, processes)
    if seen is not None and seen.state != "stale":
        raise HostBusy(kind, id, seen.info.pid if seen.info else None)
    _remove(path, seen)


def _own_info(
    kind: str, id: str, listener: socket.socket, clock: time.Clock, processes: Processes
) -> HostInfo:
    started = processes.started(os.getpid())
    assert started is not None
    return HostInfo(
        kind,
        id,
        os.getpid(),
        started,
        Path(listener.getsockname()),
        tracedesk.__version__,
        time.format(clock.now_ns()),
    )


def _write(path: Path, info: HostInfo) -> int:
    """Put a registration in its place, whole and locked; returns the descriptor that holds the lock."""
    fresh = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(lock, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, json.dumps(info.document()) + b"\n")
        fresh.rename(path)
    except BaseException:
        os.close(lock)
        raise
    return lock


# --- looking -----------------------------------------------------------------------------------


def _look(path: Path, processes: Processes) -> Sighting | None:
    """What is registered under that name, judged by one open file: its words and its lock belong together."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:  # a link, or not ours to read
        return Sighting(match[1], match[2], "held", None)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return Sighting(match[1], match[2], "held", None)
        info = _parse(os.read(fd, _MOST), match[1], match[2])
        return Sighting(match[1], match[2], _judge(info, _is_locked(fd), processes), info)
    finally:
        os.close(fd)


def _judge(info: HostInfo | None, locked: bool, processes: Processes) -> State:
    if info is None:
        return "held" if locked else "stale"
    is_running = processes.started(info.pid) == info.process_start
    return "live" if locked and is_running else "stale"


def _is_locked(fd: int) -> bool:
    # A shared lock, so that two who look at once do not take each other for the host.
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _parse(text: bytes, kind: str, id: str) -> HostInfo | None:
    try:
        info = HostInfo.of(json.loads(text))
    except ValueError:
        return None
    return info if info is not None and (info.kind, info.id) == (kind, id) else None


def _listing(home: Path) -> list[Path]:
    try:
        return [path for path in (home / FOLDER).iterdir() if _NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []


# --- clearing away -----------------------------------------------------------------------------


def _sweep(home: Path, stale: Iterable[Sighting], processes: Processes) -> None:
    """Remove what is still stale under the folder's lock; when another holds it, the next look will do."""
    names = [_registration(home, sighting.kind, sighting.id) for sighting in stale]
    if not names:
        return
    with contextlib.suppress(BlockingIOError), _folder_lock(home, wait=False):
        for path in names:
            seen = _look(path, processes)
            if seen is not None and seen.state == "stale":
                _remove(path, seen)


def _remove(path: Path, seen: Sighting | None) -> None:
    if seen is not None and seen.info is not None:
        _remove_socket(seen.info.socket)
    _remove_socket(path.with_suffix(".sock"))
    path.unlink(missing_ok=True)


def _remove_socket(path: Path) -> None:
    """Remove a socket, and the folder made for it alone; whatever else bears that name is left alone."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    if path.parent.name.startswith(_PRIVATE):
        with contextlib.suppress(OSError):
            path.parent.rmdir()


# --- places ------------------------------------------------------------------------------------


def _registration(home: Path, kind: str, id: str) -> Path:
    return home.absolute() / FOLDER / f"{kind}-{id}.json"


def _open_folder(home: Path) -> None:
    folder = home / FOLDER
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


@contextlib.contextmanager
def _folder_lock(home: Path, *, wait: bool = True) -> Generator[None]:
    """Hold the folder: for moments only, and the system lets go of it when its holder dies."""
    fd = os.open(home / FOLDER / _MUTEX, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(fd)


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        _remove_socket(path)
        listener.close()
        raise
    return listener


def _socket_path(registration: Path) -> Path:
    """Beside the registration; where that is too long for a socket, alone in a new private folder."""
    beside = registration.with_suffix(".sock")
    if _fits(beside):
        return beside
    # Not the runtime directory of the login session: it vanishes at logout, and a host may not.
    for base in (tempfile.gettempdir(), "/tmp"):
        if _fits(Path(base) / f"{_PRIVATE}12345678" / "s") and os.access(base, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=base)) / "s"
    raise OSError(f"no folder has a path short enough for a socket; shorten {registration.parent}")


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST_SOCKET
