"""Whole units of 1e-8 to and from text, without losing a digit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.exchange.units import ONE, decimal, notional, text, units

AMOUNTS = st.integers(-(10**20), 10**20)


@given(AMOUNTS)
def test_text_with_all_places_comes_back_as_it_was(value: int) -> None:
    assert units(text(value)) == value
    assert units(str(decimal(value))) == value
    assert Decimal(text(value)) == Decimal(value).scaleb(-8) == decimal(value)


@given(st.integers(0, 10**20), st.integers(0, 8))
def test_text_with_fewer_places_is_exact_or_refused(value: int, places: int) -> None:
    if value % 10 ** (8 - places):
        with pytest.raises(ValueError, match="more than"):
            text(value, places)
    else:
        shown = text(value, places)
        assert Decimal(shown) == decimal(value)
        assert len(shown.partition(".")[2]) == places


@pytest.mark.parametrize(
    ("given", "expected"),
    [("1", ONE), ("0.00000001", 1), ("1e-8", 1), ("-2.5", -5 * ONE // 2), ("00012.50000000", 25 * ONE // 2)],
)
def test_a_decimal_text_is_read_exactly(given: str, expected: int) -> None:
    assert units(given) == expected


@pytest.mark.parametrize("given", ["", ".", "x", "1.000000001", "1,5", "٣.00000000", "nan", "1 ", "0x10"])
def test_what_is_no_number_of_units_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        units(given)


@given(st.integers(1, 10**14), st.integers(1, 10**14), st.integers(1, 10**14))
def test_amounts_round_down_so_that_parts_never_cost_more_than_the_whole(
    price: int, one: int, two: int
) -> None:
    assert notional(price, one) == int(decimal(price) * decimal(one) * ONE)
    assert 0 <= notional(price, one + two) - notional(price, one) - notional(price, two) <= 1
