"""Which attempts were like a question: by their words, their files, their meaning, and their age."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tracedesk.codegraph.rank.calibration import REFERENCE, calibrated, relative
from tracedesk.codegraph.rank.memory import Age
from tracedesk.codegraph.rank.terms import match, query_terms
from tracedesk.journal.sqlite import Connection

if TYPE_CHECKING:
    from tracedesk.codegraph.rank.recall import Recall

Column = Literal["text", "paths"]
COLUMNS: Final[tuple[Column, ...]] = ("text", "paths")

MOST: Final = 100
"""Matches that are given at most."""
MOST_CANDIDATES: Final = 1_000
MOST_FILES: Final = 50
"""Of the files of a question, or of an attempt, so many are looked at."""
SMALL: Final = 100
"""A history of fewer attempts is searched as if it had so many."""
PACE: Final = 40
"""The newest attempts, whose span is the measure of age here."""

_TEXT: Final = 0.9
_PATHS: Final = 0.2
_FILES: Final = 0.6
_MEANING: Final = 0.4
_EVIDENCE: Final = 10.0
"""A match in words is believed as its weight (in nats) grows: at this much, to two thirds."""
_LIKENESS_OF_FILES: Final = 0.7
_EVIDENCE_OF_FILES: Final = 3.0
_RECENCY: Final = 2.0
_MOST_USES: Final = 2_000
"""A file that more attempts touched than this is a hub all the same."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked: a question, files it is about, and the project (None: all)."""

    query: str
    files: tuple[str, ...] = ()
    project: str | None = None
    without: str | None = None
    """An attempt that is not to be found: the one that asks."""


@dataclass(frozen=True, slots=True)
class Match:
    """An attempt that was like the question, and what speaks for it; everything in [0, 1]."""

    id: int
    attempt_id: str
    score: float
    likeness: float
    """Beside what is usual in its history, before calibration."""
    components: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Matches:
    """The best matches, and how they were found."""

    matches: tuple[Match, ...]
    capped: bool
    """Whether fewer were given than were asked for, because that was too many."""
    method: str
    coverage: Mapping[str, Any] | None


@dataclass(slots=True)
class _Candidate:
    id: int
    name: str
    started_ns: int
    text: float = 0.0
    paths: float = 0.0
    files: float = 0.0
    meaning: float = 0.0

    def told(self, column: Column, belief: float) -> None:
        """What is said twice counts once."""
        if column == "text":
            self.text = max(self.text, belief)
        else:
            self.paths = max(self.paths, belief)

    def likeness(self, recency: float) -> float:
        """One minus the chance that every kind of evidence misleads; recent attempts are believed sooner."""
        misses = (1 - _TEXT * self.text) * (1 - _PATHS * self.paths)
        misses *= (1 - _FILES * self.files) * (1 - _MEANING * self.meaning)
        return 1 - misses ** (1 + _RECENCY * recency)

    def components(self, recency: float) -> dict[str, float]:
        kinds = {"text": self.text, "paths": self.paths, "files": self.files, "meaning": self.meaning}
        return {kind: round(value, 4) for kind, value in {**kinds, "recency": recency}.items() if value > 0}


def similar(
    trace: Connection,
    asked: Asked,
    top_k: int = 5,
    min_score: float = 0.2,
    recall: Recall | None = None,
) -> Matches:
    """The attempts most like the question, the best first; of equals the latest."""
    matches, coverage = scored(trace, asked, recall)
    kept = tuple(match for match in matches if match.score >= min_score)[: min(top_k, MOST)]
    method = "noisy-or of text, paths, files" + (", meaning" if coverage else "") + "; isotonic calibration 1"
    return Matches(kept, top_k > MOST, method, coverage)


def scored(
    trace: Connection, asked: Asked, recall: Recall | None = None
) -> tuple[list[Match], Mapping[str, Any] | None]:
    """Every attempt that has a score at all, the best first, and how many could be compared by meaning."""
    found = _Search(trace, asked)
    found.by_words()
    found.by_files()
    coverage = found.by_meaning(recall) if recall is not None else None
    return found.best(LEVELS.of(trace, asked, recall)), coverage


