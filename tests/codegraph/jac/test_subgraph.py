"""A bounded part of a real graph: whole files, whole attempts, and a word about the rest."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codegraph.jac.projects import SOURCES, Workshop, tried, workshop
from tracedesk.codegraph.embed.vectors import Vectors
from tracedesk.codegraph.graph.store import project_at
from tracedesk.codegraph.jac.subgraph import Bounds, bounded
from tracedesk.codegraph.jac.types import (
    EDGES,
    Attempt,
    ContextChunk,
    Event,
    File,
    Graph,
    Share,
    Summary,
    Symbol,
    ToolCall,
)
from tracedesk.codegraph.rank.attempts import texts
from tracedesk.errors import ToolError
from tracedesk.journal import Reader


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Workshop]:
    with workshop(tmp_path) as made:
        yield made


def _graph(shop: Workshop, **named: Any) -> Graph:
    bounds = Bounds(**{name: named.pop(name) for name in ("nodes", "paths") if name in named})
    shop.etg.catch_up()
    now_ns = shop.clock.now_ns()
    return bounded(
        shop.store, str(shop.root), now_ns=now_ns, trace_file=shop.etg.path, bounds=bounds, **named
    )


def _ends(graph: Graph, name: str) -> set[tuple[str, str]]:
    """An edge's ends by the texts that tell them apart."""
    edge = next(edge for edge in EDGES if edge.name == name)
    sources, targets = graph.of(edge.source), graph.of(edge.target)
    return {(_name(sources[a]), _name(targets[b])) for a, b in graph.edges.get(name, [])}


def _name(node: Any) -> str:
    match node:
        case File():
            return node.path
        case Symbol() | ToolCall():
            return node.name
        case ContextChunk():
            return node.snippet.split("\n")[0]
        case Event():
            return node.kind
        case Attempt():
            return node.attempt_id
        case _:
            return type(node).__name__


def test_every_file_symbol_and_chunk_is_there_with_its_edges(shop: Workshop) -> None:
    graph = _graph(shop)
    assert {_name(file) for file in graph.of(File)} == set(SOURCES)
    assert {("shop/cart.py", name) for name in ("total", "Cart", "pay")} <= _ends(graph, "file_has_symbol")
    assert _ends(graph, "file_imports_file") == {
        ("shop/pay.py", "shop/cart.py"),
        ("tests/test_pay.py", "shop/pay.py"),
    }
    assert {("pay", "total"), ("charge", "Cart"), ("test_charge", "charge")} <= _ends(
        graph, "symbol_references_symbol"
    )
    assert ("total", "def total(prices):") in _ends(graph, "symbol_in_context")
    assert ("shop/cart.py", "def total(prices):") in _ends(graph, "file_has_context")
    assert graph.coverage.is_whole


def test_the_project_has_the_version_of_the_graph_and_files_have_their_hash(shop: Workshop) -> None:
    graph = _graph(shop)
    with shop.store.reading() as connection:
        project = project_at(connection, str(shop.root))
    assert project is not None
    assert graph.project.graph_version == project.graph_version
    empty = next(file for file in graph.of(File) if _name(file) == "shop/__init__.py")
    assert empty == File("shop/__init__.py", "python", _EMPTY, str(shop.root))


_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_an_attempt_comes_with_its_events_calls_summary_and_its_edges_into_the_code(shop: Workshop) -> None:
    tried(shop)
    graph = _graph(shop)
    assert _ends(graph, "attempt_has_event") == {
        ("fix-totals", kind)
        for kind in ("tool_start", "tool_end", "context_retrieved", "checkpoint", "answer_rendered")
    }
    assert _ends(graph, "event_invokes_tool") == {("tool_start", "pytest")}
    assert graph.of(ToolCall) == [ToolCall("pytest", {"args": ["-q"]}, "error", 1823.0)]
    assert _ends(graph, "event_reads_file") == {
        ("context_retrieved", "shop/cart.py"),
        ("checkpoint", "gone.py"),
        ("answer_rendered", "shop/pay.py"),
    }
    assert _ends(graph, "event_links_context") >= {
        ("context_retrieved", "def total(prices):"),
        ("answer_rendered", "def charge():"),
    }
    summary = graph.of(Summary)[0]
    assert isinstance(summary, Summary)
    assert summary.source == "extractive:1"
    assert "Rounded" in summary.text


def test_a_file_that_only_an_attempt_names_is_a_node_without_language_and_hash(shop: Workshop) -> None:
    tried(shop)
    graph = _graph(shop)
    assert File("gone.py", "", "", str(shop.root)) in graph.of(File)
    assert graph.coverage.nodes["File"] == Share(5, 5)


def test_a_limit_takes_whole_files_and_says_what_is_missing(shop: Workshop) -> None:
    graph = _graph(shop, nodes=8)
    assert 0 < graph.count() <= 8
    kept = {_name(file) for file in graph.of(File)}
    assert kept < set(SOURCES)
    symbols = {symbol.file_path for symbol in graph.of(Symbol) if isinstance(symbol, Symbol)}
    assert symbols <= kept
    assert not graph.coverage.is_whole
    assert graph.coverage.nodes["File"] == Share(len(kept), 4)
    assert any(note.startswith("File: ") for note in graph.coverage.notes)


