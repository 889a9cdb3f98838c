"""Which attempts were like a question: by their words, their files, their meaning, and their age."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from tracedesk.codegraph.etg.text import query_key
from tracedesk.codegraph.rank.calibration import REFERENCE, calibrated, likeness, mass, relative
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
_EVIDENCE: Final = 20.0
"""A match in words is believed as its weight (in nats) grows: at this much, to two thirds."""
_LIKENESS_OF_FILES: Final = 0.7
_EVIDENCE_OF_FILES: Final = 3.0
_RECENCY: Final = 4.0
_REPEATED: Final = 0.85
"""The likeness, at the least, of an attempt at the very question; its score is above 0.8."""
_ATTEMPT: Final = "a.id, a.name, a.started_ns, a.query_key"
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
    task: int | None
    """The same for attempts at the same query; None for those of none."""
    repeats: bool = False
    """Whether its query is the question, but for case and blanks."""
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
    method = "noisy-or of text, paths, files" + (", meaning" if coverage else "") + "; isotonic calibration 2"
    return Matches(kept, top_k > MOST, method, coverage)


def scored(
    trace: Connection, asked: Asked, recall: Recall | None = None
) -> tuple[list[Match], Mapping[str, Any] | None]:
    """Every attempt that has a score at all, the best first, and how many could be compared by meaning."""
    found = _Search(trace, asked)
    found.by_words()
    found.by_repeats()
    found.by_files()
    coverage = found.by_meaning(recall) if recall is not None else None
    return found.best(LEVELS.of(trace, asked, recall)), coverage


@dataclass(frozen=True, slots=True)
class _Uses:
    """In how many attempts terms and files are, and the files of attempts, as far as they were looked up."""

    terms: dict[str, int] = field(default_factory=dict[str, int])
    files: dict[str, int] = field(default_factory=dict[str, int])
    of_attempts: dict[int, tuple[set[str], float]] = field(default_factory=dict[int, tuple[set[str], float]])
    """With what they weigh together."""


class _Search:
    """One question under way, and the candidates for it."""

    def __init__(self, trace: Connection, asked: Asked, uses: _Uses | None = None) -> None:
        self._trace = trace
        self._asked = asked
        self._found: dict[int, _Candidate] = {}
        self._uses = uses or _Uses()
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
            SELECT {_ATTEMPT}, -bm25(attempt_fts, 1, 0), -bm25(attempt_fts, 0, 1)
            FROM attempt_fts JOIN attempt a ON a.id = attempt_fts.rowid
            WHERE attempt_fts MATCH ? AND {self._scope()}
            ORDER BY bm25(attempt_fts, 1, 0.5), a.id DESC LIMIT ?
        """
        for id, name, started, task, text, paths in self._rows(query, match(terms)):
            candidate = self._found.setdefault(id, _Candidate(id, name, started, task))
            candidate.told("text", _believed(text, most))
            candidate.told("paths", _believed(paths, most))

    def _by_terms(self, terms: list[str]) -> None:
        """Term by term, as if the history were longer: among few texts the index gives a term no weight."""
        uses = self._uses_of(terms)
        most = self._information(uses.values(), SMALL)
        weights: dict[tuple[int, Column], float] = {}
        query = f"""
            SELECT {_ATTEMPT} FROM attempt_fts JOIN attempt a ON a.id = attempt_fts.rowid
            WHERE attempt_fts MATCH ? AND {self._scope()} LIMIT ?
        """
        for term, column in itertools.product(terms, COLUMNS):
            for id, name, started, task in self._rows(query, f"{column} : {match([term])}"):
                self._found.setdefault(id, _Candidate(id, name, started, task))
                told = self._information([uses[term]], SMALL)
                weights[id, column] = weights.get((id, column), 0.0) + told
        for (id, column), weight in weights.items():
            self._found[id].told(column, _believed(weight, most))

    def _uses_of(self, terms: list[str]) -> dict[str, int]:
        query, known = "SELECT count(*) FROM attempt_fts WHERE attempt_fts MATCH ?", self._uses.terms
        for term in terms:
            if term not in known:
                known[term] = next(self._trace.execute(query, (match([term]),)))[0]
        return {term: known[term] for term in terms}

    def _information(self, uses: Iterable[int], count: int) -> float:
        """What a text weighs that has every term once: the sum of what the terms tell, in nats."""
        return sum(max(0.0, math.log((count - n + 0.5) / (n + 0.5))) for n in uses)

    def by_repeats(self) -> None:
        """By the very question: attempts at it are found however usual it has become."""
        query = f"""
            SELECT {_ATTEMPT} FROM attempt a WHERE a.query_key = ? AND {self._scope()}
            ORDER BY a.started_ns DESC, a.id DESC LIMIT ?
        """
        if self._asked.query.strip():
            for row in self._rows(query, query_key(self._asked.query)):
                self._found.setdefault(row[0], _Candidate(*row)).repeats = True

    def by_files(self) -> None:
        """How alike the sets of files are; a file that is often touched counts for little."""
        files = set(list(dict.fromkeys(self._asked.files))[:MOST_FILES])
        weight = sum(map(self._weight, files))
        for id, name, started, task in self._sharing(files):
            others, their_weight = self._files(id)
            shared = sum(map(self._weight, files & others))
            overlap = shared / (weight + their_weight - shared)
            candidate = self._found.setdefault(id, _Candidate(id, name, started, task))
            # Two sets of hubs can be equal and say nothing: what is shared must weigh something too.
            candidate.files = overlap**_LIKENESS_OF_FILES * -math.expm1(-shared / _EVIDENCE_OF_FILES)

    def _sharing(self, files: set[str]) -> Iterator[tuple[int, str, int, int | None]]:
        if files:
            query = f"""
                SELECT DISTINCT {_ATTEMPT}
                FROM attempt_file f JOIN attempt a ON a.id = f.attempt
                WHERE f.path IN ({",".join("?" * len(files))}) AND {self._scope()}
                ORDER BY a.started_ns DESC, a.id DESC LIMIT ?
            """
            yield from self._rows(query, *sorted(files))

    def _files(self, attempt: int) -> tuple[set[str], float]:
        known = self._uses.of_attempts.get(attempt)
        if known is None:
            query = "SELECT DISTINCT path FROM attempt_file WHERE attempt = ? LIMIT ?"
            paths = {path for (path,) in self._trace.execute(query, (attempt, MOST_FILES))}
            known = self._uses.of_attempts[attempt] = (paths, sum(map(self._weight, paths)))
        return known

    def _weight(self, path: str) -> float:
        known = self._uses.files
        if path not in known:
            query = "SELECT count(*) FROM (SELECT 1 FROM attempt_file WHERE path = ? LIMIT ?)"
            known[path] = next(self._trace.execute(query, (path, _MOST_USES)))[0]
        return math.log1p(max(self._count, SMALL) / (1 + known[path]))

    def by_meaning(self, recall: Recall) -> Mapping[str, Any] | None:
        near = recall.near(self._trace, self._asked.project, self._asked.query)
        for id, nearness in near.scores.items():
            candidate = self._found.get(id) or self._named(id)
            if candidate is not None:
                candidate.meaning = nearness
        return near.coverage

    def _named(self, id: int) -> _Candidate | None:
        query = f"SELECT {_ATTEMPT} FROM attempt a WHERE a.id = ? AND {self._scope()} LIMIT ?"
        for row in self._rows(query, id):
            return self._found.setdefault(id, _Candidate(*row))
        return None

    def likenesses(self) -> list[tuple[float, float, _Candidate]]:
        """Each candidate's likeness and recency."""
        age = Age.of(self._trace, self._asked.project, PACE)
        recencies = [(candidate, age.recency(candidate.started_ns)) for candidate in self._found.values()]
        return [(candidate.likeness(recency), recency, candidate) for candidate, recency in recencies]

    def of_others(self, task: int | None) -> list[float]:
        """The likenesses of other tasks."""
        found = self.likenesses()
        return _by_task(one for one in found if task is None or one[2].task != task)

    def best(self, usual: Usual) -> list[Match]:
        """The matches in order, beside what is usual here and for this question."""
        likenesses = self.likenesses()
        level = usual.level(_by_task(likenesses))
        found = [
            (_least(relative(raw, level), candidate), recency, candidate)
            for raw, recency, candidate in likenesses
        ]
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


