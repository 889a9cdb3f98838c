"""Cursors over a run that grows while it is read: each event exactly once, whatever times it brings."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.desks import T0, agent, record
from tests.support import run

BATCHES = st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=8)
"""What is recorded between two pages: the events' times, in any order and with ties."""


@settings(max_examples=15, deadline=None)
@given(
    batches=BATCHES,
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    entity=st.booleans(),
    fast=st.booleans(),
)
def test_cursors_over_a_growing_run_return_each_event_exactly_once(
    batches: list[list[int]], sizes: list[int], entity: bool, fast: bool
) -> None:
    tool = "get_events_by_entity" if entity else "get_events_by_type"
    which: dict[str, Any] = {"eventType": "RiskEvent"}
    if entity:
        which = {"entityType": "SecuritySymbol", "entityValue": "A", "eventTypes": ["RiskEvent"]}

    async def main(home: Path) -> None:
        seen: list[int] = []
        recorded: list[int] = []
        waiting = list(batches)
        rec = record(home, fast=fast)
        # The entity is known from the start, so that its cursor has something to be bound to.
        rec.emit("StateChange", T0, {"SecuritySymbol": "A"})

        def grow() -> None:
            if rec_closed:
                return
            for time in waiting.pop(0):
                properties = {"RiskType": "x", "SecuritySymbol": "A"}
                recorded.append(rec.emit("RiskEvent", T0 + time, properties))
            rec.flush()
            if not waiting:
                rec_closed.append(True)
                rec.close()

        rec_closed: list[bool] = []
        async with agent(home) as desk:
            rec.flush()
            cursor: str | None = None
            for turn in range(10_000):
                grow()
                extra = {} if cursor is None else {"cursor": cursor}
                page = await desk.call(
                    tool, runId=rec.run_id, pageSize=sizes[turn % len(sizes)], **which, **extra
                )
                metadata = page["metadata"]
                seen += [int(event["eventId"][-12:], 16) for event in page["events"]]
                assert metadata["totalCount"] >= len(seen)
                cursor = metadata.get("nextCursor")
                if cursor is None:
                    break
        assert rec_closed
        assert sorted(seen) == recorded
        assert len(set(seen)) == len(seen)

    with tempfile.TemporaryDirectory() as folder:
        run(main(Path(folder)))


def test_a_view_frozen_by_a_cursor_does_not_change_when_earlier_events_arrive(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(6):
                rec.emit("RiskEvent", T0 + 10 + number, {"RiskType": "x", "N": number})
            rec.flush()
            async with agent(tmp_path) as desk:
                arguments: dict[str, Any] = {"runId": rec.run_id, "eventType": "RiskEvent", "pageSize": 3}
                first = await desk.call("get_events_by_type", **arguments)
                rec.emit("RiskEvent", T0, {"RiskType": "x", "N": 100})
                rec.emit("RiskEvent", T0 + 13, {"RiskType": "x", "N": 101})
                rec.flush()
                second = await desk.call(
                    "get_events_by_type", **arguments, cursor=first["metadata"]["nextCursor"]
                )
                assert [event["properties"]["N"] for event in second["events"]] == [3, 4, 5]
                assert second["metadata"]["totalCount"] == 6
                assert second["metadata"]["hasMore"] is False
                third = await desk.call(
                    "get_events_by_type", **arguments, cursor=second["metadata"]["nextCursor"]
                )
                assert [event["properties"]["N"] for event in third["events"]] == [100, 101]
                assert third["metadata"]["totalCount"] == 8
                now = await desk.call("get_events_by_type", **arguments)
                assert [event["properties"]["N"] for event in now["events"]] == [100, 0, 1]

    run(main())


def test_chains_of_a_growing_run_are_each_returned_once(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            for number in range(10):
                rec.emit("RiskEvent", T0 + number, {"RiskType": "x"})
            rec.flush()
            async with agent(tmp_path) as desk:
                arguments: dict[str, Any] = {"runId": rec.run_id, "pageSize": 4}
                page = await desk.call("query_event_sequence", **arguments)
                seen = [one["rootEventId"] for one in page["sequences"]]
                for turn in range(20):
                    if turn == 1:
                        rec.emit("RiskEvent", T0, {"RiskType": "x"})
                        rec.flush()
                    cursor = page["metadata"]["nextCursor"]
                    page = await desk.call("query_event_sequence", **arguments, cursor=cursor)
                    seen += [one["rootEventId"] for one in page["sequences"]]
                assert len(seen) == len(set(seen)) == 11

    run(main())
