"""Have we tried this before? `python -m benchmarks.codegraph_attempts REPOSITORY… [--fit] [--json]`.

Commits are attempts, in order; each of the newest asks, with its message without numbers, for the attempts
before it. Those that name the same ticket should be found; random ones should not score. `--fit` prints the
calibration table that these histories give; the shipped one is in `tracedesk.codegraph.rank.calibration`.
"""

from __future__ import annotations

import itertools
import random
import sys
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

if not __package__:  # run as a file: its own folder is on the path then, and not the one above
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.codegraph_history import Commit, tickets, without_merges, without_numbers, wordings
from benchmarks.command import Found, parser, run, say
from benchmarks.measure import machine
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.codegraph.rank.attempts import Asked, Match, scored
from tracedesk.codegraph.rank.calibration import REFERENCE
from tracedesk.journal.read import Reader
from tracedesk.payloads import Payloads
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SECOND, SystemClock

if TYPE_CHECKING:
    from tracedesk.codegraph.rank.recall import Recall

WORDINGS: Final = ("full", "subject")
DEFAULT: Final = 0.2
"""The score from which on a match is given by default."""
ATTEMPTS: Final = 4_339
QUESTIONS: Final = 600
SEED: Final = 7
"""Of the pairs that are drawn blindly."""
RANDOM: Final = 40
SPARSE: Final = 4
RECENT: Final = 200
ROUTINE: Final = 2
"""A subject that occurs more often than this is a routine: its repetitions are no random pairs."""
MOST_FILES: Final = 60
STEPS: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
METHOD: Final = {
    "attempts": "commits that are no merges and change at most 60 files, oldest first: message and paths",
    "question": "the message (or its subject) of a later commit, all numbers and hashes removed; `with "
    "files` also gives the paths that it changed; every commit with an earlier one of the same ticket asks, "
    "and every fourth commit",
    "same ticket": "an earlier commit that names a ticket number the asking commit names",
    "mrr": "mean of 1 / place of the first such attempt, over questions that have one",
    "random": f"share of pairs of a question and an earlier attempt, drawn blindly ({RANDOM} for each fourth "
    f"commit), whose score is at least {DEFAULT}; `recent`: drawn from the {RECENT} attempts before it",
    "related": f"share of same-ticket pairs whose score is at least {DEFAULT}",
    "routines": "commits whose subject occurs more than twice ask nothing and are in no pair for the fit; "
    "the reported shares leave nothing out",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much: attempts in all, and how many of the newest ask."""

    attempts: int = ATTEMPTS
    questions: int = QUESTIONS
    model: str = "none"
    home: Path | None = None


@dataclass(slots=True)
class Tally:
    """What was seen under one wording, with or without files."""

    reciprocal: list[float] = field(default_factory=list[float])
    first_five: list[float] = field(default_factory=list[float])
    related: list[float] = field(default_factory=list[float])
    unrelated: list[float] = field(default_factory=list[float])
    recent: list[float] = field(default_factory=list[float])
    pairs: list[tuple[float, bool]] = field(default_factory=list[tuple[float, bool]])
    """Likeness without routines, and whether the pair is of one ticket; for the fit."""

    def document(self) -> dict[str, Any]:
        return {
            "questions": len(self.reciprocal),
            "mrr": _rounded(self.reciprocal),
            "hit@5": _rounded(self.first_five),
            "related": _share(self.related),
            "random": _share(self.unrelated),
            "recent": _share(self.recent),
        }


def _rounded(values: Sequence[float]) -> float | None:
    return round(mean(values), 4) if values else None


def _share(scores: Sequence[float]) -> float | None:
    return round(sum(score >= DEFAULT for score in scores) / len(scores), 4) if scores else None


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A question's commit, and the earlier ones that it is paired with."""

    number: int
    related: set[int]
    unrelated: list[int]
    recent: list[int]


class History:
    """Commits logged one after the other, and asked about before they are."""

    def __init__(self, commits: Sequence[Commit], etg: Etg, recall: Recall | None, fill: Any) -> None:
        self._commits, self._etg, self._recall, self._fill = commits, etg, recall, fill
        self._subjects = Counter(wordings(commit.message)["subject"] for commit in commits)
        self._of_ticket: defaultdict[str, list[int]] = defaultdict(list)
        self._dice = random.Random(SEED)
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)

    def replay(self, questions: int) -> None:
        first = max(1, len(self._commits) - questions)
        self._etg.log_many([_event(commit) for commit in self._commits[:first]])
        for number, commit in enumerate(self._commits):
            if number >= first:
                self._ask(number, commit)
                self._etg.log(_event(commit))
            for ticket in tickets(commit.message):
                self._of_ticket[ticket].append(number)

    def _ask(self, number: int, commit: Commit) -> None:
        related = {place for ticket in tickets(commit.message) for place in self._of_ticket[ticket]}
        if not related and number % SPARSE:
            return
        # Questions that have a related attempt are asked more often: they would bias what is random.
        pairs = 0 if number % SPARSE else RANDOM
        unrelated = [self._dice.randrange(number) for _ in range(pairs)]
        recent = [self._dice.randrange(max(0, number - RECENT), number) for _ in range(pairs // 4)]
        self._etg.catch_up()
        with Reader(self._etg.path) as trace:
            if self._recall is not None:
                self._fill(trace.connection)
            for wording in WORDINGS:
                text = without_numbers(wordings(commit.message)[wording])
                for name, files in ((wording, ()), (f"{wording} with files", commit.files)):
                    matches, _ = scored(trace.connection, Asked(text, tuple(files), "history"), self._recall)
                    drawn = _Drawn(number, related, unrelated, recent)
                    self._count(self.tallies[name], drawn, {int(m.attempt_id): m for m in matches})

    def _count(self, tally: Tally, drawn: _Drawn, found: Mapping[int, Match]) -> None:
        def scores(numbers: Iterable[int]) -> list[float]:
            return [found[number].score if number in found else 0.0 for number in numbers]

        if drawn.related:
            place = next((n for n, number in enumerate(found) if number in drawn.related), None)
            tally.reciprocal.append(0.0 if place is None else 1 / (place + 1))
            tally.first_five.append(float(place is not None and place < 5))
        tally.related += scores(drawn.related)
        tally.unrelated += scores(drawn.unrelated)
        tally.recent += scores(drawn.recent)
        if not self._is_routine(drawn.number):
            for number in (*drawn.unrelated, *drawn.recent, *drawn.related):
                if not self._is_routine(number):
                    likeness = found[number].likeness if number in found else 0.0
                    tally.pairs.append((likeness, number in drawn.related))

    def _is_routine(self, number: int) -> bool:
        return self._subjects[wordings(self._commits[number].message)["subject"]] > ROUTINE


def _event(commit: Commit) -> NewEvent:
    """The commit as the history's importer logs it, under its number."""
    payload = {
        "message": commit.message.partition("\n")[0] or "(no message)",
        "query": wordings(commit.message)["full"],
        "files": list(commit.files),
        "graph_version": f"git-tree:{commit.sha}",
    }
    return NewEvent(
        _NUMBERS[commit.sha],
        "checkpoint",
        payload,
        timestamp_ns=commit.time_s * SECOND,
        project="history",
        outcome="succeeded",
        event_id=f"git:{commit.sha}",
        source="git",
    )


_NUMBERS: Final[dict[str, str]] = {}


def measured(repositories: Sequence[Path], folder: Path, plan: Plan, *, fits: bool) -> Found:
    """Replay each history, and fit a table to all of them if asked to."""
    figures: dict[str, Any] = {}
    pairs: list[tuple[float, bool]] = []
    for number, repository in enumerate(repositories):
        name = repository.name if repository.name != "repo" else repository.parent.name
        say(name)
        history = _replayed(repository, folder / str(number), plan)
        figures[name] = {way: tally.document() for way, tally in history.tallies.items()}
        pairs += [pair for tally in history.tallies.values() for pair in tally.pairs]
    found: Found = {
        "figures": figures,
        "model": plan.model,
        "seeds": [SEED],
        "machine": machine(),
        "method": METHOD,
    }
    return {**found, "table": fitted(pairs)} if fits else found


def _replayed(repository: Path, folder: Path, plan: Plan) -> History:
    folder.mkdir()
    commits = [c for c in without_merges(repository, plan.attempts) if len(c.files) <= MOST_FILES]
    _NUMBERS.update((commit.sha, str(number)) for number, commit in enumerate(commits))
    etg = Etg(folder / "trace.db", SystemClock(), Secrets(), Payloads(folder / "payloads"))
    with closing(etg):
        history = History(commits, etg, *_recall(plan, folder))
        history.replay(plan.questions)
    return history


def _recall(plan: Plan, folder: Path) -> tuple[Recall | None, Any]:
    if plan.model == "none":
        return None, None
    from benchmarks.codegraph_models import fill_attempts, vectors
    from tracedesk.codegraph.rank.recall import Recall

    kept = vectors(plan.model, plan.home or folder)
    return Recall(kept), partial(fill_attempts, kept)


# --- the fit


def fitted(pairs: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """An isotonic table from likeness to the chance that a pair is of one ticket.

    The odds of a pair are set so that what random pairs seldom reach has the default score.
    """
    ratios = _isotonic(pairs)
    odds = DEFAULT / (1 - DEFAULT) / _at(ratios, REFERENCE)
    table = [(step, round(_chance(_at(ratios, step) * odds), 4)) for step in STEPS]
    return [(0.0, 0.0), *table[1:-1], (1.0, 1.0)]


def _chance(odds: float) -> float:
    return odds / (1 + odds)


def _isotonic(pairs: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """How much likelier a likeness is among pairs of one ticket than among random ones, never falling."""
    same = [raw for raw, is_same in pairs if is_same]
    blind = [raw for raw, is_same in pairs if not is_same]
    bins = [n / 40 for n in range(41)]
    blocks: list[list[float]] = []
    for low, high in itertools.pairwise(bins):
        hits = sum(low <= raw < high for raw in same) / len(same) + 1e-6
        misses = sum(low <= raw < high for raw in blind) / len(blind) + 1e-6
        blocks.append([(low + high) / 2, hits, misses, 1])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] > blocks[-1][1] / blocks[-1][2]:
            last, before = blocks.pop(), blocks.pop()
            count = last[3] + before[3]
            centre = (last[0] * last[3] + before[0] * before[3]) / count
            blocks.append([centre, last[1] + before[1], last[2] + before[2], count])
    return [(centre, hits / misses) for centre, hits, misses, _ in blocks]


def _at(ratios: Sequence[tuple[float, float]], raw: float) -> float:
    """Between the middles of two blocks it is a line."""
    if raw <= ratios[0][0]:
        return ratios[0][1] * raw / ratios[0][0]
    for (low, before), (high, after) in itertools.pairwise(ratios):
        if raw <= high:
            return before + (after - before) * (raw - low) / (high - low)
    return ratios[-1][1]


def as_text(found: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for name, ways in found["figures"].items():
        lines.append(f"{name}, model {found['model']}")
        for way, figures in ways.items():
            cells = "  ".join(f"{key} {value}" for key, value in figures.items())
            lines.append(f"  {way:20}{cells}")
    lines += [f"  ({raw}, {score})," for raw, score in found.get("table", ())]
    return "\n".join(lines)


def _options() -> Namespace:
    options = parser("codegraph_attempts", __doc__)
    options.add_argument("repositories", type=Path, nargs="+")
    options.add_argument("--attempts", type=int, default=ATTEMPTS, help="commits, the newest")
    options.add_argument("--questions", type=int, default=QUESTIONS, help="of them so many ask")
    options.add_argument("--model", choices=("none", "static", "minilm"), default="none")
    options.add_argument("--home", type=Path, help="a home whose models and vectors are used and kept")
    options.add_argument("--fit", action="store_true", help="print the calibration table")
    return options.parse_args()


def main() -> int:
    given = _options()
    plan = Plan(given.attempts, given.questions, given.model, given.home)
    return run(
        lambda folder: measured(given.repositories, folder, plan, fits=given.fit), as_text, as_json=given.json
    )


if __name__ == "__main__":
    sys.exit(main())
