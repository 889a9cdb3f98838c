"""Both stores filled with the same events in turns, timed."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.backtest_events import SHARES, Sample, identity, line, stream
from benchmarks.backtest_rival import Table, shaped
from benchmarks.measure import sync_seconds
from tracedesk.backtest.recorder import Recorder
from tracedesk.home import Home

RUN_NAMES: Final = ("main", "second", "third", "fourth")


@dataclass(slots=True)
class Spent:
    """What one way of writing took, round by round."""

    events: list[int] = field(default_factory=list[int])
    seconds: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    def time(self, events: int, work: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.seconds.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        self.events.append(events)

    @property
    def rate(self) -> float:
        return sum(self.events) / sum(self.seconds)

    @property
    def cpu_us(self) -> float:
        return sum(self.cpu) / sum(self.events) * 1e6

    def figures(self) -> dict[str, Any]:
        return {
            "events": sum(self.events),
            "events_per_second": round(self.rate),
            "cpu_us_per_event": round(self.cpu_us, 2),
            "seconds": [round(seconds, 4) for seconds in self.seconds],
        }


@dataclass(slots=True)
class Filled:
    """The two stores with the same events in them, and what filling them took."""

    home: Home
    table: Table
    ours: Spent = field(default_factory=Spent)
    theirs: Spent = field(default_factory=Spent)
    theirs_ready: Spent = field(default_factory=Spent)
    theirs_single: Spent = field(default_factory=Spent)
    runs: list[str] = field(default_factory=list[str])
    jsonl_bytes: int = 0
    properties_bytes: int = 0
    syncs: list[float] = field(default_factory=list[float])

    @property
    def bytes(self) -> int:
        """Our files, with logs that are not checkpointed yet."""
        return sum(file.stat().st_size for file in self.home.runs.iterdir())


@dataclass(slots=True)
class _Run:
    """One run as it grows in both stores."""

    recorder: Recorder
    ids: list[str]
    dice: random.Random
    number: int = 0

    @property
    def first(self) -> int:
        """The seq of the next event."""
        return len(self.ids)

    @property
    def id(self) -> str:
        return self.recorder.run_id


def fill(folder: Path, events: int, a_round: int, singles: int) -> Filled:
    """All events into both stores, a round after another; the last of each go into the table one a commit."""
    filled = Filled(Home.open(folder / "home"), Table(folder / "seed.db"))
    for number, share in enumerate(SHARES):
        _run(filled, number, round(events * share), a_round, singles)
    return filled


def _run(filled: Filled, number: int, events: int, a_round: int, singles: int) -> None:
    dice = random.Random(number + 100)
    recorder = Recorder(filled.home, RUN_NAMES[number], engine="benchmark")
    run = _Run(recorder, [recorder.run_id], dice)
    filled.runs.append(run.id)
    filled.table.begin(run.id)
    source = stream(number + 1)
    for at in range(0, events, a_round):
        filled.syncs.append(sync_seconds(filled.home.path / "sync"))
        samples = list(islice(source, min(a_round, events - at)))
        _round(filled, run, samples, closes=at + a_round >= events, singles=singles)


def _round(filled: Filled, run: _Run, samples: list[Sample], *, closes: bool, singles: int) -> None:
    first = run.first
    run.ids += [identity(run.dice) for _ in samples]
    _weigh(filled, run, samples, first)
    gc.collect()
    gc.freeze()  # the samples are the benchmark's: no store should pay for sweeping them
    sides = [
        lambda: filled.ours.time(len(samples), lambda: _record(run, samples, closes=closes)),
        lambda: _insert(filled, run, samples, first, singles),
    ]
    for side in sides if run.number % 2 else sides[::-1]:
        side()
    run.number += 1
    gc.unfreeze()


def _record(run: _Run, samples: Sequence[Sample], *, closes: bool) -> None:
    """As an engine does it; a round ends when all is durable, the run's last one when it is sealed."""
    emit = run.recorder.emit
    for kind, now, properties, parent in samples:
        emit(kind, now, properties, parent=parent)
    run.recorder.flush()
    if closes:
        run.recorder.close()


def _insert(filled: Filled, run: _Run, samples: list[Sample], first: int, singles: int) -> None:
    table, many = filled.table, len(samples) - singles
    most, rest = samples[:many], shaped(run.id, samples[many:], run.ids, first + many)
    if run.number % 2:
        rows = shaped(run.id, most, run.ids, first)
        filled.theirs_ready.time(many, lambda: table.insert(rows))
    else:
        filled.theirs.time(many, lambda: table.insert_samples(run.id, most, run.ids, first))
    filled.theirs_single.time(len(rest), lambda: table.insert(rest, 1))


def _weigh(filled: Filled, run: _Run, samples: Sequence[Sample], first: int) -> None:
    """What the events are as lines of JSON."""
    for seq, sample in enumerate(samples, first):
        parent = None if sample.parent is None else run.ids[sample.parent]
        text = line(sample, run.ids[seq], run.id, parent)
        filled.jsonl_bytes += len(text) + 1
        filled.properties_bytes += text.rindex(b',"parentEventId"') - text.index(b'"properties":') - 13
