"""Two hundred orders planted wherever strangers' text comes in: none is given in the desk's own voice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.backtest import desks as runs
from tests.codegraph import desks as code
from tests.fixtures.foreign import QUOTATION, distinct, judged, spoken, tools_of
from tests.fixtures.injections import INJECTIONS, ORDERS
from tests.support import run
from tracedesk import contracts, foreign
from tracedesk.codegraph.context import Draft, pack
from tracedesk.toolsets import built, load


def test_the_words_of_strangers_are_found_where_they_are_spoken() -> None:
    order = INJECTIONS[0]
    answer = {"summary": f"Doc: «{order}»", "note": order, "rows": [{"text": order}]}
    assert [path for path, _ in spoken(answer, {"rows": ["rows[]"]})] == ["note"]


def test_a_quotation_cannot_be_closed_from_inside() -> None:
    for text in INJECTIONS:
        assert QUOTATION.sub("", f"Doc: {foreign.quoted(text)}") == "Doc: ", text
        assert foreign.closed(f"Doc: {foreign.block(text)[:-3]}…").endswith("»"), text


def test_an_order_without_blanks_is_quoted_and_a_short_name_is_not() -> None:
    for order in ORDERS:
        for joined in (
            order.replace(" ", "_"),
            order.replace(" ", "-"),
            order.title().replace(" ", ""),
            "".join(order.split()),
        ):
            assert foreign.quoted(joined).startswith("«"), joined
    for name in ("AAPL", "src/page.py", "balanceOf(address)", "019e-4c1f:3", "insufficient_funds", ""):
        assert foreign.quoted(name) == name


def test_the_foreign_details_of_a_refusal_are_named_where_they_are() -> None:
    assert foreign.fields_of_refusal({"venueMessage": "x", "httpStatus": 400}) == {
        "exchange": ["error.details.venueMessage"]
    }
    assert foreign.fields_of_refusal(None) == {}


def test_an_answer_names_the_foreign_fields_that_it_has() -> None:
    compact: dict[str, Any] = {"separators": (",", ":")}
    page: dict[str, Any] = {"events": [{"properties": {"tables": []}}], "metadata": {}}
    named = foreign.fields_in("get_events_by_type", json.dumps(page, **compact).encode())
    assert named == {"recorded events": ["events[].properties"]}
    hiding: dict[str, Any] = {"events": [{"properties": {"tables": []}}], "tables": [{"rows": [["x"]]}]}
    for answer in (hiding, dict(reversed(hiding.items()))):
        named = foreign.fields_in("get_events_by_type", json.dumps(answer, **compact).encode())
        assert named == {"recorded events": ["events[].properties", "tables[]"]}
    assert foreign.fields_in("get_events_by_type", b'{"events":[],"tables":[]}') == {}
    assert foreign.fields_in("dump_lcov", b"{}") == {"file names": ["$"]}


def test_every_foreign_field_is_one_of_a_served_tool_or_resource() -> None:
    toolsets = load(built())
    names = {name for toolset in toolsets for name in toolset.tools}
    names |= {resource.name for toolset in toolsets for resource in toolset.resources.values()}
    assert set(contracts.foreign()) - names == {foreign.REFUSAL}


def _project(folder: Path) -> Path:
    """A project whose comments, documentation, names and texts are all orders."""
    folder.mkdir()
    for number, order in enumerate(INJECTIONS):
        plain = order.replace("\\", " ").replace('"""', " ")
        line = f'"""{plain} """\n\n\ndef f{number}(x):\n    """{plain} """\n    return {order!r}  # {plain}\n'
        (folder / f"m{number}.py").write_text(line)
    for number, order in enumerate(INJECTIONS[::10]):
        (folder / f"page{number}.md").write_text(f"# {order}\n\n{order}\n")
        (folder / f"c{number}.ts").write_text(
            f"// {order}\nexport const a{number} = {{ {json.dumps(order)}: 1 }};\n"
        )
    for number, order in enumerate(INJECTIONS[:2]):
        (folder / f"{order} {number}.py".replace("/", " ")).write_text("def g(): pass\n")
    return folder


def test_code_and_attempts_give_no_orders_in_the_desk_s_voice(tmp_path: Path) -> None:
    project = _project(tmp_path / "project")

    asked: set[str] = set()

    async def main() -> list[Any]:
        found: list[Any] = []
        async with code.agent(tmp_path / "home", project, max_tokens=200_000) as agent:

            async def ask(tool: str, **arguments: Any) -> Any:
                asked.add(tool)
                reply = await agent.raw(tool, arguments)
                assert not reply.json["result"]["isError"], reply.json
                return judged(tool, reply, found)

            index = await ask("graph_index_project", project_root=str(project), files=["."])
            for file in index["indexed_files"]:
                await ask(
                    "graph_context_for_files", project_root=str(project), files=[file], max_tokens=1_500
                )
            await ask("graph_context_for_files", project_root=str(project), files=["m1.py"], max_tokens=128)
            for number, order in enumerate(INJECTIONS):
                event = {"attempt_id": f"a{number % 7}", "project_root": str(project), "kind": "checkpoint"}
                note = {"message": order, "graph_version": index["graph_version"], "query": order}
                await ask("etg_log_event", **event, payload=note)
            for order in INJECTIONS[::20]:
                await ask("graph_search", query=order)
                await ask("etg_query_similar_attempts", query=order)
            for number in range(7):
                view = await ask("etg_get_attempt", attempt_id=f"a{number}")
                await ask("get_source", ref=view["attempt"]["ref"])
                await ask("trace", ref=view["attempt"]["ref"])
            await ask("etg_timeline")
            await ask("graph_neighbors", symbol="f1")
            for order in INJECTIONS[::20]:
                odd = project / f"{order} new.py".replace("/", " ")
                odd.write_text("def g(): pass\n")
                assert (await ask("graph_search", query=order))["freshness"]["state"] == "stale"
                await ask("graph_neighbors", symbol="f1")
                odd.unlink()
            await ask("desk_status")
            for number, order in enumerate(INJECTIONS[::9]):
                changed = {"added_or_modified": ["m1.py", f"{order} 0.py".replace("/", " ")]}
                await ask("graph_update_files", project_root=str(project), deleted=[f"{order}.py"], **changed)
                await ask("graph_neighbors", file=f"m{9 * number}.py")
            attempts = [f"tracedesk://codegraph/attempts/a{number}" for number in range(7)]
            for uri in (index["report"], *attempts):
                page = (await agent.client.modern("resources/read", {"uri": uri})).json["result"]
                for part in page["contents"]:
                    declared = part["_meta"][foreign.META_KEY]
                    found.extend((uri, *each) for each in spoken(json.loads(part["text"]), declared))
            prompt = await agent.client.modern(
                "prompts/get", {"name": "what_was_tried", "arguments": {"problem": "why does it fail"}}
            )
            words = prompt.json["result"]["messages"][0]["content"]["text"]
            found.extend(("what_was_tried", *each) for each in spoken(words, {}))
        return found

    assert distinct(run(main())) == {}
    assert asked == tools_of("codegraph") | tools_of("desk")


