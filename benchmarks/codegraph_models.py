"""Vectors for the retrieval benchmarks: the table of the package, or MiniLM from a home that has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.codegraph_history import is_source
from benchmarks.messages import Misbehaved
from tracedesk.codegraph.embed import minilm
from tracedesk.codegraph.embed.static import static
from tracedesk.codegraph.embed.vectors import Vectors
from tracedesk.codegraph.graph.schema import ROW_BITS
from tracedesk.codegraph.rank.attempts import texts
from tracedesk.journal.sqlite import Connection

MODELS = ("none", "static", "minilm")
_AT_ONCE = 512


def vectors(model: str, home: Path) -> Vectors:
    """The vectors of a model, kept in a home."""
    if model == "static":
        return Vectors(home / "vectors", static())
    if not minilm.available(home):
        raise Misbehaved(f"MiniLM is not in {home}; run `make semantic` and name its home with --home")
    return Vectors(home / "vectors", minilm.load(home))


def fill(kept: Vectors, graph: Connection, project: int) -> None:
    """Embed the chunks of source files that have no vector yet; no other can be a hit here."""
    query = f"""
        SELECT f.path, c.key, c.id FROM file f JOIN chunk c
        ON c.id >= (f.id << {ROW_BITS}) AND c.id < ((f.id + 1) << {ROW_BITS})
        WHERE f.project = ? AND f.deleted = 0
    """
    chunks = {key: id for path, key, id in graph.execute(query, (project,)) if is_source(path)}
    missing = kept.missing(list(chunks))
    for at in range(0, len(missing), _AT_ONCE):
        some = missing[at : at + _AT_ONCE]
        kept.put(some, kept.embedder.embed([_text(graph, chunks[key]) for key in some]))


def _text(graph: Connection, chunk: int) -> str:
    return next(graph.execute("SELECT text FROM chunk WHERE id = ?", (chunk,)))[0]


def fill_attempts(kept: Vectors, trace: Connection) -> None:
    """Embed the attempts that have no vector yet."""
    found = {key: text for _, key, text in texts(trace, None)}
    missing: Sequence[bytes] = kept.missing(list(found))
    for at in range(0, len(missing), _AT_ONCE):
        some = missing[at : at + _AT_ONCE]
        kept.put(some, kept.embedder.embed([found[key] for key in some]))
