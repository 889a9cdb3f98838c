"""The end of a stream: a manifest under the chain, and later perhaps a tombstone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tracedesk.journal import chain
from tracedesk.journal.model import Head, JournalError, Seal, Status, Stream
from tracedesk.journal.sqlite import Connection
from tracedesk.journal.stream import head_of, span
from tracedesk.journal.tally import Tally
from tracedesk.primitives import json

_OPEN_HEAD: Final = """
SELECT last, hash, EXISTS(SELECT 1 FROM seal WHERE stream = ?3) FROM batch
WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1
"""


def close(
    connection: Connection,
    stream: Stream,
    status: Status,
    extra: Mapping[str, Any],
    now_ns: int,
    tally: Tally | None = None,
) -> Seal:
    """Write the stream's seal, or return the one it has. A tally of all its events saves counting them."""
    known = of(connection, stream)
    if known is not None:
        return known
    head = head_of(connection, stream)
    if tally is None or tally.events != head.seq:
        tally = _counted(connection, stream)
    manifest = json.dumps(_manifest(stream, head, tally, extra))
    row = (stream.id, status, now_ns, manifest, chain.seal(head.hash, status, now_ns, manifest))
    connection.execute("INSERT INTO seal VALUES(?,?,?,?,?)", row)
    return Seal(status, now_ns, json.loads(manifest))


def of(connection: Connection, stream: Stream) -> Seal | None:
    """The stream's seal, if it has one."""
    query = "SELECT status, ended_ns, manifest FROM seal WHERE stream = ?"
    for status, ended, manifest in connection.execute(query, (stream.id,)):
        return Seal(status, ended, json.loads(manifest))
    return None


def open_head(connection: Connection, stream: Stream) -> Head | None:
    """How far the stream reaches now, or None if it is sealed."""
    for last, digest, sealed in connection.execute(_OPEN_HEAD, (*span(stream), stream.id)):
        return None if sealed else Head(last, digest)
    return None if is_sealed(connection, stream) else Head(0, chain.genesis(stream))


def is_sealed(connection: Connection, stream: Stream) -> bool:
    return any(connection.execute("SELECT 1 FROM seal WHERE stream = ?", (stream.id,)))


def is_pruned(connection: Connection, stream: Stream) -> bool:
    return any(connection.execute("SELECT 1 FROM tombstone WHERE stream = ?", (stream.id,)))


def manifest(connection: Connection, stream: Stream) -> Mapping[str, Any]:
    """The manifest of the stream's seal; empty without a seal."""
    known = of(connection, stream)
    return known.manifest if known is not None else {}


def bury(connection: Connection, stream: Stream, now_ns: int) -> Seal:
    """Remove the stream's events; the seal stays, and a tombstone says when they went."""
    known = of(connection, stream)
    if known is None:
        raise JournalError(f"stream {stream.name!r} is not sealed; only whole sealed streams are pruned")
    if is_pruned(connection, stream):
        return known
    sealed = next(connection.execute("SELECT hash FROM seal WHERE stream = ?", (stream.id,)))[0]
    connection.execute(
        "INSERT INTO tombstone VALUES(?,?,?)", (stream.id, now_ns, chain.tombstone(sealed, now_ns))
    )
    for table in ("event", "batch"):
        connection.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", span(stream))
    return known


def _counted(connection: Connection, stream: Stream) -> Tally:
    rows = "FROM event WHERE id BETWEEN ? AND ?"
    counts = dict(connection.execute(f"SELECT kind, count(*) {rows} GROUP BY kind", span(stream)))
    first, last = next(connection.execute(f"SELECT min(time_ns), max(time_ns) {rows}", span(stream)))
    return Tally(Counter(counts), first, last)


def _manifest(stream: Stream, head: Head, tally: Tally, extra: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **extra,
        "stream": stream.name,
        "kind": stream.kind,
        "genesis": chain.genesis(stream).hex(),
        "events": head.seq,
        "head": head.hash.hex(),
        "firstTimeNs": tally.first_ns,
        "lastTimeNs": tally.last_ns,
        "counts": tally.by_kind,
    }
