"""Which files? `python -m benchmarks.codegraph_retrieval REPOSITORY [--commits N] [--model NAME] [--json]`.

REPOSITORY is any git repository with a history, bare or not; it is only read. Its newest commits are
replayed: before each, the graph is that of the parent's tree and the attempts are the commits so far; the
question is what the commit says, the answer is the source it modified. Prints figures; it judges nothing by
its exit code.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING, Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.codegraph_history import VARIANTS, Commit, Tree, first_parents, sources, wordings
from benchmarks.command import NEIGHBOURS, Found, busy_lines, parser, run, say
from benchmarks.measure import Neighbours, machine
from tracedesk.codegraph.etg.git import import_history
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.store import Project, Store, project_at
from tracedesk.codegraph.graph.update import update_files
from tracedesk.codegraph.rank.files import Hit, Question, Ranker
from tracedesk.codegraph.rank.terms import query_terms
from tracedesk.journal.read import Reader
from tracedesk.journal.sqlite import Connection
from tracedesk.payloads import Payloads
from tracedesk.primitives.paths import Jail
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SystemClock

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.vectors import Vectors
    from tracedesk.codegraph.rank.meaning import Meaning

DEPTH: Final = 10
SEEN: Final = 100
"""Answers that are looked at for the reciprocal rank."""
METHOD: Final = {
    "protocol": "first-parent history, replayed in order; before a commit the graph is that of the parent's "
    "tree (changed files updated after each commit) and the attempts are the commits before it",
    "question": "the commit's message without ticket numbers, prefixes of tickets and trailers; `plain` is "
    "the subject without anything that looks like code",
    "answer": "source (code that is no test) that was modified; commits with 1 to 10 such files and at most "
    "30 changes; candidates are all source files of the parent",
    "recall@10": "share of the answer in the first ten, mean over questions",
    "hit@10": "share of questions with one file of the answer in the first ten",
    "mrr": f"mean of 1 / place of the first file of the answer, 0 beyond place {SEEN}",
    "words": "without attempts and vectors",
    "attempts": "words, and the attempts of the history",
    "meaning": "the same, and the vectors of the model",
    "p95_ms": "wall clock of a search among all files for ten hits, with attempts (and vectors), by subject",
    "neighbours_cores": NEIGHBOURS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much: commits to replay, commits before them that are attempts, and of how many to ask (0: all)."""

    commits: int = 1_000
    history: int = 4_000
    questions: int = 0
    model: str = "none"
    home: Path | None = None
    dump: Path | None = None
    wordings: tuple[str, ...] = VARIANTS


@dataclass(slots=True)
class Figures:
    """How well one way of ranking did on one wording."""

    recall: list[float] = field(default_factory=list[float])
    hit: list[float] = field(default_factory=list[float])
    reciprocal: list[float] = field(default_factory=list[float])

    def add(self, answer: Sequence[str], ranked: Sequence[str]) -> None:
        met = [path in answer for path in ranked]
        self.recall.append(sum(met[:DEPTH]) / len(answer))
        self.hit.append(float(any(met[:DEPTH])))
        self.reciprocal.append(1 / (met.index(True) + 1) if True in met else 0.0)

    def document(self) -> dict[str, Any]:
        count = len(self.recall)
        figures = {"recall@10": self.recall, "hit@10": self.hit, "mrr": self.reciprocal}
        return {"n": count, **{name: round(mean(each), 4) for name, each in figures.items() if count}}


# --- replaying


