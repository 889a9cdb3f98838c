"""The models of a home: which one is asked about a project, and the vectors that are still to be made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from tracedesk.codegraph.rank.attempts import texts
from tracedesk.codegraph.rank.files import Ranker
from tracedesk.journal import Reader

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.fill import At, Filler
    from tracedesk.codegraph.embed.vectors import Coverage, Vectors
    from tracedesk.codegraph.graph.store import Store
    from tracedesk.codegraph.rank.recall import Recall

LOOK_SECONDS: Final = 15.0
"""How often it is looked whether a better model has caught up with a project."""


class Semantics:
    """Loads models when they are first needed, and has vectors filled beside all else that the desk does."""

    def __init__(self, home: Path, store: Store, trace: Path, *, fills: bool = True) -> None:
        self._home = home
        self._store = store
        self._trace = trace
        self._fills = fills
        self._lock = threading.RLock()
        self._models: list[Vectors] = []
        self._chosen: dict[str, tuple[Vectors, float]] = {}
        self._rankers: dict[str, Ranker] = {}
        self._recalls: dict[str, Recall] = {}
        self._chunks: Filler | None = None
        self._attempts: Filler | None = None
        self._many: set[str] = set()
        """Projects with many new chunks."""

    def close(self) -> None:
        """Stop filling; what was filled stays."""
        for filler in (self._chunks, self._attempts):
            if filler is not None:
                filler.close()

    def models(self) -> list[Vectors]:
        """The models, the best last."""
        from tracedesk.codegraph.embed.shelf import shelf

        with self._lock:
            self._models = self._models or shelf(self._home)
            return self._models

    def ranker(self, root: str) -> Ranker:
        """What ranks the files of a project, with the best model that knows it."""
        from tracedesk.codegraph.rank.meaning import Meaning

        vectors = self._vectors(root)
        with self._lock:
            if vectors.model not in self._rankers:
                self._rankers[vectors.model] = Ranker(Meaning(vectors))
            return self._rankers[vectors.model]

    def recall(self, root: str | None) -> Recall:
        """What compares attempts by their meaning; those that have no vector yet get one beside."""
        from tracedesk.codegraph.rank.recall import Recall

        self.remember(root or "")
        vectors = self.models()[0] if root is None else self._vectors(root)
        with self._lock:
            if vectors.model not in self._recalls:
                self._recalls[vectors.model] = Recall(vectors)
            return self._recalls[vectors.model]

    def _vectors(self, root: str) -> Vectors:
        """The best model that has embedded a project; looked up anew now and then until it is the last."""
        from tracedesk.codegraph.embed.chunks import ProjectChunks
        from tracedesk.codegraph.embed.shelf import best

        models = self.models()
        if len(models) == 1:
            return models[0]
        with self._lock:
            known, at = self._chosen.get(root, (models[0], -LOOK_SECONDS))
            if monotonic() - at >= LOOK_SECONDS:
                known = best(models, list(ProjectChunks(self._store, root).keys()))
                self._chosen[root] = known, monotonic()
            return known

    # --- filling

    def fill(self, root: str, *, many: bool = False) -> None:
        """Make the vectors of a project's new chunks, soon; `many` in a process of their own."""
        from tracedesk.codegraph.embed.fill import Filler

        if not self._fills:
            return
        with self._lock:
            if many:
                self._many.add(root)
            if self._chunks is None:
                self._chunks = Filler(self._filled)
            self._chunks.ask(root)

    def _filled(self, root: str, at: At, cancelled: Callable[[], bool]) -> None:
        from tracedesk.codegraph.embed.chunks import ProjectChunks
        from tracedesk.codegraph.embed.fill import here
        from tracedesk.codegraph.filling import beside

        with self._lock:
            many = root in self._many
            self._many.discard(root)
        if many:
            filling = beside(self._home, self._store.path)
        else:
            filling = here(self.models(), lambda root: ProjectChunks(self._store, root))
        filling(root, at, cancelled)

    def remember(self, root: str) -> None:
        """Make the vectors of the attempts that have none, soon; an empty root means every project."""
        from tracedesk.codegraph.embed.fill import Filler, here

        if not self._fills:
            return
        with self._lock:
            if self._attempts is None:
                every = here(self.models(), lambda root: AttemptTexts(self._trace, root or None))
                self._attempts = Filler(every)
            self._attempts.ask(root)

    def coverage(self, root: str) -> list[Coverage]:
        """How many of a project's chunks have a vector, by model."""
        from tracedesk.codegraph.embed.chunks import ProjectChunks

        keys = list(ProjectChunks(self._store, root).keys())
        return [vectors.coverage(keys) for vectors in self.models()]

    def wait(self, seconds: float) -> bool:
        """Until nothing is left to fill; False when that takes longer."""
        return all(filler is None or filler.wait(seconds) for filler in (self._chunks, self._attempts))


class AttemptTexts:
    """The texts of attempts, as a filler takes them."""

    def __init__(self, trace: Path, project: str | None) -> None:
        self._trace = trace
        self._project = project

    def keys(self) -> dict[bytes, int]:
        with closing(Reader(self._trace)) as reader:
            return {key: id for id, key, _ in texts(reader.connection, self._project)}

    def texts(self, numbers: Sequence[int]) -> list[str | None]:
        with closing(Reader(self._trace)) as reader:
            found = {id: text for id, _, text in texts(reader.connection, self._project)}
        return [found.get(number) for number in numbers]
