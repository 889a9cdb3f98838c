import json
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from statistics import fmean, pstdev, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracedesk.primitives import money
from tracedesk.primitives.money import Moments

decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=9)
steps = st.sampled_from(
    [Decimal(text) for text in ("0.01", "0.05", "0.25", "0.00000100", "1", "5", "1E+2", "0.3")]
)


@pytest.mark.parametrize(
    ("given_value", "text"),
    [
        ("12.50", "12.50"),
        ("-0.1234567890123456789", "-0.1234567890123456789"),
        ("+1", "1"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e-8", "0.00000001"),
        ("1E+3", "1000"),
        (7, "7"),
        (-(2**256), str(-(2**256))),
        (Decimal("1.50"), "1.50"),
        ("-0.00", "0.00"),
        (0, "0"),
        ("9" * 96, "9" * 96),
    ],
)
def test_a_number_keeps_exactly_the_digits_it_was_given(given_value: object, text: str) -> None:
    assert money.to_text(money.parse(given_value)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "1_000",
        "1,5",
        "٣",
        "１",
        "0x10",
        "NaN",
        "sNaN",
        "Infinity",
        "-inf",
        "1e",
        "--1",
        ".",
        "e5",
    ],
)
def test_text_that_is_not_a_plain_decimal_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it like 12\.50"):
        money.parse(text)


@pytest.mark.parametrize("value", [0.1, 1.0, float("nan"), float("inf")])
def test_a_binary_float_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="binary float is not exact"):
        money.parse(value)


@pytest.mark.parametrize("value", [True, None, [], {}, b"1"])
def test_other_json_values_are_not_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        money.parse(value)


@pytest.mark.parametrize(
    "value", [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-Infinity")]
)
def test_special_decimals_are_refused_everywhere(value: Decimal) -> None:
    with pytest.raises(ValueError, match="finite"):
        money.parse(value)
    with pytest.raises(ValueError, match="finite"):
        money.scale_of(value)
    with pytest.raises(ValueError, match="finite"):
        money.to_units(value, 2)
    with pytest.raises(ValueError, match="finite"):
        money.quantise(value, 2)


@pytest.mark.parametrize(
    "value",
    [
        "1e97",
        "1e-97",
        "1e9999",
        "0e9999",
        "0e-9999",
        "9" * 97,
        "0." + "1" * 97,
        pytest.param("1" * 5000, id="5000 characters"),
        10**96,
        pytest.param(-(10**5000), id="5001 digits"),
        Decimal("1e999999"),
    ],
)
def test_numbers_built_to_exhaust_memory_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="too l"):
        money.parse(value)


@given(decimals)
def test_parsing_the_text_of_a_decimal_returns_that_decimal(value: Decimal) -> None:
    assert money.parse(money.to_text(value)) == value
    assert money.parse(str(value)) == value


@given(decimals)
def test_exact_text_is_a_json_number_with_the_same_value(value: Decimal) -> None:
    assert json.loads(money.to_text(value), parse_float=Decimal, parse_int=Decimal) == value


@given(st.integers(), st.integers(0, 40))
def test_units_and_decimals_are_two_spellings_of_one_value(units: int, scale: int) -> None:
    value = money.from_units(units, scale)
    assert money.to_units(value, scale) == units
    assert money.scale_of(value) == scale
    assert Fraction(value) == Fraction(units, 10**scale)


def test_units_refuse_a_value_with_more_places_than_the_scale() -> None:
    with pytest.raises(ValueError, match=r"1\.0050 has 3 decimal places; at most 2"):
        money.to_units(Decimal("1.0050"), 2)


def test_trailing_zeros_do_not_count_as_lost_places() -> None:
    assert money.to_units(Decimal("1.5000"), 1) == 15


@pytest.mark.parametrize(
    "call",
    [
        lambda: money.from_units(1, -1),
        lambda: money.to_units(Decimal(1), -1),
        lambda: money.quantise(Decimal(1), -1),
    ],
)
def test_a_negative_scale_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="must not be negative"):
        call()


@pytest.mark.parametrize(
    ("value", "text"),
    [("1.500", "1.5"), ("100", "100"), ("1E+2", "100"), ("0.000", "0"), ("-3.00", "-3"), ("2.50e3", "2500")],
)
def test_trimming_drops_only_zeros_after_the_point(value: str, text: str) -> None:
    assert str(money.trim(Decimal(value))) == text


@pytest.mark.parametrize(
    ("value", "half_even", "floor", "ceil"),
    [
        ("1.005", "1.00", "1.00", "1.01"),
        ("1.015", "1.02", "1.01", "1.02"),
        ("-1.005", "-1.00", "-1.01", "-1.00"),
        ("-1.015", "-1.02", "-1.02", "-1.01"),
        ("2", "2.00", "2.00", "2.00"),
    ],
)
def test_quantising_rounds_half_to_even_unless_told_otherwise(
    value: str, half_even: str, floor: str, ceil: str
) -> None:
    number = Decimal(value)
    assert str(money.quantise(number, 2)) in (half_even, half_even.replace("-0.00", "0.00"))
    assert str(money.quantise(number, 2, "floor")) == floor
    assert str(money.quantise(number, 2, "ceil")) == ceil