class Replay:
    """A repository's graph and attempts, moved from commit to commit."""

    def __init__(self, tree: Tree, store: Store, etg: Etg) -> None:
        self._tree, self._store, self._etg = tree, store, etg
        self.root = str(tree.folder.resolve())
        self._jail = Jail([self.root])

    def begin(self, parent: str, history: int) -> None:
        """The tree before the first commit, and the attempts up to it."""
        self._tree.go(parent)
        index_project(self._store, self._jail, self.root, ["."])
        import_history(self._etg, self._tree.folder, project=self.root, most=history)

    def step(self, commit: Commit) -> None:
        self._tree.go(commit.sha)
        # No process of its own for each commit: these files are not there to do harm.
        update_files(self._store, self._jail, self.root, commit.files, workers=0)
        import_history(self._etg, self._tree.folder, project=self.root, most=1)

    @contextmanager
    def reading(self) -> Generator[tuple[Connection, Connection]]:
        self._etg.catch_up()
        with self._store.reading() as graph, Reader(self._etg.path) as trace:
            yield graph, trace.connection


class Ways:
    """The ways of ranking that are compared, on one state after the other."""

    def __init__(
        self,
        meaning: Meaning | None,
        fill: Callable[[Connection, int], None],
        wordings: Sequence[str],
    ) -> None:
        plain = Ranker()
        self._wordings = wordings
        self._ways: dict[str, tuple[Ranker, bool]] = {"words": (plain, False), "attempts": (plain, True)}
        if meaning is not None:
            self._ways["meaning"] = Ranker(meaning), True
        self._fill = fill
        self.figures: dict[str, dict[str, Figures]] = {}
        self.waits_ms: list[float] = []
        self.dumped: list[dict[str, Any]] = []

    def ask(self, replay: Replay, commit: Commit, answer: Sequence[str]) -> None:
        with replay.reading() as (graph, trace):
            project = project_at(graph, replay.root)
            assert project is not None
            self._fill(graph, project.id)
            for wording, text in wordings(commit.message).items():
                if wording in self._wordings and query_terms(text):
                    for way in self._ways:
                        hits = self._hits(way, graph, trace, project, Question(text, among="source"))
                        figures = self.figures.setdefault(wording, {}).setdefault(way, Figures())
                        figures.add(answer, [hit.path for hit in hits])
                        self._keep(commit, wording, way, answer, hits)
            self._time(graph, trace, project, wordings(commit.message)["subject"])

    def _hits(
        self, way: str, graph: Connection, trace: Connection, project: Project, question: Question
    ) -> tuple[Hit, ...]:
        ranker, has_memory = self._ways[way]
        memory = trace if has_memory else None
        return ranker.search(graph, memory, project, question, SEEN, symbols=False).hits

    def _time(self, graph: Connection, trace: Connection, project: Project, text: str) -> None:
        """A search as a client asks for it."""
        ranker, _ = list(self._ways.values())[-1]
        began = time.perf_counter()
        ranker.search(graph, trace, project, Question(text), DEPTH)
        self.waits_ms.append((time.perf_counter() - began) * 1e3)

    def _keep(
        self, commit: Commit, wording: str, way: str, answer: Sequence[str], hits: Sequence[Hit]
    ) -> None:
        parts = [(hit.path, hit.score, dict(hit.parts)) for hit in hits]
        kept = {"commit": commit.sha, "wording": wording, "way": way, "answer": list(answer)}
        self.dumped.append({**kept, "hits": parts})


def measured(repository: Path, folder: Path, plan: Plan) -> Found:
    """Replay the history and ask."""
    neighbours = Neighbours()
    commits = first_parents(repository, plan.commits)
    asked = _asked(commits, plan.questions)
    tree = Tree(repository, folder / "tree")
    etg = Etg(folder / "trace.db", SystemClock(), Secrets(), Payloads(folder / "payloads"))
    with closing(etg), Store(folder / "graph.db") as store:
        replay = Replay(tree, store, etg)
        vectors = _vectors(plan, folder)
        ways = Ways(*_meaning(vectors), plan.wordings)
        say(f"{len(asked)} questions of {len(commits)} commits")
        parent = commits[0].parent
        if parent is None:
            commits, parent = commits[1:], commits[0].sha
        replay.begin(parent, plan.history)
        for number, commit in enumerate(commits):
            if commit.sha in asked:
                ways.ask(replay, commit, asked[commit.sha])
            replay.step(commit)
            if number % 100 == 99:
                say(f"commit {number + 1} of {len(commits)}")
    if plan.dump is not None:
        plan.dump.write_text(json.dumps(ways.dumped), encoding="utf-8")
    return _found(repository, plan, ways, neighbours)


