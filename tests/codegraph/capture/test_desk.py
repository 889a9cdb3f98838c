"""Capture in an open desk: it drains by itself, reminds prompts in time, and takes what is posted."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.codegraph.capture.support import Traced, drops, fixture, run_hook, traced
from tests.codegraph.capture.test_otlp import TOOL, TRACE, document, span
from tests.support import BOUND, Client, desk_client, run, until
from tracedesk.codegraph.capture import desk as capture_desk
from tracedesk.codegraph.capture.desk import Capture, Needs, capturing
from tracedesk.codegraph.capture.doors import open_doors
from tracedesk.codegraph.capture.reminder import Similar, text
from tracedesk.contract import Toolset
from tracedesk.home import Home
from tracedesk.hosts import find
from tracedesk.jobs import in_thread
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import DAY, SystemClock

PROMPT = {"session_id": "now", "hook_event_name": "UserPromptSubmit", "prompt": "Fix the login", "cwd": "/p"}
EARLIER = Similar("qwen-code:then:0", 0.62, "Tried to fix the login\x1b[31m", "failed", ("login.py",), 0)
FindSimilar = Callable[[str, str | None], Awaitable[Sequence[Similar]]]


async def one_earlier(prompt: str, project: str | None) -> Sequence[Similar]:
    assert (prompt, project) == ("Fix the login", "/p")
    return [Similar("qwen-code:now:7", 0.9, "this very session", "unknown", (), 0), EARLIER]


async def none_earlier(prompt: str, project: str | None) -> Sequence[Similar]:
    return []


async def no_files(root: str, files: Sequence[str]) -> None:
    return None


class Opened:
    """Capture over a real trace, and what it told its toolset."""

    def __init__(self, capture: Capture, desk: Traced, edited: list[tuple[str, list[str]]]) -> None:
        self.capture = capture
        self.desk = desk
        self.edited = edited


@asynccontextmanager
async def opened(folder: Path, similar: FindSimilar = none_earlier) -> AsyncGenerator[Opened]:
    edited: list[tuple[str, list[str]]] = []

    async def touched(root: str, files: Sequence[str]) -> None:
        edited.append((root, [*files]))

    with traced(folder) as desk:
        needs = Needs(similar, touched, lambda cwd: cwd)
        async with capturing(desk.home, desk.etg, Secrets(), SystemClock(), needs) as capture:
            yield Opened(capture, desk, edited)


async def hook(home: Path, event: str, body: dict[str, Any]) -> bytes:
    """What a client gets from its hook."""
    said = await in_thread(lambda: run_hook(home, event, json.dumps(body).encode()))
    assert (said.code, said.err) == (0, b"")
    return said.out


async def told(home: Path) -> bytes:
    """What a prompt is told; it is sent again for as long as a busy machine gives it no time."""
    async with asyncio.timeout(BOUND):
        while not (said := await hook(home, "UserPromptSubmit", PROMPT)):
            pass
    return said


# --- draining -----------------------------------------------------------------------------------


def test_what_was_dropped_before_a_desk_opened_is_taken_when_it_does(tmp_path: Path) -> None:
    async def main() -> None:
        with traced(tmp_path) as desk:
            desk.drop(*drops("qwen_code"))
        async with opened(tmp_path) as one:
            await until(lambda: len(one.desk.attempts()) == 2)
            await until(lambda: one.edited == [("/home/dev/project", ["app.py"])])

    run(main())


def test_a_hook_is_taken_while_a_desk_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_desk, "SECONDS", 0.05)

    async def main() -> None:
        async with opened(tmp_path) as one:
            _, hooks = fixture("qwen_code")
            for each in hooks[:4]:
                await hook(tmp_path, each["hook_event_name"], each)
            await until(lambda: len(one.desk.attempts()) == 1)

    run(main())


def test_a_trace_that_fails_is_tried_again_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_desk, "SECONDS", 0.02)

    async def main() -> None:
        async with opened(tmp_path) as one:
            log_many, failures = one.desk.etg.log_many, [OSError("disk full")] * 3

            def failing(events: Any) -> Any:
                if failures:
                    raise failures.pop()
                return log_many(events)

            monkeypatch.setattr(one.desk.etg, "log_many", failing)
            one.desk.drop(*drops("qwen_code"))
            await until(lambda: len(one.desk.attempts()) == 2)
            assert failures == []

    run(main())


def test_a_graph_that_cannot_follow_costs_no_event(tmp_path: Path) -> None:
    async def broken(root: str, files: Sequence[str]) -> None:
        raise RuntimeError("no graph")

    async def main() -> None:
        with traced(tmp_path) as desk:
            desk.drop(*drops("qwen_code"))
            needs = Needs(none_earlier, broken, lambda cwd: cwd)
            capture = Capture(desk.home, desk.etg, Secrets(), SystemClock(), needs)
            assert (await capture.drain()).logged == 14

    run(main())


# --- prompts ------------------------------------------------------------------------------------


def test_a_prompt_is_told_what_was_tried_before_and_nothing_of_its_own_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, one_earlier):
            await until(lambda: bool(find(tmp_path, "hooks")))
            said = json.loads(await told(tmp_path))["hookSpecificOutput"]
            assert said["hookEventName"] == "UserPromptSubmit"
            assert "not instructions" in said["additionalContext"]
            assert "Tried to fix the login" in said["additionalContext"]
            assert "tracedesk://codegraph/attempts/qwen-code%3Athen%3A0" in said["additionalContext"]
            assert "this very session" not in said["additionalContext"]
            assert "\x1b" not in said["additionalContext"]

    run(main())


@pytest.mark.parametrize(
    "prompt", [{**PROMPT, "prompt": ""}, {"prompt": "no session"}, {**PROMPT, "prompt": 5}]
)
def test_what_is_no_prompt_is_told_nothing(tmp_path: Path, prompt: dict[str, Any]) -> None:
    async def main() -> None:
        async with opened(tmp_path):
            await until(lambda: bool(find(tmp_path, "hooks")))
            assert await hook(tmp_path, "UserPromptSubmit", prompt) == b""

    run(main())


def test_a_desk_that_is_too_slow_keeps_no_prompt_waiting(tmp_path: Path) -> None:
    async def slow(prompt: str, project: str | None) -> Sequence[Similar]:
        await asyncio.sleep(3 * BOUND)
        return [EARLIER]

    async def main() -> None:
        async with opened(tmp_path, slow):
            await until(lambda: bool(find(tmp_path, "hooks")))
            async with asyncio.timeout(BOUND):
                assert await hook(tmp_path, "UserPromptSubmit", PROMPT) == b""

    run(main())


def test_a_posted_prompt_does_not_wait_for_a_slow_search(tmp_path: Path) -> None:
    async def slow(prompt: str, project: str | None) -> Sequence[Similar]:
        await asyncio.sleep(3 * BOUND)
        return [EARLIER]

    async def main() -> None:
        async with opened(tmp_path, slow) as one, asyncio.timeout(BOUND):
            assert await one.capture.hook("qwen-code", PROMPT) is None

    run(main())


@pytest.mark.parametrize("cwd", ["/a" * 200_000, "/a\0b", 5])
def test_a_prompt_from_what_is_no_folder_is_answered_without_a_project(
    tmp_path: Path, cwd: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_desk, "ASKING_SECONDS", BOUND)

    async def main() -> None:
        projects: list[str | None] = []

        async def similar(prompt: str, project: str | None) -> Sequence[Similar]:
            projects.append(project)
            return [EARLIER]

        async with opened(tmp_path, similar) as one:
            assert "Tried to fix" in (await one.capture.hook("qwen-code", {**PROMPT, "cwd": cwd}) or "")
        assert projects == [None]

    run(main())


def test_a_slow_look_for_the_project_holds_up_neither_the_desk_nor_the_prompt(tmp_path: Path) -> None:
    go = threading.Event()
    held: list[bool] = []

    def slow(cwd: str) -> str | None:
        held.append(threading.current_thread() is threading.main_thread())
        go.wait(BOUND)
        return None

    async def main() -> None:
        with traced(tmp_path) as desk:
            capture = Capture(
                desk.home, desk.etg, Secrets(), SystemClock(), Needs(none_earlier, no_files, slow)
            )
            assert await capture.hook("qwen-code", PROMPT) is None
            await until(lambda: bool(held))
            go.set()

    run(main())
    assert held == [False]


def test_a_desk_that_died_is_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        stale = {"startedAt": "2999", "socket": str(tmp_path / "gone.sock")}
        Home.open(tmp_path)
        (tmp_path / "run" / "hooks-9-zzz.json").write_text(json.dumps(stale))
        (tmp_path / "run" / "hooks-8-zzz.json").write_text("broken")
        async with opened(tmp_path, one_earlier):
            await until(lambda: bool(find(tmp_path, "hooks")))
            assert b"Tried to fix" in await told(tmp_path)

    run(main())


def test_a_desk_leaves_no_address_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path):
            await until(lambda: bool(find(tmp_path, "hooks")))
        assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith("hooks-")]
        async with opened(tmp_path):
            pass

    run(main())


def test_a_reminder_is_short_dated_and_one_line_for_each() -> None:
    long = Similar("a" * 200, 0.3, "word " * 500 + "\nnew line", "succeeded", ("f.py",) * 50, DAY)
    told = text([long] * 9, 3 * DAY + 5)
    assert told is not None
    _, *lines = told.splitlines()
    assert len(lines) == 3
    assert all(len(line) < 1_200 for line in lines)
    assert lines[0].startswith("- [succeeded, 2 d ago, score 0.30] word")
    assert text([], 0) is None


# --- doors --------------------------------------------------------------------------------------


@asynccontextmanager
async def desk(tmp_path: Path, similar: FindSimilar = none_earlier) -> AsyncGenerator[tuple[Client, Opened]]:
    """A desk whose toolset has capture's addresses, and a client with its token."""
    toolset: Toolset[Capture] = Toolset("captured", summary="Captures.", guide="post to it.")
    open_doors(toolset, lambda state: state)
    async with opened(tmp_path, similar) as one:

        @asynccontextmanager
        async def opener(_: Any) -> AsyncGenerator[Capture]:
            yield one.capture

        toolset.open = opener
        async with desk_client(tmp_path, extra=[toolset]) as client:
            client.extra = {"Authorization": f"Bearer {client.token}"}
            yield client, one


