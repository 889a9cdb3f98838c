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
from tracedesk.journal import Reader, Stream

_BATCH: Final = 4_096


@dataclass(slots=True)
class Shadow:
    """How far a reader's own tables reach."""

    projector: Projector
    done: int = 0
    waiting: int = 0
    """Events that the projector has taken in, and whose rows are still to be written."""
    is_whole: bool = False
    """Whether the tables are those that the projector knows; else they are dropped before anything else."""

    def serves(self, reader: Reader, run: str) -> bool:
        """Whether the run can be told by these tables: not when it has ended, and they lack its end."""
        if schema.is_indexed(reader.connection):
            return False
        return self.done >= reader.head(run).seq or reader.seal(run) is None


_shadows: Final[WeakKeyDictionary[Reader, Shadow]] = WeakKeyDictionary()


def of(reader: Reader) -> Shadow | None:
    return _shadows.get(reader)


def prepare(reader: Reader, run: str) -> None:
    """Bring the reader's tables up to the run, or drop them once the file has its own.

    A reading that is interrupted keeps what it has written so far, and the next one goes on from there.
    """
    shadow = of(reader)
    is_indexed = schema.is_indexed(reader.connection)
    if shadow is not None and (is_indexed or not shadow.is_whole):
        _drop(reader)
        shadow = None
    if not is_indexed:
        stream = reader.stream(run)
        _extend(reader, stream, shadow or _cast(reader, stream), reader.head(run).seq)


def _cast(reader: Reader, stream: Stream) -> Shadow:
    shadow = _shadows[reader] = Shadow(Projector.of(stream))
    for statement in (schema.TABLES + schema.ROW_TABLES).split(";"):
        name = statement.partition("EXISTS ")[2].partition("(")[0]
        if name in schema.DERIVED:
            reader.connection.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE"))
    for statement in schema.INDEXES:
        reader.connection.execute(statement.replace("IF NOT EXISTS ", "IF NOT EXISTS temp."))
    shadow.is_whole = True
    return shadow


def _extend(reader: Reader, stream: Stream, shadow: Shadow, head: int) -> None:
    while shadow.waiting or shadow.done < head:
        if not shadow.waiting and not _take(reader, stream, shadow, head):
            return
        with reader.connection:
            shadow.projector.put(reader.connection)
        shadow.projector.settle()
        shadow.done += shadow.waiting
        shadow.waiting = 0


def _take(reader: Reader, stream: Stream, shadow: Shadow, head: int) -> bool:
    """Let the projector take in the next events, if there are any."""
    drafts = drafts_of(reader.connection, stream, shadow.done, min(_BATCH, head - shadow.done))
    if drafts:
        shadow.is_whole = False
        shadow.projector.take(reader.connection, shadow.done + 1, Batch.of(drafts))
        shadow.waiting, shadow.is_whole = len(drafts), True
    return bool(drafts)


def _drop(reader: Reader) -> None:
    _shadows[reader].is_whole = False
    for name in schema.DERIVED:
        reader.connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
    del _shadows[reader]