def _asked(commits: Sequence[Commit], most: int) -> dict[str, list[str]]:
    """The commits that are asked about, evenly spread where not all are, and their answers."""
    found = [(commit.sha, sources(commit)) for commit in commits if _is_fit(commit)]
    step = max(1.0, len(found) / most) if most else 1.0
    return dict(found[int(number * step)] for number in range(int(len(found) / step)))


def _is_fit(commit: Commit) -> bool:
    return bool(sources(commit)) and bool(query_terms(wordings(commit.message)["subject"]))


def _vectors(plan: Plan, folder: Path) -> Vectors | None:
    if plan.model == "none":
        return None
    from benchmarks.codegraph_models import vectors

    return vectors(plan.model, plan.home or folder)


def _meaning(vectors: Vectors | None) -> tuple[Meaning | None, Callable[[Connection, int], None]]:
    if vectors is None:
        return None, lambda graph, project: None
    from benchmarks.codegraph_models import fill
    from tracedesk.codegraph.rank.meaning import Meaning

    return Meaning(vectors), lambda graph, project: fill(vectors, graph, project)


def _found(repository: Path, plan: Plan, ways: Ways, neighbours: Neighbours) -> Found:
    waits = sorted(ways.waits_ms)
    return {
        "repository": repository.name if repository.name != "repo" else repository.parent.name,
        "commits": plan.commits,
        "model": plan.model,
        "figures": {
            wording: {way: figures.document() for way, figures in by_way.items()}
            for wording, by_way in ways.figures.items()
        },
        "p50_ms": round(waits[len(waits) // 2], 2) if waits else None,
        "p95_ms": round(quantiles(waits, n=20)[-1], 2) if len(waits) > 1 else None,
        "seeds": [],
        "machine": {**machine(), "neighbours_cores": round(neighbours.cores(), 2)},
        "method": METHOD,
    }


def as_text(found: Mapping[str, Any]) -> str:
    lines = [f"{found['repository']}: the newest {found['commits']} commits, model {found['model']}"]
    for wording in VARIANTS:
        for way, figures in found["figures"].get(wording, {}).items():
            cells = "  ".join(f"{name} {value:.3f}" for name, value in figures.items() if name != "n")
            lines.append(f"{wording:9}{way:10}{cells}  (n = {figures['n']})")
    lines.append(
        f"one search: {found['p50_ms']} ms in the median, {found['p95_ms']} ms at the 95th percentile"
    )
    return "\n".join([*lines, *busy_lines(found["machine"])])


def _options() -> Namespace:
    options = parser("codegraph_retrieval", __doc__)
    options.add_argument("repository", type=Path)
    options.add_argument("--commits", type=int, default=1_000, help="commits to replay")
    options.add_argument("--history", type=int, default=4_000, help="commits before them, as attempts")
    options.add_argument("--questions", type=int, default=0, help="ask of so many, evenly spread; 0: of all")
    options.add_argument(
        "--wordings", default=",".join(VARIANTS), help="which are asked, with commas between"
    )
    options.add_argument("--model", choices=("none", "static", "minilm"), default="none")
    options.add_argument("--home", type=Path, help="a home whose models and vectors are used and kept")
    options.add_argument("--dump", type=Path, help="write every hit's parts into this file")
    return options.parse_args()


def main() -> int:
    given = _options()
    asked = tuple(given.wordings.split(","))
    plan = Plan(given.commits, given.history, given.questions, given.model, given.home, given.dump, asked)
    return run(lambda folder: measured(given.repository, folder, plan), as_text, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