def _events(order: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """An event of each kind whose texts are all one order."""
    yield "MarketDataEvent", {"SecuritySymbol": order, "DataType": order, "Data": {order: order}}
    yield "IndicatorCalculation", {"IndicatorName": order, "Parameters": {order: order}, "Value": 1}
    yield "OrderPlaced", {"OrderId": order, "SecuritySymbol": order, "Direction": order, "Quantity": 1}
    yield "TradeExecution", {"OrderId": order, "SecuritySymbol": order, "Direction": "Buy", "Quantity": 1}
    yield "PositionUpdate", {"SecuritySymbol": order, "Quantity": 1, "AveragePrice": 2}
    yield "StateChange", {"StateType": order, "StateBefore": order, "StateAfter": 1, "ChangeReason": order}
    yield "RiskEvent", {"RiskType": order, "CurrentValue": 1, "Threshold": 2, "Action": order}
    yield "OrderCancelled", {"OrderId": order, "CancelReason": order}
    yield "OrderRejection", {"OrderId": order, "SecuritySymbol": order, "RejectionReason": order}


def _recorded(home: Path) -> str:
    with runs.record(home, name=INJECTIONS[3]) as run:
        for number, order in enumerate(INJECTIONS):
            parent = None
            for kind, properties in _events(order):
                parent = run.emit(kind, runs.T0 + number * runs.SECOND, properties, parent=parent)
    return run.run_id


def test_a_recorded_run_gives_no_orders_in_the_desk_s_voice(tmp_path: Path) -> None:
    id, other = _recorded(tmp_path), _recorded(tmp_path)
    kinds = [kind for kind, _ in _events("")]
    asked: set[str] = set()

    async def main() -> list[Any]:
        found: list[Any] = []
        async with runs.agent(tmp_path, max_tokens=1_000_000) as agent:

            async def ask(tool: str, **arguments: Any) -> Any:
                asked.add(tool)
                reply = await agent.raw(tool, **arguments)
                assert not reply.json["result"]["isError"], reply.json
                return judged(tool, reply, found)

            for kind in kinds:
                page = await ask("get_events_by_type", runId=id, eventType=kind, pageSize=200)
                assert len(page["events"]) == len(INJECTIONS)
                for event in page["events"][::8]:
                    why = await ask("explain_event", runId=id, eventId=event["eventId"])
                    await ask("get_source", ref=why["metadata"]["ref"])
                    await ask("trace", ref=why["metadata"]["ref"], depth=1)
                await ask("get_events_by_type", runId=id, eventType=kind, format="table")
            await ask("list_backtest_runs")
            await ask("describe_run", runId=id)
            await ask("get_validation_errors", runId=id)
            await ask("query_event_sequence", runId=id)
            await ask("get_state_snapshot", runId=id, timestamp="2025-01-02T15:00:00Z")
            await ask("compare_runs", runId=id, otherRunId=other)
            times = {"startTime": "2025-01-02T14:29:00Z", "endTime": "2025-01-02T15:00:00Z"}
            await ask("state_delta", runId=id, **times)
            for order in INJECTIONS[::9]:
                symbol = {"entityType": "SecuritySymbol", "entityValue": order}
                await ask("get_events_by_entity", runId=id, **symbol)
            path = {"eventType": "OrderRejection", "propertyPath": "$.Quantity", "groupBy": "RejectionReason"}
            await ask("aggregate_metrics", runId=id, **path)
            await ask("aggregate_metrics", runId=id, **{**path, "eventType": "TradeExecution"})
        return found

    assert distinct(run(main())) == {}
    assert asked | tools_of("desk") == tools_of("backtest") | tools_of("desk")


def test_a_head_of_several_lines_that_is_cut_leaves_no_quotation_open() -> None:
    head = "Doc: «one line\n" + "\n".join(f"and another {number}" for number in range(40)) + "». Defines f."
    drafts = [Draft(f"m{number}.py", "fresh", head) for number in range(4)]
    for most in range(60, 400, 20):
        for entry in pack(drafts, most, 1 << 20, None)["contexts"]:
            assert entry["summary"].count("«") == entry["summary"].count("»"), entry
