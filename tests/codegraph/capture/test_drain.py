"""From hooks to attempts: recorded hooks of real clients, delivered twice, malformed, by several desks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.capture.support import EVERY, drops, fixture, traced
from tracedesk.codegraph.capture import drain, inbox
from tracedesk.codegraph.capture.bounds import folder
from tracedesk.codegraph.capture.hooks import meaning
from tracedesk.codegraph.capture.inbox import Drop, Inbox, Malformed, parse

QWEN = "qwen-code:5dc51586-247e-41e0-9cac-fe5b09bc949a"
START = 1_800_000_000_000_000_000


def kinds(events: Any) -> list[str]:
    return [event.kind for event in events]


# --- what hooks become --------------------------------------------------------------------------


def test_a_recorded_session_becomes_one_attempt_for_each_prompt(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*drops("qwen_code"))
        done = desk.drain()
        assert (done.drops, done.logged, done.duplicates, done.aside) == (21, 14, 0, 0)
        assert desk.attempts() == [f"{QWEN}:0", f"{QWEN}:2"]
        first = desk.attempt(f"{QWEN}:0")
    assert kinds(first.events) == [
        "context_retrieved",
        *("tool_start", "tool_end") * 3,
        "answer_rendered",
    ]
    assert first.events[0].payload["query"] == "Add a greet function to app.py"
    assert first.events[-1].payload["content"] == "I added greet to app.py. It returns hi."
    assert [(call.tool, call.status, call.pairing) for call in first.tool_calls] == [
        ("run_shell_command", "ok", "exact"),
        ("write_file", "ok", "exact"),
        ("read_file", "error", "exact"),
    ]
    assert first.tool_calls[0].duration_us == 15_000
    assert {event.source for event in first.events} == {"hook"}
    assert first.brief.project == "/home/dev/project"


def test_the_files_that_a_client_changed_are_told_by_project(tmp_path: Path) -> None:
    with traced(tmp_path, "/home/dev/project") as desk:
        desk.drop(*drops("qwen_code"), *drops("claude_code", START + 10**12))
        assert desk.drain().edited == {"/home/dev/project": {"app.py", "parser.py"}}


@pytest.mark.parametrize("name", ["claude_code", "claude_code_older"])
def test_a_documented_session_of_claude_code_becomes_an_attempt(tmp_path: Path, name: str) -> None:
    _, hooks = fixture(name)
    with traced(tmp_path) as desk:
        desk.drop(*drops(name))
        desk.drain()
        (attempt,) = desk.attempts()
        view = desk.attempt(attempt)
    assert attempt.startswith(f"claude-code:{hooks[0]['session_id']}:")
    assert kinds(view.events) == ["context_retrieved", *("tool_start", "tool_end") * 2, "answer_rendered"]
    assert [(call.tool, call.status) for call in view.tool_calls] == [("Edit", "ok"), ("Bash", "error")]
    assert view.events[-2].payload["error"] == "Exit code 1\n1 failed"


def test_without_prompt_ids_the_next_prompt_begins_the_next_attempt(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        for day in range(2):
            desk.drop(*drops("claude_code_older", START + day * 10**12))
            desk.drain()
        assert len(desk.attempts()) == 2
        assert all(len(desk.attempt(name).events) == 6 for name in desk.attempts())


def test_a_session_that_ends_without_an_answer_is_abandoned(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*(drop for drop in drops("claude_code_older") if drop.event != "Stop"))
        desk.drain()
        (attempt,) = desk.attempts()
        last = desk.attempt(attempt).events[-1]
    assert (last.kind, last.outcome) == ("checkpoint", "abandoned")
    assert last.payload["message"] == "The session ended without an answer: prompt_input_exit"
    assert last.payload["graph_version"] == "cg1-test"


def test_a_turn_that_an_error_ended_has_failed(tmp_path: Path) -> None:
    hook = {"session_id": "s", "prompt_id": "p", "error": "rate_limit", "error_details": "429"}
    with traced(tmp_path) as desk:
        desk.drop(Drop("qwen-code", "StopFailure", START, hook))
        desk.drain()
        (event,) = desk.attempt("qwen-code:s:p").events
    assert (event.outcome, event.payload["message"]) == (
        "failed",
        "The turn ended with an error: rate_limit (429)",
    )


def test_our_own_look_ups_are_no_evidence(tmp_path: Path) -> None:
    hook = {"session_id": "s", "prompt_id": "p", "tool_use_id": "t", "tool_input": {"query": "x"}}
    own = {**hook, "tool_name": "mcp__tracedesk__etg_query_similar_attempts"}
    with traced(tmp_path) as desk:
        desk.drop(Drop("qwen-code", "PreToolUse", START, own))
        desk.drain()
        view = desk.attempt("qwen-code:s:p")
    assert view.events[0].source == "self"
    assert view.brief.evidence is False


def test_secrets_are_gone_before_anything_is_kept(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Zb7Qx9Lm2Kp4Rt6Vw8Yn" * 4 + "-AAAA"
    hook = {"session_id": "s", "prompt_id": "p", "prompt": f"use {key} please"}
    with traced(tmp_path) as desk:
        desk.drop(Drop("qwen-code", "UserPromptSubmit", START, hook))
        (desk.home.inbox / "00000000000000000001-1.json").write_text(f"broken {key}")
        desk.drain()
        query = desk.attempt("qwen-code:s:p").events[0].payload["query"]
        aside = (desk.home.inbox / "aside" / "00000000000000000001-1.json").read_text()
    assert key not in query
    assert "[redacted:" in query
    assert key not in aside
    assert "[redacted:" in aside


def test_half_a_character_costs_a_mark_and_not_the_event() -> None:
    """A client that cuts a text in the middle of an emoji sends half of it as an escape."""
    head = b'{"format":1,"client":"qwen-code","event":"Stop","received_ns":1}\n'
    drop = parse(head + rb'{"a": "cut \ud83d", "n": 0.10, "b": ["\ud83d\ude00", "\\ud83d"]}')
    assert drop.hook == {"a": "cut \ufffd", "n": Decimal("0.10"), "b": ["\U0001f600", "\\ud83d"]}
    with pytest.raises(Malformed, match="not JSON"):
        parse(head + rb'{"a": "\ud83d"')
    with pytest.raises(Malformed):
        parse(head + rb'{"a": "\ud83d", "n": 1e99999999999999999999}')


# --- once, and in order -------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_a_session_delivered_twice_is_logged_once(tmp_path: Path, name: str) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*drops(name))
        logged = desk.drain().logged
        before = {attempt: desk.attempt(attempt).events for attempt in desk.attempts()}
        desk.drop(*drops(name))
        again = desk.drain()
        assert (again.logged, again.duplicates) == (0, logged)
        assert {attempt: desk.attempt(attempt).events for attempt in desk.attempts()} == before


@settings(max_examples=10, deadline=None)
@given(cut=st.lists(st.integers(0, 21), max_size=4), name=st.sampled_from(EVERY))
def test_however_drains_cut_a_session_the_attempts_are_the_same(cut: list[int], name: str) -> None:
    """Another desk takes each part, so nothing may live in a desk's memory alone."""
    from tempfile import TemporaryDirectory

    every = [*drops(name)]
    places = sorted({0, *cut, len(every)})
    with TemporaryDirectory() as whole, TemporaryDirectory() as parts:
        with traced(Path(whole)) as desk:
            desk.drop(*every)
            desk.drain()
            wanted = {a: [e.event_id for e in desk.attempt(a).events] for a in desk.attempts()}
        for start, end in pairwise(places):
            with traced(Path(parts)) as desk:
                desk.drop(*every[start:end])
                desk.drain()
        with traced(Path(parts)) as desk:
            assert {a: [e.event_id for e in desk.attempt(a).events] for a in desk.attempts()} == wanted


