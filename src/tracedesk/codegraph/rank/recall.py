"""Attempts by what they mean: the vectors of their texts, measured against what is usual in their history.

A cosine says nothing by itself: unrelated texts are far from each other in one history, near in another. So 0
here is what random pairs of this history have on average, and 1 is twice the way to their 99th percentile.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tracedesk.codegraph.rank.attempts import texts
from tracedesk.journal.sqlite import Connection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tracedesk.codegraph.embed.vectors import Vectors

NEAREST: Final = 100
"""Attempts that nearness alone can bring in."""
_PAIRS: Final = 2_000
_FEWEST: Final = 20
"""Vectors without which nothing can be said about what is usual."""


@dataclass(frozen=True, slots=True)
class Near:
    """Attempts by nearness, in [0, 1], and how many could be compared."""

    scores: Mapping[int, float]
    coverage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _History:
    """The vectors of a project's attempts, and what is usual among them."""

    state: tuple[str | None, int, int]
    ids: list[int]
    total: int
    vectors: NDArray[np.float32]
    mean: float
    rare: float


class Recall:
    """Nearness of attempts by one model's vectors; the history that was asked last stays in memory."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._last: _History | None = None
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        return self._vectors.model

    def near(self, trace: Connection, project: str | None, query: str) -> Near:
        """The attempts nearest to a question; none while too few have a vector."""
        history = self._history(trace, project)
        coverage = {
            "model": self._vectors.model,
            "embedded": len(history.ids),
            "attempts": history.total,
        }
        asked = self._vectors.embedder.embed([query])[0]
        if len(history.ids) < _FEWEST or history.rare <= history.mean or not asked.any():
            return Near({}, coverage)
        return Near(_nearest(history, history.vectors @ asked), coverage)

    def _history(self, trace: Connection, project: str | None) -> _History:
        count, last = next(trace.execute("SELECT count(*), max(event) FROM attempt_event"))
        state = project, count, last or 0
        with self._lock:
            known = self._last
        if known is not None and known.state == state and len(known.ids) == known.total:
            return known
        found = self._read(trace, project, state)
        with self._lock:
            self._last = found
        return found

    def _read(self, trace: Connection, project: str | None, state: tuple[str | None, int, int]) -> _History:
        import numpy as np

        rows = [(id, key) for id, key, _ in texts(trace, project)]
        vectors = self._vectors.get([key for _, key in rows])
        known = np.flatnonzero(~np.isnan(vectors).any(axis=1)) if vectors.size else np.zeros(0, np.int64)
        ids = [rows[n][0] for n in known]
        mean, rare = _usual(vectors[known]) if len(ids) >= _FEWEST else (0.0, 0.0)
        return _History(state, ids, len(rows), vectors[known], mean, rare)


def _usual(vectors: NDArray[np.float32]) -> tuple[float, float]:
    """The mean and the 99th percentile of the cosines of random pairs."""
    import numpy as np

    dice = random.Random(len(vectors))
    pairs = np.array([dice.sample(range(len(vectors)), 2) for _ in range(_PAIRS)])
    cosines = (vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(axis=1)
    return float(cosines.mean()), float(np.percentile(cosines, 99))


def _nearest(history: _History, cosines: NDArray[np.float32]) -> dict[int, float]:
    import numpy as np

    nearness = np.clip((cosines - history.mean) / (2 * (history.rare - history.mean)), 0.0, 1.0)
    best = np.argsort(-nearness, kind="stable")[:NEAREST]
    return {history.ids[n]: float(nearness[n]) for n in best if nearness[n] > 0}
