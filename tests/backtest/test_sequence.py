"""Chains by parents: order, gaps, completeness, depth."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.desks import T0, agent, record, storied
from tests.support import run
from tracedesk.backtest import sequence
from tracedesk.backtest.desk import Shelf
from tracedesk.backtest.ids import event_id
from tracedesk.backtest.page import Ask
from tracedesk.home import Home
from tracedesk.primitives import json

PATTERN = ["OrderPlaced", "TradeExecution", "PositionUpdate"]


def ask(home: Path, id: str, **more: Any) -> Any:
    """The answer of the tool's own function, without the wire."""
    args = {"runId": id, "findIncomplete": False, "maxDepth": 10, "pageSize": 50, "pageIndex": 0}

    async def main() -> Any:
        shelf = Shelf(Home.open(home))
        try:
            question = Ask("query_event_sequence", {**args, **more}, 8_000, 1 << 20)
            return await shelf.read(id, lambda recording: sequence.answer(recording, question))
        finally:
            await shelf.close()

    return json.loads(json.dumps(run(main())))


def test_orders_that_never_became_a_position_are_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            found = await desk.call(
                "query_event_sequence", runId=id, sequencePattern=PATTERN, findIncomplete=True
            )
            roots = [one["rootEventId"] for one in found["sequences"]]
            assert roots == [event_id(id, 7), event_id(id, 8)]
            assert found["sequences"][0]["missingEventTypes"] == PATTERN[1:]
            assert found["sequences"][0]["complete"] is False
            metadata = found["metadata"]
            assert (metadata["completeCount"], metadata["incompleteCount"]) == (1, 2)
            assert metadata["totalSequences"] == 2
            whole = await desk.call("query_event_sequence", runId=id, sequencePattern=PATTERN)
            (one,) = whole["sequences"]
            assert (one["complete"], one["missingEventTypes"]) == (True, None)
            assert [event["eventType"] for event in one["events"]] == PATTERN

    run(main())


