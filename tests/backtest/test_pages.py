"""Pages by index and by cursor: order, totals, cuts, and what a cursor is bound to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.backtest.desks import T0, Agent, agent, record
from tests.support import run
from tracedesk.primitives.time import format
from tracedesk.primitives.tokens import count


def many(home: Path, count: int, **options: Any) -> str:
    """A run of numbered events of one type, three to an instant."""
    with record(home, **options) as rec:
        for number in range(count):
            rec.emit("RiskEvent", T0 + number // 3, {"RiskType": "x", "N": number})
    return rec.run_id


async def numbers(desk: Agent, id: str, **more: Any) -> list[int]:
    page = await desk.call("get_events_by_type", runId=id, eventType="RiskEvent", **more)
    return [event["properties"]["N"] for event in page["events"]]


async def follow(desk: Agent, tool: str, **arguments: Any) -> list[Any]:
    """Every page from the first to the one without a cursor."""
    pages = [await desk.call(tool, **arguments)]
    while "nextCursor" in pages[-1]["metadata"]:
        cursor = pages[-1]["metadata"]["nextCursor"]
        pages.append(await desk.call(tool, **arguments, cursor=cursor))
        assert len(pages) < 1_000
    return pages


def test_events_of_one_instant_keep_the_order_they_were_recorded_in(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in (5, 4, 3):
                rec.emit("RiskEvent", T0 + number, {"RiskType": "x", "N": number})
                rec.emit("RiskEvent", T0 + number, {"RiskType": "x", "N": number + 10})
        async with agent(tmp_path) as desk:
            assert await numbers(desk, rec.run_id) == [3, 13, 4, 14, 5, 15]
            assert await numbers(desk, rec.run_id, pageSize=2, pageIndex=1) == [4, 14]
            within = {"startTime": format(T0 + 4), "endTime": format(T0 + 4)}
            assert await numbers(desk, rec.run_id, **within) == [4, 14]

    run(main())


def test_a_deep_page_beyond_many_chunks_is_exact_with_and_without_bounds(tmp_path: Path) -> None:
    async def main() -> None:
        id = many(tmp_path, 13_000)
        async with agent(tmp_path) as desk:
            assert await numbers(desk, id, pageSize=7, pageIndex=1_500) == list(range(10_500, 10_507))
            bounds = {"startTime": format(T0 + 100), "endTime": format(T0 + 4_099)}
            page = await desk.call(
                "get_events_by_type", runId=id, eventType="RiskEvent", pageSize=10, pageIndex=1_199, **bounds
            )
            assert page["metadata"]["totalCount"] == 12_000
            assert page["metadata"]["hasMore"] is False
            assert [event["properties"]["N"] for event in page["events"]] == list(range(12_290, 12_300))
            assert await numbers(desk, id, pageIndex=10**15) == []

    run(main())


def test_following_cursors_returns_each_event_once_and_keeps_the_total(tmp_path: Path) -> None:
    async def main() -> None:
        id = many(tmp_path, 1_000)
        async with agent(tmp_path) as desk:
            pages = await follow(
                desk,
                "get_events_by_type",
                runId=id,
                eventType="RiskEvent",
                pageSize=130,
                startTime=format(T0 + 1),
            )
            found = [event["properties"]["N"] for page in pages for event in page["events"]]
            assert found == list(range(3, 1_000))
            assert {page["metadata"]["totalCount"] for page in pages} == {997}

    run(main())


@pytest.mark.parametrize("form", ["events", "table"])
def test_a_cursor_page_keeps_to_the_budget_with_whole_rows_and_continues_exactly(
    tmp_path: Path, form: str
) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(400):
                rec.emit("RiskEvent", T0 + number, {"RiskType": "x" * (number % 90), "N": number})
        async with agent(tmp_path, max_tokens=1_500) as desk:
            arguments: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent", "pageSize": 1_000}
            arguments["format"] = form
            if form == "events":  # the first page by index is whole; a cursor's pages are cut
                first = await desk.call("get_events_by_type", **{**arguments, "pageSize": 5})
                arguments["cursor"] = first["metadata"]["nextCursor"]
            seen: list[int] = []
            while True:
                text = await desk.text("get_events_by_type", **arguments)
                assert count(text) <= 1_500
                page = await desk.call("get_events_by_type", **arguments)
                rows = _numbers(page)
                assert len(rows) == page["metadata"]["returnedCount"] > 0
                seen += rows
                if "nextCursor" not in page["metadata"]:
                    break
                assert page["metadata"]["truncated"] is page["metadata"]["hasMore"] is True
                arguments["cursor"] = page["metadata"]["nextCursor"]
            assert seen == list(range(5 if form == "events" else 0, 400))

    run(main())


def _numbers(page: Any) -> list[int]:
    if page["events"]:
        return [event["properties"]["N"] for event in page["events"]]
    return [row[table["columns"].index("N")] for table in page.get("tables", []) for row in table["rows"]]


@pytest.mark.parametrize(
    "change",
    [
        {"eventType": "StateChange"},
        {"severity": "Error"},
        {"startTime": "2025-01-01"},
        {"category": "Risk"},
        {"format": "table"},
        {"fields": ["N"]},
        {"pageIndex": 1},
    ],
)
def test_a_cursor_with_other_parameters_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    async def main() -> None:
        id = many(tmp_path, 9)
        async with agent(tmp_path) as desk:
            arguments: dict[str, Any] = {"runId": id, "eventType": "RiskEvent", "pageSize": 2}
            cursor = (await desk.call("get_events_by_type", **arguments))["metadata"]["nextCursor"]
            again = await desk.call("get_events_by_type", **{**arguments, "pageSize": 3, "cursor": cursor})
            assert [event["properties"]["N"] for event in again["events"]] == [2, 3, 4]
            bad = await desk.refused("get_events_by_type", **{**arguments, **change, "cursor": cursor})
            assert bad["code"] == "INVALID_PARAMETER"

    run(main())


def test_a_cursor_of_another_run_or_tool_or_a_forged_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = many(tmp_path, 9), many(tmp_path, 9)
        async with agent(tmp_path) as desk:
            page = await desk.call("get_events_by_type", runId=one, eventType="RiskEvent", pageSize=2)
            cursor = page["metadata"]["nextCursor"]
            forged = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
            for id, text in ((other, cursor), (one, forged), (one, "junk"), (one, ""), (one, "x" * 10_000)):
                bad = await desk.refused(
                    "get_events_by_type", runId=id, eventType="RiskEvent", pageSize=2, cursor=text
                )
                assert bad["code"] == "INVALID_PARAMETER"
                assert "cursor" in bad["message"]
            wrong = await desk.refused("get_validation_errors", runId=one, cursor=cursor)
            assert wrong["code"] == "INVALID_PARAMETER"

    run(main())


def test_a_page_by_index_that_is_too_large_names_the_size_that_fits(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(40):
                rec.emit("RiskEvent", T0 + number, {"RiskType": "x" * 3_000, "N": number})
        async with agent(tmp_path, max_bytes=65_536) as desk:
            bad = await desk.refused("get_events_by_type", runId=rec.run_id, eventType="RiskEvent")
            assert bad["code"] == "RESULT_TOO_LARGE"
            size = bad["details"]["pageSize"]
            assert len(await numbers(desk, rec.run_id, pageSize=size)) == size > 10

    run(main())


def test_one_event_that_is_too_large_for_a_cursor_page_can_be_skipped(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(3):
                text = "x" * (90_000 if number == 1 else 10)
                rec.emit("RiskEvent", T0 + number, {"RiskType": text, "N": number})
        async with agent(tmp_path, max_bytes=65_536) as desk:
            arguments: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent", "pageSize": 1}
            cursor = (await desk.call("get_events_by_type", **arguments))["metadata"]["nextCursor"]
            bad = await desk.refused("get_events_by_type", **arguments, cursor=cursor)
            assert bad["code"] == "RESULT_TOO_LARGE"
            after = await desk.call("get_events_by_type", **arguments, cursor=bad["details"]["nextCursor"])
            assert [event["properties"]["N"] for event in after["events"]] == [2]
            small = {"fields": ["N"], "format": "table"}
            assert _numbers(
                await desk.call("get_events_by_type", **{**arguments, "pageSize": 9}, **small)
            ) == [
                0,
                1,
                2,
            ]

    run(main())


def test_entities_and_errors_are_paged_by_cursor_too(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(50):
                rec.order_placed(T0 + number, "o", "A", "Buy", 1, N=number)
                rec.emit("TradeExecution", T0 + number, {"SecuritySymbol": "A", "N": number})
        async with agent(tmp_path) as desk:
            for tool, arguments, count in (
                ("get_events_by_entity", {"entityType": "SecuritySymbol", "entityValue": "A"}, 100),
                ("get_events_by_entity", {"entityType": "OrderId", "entityValue": "o"}, 50),
                ("get_validation_errors", {}, 50),
            ):
                pages = await follow(desk, tool, runId=rec.run_id, pageSize=7, **arguments)
                ids = [event["eventId"] for page in pages for event in page["events"]]
                assert len(ids) == len(set(ids)) == count
                assert pages[0]["metadata"]["totalCount"] == count

    run(main())


def test_only_the_named_fields_of_the_properties_are_returned(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.market_data(T0, "A", {"Open": 1, "Close": 2})
        async with agent(tmp_path) as desk:
            page = await desk.call(
                "get_events_by_type",
                runId=rec.run_id,
                eventType="MarketDataEvent",
                fields=["$.Data.Close", "SecuritySymbol", "None"],
            )
            assert page["events"][0]["properties"] == {"Data": {"Close": 2}, "SecuritySymbol": "A"}
            bad = await desk.refused(
                "get_events_by_type", runId=rec.run_id, eventType="RiskEvent", fields=["a"] * 65
            )
            assert bad["code"] == "INVALID_PARAMETER"

    run(main())


@pytest.mark.parametrize("format", ["events", "table"])
def test_a_field_finds_a_key_that_has_dots_itself_in_objects_and_in_tables(
    tmp_path: Path, format: str
) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.emit("RiskEvent", T0, {"RiskType": "x", "x.y": 7, "a": {"b.c": 8, "b": {"d": 9}}})
        about: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent", "format": format}
        async with agent(tmp_path) as desk:
            found = await desk.call("get_events_by_type", **about, fields=["x.y", "$.a.b.c", "a.b.d", "a.z"])
            if format == "events":
                expected = {"x.y": 7, "a": {"b.c": 8, "b": {"d": 9}}}
                assert found["events"][0]["properties"] == expected
            else:
                table = found["tables"][0]
                shown = dict(zip(table["columns"], table["rows"][0], strict=True))
                assert {"x.y": 7, "a.b.c": 8, "a.b.d": 9}.items() <= shown.items()

    run(main())
