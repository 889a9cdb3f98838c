from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.book.sync import ASK, Change
from tracedesk.exchange.book.tape import Ring, Tape
from tracedesk.exchange.series import Covered


def test_rows_come_back_by_time_with_both_ends_included() -> None:
    tape = Tape()
    for ns in (10, 20, 30, 40):
        tape.touch(ns, ns + 1, 99, 5, 101, 6)
    found = tape.touches(20, 30)
    assert (found.ns.tolist(), found.id.tolist()) == ([20, 30], [21, 31])
    assert (found.bid.tolist(), found.ask_quantity.tolist()) == ([99, 99], [6, 6])


def test_a_print_keeps_who_made_the_price() -> None:
    tape = Tape()
    tape.print(5, 1, 100, 7, True)
    tape.print(6, 2, 101, 8, False)
    found = tape.prints(0, 10)
    assert (found.price.tolist(), found.quantity.tolist(), found.maker.tolist()) == (
        [100, 101],
        [7, 8],
        [1, 0],
    )


def test_changes_come_back_as_a_step_brought_them() -> None:
    tape = Tape()
    tape.changes([Change(5, 9, ASK, 101, 1, 0)])
    found = tape.changed(0, 10)
    assert (found.side.tolist(), found.before.tolist(), found.after.tolist()) == ([-1], [1], [0])


def test_an_empty_tape_answers_with_empty_columns_and_no_coverage() -> None:
    tape = Tape()
    assert len(tape.touches(0, 10)) == len(tape.prints(0, 10)) == len(tape.changed(0, 10)) == 0
    assert set(tape.coverage.values()) == {None}


def test_an_answer_stays_as_it_was_while_the_tape_goes_on() -> None:
    tape = Tape(capacity=4)
    tape.print(1, 1, 100, 1, True)
    found = tape.prints(0, 10)
    for ns in range(2, 500):
        tape.print(ns, ns, 100, 1, True)
    assert found.ns.tolist() == [1]


def test_coverage_reaches_to_the_last_sign_of_life() -> None:
    tape = Tape()
    tape.print(10, 1, 100, 1, True)
    tape.reached(50)
    assert tape.coverage["prints"] == Covered(10, 50)
    assert tape.coverage["touches"] == Covered(50, 50)


def test_a_row_is_never_dated_before_the_one_it_follows() -> None:
    tape = Tape()
    tape.print(10, 1, 100, 1, True)
    tape.print(8, 2, 100, 1, True)
    assert tape.prints(0, 20).ns.tolist() == [10, 10]


def test_a_value_that_does_not_fit_leaves_the_ring_as_it_was() -> None:
    tape = Tape()
    tape.print(1, 1, 100, 1, True)
    with pytest.raises(OverflowError):
        tape.print(2, 2, 100, 2**63, True)
    tape.print(3, 3, 100, 5, False)
    found = tape.prints(0, 9)
    assert (found.ns.tolist(), found.quantity.tolist(), found.maker.tolist()) == ([1, 3], [1, 5], [1, 0])


def test_an_interruption_forgets_what_is_not_continued() -> None:
    tape = Tape()
    tape.touch(10, 1, 99, 1, 101, 1)
    tape.touched.interrupted(30)
    tape.touch(40, 2, 99, 1, 101, 1)
    assert tape.touches(0, 100).ns.tolist() == [40]
    assert tape.coverage["touches"] == Covered(30, 40, 1)


@given(gaps=st.lists(st.integers(0, 2), min_size=1, max_size=400), capacity=st.integers(1, 50))
def test_a_full_ring_holds_its_newest_rows_and_every_row_of_the_time_it_says_it_knows(
    gaps: list[int], capacity: int
) -> None:
    ring = Ring(2, capacity)
    rows: list[tuple[int, int]] = []
    ns = 0
    for number, gap in enumerate(gaps):
        ns += gap
        rows.append((ns, number))
        ring.append((ns, number))
    covered = ring.coverage
    assert covered is not None
    assert len(ring) >= min(capacity, len(rows))
    assert covered.dropped == len(rows) - len(ring)
    times, ids = ring.between(covered.from_ns, covered.to_ns)
    expected = [row for row in rows if covered.from_ns <= row[0] <= covered.to_ns]
    assert list(zip(times.tolist(), ids.tolist(), strict=True)) == expected
