"""Key of a home that request state is sealed with, so that every desk of the home takes it back."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tracedesk.home import HomeError
from tracedesk.primitives.disk import sync
from tracedesk.shared import boot
from tracedesk.wire.sdk import AESGCMRequestStateCodec

FILE: Final = "request-state.key"
_BYTES: Final = 32


class HomeCodec:
    """Seals and unseals request state by the home's key, which is read or made when it is first needed.

    The key counts for one run of the system, as long as the list of used answers does; see `SharedStore`.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is the home's `run`."""
        self._path = folder / FILE
        self._codec: AESGCMRequestStateCodec | None = None

    def seal(self, payload: bytes) -> str:
        return self._ready().seal(payload)

    def unseal(self, token: str) -> bytes:
        return self._ready().unseal(token)

    def _ready(self) -> AESGCMRequestStateCodec:
        if self._codec is None:
            key = hashlib.sha256(home_key(self._path) + boot().encode()).digest()
            self._codec = AESGCMRequestStateCodec([key])
        return self._codec


def home_key(path: Path) -> bytes:
    """The key in a file that only its owner reads; of desks that make it at once, one does, for all."""
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != _BYTES:
        raise HomeError(f"{path} is damaged. Remove it; the next desk makes another")
    return key


def _make(path: Path) -> None:
    """Write the key beside its place, and link it there: a name that is taken stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, fresh = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        sync(path.parent)
    finally:
        Path(fresh).unlink()
