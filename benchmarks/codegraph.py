"""What a code graph costs: `python -m benchmarks.codegraph PATH [--json] [--quick]`.

PATH is a checkout of any repository; it is only read. Prints ratios; it judges nothing by its exit code.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import codegraph_log, codegraph_questions
from benchmarks.command import NEIGHBOURS, Claim, Found, busy_lines, claim_lines, parser, run, say
from benchmarks.measure import Neighbours, best_ratio, machine, paired_ratio, supported
from benchmarks.messages import Misbehaved
from benchmarks.process import ROOT
from tests.judges.install import AIDER
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.nodes import file_at, files_of, symbols_of
from tracedesk.codegraph.graph.store import Store, project_at
from tracedesk.codegraph.graph.update import update_files
from tracedesk.primitives.paths import Jail

OURS: Final = "tracedesk, one core"
SHIPPED: Final = "tracedesk, all cores"
TREE: Final = "tracedesk, one core, whole tree"
RIVAL: Final = "aider 0.86.2"
SEED: Final = 1
"""Of the edits whose updates are timed."""
BARS: Final = {
    "full index": 4.0,
    "full index, one core": 4.0,
    "seconds per MLOC": 20.0,
    "resident MB": 300.0,
    "one-file update p95, ms": 50.0,
    "log p99 while indexing": 3.0,
}
AT_LEAST: Final = frozenset(("full index", "full index, one core", "full index, CPU"))
METHOD: Final = {
    "files": "those of the checkout in a language that we parse, the same list for both; `whole tree` is all "
    "that our index takes when it is given the root, text files too",
    "full index": "wall clock of aider's first map with an empty cache / that of our first index into an "
    "empty store, in processes of their own; those that parse for us are started inside the clock; best "
    "round of each. aider works on one core whatever there is, ours on all of them",
    "full index, one core": "the same with both on the same one core",
    "CPU": "the same by CPU seconds of the process and its children, ours on one core",
    "aider": "aider.repomap.RepoMap.get_repo_map over all files, with aider's own defaults for a model with "
    "200,000 tokens of context; tokens are counted by length, which is cheaper than any tokenizer",
    "ours": "symbols, references, resolved edges, chunks, summaries and full text, committed",
    "seconds per MLOC": "wall clock of our best round on one core / millions of lines of the same files",
    "resident MB": "our peak of the round plus that of every process that parses for us, on all cores",
    "one-file update": "a symbol of a random file is renamed throughout the file in a copy of the checkout, "
    "then update_files is called with it; a file without symbols gets a line more",
    "log": "what a client waits for etg_log_event over stdio, which is committed and synced with the call's "
    "record, in turns with its own commits of one row by apsw (WAL, synchronous=FULL), while that same desk "
    "indexes copies of the checkout without a pause; both p99",
    "questions": "in process, on the graph of the whole tree; words are of symbols' names, files are random",
    "neighbours_cores": NEIGHBOURS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each; the defaults are for claims."""

    rounds: int = 3
    updates: int = 200
    events: int = 4_000
    questions: int = 300
    has_rival: bool = True


QUICK: Final = Plan(1, 10, 100, 10, has_rival=False)


@dataclass(frozen=True, slots=True)
class Checkout:
    """The repository that is measured: where it is, and its source files."""

    root: str
    listed: Path
    files: tuple[str, ...]
    lines: int

    @classmethod
    def read(cls, root: str, folder: Path) -> Checkout:
        """Index it once, which also warms the page cache for everyone."""
        with Store(folder / "first.db") as store:
            report = index_project(store, Jail([root]), root, [])
            parsed = {language for language, held in report.coverage.items() if held["parsed"]}
            with store.reading() as connection:
                project = project_at(connection, root)
                assert project is not None
                kept = [file for file in files_of(connection, project.id) if file.language in parsed]
        if not kept:
            raise Misbehaved(f"{root} has no file in a language that is parsed")
        files = tuple(file.path for file in kept)
        listed = folder / "files.txt"
        listed.write_text("\n".join(files) + "\n", encoding="utf-8")
        return cls(root, listed, files, sum(file.lines for file in kept))


# --- a full index -----------------------------------------------------------------------------------

Round = dict[str, Any]


