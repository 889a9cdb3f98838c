"""Files of events: found by kind, relative to the project; citations are taken apart where they can be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codegraph.etg.bench import Bench
from tracedesk.codegraph.etg.files import MOST_FILES, Citation, citation, named, normalised


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("app/main.py:L10-L40", Citation("app/main.py:L10-L40", "app/main.py", 10, 40)),
        ("app/main.py:10", Citation("app/main.py:10", "app/main.py", 10, 10)),
        ("app/main.py#L7", Citation("app/main.py#L7", "app/main.py", 7, 7)),
        ("app/main.py#L7-L9", Citation("app/main.py#L7-L9", "app/main.py", 7, 9)),
        ("my file.py:3-4", Citation("my file.py:3-4", "my file.py", 3, 4)),
        ("app/main.py", Citation("app/main.py", "app/main.py")),
        ("src/Makefile", Citation("src/Makefile", "src/Makefile")),
        ("app/main.py:L40-L10", Citation("app/main.py:L40-L10")),
        ("https://example.com/a.py#L3", Citation("https://example.com/a.py#L3")),
        ("https://example.com/a.py", Citation("https://example.com/a.py")),
        ("the docs", Citation("the docs")),
        ("", Citation("")),
        ("see app/main.py for more", Citation("see app/main.py for more")),
    ],
)
def test_citations_are_taken_apart_or_kept_verbatim(text: str, found: Citation) -> None:
    assert citation(text) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.py", "a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/../a.py", "a.py"),
        ("/repo/src/a.py", "src/a.py"),
        ("file:///repo/src/a.py", "src/a.py"),
        ("src\\a.py", "src/a.py"),
        ("/elsewhere/a.py", "/elsewhere/a.py"),
        ("/repository/a.py", "/repository/a.py"),
        ("../a.py", "../a.py"),
        ("/repo", "/repo"),
        (".", None),
        ("", None),
        ("a\nb", None),
        ("x" * 2_000, None),
    ],
)
def test_paths_are_relative_to_the_project_where_they_are_in_it(path: str, found: str | None) -> None:
    assert normalised(path, "/repo") == found


@pytest.mark.parametrize(
    ("kind", "payload", "files"),
    [
        ("checkpoint", {"files": ["a.py", "a.py", "b.py"]}, [("a.py", "changed"), ("b.py", "changed")]),
        (
            "context_retrieved",
            {"files": ["a.py"], "snippets": [{"file": "b.py", "summary": ""}]},
            [("a.py", "read"), ("b.py", "read")],
        ),
        ("answer_rendered", {"citations": ["a.py:3", "the docs"]}, [("a.py", "cited")]),
        ("tool_start", {"tool": "Edit", "arguments": {"file_path": "a.py"}}, [("a.py", "changed")]),
        ("tool_start", {"tool": "read_file", "arguments": {"path": "a.py", "x": "y"}}, [("a.py", "read")]),
        ("tool_start", {"tool": "read_many", "arguments": {"paths": ["a", 1]}}, [("a", "read")]),
        ("tool_end", {"tool": "write_file", "status": "ok", "files": ["a.py"]}, [("a.py", "changed")]),
        ("tool_start", {"tool": "graph_context_for_files", "arguments": {"files": ["a.py"]}}, []),
        ("tool_start", {"tool": "mcp__desk__graph_search", "arguments": {"path": "a.py"}}, []),
    ],
)
def test_an_event_names_files_by_its_kind(
    kind: str, payload: dict[str, Any], files: list[tuple[str, str]]
) -> None:
    assert named(kind, payload) == files


def test_the_files_of_one_event_are_bounded() -> None:
    assert len(named("checkpoint", {"files": [f"{n}.py" for n in range(5_000)]})) == MOST_FILES


def test_a_file_that_no_graph_knows_is_linked_all_the_same(bench: Bench) -> None:
    bench.log("a", "context_retrieved", {"files": ["gone/never.py", "/else/where.py"]}, project="/repo")
    assert [(file.path, file.roles) for file in bench.view("a").files] == [
        ("/else/where.py", ("read",)),
        ("gone/never.py", ("read",)),
    ]


def test_a_project_named_later_counts_for_the_files_before_it(bench: Bench) -> None:
    bench.log("a", "context_retrieved", {"files": ["/repo/a.py"]})
    assert [file.path for file in bench.view("a").files] == ["/repo/a.py"]
    bench.log("a", "checkpoint", {"message": "m", "graph_version": "v", "files": ["a.py"]}, project="/repo")
    view = bench.view("a")
    assert view.brief.project == "/repo"
    assert [(file.path, file.roles, file.events) for file in view.files] == [("a.py", ("changed", "read"), 2)]
    assert [event.files for event in view.events] == [(("a.py", "read"),), (("a.py", "changed"),)]
