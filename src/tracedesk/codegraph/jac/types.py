"""The graph's types as Jac knows them: plain values here, and the one table that all its forms come from.

Jac source, the classes of a projection and the JSON of an export are made from these dataclasses and from
`EDGES`; a field that is added here is added everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NewType

Moment = NewType("Moment", int)
"""UTC nanoseconds; ISO 8601 in JSON, a `datetime` in Jac."""


@dataclass(frozen=True, slots=True)
class Span:
    """Lines, 1-based and inclusive."""

    start: int
    end: int


# --- the code graph -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class File:
    """A source file. One that only an attempt names has neither language nor hash."""

    path: str
    language: str
    hash: str
    project_root: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition in a file."""

    name: str
    kind: str
    file_path: str
    span: Span


@dataclass(frozen=True, slots=True)
class ContextChunk:
    """A piece of a file's text; the embedding is empty until the chunk has been embedded."""

    file_path: str
    snippet: str
    embedding: tuple[float, ...]


# --- the execution trace graph --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at something."""

    attempt_id: str
    started_at: Moment
    graph_version: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in an attempt."""

    event_id: str
    kind: str
    timestamp: Moment
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that an attempt called; what nobody told of it is None."""

    name: str
    arguments: Mapping[str, Any] | None
    status: str
    duration_ms: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What an attempt came to; the embedding is empty until the text has been embedded."""

    text: str
    source: str
    embedding: tuple[float, ...]


# --- what holds them together ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Project:
    """Where walkers begin: a node of our own that no other node of a Jac program leads to."""

    project_root: str
    graph_version: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A kind of edge, and the types of its ends."""

    name: str
    source: type[Node]
    target: type[Node]


Node = File | Symbol | ContextChunk | Attempt | Event | ToolCall | Summary | Project

NODES: Final[tuple[type[Node], ...]] = (
    Project,
    File,
    Symbol,
    ContextChunk,
    Attempt,
    Event,
    ToolCall,
    Summary,
)
EDGES: Final = (
    Edge("project_has_file", Project, File),
    Edge("project_has_attempt", Project, Attempt),
    Edge("file_has_symbol", File, Symbol),
    Edge("symbol_in_context", Symbol, ContextChunk),
    Edge("file_has_context", File, ContextChunk),
    Edge("symbol_references_symbol", Symbol, Symbol),
    Edge("file_imports_file", File, File),
    Edge("attempt_has_event", Attempt, Event),
    Edge("event_invokes_tool", Event, ToolCall),
    Edge("event_reads_file", Event, File),
    Edge("attempt_has_summary", Attempt, Summary),
    Edge("event_links_context", Event, ContextChunk),
)

JAC: Final = {
    "str": "str",
    "int": "int",
    "float | None": "float | None",
    "Span": "Span",
    "Moment": "datetime",
    "tuple[float, ...]": "list[float]",
    "Mapping[str, Any]": "dict",
    "Mapping[str, Any] | None": "dict | None",
}
"""Each type that a field may have here, and what Jac calls it."""


def shape(kind: type[Node] | type[Span]) -> dict[str, str]:
    """A type's fields, in order, each with its Jac type."""
    return {each.name: JAC[str(each.type)] for each in fields(kind)}


# --- a graph --------------------------------------------------------------------------------------

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share:
    """How many of all there are that were taken."""

    kept: int
    of: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a graph leaves out of what the stores hold."""

    limit: int
    nodes: Mapping[str, Share]
    """By type."""
    edges_left_out: Mapping[str, int]
    """By kind of edge: how many lead from a node that was taken to one that was not."""
    embedding_model: str | None
    embedded: Share
    """Chunks and summaries that have a vector, of those that were taken."""

    @property
    def is_whole(self) -> bool:
        return all(share.kept == share.of for share in self.nodes.values())

    @property
    def notes(self) -> list[str]:
        """What a reader must know, in sentences; none when nothing is missing."""
        found = [
            f"{name}: {share.kept} of {share.of} nodes; the limit is {self.limit} nodes in all"
            for name, share in self.nodes.items()
            if share.kept < share.of
        ]
        found += [
            f"{name}: {count} edges lead to nodes that were left out"
            for name, count in self.edges_left_out.items()
            if count
        ]
        if self.embedded.kept < self.embedded.of:
            without = self.embedded.of - self.embedded.kept
            found.append(f"{without} of {self.embedded.of} chunks and summaries have an empty embedding")
        return found


@dataclass(frozen=True, slots=True)
class Graph:
    """A project with its nodes by type; an edge names its ends by their places in those lists."""

    project: Project
    nodes: Mapping[type[Node], list[Node]]
    edges: Mapping[str, list[Pair]]
    coverage: Coverage

    def count(self) -> int:
        return sum(len(members) for members in self.nodes.values())

    def of(self, kind: type[Node]) -> list[Node]:
        return [self.project] if kind is Project else self.nodes.get(kind, [])


@dataclass(slots=True)
class Draft:
    """A graph while it is put together."""

    project: Project
    nodes: dict[type[Node], list[Node]] = field(default_factory=dict[type[Node], list[Node]])
    edges: dict[str, list[Pair]] = field(default_factory=dict[str, list[Pair]])

    def add(self, node: Node) -> int:
        """The node's place among those of its type."""
        members = self.nodes.setdefault(type(node), [])
        members.append(node)
        return len(members) - 1

    def link(self, kind: str, source: int, target: int) -> None:
        self.edges.setdefault(kind, []).append((source, target))

    def finish(self, coverage: Coverage) -> Graph:
        return Graph(self.project, self.nodes, self.edges, coverage)


def values(node: Node) -> Iterator[Any]:
    """A node's fields in the order of its shape."""
    return (getattr(node, each.name) for each in fields(node))
