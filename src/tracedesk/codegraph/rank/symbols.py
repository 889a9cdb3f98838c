"""Symbols by the words of a question: BM25 over names, signatures, documentation and bodies."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tracedesk.codegraph.graph.schema import symbol_fts
from tracedesk.codegraph.graph.syntax.nesting import CALLABLES
from tracedesk.codegraph.rank.listing import Kind, Listing
from tracedesk.codegraph.rank.names import Named, definitions, of_symbols
from tracedesk.codegraph.rank.terms import FEWEST_STOPWORDS, match, query_terms
from tracedesk.journal.sqlite import Connection

WEIGHTS: Final[Mapping[str, float]] = {"name": 2.0, "signature": 1.0, "doc": 8.0, "body": 1.0}
"""Chosen, like all that follow, by `benchmarks.codegraph_functions` on click, cobra, clap, zod and gson."""
ALIKE: Final = 1.0
"""How much more a symbol counts whose documentation begins with just the words of the question."""
NO_CALLABLE: Final = 0.9
FACTORS: Final[Mapping[Kind, float]] = {"source": 1.0, "test": 0.9, "other": 0.9}
"""What a score is multiplied by; tests keep theirs when the question speaks of tests."""

MOST: Final = 400
"""Symbols that are looked at, the best first."""

_SATURATED: Final = 2.2
"""Times its rarity is the most that a term can add to a score: k1 + 1 of SQLite's `bm25`."""
_LEAST: Final = 1e-6
"""Rarity that SQLite's `bm25` gives a term that is in more than half of the rows."""
_SHORT_QUESTION: Final = 2
_WORD: Final = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#)[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class SymbolHit:
    """A symbol that a question is about, and the share of all that a symbol could have."""

    symbol: Named
    path: str
    score: float


def ranked(graph: Connection, listing: Listing, query: str, factors: Mapping[Kind, float]) -> list[SymbolHit]:
    """The best symbols for a question, those that it names exactly first.

    `factors` are what scores are multiplied by; files of a kind without one are left out.
    """
    terms = query_terms(query, FEWEST_STOPWORDS)
    if not terms:
        return []
    project = listing.project.id
    most = _most(graph, project, listing.symbols, terms)
    scores = _scores(graph, project, terms) if most else {}
    named = _named(graph, project, query)
    hits: list[SymbolHit] = []
    for id, symbol in of_symbols(graph, [*named, *scores]).items():
        file = listing.by_id.get(symbol.file)
        if file is not None and file.kind in factors:
            share = scores.get(id, 0.0) / most * _worth(symbol, terms) if most else 0.0
            # The upper half is for symbols that the question names.
            score = (min(1.0, share * factors[file.kind]) + (id in named)) / 2
            hits.append(SymbolHit(symbol, file.path, score))
    return sorted(hits, key=lambda hit: (-hit.score, hit.path, hit.symbol.start))


def _worth(symbol: Named, terms: Sequence[str]) -> float:
    """What of a symbol's words alone counts, by its kind and by how its documentation begins."""
    kind = 1.0 if symbol.kind in CALLABLES else NO_CALLABLE
    return kind * (1 + ALIKE * _alike(terms, query_terms(symbol.doc, FEWEST_STOPWORDS))) / (1 + ALIKE)


def _alike(one: Sequence[str], other: Sequence[str]) -> float:
    """Twice the terms that both have over the terms of both."""
    return 2 * len({*one} & {*other}) / (len(one) + len(other)) if other else 0.0


def _scores(graph: Connection, project: int, terms: list[str]) -> dict[int, float]:
    table = symbol_fts(project)
    weights = ", ".join(str(weight) for weight in WEIGHTS.values())
    query = f"""
        SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? AND rank MATCH 'bm25({weights})'
        ORDER BY rank LIMIT ?
    """
    return dict(graph.execute(query, (match(terms), MOST)))


def _most(graph: Connection, project: int, count: int, terms: Sequence[str]) -> float:
    """What a symbol would have that says every term without end; 0 where no symbol says any."""
    table = symbol_fts(project)
    query = f"SELECT count(*) FROM {table} WHERE {table} MATCH ?"
    said = [next(graph.execute(query, (match([term]),)))[0] for term in terms]
    return sum(_SATURATED * _rarity(count, rows) for rows in said) if any(said) else 0.0


def _rarity(count: int, rows: int) -> float:
    # As SQLite's bm25 reckons it.
    return max(_LEAST, math.log((count - rows + 0.5) / (rows + 0.5)))


def _named(graph: Connection, project: int, query: str) -> dict[int, None]:
    """The definitions that a question names which is not much more than a name."""
    paths = [word.replace("::", ".").replace("#", ".") for word in _WORD.findall(query)]
    found: dict[int, None] = {}
    for path in paths if len(paths) <= _SHORT_QUESTION else ():
        for symbols in definitions(graph, project, path.rpartition(".")[2]).values():
            found |= {symbol.id: None for symbol in symbols if f".{symbol.qualified}".endswith(f".{path}")}
    return found