class _Search:
    """One question under way, and the candidates for it."""

    def __init__(self, trace: Connection, asked: Asked) -> None:
        self._trace = trace
        self._asked = asked
        self._found: dict[int, _Candidate] = {}
        self._uses: dict[str, int] = {}
        self._count = next(trace.execute("SELECT count(*) FROM attempt WHERE evidence = 1"))[0]

    def by_words(self) -> None:
        """By all words; and by those of the first line alone, for a long text says much beside the point."""
        title, _, rest = self._asked.query.strip().partition("\n")
        for text in (self._asked.query, title) if rest else (title,):
            terms = query_terms(text)
            if terms and self._count < SMALL:
                self._by_terms(terms)
            elif terms:
                self._by_rank(terms)

    def _by_rank(self, terms: list[str]) -> None:
        """By the weight that the text index gives them."""
        most = self._information(self._uses_of(terms).values(), self._count)
        query = f"""
            SELECT a.id, a.name, a.started_ns, -bm25(attempt_fts, 1, 0), -bm25(attempt_fts, 0, 1)
            FROM attempt_fts JOIN attempt a ON a.id = attempt_fts.rowid
            WHERE attempt_fts MATCH ? AND {self._scope()}
            ORDER BY bm25(attempt_fts, 1, 0.5), a.id DESC LIMIT ?
        """
        for id, name, started, text, paths in self._rows(query, match(terms)):
            candidate = self._found.setdefault(id, _Candidate(id, name, started))
            candidate.told("text", _believed(text, most))
            candidate.told("paths", _believed(paths, most))

    def _by_terms(self, terms: list[str]) -> None:
        """Term by term, as if the history were longer: among few texts the index gives a term no weight."""
        uses = self._uses_of(terms)
        most = self._information(uses.values(), SMALL)
        weights: dict[tuple[int, Column], float] = {}
        query = f"""
            SELECT a.id, a.name, a.started_ns FROM attempt_fts JOIN attempt a ON a.id = attempt_fts.rowid
            WHERE attempt_fts MATCH ? AND {self._scope()} LIMIT ?
        """
        for term, column in itertools.product(terms, COLUMNS):
            for id, name, started in self._rows(query, f"{column} : {match([term])}"):
                self._found.setdefault(id, _Candidate(id, name, started))
                told = self._information([uses[term]], SMALL)
                weights[id, column] = weights.get((id, column), 0.0) + told
        for (id, column), weight in weights.items():
            self._found[id].told(column, _believed(weight, most))

    def _uses_of(self, terms: list[str]) -> dict[str, int]:
        query = "SELECT count(*) FROM attempt_fts WHERE attempt_fts MATCH ?"
        return {term: next(self._trace.execute(query, (match([term]),)))[0] for term in terms}

    def _information(self, uses: Iterable[int], count: int) -> float:
        """What a text weighs that has every term once: the sum of what the terms tell, in nats."""
        return sum(max(0.0, math.log((count - n + 0.5) / (n + 0.5))) for n in uses)

    def by_files(self) -> None:
        """How alike the sets of files are; a file that is often touched counts for little."""
        files = set(list(dict.fromkeys(self._asked.files))[:MOST_FILES])
        weight = sum(map(self._weight, files))
        for id, name, started in self._sharing(files):
            others = self._files(id)
            shared = sum(map(self._weight, files & others))
            likeness = shared / (weight + sum(map(self._weight, others)) - shared)
            candidate = self._found.setdefault(id, _Candidate(id, name, started))
            # Two sets of hubs can be equal and say nothing: what is shared must weigh something too.
            candidate.files = likeness**_LIKENESS_OF_FILES * -math.expm1(-shared / _EVIDENCE_OF_FILES)

    def _sharing(self, files: set[str]) -> Iterator[tuple[int, str, int]]:
        if files:
            query = f"""
                SELECT DISTINCT a.id, a.name, a.started_ns
                FROM attempt_file f JOIN attempt a ON a.id = f.attempt
                WHERE f.path IN ({",".join("?" * len(files))}) AND {self._scope()}
                ORDER BY a.started_ns DESC, a.id DESC LIMIT ?
            """
            yield from self._rows(query, *sorted(files))

    def _files(self, attempt: int) -> set[str]:
        query = "SELECT DISTINCT path FROM attempt_file WHERE attempt = ? LIMIT ?"
        return {path for (path,) in self._trace.execute(query, (attempt, MOST_FILES))}

    def _weight(self, path: str) -> float:
        if path not in self._uses:
            query = "SELECT count(*) FROM (SELECT 1 FROM attempt_file WHERE path = ? LIMIT ?)"
            self._uses[path] = next(self._trace.execute(query, (path, _MOST_USES)))[0]
        return math.log1p(max(self._count, SMALL) / (1 + self._uses[path]))

    def by_meaning(self, recall: Recall) -> Mapping[str, Any] | None:
        near = recall.near(self._trace, self._asked.project, self._asked.query)
        for id, nearness in near.scores.items():
            candidate = self._found.get(id) or self._named(id)
            if candidate is not None:
                candidate.meaning = nearness
        return near.coverage

    def _named(self, id: int) -> _Candidate | None:
        query = f"SELECT a.id, a.name, a.started_ns FROM attempt a WHERE a.id = ? AND {self._scope()} LIMIT ?"
        for row in self._rows(query, id):
            return self._found.setdefault(id, _Candidate(*row))
        return None

    def likenesses(self) -> list[tuple[float, float, _Candidate]]:
        """Each candidate's likeness and recency."""
        age = Age.of(self._trace, self._asked.project, PACE)
        recencies = [(candidate, age.recency(candidate.started_ns)) for candidate in self._found.values()]
        return [(candidate.likeness(recency), recency, candidate) for candidate, recency in recencies]

    def best(self, level: float) -> list[Match]:
        """The matches in order; `level` is the likeness that random pairs here seldom reach."""
        found = [(relative(raw, level), recency, candidate) for raw, recency, candidate in self.likenesses()]
        ordered = sorted(found, key=lambda one: (-one[0], -one[2].started_ns, -one[2].id))
        return [
            Match(candidate.id, candidate.name, round(calibrated(raw), 4), raw, candidate.components(recency))
            for raw, recency, candidate in ordered
            if raw > 0
        ]

    # --- the part of the store that is asked

    def _scope(self) -> str:
        return "a.evidence = 1 AND (? IS NULL OR a.project = ?) AND (? IS NULL OR a.name != ?)"

    def _rows(self, query: str, *bindings: Any) -> Iterator[Any]:
        asked = self._asked
        scope = (asked.project, asked.project, asked.without, asked.without)
        return self._trace.execute(query, (*bindings, *scope, MOST_CANDIDATES))


