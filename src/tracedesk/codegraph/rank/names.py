"""Names in a question that are defined somewhere, and symbols by their ids."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tracedesk.codegraph.graph.schema import ROW_BITS
from tracedesk.codegraph.rank.terms import STOPWORDS
from tracedesk.journal.sqlite import Connection

MOST_DEFINITIONS: Final = 50
"""A name with more definitions than this tells nothing."""
_MOST_WORDS: Final = 32
_WORD: Final = re.compile(r"[^\W\d]\w{2,127}")
_COLUMNS: Final = 'id, qualified, kind, start, "end", signature, doc'


@dataclass(frozen=True, slots=True)
class Named:
    """A symbol; lines are 1-based and inclusive."""

    id: int
    qualified: str
    kind: str
    start: int
    end: int
    signature: str
    doc: str

    @property
    def file(self) -> int:
        return self.id >> ROW_BITS

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]


def definitions(graph: Connection, project: int, query: str) -> dict[str, list[Named]]:
    """The symbols that words of the question name exactly; words that name too many are left out."""
    found: dict[str, list[Named]] = {}
    for word in _words(query):
        sql = f"SELECT {_COLUMNS} FROM symbol WHERE project = ? AND name = ? ORDER BY id LIMIT ?"
        rows = [Named(*row) for row in graph.execute(sql, (project, word, MOST_DEFINITIONS + 1))]
        if 0 < len(rows) <= MOST_DEFINITIONS:
            found[word] = rows
    return found


def _words(query: str) -> list[str]:
    words = dict.fromkeys(word for word in _WORD.findall(query[:20_000]) if word.lower() not in STOPWORDS)
    return list(words)[:_MOST_WORDS]


def defining(found: dict[str, list[Named]]) -> dict[int, float]:
    """Files by the names of the question that they define: the fewer files define one, the more it counts."""
    scores: defaultdict[int, float] = defaultdict(float)
    for symbols in found.values():
        files = {symbol.file for symbol in symbols}
        for file in files:
            scores[file] += 1 / len(files)
    return dict(scores)


def of_symbols(graph: Connection, ids: Iterable[int]) -> dict[int, Named]:
    """Symbols by their ids, in the order of these."""
    sql = f"SELECT {_COLUMNS} FROM symbol WHERE id = ?"
    return {id: Named(*row) for id in ids for row in graph.execute(sql, (id,))}
