"""The always-on toolset, the composition root, and references."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import desk_client, rpc, run
from tracedesk import contracts
from tracedesk.primitives import json
from tracedesk.registry import Registry
from tracedesk.toolsets import TOOLSETS, UnknownToolset, built, load
from tracedesk.wire.publish import describe, portable


def test_desk_status_says_what_is_served_and_what_to_call_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            status = (await client.call("desk_status")).structured
            desk = status["toolsets"][0]
            assert desk["name"] == "desk"
            assert desk["tools"] == ["desk_status", "get_source", "trace"]
            assert status["notBuilt"] == [name for name in TOOLSETS if name not in built()]
            assert status["startedAt"].endswith("Z")

    run(main())


def test_get_source_resolves_what_toolsets_declare_and_bare_call_ids(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            reply = await client.call("get_source", {"ref": "tracedesk://probe/chain/3"})
            assert reply.structured["kind"] == "trade"
            assert b'{"price":1.10}' in reply.body
            bare = (await client.call("get_source", {"ref": "call_001"})).structured
            assert bare["ref"] == "tracedesk://probe/chain/3"

    run(main())


def test_an_unresolvable_reference_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            for ref in ("tracedesk://probe/none/1", "nonsense", "tracedesk://calls/not-a-uuid"):
                error = (await client.call("get_source", {"ref": ref})).envelope["error"]
                assert error["code"] == "SOURCE_NOT_FOUND"
                assert "source_refs" in error["message"]

    run(main())


def test_trace_walks_back_breadth_first_and_names_what_it_cannot_resolve(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            found = (await client.call("trace", {"ref": "tracedesk://probe/chain/3"})).structured
            assert [(n["kind"], n["depth"]) for n in found["nodes"]] == [
                ("trade", 0),
                ("quote", 1),
                ("file", 2),
            ]
            assert found["unresolved"] == ["tracedesk://probe/gone/1"]
            assert found["metadata"]["complete"] is True
            short = (await client.call("trace", {"ref": "call_001", "depth": 1})).structured
            assert len(short["nodes"]) == 2
            assert short["metadata"]["complete"] is False

    run(main())


def test_trace_meets_a_thing_once_under_whatever_names_it_is_cited(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            names = ["call_001", "tracedesk://probe/chain/3"]
            for refs in (names, names[::-1]):
                cited = await client.call("cite", {"refs": refs})
                ref = cited.json["result"]["_meta"]["tracedesk/call"]
                walked = (await client.call("trace", {"ref": ref})).structured
                assert [node["kind"] for node in walked["nodes"]] == ["call", "trade", "quote", "file"]

    run(main())


def test_a_cut_trace_continues_after_the_last_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path, max_tokens=60) as client:
            first = (await client.call("trace", {"ref": "call_001"})).structured
            assert len(first["nodes"]) == 1
            cursor = first["metadata"]["nextCursor"]
            second = (await client.call("trace", {"ref": "call_001", "cursor": cursor})).structured
            assert second["nodes"][0]["kind"] == "quote"
            bad = (await client.call("trace", {"ref": "call_001", "cursor": "junk"})).envelope["error"]
            assert bad["code"] == "INVALID_PARAMETER"

    run(main())


def test_references_are_readable_as_resources_in_both_eras(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            uri = "tracedesk://probe/chain/2"
            reply = await client.modern("resources/read", {"uri": uri})
            assert json.loads(reply.json["result"]["contents"][0]["text"])["kind"] == "quote"
            session = await client.open_session()
            legacy = await session.post("/mcp", rpc("resources/read", {"uri": uri}))
            assert legacy.json["result"]["contents"][0]["mimeType"] == "application/json"
            templates = await client.modern("resources/templates/list")
            listed = {t["uriTemplate"] for t in templates.json["result"]["resourceTemplates"]}
            assert "tracedesk://calls/{id}" in listed

    run(main())


def test_a_call_is_readable_by_its_reference(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            failed = await client.call("break_down")
            identifier = failed.envelope["error"]["details"]["correlationId"]
            reply = await client.modern("resources/read", {"uri": f"tracedesk://calls/{identifier}"})
            record = json.loads(reply.json["result"]["contents"][0]["text"])
            assert record["body"]["tool"] == "break_down"

    run(main())


def test_a_seed_tool_whose_toolset_is_not_built_is_not_listed(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk_client(tmp_path) as client:
            listed = {t["name"] for t in (await client.modern("tools/list")).json["result"]["tools"]}
            for toolset in TOOLSETS:
                if toolset not in built() and toolset != "exchange":
                    assert not listed & set(contracts.names(toolset))

    run(main())


def test_unknown_and_unbuilt_toolsets_are_refused_by_name() -> None:
    with pytest.raises(UnknownToolset, match="unknown toolset 'nope'"):
        load(["nope"])
    missing = [name for name in TOOLSETS if name not in built()]
    for name in missing:
        with pytest.raises(UnknownToolset, match="not part of this version"):
            load([name])


def test_everything_on_has_no_collisions_and_each_toolset_lists_within_20_kilobytes() -> None:
    registry = Registry(load(built()))
    for toolset in registry.toolsets:
        entries = [describe(tool, "2026-07-28") for tool in toolset.tools.values()]
        assert len(json.dumps(entries)) <= 20_000, toolset.name


def test_the_28_seed_contracts_list_within_20_kilobytes_a_toolset() -> None:
    for toolset in ("backtest", "fuzz", "codegraph", "trading"):
        schemas = [contracts.load(toolset, name) for name in contracts.names(toolset)]
        size = sum(len(json.dumps({"i": s.input, "o": s.output})) for s in schemas)
        assert size <= 20_000, (toolset, size)


def test_a_root_any_of_is_published_as_min_properties_and_the_rest_is_verbatim() -> None:
    schema = contracts.load("fuzz", "find_transaction_in_corpus").input
    published = portable(schema)
    assert "anyOf" not in published
    assert published["minProperties"] == 1
    assert {k: v for k, v in published.items() if k != "minProperties"} == {
        k: v for k, v in schema.items() if k != "anyOf"
    }
