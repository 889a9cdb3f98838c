"""What a reader remembers of a run between two questions, and when it has to forget it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.backtest.desks import T0, agent, record, story
from tests.support import run
from tracedesk.backtest import paths, rebuild
from tracedesk.backtest.model import STREAM_KIND
from tracedesk.backtest.query import Recording, Selection
from tracedesk.backtest.times import stamp
from tracedesk.home import Home
from tracedesk.journal import Journal, Reader, StreamPruned
from tracedesk.primitives import money
from tracedesk.primitives.time import EARLIEST, LATEST, format

GUID = "0d9c6e2a-7c1b-4f6e-9a53-1f2e3d4c5b6a"


def seen(reader: Reader, id: str) -> Recording:
    """The run as the reader sees it in a transaction of its own."""
    with reader.connection:
        found = Recording.of(reader, id)
        assert found is not None
        return found


def test_a_run_is_looked_up_once_as_long_as_nobody_writes_to_its_file(tmp_path: Path) -> None:
    with record(tmp_path) as rec:
        rec.emit("RiskEvent", T0, {"RiskType": "x"})
        rec.flush()
        with Reader(rec.path) as reader:
            first = seen(reader, rec.run_id)
            assert seen(reader, rec.run_id) is first
            rec.emit("RiskEvent", T0 + 1, {"RiskType": "y"})
            rec.flush()
            second = seen(reader, rec.run_id)
            assert (first.head, second.head) == (1, 2)
            assert (first.status, second.status) == ("running", "running")
            rec.close()
            assert seen(reader, rec.run_id).status == "ended"


def test_a_run_that_is_pruned_between_two_questions_is_not_answered_from_memory(tmp_path: Path) -> None:
    id = story(tmp_path)
    path = Home(tmp_path).run_file(id)
    with Reader(path) as reader:
        assert seen(reader, id).head == 13
        with Journal(path) as journal:
            journal.prune(id)
        with pytest.raises(StreamPruned):
            seen(reader, id)


def test_tables_that_are_rebuilt_between_two_questions_are_read_anew(tmp_path: Path) -> None:
    id = story(tmp_path)
    path = Home(tmp_path).run_file(id)
    fills = Selection(types=(1,))
    with Reader(path) as reader, Journal(path) as journal:
        assert seen(reader, id).count(fills) == 2
        journal.connection.execute("UPDATE tally SET n = 7 WHERE type = 1")
        assert seen(reader, id).count(fills) == 7
        stream = journal.open(id, STREAM_KIND)
        rebuild.tables(journal.connection, stream)
        assert seen(reader, id).count(fills) == 2


def test_while_tables_are_rebuilt_the_reader_does_not_use_what_it_knew_of_them(tmp_path: Path) -> None:
    id = story(tmp_path)
    path = Home(tmp_path).run_file(id)
    with Reader(path) as reader, Journal(path) as journal:
        seen(reader, id)
        journal.connection.execute("UPDATE recording SET indexed = 0")
        with reader.connection:
            assert Recording.of(reader, id) is None


def test_the_first_event_with_a_guid_of_its_own_is_named_by_it_as_a_parent(tmp_path: Path) -> None:
    async def main() -> None:
        with record(tmp_path) as rec:
            rec.emit("RiskEvent", T0, {"RiskType": "x"})
            rec.flush()
            async with agent(tmp_path) as desk:
                which = {"runId": rec.run_id, "eventType": "RiskEvent"}
                assert len((await desk.call("get_events_by_type", **which))["events"]) == 1
                own = rec.emit("RiskEvent", T0 + 1, {"RiskType": "y"}, guid=GUID)
                rec.emit("RiskEvent", T0 + 2, {"RiskType": "z"}, parent=own)
                rec.flush()
                events = (await desk.call("get_events_by_type", **which))["events"]
        assert (events[1]["eventId"], events[2]["parentEventId"]) == (GUID, GUID)

    run(main())


@pytest.mark.parametrize(("size", "index"), [(2, 0), (3, 0), (4, 0), (2, 1), (3, 1), (2, 2)])
def test_a_page_of_an_order_has_the_whole_count_whether_it_is_full_or_not(
    tmp_path: Path, size: int, index: int
) -> None:
    with record(tmp_path) as rec:
        for number in range(3):
            rec.trade(T0 + number, "o", "A", "Buy", 1, 1)
            rec.trade(T0 + number, "other", "A", "Buy", 1, 1)

    async def main() -> Any:
        about = {"entityType": "OrderId", "entityValue": "o", "pageSize": size, "pageIndex": index}
        async with agent(tmp_path) as desk:
            return await desk.call("get_events_by_entity", runId=rec.run_id, **about)

    found = run(main())
    seqs = [int(event["eventId"][-12:], 16) for event in found["events"]]
    assert seqs == [1, 3, 5][index * size : (index + 1) * size]
    assert found["metadata"]["totalCount"] == 3
    assert found["metadata"]["hasMore"] is ((index + 1) * size < 3)


@given(ns=st.integers(EARLIEST, LATEST) | st.integers(-(10**9), 10**9).map(lambda s: s * 10**9))
@example(ns=0)
@example(ns=-1)
@example(ns=T0 + 59 * 10**9)
def test_a_stamp_is_the_text_of_its_instant(ns: int) -> None:
    assert stamp(ns).decode() == format(ns)


@given(
    value=st.decimals(allow_nan=True, allow_infinity=True)
    | st.integers()
    | st.text("0123456789.eE+-", max_size=12)
    | st.booleans()
)
@example(value=Decimal("-0.00"))
@example(value=Decimal("NaN123"))
@example(value=Decimal("1E+95"))
@example(value=Decimal("1E+96"))
@example(value=Decimal("1E-97"))
@example(value=Decimal("9" * 64))
@example(value=Decimal("9" * 97))
@example(value=10**96)
def test_a_number_is_what_exact_parsing_makes_of_it(value: Any) -> None:
    try:
        wanted = None if isinstance(value, bool) else money.parse(value)
    except ValueError:
        wanted = None
    assert repr(paths.number(value)) == repr(wanted)