def _least(raw: float, candidate: _Candidate) -> float:
    """A likeness, which is not small for an attempt at the very question."""
    return max(raw, _REPEATED) if candidate.repeats else raw


def _by_task(likenesses: Iterable[tuple[float, float, _Candidate]]) -> list[float]:
    """The best likeness of each task: what is usual is not what was often tried."""
    tasks: dict[tuple[str, int], float] = {}
    for raw, _, candidate in likenesses:
        key = ("attempt", candidate.id) if candidate.task is None else ("task", candidate.task)
        tasks[key] = max(tasks.get(key, 0.0), raw)
    return list(tasks.values())


def _believed(weight: float, most: float) -> float:
    """The share of the question's information that was met, believed as far as there is enough of it."""
    return min(1.0, max(0.0, weight) / max(1.0, most)) * -math.expm1(-max(0.0, weight) / _EVIDENCE)


# --- what is usual in a history


@dataclass(frozen=True, slots=True)
class Usual:
    """What random pairs of a history seldom reach. All but the place are masses (see `calibration.mass`)."""

    place: int
    """Where, among a question's likenesses, stands the one that is usual for it."""
    typical: float
    """What is usual for three of four of the history's own questions."""
    seldom: float
    """How many times what is usual, for the question or the history, random pairs seldom reach."""

    def level(self, likenesses: Iterable[float]) -> float:
        """The likeness that random pairs seldom reach under a question that has these.

        A question in words that everybody uses is a little like everything: it is measured by what is usual
        for it. One that is like nothing is measured by the history, lest it find something after all. And one
        that was tried again and again is not measured by these attempts: they are what it looks for.
        """
        lowest, highest = _LEVELS
        return min(highest, max(lowest, likeness(self.seldom * self.beside(_placed(likenesses, self.place)))))

    def beside(self, own: float) -> float:
        """What a mass is measured by, under a question for which `own` is usual."""
        return min(max(own, self.typical), _MOST_BESIDE * self.typical)


