"""What parsers and their parent say to each other: frames of a length and a marshalled value.

Marshal is for one interpreter; both ends are this program.
"""

from __future__ import annotations

import marshal
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


def unpacked(body: bytes) -> Any:
    """What a frame's body holds."""
    return marshal.loads(body)


def plain(outcome: Outcome) -> tuple[Any, ...]:
    """An outcome as marshal takes it."""
    return (_KINDS.index(type(outcome)), *outcome)


def outcome(value: tuple[Any, ...]) -> Outcome:
    """The outcome that `plain` was given."""
    return _KINDS[value[0]](*value[1:])
