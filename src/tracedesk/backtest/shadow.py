"""Shadows: the tables of a run that is recorded without them, made for one reader and kept up with the run.

They are temporary tables of the reader's connection, which go before the file's own under the same names;
so every query works on them unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from tracedesk.backtest import schema
from tracedesk.backtest.projection import Batch, Projector, drafts_of
from tracedesk.backtest.runs import projector
from tracedesk.journal import Reader, Stream

_BATCH: Final = 4_096


@dataclass(slots=True)
class Shadow:
    """How far a reader's own tables reach."""

    projector: Projector
    done: int = 0


_shadows: Final[WeakKeyDictionary[Reader, Shadow]] = WeakKeyDictionary()


def of(reader: Reader) -> Shadow | None:
    return _shadows.get(reader)


def prepare(reader: Reader, run: str) -> None:
    """Bring the reader's tables up to the run, or drop them once the file has its own."""
    if schema.is_indexed(reader.connection):
        if of(reader) is not None:
            _drop(reader)
        return
    stream = reader.stream(run)
    head = reader.head(run).seq
    shadow = of(reader) or _cast(reader, stream)
    try:
        _extend(reader, stream, shadow, head)
    except BaseException:
        # What the projector knows and what the tables hold may differ now; the next reading begins anew.
        _drop(reader)
        raise


def _cast(reader: Reader, stream: Stream) -> Shadow:
    for statement in schema.TABLES.split(";"):
        name = statement.partition("EXISTS ")[2].partition("(")[0]
        if name in schema.DERIVED:
            reader.connection.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE"))
    for statement in schema.INDEXES:
        reader.connection.execute(statement.replace("IF NOT EXISTS ", "IF NOT EXISTS temp."))
    shadow = _shadows[reader] = Shadow(projector(stream))
    return shadow


def _extend(reader: Reader, stream: Stream, shadow: Shadow, head: int) -> None:
    while shadow.done < head:
        room = min(_BATCH, head - shadow.done)
        drafts = drafts_of(reader.connection, stream, shadow.done, room)
        if not drafts:
            return
        with reader.connection:
            shadow.projector.write(reader.connection, shadow.done + 1, Batch.of(drafts))
        shadow.done += len(drafts)


def _drop(reader: Reader) -> None:
    _shadows.pop(reader, None)
    for name in schema.DERIVED:
        reader.connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