def _believed(weight: float, most: float) -> float:
    """The share of the question's information that was met, believed as far as there is enough of it."""
    return min(1.0, max(0.0, weight) / max(1.0, most)) * -math.expm1(-max(0.0, weight) / _EVIDENCE)


# --- what is usual in a history


class Levels:
    """The likeness that random pairs of a history seldom reach, measured once until the history has grown.

    In one history everybody writes of the same few things, in another hardly two texts share a word: a
    likeness says something only beside that of random pairs, asked in as many words.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None, str | None, bool], tuple[int, float, float]] = {}

    def of(self, trace: Connection, asked: Asked, recall: Recall | None) -> float:
        """The level of the project's history, for questions short or long, with files or without."""
        count = next(trace.execute(_COUNT, (asked.project, asked.project)))[0]
        if count < SMALL:
            return REFERENCE
        is_long = len(asked.query.split()) > _TITLE_WORDS
        key = trace.filename, asked.project, recall.model if recall is not None else None, is_long
        known = self._known.get(key)
        if known is None or not known[0] <= count <= known[0] * _GROWTH:
            usual = _usual(trace, asked.project, count, recall, is_long)
            known = self._known[key] = (count, *usual)
        return known[2] if asked.files else known[1]


LEVELS: Final = Levels()
_COUNT: Final = "SELECT count(*) FROM attempt WHERE evidence = 1 AND (? IS NULL OR project = ?)"
_GROWTH: Final = 1.05
_SAMPLE: Final = 48
_WINDOW: Final = 480
_SELDOM: Final = 0.009
_TITLE_WORDS: Final = 12
"""Words of a short question, and of what stands for one among attempts."""
_NUMBER: Final = re.compile(r"#?\b\d+\b")
_LEVELS: Final = (0.1, 0.8)


def _usual(
    trace: Connection, project: str | None, count: int, recall: Recall | None, is_long: bool
) -> tuple[float, float]:
    """What random pairs seldom reach, without and with files: some attempts ask for all the others."""
    query = """
        SELECT a.id, a.name, s.evidence FROM attempt a JOIN summary s ON s.attempt = a.id
        WHERE a.evidence = 1 AND (? IS NULL OR a.project = ?) ORDER BY a.started_ns DESC, a.id DESC LIMIT ?
    """
    newest = list(trace.execute(query, (project, project, _WINDOW)))
    sample = newest[:: max(1, len(newest) // _SAMPLE)][:_SAMPLE]
    without: list[float] = []
    with_files: list[float] = []
    for id, name, text in sample:
        found = _Search(trace, Asked(_as_question(text, is_long), _paths(trace, id), project, name))
        found.by_words()
        if recall is not None:
            found.by_meaning(recall)
        without += [raw for raw, _, _ in found.likenesses()]
        found.by_files()
        with_files += [raw for raw, _, _ in found.likenesses()]
    seldom = int(_SELDOM * len(sample) * count)
    return _bounded(without, seldom), _bounded(with_files, seldom)


def _as_question(text: str, is_long: bool) -> str:
    """A first line, and for a long one all of it, without numbers of tickets, which no new question has."""
    words = _NUMBER.sub(" ", text).split()
    title = " ".join(words[:_TITLE_WORDS])
    return title + "\n" + " ".join(words) if is_long else title


def _paths(trace: Connection, attempt: int) -> tuple[str, ...]:
    query = "SELECT DISTINCT path FROM attempt_file WHERE attempt = ? ORDER BY path LIMIT ?"
    return tuple(path for (path,) in trace.execute(query, (attempt, MOST_FILES)))


def _bounded(likenesses: list[float], place: int) -> float:
    lowest, highest = _LEVELS
    at = sorted(likenesses, reverse=True)[place : place + 1]
    return min(highest, max(lowest, at[0] if at else 0.0))


def key_of(text: str) -> bytes:
    """What an attempt's vector is kept under."""
    return hashlib.sha256(text.encode()).digest()[:16]


def texts(trace: Connection, project: str | None) -> Iterator[tuple[int, bytes, str]]:
    """Every attempt that is evidence, in order: its id, the key of its vector, and the text to embed."""
    query = """
        SELECT a.id, s.evidence FROM attempt a JOIN summary s ON s.attempt = a.id
        WHERE a.evidence = 1 AND s.evidence != '' AND (? IS NULL OR a.project = ?) ORDER BY a.id
    """
    for id, text in trace.execute(query, (project, project)):
        yield id, key_of(text), text
