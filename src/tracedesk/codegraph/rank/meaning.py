"""Files by what they mean: the nearest of their chunks' vectors to the question's.

Vectors are optional and may be few while they are being filled; a file without one simply has no score here,
and the coverage tells how many chunks had one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from tracedesk.codegraph.graph.schema import ROW_BITS
from tracedesk.codegraph.rank.listing import Listing
from tracedesk.journal.sqlite import Connection

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.vectors import Selection, Vectors

STATIC: Final = 0.3
"""What nearness by the static table counts for beside the words: it settles only what is close."""
TRANSFORMER: Final = 0.5
"""What it counts for by a transformer."""


@dataclass(frozen=True, slots=True)
class Near:
    """Files by nearness: 1 for the nearest, 0 for one that is no nearer than files are on average."""

    scores: dict[int, float]
    embedded: int
    chunks: int


@dataclass(slots=True)
class _Chunks:
    """A project's chunks in the order of their files, and where each file's begin."""

    state: tuple[int, str]
    by_file: dict[int, tuple[bytes, list[bytes]]]
    """The content of a file that has chunks, and their keys."""
    keys: list[bytes] = field(init=False)
    starts: list[int] = field(init=False)
    selection: Selection | None = None

    def __post_init__(self) -> None:
        parts = [keys for _, keys in self.by_file.values()]
        self.keys = [key for part in parts for key in part]
        self.starts = list(accumulate(map(len, parts), initial=0))[:-1]


class Meaning:
    """Nearness by one model's vectors; the chunks of the project that was asked last stay in memory."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.weight = STATIC if vectors.model.startswith("words-") else TRANSFORMER
        self._last: _Chunks | None = None
        self._lock = threading.Lock()

    def near(self, graph: Connection, listing: Listing, query: str) -> Near:
        """The files whose chunks are nearest to the question."""
        chunks = self._chunks(graph, listing)
        selection = self._select(chunks)
        embedded = int((selection.rows >= 0).sum())
        if not embedded:
            return Near({}, 0, len(chunks.keys))
        asked = self.vectors.embedder.embed([query])[0]
        if not asked.any():
            return Near({}, embedded, len(chunks.keys))
        return Near(_pooled(chunks, selection.scores(asked)), embedded, len(chunks.keys))

    def _chunks(self, graph: Connection, listing: Listing) -> _Chunks:
        state = listing.project.id, listing.project.graph_version
        with self._lock:
            last = self._last
        if last is not None and last.state == state:
            return last
        known = last.by_file if last is not None and last.state[0] == state[0] else {}
        found = _Chunks(state, dict(_read(graph, listing, known)))
        with self._lock:
            self._last = found
        return found

    def _select(self, chunks: _Chunks) -> Selection:
        """The chunks' vectors; looked up anew as long as some are missing."""
        selection = chunks.selection
        if selection is None or (selection.rows < 0).any():
            selection = chunks.selection = self.vectors.select(chunks.keys)
        return selection


def _read(
    graph: Connection, listing: Listing, known: Mapping[int, tuple[bytes, list[bytes]]]
) -> Iterator[tuple[int, tuple[bytes, list[bytes]]]]:
    """The chunks' keys of each file; those of a file that has not changed are known."""
    query = (
        f"SELECT key FROM chunk WHERE id >= (? << {ROW_BITS}) AND id < ((? + 1) << {ROW_BITS}) ORDER BY id"
    )
    for id in sorted(listing.by_id):
        content = listing.by_id[id].sha256
        before = known.get(id)
        same = before is not None and before[0] == content
        keys = before[1] if before and same else [key for (key,) in graph.execute(query, (id, id))]
        if keys:
            yield id, (content, keys)


def _pooled(chunks: _Chunks, cosines: Any) -> dict[int, float]:
    """The best cosine of each file, from the mean over files to the best of all."""
    import numpy as np

    best = np.maximum.reduceat(np.nan_to_num(cosines, nan=-1.0), chunks.starts)
    known = best > -1.0
    mean, top = float(best[known].mean()), float(best.max())
    if top <= mean:
        return {}
    scaled = (best - mean) / (top - mean)
    near = np.flatnonzero(scaled > 0)
    files = list(chunks.by_file)
    return dict(zip((files[n] for n in near), scaled[near].tolist(), strict=True))
