"""Attempts at a desk that serves: who may shape them, and what is said when the trace cannot be written."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegraph.desks import Agent, agent, shop
from tests.codegraph.etg.bench import PAYLOADS, Bench
from tests.codegraph.etg.rows import tables
from tests.journal.samples import raw
from tests.support import BOUND, VERSION, modern, run, until
from tracedesk.calls.log import prepare
from tracedesk.codegraph import desk as codegraph_desk
from tracedesk.codegraph.etg import read
from tracedesk.codegraph.etg.log import Etg
from tracedesk.codegraph.etg.model import NewEvent, event_ref
from tracedesk.journal import Journal
from tracedesk.journal import sqlite as journal_sqlite
from tracedesk.primitives.ids import uuid4
from tracedesk.wire.auth import Tokens


async def _fail_in(desk: Agent, attempt: str, secret: str | None) -> None:
    """A tool call that fails, said to be of an attempt, by whoever has this token."""
    extra = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    message = modern("tools/call", {"name": "get_events_by_type", "arguments": {"runId": "none"}})
    message["params"]["_meta"] = {**message["params"]["_meta"], "tracedesk/attempt": attempt}
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "get_events_by_type"}
    reply = await replace(desk.client, extra=extra).post("/mcp", message, headers)
    assert reply.envelope["error"]["code"] == "INVALID_PARAMETER"


async def _answer(desk: Agent, number: int) -> None:
    event = {"attempt_id": "a", "kind": "answer_rendered", "event_id": str(number)}
    await desk.call("etg_log_event", **event, payload={"content": f"Answer {number}."})


def test_only_those_who_may_write_shape_attempts(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def main() -> None:
        async with agent(home, shop(tmp_path / "shop"), toolsets=("codegraph", "backtest")) as desk:
            reader = Tokens(home).issue("reader", ("read",))
            writer = Tokens(home).issue("writer", ("read", "write"))
            answer = {"content": "Fixed.", "query": "session expires"}
            await desk.call("etg_log_event", attempt_id="mine", kind="answer_rendered", payload=answer)
            before = await desk.call("etg_get_attempt", attempt_id="mine")
            for secret in (None, reader):
                await _fail_in(desk, "mine", secret)
                await _fail_in(desk, "theirs", secret)
            await _fail_in(desk, "seen", writer)
            await desk.call("graph_index_project", project_root=str(tmp_path / "shop"), files=["."])
            assert await desk.call("etg_get_attempt", attempt_id="mine") == before
            listed = (await desk.call("etg_timeline"))["attempts"]
            named = {each["attempt_id"] for each in listed}
            assert named == {"mine", "seen"}, named

    run(main())


def test_a_trace_that_others_hold_is_an_error_of_the_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_sqlite, "BUSY_SECONDS", 0.05)

    async def main() -> None:
        async with agent(tmp_path / "home", shop(tmp_path / "shop")) as desk:
            event = {"attempt_id": "a", "kind": "answer_rendered", "payload": {"content": "Done."}}
            await desk.call("etg_log_event", **event)
            with raw(tmp_path / "home" / "trace.db") as holder:
                holder.execute("BEGIN IMMEDIATE")
                refused = await desk.refused("etg_log_event", **{**event, "attempt_id": "b"})
                holder.execute("ROLLBACK")
            assert refused["code"] == "DATABASE_ERROR"
            assert "try again" in refused["message"].lower()
            logged = await desk.call("etg_log_event", **{**event, "attempt_id": "b"})
            assert logged["duplicate"] is False, "what was refused was not logged"

    run(main())


def test_what_is_logged_is_taken_in_when_nobody_logs_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codegraph_desk, "QUIET_SECONDS", 0.05)

    async def main() -> None:
        async with agent(tmp_path / "home", shop(tmp_path / "shop")) as desk:
            for number in range(3):
                await _answer(desk, number)
            await until(lambda: len(tables(tmp_path / "home" / "trace.db")["attempt_event"]) == 3)

    run(main())


def test_what_is_logged_while_others_are_taken_in_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codegraph_desk, "QUIET_SECONDS", 0.05)
    path = tmp_path / "home" / "trace.db"
    working, go_on = threading.Event(), threading.Event()
    catch_up = Etg.catch_up

    def slowly(etg: Etg) -> bool:
        done = catch_up(etg)
        working.set()
        go_on.wait(BOUND)
        return done

    monkeypatch.setattr(Etg, "catch_up", slowly)

    async def main() -> None:
        async with agent(tmp_path / "home", shop(tmp_path / "shop")) as desk:
            for number in range(3):
                if number == 2:
                    await until(working.is_set)
                await _answer(desk, number)
            go_on.set()
            await until(lambda: len(tables(path)["attempt_event"]) == 3)

    run(main())


def test_a_walk_goes_on_past_what_is_not_taken_in_and_foreign_ids_are_not_ours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    bench = Bench(home)
    ended = {**PAYLOADS["tool_end"], "output_ref": event_ref("etg-2026-11", 2)}
    known = bench.log("a", "tool_end", ended)
    late = bench.etg.log_at_once(NewEvent("b", "tool_end", PAYLOADS["tool_end"]))
    assert late is not None
    assert late.ref == ended["output_ref"]
    with Journal(bench.path, bench.clock) as journal:
        prepare(journal)

    async def main() -> None:
        async with agent(home, shop(tmp_path / "shop"), read_only=True) as desk:
            refused = await desk.refused("get_source", ref=late.ref)
            assert refused["code"] == "DATABASE_ERROR"
            assert "not known yet" in refused["message"]
            unknown = await desk.refused("get_source", ref=uuid4())
            assert unknown["code"] == "SOURCE_NOT_FOUND"
            walked = await desk.call("trace", ref=known.ref)
            assert walked["unresolved"] == [late.ref]

    run(main())
    bench.etg.close()


def test_a_desk_that_only_reads_says_that_the_newest_events_are_missing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    bench = Bench(home)
    bench.log("a", "tool_start")
    assert bench.etg.log_at_once(NewEvent("a", "tool_end", PAYLOADS["tool_end"])) is not None

    async def main() -> None:
        async with agent(home, shop(tmp_path / "shop"), read_only=True) as desk:
            found = await desk.call("etg_get_attempt", attempt_id="a")
            assert [event["kind"] for event in found["events"]] == ["tool_start"]
            assert "this desk only reads" in found["warnings"][0]
            bench.etg.close()
            found = await desk.call("etg_get_attempt", attempt_id="a")
            assert [event["kind"] for event in found["events"]] == ["tool_start", "tool_end"]
            assert "warnings" not in found

    run(main())


def test_every_event_of_a_long_attempt_is_reached_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_EVENTS", 3)

    async def main() -> None:
        async with agent(tmp_path / "home", shop(tmp_path / "shop")) as desk:
            for number in range(7):
                await _answer(desk, number)
            seen, more = list[str](), dict[str, str]()
            while True:
                page = await desk.call("etg_get_attempt", attempt_id="a", **more)
                seen += [each["event_id"] for each in page["events"]]
                following = page.get("nextCursor")
                if following is None:
                    break
                more = {"cursor": following}
            assert seen == [str(number) for number in range(7)]

    run(main())
