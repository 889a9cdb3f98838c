"""What parsers and their parent say to each other: frames of a length and a marshalled value.

Marshal is for one interpreter; both ends are this program.
"""

from __future__ import annotations

import marshal
import os
import struct
from typing import Any, Final

from tracedesk.codegraph.graph.rows import FileRows, Outcome, Same, Skipped

LENGTH: Final = struct.Struct("<I")
READY: Final = "ready"
_KINDS: Final[tuple[Any, ...]] = (FileRows, Same, Skipped)


def packed(value: Any) -> bytes:
    """A frame."""
    body = marshal.dumps(value)
    return LENGTH.pack(len(body)) + body


def unpacked(body: bytes | bytearray) -> Any:
    """What a frame's body holds."""
    return marshal.loads(body)


class Frames:
    """The frames of a pipe, whose bytes come in pieces: each is read to where it will stay."""

    def __init__(self) -> None:
        self._part = bytearray(LENGTH.size)
        self._filled = 0
        self._is_body = False
        self.is_ended = False

    def read(self, fd: int) -> bytearray | None:
        """Read what is there of one frame; its body when that was the last of it."""
        count = os.readv(fd, [memoryview(self._part)[self._filled :]])
        self._filled += count
        self.is_ended = not count
        if self._filled < len(self._part):
            return None
        part, self._filled = self._part, 0
        self._is_body = not self._is_body
        if self._is_body:
            self._part = bytearray(LENGTH.unpack(part)[0])
            return None
        self._part = bytearray(LENGTH.size)
        return part


Plain = tuple[Any, ...] | bytes
"""An outcome as marshal takes it, or marshalled already."""


def plain(outcome: Outcome) -> Plain:
    """An outcome that can be put into a frame."""
    return (_KINDS.index(type(outcome)), *outcome)


def outcome(value: Plain) -> Outcome:
    """The outcome that `plain` was given."""
    place, *fields = unpacked(value) if isinstance(value, bytes) else value
    return _KINDS[place](*fields)
