from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.codegraph.rank.calibration import REFERENCE, TABLE, calibrated, likeness, mass, relative

raws = st.floats(0, 1)


def test_the_table_rises_from_nothing_to_everything() -> None:
    assert (TABLE[0], TABLE[-1]) == ((0.0, 0.0), (1.0, 1.0))
    for (raw, score), (next_raw, next_score) in itertools.pairwise(TABLE):
        assert raw < next_raw
        assert score <= next_score


def test_every_row_is_met_exactly() -> None:
    assert [calibrated(raw) for raw, _ in TABLE] == [score for _, score in TABLE]


@given(raws, raws)
def test_order_is_kept_and_scores_stay_within_bounds(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= calibrated(low) <= calibrated(high) <= 1


@given(st.floats(allow_nan=False))
def test_what_is_out_of_bounds_is_taken_as_the_bound(raw: float) -> None:
    assert calibrated(raw) == calibrated(min(1.0, max(0.0, raw)))


def test_a_weak_likeness_stays_below_the_default_score_and_a_strong_one_is_well_above() -> None:
    assert calibrated(0.15) < 0.1
    assert calibrated(REFERENCE) == 0.2
    assert calibrated(0.8) >= 0.4


@given(st.floats(0, 1), st.floats(0.1, 0.8))
def test_what_random_pairs_seldom_reach_is_the_same_everywhere(raw: float, level: float) -> None:
    assert relative(level, level) == pytest.approx(REFERENCE)
    assert (relative(raw, level) >= REFERENCE) == (raw >= level) or raw == pytest.approx(level)
    assert 0 <= relative(raw, level) <= 1


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 0.8))
def test_beside_what_is_usual_the_order_stays(one: float, other: float, level: float) -> None:
    low, high = sorted((one, other))
    assert relative(low, level) <= relative(high, level)


@given(st.floats(0, 0.999))
def test_a_mass_has_the_likeness_that_it_was_made_of(raw: float) -> None:
    assert likeness(mass(raw)) == pytest.approx(raw)


def test_even_a_full_likeness_has_a_mass() -> None:
    assert mass(0.999) < mass(1.0) < float("inf")
