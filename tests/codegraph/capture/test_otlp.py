"""Traces: what other programs send becomes attempts, and an export read back is the same attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.capture.support import drops, traced
from tracedesk.codegraph.capture import genai, otlp
from tracedesk.codegraph.capture.export import Attempt, export, trace_id
from tracedesk.codegraph.capture.otlp import NotOtlp
from tracedesk.codegraph.capture.traces import events_of, take
from tracedesk.codegraph.etg.model import KINDS
from tracedesk.primitives import json as exact

TRACE = "5b8efff798038103d269b633813fc60c"
START = 1_800_000_000_000_000_000


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = {bool: "boolValue", int: "intValue", str: "stringValue"}[type(value)]
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def span(number: int = 1, **told: Any) -> dict[str, Any]:
    attributes = [attribute(key, value) for key, value in told.pop("attributes", {}).items()]
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{1:016x}" if number > 1 else "",
        "name": "step",
        "kind": 1,
        "startTimeUnixNano": str(START + number),
        "endTimeUnixNano": str(START + number + 5_000_000),
        "attributes": attributes,
        **told,
    }


TOOL = {genai.OPERATION: genai.EXECUTE_TOOL, genai.TOOL: "t"}


def document(*spans: Any) -> dict[str, Any]:
    scope = {"scope": {"name": "some.agent"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


# --- other programs -----------------------------------------------------------------------------


def test_an_agents_trace_becomes_an_attempt_named_by_its_trace(tmp_path: Path) -> None:
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": "Fix the login"}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "Fixed."}]}]
        ),
        "gen_ai.usage.output_tokens": 7,
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "shell",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"command": "pytest"}',
        "gen_ai.tool.call.result": "1 failed",
        "error.type": "timeout",
    }
    retrieval = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.query.text": "login",
        "code.file.path": "app/login.py",
        "gen_ai.retrieval.documents": '[{"id": "d1"}]',
    }
    body = document(
        span(2, attributes=tool, status={"code": 2, "message": "too slow"}),
        span(3, attributes=retrieval),
        span(4, attributes={"gen_ai.operation.name": "chat"}),
        span(1, attributes=agent),
    )
    with traced(tmp_path) as desk:
        answer, logged = take(json.dumps(body).encode(), desk.etg)
        assert answer == {}
        assert len(logged) == 5
        view = desk.attempt(TRACE)
        assert [event.kind for event in view.events] == [
            "context_retrieved",
            "tool_start",
            "context_retrieved",
            "answer_rendered",
            "tool_end",
        ]
        assert take(json.dumps(body).encode(), desk.etg)[1][0].duplicate
    (call,) = view.tool_calls
    assert (call.tool, call.status, call.arguments, call.duration_us) == (
        "shell",
        "timeout",
        {"command": "pytest"},
        5_000,
    )
    assert view.events[0].payload["query"] == "Fix the login"
    assert view.events[2].payload == {
        "files": ["app/login.py"],
        "query": "login",
        "documents": [{"id": "d1"}],
    }
    assert view.events[3].payload == {"content": "Fixed.", "token_count": 7}
    assert view.events[4].payload["error"] == "too slow"
    assert {event.source for event in view.events} == {"otlp"}


def test_a_span_inside_a_tools_is_no_second_call() -> None:
    inner = span(3, parentSpanId=f"{2:016x}", attributes={genai.TOOL: "t"})
    _, events = events_of(document(span(2, attributes=TOOL), inner))
    assert [event.kind for event in events] == ["tool_start", "tool_end"]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [("plain words", {"value": "plain words"}), ("[1, 2]", {"value": [1, 2]}), ("{}", {}), (None, {})],
)
def test_a_tools_arguments_are_an_object_however_they_were_sent(arguments: str | None, kept: object) -> None:
    told = TOOL | ({genai.ARGUMENTS: arguments} if arguments is not None else {})
    _, (start, _) = events_of(document(span(2, attributes=told)))
    assert start.payload["arguments"] == kept


def test_structured_attributes_are_read_too() -> None:
    listed = [
        {"key": genai.CALL_ID, "value": {"stringValue": "c"}},
        {
            "key": genai.ARGUMENTS,
            "value": {"kvlistValue": {"values": [{"key": "n", "value": {"intValue": 3}}]}},
        },
        {
            "key": genai.RESULT,
            "value": {"arrayValue": {"values": [{"doubleValue": 1.5}, {"boolValue": True}]}},
        },
    ]
    body = json.dumps(document({**span(2), "attributes": listed})).encode()
    _, (start, end) = events_of(body)
    assert start.payload["arguments"] == {"n": 3}
    assert end.payload["output"] == "[1.5,true]"


# --- what cannot be taken -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"traceId": "0" * 32}, "traceId"),
        ({"traceId": "W47/95gDgQPSabYzgT/GDA=="}, "32 hexadecimal digits"),
        ({"spanId": "abc"}, "spanId"),
        ({"parentSpanId": "xyz"}, "parentSpanId"),
        ({"startTimeUnixNano": "soon"}, "startTimeUnixNano"),
        ({"startTimeUnixNano": True}, "startTimeUnixNano"),
        ({"endTimeUnixNano": str(2**63)}, "endTimeUnixNano"),
        ({"attributes": {"a": 1}}, "attributes must be a list"),
        ({"attributes": [{"value": 1}]}, "a key and a value"),
        ({"events": ["x"]}, "events must be"),
        ({"name": 5}, "name must be a text"),
    ],
)
def test_a_span_that_breaks_a_rule_is_rejected_and_the_others_are_taken(
    tmp_path: Path, broken: dict[str, Any], said: str
) -> None:
    good = span(2, attributes=TOOL)
    with traced(tmp_path) as desk:
        answer, logged = take(json.dumps(document({**span(3), **broken}, good)).encode(), desk.etg)
    assert answer["partialSuccess"]["rejectedSpans"] == "1"
    assert said in answer["partialSuccess"]["errorMessage"]
    assert len(logged) == 2


def test_an_event_that_the_trace_refuses_is_a_rejected_span(tmp_path: Path) -> None:
    named = {genai.ATTEMPT: "a\n", genai.EVENT_ID + ".start": "e", genai.TOOL: "t"}
    body = document(span(2, attributes=named))
    body["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"] = genai.SCOPE
    with traced(tmp_path) as desk:
        answer, logged = take(json.dumps(body).encode(), desk.etg)
    assert "attempt_id" in answer["partialSuccess"]["errorMessage"]
    assert not logged


def _ours(number: int, **told: Any) -> dict[str, Any]:
    """A span as our own exports write it."""
    frame = {genai.ATTEMPT: "a", genai.EVENT_ID: f"e{number}", genai.REST: '{"files": []}'}
    return span(number, attributes=frame | told)


_BAD_SPANS = {
    "deep arguments": (span(3, attributes=TOOL | {genai.ARGUMENTS: '{"a":' * 400 + "1" + "}" * 400}), ""),
    "a long tool name": (span(3, attributes=TOOL | {genai.TOOL: "t" * 300}), ""),
    "time long ago": (_ours(3, **{genai.EVENT_TIME: -(2**64)}), genai.SCOPE),
    "time far ahead": (_ours(3, **{genai.EVENT_TIME: 2**64}), genai.SCOPE),
    "deep payload": (
        _ours(3, **{genai.REST: '{"files": [], "x": ' + "[" * 80 + "]" * 80 + "}"}),
        genai.SCOPE,
    ),
}


@pytest.mark.parametrize("name", _BAD_SPANS)
def test_a_span_that_cannot_be_kept_is_counted_and_the_others_are_taken(tmp_path: Path, name: str) -> None:
    bad, scope = _BAD_SPANS[name]
    body = document(span(2, attributes=TOOL), span(4, attributes=TOOL))
    body["resourceSpans"][0]["scopeSpans"].insert(0, {"scope": {"name": scope}, "spans": [bad]})
    with traced(tmp_path) as desk:
        answer, logged = take(json.dumps(body).encode(), desk.etg)
        assert answer["partialSuccess"]["rejectedSpans"] == "1"
        assert bad["spanId"] in answer["partialSuccess"]["errorMessage"]
        assert (len(logged), desk.attempts()) == (4, [TRACE])


def test_a_retrieval_whose_files_are_a_number_names_none() -> None:
    told = {genai.OPERATION: genai.RETRIEVAL, genai.QUERY: "q", genai.FILES: 5}
    received, (event,) = events_of(document(span(2, attributes=told)))
    assert received.rejected == 0
    assert event.payload == {"files": [], "query": "q"}


def test_a_document_has_no_more_spans_than_can_be_taken_while_its_sender_waits() -> None:
    received = otlp.read(document(*(span(number) for number in range(2, 2_005))))
    assert (len(received.spans), received.rejected) == (2_000, 3)


def test_a_document_with_too_many_spans_is_taken_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_SPANS", 2)
    received, _ = events_of(document(span(2), span(3), span(4), span(5)))
    assert (len(received.spans), received.rejected) == (2, 2)
    assert "send smaller batches" in received.problems[0]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"resourceSpans": 1}', b'{"resourceSpans": [1]}'],
)
def test_a_document_that_is_no_export_is_refused_whole(body: bytes) -> None:
    with pytest.raises(NotOtlp):
        events_of(body)


def test_unknown_members_and_an_empty_export_are_passed_over() -> None:
    assert events_of(b"{}")[1] == []
    assert events_of(b'{"resourceSpans": null, "later": {}}')[1] == []
    received, _ = events_of(document({**span(2), "flags": 257, "later": [1]}))
    assert (len(received.spans), received.rejected) == (1, 0)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["0" * 32, TRACE, "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["key", "value", "stringValue", "intValue", "kvlistValue", "arrayValue", "values", "name"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
_MEMBERS = (
    "traceId",
    "spanId",
    "name",
    "startTimeUnixNano",
    "attributes",
    "events",
    "status",
    "parentSpanId",
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(_MEMBERS), _JSON))
def test_no_span_breaks_the_receiver(told: dict[str, Any]) -> None:
    received, events = events_of(exact.dumps(document({**span(2), **told})))
    assert received.rejected in (0, 1)
    assert not (received.rejected and events)


# --- there and back -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """An event as the trace keeps it."""

    event_id: str
    kind: str
    time_ns: int
    payload: dict[str, Any]
    call_id: str | None = None
    outcome: str | None = None
    source: str = "client"
    extra: None = field(default=None, compare=False)


_NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=12)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_NUMBERS = st.integers(-(10**20), 10**20) | st.decimals(-(10**6), 10**6, places=3, allow_nan=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)
_KNOWN = {
    "tool_start": {"tool": _NAMES, "arguments": st.dictionaries(_TEXTS, _VALUES, max_size=3)},
    "tool_end": {
        "tool": _NAMES,
        "status": st.sampled_from(["ok", "error", "timeout", "odd"]),
    },
    "checkpoint": {"message": _TEXTS, "graph_version": _NAMES},
    "context_retrieved": {"files": st.lists(_TEXTS, max_size=3)},
    "answer_rendered": {"content": _TEXTS},
}
_MORE = st.dictionaries(
    st.sampled_from(
        [
            "duration_ms",
            "output",
            "output_ref",
            "files",
            "query",
            "snippets",
            "citations",
            "token_count",
            "x",
            "tool",
        ]
    ),
    _VALUES,
    max_size=3,
)


@st.composite
def _events(draw: st.DrawFn) -> list[Event]:
    made: list[Event] = []
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(KINDS))
        known = {name: draw(strategy) for name, strategy in _KNOWN[kind].items()}
        more = {k: v for k, v in draw(_MORE).items() if _fits(kind, k, v)}
        outcomes = (
            st.sampled_from([None, "failed"]) if kind in ("checkpoint", "answer_rendered") else st.none()
        )
        made.append(
            Event(
                event_id=f"e{number}",
                kind=kind,
                time_ns=draw(st.integers(-(10**18), 2 * 10**18)),
                payload={**more, **known},
                call_id=draw(st.none() | st.sampled_from(["c1", "c2"])),
                outcome=draw(outcomes),
                source=draw(st.sampled_from(["client", "hook", "self"])),
            )
        )
    return made


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


def _fits(kind: str, name: str, value: Any) -> bool:
    """Whether the trace would have taken this member: what it checks must be as it wants it."""
    texts = _are_texts(value)
    count = type(value) is int and 0 <= value < 2**53
    amount = count or (type(value) is Decimal and value >= 0)
    return {
        "query": isinstance(value, str),
        "tool": True,
        "files": texts or kind not in ("checkpoint", "context_retrieved"),
        "snippets": kind != "context_retrieved",
        "citations": texts or kind != "answer_rendered",
        "token_count": count or kind != "answer_rendered",
        "duration_ms": amount or kind != "tool_end",
        "output_ref": isinstance(value, str) or kind != "tool_end",
    }.get(name, True)


def said(event: Any, time_ns: int, source: str) -> tuple[Any, ...]:
    own = "self" if source == "self" else "otlp"
    payload = exact.dumps(dict(sorted(event.payload.items())))
    return event.event_id, event.kind, time_ns, payload, event.call_id, event.outcome, own


@settings(deadline=None, max_examples=80)
@given(events=_events(), name=_NAMES)
def test_an_export_read_back_is_the_same_attempt(events: list[Event], name: str) -> None:
    attempt = Attempt(name, events, project="/p", query="why", outcome="failed", graph_version="cg1-x")
    told = exact.dumps(export(attempt))
    received, back = events_of(told)
    assert (received.rejected, received.problems) == (0, ())
    wanted = {said(event, event.time_ns, event.source) for event in events}
    assert {said(event, event.timestamp_ns or 0, event.source) for event in back} == wanted
    assert len(back) == len(events)
    assert {event.attempt_id for event in back} == {name}
    assert {event.project for event in back} == {"/p"}
    assert exact.dumps(export(attempt)) == told


@settings(deadline=None, max_examples=30)
@given(events=_events())
def test_every_span_is_in_one_trace_under_one_root(events: list[Event]) -> None:
    spans = otlp.read(export(Attempt("a", events))).spans
    (root,) = [span for span in spans if span.parent_id is None]
    assert {span.parent_id for span in spans if span is not root} <= {root.span_id}
    assert {span.trace_id for span in spans} == {trace_id("a")}
    assert len({span.span_id for span in spans}) == len(spans)
    assert all(0 < span.start_ns <= span.end_ns for span in spans)


def test_calls_of_one_tool_that_overlap_are_told_apart_by_their_ids() -> None:
    def event(kind: str, call: str, at: int, **more: Any) -> Event:
        return Event(f"{kind}-{call}", kind, at, {"tool": "t", **more}, call)

    events = [
        event("tool_start", "first", 10, arguments={}),
        event("tool_start", "second", 20, arguments={}),
        event("tool_end", "first", 30, status="error"),
        event("tool_end", "second", 40, status="ok"),
    ]
    _, *spans = otlp.read(export(Attempt("a", events))).spans
    assert [(span.start_ns, span.end_ns, span.is_error) for span in spans] == [
        (10, 30, True),
        (20, 40, False),
    ]


def test_a_recorded_session_goes_to_another_home_and_stays_what_it_was(tmp_path: Path) -> None:
    with traced(tmp_path / "one") as desk:
        desk.drop(*drops("qwen_code"))
        desk.drain()
        views = {name: desk.attempt(name) for name in desk.attempts()}
        told = [exact.dumps(export(Attempt.of(view))) for view in views.values()]
        for body in told:
            assert all(each.duplicate for each in take(body, desk.etg)[1])
    with traced(tmp_path / "two") as other:
        for body in told:
            answer, logged = take(body, other.etg)
            assert answer == {}
            assert not any(each.duplicate for each in logged)
        assert other.attempts() == [*views]
        for name, view in views.items():
            copy = other.attempt(name)
            assert [(e.event_id, e.time_ns, e.payload) for e in copy.events] == [
                (e.event_id, e.time_ns, e.payload) for e in view.events
            ]
            assert [(c.tool, c.status, c.pairing) for c in copy.tool_calls] == [
                (c.tool, c.status, c.pairing) for c in view.tool_calls
            ]
            assert copy.brief.summary == view.brief.summary
            assert copy.brief.project == view.brief.project


def test_an_export_speaks_the_genai_names(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*drops("qwen_code"))
        desk.drain()
        spans = otlp.read(export(Attempt.of(desk.attempt(desk.attempts()[0])))).spans
    root, *tools = spans
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["gen_ai.conversation.id"] == root.attributes["etg.attempt.id"]
    assert "Add a greet function" in root.attributes["gen_ai.input.messages"]
    assert [span.name for span in tools] == [
        "execute_tool run_shell_command",
        "execute_tool write_file",
        "execute_tool read_file",
    ]
    assert tools[0].attributes["gen_ai.tool.call.arguments"].startswith('{"command":"echo hello"')
    assert "Output: hello" in tools[0].attributes["gen_ai.tool.call.result"]
    assert tools[0].attributes["gen_ai.tool.call.id"].startswith("toolu_")
    assert (tools[2].attributes["error.type"], tools[2].is_error) == ("error", True)
    (answer,) = [event for event in root.events if event.name == "etg.answer_rendered"]
    assert "It returns hi." in answer.attributes["gen_ai.output.messages"]


@pytest.mark.parametrize(
    ("attempt", "trace"),
    [(TRACE, TRACE), (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE), ("0" * 32, None), ("any", None)],
)
def test_the_trace_of_an_attempt_is_its_own_where_it_has_one(attempt: str, trace: str | None) -> None:
    found = trace_id(attempt)
    assert found == (trace or found)
    assert len(found) == 32
    assert found != "0" * 32