class Full:
    """Full indexes by us and by the rival, in turns."""

    def __init__(self, checkout: Checkout, folder: Path, plan: Plan) -> None:
        self._checkout = checkout
        self._folder = folder
        self.rounds: dict[str, list[Round]] = {OURS: [], SHIPPED: [], TREE: []}
        if plan.has_rival and AIDER.is_installed:
            self.rounds[RIVAL] = []
        for number in range(plan.rounds):
            self._turn(number)

    def _turn(self, number: int) -> None:
        names = list(self.rounds)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            say(f"a full index by {name}, round {number + 1}")
            self.rounds[name].append(self._run(name, number))

    def _run(self, name: str, number: int) -> Round:
        listed = str(self._checkout.listed)
        if name == RIVAL:
            cache = self._folder / f"aider-{number}"
            script = str(ROOT / "benchmarks" / "codegraph_aider.py")
            found = _child([script, self._checkout.root, listed, str(cache), _core()], with_aider=True)
            shutil.rmtree(cache)
            return found
        graph = self._folder / f"graph-{number}.db"
        files, cpus = [] if name == TREE else [listed], _every_core() if name == SHIPPED else _core()
        found = _child(["-m", "benchmarks.codegraph_ours", self._checkout.root, str(graph), cpus, *files])
        for part in self._folder.glob(f"{graph.name}*"):
            part.unlink()
        return found

    def values(self, name: str, key: str) -> list[float]:
        return [found[key] for found in self.rounds[name]]

    def claims(self) -> list[Claim]:
        lines = self._checkout.lines / 1e6
        ours = min(self.values(OURS, "wall_s"))
        made = [
            _claim("seconds per MLOC", ours / lines, f"{self._checkout.lines:,} lines on one core"),
            _claim("resident MB", max(self.values(SHIPPED, "rss_mb")), "its processes on all cores"),
        ]
        return [*self._faster(), *made]

    def _faster(self) -> list[Claim]:
        if RIVAL not in self.rounds:
            return []
        return [
            _claim(
                name,
                best_ratio(self.values(RIVAL, key), self.values(ours, key)),
                RIVAL,
                paired_ratio(self.values(RIVAL, key), self.values(ours, key)),
            )
            for name, ours, key in (
                ("full index", SHIPPED, "wall_s"),
                ("full index, one core", OURS, "wall_s"),
                ("full index, CPU", OURS, "cpu_s"),
            )
        ]

    def figures(self) -> dict[str, Any]:
        return {name: [_rounded(found) for found in rounds] for name, rounds in self.rounds.items()}


def _child(command: Sequence[str], *, with_aider: bool = False) -> Round:
    environment = dict(os.environ)
    if with_aider:
        environment["PYTHONPATH"] = str(AIDER.require("packages"))
    ran = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise Misbehaved(f"{command[0]} {command[1]} ended with code {ran.returncode}:\n{ran.stderr[-2000:]}")
    return json.loads(ran.stdout)


def _core() -> str:
    """The last core: the first has the system's own work."""
    return str(max(os.sched_getaffinity(0)))


def _every_core() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


# --- one file ---------------------------------------------------------------------------------------


def updates(checkout: Checkout, folder: Path, count: int) -> list[float]:
    """Milliseconds that each of so many edits took to be in the graph."""
    root = folder.resolve() / "copy"
    for name in checkout.files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(checkout.root) / name, root / name)
    dice, waits = random.Random(SEED), list[float]()
    with Store(folder / "updated.db") as store:
        jail = Jail([root])
        index_project(store, jail, str(root), [])
        for name in dice.choices(checkout.files, k=count):
            _edit(store, root, name, dice)
            began = time.perf_counter()
            report = update_files(store, jail, str(root), [name])
            waits.append((time.perf_counter() - began) * 1e3)
            if report.updated_files != [name]:
                raise Misbehaved(f"an edit of {name} updated {report.updated_files}")
    return waits


def _edit(store: Store, root: Path, name: str, dice: random.Random) -> None:
    path = root / name
    text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    known = _symbols(store, str(root), name)
    if known:
        symbol = dice.choice(known)
        text = re.sub(rf"\b{re.escape(symbol)}\b", f"{symbol}_{dice.randrange(10**6)}", text)
    else:
        text += "\n"
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))


