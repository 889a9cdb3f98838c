"""What earlier attempts say about files: which changed for a like question, with each other, lately.

Only evidence counts: an attempt that holds nothing but our own look-ups says nothing. An attempt that touched
very many files (a rename, a new year in every header) says little about each, so it is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tracedesk.codegraph.rank.terms import match
from tracedesk.journal.sqlite import Connection

LIKE: Final = 25
"""Attempts that are looked at for a question, the most alike."""
PACE: Final = 300
"""The newest attempts: churn is counted in them, and how far back they reach is the measure of age."""
TOGETHER: Final = 40
"""Attempts that are looked at for the companions of a file, the newest."""
MOST_FILES: Final = 30
MOST_COMPANIONS: Final = 12

_PATHS_WEIGHT: Final = 0.5
_SHARPNESS: Final = 1.5
_RECENCY: Final = 1.5
_ROLES: Final = {"changed": 1.0, "cited": 0.5, "read": 0.3}

Scores = dict[str, float]
"""Of files, by path; higher is better, unbounded."""


@dataclass(slots=True)
class Remembered:
    """Files of attempts that were like a question, and the attempts that speak for each, the best first."""

    scores: Scores = field(default_factory=dict[str, float])
    attempts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def remembered(trace: Connection, root: str, terms: list[str], known: Collection[str]) -> Remembered:
    """The files that attempts at like questions changed, of those that are known."""
    query = f"""
        SELECT a.id, a.name, a.started_ns, -bm25(attempt_fts, 1.0, {_PATHS_WEIGHT}) AS score
        FROM attempt_fts JOIN attempt a ON a.id = attempt_fts.rowid
        WHERE attempt_fts MATCH ? AND a.project = ? AND a.evidence = 1
        ORDER BY score DESC, a.started_ns DESC, a.id DESC LIMIT ?
    """
    alike = list(trace.execute(query, (match(terms), root, LIKE)))
    found = Remembered()
    if alike and alike[0][3] > 0:
        age = Age.of(trace, root, PACE)
        files = _files(trace, [row[0] for row in alike])
        for attempt, name, started_ns, score in alike:
            likeness = (score / alike[0][3]) ** _SHARPNESS * (1 + _RECENCY * age.recency(started_ns))
            _tell(found, name, likeness, _known(files.get(attempt, ()), known))
    return found


def _tell(found: Remembered, attempt: str, likeness: float, files: Sequence[tuple[str, str]]) -> None:
    for path, role in files:
        told = likeness * _ROLES[role] / math.sqrt(len(files))
        found.scores[path] = found.scores.get(path, 0.0) + told
        found.attempts.setdefault(path, []).append(attempt)


class Churn:
    """How often files changed in the newest attempts, kept until there are others. For any thread."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[str, int, int], Scores] | None = None

    def of(self, trace: Connection, root: str) -> Scores:
        """By path, as a logarithm."""
        last, count = next(trace.execute("SELECT max(event), count(*) FROM attempt_event"))
        state = root, last or 0, count
        kept = self._kept
        if kept is None or kept[0] != state:
            kept = self._kept = (state, _churn(trace, root))
        return kept[1]


def _churn(trace: Connection, root: str) -> Scores:
    query = """
        SELECT id FROM attempt WHERE project = ? AND evidence = 1 ORDER BY started_ns DESC, id DESC LIMIT ?
    """
    newest = [attempt for (attempt,) in trace.execute(query, (root, PACE))]
    counts: defaultdict[str, int] = defaultdict(int)
    for files in _files(trace, newest).values():
        for path, role in files:
            counts[path] += role == "changed"
    return {path: math.log1p(count) for path, count in counts.items() if count}


def companions(
    trace: Connection, root: str, seeds: Iterable[tuple[str, float]], known: Collection[str]
) -> Scores:
    """Files that changed together with the seeds, each seed with its weight."""
    found: defaultdict[str, float] = defaultdict(float)
    for path, weight in seeds:
        attempts = _touching(trace, root, path)
        for files in _files(trace, attempts).values():
            others = [other for other, role in _known(files, known) if role == "changed"]
            if path in others and 1 < len(others) <= MOST_COMPANIONS:
                for other in others:
                    if other != path:
                        found[other] += weight / len(attempts) / math.sqrt(len(others) - 1)
    return dict(found)


def _touching(trace: Connection, root: str, path: str) -> list[int]:
    query = """
        SELECT DISTINCT a.id, a.started_ns FROM attempt_file f JOIN attempt a ON a.id = f.attempt
        WHERE f.path = ? AND f.role = 'changed' AND a.project = ? AND a.evidence = 1
        ORDER BY a.started_ns DESC, a.id DESC LIMIT ?
    """
    return [attempt for attempt, _ in trace.execute(query, (path, root, TOGETHER))]


def _files(trace: Connection, attempts: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
    """The files that attempts changed; of one that changed none, those that it cited or read."""
    found: dict[int, list[tuple[str, str]]] = {}
    for attempt in attempts:
        files = _touched(trace, attempt, "=") or _touched(trace, attempt, "!=")
        if len(files) <= MOST_FILES:
            found[attempt] = files
    return found


def _touched(trace: Connection, attempt: int, comparison: str) -> list[tuple[str, str]]:
    # By the alphabet, the roles are in the order of their weight.
    query = f"""
        SELECT path, min(role) FROM attempt_file WHERE attempt = ? AND role {comparison} 'changed'
        GROUP BY path LIMIT ?
    """
    return list(trace.execute(query, (attempt, MOST_FILES + 1)))


def _known(files: Iterable[tuple[str, str]], known: Collection[str]) -> list[tuple[str, str]]:
    return [(path, role) for path, role in files if path in known]


@dataclass(frozen=True, slots=True)
class Age:
    """The measure of age in a project: when its newest attempt began, how far back its newest ones reach."""

    newest_ns: int
    span_ns: int
    weight: float
    """How much recency can say: little where there are few attempts, which are all recent."""

    @classmethod
    def of(cls, trace: Connection, root: str | None, pace: int) -> Age:
        """By so many of the newest attempts, of one project or of all."""
        query = f"""
            SELECT max(started_ns), min(started_ns), count(*) FROM (
              SELECT started_ns FROM attempt WHERE {"project = ?" if root else "? IS NULL"} AND evidence = 1
              ORDER BY started_ns DESC LIMIT ?)
        """
        newest, oldest, count = next(trace.execute(query, (root, pace)))
        # Fewer attempts than the pace: as if they had gone on like this.
        return cls(newest, (newest - oldest) * pace // count, count / pace) if count else cls(0, 0, 0.0)

    def recency(self, started_ns: int) -> float:
        """Up to 1 for the newest attempt, half of that where the measure ends, then towards 0."""
        age = max(0, self.newest_ns - started_ns)
        return self.weight * (self.span_ns / (self.span_ns + age) if self.span_ns else float(age == 0))
