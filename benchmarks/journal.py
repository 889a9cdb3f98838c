"""What durable events cost: `python -m benchmarks.journal [--json] [--quick]`.

Prints ratios; it judges nothing by its exit code.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import command, recording
from benchmarks.journal_rivals import (
    BATCH,
    STREAM,
    Contestant,
    Ours,
    Sample,
    Seed,
    SeedPerEvent,
    entries,
    samples,
)
from benchmarks.measure import Neighbours, machine, memory, sync_seconds
from tracedesk.journal import Journal, Reader, verify

BARS: Final = {"append": 2.0, "append with encoding": 2.0, "commit per event": 100.0, "memory": 1.05}
METHOD: Final = {
    "rate": "events a second of wall clock over all rounds; contestants take turns within a round, each "
    "round begins with another, and each works on its own growing file",
    "ratio": "our rate / theirs; of memory, the largest resident set in the last nine tenths of the events / "
    "the one after the first tenth",
    "paired_ratio": "median over rounds of our rate / theirs in the same round",
    "append": f"batches of {BATCH}, ours by columns and the rivals' by rows, whose values were made before "
    "the clock started; one transaction and one sync a batch on both sides; ours hashes every event and runs "
    "its guards",
    "encoding": "the same with the JSON of each event encoded inside the clock, by the same encoder for both",
    "seed": "the table that the seed describes (GUID text keys, ISO times, JSON text) with its origin's six "
    "indexes, WAL, synchronous=FULL, through the same SQLite",
    "commit per event": "ours as in `append` against the seed's table with a transaction an event, which is "
    "what its origin does; the table is kept as large as the others by batches outside the clock",
    "sync_ms": "median time to append 4 KiB to a file and sync it, between the rounds; a commit cannot be "
    "faster, so `commit per event` says as much about the disk as about the stores",
    "bytes_per_event": "size of the closed file / its events; the properties alone are `properties_bytes`",
    "readers": "another process writes batches without a pause; pages of 100 events at random places",
    "writers": "eight processes, batches of 100, a stream each in one file; waits include the lock",
    "recording": "the share of a read call's CPU that its record takes: of `echo`, which gives back one "
    "number, and of pages of 10 candles, whose answers are payloads; pairs of desks with equal hash seeds "
    "take turns, and the share is the median over all rounds of all pairs",
    "verify": "the whole file of the memory run, chain and structure",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each; the defaults are for claims."""

    rounds: int = 15
    batches_a_round: int = 20
    single_commits_a_round: int = 100
    memory_events: int = 10_000_000
    reads: int = 3_000
    writers: int = 8
    appends_a_writer: int = 200
    recording_rounds: int = 11


QUICK: Final = Plan(3, 5, 20, 200_000, 500, 8, 40, 0)


# --- append


@dataclass(slots=True)
class Run:
    """One contestant's rounds."""

    contestant: Contestant
    calls_a_round: int
    path: Path
    seconds: list[float]
    cpu: list[float]

    @property
    def events(self) -> int:
        return len(self.seconds) * self.calls_a_round * self.contestant.size

    @property
    def rate(self) -> float:
        return self.events / sum(self.seconds)

    def round(self, number: int) -> None:
        first = number * self.calls_a_round
        self.contestant.prepare(number)
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in range(first, first + self.calls_a_round):
            self.contestant.append(batch)
        self.seconds.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)

    def figures(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "events_per_second": round(self.rate),
            "cpu_us_per_event": round(sum(self.cpu) / self.events * 1e6, 2),
            "bytes_per_event": round(self.path.stat().st_size / self.contestant.held, 1),
            "seconds": [round(s, 4) for s in self.seconds],
        }


def append(folder: Path, plan: Plan, syncs: list[float]) -> dict[str, Run]:
    """All writers in turns; `syncs` gets what one sync of the disk took before each round."""
    given = samples(plan.rounds * plan.batches_a_round * BATCH)
    runs = {
        name: Run(make(folder / f"{name}.db"), calls, folder / f"{name}.db", [], [])
        for name, calls, make in _lineup(given, plan)
    }
    gc.collect()
    gc.freeze()  # the ready-made values are the benchmark's: no store should pay for sweeping them
    names = list(runs)
    for number in range(plan.rounds):
        syncs.append(sync_seconds(folder / "sync"))
        for name in names[number % len(names) :] + names[: number % len(names)]:
            runs[name].round(number)
    gc.unfreeze()
    for run in runs.values():
        run.contestant.close()
    return runs


