"""Which files a question is about: words, names, attempts, meaning and the code's own links, in one score."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from tracedesk.codegraph.graph.store import Project
from tracedesk.codegraph.rank import lexical, memory, names, symbols
from tracedesk.codegraph.rank.links import Links
from tracedesk.codegraph.rank.listing import KINDS, Entry, Kind, Listing, Listings
from tracedesk.codegraph.rank.names import Named
from tracedesk.codegraph.rank.paths import speaks_of_tests
from tracedesk.codegraph.rank.symbols import SymbolHit
from tracedesk.codegraph.rank.terms import query_terms
from tracedesk.journal.sqlite import Connection

if TYPE_CHECKING:
    from tracedesk.codegraph.rank.meaning import Meaning

Among = Literal["all", "code", "source"]
"""Which files may be hits: all, code, or code that is no test."""

WEIGHTS: Final[Mapping[str, float]] = {
    "text": 1.0,
    "path": 0.4,
    "symbols": 0.3,
    "passages": 0.5,
    "definitions": 0.1,
    "attempts": 0.9,
    "companions": 0.3,
    "churn": 0.2,
    "links": 0.1,
}
"""Chosen once, by `benchmarks/codegraph_retrieval.py`, on repositories other than those that are reported."""

WORDS: Final = ("text", "path", "symbols", "passages", "definitions")
DEMOTED: Final[Mapping[Kind, float]] = {"source": 1.0, "test": 0.6, "other": 0.7}
"""What a score is multiplied by; tests keep theirs when the question speaks of tests."""

SEEDS: Final = 5
"""Files whose companions are looked for, the best so far."""
SOURCES: Final = 15
"""Files from which rank flows along references and imports, the best so far."""
MOST_HITS: Final = 100
_SYMBOLS: Final = 3
"""Of a hit so many symbols are named, and so many attempts."""

Component = dict[int, float]
"""Scores of files by id, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A file and why: `parts` add up to the score before tests and texts were put behind the code."""

    path: str
    language: str
    kind: str
    score: float
    parts: Mapping[str, float]
    attempts: tuple[str, ...]
    """The attempts, most alike first, that changed this file."""
    symbols: tuple[Named, ...]
    """What of it the question is about, best first."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a question about files, and what it was found by."""

    hits: tuple[Hit, ...]
    total: int
    """Files that have a score at all."""
    symbols: tuple[SymbolHit, ...]
    """Of the whole project, best first."""
    method: str
    coverage: Mapping[str, Any] | None
    """Vectors that were there to compare with; None without a model."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: words, files that matter, how many answers are wanted, and of which kind."""

    text: str
    files: tuple[str, ...] = ()
    among: Among = "all"
    terms: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", query_terms(self.text))


class Ranker:
    """Ranks the files of projects. Safe to use from several threads, each with connections of its own."""

    def __init__(self, meaning: Meaning | None = None) -> None:
        self._meaning = meaning
        self._listings = Listings()
        self._churn = memory.Churn()
        self._links = Links()

    def search(
        self,
        graph: Connection,
        trace: Connection | None,
        project: Project,
        question: Question,
        k: int = 10,
        offset: int = 0,
        *,
        symbols: bool = True,
    ) -> Found:
        """The best files for a question, in the state that the connections see; faster without symbols."""
        listing = self._listings.of(graph, project)
        ranking = _Ranking(graph, trace, listing, question, self._churn)
        ranking.by_words()
        ranking.by_memory()
        coverage = self._by_meaning(ranking)
        ranking.by_links(self._links)
        k = max(0, min(k, MOST_HITS))
        return ranking.found(offset, k, coverage, symbols=symbols)

    def _by_meaning(self, ranking: _Ranking) -> Mapping[str, Any] | None:
        if self._meaning is None or not ranking.question.terms:
            return None
        near = self._meaning.near(ranking.graph, ranking.listing, ranking.question.text)
        ranking.add("meaning", near.scores, self._meaning.weight)
        return {
            "model": self._meaning.vectors.model,
            "embedded": near.embedded,
            "chunks": near.chunks,
        }


