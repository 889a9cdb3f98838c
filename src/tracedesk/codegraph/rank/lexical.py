"""Files by the words of a question: in their text, in their names, in their passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tracedesk.codegraph.graph.schema import ROW_BITS, chunk_fts, file_fts, name_fts
from tracedesk.codegraph.rank.terms import match
from tracedesk.journal.sqlite import Connection

MOST_FILES: Final = 600
MOST_PASSAGES: Final = 1_000
"""Rows that are looked at, the best first; what comes after them cannot reach a page of answers."""

COMMON: Final = 0.05
"""A term in a greater share of all passages is common."""
FEWEST_TERMS: Final = 2

PASSAGES: Final = 3
"""Of a file's passages so many count."""

Scores = dict[int, float]
"""Of files, by id; higher is better, unbounded."""


def texts(graph: Connection, project: int, terms: list[str]) -> Scores:
    """Files by the whole of their text."""
    table = file_fts(project)
    query = f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?"
    return dict(graph.execute(query, (match(terms), MOST_FILES)))


def names(graph: Connection, project: int, terms: list[str]) -> tuple[Scores, Scores]:
    """Files by their paths, and by the names that they define."""
    table = name_fts(project)
    query = f"""
        SELECT rowid, -bm25({table}, 1, 0), -bm25({table}, 0, 1)
        FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?
    """
    rows = list(graph.execute(query, (match(terms), MOST_FILES)))
    return {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}


def passages(graph: Connection, project: int, terms: list[str], count: int) -> Scores:
    """Files by their best passages; `count` is how many passages there are."""
    table = chunk_fts(project)
    query = f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?"
    return _best(graph.execute(query, (match(_telling(graph, table, terms, COMMON * count)), MOST_PASSAGES)))


def _telling(graph: Connection, table: str, terms: list[str], often: float) -> list[str]:
    """The terms without those that are in very many passages: they cost the most and tell the least."""
    query = f"SELECT count(*) FROM {table} WHERE {table} MATCH ?"
    counts = {term: next(graph.execute(query, (match([term]),)))[0] for term in terms}
    rarest = sorted(terms, key=lambda term: counts[term])[:FEWEST_TERMS]
    return [term for term in terms if counts[term] <= often or term in rarest]


def _best(rows: Iterable[tuple[int, float]]) -> Scores:
    """Of each file the worth of its best passages together."""
    scores: Scores = {}
    taken: Counter[int] = Counter()
    for chunk, score in rows:
        file = chunk >> ROW_BITS
        taken[file] += 1
        if taken[file] <= PASSAGES:
            scores[file] = scores.get(file, 0.0) + score
    return scores