_DRAIN = """
import sys
from pathlib import Path
from tests.codegraph.capture.support import traced
with traced(Path(sys.argv[1])) as desk:
    print("ready", flush=True)
    sys.stdin.readline()
    while any(desk.home.inbox.glob("[0-9]*.json")):
        desk.drain()
"""


def test_several_desks_at_once_take_each_drop_once(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        for number in range(300):
            hook = {
                "session_id": f"s{number % 7}",
                "prompt_id": "p",
                "tool_name": "t",
                "tool_use_id": f"u{number}",
            }
            desk.drop(Drop("qwen-code", "PreToolUse", START + number, hook))
        others = [
            subprocess.Popen(
                [sys.executable, "-c", _DRAIN, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(3)
        ]
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == b"ready\n"
        for other in others:
            assert other.stdin is not None
            other.stdin.write(b"go\n")
            other.stdin.flush()
        assert [other.wait(timeout=60) for other in others] == [0, 0, 0]
        for other in others:
            other.communicate()
        assert sum(len(desk.attempt(name).events) for name in desk.attempts()) == 300


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.codegraph.capture.support import traced
from tracedesk.codegraph.capture.inbox import Inbox
left = int(sys.argv[2])
remove = Inbox.remove
def dying(self, path):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    remove(self, path)
Inbox.remove = dying
with traced(Path(sys.argv[1])) as desk:
    desk.drain()
"""


@pytest.mark.parametrize("removed", [0, 5])
def test_a_desk_that_is_killed_while_it_drains_leaves_nothing_lost_or_doubled(
    tmp_path: Path, removed: int
) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*drops("claude_code_older"))
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), str(removed)], check=False)
    assert killed.returncode == -9
    with traced(tmp_path) as desk:
        done = desk.drain()
        assert (done.logged, done.aside) == (0, 0)
        assert done.duplicates > 0
        (attempt,) = desk.attempts()
        assert len(desk.attempt(attempt).events) == 6
        assert desk.drain().drops == 0


def test_while_another_desk_drains_nothing_is_taken(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        desk.drop(*drops("qwen_code"))
        with Inbox(desk.home.inbox).alone() as mine:
            assert mine
            assert desk.drain().drops == 0
        assert desk.drain().drops == 21


# --- what cannot be taken -----------------------------------------------------------------------


def test_what_cannot_be_read_is_set_aside_with_its_reason_and_blocks_nothing(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        folder = desk.home.inbox
        head = '{"format":1,"client":"qwen-code","event":"Stop","received_ns":1}\n'
        bad = {
            "0-empty": "",
            "1-text": "hello",
            "2-format": head.replace('"format":1', '"format":9') + "{}",
            "3-list": head + "[]",
            "4-client": head.replace("qwen-code", "Qwen/../x") + "{}",
            "5-no-session": head + "{}",
            "6-large": head + '{"a":"' + "x" * (inbox.LARGEST + 1) + '"}',
            "7-time": head.replace(":1}", ":-5}") + "{}",
            "8-no-tool": head.replace("Stop", "PreToolUse") + '{"session_id":"s","prompt_id":"p"}',
        }
        for name, content in bad.items():
            (folder / name).write_text(content)
        os.mkfifo(folder / "9-fifo")
        (folder / "9-link").symlink_to("/etc/passwd")
        desk.drop(*drops("qwen_code"))
        done = desk.drain()
        assert (done.aside, done.logged) == (len(bad) + 2, 14)
        notes = {path.name: json.loads(path.read_text()) for path in (folder / "aside").iterdir()}
        assert sorted(notes) == [*sorted(bad), "9-fifo", "9-link"]
        assert "session_id" in notes["5-no-session"]["reason"]
        assert "tool_name" in notes["8-no-tool"]["reason"]
        assert "root:" not in notes["9-link"]["text"]
        assert [path.name for path in folder.iterdir() if path.is_file()] == [".lock"]


def test_the_folder_of_what_was_set_aside_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MOST_ASIDE", 3)
    with traced(tmp_path) as desk:
        for number in range(8):
            (desk.home.inbox / f"{number}").write_text("x")
        assert desk.drain().aside == 8
        assert sorted(path.name for path in (desk.home.inbox / "aside").iterdir()) == ["5", "6", "7"]


def test_a_trace_that_refuses_one_event_takes_the_others(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        odd = {"session_id": "s", "prompt_id": "p", "tool_name": " ", "tool_use_id": "u"}
        desk.drop(*drops("qwen_code"), Drop("qwen-code", "PreToolUse", START + 10**9, odd))
        done = desk.drain()
        assert (done.aside, done.logged) == (1, 14)


def test_losses_that_hooks_noted_are_told(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        (desk.home.inbox / inbox.LOSSES).write_text("full\nfull\nlarge\n")
        assert desk.drain().lost == Counter(full=2, large=1)
        assert desk.drain().lost == Counter()


@given(st.binary(max_size=300))
def test_no_file_breaks_the_reader(content: bytes) -> None:
    with suppress(Malformed):
        assert parse(content).client


_HEAD = b'{"format":1,"client":"qwen-code","event":"%b","received_ns":1}\n'


def _nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


_DEEP = st.integers(1, 300).map(lambda depth: json.loads(_nested(depth)))
_JSON = _DEEP | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KEYS = (
    *("session_id", "prompt_id", "prompt", "submitted_prompt", "tool_name", "tool_input", "tool_response"),
    *("tool_use_id", "error", "is_interrupt", "last_assistant_message", "timestamp", "cwd", "duration_ms"),
)
_EVENTS = (
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionEnd",
    "Other",
)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(_EVENTS), st.dictionaries(st.sampled_from(_KEYS), _JSON)), max_size=4)
)
def test_no_hook_stops_another(said: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever stands in the fields: it is in the trace or set aside, and its neighbour arrives."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder, traced(Path(folder)) as desk:
        for number, (event, hook) in enumerate(said):
            text = json.dumps({"session_id": "s", "prompt_id": "p", **hook}).encode()
            (desk.home.inbox / f"{number}").write_bytes(_HEAD % event.encode() + text)
        last = {"session_id": "last", "prompt_id": "p", "prompt": "x"}
        desk.drop(Drop("qwen-code", "UserPromptSubmit", START, last))
        done = desk.drain()
        assert done.drops == len(said) + 1
        assert not [path for path in desk.home.inbox.iterdir() if path.name[0].isdigit()]
        assert len(desk.attempt("qwen-code:last:p").events) == 1


# --- a drop that nobody foresaw -----------------------------------------------------------------


@pytest.mark.parametrize("depth", [65, 255, 600, 100_000])
@pytest.mark.parametrize("field", ["tool_input", "tool_response"])
def test_a_drop_that_nests_too_deeply_is_set_aside_and_its_neighbours_arrive(
    tmp_path: Path, depth: int, field: str
) -> None:
    with traced(tmp_path) as desk:
        hook = b'{"session_id":"s","prompt_id":"p","tool_name":"t","%b":%b}' % (
            field.encode(),
            _nested(depth),
        )
        (desk.home.inbox / "0-deep").write_bytes(_HEAD % b"PostToolUse" + hook)
        desk.drop(*drops("qwen_code"))
        done = desk.drain()
        assert (done.aside, done.logged) == (1, 14)
        note = json.loads((desk.home.inbox / "aside" / "0-deep").read_text())
        assert "nests" in note["reason"]


def test_what_nests_as_deeply_as_may_be_is_logged(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        hook = b'{"session_id":"s","prompt_id":"p","tool_name":"t","tool_input":%b}' % _nested(63)
        (desk.home.inbox / "0-deep").write_bytes(_HEAD % b"PreToolUse" + hook)
        done = desk.drain()
        assert (done.aside, done.logged) == (0, 1)


def test_a_bad_drop_whose_name_is_no_text_is_set_aside(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        (desk.home.inbox / os.fsdecode(b"0-\xff\xfe")).write_text("no drop")
        desk.drop(*drops("qwen_code"))
        done = desk.drain()
        assert (done.aside, done.logged) == (1, 14)
        (note,) = (desk.home.inbox / "aside").iterdir()
        assert json.loads(note.read_text())["file"] == "0-\\xff\\xfe"


@pytest.mark.parametrize("when", ["reading", "storing"])
def test_a_failure_that_one_drop_causes_puts_out_only_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    with traced(tmp_path) as desk:
        log_many = desk.etg.log_many

        def failing(events: Any) -> Any:
            if any(event.attempt_id.startswith("qwen-code:odd") for event in events):
                raise ArithmeticError("nobody thought of this")
            return log_many(events)

        def fails_to_read(drop: Drop, *rest: Any) -> Any:
            if drop.hook["session_id"] == "odd":
                raise ArithmeticError("nobody thought of this")
            return meaning(drop, *rest)

        if when == "reading":
            monkeypatch.setattr(drain, "meaning", fails_to_read)
        else:
            monkeypatch.setattr(desk.etg, "log_many", failing)
        odd = {"session_id": "odd", "prompt_id": "p", "prompt": "x"}
        desk.drop(Drop("qwen-code", "UserPromptSubmit", START - 1, odd), *drops("qwen_code"))
        done = desk.drain()
        assert (done.aside, done.logged) == (1, 14)
        (note,) = (desk.home.inbox / "aside").iterdir()
        assert json.loads(note.read_text())["reason"] == "ArithmeticError: nobody thought of this"


def test_where_nothing_can_be_set_aside_the_bad_drop_is_passed_over(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        folder = desk.home.inbox
        (folder / "aside").symlink_to(folder / "nowhere" / "aside")
        (folder / inbox.LOSSES).mkdir()
        (folder / "0-bad").write_text("no drop")
        desk.drop(*drops("qwen_code"))
        assert desk.drain().logged == 14
        assert (folder / "0-bad").read_text() == "no drop"


# --- folders, names, clocks ---------------------------------------------------------------------


@pytest.mark.parametrize("cwd", ["/a\x1b[31m", "/a\n", "/a\0", "/" + "a/" * 2_048, "relative", 5, "/\ud83d"])
def test_what_cannot_be_a_folder_is_no_project(cwd: object) -> None:
    assert folder(cwd) is None


def test_a_folder_is_named_one_way(tmp_path: Path) -> None:
    assert folder("/a//b/../c/") == "/a/c"
    with traced(tmp_path) as desk:
        hook = {"session_id": "s", "prompt_id": "p", "prompt": "x", "cwd": "/a/" + "b" * 5_000}
        desk.drop(Drop("qwen-code", "UserPromptSubmit", START, hook))
        desk.drain()
        assert desk.attempt("qwen-code:s:p").brief.project == "default"


@pytest.mark.parametrize("tool", ["t" * 257, "t\x1b[31m", "a\nb"])
def test_a_tool_whose_name_is_none_is_set_aside(tmp_path: Path, tool: str) -> None:
    with traced(tmp_path) as desk:
        hook = {"session_id": "s", "prompt_id": "p", "tool_name": tool}
        desk.drop(Drop("qwen-code", "PreToolUse", START, hook))
        assert desk.drain().aside == 1


def test_a_relative_file_is_meant_from_the_clients_folder(tmp_path: Path) -> None:
    with traced(tmp_path, "/p") as desk:
        for number, path in enumerate(["a.py", "../b.py", "../../out.py", "/p/c.py"]):
            hook = {
                "session_id": "s",
                "prompt_id": "p",
                "tool_name": "Edit",
                "tool_use_id": f"u{number}",
                "cwd": "/p/sub",
                "tool_input": {"file_path": path},
            }
            desk.drop(Drop("claude-code", "PostToolUse", START + number, hook))
        assert desk.drain().edited == {"/p": {"sub/a.py", "b.py", "c.py"}}


def test_a_clock_that_went_back_leaves_later_tools_with_the_later_prompt(tmp_path: Path) -> None:
    with traced(tmp_path) as desk:
        for received in (START + 10**12, START):
            hook = {"session_id": "s", "prompt": f"at {received}"}
            desk.drop(Drop("claude-code", "UserPromptSubmit", received, hook))
            desk.drain()
        tool = {"session_id": "s", "tool_name": "Bash", "tool_use_id": "u"}
        desk.drop(Drop("claude-code", "PreToolUse", START + 1, tool))
        desk.drain()
        assert kinds(desk.attempt(f"claude-code:s:{START}").events) == ["context_retrieved", "tool_start"]
