"""Engines' numbers and times, as a recording keeps them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy
import pytest

from tracedesk.backtest.adapters import values
from tracedesk.backtest.adapters.values import exact, figure
from tracedesk.backtest.adapters.vectorbt import Column


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1.5, 1.5),
        (numpy.float64(0.1), 0.1),
        (numpy.float32(0.5), 0.5),
        (numpy.int64(7), 7),
        (numpy.bool_(True), 1),
        (True, 1),
        (math.nan, None),
        (numpy.inf, None),
        (None, None),
        ("3", None),
    ],
)
def test_a_number_is_a_plain_one_or_none(given: Any, kept: Any) -> None:
    found = values.number(given)
    assert found == kept
    assert type(found) in (int, float, type(None))


def test_whole_quantities_lose_their_point_and_others_keep_their_digits() -> None:
    assert [repr(values.quantity(value)) for value in (100.0, -3.0, 0.25)] == ["100", "-3", "0.25"]
    assert values.size(-3.0) == 3


def test_an_instant_is_exact_to_the_microsecond_and_naive_times_are_utc() -> None:
    moment = datetime(2009, 3, 31, 21, 0, 0, 1)
    assert values.instant(moment) == 1_238_533_200_000_001_000
    assert values.instant(moment.replace(tzinfo=UTC)) == values.instant(moment)
    east = moment.replace(tzinfo=timezone(timedelta(hours=1)))
    assert values.instant(east) == values.instant(moment) - 3_600 * 10**9


def test_parameters_are_single_finite_values() -> None:
    given = {"n": numpy.int64(3), "k": 2.0, "of": numpy.zeros(3), "by": len, "name": "x", "nan": math.nan}
    assert values.scalars(given) == {"n": 3, "k": 2.0, "name": "x"}


def test_the_engines_floats_are_taken_by_their_shortest_digits_and_ours_are_exact() -> None:
    units, price = exact(0.1), exact(3.0)
    assert units * 3 == Decimal("0.3")
    assert figure(units * 3 * price) == Decimal("0.9")
    assert figure(exact(1) / exact(3)) == Decimal("0.333333333333")


def test_a_figure_made_from_a_missing_number_is_none() -> None:
    assert figure(exact(2.5) * exact(math.nan)) is None


def test_a_position_of_tenths_is_averaged_and_realised_without_a_trace_of_binary() -> None:
    column = Column("X", [0.7])
    assert column.took(exact(0.1), exact(0.3), exact(0.01)) is None
    assert column.took(exact(0.2), exact(0.6), exact(0.0)) is None
    assert column.holding(0).average == Decimal("0.5")
    assert column.took(exact(-0.3), exact(0.7), exact(0.0)) == Decimal("0.06")
    assert column.holding(0).realized == Decimal("0.05")
    assert (column.units, column.cost) == (0, 0)


def test_a_position_that_turns_starts_anew_at_the_price_of_the_turn() -> None:
    column = Column("X", [9.0])
    column.took(exact(2.0), exact(10.0), exact(0.0))
    assert column.took(exact(-5.0), exact(8.0), exact(0.0)) == Decimal(-4)
    held = column.holding(0)
    assert (held.quantity, held.average, held.unrealized) == (-3, 8, -3)
