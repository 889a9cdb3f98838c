"""Tables: one for each event type, columns once, short ids that other tools take."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.backtest.desks import T0, Agent, agent, record, storied
from tests.backtest.streams import causal
from tests.support import run
from tracedesk.backtest.tables import flat
from tracedesk.primitives import json
from tracedesk.primitives.tokens import count

GUID = "99999999-8888-7777-6666-{:012}"


def record_causal(home: Path, count: int) -> str:
    """A run of so many events that follow from each other; returns its id."""
    with record(home) as rec:
        for sample in causal(count):
            rec.emit(sample.type, sample.time_ns, sample.properties, parent=sample.parent)
    return rec.run_id


async def ids_of_orders(desk: Agent, id: str) -> list[str]:
    """The order ids of a run, as a table shows them."""
    page = await desk.call("get_events_by_type", runId=id, eventType="OrderPlaced", format="table")
    (table,) = page["tables"]
    return [row[table["columns"].index("OrderId")] for row in table["rows"]]


async def orders_under(desk: Agent, id: str, value: str) -> list[str]:
    """The real order ids of the events found by a value."""
    found = await desk.call("get_events_by_entity", runId=id, entityType="OrderId", entityValue=value)
    return [event["properties"]["OrderId"] for event in found["events"]]


async def assert_a_third(desk: Agent, tool: str, **arguments: Any) -> None:
    """A hundred events cost at most 30 % as a table of what they cost as lines."""
    objects = await desk.call(tool, **arguments)
    lines = "\n".join(json.dumps(event).decode() for event in objects["events"])
    table = await desk.text(tool, **arguments, format="table")
    assert json.loads(table)["metadata"]["returnedCount"] == objects["metadata"]["returnedCount"] == 100
    assert count(table) <= 0.30 * count(lines)


def test_nested_properties_become_dotted_columns_and_what_nests_too_deeply_stays() -> None:
    nested = {"a": {"b": {"c": {"d": 1}}}, "e": [1], "f": {}}
    assert flat(nested) == {"a.b.c": {"d": 1}, "e": [1], "f": {}}


def test_a_mixed_page_has_one_table_for_each_type_and_no_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            page = await desk.call(
                "get_events_by_entity",
                runId=id,
                entityType="SecuritySymbol",
                entityValue="AAPL",
                format="table",
            )
            assert page["events"] == []
            kinds = [table["eventType"] for table in page["tables"]]
            assert kinds == [
                "MarketDataEvent",
                "IndicatorCalculation",
                "OrderPlaced",
                "TradeExecution",
                "PositionUpdate",
            ]
            for table in page["tables"]:
                assert all(len(row) == len(table["columns"]) for row in table["rows"])
            (trades,) = [t for t in page["tables"] if t["eventType"] == "TradeExecution"]
            second = dict(zip(trades["columns"], trades["rows"][1], strict=True))
            assert (second["seq"], second["Price"], second["parent"]) == (13, None, None)
            assert second["errors"][0]["Field"] == "Properties.Quantity"
            assert sum(len(t["rows"]) for t in page["tables"]) == page["metadata"]["totalCount"]

    run(main())


def test_severity_and_category_are_columns_only_where_they_differ_from_the_types_own(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.emit("RiskEvent", T0, {"RiskType": "x"})
            rec.emit("RiskEvent", T0, {"RiskType": "x", "seq": 7}, severity="Error", category="Portfolio")
        async with agent(tmp_path) as desk:
            page = await desk.call(
                "get_events_by_type", runId=rec.run_id, eventType="RiskEvent", format="table"
            )
            (table,) = page["tables"]
            assert table["columns"] == ["seq", "time", "RiskType", "severity", "category", "$.seq"]
            assert table["rows"][0][3:] == [None, None, None]
            assert table["rows"][1][3:] == ["Error", "Performance", 7]

    run(main())


def test_a_long_order_id_is_short_in_tables_and_the_short_one_finds_the_order(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(3):
                rec.order_placed(T0 + number, GUID.format(number), "AAPL", "Buy", number + 1)
        async with agent(tmp_path) as desk:
            short = await ids_of_orders(desk, rec.run_id)
            assert len(set(short)) == 3
            assert all(len(id) < 6 for id in short)
            for number, id in enumerate(short):
                for value in (id, GUID.format(number), GUID.format(number).upper()):
                    assert await orders_under(desk, rec.run_id, value) == [GUID.format(number)]

    run(main())


def test_a_short_id_that_another_order_really_has_is_not_given_away(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.order_placed(T0, GUID.format(1), "AAPL", "Buy", 1)
            for number in range(1, 9):
                rec.order_placed(T0, f"o{number}", "AAPL", "Buy", 2)
        async with agent(tmp_path) as desk:
            ids = await ids_of_orders(desk, rec.run_id)
            assert ids == [GUID.format(1), *(f"o{number}" for number in range(1, 9))]
            for id in ids:
                assert await orders_under(desk, rec.run_id, id) == [id]

    run(main())


def test_fields_choose_the_columns_and_one_that_no_event_has_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            page = await desk.call(
                "get_events_by_type",
                runId=id,
                eventType="MarketDataEvent",
                format="table",
                fields=["Data", "Volume"],
            )
            (table,) = page["tables"]
            assert table["columns"] == ["seq", "time", "Data.Close"]
            assert table["rows"] == [[1, "2025-01-02T14:30:00Z", Decimal("175.50")]]
            assert "Volume" in page["metadata"]["warnings"][0]

    run(main())


def test_a_table_of_a_hundred_trades_costs_less_than_a_third_of_their_lines(tmp_path: Path) -> None:
    async def main() -> None:
        id = record_causal(tmp_path, 2_000)
        async with agent(tmp_path) as desk:
            await assert_a_third(
                desk, "get_events_by_type", runId=id, eventType="TradeExecution", pageSize=100
            )

    run(main())


def test_a_mixed_page_as_tables_costs_less_than_a_third_of_its_lines(tmp_path: Path) -> None:
    async def main() -> None:
        id = record_causal(tmp_path, 4_000)
        async with agent(tmp_path) as desk:
            await assert_a_third(
                desk, "get_events_by_entity", runId=id, entityType="SecuritySymbol", entityValue="SYM03"
            )

    run(main())


def test_the_largest_page_stays_within_the_budget_by_a_real_vocabulary(tmp_path: Path) -> None:
    async def main() -> None:
        id = record_causal(tmp_path, 6_000)
        async with agent(tmp_path) as desk:
            arguments: dict[str, Any] = {
                "runId": id,
                "eventType": "TradeExecution",
                "pageSize": 1_000,
            }
            text = await desk.text("get_events_by_type", **arguments, format="table")
            assert json.loads(text)["metadata"]["truncated"] is True
            assert 4_500 < count(text) <= 8_000
            first = await desk.call("get_events_by_type", **{**arguments, "pageSize": 1})
            cursor = first["metadata"]["nextCursor"]
            assert 4_500 < count(await desk.text("get_events_by_type", **arguments, cursor=cursor)) <= 8_000
            chains = {"runId": id, "pageSize": 100, "format": "table"}
            assert count(await desk.text("query_event_sequence", **chains)) <= 8_000

    run(main())