@given(decimals, st.integers(0, 12))
def test_quantising_agrees_with_the_decimal_module(value: Decimal, scale: int) -> None:
    expected = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_EVEN, Context(prec=80))
    assert money.quantise(value, scale) == expected


@given(decimals, steps)
def test_a_stepped_price_is_the_nearest_multiple_on_the_asked_side(value: Decimal, step: Decimal) -> None:
    low, high = money.floor_to(value, step), money.ceil_to(value, step)
    nearest = money.round_to(value, step)
    assert low <= value <= high
    assert Fraction(high) - Fraction(low) in (0, Fraction(step))
    assert nearest in (low, high)
    assert abs(Fraction(nearest) - Fraction(value)) * 2 <= Fraction(step)
    assert all(money.is_multiple(number, step) for number in (low, high, nearest))
    assert money.is_multiple(value, step) == (low == high)


def test_a_stepped_price_is_written_with_the_scale_of_the_tick() -> None:
    assert str(money.floor_to(Decimal("27.93999"), Decimal("0.0100"))) == "27.9300"
    assert str(money.round_to(Decimal("0.125"), Decimal("0.05"))) == "0.10"


@pytest.mark.parametrize("step", ["0", "-0.01"])
def test_a_step_must_be_positive(step: str) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        money.floor_to(Decimal(1), Decimal(step))


def test_division_needs_a_positive_denominator() -> None:
    with pytest.raises(ValueError, match="positive"):
        money.divide(1, 0)


def test_the_mean_has_six_places_more_than_the_largest_input_scale() -> None:
    moments = Moments.of([Decimal("1.5"), Decimal("2.25"), Decimal("1")])
    assert str(moments.mean()) == "1.58333333"
    assert str(moments.sum()) == "4.75"


def test_a_mean_on_the_midpoint_rounds_to_the_even_digit() -> None:
    assert str(Moments(count=2_000_000, total=1, squares=1).mean()) == "0.000000"
    assert str(Moments(count=2_000_000, total=3, squares=3).mean()) == "0.000002"


def test_a_deviation_on_the_midpoint_rounds_to_the_even_digit() -> None:
    # Two values that lie 1 apart among n: chosen so that the root is exactly half a unit of the last place.
    assert str(Moments(count=2_000_000, total=0, squares=2_000_000).deviation()) == "1.000000"
    halves = Moments(count=4, total=0, squares=4 * 25, scale=7)
    assert str(halves.deviation()) == "5.000000E-7"


def test_undefined_moments_are_none_and_a_single_value_has_no_spread() -> None:
    assert Moments().mean() is None
    assert Moments().deviation() is None
    single = Moments.of([Decimal("3.10")])
    assert str(single.deviation()) == "0E-8"
    assert single.deviation("sample") is None


def test_contradicting_moments_are_an_error_and_not_a_number() -> None:
    with pytest.raises(ValueError, match="contradict"):
        Moments(count=2, total=10, squares=1).deviation()


def test_large_equal_values_have_exactly_no_deviation() -> None:
    assert Moments.of([Decimal("123456789012345678.12")] * 1000).deviation() == 0


@given(st.lists(decimals, min_size=1, max_size=30))
def test_mean_and_deviation_are_the_correctly_rounded_exact_values(values: list[Decimal]) -> None:
    moments = Moments.of(values)
    mean, spread = moments.mean(), moments.deviation()
    assert mean is not None
    assert spread is not None
    exact = sum(map(Fraction, values)) / len(values)
    variance = sum((Fraction(value) - exact) ** 2 for value in values) / len(values)
    half = Fraction(1, 2 * 10 ** (moments.scale + 6))
    assert abs(Fraction(mean) - exact) <= half
    assert max(Fraction(spread) - half, Fraction(0)) ** 2 <= variance <= (Fraction(spread) + half) ** 2


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=20))
def test_both_kinds_of_deviation_agree_with_the_statistics_module(values: list[int]) -> None:
    moments = Moments.of(map(Decimal, values))
    assert float(moments.mean() or 0) == pytest.approx(fmean(values), abs=1e-6)
    assert float(moments.deviation("population") or 0) == pytest.approx(pstdev(values), abs=1e-6)
    assert float(moments.deviation("sample") or 0) == pytest.approx(stdev(values), abs=1e-6)


@given(st.lists(decimals), st.lists(st.decimals(-100, 100, places=2)))
def test_merging_moments_equals_taking_them_together(left: list[Decimal], right: list[Decimal]) -> None:
    merged = Moments.of(left) + Moments.of(right)
    assert merged == Moments.of([*left, *right])


def test_nothing_depends_on_the_ambient_decimal_context() -> None:
    values = [Decimal("123456789.123456789"), Decimal("0.000000001"), Decimal("-7")]

    def answers() -> list[object]:
        moments = Moments.of(values)
        return [
            money.parse("1234567.891"),
            money.to_text(values[0]),
            money.trim(Decimal("1234567.8900")),
            money.to_units(values[0], 9),
            money.from_units(123456789123, 3),
            money.quantise(values[0], 4),
            money.floor_to(values[0], Decimal("0.05")),
            moments.mean(),
            moments.deviation(),
        ]

    usual = answers()
    with localcontext(Context(prec=2, Emax=3, Emin=-3)):
        assert answers() == usual
