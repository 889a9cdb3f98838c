"""Tool calls: starts and ends that belong together, whatever they carry and in whatever order they come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tracedesk.codegraph.etg.pairing import is_check


def _calls(bench: Bench) -> list[tuple[Any, ...]]:
    return [
        (call.tool, call.arguments, call.status, call.pairing, call.call_id)
        for call in bench.view("a").tool_calls
    ]


def test_an_end_without_an_id_closes_the_newest_open_call_of_its_tool(bench: Bench) -> None:
    bench.start("a", "shell", {"n": 1})
    bench.start("a", "shell", {"n": 2})
    bench.start("a", "edit", {"n": 3})
    bench.end("a", "shell", "error")
    assert _calls(bench) == [
        ("shell", {"n": 1}, None, "open", None),
        ("shell", {"n": 2}, "error", "inferred", None),
        ("edit", {"n": 3}, None, "open", None),
    ]


def test_a_call_id_pairs_exactly(bench: Bench) -> None:
    bench.start("a", "shell", {"n": 1}, call_id="1")
    bench.start("a", "shell", {"n": 2}, call_id="2")
    bench.end("a", "shell", "error", call_id="1")
    assert _calls(bench) == [
        ("shell", {"n": 1}, "error", "exact", "1"),
        ("shell", {"n": 2}, None, "open", "2"),
    ]


def test_an_end_never_closes_a_call_of_another_id(bench: Bench) -> None:
    bench.start("a", "shell", {"n": 1}, call_id="1")
    bench.end("a", "shell", call_id="2")
    assert _calls(bench) == [
        ("shell", {"n": 1}, None, "open", "1"),
        ("shell", None, "ok", "orphan", "2"),
    ]


def test_an_end_with_an_id_closes_a_call_that_had_none(bench: Bench) -> None:
    bench.start("a", "shell", {"n": 1})
    bench.end("a", "shell", call_id="7")
    assert _calls(bench) == [("shell", {"n": 1}, "ok", "inferred", "7")]


def test_an_orphan_end_is_a_call_without_arguments(bench: Bench) -> None:
    bench.log("a", "tool_end", {"tool": "shell", "status": "ok", "duration_ms": 5, "output_ref": "log://x"})
    call = bench.view("a").tool_calls[0]
    assert (call.arguments, call.pairing, call.duration_us, call.output_ref) == (
        None,
        "orphan",
        5_000,
        "log://x",
    )
    assert (call.start_ref, call.end_ref) == (None, call.ref)


def test_a_start_that_arrives_after_its_end_joins_it(bench: Bench) -> None:
    bench.end("a", "shell", call_id="7", timestamp_ns=NOON + SECOND)
    bench.start("a", "shell", {"n": 1}, call_id="7", timestamp_ns=NOON)
    assert _calls(bench) == [("shell", {"n": 1}, "ok", "exact", "7")]
    assert bench.view("a").tool_calls[0].duration_us == 1_000_000


def test_a_start_with_a_later_clock_than_its_end_joins_it_by_its_id(bench: Bench) -> None:
    bench.start("a", "shell", {"n": 1}, call_id="7", timestamp_ns=NOON + SECOND)
    bench.end("a", "shell", call_id="7", timestamp_ns=NOON)
    assert _calls(bench) == [("shell", {"n": 1}, "ok", "exact", "7")]


def test_late_events_are_paired_as_if_they_had_come_in_time(bench: Bench) -> None:
    def at(seconds: int) -> int:
        return NOON + seconds * SECOND

    bench.end("a", "shell", "second", timestamp_ns=at(4))
    bench.start("a", "shell", {"n": 2}, timestamp_ns=at(3))
    bench.end("a", "shell", "first", timestamp_ns=at(2))
    bench.start("a", "shell", {"n": 1}, timestamp_ns=at(1))
    assert [call[1:4] for call in _calls(bench)] == [
        ({"n": 1}, "first", "inferred"),
        ({"n": 2}, "second", "inferred"),
    ]


def test_a_duration_is_as_told_else_the_time_between(bench: Bench) -> None:
    bench.start("a", "x", timestamp_ns=NOON)
    bench.end("a", "x", timestamp_ns=NOON + 3 * SECOND)
    bench.start("a", "y", timestamp_ns=NOON)
    bench.log("a", "tool_end", {"tool": "y", "status": "ok", "duration_ms": 7}, timestamp_ns=NOON + SECOND)
    assert [call.duration_us for call in bench.view("a").tool_calls] == [3_000_000, 7_000]


@pytest.mark.parametrize(
    ("status", "known"),
    [
        ("ok", True),
        ("error", True),
        ("timeout", True),
        ("cancelled", True),
        ("denied", True),
        ("weird", False),
    ],
)
def test_a_status_outside_the_vocabulary_is_kept_and_unknown(bench: Bench, status: str, known: bool) -> None:
    bench.end("a", "shell", status)
    call = bench.view("a").tool_calls[0]
    assert (call.status, call.has_known_status) == (status, known)
    failed = ("shell",) if status in ("error", "timeout") else ()
    assert bench.view("a").brief.failed_tools == failed


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("run_tests", {}, 1),
        ("shell_run", {"cmd": "npm test"}, 1),
        ("shell_run", {"command": "cargo build --release"}, 1),
        ("Bash", {"command": "python -m pytest -q"}, 1),
        ("shell", {"args": ["go", "test", "./..."]}, 1),
        ("shell_run", {"cmd": "pytest -q | tail -5"}, 2),
        ("shell_run", {"cmd": "./run.sh"}, 0),
        ("shell_run", {}, 0),
        ("shell_run", {"cmd": "cat latest.txt"}, -1),
        ("Bash", {"command": "cat tests/test_build.py | grep make"}, -1),
        ("Bash", {"command": "git commit -m 'make the build test'"}, -1),
        ("Bash", {"command": "pip install pytest"}, -1),
        ("read_file", {"path": "test.py"}, -1),
    ],
)
def test_a_call_that_tests_or_builds_is_told_by_its_name_or_command(
    tool: str, arguments: dict[str, Any], expected: int
) -> None:
    assert is_check(tool, {"tool": tool, "arguments": arguments}) == expected


def test_our_own_tools_are_tagged_and_tell_nothing(bench: Bench) -> None:
    bench.start("a", "mcp__tracedesk__graph_search", {"query": "parser", "path": "a.py"})
    bench.end("a", "mcp__tracedesk__graph_search", "error")
    view = bench.view("a")
    assert [call.origin for call in view.tool_calls] == ["self"]
    assert (view.brief.events, view.brief.evidence, view.brief.failed_tools, view.files) == (0, False, (), ())


def test_events_that_we_log_ourselves_tell_nothing(bench: Bench) -> None:
    bench.log("a", "checkpoint", {"message": "m", "graph_version": "v", "files": ["a.py"]}, source="self")
    view = bench.view("a")
    assert len(view.events) == 1
    assert (view.brief.evidence, view.brief.summary, view.files) == (False, "", ())
