"""The eleven tools over MCP: what each answers about a run in which everything happens."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.backtest.desks import MINUTE, T0, agent, record, storied, story
from tests.support import ROOT, rpc, run, until
from tracedesk.backtest.desk import READERS
from tracedesk.backtest.ids import event_id
from tracedesk.backtest.tools import backtest
from tracedesk.contracts import names
from tracedesk.primitives.tokens import count


def test_the_toolset_serves_every_contract_it_has_and_all_only_read() -> None:
    assert tuple(sorted(backtest.tools)) == names("backtest")
    assert all(tool.annotations.read_only and tool.scope == "read" for tool in backtest.tools.values())


def test_the_six_seed_tools_have_ten_seconds() -> None:
    added = {"list_backtest_runs", "describe_run", "state_delta", "compare_runs", "explain_event"}
    deadlines = {name: tool.deadline for name, tool in backtest.tools.items() if name not in added}
    assert set(deadlines.values()) == {10.0}
    assert len(deadlines) == 6


def test_an_event_is_returned_as_the_contract_shows_it_with_its_own_digits(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            text = await desk.text("get_events_by_type", runId=id, eventType="TradeExecution", pageSize=1)
            assert '"Price":175.50,"Commission":1.00' in text
            page = await desk.call("get_events_by_type", runId=id.upper(), eventType="TradeExecution")
            event = page["events"][0]
            assert event["eventId"] == event_id(id, 5)
            assert event["parentEventId"] == event_id(id, 4)
            assert (event["runId"], event["timestamp"]) == (id, "2025-01-02T14:31:00Z")
            assert (event["severity"], event["category"]) == ("Info", "Execution")
            assert event["validationErrors"] is None
            metadata = page["metadata"]
            assert (metadata["totalCount"], metadata["returnedCount"], metadata["hasMore"]) == (2, 2, False)
            assert metadata["runStatus"] == "ended"
            assert "nextCursor" not in metadata

    run(main())


def test_a_hundred_questions_of_one_session_at_once_are_all_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            session = await desk.client.open_session()

            async def ask(number: int) -> int:
                arguments = {"runId": id, "eventType": "OrderPlaced"}
                call = rpc("tools/call", {"name": "get_events_by_type", "arguments": arguments}, number)
                answer = (await session.post("/mcp", call)).json["result"]
                assert not answer["isError"], answer
                return answer["structuredContent"]["metadata"]["totalCount"]

            # The readers of the run are held, so that no question is answered before all are asked.
            gate = threading.Event()
            held = [
                asyncio.ensure_future(desk.shelf.read(id, lambda _: gate.wait(30))) for _ in range(READERS)
            ]
            asked = [asyncio.ensure_future(ask(number)) for number in range(100)]
            try:
                admission = desk.client.desk.dispatch.admission
                await until(lambda: admission.running + admission.waiting == 100)
            finally:
                gate.set()
            assert await asyncio.gather(*asked) == [3] * 100
            await asyncio.gather(*held)

    run(main())


def test_the_life_of_an_order_is_found_by_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            page = await desk.call(
                "get_events_by_entity", runId=id, entityType="OrderId", entityValue="ord-3"
            )
            kinds = [event["eventType"] for event in page["events"]]
            assert kinds == ["OrderPlaced", "OrderRejection"]
            assert page["events"][1]["properties"]["RejectionReason"] == "insufficient margin"
            only = await desk.call(
                "get_events_by_entity",
                runId=id,
                entityType="SecuritySymbol",
                entityValue="AAPL",
                eventTypes=["TradeExecution", "PositionUpdate"],
            )
            assert only["metadata"]["totalCount"] == len(only["events"]) == 3

    run(main())


def test_a_symbol_is_found_in_another_case_only_when_no_other_has_exactly_that_name(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.market_data(T0, "AAPL", {"Close": 1})
            rec.market_data(T0, "aapl", {"Close": 2})
            rec.market_data(T0, "MSFT", {"Close": 3})
        async with agent(tmp_path) as desk:

            async def closes(symbol: str) -> list[Any]:
                page = await desk.call(
                    "get_events_by_entity", runId=rec.run_id, entityType="SecuritySymbol", entityValue=symbol
                )
                return [event["properties"]["Data"]["Close"] for event in page["events"]]

            assert await closes("AAPL") == [1]
            assert await closes("aapl") == [2]
            assert await closes("msft") == [3]
            assert await closes("none") == []

    run(main())


def test_a_numeric_order_id_is_found_by_its_text(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.order_placed(T0, 42, "AAPL", "Buy", 1)
            rec.order_placed(T0, "42", "AAPL", "Buy", 1)
            rec.order_placed(T0, 43, "AAPL", "Buy", 1)
        async with agent(tmp_path) as desk:
            page = await desk.call(
                "get_events_by_entity", runId=rec.run_id, entityType="OrderId", entityValue="42"
            )
            assert page["metadata"]["totalCount"] == 2

    run(main())


def test_events_are_kept_by_category_with_what_belongs_to_it(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.market_data(T0, "AAPL", {"Close": 1})
            rec.emit("MarketDataEvent", T0, {"SecuritySymbol": "AAPL"}, category="Data")
            rec.emit("MarketDataEvent", T0, {"SecuritySymbol": "AAPL"}, category="Risk")
        async with agent(tmp_path) as desk:

            async def shown(category: str) -> list[str]:
                page = await desk.call(
                    "get_events_by_type", runId=rec.run_id, eventType="MarketDataEvent", category=category
                )
                assert page["metadata"]["totalCount"] == len(page["events"])
                return [event["category"] for event in page["events"]]

            assert await shown("MarketData") == ["MarketData", "MarketData"]
            assert await shown("Data") == ["MarketData"]
            assert await shown("Risk") == ["Risk"]
            bad = await desk.refused(
                "get_events_by_type", runId=rec.run_id, eventType="MarketDataEvent", category="Nonsense"
            )
            assert bad["code"] == "INVALID_PARAMETER"
            assert "Portfolio" in bad["message"]

    run(main())


def test_events_are_kept_by_severity(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(10):
                severity = "Error" if number % 3 == 0 else None
                rec.emit("RiskEvent", T0 + number, {"RiskType": "x", "N": number}, severity=severity)
        async with agent(tmp_path) as desk:
            page = await desk.call(
                "get_events_by_type",
                runId=rec.run_id,
                eventType="RiskEvent",
                severity="Error",
                pageSize=2,
                pageIndex=1,
            )
            assert [event["properties"]["N"] for event in page["events"]] == [6, 9]
            assert page["metadata"]["totalCount"] == 4

    run(main())


def test_validation_errors_are_found_by_the_severity_of_any_of_them(tmp_path: Path) -> None:
    async def main() -> None:
        id = story(tmp_path)
        with record(tmp_path) as rec:
            rec.emit("TradeExecution", T0, b'{"OrderId":')
        async with agent(tmp_path) as desk:
            page = await desk.call("get_validation_errors", runId=id)
            (event,) = page["events"]
            fields = [(fault["Field"], fault["Severity"]) for fault in event["validationErrors"]]
            assert ("Properties.Price", "Warning") in fields
            none = await desk.call("get_validation_errors", runId=id, severityFilter="Error")
            assert none["metadata"]["totalCount"] == 0
            raw = await desk.call("get_validation_errors", runId=rec.run_id, severityFilter="Error")
            assert raw["events"][0]["properties"] == {"_raw": '{"OrderId":'}

    run(main())


def test_an_imported_event_keeps_its_own_guid_and_is_found_by_it(tmp_path: Path) -> None:
    async def main() -> None:
        own = "11111111-2222-3333-4444-555555555555"
        with record(tmp_path) as rec:
            first = rec.emit("MarketDataEvent", T0, {"SecuritySymbol": "A"}, guid=own)
            rec.emit("RiskEvent", T0, {"RiskType": "x"}, parent=first)
        async with agent(tmp_path) as desk:
            page = await desk.call("get_events_by_type", runId=rec.run_id, eventType="RiskEvent")
            assert page["events"][0]["parentEventId"] == own
            chain = await desk.call("query_event_sequence", runId=rec.run_id, rootEventId=own.upper())
            assert [event["eventType"] for event in chain["sequences"][0]["events"]] == [
                "MarketDataEvent",
                "RiskEvent",
            ]
            derived = event_id(rec.run_id, 1)
            gone = await desk.refused("explain_event", runId=rec.run_id, eventId=derived)
            assert gone["code"] == "EVENT_NOT_FOUND"

    run(main())


def test_an_event_is_explained_from_its_first_cause_to_its_effects(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            found = await desk.call("explain_event", runId=id, eventId="9")
            assert [step["seq"] for step in found["chain"]] == [1, 8, 9]
            assert "rejected: «insufficient margin»" in found["summary"]
            assert [event["seq"] for event in found["order"]] == [8]
            fill = await desk.call("explain_event", runId=id, eventId=event_id(id, 5))
            assert [event["seq"] for event in fill["effects"]] == [6, 12]
            assert fill["chain"][-1]["text"] == "bought 60 AAPL at 175.50 for order ord-1, commission 1.00"
            again = await desk.call("explain_event", runId=id, eventId=fill["chain"][-1]["ref"])
            assert again["summary"] == fill["summary"]

    run(main())


def test_a_reference_resolves_to_the_event_and_traces_back_to_its_cause(tmp_path: Path) -> None:
    async def main() -> None:
        id = story(tmp_path, config={"period": 10})
        async with agent(tmp_path) as desk:
            ref = f"tracedesk://backtest/{id}/6"
            source = await desk.call("get_source", ref=ref)
            assert source["body"]["properties"]["Quantity"] == 60
            assert len(source["body"]["run"]["configHash"]) == 64
            walked = await desk.call("trace", ref=ref, depth=9)
            assert [node["body"]["seq"] for node in walked["nodes"]] == [6, 5, 4, 2, 1]
            for missing in (f"tracedesk://backtest/{id}/99", "tracedesk://backtest/none/1"):
                assert (await desk.refused("get_source", ref=missing))["code"] == "SOURCE_NOT_FOUND"

    run(main())


def test_a_reference_of_a_whole_run_resolves_to_its_facts_and_its_parent(tmp_path: Path) -> None:
    async def main() -> None:
        first = story(tmp_path, name="alpha")
        second = story(tmp_path, name="beta", parent_run=first)
        async with agent(tmp_path) as desk:
            ref = (await desk.call("describe_run", runId=second))["run"]["ref"]
            assert ref == f"tracedesk://backtest/{second}"
            source = await desk.call("get_source", ref=ref.replace(second, second.upper()))
            assert (source["ref"], source["body"]["runId"], source["body"]["events"]) == (ref, second, 13)
            assert source["body"]["run"]["name"] == "beta"
            walked = await desk.call("trace", ref=ref, depth=2)
            assert [node["body"]["runId"] for node in walked["nodes"]] == [second, first]
            for missing in ("tracedesk://backtest/", "tracedesk://backtest/none", ref[:-1] + "/"):
                assert (await desk.refused("get_source", ref=missing))["code"] == "SOURCE_NOT_FOUND"

    run(main())


def test_runs_are_listed_newest_first_with_their_status(tmp_path: Path) -> None:
    async def main() -> None:
        old = story(tmp_path, name="alpha")
        with record(tmp_path, name="beta") as rec:
            rec.market_data(T0, "A", {})
            rec.flush()
            async with agent(tmp_path) as desk:
                listed = (await desk.call("list_backtest_runs"))["runs"]
                assert [(r["name"], r["status"], r["events"]) for r in listed] == [
                    ("beta", "running", 1),
                    ("alpha", "ended", 13),
                ]
                first = await desk.call("list_backtest_runs", limit=1)
                assert first["metadata"]["hasMore"] is True
                rest = await desk.call("list_backtest_runs", limit=1, cursor=first["metadata"]["nextCursor"])
                assert [r["runId"] for r in rest["runs"]] == [old]
                named = await desk.call("list_backtest_runs", name="ALP")
                assert [r["runId"] for r in named["runs"]] == [old]
                bad = await desk.refused("list_backtest_runs", cursor="nothing")
                assert bad["code"] == "INVALID_PARAMETER"

    run(main())


def test_a_description_names_every_type_and_path_within_its_tokens(tmp_path: Path) -> None:
    async def main() -> None:
        id = story(tmp_path, config={"fast": 10, "slow": 20})
        async with agent(tmp_path) as desk:
            found = await desk.call("describe_run", runId=id)
            counts = {row["eventType"]: row["count"] for row in found["eventTypes"]}
            assert counts["OrderPlaced"] == 3
            assert sum(counts.values()) == found["run"]["events"] == 13
            (placed,) = [row for row in found["eventTypes"] if row["eventType"] == "OrderPlaced"]
            assert ["$.Quantity", "number", 5, 1000000] in placed["paths"]
            assert ["$.SecuritySymbol", "text", "AAPL"] in placed["paths"]
            assert found["run"]["config"] == {"fast": 10, "slow": 20}

    run(main())


def test_every_path_of_a_description_is_taken_or_says_that_it_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            odd = {
                "plain": 1,
                "a-b": 5,
                "Ü": 6,
                "x.y": 7,
                "sp ace": 8,
                "in": {"x.y": 9},
                "n.m": 1,
                "n": {"m": 2},
            }
            rec.emit("MarketDataEvent", T0, odd)
        async with agent(tmp_path) as desk:
            arguments = {"runId": rec.run_id, "eventType": "MarketDataEvent"}
            told = await desk.call("describe_run", **arguments)
            rows = told["eventTypes"][0]["paths"]
            assert "no path" in told["metadata"]["how"]
            taken = [path for path, kind, *_ in rows if not kind.startswith("no path")]
            assert taken == ["$.plain", "$.x.y", "$.in", "$.n", "$.n.m"]
            for path, kind, *_ in rows:
                if path in taken:
                    found = await desk.call("aggregate_metrics", **arguments, propertyPath=path)
                    assert found["aggregations"]["count"] == (kind == "number")
                else:
                    bad = await desk.refused("aggregate_metrics", **arguments, propertyPath=path)
                    assert bad["code"] == "INVALID_JSON_PATH"

    run(main())


def test_a_description_of_a_run_with_very_many_paths_is_cut_and_says_how_to_see_them(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for kind in ("RiskEvent", "StateChange", "MarketDataEvent"):
                rec.emit(kind, T0, {f"a_rather_long_property_{n}": n for n in range(200)})
        async with agent(tmp_path) as desk:
            text = await desk.text("describe_run", runId=rec.run_id)
            assert count(text) <= 1_500
            found = await desk.call("describe_run", runId=rec.run_id)
            assert found["metadata"]["truncated"] is True
            shown = sum(len(row["paths"]) for row in found["eventTypes"])
            assert shown + found["metadata"]["omittedPaths"] == 600
            one = await desk.call("describe_run", runId=rec.run_id, eventType="RiskEvent")
            assert len(one["eventTypes"][0]["paths"]) == 200
            assert count(await desk.text("describe_run", runId=rec.run_id, eventType="RiskEvent")) <= 8_000

    run(main())


def test_a_run_without_events_is_answered_by_every_tool(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            pass
        id = rec.run_id
        async with agent(tmp_path) as desk:
            page = await desk.call("get_events_by_type", runId=id, eventType="RiskEvent")
            assert page["metadata"]["totalCount"] == 0
            found = await desk.call(
                "aggregate_metrics", runId=id, eventType="RiskEvent", propertyPath="$.Threshold"
            )
            assert found["aggregations"] == dict.fromkeys(("sum", "avg", "min", "max", "stddev")) | {
                "count": 0
            }
            state = await desk.call("get_state_snapshot", runId=id, timestamp="2025-01-01")
            assert state["state"]["positions"] == []
            assert (await desk.call("query_event_sequence", runId=id))["sequences"] == []
            assert (await desk.call("describe_run", runId=id))["eventTypes"] == []
            compared = await desk.call("compare_runs", runId=id, otherRunId=id)
            assert compared["firstDivergence"] is None
            assert compared["runs"][0]["pnl"]["total"] == 0

    run(main())


def test_a_run_that_crashed_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        rec = record(tmp_path)
        try:
            with rec:
                rec.market_data(T0, "A", {})
                raise ZeroDivisionError("the strategy divided by zero")
        except ZeroDivisionError:
            pass
        async with agent(tmp_path) as desk:
            found = await desk.call("describe_run", runId=rec.run_id)
            assert found["run"]["status"] == "crashed"
            assert "divided by zero" in found["run"]["problem"]

    run(main())


def test_a_run_whose_recorder_died_is_settled_when_a_desk_opens(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tests.backtest.desks import T0, record\n"
        "rec = record(Path(sys.argv[1])); rec.market_data(T0, 'A', {}); rec.flush(); os._exit(9)"
    )
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    assert died.returncode == 9

    async def main() -> None:
        async with agent(tmp_path) as desk:
            settling = desk.shelf._settling  # pyright: ignore[reportPrivateUsage]
            assert settling is not None
            await settling
            (found,) = (await desk.call("list_backtest_runs"))["runs"]
            assert (found["status"], found["events"]) == ("crashed", 1)
            described = await desk.call("describe_run", runId=found["runId"])
            assert "ended without closing" in described["run"]["problem"]

    run(main())


def test_a_run_recorded_fast_is_answered_while_it_runs_and_says_it_has_no_index(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as desk:
            with record(tmp_path, fast=True) as rec:
                for number in range(5_000):
                    rec.order_placed(T0 + number, f"o-{number}", "AAPL", "Buy", number, price=1)
                rec.flush()
                page = await desk.call(
                    "get_events_by_type", runId=rec.run_id, eventType="OrderPlaced", pageIndex=49
                )
                assert page["metadata"]["totalCount"] == 5_000
                assert page["metadata"]["indexed"] is False
                assert page["events"][-1]["properties"]["Quantity"] == 4_999
                rec.order_cancelled(T0 + 5_000, "o-0")
                rec.flush()
                total = await desk.call(
                    "aggregate_metrics", runId=rec.run_id, eventType="OrderPlaced", propertyPath="$.Quantity"
                )
                assert total["aggregations"]["count"] == 5_000
                state = await desk.call("get_state_snapshot", runId=rec.run_id, timestamp="2025-01-03")
                assert len(state["state"]["activeOrders"]) == 4_999
            page = await desk.call("get_events_by_type", runId=rec.run_id, eventType="OrderCancelled")
            assert page["metadata"]["totalCount"] == 1
            assert "indexed" not in page["metadata"]
            assert page["metadata"]["runStatus"] == "ended"

    run(main())


def test_the_shelf_closes_the_runs_that_were_not_asked_for_longest(tmp_path: Path) -> None:
    async def main() -> None:
        ids = [story(tmp_path, name=str(number)) for number in range(4)]
        async with agent(tmp_path) as desk:
            desk.shelf._most = 2  # pyright: ignore[reportPrivateUsage]
            for id in (*ids, *ids):
                page = await desk.call("get_events_by_type", runId=id, eventType="RiskEvent")
                assert page["metadata"]["totalCount"] == 1
            assert len(desk.shelf._open) == 2  # pyright: ignore[reportPrivateUsage]

    run(main())


def test_minutes_are_told_in_utc(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            page = await desk.call(
                "get_events_by_type",
                runId=id,
                eventType="OrderPlaced",
                startTime="2025-01-02T09:32:00-05:00",
                endTime="2025-01-02T09:32:00-05:00",
            )
            assert [event["timestamp"] for event in page["events"]] == ["2025-01-02T14:32:00Z"]
            assert T0 + 2 * MINUTE == 1_735_828_320_000_000_000

    run(main())
