"""Work folders in the temporary folder: removed in the end, or swept once their process has gone."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from tracedesk.primitives.locks import try_lock

_PREFIX: Final = "tracedesk-work-"
_NAME: Final = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def work_folder(within: Path | None = None) -> Generator[Path]:
    """Make a folder for the body, by default in the temporary folder; the first one sweeps that before."""
    if within is None:
        _sweep_once(tempfile.gettempdir())
    path, descriptor = _made(within)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def held(path: Path) -> Generator[None]:
    """Keep a work folder of another process from being swept when that process ends first."""
    descriptor = os.open(path, _FLAGS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove this user's work folders that no process holds."""
    for path in folder.glob(f"{_PREFIX}*"):
        if _NAME.fullmatch(path.name):
            _remove_abandoned(path)


@cache
def _sweep_once(folder: str) -> None:
    sweep(Path(folder))


def _made(within: Path | None) -> tuple[Path, int]:
    """A new folder, and the descriptor whose lock shows that this process lives."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
        descriptor: int | None = None
        # Before the lock was taken, a sweep of another process may have removed the folder.
        with suppress(FileNotFoundError):
            descriptor = os.open(path, _FLAGS)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            path.lstat()
            return path, descriptor
        if descriptor is not None:
            os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return  # it went, or it is another user's, a file or a link
    try:
        if os.fstat(descriptor).st_uid == os.geteuid() and try_lock(descriptor):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
