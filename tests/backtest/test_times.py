"""Times as callers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.backtest.desks import T0, agent, record
from tests.support import run
from tracedesk.backtest.times import ALWAYS, Span, instant, span
from tracedesk.errors import ToolError
from tracedesk.primitives.time import DAY, LATEST, parse


def test_a_span_without_bounds_is_all_of_time() -> None:
    assert span({}) == ALWAYS
    assert span({}).is_all


def test_a_date_alone_is_the_begin_and_the_end_of_that_day() -> None:
    day = parse("2025-01-02T00:00:00Z").ns
    found = span({"startTime": "2025-01-02", "endTime": "2025-01-02"})
    assert (found.start_ns, found.end_ns, found.warnings) == (day, day + DAY - 1, ())


def test_an_offset_is_exact_and_a_time_without_a_zone_is_utc_with_a_warning() -> None:
    exact = span({"startTime": "2025-01-02T09:30:00-05:00"})
    naive = span({"startTime": "2025-01-02T14:30:00", "endTime": "2025-01-02 15:00:00.5"})
    assert exact.start_ns == naive.start_ns == T0
    assert exact.warnings == ()
    assert [warning.split()[0] for warning in naive.warnings] == ["startTime", "endTime"]


def test_both_ends_belong_to_the_span() -> None:
    one = span({"startTime": "2025-01-02T14:30:00Z", "endTime": "2025-01-02T14:30:00Z"})
    assert one.holds(T0)
    assert not one.holds(T0 + 1)
    assert not one.holds(T0 - 1)
    assert Span(1, 2).is_all is False


def test_a_start_after_the_end_is_a_time_range_error_with_both() -> None:
    with pytest.raises(ToolError) as caught:
        span({"startTime": "2025-12-31T23:59:59Z", "endTime": "2025-01-01T00:00:00Z"})
    assert caught.value.code == "INVALID_TIME_RANGE"
    assert caught.value.details == {
        "startTime": "2025-12-31T23:59:59Z",
        "endTime": "2025-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2025-13-01",
        "2025-01-02T25:00:00Z",
        "1735828200",
        "'; DROP TABLE event;--",
        "9" * 10_000,
    ],
)
def test_a_text_that_is_no_time_is_refused_with_the_field_and_the_form(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        instant({"timestamp": text}, "timestamp", "end")
    assert caught.value.code == "INVALID_PARAMETER"
    assert caught.value.message.startswith("timestamp: ")
    assert len(caught.value.message) < 300


def test_a_naive_time_warns_in_the_metadata_of_every_tool_that_takes_one(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.risk(T0, "x", threshold=1)
        naive = "2025-01-02T14:30:00"
        about: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent"}
        async with agent(tmp_path) as desk:
            for tool, arguments in (
                ("get_events_by_type", {**about, "startTime": naive}),
                ("aggregate_metrics", {**about, "propertyPath": "$.Threshold", "endTime": naive}),
                ("get_state_snapshot", {"runId": rec.run_id, "timestamp": naive}),
                ("state_delta", {"runId": rec.run_id, "startTime": naive, "endTime": "2025-01-03"}),
            ):
                found = await desk.call(tool, **arguments)
                assert any("taken as UTC" in w for w in found["metadata"]["warnings"]), tool

    run(main())


def test_a_range_outside_the_run_is_empty_and_tells_the_runs_own_range(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.risk(T0, "x")
            rec.risk(T0 + DAY, "x")
        async with agent(tmp_path) as desk:
            page = await desk.call(
                "get_events_by_type", runId=rec.run_id, eventType="RiskEvent", startTime="2025-06-01"
            )
            assert page["events"] == []
            assert page["metadata"]["runTimeRange"] == {
                "start": "2025-01-02T14:30:00Z",
                "end": "2025-01-03T14:30:00Z",
            }

    run(main())


SOON = "%Y-%m-%dT%H:%M:%SZ"


@pytest.mark.parametrize(
    "far", ["2099-01-01", "2262-04-12T00:00:00Z", "9999-12-31", "in an hour", "tomorrow"]
)
def test_a_time_in_the_future_is_an_invalid_time_range_in_every_tool_and_parameter(
    tmp_path: Path, far: str
) -> None:
    now = datetime.now(UTC)
    near = {"in an hour": now + timedelta(hours=1), "tomorrow": now + timedelta(days=1)}
    text = near[far].strftime(SOON if far == "in an hour" else "%Y-%m-%d") if far in near else far

    async def main() -> None:
        with record(tmp_path) as rec:
            rec.risk(T0, "x", threshold=1)
        about: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent"}
        metric = {**about, "propertyPath": "$.Threshold"}
        async with agent(tmp_path) as desk:
            for tool, name, arguments in (
                ("get_events_by_type", "startTime", about),
                ("get_events_by_type", "endTime", about),
                ("aggregate_metrics", "startTime", metric),
                ("aggregate_metrics", "endTime", metric),
                ("get_state_snapshot", "timestamp", {"runId": rec.run_id}),
                ("state_delta", "endTime", {"runId": rec.run_id, "startTime": "2025-01-01"}),
            ):
                error = await desk.refused(tool, **arguments, **{name: text})
                assert error["code"] == "INVALID_TIME_RANGE", (tool, name)
                assert error["details"] == {name: text}
                assert name in error["message"]
                assert "future" in error["message"]

    run(main())


def test_today_is_no_future_and_neither_is_a_time_that_the_run_itself_has(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.risk(T0, "x")
        with record(tmp_path) as later:
            later.risk(parse("2099-01-02T00:00:00Z").ns, "x")
        async with agent(tmp_path) as desk:
            for id, end in ((rec.run_id, f"{datetime.now(UTC):%Y-%m-%d}"), (later.run_id, "2099-01-02")):
                found = await desk.call("get_events_by_type", runId=id, eventType="RiskEvent", endTime=end)
                assert found["metadata"]["totalCount"] == 1
            error = await desk.refused("get_state_snapshot", runId=later.run_id, timestamp="2099-01-03")
            assert error["code"] == "INVALID_TIME_RANGE"

    run(main())


@pytest.mark.parametrize("text", ["9999-12-31", "2262-04-12", "2300-02-28T10:00:00+02:00"])
def test_an_end_after_all_that_can_be_recorded_is_the_end_of_it(text: str) -> None:
    assert span({"endTime": text}) == ALWAYS
    assert instant({"timestamp": text}, "timestamp", "end").ns == LATEST
    with pytest.raises(ToolError, match=r"startTime: .* out of range"):
        span({"startTime": text})


@pytest.mark.parametrize("text", ["1600-01-01", "0001-01-01T00:00:00Z", "1677-09-20"])
def test_a_start_before_all_that_can_be_recorded_is_its_begin(text: str) -> None:
    assert span({"startTime": text}) == ALWAYS
    with pytest.raises(ToolError, match=r"endTime: .* out of range"):
        span({"endTime": text})


@pytest.mark.parametrize("text", ["9999-02-29", "9999-13-01", "3000-01-01T25:00:00Z", "1600-02-30"])
def test_a_far_time_that_is_none_is_refused_all_the_same(text: str) -> None:
    for name in ("startTime", "endTime"):
        with pytest.raises(ToolError) as caught:
            span({name: text})
        assert caught.value.code == "INVALID_PARAMETER"
