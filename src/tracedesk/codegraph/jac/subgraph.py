"""As much of a project's graph as a program can hold: whole files and attempts up to a number of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracedesk.codegraph.etg.read import AttemptView
from tracedesk.codegraph.graph.store import Store, project_at
from tracedesk.codegraph.jac import code, trace
from tracedesk.codegraph.jac.code import Code, Sized
from tracedesk.codegraph.jac.types import NODES, Coverage, Draft, Graph, Project, Share
from tracedesk.codegraph.refusals import invalid, project_not_indexed
from tracedesk.journal import Reader
from tracedesk.journal.sqlite import Connection

if TYPE_CHECKING:
    from tracedesk.codegraph.embed.vectors import Vectors

MOST: Final = 20_000
"""Nodes that a Jac process builds in some ten seconds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is taken: nodes in all, and only files at or below these paths; none means everywhere.

    Attempts take at most a quarter of the nodes, or what the files leave. Files that they name come first,
    the others by path; a file that does not fit with all that is in it is left out.
    """

    nodes: int = MOST
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise invalid("nodes", "at least 1 is needed.")


def bounded(
    store: Store,
    root: str,
    *,
    now_ns: int,
    trace_file: Path | None = None,
    vectors: Vectors | None = None,
    bounds: Bounds | None = None,
) -> Graph:
    """The graph of a project with its attempts; without vectors, every embedding is empty."""
    bounds = bounds or Bounds()
    with store.reading() as connection, trace.opened(trace_file) as reader:
        project = project_at(connection, root)
        if project is None:
            raise project_not_indexed(root, [each.root for each in store.projects()])
        cut = _Cut(bounds, Draft(Project(root, project.graph_version)), vectors)
        cut.take(connection, code.sizes(connection, project.id), reader, now_ns)
    return cut.graph()


@dataclass(slots=True)
class _Cut:
    """A part of a graph on its way out of the stores."""

    bounds: Bounds
    draft: Draft
    vectors: Vectors | None
    code: Code = field(default_factory=Code)
    embedded: int = 0
    of: dict[str, int] = field(default_factory=dict[str, int])
    """How many nodes of each type there are in all."""

    def take(
        self, connection: Connection, every: Sequence[Sized], reader: Reader | None, now_ns: int
    ) -> None:
        wanted = [sized for sized in every if _is_below(sized.path, self.bounds.paths)]
        left = self.bounds.nodes - sum(sized.nodes for sized in wanted)
        share = max(self.bounds.nodes // 4, left)
        root = self.draft.project.project_root
        views = [] if reader is None else trace.newest(reader, root, now_ns, share)
        chosen = _fitting(_in_order(wanted, views), self.bounds.nodes - sum(map(trace.nodes_of, views)))
        self.code = code.take(self.draft, connection, chosen, self.vectors)
        self.of = {
            "File": len(every),
            "Symbol": sum(sized.symbols for sized in every),
            "ContextChunk": sum(sized.chunks for sized in every),
        }
        self.embedded = self.code.embedded
        if reader is not None:
            self._take_attempts(reader, views, frozenset(sized.path for sized in every))

    def _take_attempts(self, reader: Reader, views: Sequence[AttemptView], live: frozenset[str]) -> None:
        root = self.draft.project.project_root
        embeddings = trace.embeddings(reader, root, views, self.vectors)
        known = len(self.code.paths)
        trace.take(self.draft, views, self.code, live, embeddings)
        self.embedded += sum(map(bool, embeddings.values()))
        self.of |= trace.totals(reader, root)
        self.of["File"] += len(self.code.paths) - known

    def graph(self) -> Graph:
        kept = {kind.__name__: len(self.draft.nodes.get(kind, ())) for kind in NODES if kind is not Project}
        coverage = Coverage(
            self.bounds.nodes,
            {name: Share(count, self.of.get(name, 0)) for name, count in kept.items()},
            dict(self.code.left_out),
            None if self.vectors is None else self.vectors.model,
            Share(self.embedded, kept["ContextChunk"] + kept["Summary"]),
        )
        return self.draft.finish(coverage)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    cleaned = [folder.strip("/").removeprefix("./") for folder in folders]
    return not cleaned or any(
        folder in ("", ".") or path == folder or path.startswith(f"{folder}/") for folder in cleaned
    )


def _in_order(files: Sequence[Sized], views: Iterable[AttemptView]) -> list[Sized]:
    named = {file.path for view in views for file in view.files}
    return sorted(files, key=lambda sized: (sized.path not in named, sized.path))


def _fitting(files: Iterable[Sized], nodes: int) -> list[Sized]:
    chosen: list[Sized] = []
    for sized in files:
        if sized.nodes <= nodes:
            nodes -= sized.nodes
            chosen.append(sized)
    return chosen
