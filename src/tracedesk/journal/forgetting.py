"""Bodies taken out of streams: a hash stays in place of each, and a record of who took it out and when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tracedesk.journal import chain
from tracedesk.journal.file import SEQ_BITS, key
from tracedesk.journal.model import BadEntry, Entry, OldFraming, Stream
from tracedesk.journal.sqlite import Connection
from tracedesk.journal.stream import FORGETTABLE, find, span
from tracedesk.primitives import json

STREAM: Final = "forgotten"
"""The stream of a file in which it is recorded what was taken out of the others."""
KIND: Final = "forgotten"
_STAND_IN: Final = re.compile(rb'\{"forgotten":"([0-9a-f]{64})","at":(-?[0-9]{1,19})\}')


class Place(NamedTuple):
    """An event whose body is taken out, and the hash of that."""

    stream: int
    seq: int
    hash: bytes


class Forgotten(NamedTuple):
    """Remainder of a body that was taken out."""

    hash: bytes
    at_ns: int


def place_of(connection: Connection, stream: Stream, seq: int) -> Place:
    """Return the place of an event whose body can be taken out; one that was taken out keeps its hash."""
    if stream.framing != FORGETTABLE:
        raise OldFraming(stream.name)
    for (body,) in connection.execute("SELECT body FROM event WHERE id = ?", (key(stream.id, seq),)):
        known = of(body)
        return Place(stream.id, seq, chain.body_hash(body) if known is None else known.hash)
    raise BadEntry(f"stream {stream.name!r} has no event {seq}")


def of(body: bytes) -> Forgotten | None:
    """Return what a body that stands in for another says; None for any other body."""
    found = _STAND_IN.fullmatch(body)
    return None if found is None else Forgotten(bytes.fromhex(found[1].decode()), int(found[2]))


def bury(connection: Connection, place: Place, now_ns: int) -> None:
    """Put the hash in the place of the body."""
    row = key(place.stream, place.seq)
    (body,) = next(connection.execute("SELECT body FROM event WHERE id = ?", (row,)))
    if of(body) is None:
        stand_in = b'{"forgotten":"%s","at":%d}' % (place.hash.hex().encode(), now_ns)
        connection.execute("UPDATE event SET body = ? WHERE id = ?", (stand_in, row))


def entry(places: Sequence[Place], facts: Mapping[str, Any], now_ns: int) -> Entry:
    """Return the event that records a forgetting."""
    gone = [[place.stream, place.seq, place.hash.hex()] for place in places]
    return Entry(KIND, now_ns, json.dumps({**facts, "events": gone}))


def records(connection: Connection) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the records of a file, oldest first, each with its time."""
    stream = find(connection, STREAM)
    if stream is None:
        return []
    query = "SELECT time_ns, body FROM event WHERE id BETWEEN ? AND ? ORDER BY id"
    return [(time_ns, json.loads(body)) for time_ns, body in connection.execute(query, span(stream))]


def hashes(connection: Connection) -> dict[int, bytes]:
    """Return the hashes of all bodies that the records say were taken out, by the row of the event."""
    gone = (event for _, record in records(connection) for event in record["events"])
    return {stream << SEQ_BITS | seq: bytes.fromhex(digest) for stream, seq, digest in gone}
