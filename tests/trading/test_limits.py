"""The limits, edge by edge: exactly at one is allowed, one unit beyond is not, and a way out stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracedesk.errors import ToolError
from tracedesk.trading.limits import Day, Judgement, Skipped, Tail, Violation, judge, reductions, value
from tracedesk.trading.model import Portfolio, Position, Trade
from tracedesk.trading.settings import Limits

SHARE: Final = 10**9
DOLLAR: Final = 10**6
LOOSE: Final = Limits(
    max_order_notional=Decimal(10**30),
    max_position_weight=Decimal(10),
    max_gross_leverage=Decimal(10),
    max_var_95_1d=Decimal(1),
    max_daily_loss=Decimal(1),
    max_orders_per_minute=1000,
)
CALM: Final = Tail(0.01)
CLOSED: Final = Day(None, is_open=False)


def account(cash: str = "0", **shares: float) -> Portfolio:
    held = {symbol: Position(symbol, int(count * SHARE), 0) for symbol, count in shares.items()}
    return Portfolio("default", int(Decimal(cash) * 100), held)


def buy(symbol: str, count: float) -> Trade:
    return Trade(symbol, "buy", int(count * SHARE))


def sell(symbol: str, count: float) -> Trade:
    return Trade(symbol, "sell", int(count * SHARE))


def at(price: str) -> int:
    return int(Decimal(price) * DOLLAR)


def traded(before: Portfolio, trades: Sequence[Trade], prices: Sequence[int], fees: int = 0) -> Portfolio:
    """The account after the trades filled whole at their prices."""
    cash, held = before.cash, {symbol: p.quantity for symbol, p in before.positions.items()}
    for trade, price in zip(trades, prices, strict=True):
        cash -= trade.sign * round(Fraction(trade.quantity * price, 10**13)) + fees
        held[trade.symbol] = held.get(trade.symbol, 0) + trade.sign * trade.quantity
    return replace(before, cash=cash, positions={s: Position(s, q, 0) for s, q in held.items() if q})


def judged(limits: Limits, before: Portfolio, *trades: Trade, fees: int = 0, **given_: Any) -> Judgement:
    """Judge trades at 100 dollars a share, unless told otherwise; shorts may be sold."""
    marks = {symbol: at("100") for symbol in (*before.positions, *(t.symbol for t in trades))}
    marks |= given_.pop("marks", {})
    prices = given_.pop("prices", [marks[trade.symbol] for trade in trades])
    facts: dict[str, Any] = {
        "tail": CALM,
        "day": CLOSED,
        "orders_last_minute": 0,
        "short_selling": True,
        **given_,
    }
    state = facts.pop("state", "ACTIVE")
    after = facts.pop("after", None) or traded(before, trades, prices, fees)
    return judge(
        limits, state, before=before, after=after, marks=marks, trades=trades, prices=prices, **facts
    )


def violations(*args: Any, **given_: Any) -> list[Violation]:
    return judged(*args, **given_).violations


# --- valuation -----------------------------------------------------------------------------------


def test_the_worked_simulation_has_the_weights_on_record() -> None:
    marks = {"AAPL": at("430.47"), "GOOG": at("806.19"), "IBM": at("202.91"), "MSFT": at("27.95")}
    after = value(account("10761.48", AAPL=20, GOOG=10, IBM=60, MSFT=200), marks)
    assert after.total_cents == 4_519_738
    assert after.market_values == {"AAPL": 860_940, "GOOG": 806_190, "IBM": 1_217_460, "MSFT": 559_000}
    wanted = {
        "AAPL": 0.190484492685195,
        "GOOG": 0.178370958670613,
        "IBM": 0.269365171167001,
        "MSFT": 0.123679735418292,
    }
    found = {symbol: weight for symbol, weight in after.weights.items() if weight is not None}
    assert {symbol: float(weight) for symbol, weight in found.items()} == pytest.approx(wanted, rel=1e-12)
    assert after.risk_weights() == pytest.approx(wanted, rel=1e-12)
    assert after.cash_weight is not None
    assert float(after.cash_weight) == pytest.approx(0.238099642058898, rel=1e-12)
    before = value(account("10000", AAPL=20, GOOG=10, IBM=50, MSFT=300), marks)
    assert before.total_cents == 4_520_180


def test_without_a_positive_total_there_are_no_weights() -> None:
    for cash in ("-1000", "-1000.01"):
        worth = value(account(cash, X=10), {"X": at("100")})
        assert (worth.weights, worth.cash_weight, worth.risk_weights()) == ({"X": None}, None, None)


def test_a_short_position_has_a_negative_weight() -> None:
    worth = value(account("2000", X=-10), {"X": at("100")})
    assert (worth.total_cents, worth.gross_cents) == (100_000, 100_000)
    assert (worth.weights, worth.cash_weight) == ({"X": Decimal(-1)}, Decimal(2))


def test_a_position_without_a_price_is_refused_by_its_symbol() -> None:
    with pytest.raises(ToolError, match="'Y'") as refused:
        value(account("1", X=1, Y=1), {"X": at("1")})
    assert refused.value.code == "DATA_UNAVAILABLE"
    assert value(account("1", X=1, Y=0), {"X": at("1")}).total_cents == 200


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**12), st.lists(st.tuples(st.integers(1, 10**15), st.integers(1, 10**9)), max_size=60)
)
def test_all_weights_and_the_cash_sum_to_one(cash: int, lines: list[tuple[int, int]]) -> None:
    names = [f"S{number}" for number in range(len(lines))]
    held = {s: Position(s, count, 0) for s, (count, _) in zip(names, lines, strict=True)}
    worth = value(Portfolio("a", cash, held), {s: price for s, (_, price) in zip(names, lines, strict=True)})
    parts = [*worth.weights.values(), worth.cash_weight]
    if worth.total_cents > 0:
        assert abs(sum(Fraction(part) for part in parts if part is not None) - 1) < Fraction(1, 10**12)
    else:
        assert set(parts) == {None}


# --- the size of an order ------------------------------------------------------------------------


def test_an_order_of_exactly_the_largest_notional_is_allowed_and_a_millionth_more_is_not() -> None:
    limits = replace(LOOSE, max_order_notional=Decimal("10000"))
    rich = account("1000000")
    assert violations(limits, rich, buy("X", 100)) == []
    (broken,) = violations(limits, rich, buy("X", 100), prices=[at("100.000001")])
    # Rounded up to the cent: it never looks as if it met the limit.
    assert broken == Violation("max_order_notional", Decimal("10000"), Decimal("10000.01"), "X")


def test_the_size_binds_a_way_out_too_and_each_order_alone() -> None:
    limits = replace(LOOSE, max_order_notional=Decimal("10000"))
    big = account("0", X=150)
    assert [v.symbol for v in violations(limits, big, sell("X", 150))] == ["X"]
    assert violations(limits, big, sell("X", 75), sell("X", 75)) == []


# --- weight --------------------------------------------------------------------------------------

WEIGHT: Final = replace(LOOSE, max_position_weight=Decimal("0.15"))


def test_a_weight_of_exactly_the_limit_is_allowed_and_a_cent_more_is_not() -> None:
    assert violations(WEIGHT, account("100000"), buy("X", 150)) == []
    (broken,) = violations(WEIGHT, account("100000"), buy("X", 150.0001))
    assert (broken.limit, broken.allowed, broken.symbol) == ("max_position_weight", Decimal("0.15"), "X")
    assert broken.observed == Decimal("0.150000100000000")


def test_what_is_observed_never_looks_as_if_it_met_the_limit() -> None:
    # One cent too much of a billion billion: beyond the places of a ratio it is still more than allowed.
    rich = account("1000000000000000000")
    (broken,) = violations(WEIGHT, rich, buy("X", 1), marks={"X": at("150000000000000000.01")})
    assert broken.observed == Decimal("0.150000000000001")


def test_a_sale_that_lowers_a_weight_that_is_too_large_is_allowed() -> None:
    heavy = account("50000", X=500)
    assert violations(WEIGHT, heavy, sell("X", 10)) == []
    # Even when its fee outweighs it, so that the weight itself grows.
    assert violations(WEIGHT, heavy, sell("X", 0.001), fees=100) == []


def test_buying_more_of_what_weighs_too_much_is_refused() -> None:
    (broken,) = violations(WEIGHT, account("50000", X=500), buy("X", 1))
    assert broken.observed == Decimal("0.501")


def test_more_shares_that_weigh_less_than_before_are_allowed() -> None:
    # Another trade of the batch brought in far more than its mark.
    assert violations(WEIGHT, account("50000", X=500), buy("X", 1), after=account("60000", X=501)) == []


def test_what_else_weighs_too_much_does_not_stop_a_trade() -> None:
    # Fees make the untouched weight of X grow a little.
    assert violations(WEIGHT, account("50000", X=500), buy("Y", 10), fees=100) == []


def test_a_short_position_weighs_as_much_as_a_long_one() -> None:
    assert violations(WEIGHT, account("100000"), sell("X", 150)) == []
    (broken,) = violations(WEIGHT, account("100000"), sell("X", 151))
    assert (broken.limit, broken.observed) == ("max_position_weight", Decimal("0.151"))


def test_turning_a_position_around_is_judged_by_what_is_left() -> None:
    long = account("50000", X=500)
    assert violations(WEIGHT, long, sell("X", 1000)) == []
    (broken,) = violations(WEIGHT, long, sell("X", 1001))
    assert (broken.limit, broken.symbol) == ("max_position_weight", "X")


# --- leverage ------------------------------------------------------------------------------------

LEVERAGE: Final = replace(LOOSE, max_gross_leverage=Decimal("1.0"))


def test_leverage_of_exactly_one_is_allowed_and_a_cent_more_is_not() -> None:
    assert violations(LEVERAGE, account("10000"), buy("X", 50), buy("Y", 50)) == []
    (broken,) = violations(LEVERAGE, account("10000"), buy("X", 50), buy("Y", 50.0001))
    assert broken == Violation("max_gross_leverage", Decimal("1.0"), Decimal("1.000001"))


def test_short_and_long_values_add_up_to_leverage() -> None:
    assert [v.limit for v in violations(LEVERAGE, account("10000"), buy("X", 60), sell("Y", 41))] == [
        "max_gross_leverage"
    ]


def test_a_batch_that_lowers_the_gross_value_is_not_refused_for_leverage() -> None:
    indebted = account("-10000", X=200)
    assert violations(LEVERAGE, indebted, sell("X", 1)) == []
    assert violations(LEVERAGE, indebted, sell("X", 0.001), fees=100) == []
    assert [v.limit for v in violations(LEVERAGE, indebted, buy("Y", 0.001))] == ["max_gross_leverage"]


def test_with_nothing_left_any_growth_is_too_much_and_any_reduction_is_allowed() -> None:
    ruined = account("-20000", X=150)
    broken = violations(Limits(), ruined, buy("X", 1), tail=_unknown())
    assert [(v.limit, v.observed) for v in broken] == [
        ("max_position_weight", None),
        ("max_gross_leverage", None),
        ("max_var_95_1d", None),
    ]
    assert violations(Limits(), ruined, sell("X", 1), tail=_unknown()) == []


# --- value at risk -------------------------------------------------------------------------------


def _unknown() -> Tail:
    return Tail(None, "12 returns, limited by FB")


def _var(fraction: float) -> Tail:
    return Tail(fraction)


def test_value_at_risk_is_compared_as_the_number_that_it_is() -> None:
    limits = replace(LOOSE, max_var_95_1d=Decimal("0.0625"))
    assert violations(limits, account("10000"), buy("X", 1), tail=_var(0.0625)) == []
    (broken,) = violations(limits, account("10000"), buy("X", 1), tail=_var(0.0625 + 2**-56))
    assert broken == Violation("max_var_95_1d", Decimal("0.0625"), Decimal("0.062500000000001"))


def test_value_at_risk_does_not_close_the_way_out() -> None:
    limits = replace(LOOSE, max_var_95_1d=Decimal("0.05"))
    assert violations(limits, account("0", X=10), sell("X", 10), tail=_var(0.9)) == []
    both = violations(limits, account("1000", X=10), sell("X", 1), buy("Y", 0.1), tail=_var(0.9))
    assert [v.limit for v in both] == ["max_var_95_1d"]


def test_value_at_risk_that_is_not_known_is_broken_by_all_but_a_way_out_and_that_is_said() -> None:
    found = judged(Limits(), account("100000"), buy("X", 1), tail=_unknown())
    assert found.violations == [Violation("max_var_95_1d", Decimal("0.05"), None)]
    assert found.skipped[0].as_json() == {"limit": "max_var_95_1d", "reason": "12 returns, limited by FB"}
    out = judged(Limits(), account("100000", X=1), sell("X", 1), tail=_unknown())
    assert (out.violations, out.skipped[0].limit) == ([], "max_var_95_1d")


def test_a_value_at_risk_without_some_symbols_is_judged_and_what_it_left_out_is_said() -> None:
    found = judged(Limits(), account("100000"), buy("X", 1), tail=Tail(0.01, "judged without FB"))
    assert found.violations == []
    assert Skipped("max_var_95_1d", "judged without FB") in found.skipped


# --- the day's loss ------------------------------------------------------------------------------

LOSS: Final = replace(LOOSE, max_daily_loss=Decimal("0.05"))


def test_a_loss_of_exactly_the_limit_is_allowed_and_a_cent_more_is_not() -> None:
    assert violations(LOSS, account("9500"), buy("X", 1), day=Day(1_000_000)) == []
    (broken,) = violations(LOSS, account("9499.99"), buy("X", 1), day=Day(1_000_000))
    assert broken == Violation("max_daily_loss", Decimal("0.05"), Decimal("0.050001"))


def test_a_loss_beyond_the_places_of_a_ratio_never_looks_as_if_it_met_the_limit() -> None:
    (broken,) = violations(LOSS, account("949999999999999999.99"), buy("X", 1), day=Day(10**20))
    assert broken.observed == Decimal("0.050000000000001")


def test_costs_count_into_the_days_loss() -> None:
    assert [v.limit for v in violations(LOSS, account("9500"), buy("X", 1), fees=1, day=Day(1_000_000))] == [
        "max_daily_loss"
    ]


def test_after_a_bad_day_positions_can_still_be_closed() -> None:
    assert violations(LOSS, account("0", X=90), sell("X", 90), fees=100, day=Day(1_000_000)) == []


@pytest.mark.parametrize(
    ("day", "reason"),
    [(Day(None, "the day began with Y"), "the day began with Y"), (Day(0), "the day began with nothing")],
)
def test_a_loss_that_cannot_be_judged_is_broken_by_all_but_a_way_out(day: Day, reason: str) -> None:
    found = judged(LOSS, account("100"), buy("X", 1), day=day)
    skipped = [Skipped("max_daily_loss", reason)]
    assert found == Judgement([Violation("max_daily_loss", Decimal("0.05"), None)], skipped)
    assert judged(LOSS, account("100", X=1), sell("X", 1), day=day) == Judgement([], skipped)


def test_while_the_exchange_is_closed_there_is_no_days_loss_to_judge() -> None:
    found = judged(LOSS, account("100"), buy("X", 1), day=CLOSED)
    assert found == Judgement([], [Skipped("max_daily_loss", "the exchange is closed")])


# --- rate ----------------------------------------------------------------------------------------


def test_the_orders_of_the_last_minute_and_of_the_batch_are_counted_together() -> None:
    limits = replace(LOOSE, max_orders_per_minute=60)
    trades = [buy("X", 1), buy("Y", 1)]
    assert violations(limits, account("1000"), *trades, orders_last_minute=58) == []
    (broken,) = violations(limits, account("1000"), *trades, orders_last_minute=59)
    assert broken == Violation("max_orders_per_minute", 60, 61)
    assert violations(limits, account("1000"), orders_last_minute=99) == []


# --- states and shorts ---------------------------------------------------------------------------


def test_halted_refuses_every_trade_and_nothing_else() -> None:
    (broken,) = violations(LOOSE, account("0", X=10), sell("X", 1), sell("X", 1), state="HALTED")
    assert broken == Violation("state", "HALTED", "2 trades")
    assert violations(LOOSE, account("0", X=10), state="HALTED") == []


def test_reducing_allows_only_trades_towards_zero() -> None:
    held = account("10000", X=10, Y=-10)
    assert violations(LOOSE, held, sell("X", 10), buy("Y", 10), state="REDUCING") == []
    broken = violations(LOOSE, held, buy("X", 1), sell("Y", 0.5), buy("Z", 1), state="REDUCING")
    assert [(v.limit, v.allowed, v.observed, v.symbol) for v in broken] == [
        ("state", "REDUCING", "buy 1", "X"),
        ("state", "REDUCING", "sell 0.5", "Y"),
        ("state", "REDUCING", "buy 1", "Z"),
    ]


def test_reducing_looks_at_what_the_trades_before_have_left() -> None:
    held = account("0", X=10)
    assert violations(LOOSE, held, sell("X", 6), sell("X", 4), state="REDUCING") == []
    broken = violations(LOOSE, held, sell("X", 6), sell("X", 5), state="REDUCING")
    assert [v.observed for v in broken] == ["sell 5"]
    assert [v.observed for v in violations(LOOSE, held, sell("X", 11), state="REDUCING")] == ["sell 11"]


def test_a_short_position_is_refused_where_shorts_are_not_allowed() -> None:
    held = account("1000", X=10)
    assert violations(LOOSE, held, sell("X", 10), short_selling=False) == []
    (broken,) = violations(LOOSE, held, sell("X", 10.5), short_selling=False)
    assert broken == Violation("short_selling", 0, Decimal("-0.5"), "X")


def test_a_short_position_from_before_can_be_bought_back_where_shorts_are_not_allowed() -> None:
    short = account("5000", X=-10)
    assert violations(LOOSE, short, buy("X", 1), short_selling=False) == []
    assert [v.limit for v in violations(LOOSE, short, sell("X", 1), short_selling=False)] == ["short_selling"]


# --- all together --------------------------------------------------------------------------------


def test_all_violations_are_listed_at_once() -> None:
    found = judged(
        Limits(max_orders_per_minute=1),
        account("10000"),
        buy("X", 200),
        sell("Y", 1),
        state="REDUCING",
        tail=_var(0.06),
        day=Day(2_000_000),
        short_selling=False,
    )
    assert [(v.limit, v.symbol) for v in found.violations] == [
        ("state", "X"),
        ("state", "Y"),
        ("max_order_notional", "X"),
        ("max_orders_per_minute", None),
        ("short_selling", "Y"),
        ("max_position_weight", "X"),
        ("max_gross_leverage", None),
        ("max_var_95_1d", None),
        ("max_daily_loss", None),
    ]
    assert found.skipped == []


def test_a_violation_leaves_out_the_symbol_that_it_does_not_have() -> None:
    assert Violation("max_gross_leverage", Decimal(1), None).as_json() == {
        "limit": "max_gross_leverage",
        "allowed": Decimal(1),
        "observed": None,
    }
    assert Violation("max_order_notional", Decimal(1), Decimal(2), "X").as_json()["symbol"] == "X"


def test_each_trade_needs_its_price() -> None:
    with pytest.raises(ValueError, match="zip"):
        violations(LOOSE, account("1"), buy("X", 1), prices=[], after=account("1", X=1))


HELD: Final = st.dictionaries(st.sampled_from("ABCD"), st.integers(-50, 50).filter(bool), min_size=1)


@settings(max_examples=300, deadline=None)
@given(HELD, st.integers(-10_000, 10_000), st.data())
def test_a_batch_that_only_reduces_is_never_refused_for_risk(
    held: dict[str, int], cash: int, data: st.DataObject
) -> None:
    before = account(str(cash), **held)
    symbols = data.draw(st.lists(st.sampled_from(sorted(held)), min_size=1, max_size=6))
    left, trades = dict(held), list[Trade]()
    for symbol in symbols:
        count = data.draw(st.integers(0, abs(left[symbol])))
        if count:
            trades.append(sell(symbol, count) if left[symbol] > 0 else buy(symbol, count))
            left[symbol] -= count if left[symbol] > 0 else -count
    strict = replace(LOOSE, **dict.fromkeys(
        ("max_position_weight", "max_gross_leverage", "max_var_95_1d", "max_daily_loss"), Decimal(0)
    ))  # fmt: skip
    assert all(reductions(before, trades))
    found = violations(strict, before, *trades, fees=100, state="REDUCING", tail=_var(0.5), day=Day(10**9))
    assert found == []


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 20_000))
def test_growth_is_refused_exactly_when_the_weight_after_it_is_above_the_limit(
    had: int, more: int, cash: int
) -> None:
    before = account(str(cash), X=had, Y=30)
    found = violations(WEIGHT, before, buy("X", more))
    total = cash + 100 * (had + 30)
    assert bool(found) == (Fraction(100 * (had + more), total) > Fraction(15, 100))
