"""Moments: the numeric part of any column, exact to the last digit, and back from bytes."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.backtest.moments import Part, merge, number, numbers, pack, unpack, within
from tracedesk.primitives import money
from tracedesk.primitives.money import Moments


def _decimal(units: int, scale: int) -> Decimal:
    return Decimal(units).scaleb(-scale)


DECIMALS = st.builds(_decimal, st.integers(-(10**20), 10**20), st.sampled_from((0, 2, 8, 18)))
VALUES: st.SearchStrategy[Any] = st.one_of(
    DECIMALS,
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    DECIMALS.map(str),
    st.text(max_size=5),
    st.booleans(),
    st.none(),
)


def oracle(column: list[Any]) -> list[tuple[int, Decimal]]:
    """The numbers of a column one by one."""
    found: list[tuple[int, Decimal]] = []
    for place, value in enumerate(column):
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
            continue
        try:
            found.append((place, money.parse(repr(value) if isinstance(value, float) else value)))
        except ValueError:
            continue
    return found


@given(
    st.one_of(
        st.lists(VALUES, min_size=1),
        st.lists(DECIMALS, min_size=1),
        st.lists(st.floats(-1e9, 1e9), min_size=1),
    )
)
def test_a_column_of_anything_has_the_moments_of_its_numbers(column: list[Any]) -> None:
    expected = oracle(column)
    found = numbers(column)
    if not expected:
        assert found is None
        return
    assert found is not None
    places, values = zip(*expected, strict=True)
    assert tuple(range(len(column)) if found.places is None else found.places) == places
    assert [money.from_units(unit, found.scale) for unit in found.units] == list(values)
    assert found.moments == Moments.of(values)
    assert money.to_text(found.least) == money.to_text(min(values))
    assert money.to_text(found.greatest) == money.to_text(max(values))


def test_numbers_with_2_8_and_18_decimals_lose_nothing() -> None:
    column = [Decimal("175.50"), Decimal("0.00000001"), Decimal("0.123456789012345678")]
    found = numbers(column)
    assert found is not None
    assert found.scale == 18
    assert found.moments.sum() == Decimal("175.623456799012345678")


@pytest.mark.parametrize(
    "value", [True, None, "", "abc", "1,5", "NaN", {}, [], Decimal("1e200"), 10**200, "1e500"]
)
def test_what_is_no_exact_number_is_none(value: Any) -> None:
    assert number(value) is None


@pytest.mark.parametrize(
    ("value", "text"), [("12.50", "12.50"), (0.1, "0.1"), (7, "7"), (Decimal("1.00"), "1.00")]
)
def test_a_number_keeps_its_digits(value: Any, text: str) -> None:
    found = number(value)
    assert found is not None
    assert money.to_text(found) == text


@given(st.lists(st.integers(-(2**200), 2**200), min_size=1))
def test_integers_of_any_size_come_back_from_their_bytes(units: list[int]) -> None:
    width, data = pack(units)
    assert list(unpack(width, data)) == units


@pytest.mark.parametrize(
    ("unit", "width"),
    [
        (127, 1),
        (-128, 1),
        (128, 2),
        (-129, 2),
        (2**31 - 1, 4),
        (-(2**31), 4),
        (2**31, 8),
        (2**63 - 1, 8),
        (-(2**63), 8),
        (2**63, 9),
    ],
)
def test_the_width_is_the_least_that_fits(unit: int, width: int) -> None:
    assert pack([0, unit])[0] == width


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[Part], list[tuple[int, Decimal]]]:
    """A chunk's numbers in several parts, and the same as one list."""
    ordinals = sorted(draw(st.sets(st.integers(0, 4_095), min_size=1, max_size=30)))
    values = [draw(DECIMALS) for _ in ordinals]
    cuts = sorted({0, len(ordinals), *draw(st.lists(st.integers(0, len(ordinals)), max_size=4))})
    found: list[Part] = []
    for low, high in pairwise(cuts):
        column = numbers(values[low:high])
        assert column is not None
        found.append(Part.of(column.units, column.scale, ordinals[low:high]))
    return found, list(zip(ordinals, values, strict=True))


@given(parts())
def test_joining_parts_changes_no_number_and_no_place(
    case: tuple[list[Part], list[tuple[int, Decimal]]],
) -> None:
    given_parts, expected = case
    whole = merge(given_parts)
    values = [money.from_units(unit, whole.scale) for unit in whole.values()]
    assert list(zip(whole.ordinals(), values, strict=True)) == expected


@given(parts(), st.integers(-1, 4_096), st.integers(-1, 4_096))
def test_the_edge_of_a_chunk_has_the_moments_of_its_own_numbers(
    case: tuple[list[Part], list[tuple[int, Decimal]]], first: int, last: int
) -> None:
    given_parts, expected = case
    chosen = Moments.of(value for ordinal, value in expected if first <= ordinal <= last)
    found = sum((within(part, first, last) for part in given_parts), Moments())
    assert (found.count, found.sum()) == (chosen.count, chosen.sum())
    assert found.squares == chosen.squares * 10 ** (2 * (found.scale - chosen.scale))


@pytest.mark.parametrize("shown", ["{}", "-{}"])
def test_a_number_just_below_the_bound_is_exact_and_one_at_it_is_none(shown: str) -> None:
    below = Decimal(shown.format("9" * 96 + ".5"))
    found = numbers([below, 1])
    assert found is not None
    assert [money.from_units(unit, found.scale) for unit in found.units] == [below, 1]
    assert numbers([Decimal(shown.format("1" + "0" * 96 + ".0"))]) is None
    assert numbers([int(shown.format("9" * 96))]) is not None
    assert numbers([int(shown.format("1" + "0" * 96))]) is None
