"""A stream's row and its head, looked up on any connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tracedesk.journal import chain
from tracedesk.journal.file import MAX_SEQ, key
from tracedesk.journal.model import Head, Stream
from tracedesk.journal.sqlite import Connection

FRAMING: Final = 2
"""Framing of a new stream, unless another one is asked for."""
FORGETTABLE: Final = 3
"""The framing of streams whose bodies can be taken out. A hash for each costs large batches a tenth."""

_COLUMNS = "id, name, kind, created_ns, meta, hash"


def every(connection: Connection) -> list[Stream]:
    """All streams of the file, oldest first."""
    return [_stream(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM stream ORDER BY id")]


def find(connection: Connection, name: str) -> Stream | None:
    """The stream of that name, if the file has it."""
    for row in connection.execute(f"SELECT {_COLUMNS} FROM stream WHERE name = ?", (name,)):
        return _stream(row)
    return None


def head_of(connection: Connection, stream: Stream) -> Head:
    """How far the stream reaches now."""
    query = "SELECT last, hash FROM batch WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"
    for last, digest in connection.execute(query, span(stream)):
        return Head(last, digest)
    return Head(0, chain.genesis(stream))


def genesis_of(connection: Connection, stream: Stream) -> bytes:
    """The hash that was stored with the stream's row."""
    return next(connection.execute("SELECT hash FROM stream WHERE id = ?", (stream.id,)))[0]


def span(stream: Stream) -> tuple[int, int]:
    """The least and greatest row id that an event or batch of the stream can have."""
    return key(stream.id, 0), key(stream.id, MAX_SEQ)


def _stream(row: tuple[int, str, str, int, bytes, bytes]) -> Stream:
    stream = Stream(*row[:5], framing=FORGETTABLE)
    for framing in (FRAMING, FORGETTABLE):
        if chain.genesis(stream := replace(stream, framing=framing)) == row[5]:
            return stream
    return replace(stream, framing=1)
