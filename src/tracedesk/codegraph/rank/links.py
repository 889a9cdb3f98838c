"""What the code's own links say: rank flows from the best files to those that they use and that use them.

Personalised page rank by local pushes: only files that rank reaches are ever looked at, so the cost is that
of the neighbourhood and not of the project.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from tracedesk.codegraph.graph.schema import FILE_IMPORTS_FILE, ROW_BITS, SYMBOL_REFERENCES_SYMBOL, rows_of
from tracedesk.codegraph.graph.store import Project
from tracedesk.journal.sqlite import Connection

RESTART: Final = 0.5
"""The share of a file's rank that stays with it; the rest goes to its neighbours."""
PUSHES: Final = 30
"""Files whose rank is passed on, those with the most of it first."""
_LEAST: Final = 1e-9
"""Less is what rounding leaves."""
_KEPT: Final = 4
"""Projects whose neighbours stay in memory."""
_IMPORT: Final = 2
"""References that an import is worth."""

_OUT: Final = f"""
SELECT dst >> {ROW_BITS}, count(*) FROM edge
WHERE kind = {SYMBOL_REFERENCES_SYMBOL} AND src BETWEEN ? AND ? GROUP BY 1
"""
_IN: Final = f"""
SELECT src >> {ROW_BITS}, count(*) FROM edge
WHERE kind = {SYMBOL_REFERENCES_SYMBOL} AND dst BETWEEN ? AND ? GROUP BY 1
"""
_IMPORTS: Final = f"""
SELECT dst FROM edge WHERE kind = {FILE_IMPORTS_FILE} AND src = ?1
UNION ALL SELECT src FROM edge WHERE kind = {FILE_IMPORTS_FILE} AND dst = ?1
"""

Shares = Mapping[int, float]
"""What a file passes to each of its neighbours, of one."""


class Links:
    """The neighbours of files, kept for the projects that were asked last. For any thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], dict[int, Shares]] = OrderedDict()
        self._lock = threading.Lock()

    def reached(
        self, graph: Connection, project: Project, seeds: Iterable[tuple[int, float]]
    ) -> dict[int, float]:
        """The rank that files get from others, of what starts at the seeds, each with its weight."""
        known = self._of(project)
        held = {file: weight for file, weight in seeds if weight > 0}
        total = sum(held.values())
        own = {file: weight / total for file, weight in held.items()}
        waiting = defaultdict[int, float](float, own)
        rank = defaultdict[int, float](float, {file: -RESTART * share for file, share in own.items()})
        for _ in range(PUSHES):
            if not waiting:
                break
            file = max(waiting, key=lambda each: (waiting[each], -each))
            amount = waiting.pop(file)
            rank[file] += RESTART * amount
            for other, share in self._neighbours(graph, known, file).items():
                waiting[other] += (1 - RESTART) * amount * share
        for file, amount in waiting.items():
            rank[file] += RESTART * amount
        return {file: amount for file, amount in rank.items() if amount > _LEAST}

    def _of(self, project: Project) -> dict[int, Shares]:
        key = project.id, project.graph_version
        with self._lock:
            known = self._kept.setdefault(key, {})
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return known

    def _neighbours(self, graph: Connection, known: dict[int, Shares], file: int) -> Shares:
        found = known.get(file)
        if found is None:
            found = known[file] = _shares(graph, file)
        return found


def _shares(graph: Connection, file: int) -> Shares:
    """By references both ways and imports, as a logarithm: a hundred uses are not a hundred files."""
    counts = defaultdict[int, int](int)
    for query in (_OUT, _IN):
        for other, count in graph.execute(query, rows_of(file)):
            counts[other] += count
    for (other,) in graph.execute(_IMPORTS, (file,)):
        counts[other] += _IMPORT
    counts.pop(file, None)
    weights = {other: math.log1p(count) for other, count in counts.items()}
    total = sum(weights.values())
    return {other: weight / total for other, weight in sorted(weights.items())}
