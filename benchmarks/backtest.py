"""What recording a run and asking it costs: `python -m benchmarks.backtest [--json] [--quick] [--large]`.

Prints ratios; it judges nothing by its exit code, which is 0 unless two stores answer differently.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import backtest_disk, backtest_rival, command
from benchmarks import backtest_questions as asking
from benchmarks.backtest_disk import OnSlowDisk
from benchmarks.backtest_events import stream
from benchmarks.backtest_ingest import Filled, Spent, fill
from benchmarks.backtest_questions import Asker, Found, Times
from benchmarks.command import Claim
from benchmarks.measure import Neighbours, machine
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.recorder import Recorder
from tracedesk.home import Home

BARS: Final = {
    "by order": 1_000.0,
    "snapshot": 200.0,
    "snapshot, positions alone": None,
    "aggregate": 200.0,
    "deep page by cursor": 50.0,
    "deep page by pageIndex": 10.0,
    "ingest": 2.0,
    "ingest, rows ready for the rival": None,
    "commit per event": 100.0,
    "commit per event, slow disk": None,
    "disk": 0.95,
    "readers": 1.0,
    "ms": 5.0,
}
READERS: Final = 100
SEEDS: Final = [1, 2, 3, 4]
"""Of the streams of events, a run each."""
READ: Final = ("page", "by order")
METHOD: Final = {
    "events": "a causal stream from a seeded generator: candle, two indicators, an order as a StateChange, "
    "fill, position; 4 % of orders rejected with a risk event, 1 % of fills without a position, 0.2 % odd "
    "order ids, 20 symbols, 4 runs, 64 % of the events in the first, which the questions are about",
    "rival": "the table that the seed describes (GUID text keys, ISO times, JSON text) with its origin's "
    "indexes, all runs in one file, WAL, synchronous=FULL, through the same SQLite as ours",
    "ratio": "of questions, their median / ours, by wall clock or by CPU of the whole process, whichever is "
    "less; of ingest, our events a second / theirs; of disk, our bytes / those of the events as JSON lines",
    "ours": "the whole answer: the function that the tool calls, in the desk's pool of readers, with "
    "totalCount and metadata, encoded; the token budget is raised so that no page of 100 is cut",
    "places": f"every question is asked about {asking.PLACES} places in the middle half of the run, in turns",
    "theirs": "the SQL that the seed prints, its rows fetched: no count, no encoding. Both must agree",
    "snapshot": "ours tells positions, indicators, open orders and profit; theirs the last position a symbol "
    "and the last value an indicator, and no orders, for which the seed prints no SQL",
    "aggregate": "all six of the price of every trade; theirs by binary floats, the squares in the same pass",
    "ingest": "from property objects to durable rows, by rounds in turns; ours through Recorder.emit with "
    "chain, indexes and moments, each round until flush returns and the last of a run until it is sealed; "
    "theirs in transactions of 1,000, its JSON and times made inside the clock (every other round: ready)",
    "commit per event": "ours as in `ingest` against the table with a transaction an event, which is what "
    "its origin does, at the end of each round; `sync_ms` is the floor of a commit, so this says as much "
    "about the disk as about the stores",
    "commit per event, slow disk": "the same two writers, with less events, on this disk with every sync of "
    "either made to take at least `sync_ms`; 2.7 ms is the median fdatasync of the disk on which the table's "
    "origin was measured, and the bar above written",
    "readers": f"answers a second with {READERS} asking at once / with one, median over rounds in turns, in "
    "one process as a desk has it",
    "large": "one run of 10M events, ours alone, limits in milliseconds: median wall clock of whole answers",
    "neighbours_cores": command.NEIGHBOURS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each; the defaults are for claims."""

    events: int = 1_000_000
    a_round: int = 40_000
    singles_a_round: int = 50
    asked: int = 200
    rival_asked: int = 5
    reader_rounds: int = 5
    reader_calls: int = 800
    large: int = 0
    sync_ms: float = 0.0
    slow_rounds: int = 3
    slow_singles: int = 100


QUICK: Final = Plan(12_000, 2_000, 5, 4, 2, 1, 100, slow_rounds=1, slow_singles=10)
LARGE: Final = 10_000_000


# --- claims