def _placed(likenesses: Iterable[float], place: int) -> float:
    """The mass at a place from the top; what has no likeness is not among them and has none."""
    at = sorted(likenesses, reverse=True)[place : place + 1]
    return mass(at[0]) if at else 0.0


class Levels:
    """What is usual in histories, measured once until a history has grown.

    In one history everybody writes of the same few things, in another hardly two texts share a word: a
    likeness says something only beside that of random pairs, asked in as many words.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None, str | None, bool], tuple[int, Usual, Usual]] = {}

    def of(self, trace: Connection, asked: Asked, recall: Recall | None) -> Usual:
        """What is usual in the project's history, for questions short or long, with files or without."""
        count = int(next(trace.execute(_COUNT, (asked.project, asked.project)))[0])
        if count < _FEWEST:
            return _UNKNOWN
        is_long = len(asked.query.split()) > _TITLE_WORDS
        key = trace.filename, asked.project, recall.model if recall is not None else None, is_long
        known = self._known.get(key)
        if known is None or not known[0] <= count <= known[0] * _GROWTH:
            usual = _usual(trace, asked.project, count, recall, is_long)
            known = self._known[key] = (count, *usual)
        return known[2] if asked.files else known[1]


LEVELS: Final = Levels()
_COUNT: Final = """
SELECT count(DISTINCT query_key) + total(query_key IS NULL)
FROM attempt WHERE evidence = 1 AND (? IS NULL OR project = ?)
"""
"""Tasks: attempts at the same query are one."""
_FEWEST: Final = 30
"""Tasks that a history needs before anything can be learned of it."""
_GROWTH: Final = 1.05
_SAMPLE: Final = 72
_WINDOW: Final = 720
_SELDOM: Final = 0.0075
"""The share of random pairs that may reach what is seldom; in a short history, one a question."""
_OWN: Final = 0.01
"""What this share of a history reaches is usual for a question; of attempts at least, at most:"""
_FEWEST_OWN: Final = 10
_MOST_OWN: Final = 500
_MOST_BESIDE: Final = 3.0
"""What is usual for a question counts up to so many times what is usual in the history."""
_TITLE_WORDS: Final = 12
"""Words of a short question, and of what stands for one among attempts."""
_NUMBER: Final = re.compile(r"#?\b\d+\b")
_LEVELS: Final = (0.1, 0.9)
_LEAST: Final = 1e-3
_UNKNOWN: Final = Usual(sys.maxsize, mass(REFERENCE), 1.0)
"""For a history with too few pairs: what is usual in others, whatever the question."""