def test_the_pattern_is_an_ordered_path_in_which_gaps_are_allowed(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        order = rec.order_placed(T0, "o", "A", "Buy", 1)
        change = rec.state_change(T0, "Order", parent=order)
        trade = rec.trade(T0, "o", "A", "Buy", 1, 1, parent=change)
        rec.position(T0, "A", 1, parent=order)  # a sibling of the fill, so not on its path
        other = rec.order_placed(T0, "p", "A", "Buy", 1)
        rec.trade(T0, "p", "A", "Buy", 1, 1, parent=rec.position(T0, "A", 1, parent=other))
    missing = ask(tmp_path, rec.run_id, sequencePattern=PATTERN, findIncomplete=True)
    assert [one["missingEventTypes"] for one in missing["sequences"]] == [["PositionUpdate"]] * 2
    first = [int(event["eventId"][-12:], 16) for event in missing["sequences"][0]["events"]]
    assert first == [order, change, trade]
    two = ask(tmp_path, rec.run_id, sequencePattern=["OrderPlaced", "PositionUpdate", "TradeExecution"])
    assert [one["rootEventId"] for one in two["sequences"]] == [event_id(rec.run_id, other)]


def test_a_root_gives_its_whole_chain_down_to_the_depth(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        parent = None
        for number in range(60):
            parent = rec.emit("RiskEvent", T0 + number, {"RiskType": "x"}, parent=parent)
    for depth in (1, 3, 50):
        found = ask(tmp_path, rec.run_id, rootEventId="1", maxDepth=depth)
        assert len(found["sequences"][0]["events"]) == depth
        assert found["metadata"]["depthTruncated"] is True
    middle = ask(tmp_path, rec.run_id, rootEventId=event_id(rec.run_id, 55), maxDepth=50)
    assert len(middle["sequences"][0]["events"]) == 6
    assert "depthTruncated" not in middle["metadata"]


def test_a_chain_with_very_many_events_is_cut_and_says_so(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        root = rec.risk(T0, "root")
        for _ in range(1_500):
            rec.risk(T0, "x", parent=root)
    found = ask(tmp_path, rec.run_id, rootEventId="1")
    assert len(found["sequences"][0]["events"]) == sequence.MOST_NODES
    assert found["metadata"]["depthTruncated"] is True


def test_without_root_or_pattern_all_root_chains_are_paged(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        roots: list[int] = []
        for number in range(7):
            roots.append(rec.risk(T0 + number, "root"))
            rec.risk(T0 + number, "child", parent=roots[-1])
    seen: list[int] = []
    for index in range(3):
        page = ask(tmp_path, rec.run_id, pageSize=3, pageIndex=index)
        assert page["metadata"]["totalSequences"] == 7
        seen += [int(one["rootEventId"][-12:], 16) for one in page["sequences"]]
        assert page["metadata"]["hasMore"] is (index < 2)
        assert all(len(one["events"]) == 2 for one in page["sequences"])
    assert seen == roots


def test_chains_as_tables_tell_each_event_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            found = await desk.call("query_event_sequence", runId=id, sequencePattern=PATTERN, format="table")
            assert found["sequences"] == []
            chains, *tables = found["tables"]
            assert chains["rows"] == [[4, [4, 5, 6], None]]
            assert [table["eventType"] for table in tables] == PATTERN

    run(main())


def test_incomplete_without_a_pattern_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with storied(tmp_path) as (desk, id):
            bad = await desk.refused("query_event_sequence", runId=id, findIncomplete=True)
            assert bad["code"] == "INVALID_PARAMETER"
            assert "sequencePattern" in bad["message"]

    run(main())


TREES = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["A", "B", "C"])), max_size=14)
KINDS = {"A": "OrderPlaced", "B": "TradeExecution", "C": "PositionUpdate"}


@settings(max_examples=25, deadline=None)
@given(
    tree=TREES,
    pattern=st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, max_size=4),
    depth=st.integers(1, 5),
)
def test_matches_equal_a_search_of_every_path(
    tree: list[tuple[int, str]], pattern: list[str], depth: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        parents: list[int | None] = []
        with record(home) as rec:
            for number, (parent, kind) in enumerate(tree, 1):
                parents.append(parent if 0 < parent < number else None)
                rec.emit(KINDS[kind], T0, {"OrderId": "o"}, parent=parents[-1])
        types = [kind for _, kind in tree]
        for incomplete in (False, True):
            names = [KINDS[kind] for kind in pattern]
            found = ask(home, rec.run_id, sequencePattern=names, findIncomplete=incomplete, maxDepth=depth)
            got = {
                int(one["rootEventId"][-12:], 16): len(pattern) - len(one["missingEventTypes"] or ())
                for one in found["sequences"]
            }
            best = {
                seq: _longest(seq, types, parents, pattern, depth)
                for seq in range(1, len(types) + 1)
                if types[seq - 1] == pattern[0]
            }
            wanted = {seq: k for seq, k in best.items() if (k < len(pattern)) == incomplete}
            assert got == wanted
            assert found["metadata"]["totalSequences"] == len(wanted)


def _longest(seq: int, types: list[str], parents: list[int | None], pattern: list[str], depth: int) -> int:
    """The longest beginning of the pattern that is a subsequence of some path down from `seq`."""

    def walk(node: int, path: list[str], level: int) -> int:
        here = [*path, types[node - 1]]
        matched = 0
        for kind in here:
            matched += matched < len(pattern) and kind == pattern[matched]
        if level == depth:
            return matched
        children = [child for child, parent in enumerate(parents, 1) if parent == node]
        return max([matched, *(walk(child, here, level + 1) for child in children)])

    return walk(seq, [], 1)


def test_a_chain_is_told_up_to_the_event_that_completes_the_pattern(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        order = rec.order_placed(T0, "o", "A", "Buy", 1)
        trade = rec.trade(T0, "o", "A", "Buy", 1, 1, parent=order)
        rec.risk(T0, "x", parent=trade)
    (one,) = ask(tmp_path, rec.run_id, sequencePattern=PATTERN[:2])["sequences"]
    assert [event["eventType"] for event in one["events"]] == PATTERN[:2]


def test_chains_of_a_pattern_are_continued_by_cursor_without_repeating_one(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(9):
                order = rec.order_placed(T0 + number, number, "A", "Buy", 1)
                rec.trade(T0 + number, number, "A", "Buy", 1, 1, parent=order)
        async with agent(tmp_path) as desk:
            arguments: dict[str, Any] = {"runId": rec.run_id, "sequencePattern": PATTERN[:2], "pageSize": 2}
            page = await desk.call("query_event_sequence", **arguments)
            seen = [one["rootEventId"] for one in page["sequences"]]
            while "nextCursor" in page["metadata"]:
                cursor = page["metadata"]["nextCursor"]
                page = await desk.call("query_event_sequence", **arguments, cursor=cursor)
                assert page["metadata"]["totalSequences"] == 9
                seen += [one["rootEventId"] for one in page["sequences"]]
                assert len(seen) <= 9
            assert len(set(seen)) == 9

    run(main())