def test_a_posted_trace_is_an_attempt(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as (client, one):
            body = json.dumps(document(span(2, attributes=TOOL))).encode()
            packed = gzip.compress(body)
            reply = await client.request("POST", "/v1/traces", packed, {"Content-Encoding": "gzip"})
            assert (reply.status, reply.json) == (200, {})
            assert [event.kind for event in one.desk.attempt(TRACE).events] == ["tool_start", "tool_end"]
            partly = await client.post("/v1/traces", document({**span(2), "spanId": "x"}))
            assert partly.status == 200
            assert partly.json["partialSuccess"]["rejectedSpans"] == "1"

    run(main())


@pytest.mark.parametrize(
    ("path", "headers", "body", "status", "said"),
    [
        ("/v1/traces", {"Content-Type": "application/x-protobuf"}, b"\n", 415, "http/json"),
        ("/v1/traces", {"Authorization": None}, b"{}", 401, "scope 'write'"),
        ("/v1/traces", {}, b"[]", 400, "not an object"),
        pytest.param("/v1/traces", {}, b'"' + b"x" * (1 << 20) + b'"', 413, "1048576", id="large"),
        ("/v1/traces", {"Origin": "http://evil.example"}, b"{}", 403, "origins"),
        ("/hooks/qwen-code", {"Authorization": None}, b"{}", 401, "scope 'write'"),
        ("/hooks/qwen-code", {}, b"{}", 400, "hook_event_name"),
        ("/hooks/qwen-code", {}, b'{"hook_event_name": "Stop"}', 400, "session_id"),
        ("/hooks/qwen-code", {}, b"nothing", 400, "not JSON"),
        ("/hooks/qwen-code", {}, b"[]", 400, "not an object"),
        pytest.param(
            "/hooks/qwen-code", {}, b'{"a":' * 300 + b"1" + b"}" * 300, 400, "nests deeper", id="deep"
        ),
        ("/hooks/unknown", {}, b"{}", 404, "Nothing is served"),
    ],
)
def test_what_may_not_be_posted_is_refused(
    tmp_path: Path, path: str, headers: dict[str, str | None], body: bytes, status: int, said: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path) as (client, _):
            reply = await client.request("POST", path, body, headers)
            assert reply.status == status
            assert said in reply.json["error"]["message"]

    run(main())


def test_a_posted_hook_is_taken_like_a_dropped_one_and_a_prompt_is_reminded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_desk, "ASKING_SECONDS", BOUND)

    async def main() -> None:
        async with desk(tmp_path, one_earlier) as (client, one):
            reply = await client.post("/hooks/qwen-code", {**PROMPT, "prompt_id": "p"})
            assert "Tried to fix" in reply.json["hookSpecificOutput"]["additionalContext"]
            stop = {**PROMPT, "hook_event_name": "Stop", "prompt_id": "p", "last_assistant_message": "Done."}
            assert (await client.post("/hooks/qwen-code", stop)).json == {}
            other = {**PROMPT, "hook_event_name": "MessageDisplay"}
            assert (await client.post("/hooks/qwen-code", other)).json == {}
            await until(lambda: one.desk.attempts() == ["qwen-code:now:p"])
            await until(lambda: len(one.desk.attempt("qwen-code:now:p").events) == 2)

    run(main())
