"""A run as a file for other programs: the seed's event objects, one a line, in recording order.

The same run always gives the same bytes, and importing them gives the same events.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, cast

from tracedesk.backtest import lines
from tracedesk.backtest.model import Category, EventType, Severity
from tracedesk.primitives.disk import sync

if TYPE_CHECKING:
    from collections.abc import Generator

    from tracedesk.backtest.query import Recording

TYPE: Final = {kind.value: kind.name for kind in EventType}
SEVERITY: Final = {severity.value: severity.name for severity in Severity}
CATEGORY: Final = {category.value: category.name for category in Category}
"""Each under its own name, the finer three too: an export gives back what was recorded."""

_QUERY: Final = """
SELECT f.event - ?1, f.ts, f.type, f.severity, f.category, f.guid, f.parent, p.guid, e.body,
       CASE WHEN f.errors IS NOT NULL THEN (SELECT list FROM fault WHERE fault.event = f.event) END
FROM fact f JOIN event e ON e.id = f.event LEFT JOIN fact p ON p.event = ?1 + f.parent
WHERE f.event > ?1 AND f.event <= ?1 + ?2 ORDER BY f.event
"""


class Exported(NamedTuple):
    """One event under its contract names, its properties as they were recorded."""

    seq: int
    event_id: str
    time_ns: int
    type: str
    severity: str
    category: str
    body: bytes
    parent: int | None
    parent_id: str | None
    faults: bytes | None


def events(recording: Recording) -> Iterator[Exported]:
    """Every event up to the watermark, in the order of seqs."""
    found = recording.connection.execute(_QUERY, (recording.base, recording.head))
    for seq, ts, kind, severity, category, guid, parent, parent_guid, body, faults in found:
        yield Exported(
            seq,
            recording.id_of(seq, guid),
            ts,
            TYPE[kind],
            SEVERITY[severity],
            CATEGORY[category],
            body,
            parent,
            None if parent is None else recording.id_of(parent, parent_guid),
            faults,
        )


def jsonl(recording: Recording) -> Iterator[bytes]:
    """The run's lines."""
    run = recording.run
    for event in events(recording):
        names = (event.type, event.severity, event.category)
        yield lines.write(
            event.event_id, run, event.time_ns, names, event.body, event.parent_id, event.faults
        )


# --- files ------------------------------------------------------------------------------------


@contextmanager
def whole(out: Path) -> Generator[Path]:
    """A name to write to beside `out`; it becomes `out` when everything is written, or goes away."""
    handle, fresh = tempfile.mkstemp(prefix=".", dir=out.absolute().parent)
    os.close(handle)
    try:
        yield Path(fresh)
        sync(Path(fresh))
        os.replace(fresh, out)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        raise


def keep(found: Iterable[bytes], out: Path) -> int:
    """Write lines to a file, compressed if its name ends in `.gz`; how many there were."""
    count = 0
    with whole(out) as fresh, _opened(fresh, compressed=out.suffix == ".gz") as file:
        for line in found:
            file.write(line)
            count += 1
    return count


@contextmanager
def _opened(path: Path, *, compressed: bool) -> Generator[IO[bytes]]:
    with path.open("wb") as plain:
        if not compressed:
            yield plain
            return
        # No name and no time in the header: the same lines give the same file.
        with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
            yield cast("IO[bytes]", packed)
