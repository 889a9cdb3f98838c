"""Bad input: the contract's code each time, and nothing of another run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.backtest.desks import T0, Agent, agent, record, storied, story
from tests.support import run
from tracedesk.backtest import runs
from tracedesk.backtest.ids import event_id
from tracedesk.backtest.page import order_guid
from tracedesk.home import Home
from tracedesk.journal import Entry, Journal
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import SystemClock

INJECTIONS = (
    "'; DROP TABLE event; --",
    "' OR '1'='1",
    '") OR 1=1 --',
    "1; ATTACH DATABASE '/tmp/x' AS x",
    "%' UNION SELECT * FROM fact --",
    "\x00",
)
RUN = {"runId": "a1b2c3d4-e5f6-7890-abcd-ef1234567890"}
NEEDED: dict[str, dict[str, Any]] = {
    "get_events_by_type": {"eventType": "RiskEvent"},
    "get_events_by_entity": {"entityType": "OrderId", "entityValue": "x"},
    "aggregate_metrics": {"eventType": "RiskEvent", "propertyPath": "$.Threshold"},
    "get_state_snapshot": {"timestamp": "2025-01-02"},
    "query_event_sequence": {},
    "get_validation_errors": {},
    "describe_run": {},
    "state_delta": {"startTime": "2025-01-02", "endTime": "2025-01-03"},
    "explain_event": {"eventId": "1"},
}
STRINGS = {
    "get_events_by_type": {
        "runId": "INVALID_PARAMETER",
        "eventType": "INVALID_PARAMETER",
        "startTime": "INVALID_PARAMETER",
        "endTime": "INVALID_PARAMETER",
        "severity": "INVALID_PARAMETER",
        "category": "INVALID_PARAMETER",
        "format": "INVALID_PARAMETER",
        "cursor": "INVALID_PARAMETER",
    },
    "get_events_by_entity": {"entityType": "INVALID_PARAMETER", "entityValue": None},
    "aggregate_metrics": {
        "eventType": "INVALID_PARAMETER",
        "propertyPath": "INVALID_JSON_PATH",
        "groupBy": "INVALID_JSON_PATH",
        "stddevKind": "INVALID_PARAMETER",
    },
    "get_state_snapshot": {"timestamp": "INVALID_PARAMETER", "securitySymbol": None},
    "query_event_sequence": {"rootEventId": "INVALID_PARAMETER", "cursor": "INVALID_PARAMETER"},
    "get_validation_errors": {"severityFilter": "INVALID_PARAMETER"},
    "describe_run": {"eventType": "INVALID_PARAMETER"},
    "state_delta": {"startTime": "INVALID_PARAMETER", "securitySymbol": None},
    "explain_event": {"eventId": "INVALID_PARAMETER"},
}
"""Every string a tool takes, with the code that a statement in it meets; None: it is an ordinary value."""


@pytest.mark.parametrize("tool", list(STRINGS))
def test_sql_in_a_string_is_refused_or_finds_nothing_and_changes_nothing(tmp_path: Path, tool: str) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            for field, code in STRINGS[tool].items():
                for text in INJECTIONS:
                    arguments = {"runId": id, **NEEDED[tool], field: text}
                    if code is None:
                        found = await desk.call(tool, **arguments)
                        assert found["metadata"].get("totalCount", 0) == 0
                    else:
                        assert (await desk.refused(tool, **arguments))["code"] == code, (field, text)
            page = await desk.call("describe_run", runId=id)
            assert page["run"]["events"] == 13

    run(main())


def test_sql_in_a_list_of_names_is_an_ordinary_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            page = await desk.call(
                "get_events_by_type", runId=id, eventType="RiskEvent", fields=list(INJECTIONS)
            )
            assert page["events"][0]["properties"] == {}
            for field in ("eventTypes", "sequencePattern"):
                tool = "get_events_by_entity" if field == "eventTypes" else "query_event_sequence"
                bad = await desk.refused(tool, runId=id, **NEEDED[tool], **{field: [INJECTIONS[0]]})
                assert bad["code"] == "INVALID_PARAMETER"

    run(main())


@pytest.mark.parametrize(
    "path",
    [
        "$..a",
        "$.a.",
        "$.a..b",
        "$.",
        "$",
        "a.b",
        "$.a-b",
        "$.a[0]",
        "$.*",
        "",
        "$." + "a" * 10_240,
        "$" + ".a" * 5_000,
    ],
)
def test_a_path_that_is_none_is_an_invalid_json_path_naming_the_remedy(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            bad = await desk.refused("aggregate_metrics", runId=id, eventType="RiskEvent", propertyPath=path)
            assert bad["code"] == "INVALID_JSON_PATH"
            assert "propertyPath" in bad["message"]
            assert len(bad["message"]) < 800

    run(main())


@pytest.mark.parametrize("tool", list(NEEDED))
def test_an_unknown_run_is_not_found_and_a_text_that_is_no_guid_is_refused(tmp_path: Path, tool: str) -> None:
    async def main() -> None:
        async with agent(tmp_path) as desk:
            bad = await desk.refused(tool, **RUN, **NEEDED[tool])
            assert bad["code"] == "RUN_NOT_FOUND"
            assert "list_backtest_runs" in bad["message"]
            for text in ("", "../../etc/passwd", "a1b2c3d4", "{a1b2c3d4-e5f6-7890-abcd-ef1234567890}"):
                refused = await desk.refused(tool, runId=text, **NEEDED[tool])
                assert refused["code"] == "INVALID_PARAMETER"

    run(main())


def test_an_event_of_another_run_is_not_found_in_this_one(tmp_path: Path) -> None:
    async def main() -> None:
        own = "11111111-2222-3333-4444-555555555555"
        one = story(tmp_path)
        with record(tmp_path) as rec:
            rec.emit("RiskEvent", T0, {"RiskType": "secret"}, guid=own)
            rec.emit("RiskEvent", T0, {"RiskType": "secret"})
        async with agent(tmp_path) as desk:
            strangers = (
                own,
                event_id(rec.run_id, 2),
                f"tracedesk://backtest/{rec.run_id}/1",
                "tracedesk://calls/" + one,
                "tracedesk://nonsense",
                str(uuid4()),
                "14",
                "0",
                "9999999999999",
                event_id(one, 999),
            )
            for stranger in strangers:
                for tool, field in (("query_event_sequence", "rootEventId"), ("explain_event", "eventId")):
                    bad = await desk.refused(tool, runId=one, **{field: stranger})
                    assert bad["code"] == "EVENT_NOT_FOUND", stranger
                    assert "secret" not in str(bad)
            for junk in ("", "x", "-1", "1.5", "１２"):
                bad = await desk.refused("explain_event", runId=one, eventId=junk)
                assert bad["code"] == "INVALID_PARAMETER"

    run(main())


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        ("get_events_by_type", {"pageSize": 0}),
        ("get_events_by_type", {"pageSize": 1_001}),
        ("get_events_by_type", {"pageSize": "100"}),
        ("get_events_by_type", {"pageIndex": -1}),
        ("get_events_by_entity", {"pageSize": 1_001}),
        ("get_validation_errors", {"pageSize": 0}),
        ("query_event_sequence", {"pageSize": 101}),
        ("query_event_sequence", {"maxDepth": 51}),
        ("query_event_sequence", {"maxDepth": 0}),
        ("query_event_sequence", {"sequencePattern": ["RiskEvent"] * 51}),
        ("aggregate_metrics", {"quantiles": [1.5]}),
        ("aggregate_metrics", {"aggregations": ["median"]}),
        ("get_events_by_type", {"unknown": 1}),
    ],
)
def test_a_value_out_of_its_range_is_refused(tmp_path: Path, tool: str, change: dict[str, Any]) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            bad = await desk.refused(tool, **{"runId": id, **NEEDED[tool], **change})
            assert bad["code"] == "INVALID_PARAMETER"

    run(main())


@pytest.mark.parametrize("tool", ["get_events_by_type", "aggregate_metrics", "state_delta"])
def test_a_start_after_the_end_is_an_invalid_time_range(tmp_path: Path, tool: str) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            times = {"startTime": "2025-12-31T23:59:59Z", "endTime": "2025-01-01T00:00:00Z"}
            bad = await desk.refused(tool, **{"runId": id, **NEEDED[tool], **times})
            assert (bad["code"], bad["details"]) == ("INVALID_TIME_RANGE", times)

    run(main())


@contextmanager
def hurried(desk: Agent, tool: str, seconds: float) -> Generator[None]:
    """The tool with another deadline."""
    tools = desk.client.desk.registry.tools
    kept = tools[tool]
    tools[tool] = replace(kept, deadline=seconds)
    try:
        yield
    finally:
        tools[tool] = kept


def test_a_reading_past_its_deadline_is_interrupted_and_the_next_one_works(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(20_000):
                rec.emit("RiskEvent", T0 + number, {"RiskType": f"r{number % 7}", "Threshold": number})
        arguments = {"runId": rec.run_id, **NEEDED["aggregate_metrics"], "groupBy": "RiskType"}
        async with agent(tmp_path) as desk:
            with hurried(desk, "aggregate_metrics", 0.02):
                bad = await desk.refused("aggregate_metrics", **arguments)
                assert bad["code"] == "QUERY_TIMEOUT"
                assert bad["details"]["deadlineMs"] == 20
            found = await desk.call("aggregate_metrics", **arguments)
            assert found["aggregations"]["count"] == 20_000

    run(main())


def test_a_file_that_is_no_run_is_a_database_error_that_tells_no_path(tmp_path: Path) -> None:
    async def main() -> None:
        home = Home.open(tmp_path)
        damaged, foreign = story(tmp_path), str(uuid4())
        home.run_file(foreign).write_bytes(b"this is no database at all" * 100)
        whole = home.run_file(damaged).read_bytes()
        home.run_file(damaged).write_bytes(whole[:4_096] + b"\xff" * (len(whole) - 4_096))
        async with agent(tmp_path) as desk:
            for id in (damaged, foreign):
                bad = await desk.refused("get_events_by_type", runId=id, eventType="RiskEvent")
                assert bad["code"] == "DATABASE_ERROR"
                assert str(tmp_path) not in str(bad)

    run(main())


def test_a_pruned_run_is_not_found_and_says_how_much_it_had(tmp_path: Path) -> None:
    async def main() -> None:
        id = story(tmp_path)
        with Journal(Home.open(tmp_path).run_file(id)) as journal:
            journal.prune(id)
        async with agent(tmp_path) as desk:
            bad = await desk.refused("describe_run", runId=id)
            assert bad["code"] == "RUN_NOT_FOUND"
            assert "13 events were pruned" in bad["message"]

    run(main())


def test_a_run_whose_file_was_replaced_is_read_anew(tmp_path: Path) -> None:
    async def main() -> None:
        home = Home.open(tmp_path)
        async with storied(tmp_path) as (desk, id):
            assert (await desk.call("describe_run", runId=id))["run"]["events"] == 13
            copy = home.run_file(id).read_bytes()
            home.run_file(id).unlink()
            assert (await desk.refused("describe_run", runId=id))["code"] == "RUN_NOT_FOUND"
            home.run_file(id).write_bytes(copy)
            with Journal(home.run_file(id)) as journal:
                journal.prune(id)
            assert "were pruned" in (await desk.refused("describe_run", runId=id))["message"]

    run(main())


def test_an_order_guid_of_the_run_that_is_none_finds_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            for tail in ("zzzzzzzzzzzz", "+00000000001", "0000_0000_01"):
                value = order_guid(id, 0)[:24] + tail
                found = await desk.call(
                    "get_events_by_entity", runId=id, entityType="OrderId", entityValue=value
                )
                assert found["events"] == []

    run(main())


def test_an_id_that_is_none_is_refused_under_the_name_of_its_parameter(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            for tool, name in (("explain_event", "eventId"), ("query_event_sequence", "rootEventId")):
                bad = await desk.refused(tool, runId=id, **{name: "abc"})
                assert bad["code"] == "INVALID_PARAMETER"
                assert bad["message"].startswith(f"{name}: this is no event id")
                assert bad["details"]["path"] == [name]

    run(main())


def _nested(home: Path, depth: int) -> str:
    """A run whose one event nests deeper than a recorder takes, as files of other makers may have it."""
    id = uuid7()
    journal, stream = runs.create(Home.open(home), id, runs.Plan("deep"), SystemClock())
    with journal:
        body = b'{"n":7,"a":' * depth + b"1" + b"}" * depth
        journal.append(id, [Entry("StateChange", T0, body)])
        runs.seal(journal, stream, "ended", {})
        runs.index(journal, stream)
    runs.register(Home.open(home), id)
    return id


@pytest.mark.parametrize("depth", [65, 260, 900])
def test_an_event_that_nests_too_deeply_is_answered_as_text_where_it_cannot_be_told(
    tmp_path: Path, depth: int
) -> None:
    async def main() -> None:
        about: dict[str, Any] = {"runId": _nested(tmp_path, depth), "eventType": "StateChange"}
        async with agent(tmp_path) as desk:
            table = await desk.call("get_events_by_type", **about, format="table")
            assert table["tables"][0]["columns"] == ["seq", "time", "_raw"]
            assert table["tables"][0]["rows"][0][2].startswith('{"n":7,"a":{')
            picked = await desk.call("get_events_by_type", **about, fields=["n", "_raw"])
            assert list(picked["events"][0]["properties"]) == ["_raw"]

    run(main())
