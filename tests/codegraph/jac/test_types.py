"""The seed's node and edge types, field by field."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.codegraph.jac.graphs import shop
from tracedesk.codegraph.jac import types
from tracedesk.codegraph.jac.types import EDGES, JAC, NODES, Coverage, Share, Span, shape

SEED_NODES = {
    "File": {"path": "string", "language": "string", "hash": "string", "project_root": "string"},
    "Symbol": {"name": "string", "kind": "string", "file_path": "string", "span": "span"},
    "ContextChunk": {"file_path": "string", "snippet": "string", "embedding": "list<float>"},
    "Attempt": {"attempt_id": "string", "started_at": "datetime", "graph_version": "string"},
    "Event": {"event_id": "string", "kind": "string", "timestamp": "datetime", "payload": "dict"},
    "ToolCall": {"name": "string", "arguments": "dict", "status": "string", "duration_ms": "number"},
    "Summary": {"text": "string", "source": "string", "embedding": "list<float>"},
}
SEED_EDGES = {
    "file_has_symbol": ("File", "Symbol"),
    "symbol_in_context": ("Symbol", "ContextChunk"),
    "file_has_context": ("File", "ContextChunk"),
    "attempt_has_event": ("Attempt", "Event"),
    "event_invokes_tool": ("Event", "ToolCall"),
    "event_reads_file": ("Event", "File"),
    "attempt_has_summary": ("Attempt", "Summary"),
    "event_links_context": ("Event", "ContextChunk"),
}
ADDED_EDGES = {
    "symbol_references_symbol": ("Symbol", "Symbol"),
    "file_imports_file": ("File", "File"),
    "project_has_file": ("Project", "File"),
    "project_has_attempt": ("Project", "Attempt"),
}
JAC_OF_SEED = {
    "string": "str",
    "span": "Span",
    "list<float>": "list[float]",
    "datetime": "datetime",
    "dict": "dict",
    "number": "float",
}


@pytest.mark.parametrize("name", SEED_NODES)
def test_a_node_type_has_the_seeds_fields_in_the_seeds_order_and_types(name: str) -> None:
    found = shape(getattr(types, name))
    assert list(found) == list(SEED_NODES[name])
    for field, word in SEED_NODES[name].items():
        assert found[field].removesuffix(" | None") == JAC_OF_SEED[word], field


def test_a_span_is_two_numbers() -> None:
    assert shape(Span) == {"start": "int", "end": "int"}


def test_the_only_node_type_beside_the_seeds_is_the_project_they_hang_from() -> None:
    assert {kind.__name__ for kind in NODES} - SEED_NODES.keys() == {"Project"}


def test_the_edges_are_the_seeds_and_the_documented_additions() -> None:
    found = {edge.name: (edge.source.__name__, edge.target.__name__) for edge in EDGES}
    assert found == SEED_EDGES | ADDED_EDGES


def test_only_what_a_client_may_leave_untold_can_be_none() -> None:
    optional = {
        f"{kind.__name__}.{name}" for kind in NODES for name, of in shape(kind).items() if of.endswith("None")
    }
    assert optional == {"ToolCall.arguments", "ToolCall.duration_ms"}


def test_every_field_type_has_a_name_in_jac() -> None:
    used = {str(each.type) for kind in (*NODES, Span) for each in fields(kind)}
    assert used == JAC.keys()


def test_the_sample_has_every_type_and_every_edge_with_ends_of_the_right_types() -> None:
    graph = shop()
    for edge in EDGES:
        assert graph.edges[edge.name], edge.name
        for source, target in graph.edges[edge.name]:
            assert isinstance(graph.of(edge.source)[source], edge.source)
            assert isinstance(graph.of(edge.target)[target], edge.target)


def test_what_was_left_out_is_said_in_sentences() -> None:
    shares = {"File": Share(2, 5), "Symbol": Share(7, 7)}
    coverage = Coverage(
        10, shares, {"file_imports_file": 3, "symbol_references_symbol": 0}, None, Share(1, 4)
    )
    assert not coverage.is_whole
    assert coverage.notes == [
        "File: 2 of 5 nodes; the limit is 10 nodes in all",
        "file_imports_file: 3 edges lead to nodes that were left out",
        "3 of 4 chunks and summaries have an empty embedding",
    ]