class _Ranking:
    """One question under way: its components, by name."""

    def __init__(
        self,
        graph: Connection,
        trace: Connection | None,
        listing: Listing,
        question: Question,
        churn: memory.Churn,
    ) -> None:
        self._churn = churn
        self.graph = graph
        self.trace = trace
        self.listing = listing
        self.question = question
        self.components: dict[str, tuple[float, Component]] = {}
        self._demoted = dict(DEMOTED)
        if speaks_of_tests(question.text):
            self._demoted["test"] = 1.0
        self._remembered = memory.Remembered()

    # --- components

    def by_words(self) -> None:
        terms = self.question.terms
        if not terms:
            return
        project = self.listing.project.id
        self.add("text", lexical.texts(self.graph, project, terms))
        by_path, by_symbol = lexical.names(self.graph, project, terms)
        self.add("path", by_path)
        self.add("symbols", by_symbol)
        self.add("passages", lexical.passages(self.graph, project, terms, self.listing.chunks))
        definitions = names.definitions(self.graph, project, self.question.text)
        self.add("definitions", names.defining(definitions))

    def by_memory(self) -> None:
        """Attempts at like questions; then what changes with the best files so far, and what changes most."""
        if self.trace is None:
            return
        root, known = self.listing.project.root, self._known()
        if self.question.terms:
            self._remembered = memory.remembered(self.trace, root, self.question.terms, known)
            self._add_paths("attempts", self._remembered.scores)
        seeds = self._seeds()
        if seeds:
            self._add_paths("companions", memory.companions(self.trace, root, seeds, known))
        if self.components:
            changed = self._churn.of(self.trace, root)
            self._add_paths("churn", {path: score for path, score in changed.items() if path in known})

    def by_links(self, links: Links) -> None:
        """Files that the best so far use, and that use them."""
        by_path = self.listing.by_path
        seeds = [(by_path[path].id, weight) for path, weight in self._seeds(SOURCES)]
        if seeds:
            self.add("links", links.reached(self.graph, self.listing.project, seeds))

    def add(self, name: str, scores: Mapping[int, float], weight: float | None = None) -> None:
        """Keep the scores of a component as shares of the best; code sets the measure, unless it has none."""
        known = self.listing.by_id
        taken = {kind for kind in KINDS if self._takes(kind)}
        first = {kind for kind in KINDS if self._demoted[kind] == 1.0}
        kept = {f: s for f, s in scores.items() if s > 0 and f in known and known[f].kind in taken}
        top = max((s for file, s in kept.items() if known[file].kind in first), default=0.0)
        top = top or max(kept.values(), default=0.0)
        if top > 0:
            shares = {file: min(1.0, score / top) for file, score in kept.items()}
            self.components[name] = (WEIGHTS[name] if weight is None else weight, shares)

    def _add_paths(self, name: str, scores: Mapping[str, float]) -> None:
        by_path = self.listing.by_path
        self.add(name, {by_path[path].id: score for path, score in scores.items()})

    def _takes(self, kind: Kind) -> bool:
        among = self.question.among
        return among == "all" or kind == "source" or (among == "code" and kind == "test")

    def _known(self) -> Collection[str]:
        """Paths that attempts may speak for: those that could be hits and are not put behind."""
        paths = [
            self.listing.of_kind[kind] for kind in KINDS if self._demoted[kind] == 1.0 and self._takes(kind)
        ]
        return paths[0] if len(paths) == 1 else frozenset[str]().union(*paths)

    def _seeds(self, most: int = SEEDS) -> list[tuple[str, float]]:
        """The files that were given, then the best so far."""
        totals, by_id = self._totals(), self.listing.by_id
        best = sorted(totals, key=lambda file: (-totals[file], by_id[file].path))[:most]
        given = [path for path in dict.fromkeys(self.question.files) if path in self.listing.by_path][:most]
        top = totals[best[0]] if best else 1.0
        rest = [(by_id[file].path, totals[file]) for file in best]
        return [(path, top) for path in given] + [(path, total) for path, total in rest if path not in given]

    # --- the sum

    def _totals(self) -> dict[int, float]:
        totals: dict[int, float] = {}
        for weight, scores in self.components.values():
            for file, score in scores.items():
                totals[file] = totals.get(file, 0.0) + weight * score
        return totals

    def found(self, offset: int, k: int, coverage: Mapping[str, Any] | None, *, symbols: bool) -> Found:
        """Hits from `offset` on. A score is the share of all that a file could have."""
        by_id = self.listing.by_id
        most = self._most()
        scored = {f: total / most * self._demoted[by_id[f].kind] for f, total in self._totals().items()}
        order = sorted(scored, key=lambda file: (-scored[file], by_id[file].path))
        shown = order[offset : offset + k]
        ranked = self._symbols() if symbols and order else []
        inside: dict[int, list[Named]] = {}
        for hit in ranked:
            inside.setdefault(hit.symbol.file, []).append(hit.symbol)
        hits = tuple(self._hit(by_id[file], scored[file], most, inside.get(file, ())) for file in shown)
        return Found(hits, len(order), tuple(ranked), self._method(), coverage)

    def _most(self) -> float:
        """What a file would have that is best in everything.

        Words count whether they were met or not: what is found by nearness alone is no certainty.
        """
        found = {name: weight for name, (weight, _) in self.components.items()}
        return sum({**{name: WEIGHTS[name] for name in WORDS}, **found}.values())

    def _hit(self, entry: Entry, score: float, most: float, inside: Sequence[Named]) -> Hit:
        parts = {
            name: round(weight * scores[entry.id] / most, 4)
            for name, (weight, scores) in self.components.items()
            if entry.id in scores
        }
        attempts = tuple(self._remembered.attempts.get(entry.path, ())[:_SYMBOLS])
        symbols = tuple(inside[:_SYMBOLS])
        return Hit(entry.path, entry.language, entry.kind, round(score, 4), parts, attempts, symbols)

    def _symbols(self) -> list[SymbolHit]:
        factors: dict[Kind, float] = {kind: symbols.FACTORS[kind] for kind in KINDS if self._takes(kind)}
        if "test" in factors and self._demoted["test"] == 1.0:
            factors["test"] = 1.0
        return symbols.ranked(self.graph, self.listing, self.question.text, factors)

    def _method(self) -> str:
        return " + ".join(self.components) or "nothing to look for"