def ingest_claims(filled: Filled) -> list[Claim]:
    table = f"{backtest_rival.NAME}, 1,000 a commit"
    return [
        _faster("ingest", filled.ours, filled.theirs, table),
        _faster("ingest, rows ready for the rival", filled.ours, filled.theirs_ready, table),
        _faster("commit per event", filled.ours, filled.theirs_single, "the same, an event a commit"),
        _claim("disk", filled.bytes / filled.jsonl_bytes, "the events as lines of JSON", at_most=True),
    ]


def slow_claims(found: OnSlowDisk) -> list[Claim]:
    against = f"an event a commit, every sync of both at least {found.seconds * 1e3:g} ms"
    return [_faster("commit per event, slow disk", found.ours, found.theirs, against)]


def _faster(name: str, ours: Spent, theirs: Spent, against: str) -> Claim:
    cpu = round(theirs.cpu_us / ours.cpu_us, 2)
    return {**_claim(name, ours.rate / theirs.rate, against), "cpu_ratio": cpu}


def question_claims(found: dict[str, Found]) -> list[Claim]:
    return [_question_claim(name, sides) for name, sides in found.items()]


def _question_claim(name: str, sides: Found) -> Claim:
    wall = median(sides.theirs.wall) / median(sides.ours.wall)
    cpu = median(sides.theirs.cpu) / median(sides.ours.cpu)
    claim = _claim(name, min(wall, cpu), backtest_rival.NAME)
    return {**claim, "wall_ratio": round(wall, 1), "cpu_ratio": round(cpu, 1)}


def reader_claims(found: dict[str, dict[str, list[float]]]) -> list[Claim]:
    claims: list[Claim] = []
    for name, rates in found.items():
        ratio = median(many / one for one, many in zip(rates["one"], rates["many"], strict=True))
        claim = _claim("readers", ratio, "one reader")
        claims.append({**claim, "name": f"{READERS} readers, {name}"})
    return claims


def large_claims(found: dict[str, Times], events: int) -> list[Claim]:
    """The figures that are no ratios: milliseconds against a limit of milliseconds."""
    claims: list[Claim] = []
    for name, times in found.items():
        claim = _claim("ms", median(times.wall) * 1e3, "its limit", at_most=True)
        claims.append({**claim, "name": f"{name} of {events:,}, ms"})
    return claims


def _claim(name: str, ratio: float, against: str, *, at_most: bool = False) -> Claim:
    bar = BARS[name]
    met = None if bar is None else ratio <= bar if at_most else ratio >= bar
    return {"name": name, "bar": bar, "ratio": round(ratio, 3), "met": met, "against": against}


# --- figures


def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """Everything, in the order of the report."""
    neighbours = Neighbours()
    command.say(f"ingest of {plan.events:,} events")
    filled = fill(folder, plan.events, plan.a_round, plan.singles_a_round)
    found, rates = asyncio.run(_asked(filled, plan))
    claims = [*question_claims(found), *ingest_claims(filled), *reader_claims(rates)]
    report: dict[str, Any] = {
        "claims": claims,
        "questions": {
            name: {"ours": sides.ours.figures(), "theirs": sides.theirs.figures()}
            for name, sides in found.items()
        },
        "ingest": _ingested(filled, plan),
        "readers": {
            name: {who: [round(rate) for rate in rounds] for who, rounds in sides.items()}
            for name, sides in rates.items()
        },
    }
    filled.table.close()
    if plan.sync_ms:
        command.say(f"a disk whose syncs take {plan.sync_ms:g} ms")
        slow = _slowly(folder, plan)
        report["claims"] = claims = [*claims, *slow_claims(slow)]
        report["slow disk"] = _slow_figures(slow)
    if plan.large:
        large = _large(folder, plan)
        report["claims"] = claims + large_claims(large, plan.large)
        report["large"] = {name: times.figures() for name, times in large.items()}
    report["seeds"] = SEEDS
    facts = {"sqlite": apsw.sqlite_lib_version(), "neighbours_cores": round(neighbours.cores(), 2)}
    return {**report, "machine": {**machine(), **facts}, "method": METHOD}


def _ingested(filled: Filled, plan: Plan) -> dict[str, Any]:
    return {
        "ours": filled.ours.figures(),
        "theirs": filled.theirs.figures(),
        "theirs, rows ready": filled.theirs_ready.figures(),
        "theirs, an event a commit": filled.theirs_single.figures(),
        "sync_ms": round(median(filled.syncs) * 1e3, 3),
        "bytes_per_event": {
            "ours": round(filled.bytes / plan.events, 1),
            "jsonl": round(filled.jsonl_bytes / plan.events, 1),
            "properties": round(filled.properties_bytes / plan.events, 1),
        },
    }


