"""The vectors of a home: those of the table in the package, and MiniLM's where it was installed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tracedesk.codegraph.embed import minilm
from tracedesk.codegraph.embed.model import Embedder
from tracedesk.codegraph.embed.static import static
from tracedesk.codegraph.embed.vectors import Vectors

log = logging.getLogger(__name__)

FOLDER: Final = "vectors"
_ENOUGH: Final = 0.98
"""The share of a project's chunks that a better model must have embedded before it is asked."""


def shelf(home: Path) -> list[Vectors]:
    """The models of a home, the best last; each is filled and asked by itself; a damaged one is none."""
    models: list[Embedder] = [static()]
    if minilm.available(home):
        try:
            models.append(minilm.load(home))
        except minilm.SemanticMissing as problem:
            log.warning("%s", problem)
    return [Vectors(home / FOLDER, model) for model in models]


def best(models: Sequence[Vectors], keys: Sequence[bytes]) -> Vectors:
    """The best model that has embedded nearly all of a project's chunks; the first as long as none has."""
    ready = (vectors for vectors in reversed(models) if vectors.coverage(keys).share >= _ENOUGH)
    return next(ready, models[0])
