"""The same two writers on a slower disk: this one, with every sync made to take at least so long.

A commit per event costs a sync per event, so its rate is the disk's. On a disk that syncs ten times faster
than the one that a ratio was asked for on, the ratio says little about the stores.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final

import apsw

from benchmarks.backtest_events import Sample, identity, stream
from benchmarks.backtest_ingest import Spent
from benchmarks.backtest_rival import Table, shaped
from tracedesk.backtest.recorder import Recorder
from tracedesk.home import Home

_NAME: Final = "slow disk"


class SlowDisk(apsw.VFS):
    """The real file system, whose syncs take at least so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.real = apsw.vfs_names()[0]
        self.syncs: list[float] = []
        super().__init__(_NAME, self.real)

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Every database that is opened inside is on this disk, until it is closed."""
        apsw.set_default_vfs(_NAME)
        try:
            yield
        finally:
            apsw.set_default_vfs(self.real)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _SlowFile:
        return _SlowFile(self, name, flags)


class _SlowFile(apsw.VFSFile):
    def __init__(self, disk: SlowDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.real, name, flags)

    def xSync(self, flags: int) -> None:
        began = time.perf_counter()
        super().xSync(flags)
        time.sleep(max(0.0, began + self._disk.seconds - time.perf_counter()))
        self._disk.syncs.append(time.perf_counter() - began)


@dataclass(slots=True)
class OnSlowDisk:
    """What both took."""

    seconds: float
    ours: Spent = field(default_factory=Spent)
    theirs: Spent = field(default_factory=Spent)
    sync: float = 0.0
    """The median of all syncs, in seconds."""


def compare(folder: Path, seconds: float, rounds: int, a_round: int, singles: int) -> OnSlowDisk:
    """Rounds of ours, each until its events are durable, in turns with the table, an event a commit."""
    found = OnSlowDisk(seconds)
    disk = SlowDisk(seconds)
    folder.mkdir()
    with disk.in_use():
        recorder = Recorder(Home.open(folder / "home"), "slow", engine="benchmark")
        table = Table(folder / "seed.db")
    table.begin(recorder.run_id)
    source, dice, ids = stream(1), random.Random(1), [recorder.run_id]
    for _ in range(rounds):
        samples = list(islice(source, a_round))
        ids += [identity(dice) for _ in samples]
        rows = shaped(recorder.run_id, samples[:singles], ids, len(ids) - a_round)
        found.ours.time(a_round, partial(_record, recorder, samples))
        found.theirs.time(singles, partial(table.insert, rows, 1))
    found.sync = median(disk.syncs)
    recorder.close()
    table.close()
    disk.unregister()
    return found


def _record(recorder: Recorder, samples: Sequence[Sample]) -> None:
    for kind, now, properties, parent in samples:
        recorder.emit(kind, now, properties, parent=parent)
    recorder.flush()
