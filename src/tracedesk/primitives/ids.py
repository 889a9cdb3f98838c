"""Identifiers of sessions, calls and events, and the references that point at them."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

MAX_REFERENCE = 256
"""Characters a reference may have; the longest that can be formed is shorter."""

MAX_SEQ = 2**63 - 1

_SCHEME = "tracedesk://"
_DASHED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BARE = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOOLSET = re.compile(r"[a-z][a-z0-9_]{0,31}")
_STREAM = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
_SEQ = re.compile(r"0|[1-9][0-9]{0,18}")
_RESERVED = frozenset({"calls", "payloads"})

_COUNTER_BITS = 42
_LOW_BITS = 30
_TAIL_DIGITS = 8
_DRAWN = _TAIL_DIGITS + 12
"""Digits for the tail, and for where the counter starts."""
_POOL = 640
"""Bytes asked of the system at a time: one system call serves many ids."""


def uuid4() -> str:
    """Return a random UUID, for sessions and other things nobody may guess."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return dashed(f"{digits[:12]}4{digits[13:16]}{variant}{digits[17:]}")


def uuid7() -> str:
    """Return a UUID that sorts after every one this process made before, for calls, runs and events."""
    return _process_sequence.next()


class TimeOrdered:
    """Makes UUIDs of version 7 that strictly increase, whatever the clock does (RFC 9562, section 6.2)."""

    def __init__(
        self,
        now_ns: Callable[[], int] = time.time_ns,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._now_ns = now_ns
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._ms = -1
        self._counter = 0
        self._pool: list[str] = []

    def next(self) -> str:
        """Return the next UUID."""
        with self._lock:
            drawn = self._pool.pop() if self._pool else self._draw()
            ms = self._now_ns() // 1_000_000
            self._counter += 1
            if ms > self._ms or self._counter >> _COUNTER_BITS:
                self._ms = max(ms, self._ms + 1)
                # The top bit starts clear, so that a millisecond has room for 2**41 more.
                self._counter = int(drawn[_TAIL_DIGITS:], 16) & (2 ** (_COUNTER_BITS - 1) - 1)
            ms, high, low = self._ms, self._counter >> _LOW_BITS, self._counter & (2**_LOW_BITS - 1)
        groups = (ms >> 16, ms & 0xFFFF, high, 0x8000 | low >> 16, low & 0xFFFF, drawn[:_TAIL_DIGITS])
        return "%08x-%04x-7%03x-%04x-%04x%s" % groups  # noqa: UP031 - an f-string takes half as long again

    def _draw(self) -> str:
        """What one id needs of randomness, and the same for the next ones."""
        digits = self._random_bytes(_POOL).hex()
        self._pool = [digits[at : at + _DRAWN] for at in range(0, len(digits), _DRAWN)]
        return self._pool.pop()


def dashed(text: str) -> str:
    """Return the canonical lower-case dashed form of a UUID given dashed or as 32 hex digits."""
    digits = bare(text)
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def bare(text: str) -> str:
    """Return the 32 lower-case hex digits of a UUID given dashed or bare."""
    lower = text.lower() if text.isascii() else ""
    if _BARE.fullmatch(lower):
        return lower
    if _DASHED.fullmatch(lower):
        return lower.replace("-", "")
    raise ValueError(f"{_shown(text)} is not a UUID; write it like 0190b5a0-3c1e-7d4f-8a2b-6c5d4e3f2a1b")


def is_uuid(text: str, version: int | None = None) -> bool:
    """Return whether the text is a dashed UUID in either case, of the given version if one is named."""
    if not text.isascii() or not _DASHED.fullmatch(text.lower()):
        return False
    return version is None or text[14].lower() == f"{version:x}"


def short(text: str, length: int = 8) -> str:
    """Return the last hex digits of a UUID, which are random where the first ones are a shared time."""
    if not 4 <= length <= 32:
        raise ValueError(f"a short id has 4 to 32 digits, not {length}")
    return bare(text)[-length:]


def milliseconds_of(text: str) -> int:
    """Return the Unix milliseconds in which a version 7 UUID was made."""
    digits = bare(text)
    if digits[12] != "7":
        raise ValueError(f"{text!r} carries no time; only version 7 UUIDs do")
    return int(digits[:12], 16)


@dataclass(frozen=True, slots=True)
class StreamRef:
    """A reference to one entry of a toolset's stream."""

    kind: ClassVar[Literal["stream"]] = "stream"
    toolset: str
    stream: str
    seq: int

    def __post_init__(self) -> None:
        if not _TOOLSET.fullmatch(self.toolset) or self.toolset in _RESERVED:
            raise ValueError(f"{_shown(self.toolset)} is not a toolset name; use lower-case letters and _")
        if not _STREAM.fullmatch(self.stream):
            raise ValueError(
                f"{_shown(self.stream)} is not a stream name; use letters, digits and . _ : @ + -"
            )
        if not 0 <= self.seq <= MAX_SEQ:
            raise ValueError(f"{self.seq} is not a seq; use an integer from 0 to {MAX_SEQ}")

    def __str__(self) -> str:
        return f"{_SCHEME}{self.toolset}/{self.stream}/{self.seq}"


@dataclass(frozen=True, slots=True)
class CallRef:
    """A reference to the record of a tool call."""

    kind: ClassVar[Literal["call"]] = "call"
    id: str

    def __post_init__(self) -> None:
        if not _DASHED.fullmatch(self.id):
            raise ValueError(f"{_shown(self.id)} is not a call id; use a lower-case dashed UUID")

    def __str__(self) -> str:
        return f"{_SCHEME}calls/{self.id}"


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """A reference to a stored body by the SHA-256 of its content."""

    kind: ClassVar[Literal["payload"]] = "payload"
    sha256: str

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"{_shown(self.sha256)} is not a SHA-256; use 64 lower-case hex digits")

    def __str__(self) -> str:
        return f"{_SCHEME}payloads/{self.sha256}"


Ref = StreamRef | CallRef | PayloadRef


def parse_ref(text: str) -> Ref:
    """Return the reference a text spells; there is exactly one spelling of each, which ``str`` gives back."""
    if len(text) > MAX_REFERENCE:
        raise ValueError(f"a reference of {len(text)} characters is too long; use at most {MAX_REFERENCE}")
    if not text.startswith(_SCHEME):
        raise _no_reference(text)
    return _ref_of(text.removeprefix(_SCHEME).split("/"), text)


def _ref_of(parts: list[str], text: str) -> Ref:
    match parts:
        case ["calls", call]:
            return CallRef(call)
        case ["payloads", digest]:
            return PayloadRef(digest)
        case [toolset, stream, seq] if _SEQ.fullmatch(seq):
            return StreamRef(toolset, stream, int(seq))
        case _:
            raise _no_reference(text)


def _no_reference(text: str) -> ValueError:
    return ValueError(
        f"{_shown(text)} is not a reference; write tracedesk://<toolset>/<stream>/<seq>, "
        "tracedesk://calls/<uuid> or tracedesk://payloads/<sha256>"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "…")


_process_sequence = TimeOrdered()


def _start_anew() -> None:
    # A forked child would otherwise continue its parent's counter, or inherit its lock while held.
    global _process_sequence
    _process_sequence = TimeOrdered()


os.register_at_fork(after_in_child=_start_anew)
