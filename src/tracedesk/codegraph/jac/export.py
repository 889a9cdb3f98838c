"""A graph for other programs: Jac source that builds it, and JSON; both on any Python, a line at a time."""

from __future__ import annotations

import json as ascii_json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from tracedesk.codegraph.jac.types import (
    EDGES,
    NODES,
    Coverage,
    Edge,
    Graph,
    Node,
    Project,
    Span,
    shape,
    values,
)
from tracedesk.primitives import json
from tracedesk.primitives.time import format as iso

FORMAT: Final = "tracedesk-graph/1"
MODULE: Final = "graph"
"""What walkers import the types from: the exported file is to lie beside them as `graph.jac`."""

_PAIRS_A_LINE: Final = 500

# --- JSON -----------------------------------------------------------------------------------------


def as_json(graph: Graph) -> Iterator[bytes]:
    """The lines of one JSON document, a node a line."""
    head = {
        "format": FORMAT,
        "types": types(),
        "coverage": told(graph.coverage),
        "notes": graph.coverage.notes,
    }
    yield json.dumps(head)[:-1] + b',\n"nodes":{\n'
    yield from _joined(_members(name.__name__, _objects(name, graph.of(name))) for name in NODES)
    yield b'},\n"edges":{\n'
    yield from _joined(_members(edge.name, _pair_lines(graph.edges.get(edge.name, ()), "")) for edge in EDGES)
    yield b"}}\n"


def types() -> dict[str, Any]:
    """The table of shapes, for programs that make classes of it."""
    return {
        "values": {"Span": shape(Span)},
        "nodes": {kind.__name__: shape(kind) for kind in NODES},
        "edges": {edge.name: [edge.source.__name__, edge.target.__name__] for edge in EDGES},
    }


def told(coverage: Coverage) -> dict[str, Any]:
    """What was left out, as JSON."""
    return {**asdict(coverage), "whole": coverage.is_whole}


def document(graph: Graph) -> dict[str, Any]:
    """The same as `as_json`, parsed."""
    return ascii_json.loads(b"".join(as_json(graph)))


def _objects(kind: type[Node], members: Iterable[Node]) -> Iterator[bytes]:
    names = shape(kind)
    for node in members:
        yield json.dumps(dict(zip(names, _plain(node), strict=True)))


def _members(name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """A member of an object whose value is an array."""
    yield json.dumps(name) + b":[\n"
    first = True
    for line in lines:
        yield line if first else b",\n" + line
        first = False
    yield b"\n]"


def _joined(parts: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    for number, part in enumerate(parts):
        if number:
            yield b",\n"
        yield from part


def _pair_lines(pairs: Sequence[tuple[int, int]], end: str) -> Iterator[bytes]:
    rest = iter(pairs)
    while batch := list(islice(rest, _PAIRS_A_LINE)):
        yield ",".join(f"[{source},{target}]" for source, target in batch).encode() + end.encode()


def _plain(node: Node) -> Iterator[Any]:
    """A node's fields as JSON values."""
    for value, kind in zip(values(node), shape(type(node)).values(), strict=True):
        if kind == "datetime":
            yield iso(value)
        elif isinstance(value, Span):
            yield {"start": value.start, "end": value.end}
        else:
            yield value


# --- Jac ------------------------------------------------------------------------------------------

_READ: Final = {
    "Span": 'Span(start={0}["start"] as int, end={0}["end"] as int)',
    "datetime": "datetime.fromisoformat({0} as str)",
}
"""How Jac makes a field's value of its JSON; any other is taken as it is."""


def as_jac(graph: Graph) -> Iterator[str]:
    """Jac source with the types, the rows as JSON text, and `build`, which makes the graph of them."""
    yield from (f"# {_one_line(line)}\n" for line in _about(graph))
    yield jac_types()
    for kind in NODES:
        yield from _rows(_rows_name(kind.__name__), _arrays(graph.of(kind)))
    for edge in EDGES:
        pairs = _pair_lines(graph.edges.get(edge.name, ()), "]")
        yield from _rows(_rows_name(edge.name), (f"[{line.decode()}" for line in pairs))
    yield _build()


def jac_types() -> str:
    """The declarations alone: what a walker needs to be checked."""
    parts = ["import json;\nimport from datetime { datetime }\n", _declared("obj", "Span", shape(Span))]
    parts += [_declared("node", kind.__name__, shape(kind), kind.__doc__) for kind in NODES]
    parts += [_declared_edge(edge) for edge in EDGES]
    return "\n".join(parts) + "\n"


def _about(graph: Graph) -> Iterator[str]:
    yield f"The graph of {graph.project.project_root} at {graph.project.graph_version or 'no version'}."
    yield f"Beside a walker as {MODULE}.jac: import from {MODULE} {{ Project, File, build }}"
    yield from graph.coverage.notes


def _one_line(text: str) -> str:
    return ascii_json.dumps(text)[1:-1].replace('\\"', '"')


def _declared(word: str, name: str, names: Mapping[str, str], doc: str | None = None) -> str:
    fields = "".join(f"    has {field}: {kind};\n" for field, kind in names.items())
    return (f'"""{doc}"""\n' if doc else "") + f"{word} {name} {{\n{fields}}}\n"


def _declared_edge(edge: Edge) -> str:
    return f"edge {edge.name}: {edge.source.__name__} --> {edge.target.__name__} {{}}\n"


def _rows(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"glob {name}: list[str] = [\n"
    for line in lines:
        yield f"    {ascii_json.dumps(line)},\n"
    yield "];\n"


def _arrays(members: Iterable[Node]) -> Iterator[str]:
    for node in members:
        yield _ascii(json.dumps(list(_plain(node))).decode("utf-8"))


def _ascii(text: str) -> str:
    """JSON text without other characters than ASCII: a Jac literal has no surrogate pairs."""
    return "".join(char if char.isascii() else ascii_json.dumps(char)[1:-1] for char in text)


def _build() -> str:
    """The function that makes every node, then every edge."""
    parts = ["def build -> Project {\n"]
    parts += [_build_nodes(kind) for kind in NODES]
    parts += [_build_edges(edge) for edge in EDGES]
    return "".join(parts) + f"    return {_list_name(Project)}[0];\n}}\n"


def _build_nodes(kind: type[Node]) -> str:
    name, made = (
        _list_name(kind),
        ", ".join(
            f"{field}={_READ.get(of, '{0} as ' + of).format(f'row[{place}]')}"
            for place, (field, of) in enumerate(shape(kind).items())
        ),
    )
    return (
        f"    {name}: list[{kind.__name__}] = [];\n"
        f"    for line in {_rows_name(kind.__name__)} {{\n"
        f"        row = json.loads(line);\n"
        f"        {name}.append({kind.__name__}({made}));\n"
        "    }\n"
    )


def _build_edges(edge: Edge) -> str:
    source, target = _list_name(edge.source), _list_name(edge.target)
    return (
        f"    for line in {_rows_name(edge.name)} {{\n"
        "        for pair in json.loads(line) {\n"
        f"            {source}[pair[0] as int] +>: {edge.name}() :+> {target}[pair[1] as int];\n"
        "        }\n"
        "    }\n"
    )


def _rows_name(name: str) -> str:
    return f"{name}_rows".upper()


def _list_name(kind: type[Node]) -> str:
    return f"{kind.__name__.lower()}_nodes"
