"""Exports on any Python: the JSON and the Jac source hold the whole graph, whatever its text is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codegraph.jac.graphs import shop, whole
from tracedesk.codegraph.jac.export import FORMAT, as_jac, as_json, document, jac_types
from tracedesk.codegraph.jac.types import (
    EDGES,
    NODES,
    Coverage,
    Draft,
    Event,
    File,
    Graph,
    Moment,
    Project,
    Share,
    shape,
)

_GLOB = re.compile(r"^glob (\w+): list\[str\] = \[\n((?:    \".*\",\n)*)\];$", re.MULTILINE)
_NODE = re.compile(r"^(node|obj) (\w+) \{\n((?:    has .*;\n)*)\}$", re.MULTILINE)
_EDGE = re.compile(r"^edge (\w+): (\w+) --> (\w+) \{\}$", re.MULTILINE)

TEXT = st.text(max_size=40)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def _source(graph: Graph) -> str:
    return "".join(as_jac(graph))


def _rows(source: str) -> dict[str, list[Any]]:
    """The rows of Jac source: its literals are read as Jac reads them, then as JSON."""
    return {
        name: [json.loads(json.loads(line.strip().rstrip(","))) for line in lines.splitlines()]
        for name, lines in _GLOB.findall(source)
    }


def _as_document(source: str) -> dict[str, Any]:
    rows = _rows(source)
    nodes = {
        kind.__name__: [
            dict(zip(shape(kind), row, strict=True)) for row in rows[f"{kind.__name__}_rows".upper()]
        ]
        for kind in NODES
    }
    edges = {
        edge.name: [pair for line in rows[f"{edge.name}_rows".upper()] for pair in line] for edge in EDGES
    }
    return {"nodes": nodes, "edges": edges}


def test_the_json_names_its_format_its_types_and_what_it_covers() -> None:
    made = document(shop())
    assert made["format"] == FORMAT
    assert made["types"]["nodes"]["File"] == {
        "path": "str",
        "language": "str",
        "hash": "str",
        "project_root": "str",
    }
    assert made["types"]["edges"]["event_reads_file"] == ["Event", "File"]
    assert made["coverage"]["nodes"]["File"] == {"kept": 2, "of": 2}
    assert made["coverage"]["whole"] is True


def test_a_node_is_a_line_of_json_and_an_edge_names_its_ends_by_place() -> None:
    made = document(shop())
    assert made["nodes"]["Symbol"][0] == {
        "name": "total",
        "kind": "function",
        "file_path": "cart.py",
        "span": {"start": 3, "end": 9},
    }
    assert made["nodes"]["Attempt"][0]["started_at"] == "2023-11-14T22:13:20.123456789Z"
    assert made["nodes"]["ToolCall"][1] == {
        "name": "shell",
        "arguments": None,
        "status": "open",
        "duration_ms": None,
    }
    assert made["edges"]["symbol_references_symbol"] == [[1, 0]]
    lines = b"".join(as_json(shop())).splitlines()
    assert sum(line.startswith(b'{"path":') for line in lines) == 2


def test_jac_source_declares_every_type_as_the_table_has_it() -> None:
    declared = {
        name: dict(re.findall(r"has (\w+): (.*);", body)) for _, name, body in _NODE.findall(jac_types())
    }
    table = document(shop())["types"]
    assert declared == table["nodes"] | table["values"]
    assert {name: [a, b] for name, a, b in _EDGE.findall(jac_types())} == table["edges"]


def test_jac_source_builds_every_node_and_edge_that_the_json_has() -> None:
    source = _source(shop())
    made = document(shop())
    assert _as_document(source) == {"nodes": made["nodes"], "edges": made["edges"]}
    for edge in EDGES:
        assert f" +>: {edge.name}() :+> " in source
    for kind in NODES:
        fields = re.search(rf"\.append\({kind.__name__}\((.*)\)\);", source)
        assert fields is not None
        told = re.sub(r"Span\(.*?\)", "row", fields[1])
        assert re.findall(r"(\w+)=(?:row|datetime)", told) == list(shape(kind))


def test_jac_source_is_ascii_because_jac_literals_have_no_surrogate_pairs() -> None:
    assert _source(shop()).isascii()


@given(path=TEXT, payload=st.dictionaries(TEXT, VALUES, max_size=3), root=TEXT)
def test_any_text_comes_back_from_both_forms(path: str, payload: dict[str, Any], root: str) -> None:
    draft = Draft(Project(root, ""))
    draft.add(File(path, "python", "", root))
    draft.add(Event("e", "checkpoint", Moment(0), payload))
    graph = whole(draft)
    made = document(graph)
    assert made["nodes"]["File"][0]["path"] == path
    assert made["nodes"]["Event"][0]["payload"] == payload
    source = _source(graph)
    assert source.isascii()
    assert _as_document(source)["nodes"] == made["nodes"]


def test_a_root_with_a_line_break_stays_inside_its_comment() -> None:
    source = _source(whole(Draft(Project("/a\nnode Evil {}\n", ""))))
    assert "\nnode Evil" not in source


@pytest.mark.parametrize("form", ["jac", "json"])
def test_what_was_cut_is_said_in_the_export(form: str) -> None:
    shares = {kind.__name__: Share(0, 0) for kind in NODES} | {"File": Share(0, 12)}
    graph = Draft(Project("/p", "")).finish(Coverage(3, shares, {}, None, Share(0, 0)))
    note = "File: 0 of 12 nodes; the limit is 3 nodes in all"
    if form == "jac":
        assert f"# {note}\n" in _source(graph)
    else:
        assert document(graph)["notes"] == [note]
        assert document(graph)["coverage"]["whole"] is False


def test_many_edges_are_cut_into_lines() -> None:
    draft = Draft(Project("/p", ""))
    for n in range(1_201):
        draft.link("project_has_file", 0, draft.add(File(f"{n}.py", "python", "", "/p")))
    graph = whole(draft)
    assert document(graph)["edges"]["project_has_file"] == [[0, n] for n in range(1_201)]
    assert _as_document(_source(graph))["edges"]["project_has_file"] == [[0, n] for n in range(1_201)]