def _usual(
    trace: Connection, project: str | None, count: int, recall: Recall | None, is_long: bool
) -> tuple[Usual, Usual]:
    """What is usual without and with files: some attempts ask for all the others."""
    query = """
        SELECT a.id, a.name, s.evidence, a.query_key FROM attempt a JOIN summary s ON s.attempt = a.id
        WHERE a.evidence = 1 AND (? IS NULL OR a.project = ?) ORDER BY a.started_ns DESC, a.id DESC
    """
    newest = list(itertools.islice(_each_task(trace.execute(query, (project, project))), _WINDOW))
    uses = _Uses()
    sample = newest[:: max(1, len(newest) // _SAMPLE)][:_SAMPLE]
    without: list[list[float]] = []
    with_files: list[list[float]] = []
    for id, name, text, task in sample:
        asked = Asked(_as_question(text, is_long), _paths(trace, id), project, name)
        found = _Search(trace, asked, uses)
        found.by_words()
        if recall is not None:
            found.by_meaning(recall)
        without.append(found.of_others(task))
        found.by_files()
        with_files.append(found.of_others(task))
    return _learned(without, count), _learned(with_files, count)


def _each_task(
    rows: Iterable[tuple[int, str, str, int | None]],
) -> Iterator[tuple[int, str, str, int | None]]:
    """Of the attempts at each task the first."""
    seen: set[int] = set()
    for row in rows:
        if row[3] is None or row[3] not in seen:
            seen.update(() if row[3] is None else (row[3],))
            yield row


def _learned(asked: list[list[float]], count: int) -> Usual:
    """What is usual, from the likenesses that each of some questions met among so many attempts."""
    if not asked:
        return _UNKNOWN
    place = min(_MOST_OWN, max(_FEWEST_OWN, int(_OWN * count)))
    owns = [_placed(likenesses, place) for likenesses in asked]
    typical = sorted(owns)[3 * len(owns) // 4]
    usual = Usual(place, max(typical, _LEAST), 1.0)
    beside = [
        mass(raw) / usual.beside(own)
        for own, likenesses in zip(owns, asked, strict=True)
        for raw in likenesses
    ]
    seldom = sorted(beside, reverse=True)[int(max(_SELDOM * count, 1) * len(asked)) :][:1]
    return Usual(place, usual.typical, seldom[0] if seldom else 0.0)


def _as_question(text: str, is_long: bool) -> str:
    """A first line, and for a long one all of it, without numbers of tickets, which no new question has."""
    words = _NUMBER.sub(" ", text).split()
    title = " ".join(words[:_TITLE_WORDS])
    return title + "\n" + " ".join(words) if is_long else title


def _paths(trace: Connection, attempt: int) -> tuple[str, ...]:
    query = "SELECT DISTINCT path FROM attempt_file WHERE attempt = ? ORDER BY path LIMIT ?"
    return tuple(path for (path,) in trace.execute(query, (attempt, MOST_FILES)))


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
