"""What an event must have: every flaw is named at once, and nothing flawed is kept."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.codegraph.etg.bench import NOON, PAYLOADS, Bench
from tracedesk.codegraph.etg.checks import timestamp
from tracedesk.codegraph.etg.model import KINDS
from tracedesk.errors import ToolError


def _flaws(bench: Bench, kind: str, payload: Any, **facts: Any) -> list[str]:
    with pytest.raises(ToolError) as refused:
        bench.log("a", kind, payload, **facts)
    assert refused.value.code == "INVALID_PARAMETER"
    assert refused.value.details is not None
    fields = [flaw["field"] for flaw in refused.value.details["fields"]]
    assert all(field in refused.value.message for field in fields)
    assert bench.find("a") is None
    return fields


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_that_a_kind_needs_is_enough(bench: Bench, kind: str) -> None:
    logged = bench.log("a", kind)
    assert [event.event_id for event in bench.view("a").events] == [logged.event_id]


@pytest.mark.parametrize("kind", KINDS)
def test_every_missing_field_of_a_kind_is_named_at_once(bench: Bench, kind: str) -> None:
    assert _flaws(bench, kind, {}) == [f"payload.{name}" for name in PAYLOADS[kind]]


@pytest.mark.parametrize(
    ("kind", "payload", "fields"),
    [
        ("tool_start", {"tool": "", "arguments": []}, ["payload.tool", "payload.arguments"]),
        (
            "tool_end",
            {"tool": 1, "status": None, "duration_ms": -1, "output_ref": 5},
            ["payload.tool", "payload.status", "payload.duration_ms", "payload.output_ref"],
        ),
        ("tool_end", {"tool": "x", "status": "ok", "duration_ms": True}, ["payload.duration_ms"]),
        (
            "checkpoint",
            {"message": 1, "graph_version": " ", "files": ["a", 1]},
            ["payload.message", "payload.graph_version", "payload.files"],
        ),
        (
            "context_retrieved",
            {"files": "app.py", "snippets": [{"file": "a"}, 5, {"file": "", "summary": "s", "symbols": [1]}]},
            [
                "payload.files",
                "payload.snippets[0].summary",
                "payload.snippets[1]",
                "payload.snippets[2].file",
                "payload.snippets[2].symbols",
            ],
        ),
        (
            "answer_rendered",
            {"content": None, "citations": "x", "token_count": 1.5, "query": 5, "summary": []},
            [
                "payload.content",
                "payload.citations",
                "payload.token_count",
                "payload.query",
                "payload.summary",
            ],
        ),
        ("answer_rendered", [], ["payload"]),
    ],
)
def test_mistyped_fields_are_named_at_once(bench: Bench, kind: str, payload: Any, fields: list[str]) -> None:
    assert _flaws(bench, kind, payload) == fields


def test_the_frame_and_the_payload_are_refused_together(bench: Bench) -> None:
    with pytest.raises(ToolError) as refused:
        bench.log("", "tool_start", {}, event_id="\n", call_id="x" * 201, outcome="great")
    assert refused.value.details is not None
    assert [flaw["field"] for flaw in refused.value.details["fields"]] == [
        "attempt_id",
        "event_id",
        "call_id",
        "outcome",
        "payload.tool",
        "payload.arguments",
    ]


@pytest.mark.parametrize("name", ["a\x00b", "x" * 201, "  ", "\ud800", "ж" * 60, "\u202eabc"])
def test_an_attempt_id_that_no_reference_could_carry_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(ToolError, match="attempt_id"):
        bench.log(name, "checkpoint")


def test_an_unknown_kind_is_refused_with_the_kinds_there_are(bench: Bench) -> None:
    with pytest.raises(ToolError, match="tool_start, tool_end, checkpoint"):
        bench.log("a", "task_start", {})


def test_an_outcome_belongs_to_a_checkpoint_or_an_answer(bench: Bench) -> None:
    assert _flaws(bench, "tool_start", PAYLOADS["tool_start"], outcome="failed") == ["outcome"]


class _Indexed:
    def version(self, project: str | None) -> str | None:
        return "cg1-current"

    def project_of(self, graph_version: str) -> str | None:
        return None

    def only_project(self) -> str | None:
        return None


def test_a_checkpoint_without_a_version_is_told_the_current_one(bench: Bench) -> None:
    bench.etg.world = _Indexed()
    with pytest.raises(ToolError, match="The current graph_version is cg1-current") as refused:
        bench.log("a", "checkpoint", {"message": "x"})
    assert refused.value.details is not None
    assert refused.value.details["currentGraphVersion"] == "cg1-current"


def test_without_an_index_a_checkpoint_without_a_version_is_told_how_to_get_one(bench: Bench) -> None:
    with pytest.raises(ToolError, match="graph_index_project"):
        bench.log("a", "checkpoint", {"message": "x"})


def test_many_flaws_are_all_in_the_details_and_counted_in_the_message(bench: Bench) -> None:
    with pytest.raises(ToolError, match="and 81 more") as refused:
        bench.log("a", "context_retrieved", {"files": 1, "snippets": [1] * 100})
    assert refused.value.details is not None
    assert len(refused.value.details["fields"]) == 101


def test_a_payload_that_is_not_json_is_refused(bench: Bench) -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"x": deep}
    with pytest.raises(ToolError, match="nest less"):
        bench.log("a", "tool_start", {"tool": "x", "arguments": deep})
    with pytest.raises(ToolError, match="payload"):
        bench.log("a", "tool_start", {"tool": "x", "arguments": {"n": float("nan")}})


def test_unknown_keys_and_exact_numbers_are_kept(bench: Bench) -> None:
    bench.log("a", "tool_end", {"tool": "x", "status": "ok", "duration_ms": Decimal("12.50"), "exit": 3})
    view = bench.view("a")
    assert view.events[0].payload["exit"] == 3
    assert str(view.events[0].payload["duration_ms"]) == "12.50"
    assert view.tool_calls[0].duration_us == 12_500


@pytest.mark.parametrize(
    "text", ["2026-11-15T12:00:00Z", "2026-11-15T13:00:00+01:00", "2026-11-15t07:00-05:00"]
)
def test_a_timestamp_with_an_offset_is_exact(text: str) -> None:
    assert timestamp(text) == NOON


@pytest.mark.parametrize("text", ["2026-11-15T12:00:00", "2026-11-15"])
def test_a_timestamp_without_an_offset_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ToolError, match=r"timestamp: needs an offset; write 2026-11-15T\d\d:00:00Z for UTC"):
        timestamp(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "9999-01-01T00:00:00Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="timestamp: "):
        timestamp(text)
