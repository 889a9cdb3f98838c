"""The inbox: files that hooks dropped, taken by one desk at a time, each read whole or set aside.

A file is a line of the hook's own (format, client, event, time) and then the client's words as they came.
It stays until what it says is in the journal; a desk that dies before that leaves it to the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import json as lenient
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Container, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from tracedesk.codegraph.capture.bounds import DEEPEST, is_deep
from tracedesk.primitives import json
from tracedesk.primitives.locks import try_lock
from tracedesk.primitives.redaction import Secrets, redact_text
from tracedesk.primitives.time import HOUR

FORMAT: Final = 1
LARGEST: Final = 2 << 20
"""Bytes of a file that is read; hooks and posts have lower limits of their own."""
MOST_FILES: Final = 4_096
MOST_ASIDE: Final = 256
"""Files set aside that are kept; the oldest go first."""
ASIDE: Final = "aside"
LOSSES: Final = ".lost"
_LOCK: Final = ".lock"
_SHOWN: Final = 4_000
_NUMBERS: Final = itertools.count()
_CLIENT: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_EVENT: Final = re.compile(r"[A-Za-z]{1,40}")
_CAREFUL: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Malformed(ValueError):
    """A drop that says nothing a desk could record, with the reason."""


class InboxFull(OSError):
    """As many drops wait as may."""


@dataclass(frozen=True, slots=True)
class Drop:
    """What one hook said."""

    client: str
    event: str
    received_ns: int
    hook: dict[str, Any]


def write(folder: Path, drop: Drop) -> Path:
    """Put a drop into the inbox, as the hook's own script does."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if len(os.listdir(folder)) >= MOST_FILES:
        raise InboxFull(f"{MOST_FILES} drops wait in {folder}; start a desk with codegraph to take them in")
    head = {"format": FORMAT, "client": drop.client, "event": drop.event, "received_ns": drop.received_ns}
    path = folder / f"{drop.received_ns:020}-{os.getpid()}-{next(_NUMBERS)}.json"
    fresh = path.with_name(f".{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
        file.write(json.dumps(head) + b"\n" + json.dumps(drop.hook))
    os.replace(fresh, path)
    return path


def parse(content: bytes) -> Drop:
    """The drop in a file; anything else is `Malformed`."""
    first, _, rest = content.partition(b"\n")
    head, hook = _object(first, "its first line"), said(rest)
    client, event, received = head.get("client"), head.get("event"), head.get("received_ns")
    if head.get("format") != FORMAT:
        raise Malformed(f"its format is {head.get('format')!r}, not {FORMAT}")
    if not isinstance(client, str) or not _CLIENT.fullmatch(client):
        raise Malformed(f"{client!r} is no client's name")
    if not isinstance(event, str) or not _EVENT.fullmatch(event):
        raise Malformed(f"{event!r} is no event's name")
    if type(received) is not int or not 0 < received < 2**63:
        raise Malformed(f"{received!r} is no time in nanoseconds")
    return Drop(client, event, received, hook)


def said(text: bytes) -> dict[str, Any]:
    """What a client said, with a mark in place of halves of characters that its cuts have left."""
    try:
        return _object(text, "what the client said")
    except Malformed as fault:
        mended = _mended_text(text) if b"\\ud" in text.lower() else None
        if mended is None:
            raise fault from None
    return _object(mended, "what the client said")


def _mended_text(text: bytes) -> bytes | None:
    """The same JSON with its lone surrogates replaced; None when it is no JSON at all."""
    try:
        value: Any = lenient.loads(text, parse_float=Decimal)
        return json.dumps(_mended(value))
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return None


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as fault:
        raise Malformed(f"{what} is not JSON: {fault}") from None
    if not isinstance(value, dict):
        raise Malformed(f"{what} is JSON, but not an object")
    if is_deep(value):
        raise Malformed(f"{what} nests deeper than {DEEPEST}")
    return cast("dict[str, Any]", value)


class Inbox:
    """The folder, as the desk that drains it sees it."""

    def __init__(self, folder: Path, secrets: Secrets | None = None) -> None:
        self.folder = folder
        self._secrets = secrets

    @contextmanager
    def alone(self) -> Generator[bool]:
        """Whether this desk drains now; another that does will also take what comes meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield try_lock(descriptor)
        finally:
            os.close(descriptor)

    def waiting(self, most: int, besides: Container[str] = ()) -> list[Path]:
        """The oldest files, in the order they were dropped, without those of the names in `besides`."""
        with os.scandir(self.folder) as entries:
            names = [e.name for e in entries if e.name[0] != "." and not e.is_dir(follow_symlinks=False)]
        return [self.folder / name for name in sorted(names) if name not in besides][:most]

    def read(self, path: Path) -> Drop:
        """What a file says; a link, a pipe or a giant is `Malformed` too."""
        return parse(_content(path))

    def remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()

    def set_aside(self, path: Path, reason: str) -> None:
        """Put a file that cannot be taken where it is in nobody's way: its reason, and its text redacted."""
        text = _glimpse(path)
        folder = self.folder / ASIDE
        folder.mkdir(exist_ok=True, mode=0o700)
        shown = redact_text(text[:_SHOWN], self._secrets)
        note = json.dumps({"file": shown_name(path), "reason": reason, "text": shown})
        descriptor = os.open(folder / path.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(note + b"\n")
        self.remove(path)
        for old in sorted(folder.iterdir())[:-MOST_ASIDE]:
            self.remove(old)

    def take_losses(self) -> Counter[str]:
        """How many drops hooks could not keep since the last time, by reason."""
        path = self.folder / LOSSES
        taken = path.with_name(f"{LOSSES}.taken")
        try:
            os.replace(path, taken)
            reasons = Counter(_content(taken).decode("ascii", "replace").split())
            taken.unlink()
        except (Malformed, OSError):
            return Counter()
        return reasons

    def tidy(self) -> None:
        """Remove what hooks that were killed left half written."""
        for path in self.folder.glob(".*.json"):
            with contextlib.suppress(OSError):
                if time.time_ns() - path.lstat().st_mtime_ns > HOUR:
                    path.unlink()


def shown_name(path: Path) -> str:
    """A file's name as text, also one that is no UTF-8."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def _content(path: Path) -> bytes:
    try:
        descriptor = os.open(path, _CAREFUL)
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise Malformed(f"it cannot be opened: {fault.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Malformed("it is not a regular file")
        if found.st_size > LARGEST:
            raise Malformed(f"it has {found.st_size} bytes; at most {LARGEST} are read")
        return _whole(file)


def _whole(file: BinaryIO) -> bytes:
    try:
        return file.read(LARGEST)
    except OSError as fault:
        raise Malformed(f"it cannot be read: {fault.strerror}") from None


def _glimpse(path: Path) -> str:
    try:
        return _content(path).decode("utf-8", "replace")
    except (Malformed, OSError):
        return ""
