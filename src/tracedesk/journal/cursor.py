"""A place in a stream, bound to a watermark: what was there when the reading began."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, replace

from tracedesk.journal.model import BadEntry

_DIGEST = 6


@dataclass(frozen=True, slots=True)
class Cursor:
    """Read up to `after`; `upto` is the watermark it will not pass."""

    stream: str
    after: int
    upto: int

    @property
    def is_spent(self) -> bool:
        return self.after >= self.upto

    def advanced(self, seq: int) -> Cursor:
        return replace(self, after=seq)

    def text(self) -> str:
        """The cursor as clients carry it: short, opaque, and good for its own stream only."""
        raw = f"{self.after}.{self.upto}".encode()
        return base64.urlsafe_b64encode(_mark(self.stream, raw) + raw).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, stream: str) -> Cursor:
        """The cursor that `text` is, or an error when it is another stream's or no cursor at all."""
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            mark, raw = data[:_DIGEST], data[_DIGEST:]
            after, upto = (int(part) for part in raw.decode("ascii").split("."))
        except (binascii.Error, ValueError):
            raise BadEntry("this is not a cursor; send the one the last page returned") from None
        if mark != _mark(stream, raw) or not 0 <= after <= upto:
            raise BadEntry("this cursor belongs to another stream; start without one")
        return cls(stream, after, upto)


def _mark(stream: str, raw: bytes) -> bytes:
    return hashlib.sha256(stream.encode() + b"\n" + raw).digest()[:_DIGEST]