def _symbols(store: Store, root: str, path: str) -> list[str]:
    with store.reading() as connection:
        project = project_at(connection, root)
        assert project is not None
        file = file_at(connection, project.id, path)
        assert file is not None
        return [symbol.name for symbol in symbols_of(connection, file.id)]


# --- the report -------------------------------------------------------------------------------------


def measure(root: str, folder: Path, plan: Plan) -> Found:
    """Everything, in the order of the report."""
    neighbours = Neighbours()
    say("the checkout")
    checkout = Checkout.read(root, folder)
    full = Full(checkout, folder, plan)
    say("updates of one file")
    updated = updates(checkout, folder, plan.updates)
    say("logging beside an index")
    waits = codegraph_log.measure(root, checkout.files, folder, plan.events)
    say("questions")
    asked = codegraph_questions.measure(folder / "first.db", root, plan.questions)
    return {
        "claims": [*full.claims(), *_claims_of_waits(updated, waits)],
        "rows": full.figures(),
        "update_ms": percentiles(updated),
        "log_ms": {name: percentiles(of) for name, of in waits.items()},
        "questions_ms": {name: percentiles(of) for name, of in asked.items()},
        "checkout": {"name": Path(root).name, "files": len(checkout.files), "lines": checkout.lines},
        "seeds": [SEED],
        "rivals": {"aider": RIVAL.partition(" ")[2]} if RIVAL in full.rounds else {},
        "not_measured": [] if RIVAL in full.rounds else [RIVAL],
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
        "method": METHOD,
    }


def _claims_of_waits(updated: Sequence[float], waits: dict[str, list[float]]) -> list[Claim]:
    ours, bare = waits[codegraph_log.OURS], waits[codegraph_log.BARE]
    return [
        _claim("one-file update p95, ms", at(updated, 0.95), f"{len(updated)} edits"),
        {
            **_claim("log p99 while indexing", at(ours, 0.99) / at(bare, 0.99), codegraph_log.BARE),
            "p50_ratio": round(median(ours) / median(bare), 2),
        },
    ]


def _claim(name: str, ratio: float, against: str, paired: float | None = None) -> Claim:
    bar, ratio = BARS.get(name), round(ratio, 2)
    met = None if bar is None else ratio >= bar if name in AT_LEAST else ratio <= bar
    claim: Claim = {"name": name, "bar": bar, "ratio": ratio, "met": met, "against": against}
    return claim if paired is None else {**claim, "paired_ratio": round(paired, 2)}


def at(values: Sequence[float], share: float) -> float:
    """The value that so large a share of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {"count": len(values), **{name: round(at(values, share), 3) for name, share in shares.items()}}


def _rounded(found: Round) -> Round:
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in found.items()}


def as_text(found: Found) -> str:
    lines = [*claim_lines(found["claims"]), "", f"{'full index of ' + found['checkout']['name']:30}"]
    for name, rounds in found["rows"].items():
        best = min(rounds, key=lambda each: each["wall_s"])
        lines.append(f"{name:30}{best['wall_s']:>8} s{best['cpu_s']:>8} s CPU{best['rss_mb']:>9} MB")
    lines += ["", f"update, ms: {json.dumps(found['update_ms'])}"]
    lines += [f"log {name}, ms: {json.dumps(of)}" for name, of in found["log_ms"].items()]
    lines += [f"{name}, ms: {json.dumps(of)}" for name, of in found["questions_ms"].items()]
    if found["not_measured"]:
        lines.append(f"Not there, so not measured: {', '.join(found['not_measured'])}.")
    return "\n".join([*lines, *busy_lines(found["machine"])])


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("codegraph", __doc__, quick="less of everything and no rival: shows that it works")
    options.add_argument("path", metavar="PATH", help="a checkout of any repository")
    chosen = options.parse_args(argv)
    root = Path(chosen.path).resolve()
    if not root.is_dir():
        options.error(f"{chosen.path} is not a folder")
    if not supported():
        print("Memory of a process cannot be read here: this needs Linux", file=sys.stderr)
        return 0
    plan = QUICK if chosen.quick else Plan()
    return run(lambda folder: measure(str(root), folder, plan), as_text, as_json=chosen.json)


if __name__ == "__main__":
    sys.exit(main())