def _lineup(given: Sequence[Sample], plan: Plan) -> list[tuple[str, int, Callable[[Path], Contestant]]]:
    many, few = plan.batches_a_round, plan.single_commits_a_round
    return [
        ("ours", many, lambda path: Ours(path, given)),
        ("ours encoding", many, lambda path: Ours(path, given, encoding=True)),
        ("seed", many, lambda path: Seed(path, given)),
        ("seed encoding", many, lambda path: Seed(path, given, encoding=True)),
        ("seed commit per event", few, lambda path: SeedPerEvent(path, given, many * BATCH, few)),
    ]


# --- memory and verify, in a process of their own


def _grow(path: Path, events: int, said: Pipe) -> None:
    batch = [entry._replace(parent=None) for entry in entries(samples(BATCH))]
    resident: list[int] = []
    began = time.perf_counter()
    with Journal(path) as journal:
        journal.open(STREAM, "run")
        for done in range(BATCH, events + 1, BATCH):
            journal.append(STREAM, batch)
            if done % (events // 100) == 0:
                resident.append(memory(os.getpid()).rss)
    wrote = time.perf_counter() - began
    said.send({"resident": resident, "seconds": wrote, **_verified(path, events)})


def _verified(path: Path, events: int) -> dict[str, Any]:
    resident: list[int] = []

    def note(done: int) -> None:
        if done % (events // 100) == 0:
            resident.append(memory(os.getpid()).rss)

    began = time.perf_counter()
    report = verify(path, progress=note)
    return {
        "verify_seconds": time.perf_counter() - began,
        "verify_resident": resident,
        "sound": report.is_sound,
    }


def growth(folder: Path, events: int) -> dict[str, Any]:
    """Write and verify so many events in a new process, watching what it holds."""
    path = folder / "growing.db"
    found = _in_process(_grow, path, events)
    size = path.stat().st_size
    path.unlink()
    return {
        "events": events,
        "events_per_second": round(events / found["seconds"]),
        "bytes_per_event": round(size / events, 1),
        "writer": _flatness(found["resident"]),
        "verifier": _flatness(found["verify_resident"]),
        "verify_events_per_second": round(events / found["verify_seconds"]),
        "verify_mb_per_second": round(size / found["verify_seconds"] / 1e6, 1),
        "sound": found["sound"],
    }


def _flatness(resident: Sequence[int]) -> dict[str, Any]:
    tenth = max(1, len(resident) // 10)
    first, later = resident[tenth - 1], max(resident[tenth - 1 :])
    return {"first_tenth_kib": first, "largest_later_kib": later, "ratio": round(later / first, 3)}


def _in_process(work: Callable[..., None], *args: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=work, args=(*args, theirs))
    process.start()
    theirs.close()
    try:
        return mine.recv()
    finally:
        process.join()


# --- readers and writers beside each other


def _write_until_told(path: Path, said: Pipe) -> None:
    batch = [entry._replace(parent=None) for entry in entries(samples(BATCH))]
    with Journal(path) as journal:
        done, began = 0, time.perf_counter()
        said.send("ready")
        while not said.poll():
            journal.append(STREAM, batch)
            done += BATCH
        said.send(done / (time.perf_counter() - began))


def readers(folder: Path, plan: Plan) -> dict[str, Any]:
    """How long a page takes, alone and while another process writes without a pause."""
    path = folder / "read.db"
    with Journal(path) as journal:
        journal.open(STREAM, "run")
        for _ in range(50):
            journal.append(STREAM, [entry._replace(parent=None) for entry in entries(samples(BATCH))])
    alone = _latencies(path, plan.reads)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    writer = context.Process(target=_write_until_told, args=(path, theirs))
    writer.start()
    mine.recv()
    beside = _latencies(path, plan.reads)
    mine.send("enough")
    rate = mine.recv()
    writer.join()
    return {"page_ms_alone": alone, "page_ms_while_writing": beside, "writer_events_per_second": round(rate)}


def _latencies(path: Path, count: int) -> dict[str, float]:
    waits: list[float] = []
    with Reader(path) as reader:
        for n in range(count):
            began = time.perf_counter()
            head = reader.head(STREAM).seq
            page = reader.events(STREAM, n * 7919 % (head - 100), limit=100)
            waits.append(time.perf_counter() - began)
            assert len(page) == 100
    return _milliseconds(waits)


def _append_many(path: Path, number: int, appends: int, said: Pipe) -> None:
    batch = [entry._replace(parent=None) for entry in entries(samples(100))]
    waits: list[float] = []
    with Journal(path) as journal:
        journal.open(f"{STREAM}-{number}", "run")
        said.send("ready")
        said.recv()
        for _ in range(appends):
            began = time.perf_counter()
            journal.append(f"{STREAM}-{number}", batch)
            waits.append(time.perf_counter() - began)
    said.send(waits)


def writers(folder: Path, plan: Plan) -> dict[str, Any]:
    """Eight processes on one file."""
    path = folder / "shared.db"
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(plan.writers)]
    crew = [
        context.Process(target=_append_many, args=(path, number, plan.appends_a_writer, theirs))
        for number, (_, theirs) in enumerate(pipes)
    ]
    for process in crew:
        process.start()
    for mine, _ in pipes:
        mine.recv()
    began = time.perf_counter()
    for mine, _ in pipes:
        mine.send("go")
    waits: list[float] = [wait for mine, _ in pipes for wait in mine.recv()]
    seconds = time.perf_counter() - began
    for process in crew:
        process.join()
    report = verify(path)
    return {
        "processes": plan.writers,
        "events_per_second": round(report.events / seconds),
        "commits_per_second": round(len(waits) / seconds),
        "append_ms": _milliseconds(waits),
        "sound": report.is_sound,
    }


def _milliseconds(waits: Sequence[float]) -> dict[str, float]:
    ordered = sorted(waits)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(ordered[min(len(ordered) - 1, int(len(ordered) * q))] * 1e3, 3) for name, q in at.items()
    }


# --- the report


def claims(runs: dict[str, Run], grown: dict[str, Any]) -> list[dict[str, Any]]:
    """Every claim with its bar, against a rival measured in the same run."""
    pairs = (
        ("append", "ours", "seed"),
        ("append with encoding", "ours encoding", "seed encoding"),
        ("commit per event", "ours", "seed commit per event"),
    )
    made = [_faster(name, runs[ours], runs[theirs]) for name, ours, theirs in pairs]
    for who in ("writer", "verifier"):
        ratio = grown[who]["ratio"]
        claim = {"name": f"memory of the {who}", "bar": BARS["memory"], "ratio": ratio}
        made.append(
            {**claim, "met": ratio <= BARS["memory"], "against": "itself after a tenth of the events"}
        )
    return made


def _faster(name: str, ours: Run, theirs: Run) -> dict[str, Any]:
    ratio = ours.rate / theirs.rate
    scale = (ours.calls_a_round * ours.contestant.size) / (theirs.calls_a_round * theirs.contestant.size)
    paired = median(scale * b / a for a, b in zip(ours.seconds, theirs.seconds, strict=True))
    return {
        "name": name,
        "bar": BARS[name],
        "ratio": round(ratio, 2),
        "paired_ratio": round(paired, 2),
        "met": ratio >= BARS[name],
        "against": theirs.contestant.name,
    }


def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """Everything, in the order of the report."""
    neighbours = Neighbours()
    command.say("append")
    syncs: list[float] = []
    runs = append(folder, plan, syncs)
    command.say("readers and writers")
    beside = {"readers": readers(folder, plan), "writers": writers(folder, plan)}
    command.say(f"memory over {plan.memory_events:,} events")
    grown = growth(folder, plan.memory_events)
    bodies = [len(entry.body) for entry in entries(samples(BATCH))]
    command.say("recording")
    return {
        "claims": [*claims(runs, grown), *recording.measure(plan.recording_rounds)],
        "rows": {name: run.figures() for name, run in runs.items()},
        "seeds": [*map(int, recording.SEEDS)] if plan.recording_rounds else [7],
        "sync_ms": round(median(syncs) * 1e3, 3),
        "properties_bytes": round(sum(bodies) / len(bodies), 1),
        **beside,
        "growth": grown,
        "machine": {
            **machine(),
            "sqlite": apsw.sqlite_lib_version(),
            "neighbours_cores": round(neighbours.cores(), 2),
        },
        "method": METHOD,
    }


def as_text(found: dict[str, Any]) -> str:
    lines = command.claim_lines(found["claims"])
    lines += ["", f"{'writer':34}{'events/s':>12}{'CPU µs':>9}{'bytes':>8}"]
    for name, row in found["rows"].items():
        cells = (row["events_per_second"], row["cpu_us_per_event"], row["bytes_per_event"])
        lines.append(f"{name:34}{cells[0]:>12,}{cells[1]:>9}{cells[2]:>8}")
    others = ("readers", "writers", "growth")
    lines.append(f"one sync of this disk: {found['sync_ms']} ms")
    lines += ["", *(f"{name}: {json.dumps(found[name])}" for name in others)]
    return "\n".join([*lines, *command.busy_lines(found["machine"])])


def main(argv: Sequence[str] | None = None) -> int:
    quick = "less of everything, and 200,000 events instead of 10M"
    options = command.parser("journal", __doc__, quick=quick).parse_args(argv)
    return command.run(
        lambda folder: measure(folder, QUICK if options.quick else Plan()), as_text, as_json=options.json
    )


if __name__ == "__main__":
    sys.exit(main())