def _slowly(folder: Path, plan: Plan) -> OnSlowDisk:
    size = (plan.slow_rounds, plan.a_round, plan.slow_singles)
    return backtest_disk.compare(folder / "slow", plan.sync_ms / 1e3, *size)


def _slow_figures(found: OnSlowDisk) -> dict[str, Any]:
    return {
        "ours": found.ours.figures(),
        "theirs, an event a commit": found.theirs.figures(),
        "sync_ms": round(found.sync * 1e3, 3),
    }


async def _asked(filled: Filled, plan: Plan) -> tuple[dict[str, Found], dict[str, dict[str, list[float]]]]:
    shelf = Shelf(filled.home)
    try:
        asker = Asker(shelf, filled.runs[0])
        command.say("questions")
        found = await asking.compare(
            await asking.questions(asker, filled.table), plan.asked, plan.rival_asked
        )
        command.say("readers")
        return found, await _readers(asker, plan)
    finally:
        await shelf.close()


async def _readers(asker: Asker, plan: Plan) -> dict[str, dict[str, list[float]]]:
    """One and a hundred in turns."""
    asks = await asking.alone(asker, await asking.places(asker))
    rates: dict[str, dict[str, list[float]]] = {name: {"one": [], "many": []} for name in READ}
    for name in READ:
        for _ in range(plan.reader_rounds):
            rates[name]["one"].append(await asking.throughput(asks[name], 1, plan.reader_calls))
            rates[name]["many"].append(await asking.throughput(asks[name], READERS, plan.reader_calls))
    return rates


def _large(folder: Path, plan: Plan) -> dict[str, Times]:
    shutil.rmtree(folder / "home")
    (folder / "seed.db").unlink()
    command.say(f"a run of {plan.large:,} events")
    home = Home.open(folder / "large")
    with Recorder(home, "large", engine="benchmark") as recorder:
        for kind, now, properties, parent in islice(stream(1), plan.large):
            recorder.emit(kind, now, properties, parent=parent)
    return asyncio.run(_asked_alone(home, recorder.run_id, plan))


async def _asked_alone(home: Home, run: str, plan: Plan) -> dict[str, Times]:
    shelf = Shelf(home)
    try:
        asker = Asker(shelf, run)
        found: dict[str, Times] = {}
        for name, ask in (await asking.alone(asker, await asking.places(asker))).items():
            await asking.repeat(Times(), ask, asking.PLACES)
            found[name] = Times()
            await asking.repeat(found[name], ask, plan.asked)
        return found
    finally:
        await shelf.close()


# --- the report


def as_text(found: dict[str, Any]) -> str:
    lines = command.claim_lines(found["claims"])
    lines += ["", f"{'median ms':36}{'ours':>11}{'CPU':>9}{'theirs':>11}{'CPU':>9}"]
    for name, sides in found["questions"].items():
        cells = [sides[who][what] for who in ("ours", "theirs") for what in ("wall_ms", "cpu_ms")]
        lines.append(f"{name:36}{cells[0]:>11.3f}{cells[1]:>9.3f}{cells[2]:>11.2f}{cells[3]:>9.2f}")
    for name in ("ours", "theirs", "theirs, rows ready", "theirs, an event a commit"):
        lines.append(f"{name:36}{found['ingest'][name]['events_per_second']:>11,} events/s")
    lines.append(f"one sync of this disk: {found['ingest']['sync_ms']} ms")
    if slow := found.get("slow disk"):
        rates = [slow[who]["events_per_second"] for who in ("ours", "theirs, an event a commit")]
        lines.append(f"with syncs of {slow['sync_ms']} ms: {rates[0]:,} and {rates[1]:,} events/s")
    lines.append(f"bytes per event: {json.dumps(found['ingest']['bytes_per_event'])}")
    return "\n".join([*lines, *command.busy_lines(found["machine"])])


def main(argv: Sequence[str] | None = None) -> int:
    parser = command.parser("backtest", __doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="less of everything: shows that it works")
    size.add_argument(
        "--large", action="store_true", help="also a run of 10M events, which takes minutes more"
    )
    parser.add_argument(
        "--sync-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="also a row about a disk whose syncs take at least so long; the origin's took 2.7",
    )
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan(large=LARGE if options.large else 0)
    plan = replace(plan, sync_ms=options.sync_ms)
    return command.run(lambda folder: measure(folder, plan), as_text, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