def test_edges_to_files_that_were_left_out_are_counted(shop: Workshop) -> None:
    graph = _graph(shop, paths=("shop/pay.py",))
    assert [_name(file) for file in graph.of(File)] == ["shop/pay.py"]
    assert graph.coverage.edges_left_out["file_imports_file"] == 1
    assert graph.coverage.edges_left_out["symbol_references_symbol"] >= 1
    assert graph.edges.get("file_imports_file", []) == []


@pytest.mark.parametrize(("paths", "count"), [(("shop",), 3), (("tests/", "shop/cart.py"), 2), ((".",), 4)])
def test_only_files_below_the_paths_are_taken(shop: Workshop, paths: tuple[str, ...], count: int) -> None:
    assert len(_graph(shop, paths=paths).of(File)) == count


def test_files_that_attempts_name_come_before_others(shop: Workshop) -> None:
    last = max(SOURCES)
    assert last not in {_name(file) for file in _graph(shop, nodes=16).of(File)}
    shop.log("fix", "checkpoint", {"message": "x", "files": [last], "graph_version": "v"})
    graph = _graph(shop, nodes=16)
    assert _ends(graph, "event_reads_file") == {("checkpoint", last)}
    assert not graph.coverage.is_whole


def test_the_newest_attempts_are_kept_when_not_all_fit(shop: Workshop) -> None:
    for number in range(6):
        shop.log(f"try-{number}", "checkpoint", {"message": "x", "graph_version": "v"})
    graph = _graph(shop, nodes=25)
    kept = {_name(attempt) for attempt in graph.of(Attempt)}
    assert kept == {f"try-{number}" for number in range(6 - len(kept), 6)}
    assert graph.coverage.nodes["Attempt"] == Share(len(kept), 6)
    assert 0 < len(kept) < 6
    assert graph.count() <= 25


def test_attempts_at_another_project_are_not_of_this_one(shop: Workshop, tmp_path: Path) -> None:
    shop.etg.log(_event("elsewhere", str(tmp_path / "other")))
    assert _graph(shop).of(Attempt) == []


def _event(attempt: str, project: str) -> Any:
    from tracedesk.codegraph.etg.model import NewEvent

    return NewEvent(attempt, "checkpoint", {"message": "x", "graph_version": "v"}, project=project)


def test_a_project_without_a_graph_is_refused_with_what_to_call(shop: Workshop) -> None:
    with pytest.raises(ToolError, match="graph_index_project") as refused:
        bounded(shop.store, "/nowhere", now_ns=0)
    assert refused.value.code == "PROJECT_NOT_INDEXED"


def test_no_trace_yet_is_a_graph_of_code_alone(shop: Workshop) -> None:
    graph = bounded(shop.store, str(shop.root), now_ns=0, trace_file=shop.root / "missing.db")
    assert graph.of(Attempt) == []
    assert len(graph.of(File)) == 4


class _Model:
    """A model of two dimensions."""

    id = "two"
    dim = 2

    def embed(self, texts: Any) -> Any:
        return np.tile(np.array([[0.6, -0.8]], np.float32), (len(texts), 1))


def test_embeddings_are_lists_of_floats_where_a_chunk_has_a_vector_and_empty_elsewhere(
    shop: Workshop, tmp_path: Path
) -> None:
    assert all(
        chunk.embedding == () for chunk in _graph(shop).of(ContextChunk) if isinstance(chunk, ContextChunk)
    )
    vectors = Vectors(tmp_path / "vectors", _Model())
    with shop.store.reading() as connection:
        keys = [row[0] for row in connection.execute("SELECT DISTINCT key FROM chunk ORDER BY key LIMIT 2")]
    vectors.put(keys, _Model().embed(keys))
    graph = _graph(shop, vectors=vectors)
    filled = [c.embedding for c in graph.of(ContextChunk) if isinstance(c, ContextChunk) and c.embedding]
    assert filled == [pytest.approx((0.6, -0.8), abs=0.01)] * len(filled)
    assert len(filled) >= 2
    assert graph.coverage.embedding_model == "two"
    assert graph.coverage.embedded == Share(len(filled), len(graph.of(ContextChunk)))


def test_an_attempts_summary_has_the_vector_of_its_text(shop: Workshop, tmp_path: Path) -> None:
    tried(shop)
    shop.etg.catch_up()
    vectors = Vectors(tmp_path / "vectors", _Model())
    with Reader(shop.etg.path) as reader:
        keys = [key for _, key, _ in texts(reader.connection, str(shop.root))]
    vectors.put(keys, _Model().embed(keys))
    graph = _graph(shop, vectors=vectors)
    summary = graph.of(Summary)[0]
    assert isinstance(summary, Summary)
    assert summary.embedding == pytest.approx((0.6, -0.8), abs=0.01)
    assert graph.coverage.embedded.kept == 1
