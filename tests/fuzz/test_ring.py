"""The ring of newest events: bounded, newest first, and no type can push another out of its share."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.fuzz.ring import CAPACITY, QUOTAS, TYPES, Ring, stamp
from tracedesk.primitives import json
from tracedesk.primitives.time import parse

SMALL = {"PropertyFalsified": 3, "CoverageIncreased": 2, "TransactionExecuted": 4}


def test_the_shares_fill_the_ring_of_2500() -> None:
    assert CAPACITY == 2_500 == sum(QUOTAS.values())
    assert set(TYPES) == {
        "PropertyFalsified",
        "TransactionExecuted",
        "CoverageIncreased",
        "WorkerStarted",
        "WorkerStopped",
    }
    with pytest.raises(ValueError, match="add up"):
        Ring(10, SMALL)


def test_a_flood_of_transactions_pushes_out_no_falsification() -> None:
    ring = Ring()
    for number in range(500):
        ring.push("PropertyFalsified", 0, number, {"n": number})
    for number in range(100_000):
        ring.push("TransactionExecuted", 1, number, {})
    assert len(ring) == CAPACITY
    kept = ring.newest(CAPACITY, "PropertyFalsified")
    assert [event.data["n"] for event in kept] == list(range(499, -1, -1))


def test_one_type_alone_may_use_the_whole_ring() -> None:
    ring = Ring()
    for number in range(CAPACITY + 1):
        ring.push("TransactionExecuted", 0, number, {})
    assert len(ring.newest(CAPACITY)) == CAPACITY == len(ring)


@given(st.lists(st.tuples(st.sampled_from(tuple(SMALL)), st.integers(0, 2), st.integers(0, 50)), max_size=60))
def test_the_ring_agrees_with_a_model_that_keeps_everything(pushed: list[tuple[str, int, int]]) -> None:
    ring = Ring(9, SMALL)
    everything: list[tuple[int, str, int]] = []
    for seq, (kind, worker, when) in enumerate(pushed, 1):
        ring.push(kind, worker, when, {})
        everything.append((seq, kind, worker))
    events = ring.newest(100)
    assert len(events) == len(ring) == min(9, len(pushed))
    assert [event.seq for event in events] == sorted((event.seq for event in events), reverse=True)
    assert [event.time_ns for event in events] == sorted((event.time_ns for event in events), reverse=True)
    kept = Counter(event.kind for event in events)
    for kind, share in SMALL.items():
        of_kind = [seq for seq, k, _ in everything if k == kind]
        assert kept[kind] >= min(share, len(of_kind)), "a share is never taken by another type"
        assert [e.seq for e in events if e.kind == kind] == of_kind[::-1][: kept[kind]], "the newest are kept"


@given(st.integers(1, 12), st.sampled_from((None, *SMALL)), st.sampled_from((None, 0, 1)))
def test_filters_apply_before_the_count_and_the_total_ignores_them(
    count: int, kind: str | None, worker: int | None
) -> None:
    ring = Ring(9, SMALL)
    for number in range(9):
        ring.push(tuple(SMALL)[number % 3], number % 2, number, {})
    answer = json.loads(json.dumps(ring.answer(count, kind, worker)))
    fitting = [e for e in ring.newest(9) if kind in (None, e.kind) and worker in (None, e.worker)]
    assert answer["totalCount"] == 9
    assert [event["data"]["seq"] for event in answer["events"]] == [e.seq for e in fitting[:count]]


def test_a_clock_that_steps_back_does_not_turn_the_order_around() -> None:
    ring = Ring()
    ring.push("WorkerStarted", 0, 2_000_000_000, {})
    ring.push("WorkerStarted", 1, 1_000_000_000, {})
    newest, oldest = ring.newest(2)
    assert (newest.worker, newest.time_ns) == (1, oldest.time_ns)


@given(st.integers(0, 2**62))
def test_a_time_is_utc_with_six_places_and_z(when: int) -> None:
    text = stamp(when)
    assert len(text) == 27
    assert text.endswith("Z")
    assert parse(text).ns == when // 1_000 * 1_000
