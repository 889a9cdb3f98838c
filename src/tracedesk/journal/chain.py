"""The hash chain over batches: any change of any row breaks it at the row's batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from struct import Struct, pack
from typing import Final

from tracedesk.journal.model import Columns, Entry, Stream
from tracedesk.primitives import json

_FRAME: Final = Struct(">qqqII")
_SPAN: Final = Struct(">qq")
_ONE: Final = Struct(">qqqqII")
"""Framing 2's span and figures of a batch of one."""
_HASHED: Final = Struct(">qqqqI")
"""Framing 3's."""


def genesis(stream: Stream) -> bytes:
    """The hash before the first batch: it binds the stream's own row and how its batches are framed."""
    row = json.dumps([stream.id, stream.name, stream.kind, stream.created_ns])
    head = b"tracedesk journal %d" % stream.framing
    return hashlib.sha256(b"\n".join((head, row, stream.raw_meta))).digest()


def link(
    stream: Stream, previous: bytes, seqs: range, batch: Columns, hashes: Sequence[bytes] | None = None
) -> bytes:
    """The hash after a batch of the stream's events with these seqs.

    Framing 3 reads `hashes` in place of bodies, for who has them.
    """
    parts = [previous, _SPAN.pack(seqs[0], seqs[-1])]
    if stream.framing > 2:
        parts += _by_hashes(seqs, batch, hashes)
    else:
        parts += (_by_columns if stream.framing == 2 else _by_events)(seqs, batch)
    return hashlib.sha256(b"".join(parts)).digest()


def body_hash(body: bytes) -> bytes:
    """Hash that stands for a body in the chain of framing 3."""
    return hashlib.sha256(body).digest()


def link_one(stream: Stream, previous: bytes, seq: int, entry: Entry) -> bytes:
    """The same hash for a batch of one, which is what most are that somebody waits for."""
    kind, time_ns, body, parent = entry
    if stream.framing == 1:
        return link(stream, previous, range(seq, seq + 1), Columns([kind], [time_ns], [body], [parent or 0]))
    name = kind.encode()
    if stream.framing == 3:
        figures = _HASHED.pack(seq, seq, time_ns, parent or 0, len(name))
        return hashlib.sha256(b"".join((previous, figures, name, body_hash(body)))).digest()
    figures = _ONE.pack(seq, seq, time_ns, parent or 0, len(name), len(body))
    return hashlib.sha256(b"".join((previous, figures, name, body))).digest()


def _by_hashes(seqs: range, batch: Columns, hashes: Sequence[bytes] | None) -> list[bytes]:
    """Framing 3: times, parents and lengths of kinds; then all kinds, then the hash of each body."""
    names = {kind: kind.encode() for kind in set(batch.kinds)}
    kinds = list(map(names.__getitem__, batch.kinds))
    count = len(seqs)
    figures = pack(f">{2 * count}q{count}I", *batch.times, *batch.parents, *map(len, kinds))
    return [figures, *kinds, *(map(body_hash, batch.bodies) if hashes is None else hashes)]


def _by_columns(seqs: range, batch: Columns) -> list[bytes]:
    """Framing 2: times, parents, lengths of kinds and of bodies; then all kinds, then all bodies.

    The batch's seqs say how many of each there are, so no two batches read alike.
    """
    names = {kind: kind.encode() for kind in set(batch.kinds)}
    kinds = list(map(names.__getitem__, batch.kinds))
    count = len(seqs)
    layout = f">{2 * count}q{2 * count}I"
    figures = pack(layout, *batch.times, *batch.parents, *map(len, kinds), *map(len, batch.bodies))
    return [figures, *kinds, *batch.bodies]


def _by_events(seqs: range, batch: Columns) -> list[bytes]:
    """Framing 1, of streams that were begun before there was another: event after event."""
    parts: list[bytes] = []
    for seq, kind, time_ns, body, parent in zip(seqs, *batch, strict=True):
        name = kind.encode()
        parts += (_FRAME.pack(seq, time_ns, parent, len(name), len(body)), name, body)
    return parts


def seal(head: bytes, status: str, ended_ns: int, manifest: bytes) -> bytes:
    """The hash that closes a sealed stream: it binds the seal's own row."""
    return hashlib.sha256(
        b"\n".join((b"seal", head, status.encode(), str(ended_ns).encode(), manifest))
    ).digest()


def tombstone(sealed: bytes, pruned_ns: int) -> bytes:
    """The hash that binds a tombstone to the seal it stands for."""
    return hashlib.sha256(b"\n".join((b"tombstone", sealed, str(pruned_ns).encode()))).digest()
