"""Bodies named by their SHA-256: written once, never changed, bounded in size."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from threading import get_ident
from typing import Final

_NAME: Final = re.compile(r"[0-9a-f]{64}")
LARGEST: Final = 1 << 20
ALL: Final = 1 << 30


class Payloads:
    """The folder of bodies of one home; a body past the caps is not kept, and its record says so."""

    def __init__(self, folder: Path, *, largest: int = LARGEST, all: int = ALL) -> None:
        self._folder = folder
        self._largest = largest
        self._all = all
        self._used: int | None = None

    def put(self, body: bytes) -> str | None:
        """Keep `body` and return its name, or None when a cap forbids it."""
        if len(body) > self._largest or self.used() + len(body) > self._all:
            return None
        name = hashlib.sha256(body).hexdigest()
        place = self._place(name)
        if not _touch(place):
            _write(place, body)
            self._used = self.used() + len(body)
        return name

    def get(self, name: str) -> bytes | None:
        """The body of that name; one that no longer matches its name is not returned."""
        if not _NAME.fullmatch(name):
            return None
        try:
            body = self._place(name).read_bytes()
        except FileNotFoundError:
            return None
        return body if hashlib.sha256(body).hexdigest() == name else None

    def used(self) -> int:
        """Bytes kept so far, counted once and then kept up."""
        if self._used is None:
            files = self._folder.glob("??/*") if self._folder.exists() else ()
            self._used = sum(file.stat().st_size for file in files)
        return self._used

    def _place(self, name: str) -> Path:
        return self._folder / name[:2] / name


def _touch(place: Path) -> bool:
    """Mark a body as used now, so that no sweep takes it before its new record is written."""
    try:
        os.utime(place)
    except FileNotFoundError:
        return False
    return True


def _write(place: Path, body: bytes) -> None:
    """Write whole or not at all; two writers of one body write the same bytes."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, place)
