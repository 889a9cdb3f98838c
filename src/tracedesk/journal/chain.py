"""The hash chain over batches: any change of any row breaks it at the row's batch."""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import Final

from tracedesk.journal.model import Columns, Stream
from tracedesk.primitives import json

_FRAME: Final = Struct(">qqqII")
_SPAN: Final = Struct(">qq")


def genesis(stream: Stream) -> bytes:
    """The hash before the first batch: it binds the stream's own row."""
    row = json.dumps([stream.id, stream.name, stream.kind, stream.created_ns])
    return hashlib.sha256(b"\n".join((b"tracedesk journal 1", row, stream.raw_meta))).digest()


def link(previous: bytes, seqs: range, batch: Columns) -> bytes:
    """The hash after a batch of events with these seqs."""
    parts = [previous, _SPAN.pack(seqs[0], seqs[-1])]
    frame = _FRAME.pack
    names = {kind: kind.encode() for kind in set(batch.kinds)}
    for seq, kind, time_ns, body, parent in zip(seqs, *batch, strict=True):
        name = names[kind]
        parts += (frame(seq, time_ns, parent or 0, len(name), len(body)), name, body)
    return hashlib.sha256(b"".join(parts)).digest()


def seal(head: bytes, status: str, ended_ns: int, manifest: bytes) -> bytes:
    """The hash that closes a sealed stream: it binds the seal's own row."""
    return hashlib.sha256(
        b"\n".join((b"seal", head, status.encode(), str(ended_ns).encode(), manifest))
    ).digest()


def tombstone(sealed: bytes, pruned_ns: int) -> bytes:
    """The hash that binds a tombstone to the seal it stands for."""
    return hashlib.sha256(b"\n".join((b"tombstone", sealed, str(pruned_ns).encode()))).digest()
