"""Making the tables of a run anew from its journal, and from what events were given beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tracedesk.backtest import native, schema
from tracedesk.backtest.projection import Asked, Batch, Projector, drafts_of
from tracedesk.journal import Stream
from tracedesk.journal.file import key
from tracedesk.journal.sqlite import Connection

BATCH: Final = 8_192
"""Events a rebuild takes at a time: whole zones."""


def tables(connection: Connection, stream: Stream, *, natively: bool = True) -> int:
    """Make all tables anew, packed where that can be done; returns how many events there were.

    Each batch is a transaction of its own. Until the last one the tables count as incomplete, and a rebuild
    that was killed begins again.
    """
    core = native.core() if natively else None
    with connection:
        connection.execute("UPDATE recording SET indexed = 0")
        schema.drop(connection)
        schema.create(connection, indexed=False, packed=core is not None)
        connection.execute("UPDATE recording SET version = ?", (schema.version(connection),))
    take = _taking(connection, stream, core)
    done = 0
    while taken := take(done):
        done += taken
    with connection:
        if core is None:
            schema.create_indexes(connection)
        connection.execute("UPDATE recording SET indexed = 1")
    return done


def _taking(connection: Connection, stream: Stream, core: native.Core | None) -> Callable[[int], int]:
    """What takes the next events after a seq, and says how many those were."""
    if core is None:
        return partial(_take, connection, stream, Projector.of(stream))
    native.attach(connection)
    return partial(_take_natively, connection, stream, projector(core, stream))


def _take(connection: Connection, stream: Stream, projector: Projector, done: int) -> int:
    drafts = drafts_of(connection, stream, done, BATCH)
    if drafts:
        with connection:
            projector.write(connection, done + 1, Batch.of(drafts))
    return len(drafts)


def _take_natively(connection: Connection, stream: Stream, projector: native.Projector, done: int) -> int:
    with connection:
        return native.call(connection, "runs_rewrite", projector.handle, key(stream.id, done), BATCH)


def projector(core: native.Core, stream: Stream) -> native.Projector:
    """A native projector for a run, as its meta asks."""
    asked = Asked.by(stream)
    return core.Projector(key(stream.id, 0), asked.profile == "guid", asked.start_ns, asked.end_ns)
