"""Bodies named by their SHA-256: written once, never changed, compressed, bounded in size.

A body is named by its own bytes, however its file holds them: compressed, or plain where that is no smaller
and in files of older homes.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from pathlib import Path
from threading import Lock, get_ident
from time import monotonic
from typing import Final

_NAME: Final = re.compile(r"[0-9a-f]{64}")
LARGEST: Final = 1 << 20
"""Bytes of one body."""
ALL: Final = 1 << 30
"""Bytes of all files, as they are stored."""
RESERVE: Final = 4
"""Times `ALL` that bodies which must be kept may fill."""
RECOUNT_S: Final = 60.0
"""Others may have pruned: a full folder is counted again, this often at most."""


class Payloads:
    """The folder of bodies of one home; a body past the caps is not kept, and its record says so."""

    def __init__(self, folder: Path, *, largest: int = LARGEST, all: int = ALL) -> None:
        self._folder = folder
        self._largest = largest
        self._all = all
        self._most = RESERVE * all
        self._counting = Lock()
        self._used: int | None = None
        self._counted_at = 0.0

    def put(self, body: bytes, *, must: bool = False) -> str | None:
        """Keep `body` and return its name, or None when a cap forbids it. One that is there has its name.

        `must` is for what trades rest on: a full folder takes it all the same, up to a bound of its own.
        """
        name = hashlib.sha256(body).hexdigest()
        place = self._place(name)
        if _touch(place):
            return name
        if len(body) > self._largest:
            return None
        stored = _packed(body)
        if not self._reserve(len(stored), self._most if must else self._all):
            return None
        try:
            _write(place, stored)
        except BaseException:
            self._give_back(len(stored))
            raise
        return name

    def get(self, name: str) -> bytes | None:
        """The body of that name; one that no longer matches its name is not returned."""
        if not _NAME.fullmatch(name):
            return None
        try:
            stored = self._place(name).read_bytes()
        except FileNotFoundError:
            return None
        if _is(stored, name):
            return stored
        body = _unpacked(stored, max(self._largest, LARGEST))
        return body if body is not None and _is(body, name) else None

    def used(self) -> int:
        """Bytes kept so far, as they are stored; counted once and then kept up."""
        with self._counting:
            return self._count()

    def _reserve(self, size: int, most: int) -> bool:
        with self._counting:
            if self._count() + size > most and monotonic() - self._counted_at >= RECOUNT_S:
                self._used = None
            if self._count() + size > most:
                return False
            self._used = self._count() + size
            return True

    def _give_back(self, size: int) -> None:
        with self._counting:
            self._used = self._count() - size

    def _count(self) -> int:
        if self._used is None:
            files = self._folder.glob("??/*") if self._folder.exists() else ()
            self._used = sum(map(_size, files))
            self._counted_at = monotonic()
        return self._used

    def _place(self, name: str) -> Path:
        return self._folder / name[:2] / name


def _is(body: bytes, name: str) -> bool:
    return hashlib.sha256(body).hexdigest() == name


def _packed(body: bytes) -> bytes:
    return min(zlib.compress(body), body, key=len)


def _unpacked(stored: bytes, most: int) -> bytes | None:
    """The body of a compressed file; None for what is none, is cut off, or would be larger than any body."""
    unpacking = zlib.decompressobj()
    try:
        body = unpacking.decompress(stored, most + 1)
    except zlib.error:
        return None
    return body if unpacking.eof and len(body) <= most else None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0  # it went while we counted


def _touch(place: Path) -> bool:
    """Mark a body as used now, so that no sweep takes it before its new record is written."""
    try:
        os.utime(place)
    except FileNotFoundError:
        return False
    return True


def _write(place: Path, stored: bytes) -> None:
    """Write whole or not at all; two writers of one body write the same bytes."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(stored)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, place)
