"""Arguments become trades or a refusal that names the field; equal requests have equal bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracedesk.errors import ToolError
from tracedesk.primitives import json
from tracedesk.trading import params
from tracedesk.trading.model import Trade

BUY: dict[str, Any] = {"symbol": "IBM", "action": "buy", "quantity": 10, "order_type": "market"}
LIMIT: dict[str, Any] = {**BUY, "order_type": "limit", "price": Decimal("200.5")}
STOP: dict[str, Any] = {**BUY, "order_type": "stop", "stop_price": 210}


def refused(work: Callable[[], object]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        work()
    assert caught.value.code == "INVALID_INPUT"
    assert caught.value.details is not None
    assert caught.value.details["retryable"] is False
    return caught.value


def code_of(items: object) -> str | None:
    try:
        params.trades(items, fractional=True, resting_orders=True)
    except ToolError as error:
        return error.code
    return None


def trade(leg: dict[str, Any], **options: bool) -> Trade:
    chosen = {"fractional": True, "resting_orders": True, **options}
    return params.trades([leg], **chosen)[0]


def without(leg: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in leg.items() if key != name}


# --- ids and symbols ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a", "quote_001", "A-b.c:d_9", "x" * 128])
def test_a_call_id_is_kept_verbatim(text: str) -> None:
    assert params.call_id(text) == text


@pytest.mark.parametrize("text", ["", "x" * 129, "a b", "é", "a\n", "a/b", 7, None])
def test_another_call_id_is_refused(text: object) -> None:
    error = refused(lambda: params.call_id(text))
    assert error.details == {"path": ["tool_call_id"], "retryable": False}
    assert error.message.startswith("tool_call_id must be 1 to 128 characters")


def test_a_symbol_is_trimmed_and_put_in_capitals() -> None:
    assert params.symbol(" brk.b ") == "BRK.B"
    assert params.symbol("^gspc") == "^GSPC"
    assert params.symbol("eurusd=x") == "EURUSD=X"


@pytest.mark.parametrize("text", ["", "  ", "A B", "A" * 16, "ÄPL", "ß", "ﬁ", "A/B", "A\nB", 5, None, True])
def test_what_is_no_symbol_is_refused(text: object) -> None:
    assert refused(lambda: params.symbol(text)).details == {"path": ["symbol"], "retryable": False}


def test_symbols_keep_their_order_and_appear_once() -> None:
    assert params.symbols(["msft", "AAPL", " MSFT", "ibm"]) == ["MSFT", "AAPL", "IBM"]


def test_a_list_of_symbols_is_neither_empty_nor_longer_than_100() -> None:
    assert len(params.symbols([f"S{i}" for i in range(100)])) == 100
    assert "at most 100" in refused(lambda: params.symbols([f"S{i}" for i in range(101)])).message
    assert "at least one symbol" in refused(lambda: params.symbols([])).message
    error = refused(lambda: params.symbols(["IBM", "no good"]))
    assert error.details == {"path": ["symbols", 1], "retryable": False}
    assert error.message.startswith("symbols[1] ")


# --- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "units"),
    [(1, 10**9), (Decimal("1.0"), 10**9), (0.1, 10**8), (Decimal("1E+2"), 10**11), (Decimal("1e-9"), 1)],
)
def test_a_quantity_becomes_billionths(value: object, units: int) -> None:
    assert params.quantity(value) == units


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0, "above 0"),
        (-1, "above 0"),
        (Decimal("-0.0"), "above 0"),
        (True, "finite number"),
        ("1", "finite number"),
        (None, "finite number"),
        (float("nan"), "finite number"),
        (float("inf"), "finite number"),
        (Decimal("sNaN"), "finite number"),
        (1e308, "at most 1000000000"),
        (Decimal("1E+6144"), "at most 1000000000"),
        (10**400, "at most 1000000000"),
        (Decimal("1000000000.1"), "at most 1000000000"),
        (Decimal("1E-10"), "9 decimal places"),
        (Decimal("1E-6144"), "9 decimal places"),
        (Decimal("1.234567890123456"), "15 significant digits"),
    ],
)
def test_a_quantity_that_is_none_is_refused(value: object, problem: str) -> None:
    error = refused(lambda: trade({**BUY, "quantity": value}))
    assert problem in error.message
    assert error.message.startswith("trades[0].quantity ")
    assert error.details == {"path": ["trades", 0, "quantity"], "trade_index": 0, "retryable": False}


def test_fifteen_digits_are_counted_without_the_zeros_around_them() -> None:
    assert params.quantity(Decimal("123456.789012345000")) == 123456_789012345
    assert params.quantity(Decimal("0.000000001")) == 1


def test_without_fractions_a_quantity_is_whole() -> None:
    assert trade({**BUY, "quantity": Decimal("3.0")}, fractional=False).quantity == 3 * 10**9
    error = refused(lambda: trade({**BUY, "quantity": Decimal("3.5")}, fractional=False))
    assert "whole number" in error.message
    assert trade({**BUY, "quantity": Decimal("3.5")}).quantity == 3_500_000_000


@pytest.mark.parametrize("value", [0, -1, True, float("nan"), 10_000_001, Decimal("1e-7"), 1e308])
def test_a_price_that_is_none_is_refused(value: object) -> None:
    error = refused(lambda: trade({**LIMIT, "price": value}))
    assert error.details == {"path": ["trades", 0, "price"], "trade_index": 0, "retryable": False}


def test_the_largest_trade_fits_a_64_bit_column() -> None:
    from tracedesk.trading.units import notional

    largest = trade({**LIMIT, "quantity": params.MOST_QUANTITY, "price": params.MOST_PRICE})
    assert largest.price is not None
    assert max(largest.quantity, largest.price, notional(largest.quantity, largest.price)) < 2**63


# --- trades ------------------------------------------------------------------------------------


def test_each_type_of_order_becomes_its_trade() -> None:
    assert trade(BUY) == Trade("IBM", "buy", 10 * 10**9)
    assert trade({**LIMIT, "time_in_force": "gtc"}) == Trade(
        "IBM", "buy", 10 * 10**9, "limit", 200_500_000, None, "gtc"
    )
    assert trade({**STOP, "action": "sell", "symbol": "msft"}) == Trade(
        "MSFT", "sell", 10 * 10**9, "stop", None, 210_000_000
    )


@pytest.mark.parametrize(
    ("leg", "field", "problem"),
    [
        ({**BUY, "price": 5}, "price", "does not go with order_type 'market'"),
        ({**BUY, "stop_price": 5}, "stop_price", "does not go with order_type 'market'"),
        (without(LIMIT, "price"), "price", "a limit order needs it"),
        ({**LIMIT, "stop_price": 5}, "stop_price", "does not go with order_type 'limit'"),
        (without(STOP, "stop_price"), "stop_price", "a stop order needs it"),
        ({**STOP, "price": 5}, "price", "does not go with order_type 'stop'"),
        ({**BUY, "time_in_force": "day"}, "time_in_force", "never rests"),
        ({**LIMIT, "time_in_force": "fok"}, "time_in_force", "one of ioc, day, gtc"),
        ({**BUY, "order_type": "stop_limit"}, "order_type", "one of market, limit, stop"),
        ({**BUY, "action": "short"}, "action", "one of buy, sell"),
        (without(BUY, "symbol"), "symbol", "is missing"),
        (without(BUY, "order_type"), "order_type", "is missing"),
        ({**BUY, "note": 1}, "note", "is not known"),
    ],
)
def test_a_leg_that_does_not_fit_together_names_its_field(leg: Any, field: str, problem: str) -> None:
    error = refused(lambda: params.trades([BUY, leg], fractional=True, resting_orders=True))
    assert error.details == {"path": ["trades", 1, field], "trade_index": 1, "retryable": False}
    assert error.message.startswith(f"trades[1].{field} ")
    assert problem in error.message


def test_resting_orders_are_refused_where_they_are_off() -> None:
    leg = {**LIMIT, "time_in_force": "day"}
    assert trade(leg).time_in_force == "day"
    assert "resting_orders" in refused(lambda: trade(leg, resting_orders=False)).message
    assert trade({**LIMIT, "time_in_force": "ioc"}, resting_orders=False).time_in_force == "ioc"


@pytest.mark.parametrize("items", [[], [BUY] * 101, {}, None, ["IBM"]])
def test_a_batch_has_1_to_100_legs(items: object) -> None:
    error = refused(lambda: params.trades(items, fractional=True, resting_orders=True))
    assert error.details is not None
    assert error.details["path"][0] == "trades"
    assert len(params.trades([BUY] * 100, fractional=True, resting_orders=True)) == 100


def test_a_simulated_leg_with_a_price_is_an_immediate_limit_order() -> None:
    leg = {"symbol": "ibm", "action": "sell", "quantity": 1}
    plain, priced = params.simulated([leg, {**leg, "price": 200}], fractional=True)
    assert plain == Trade("IBM", "sell", 10**9)
    assert priced == Trade("IBM", "sell", 10**9, "limit", 200_000_000)
    assert "is not known" in refused(lambda: params.simulated([BUY], fractional=True)).message


# --- canonical requests ------------------------------------------------------------------------


def test_the_canonical_request_is_sorted_filled_and_exact() -> None:
    leg = {"symbol": " ibm", "action": "buy", "quantity": Decimal("10.50"), "order_type": "market"}
    request = params.canonical("trade_execute", {"trades": [leg], "tool_call_id": "t1", "user_id": "me"})
    assert request == (
        b'{"arguments":{"rationale_refs":[],"trades":[{"action":"buy","order_type":"market","quantity":10.5,'
        b'"symbol":"IBM","time_in_force":"ioc"}]},"tool":"trade_execute"}'
    )
    assert params.digest(request) == hashlib.sha256(request).hexdigest()


@pytest.mark.parametrize(
    ("tool", "one", "other"),
    [
        ("get_quotes", {"symbols": ["aapl", "IBM"]}, {"symbols": ["AAPL ", "ibm", "aapl"]}),
        ("trade_execute", {"trades": [BUY]}, {"trades": [{**BUY, "quantity": Decimal("10.000")}]}),
        ("trade_execute", {"trades": [BUY]}, {"trades": [{**BUY, "time_in_force": "ioc"}]}),
        ("trade_execute", {"trades": [BUY]}, {"trades": [{**BUY, "quantity": Decimal("1E+1")}]}),
        ("get_news", {"symbols": ["A"]}, {"symbols": ["A"], "hours_back": Decimal("24.0")}),
        ("get_history", {"symbol": "a", "period": "1y"}, {"symbol": "A", "period": "1y", "interval": "1d"}),
        ("get_history", {"symbol": "a", "period": "1d"}, {"symbol": "A", "period": "1d", "interval": "5m"}),
        ("log_event", {"data": {"a": 1, "b": 2}}, {"severity": "low", "data": {"b": Decimal("2.0"), "a": 1}}),
        ("get_risk", {"weights": {"ibm": Decimal("0.5")}}, {"weights": {"IBM": Decimal("0.50")}}),
        ("log_event", {"data": {"n": Decimal("-0.0")}}, {"data": {"n": 0}}),
    ],
)
def test_other_spellings_of_a_request_are_equal(tool: str, one: Any, other: Any) -> None:
    assert params.canonical(tool, {**one, "tool_call_id": "a"}) == params.canonical(tool, other)


@pytest.mark.parametrize(
    ("tool", "one", "other"),
    [
        ("get_quotes", {"symbols": ["A", "B"]}, {"symbols": ["B", "A"]}),
        ("trade_execute", {"trades": [BUY]}, {"trades": [{**BUY, "quantity": 11}]}),
        ("trade_execute", {"trades": [BUY]}, {"trades": [BUY, BUY]}),
        ("trade_execute", {"trades": [LIMIT]}, {"trades": [{**LIMIT, "time_in_force": "day"}]}),
        ("log_event", {"data": {"n": 1}}, {"data": {"n": "1"}}),
        ("log_event", {"data": {"n": 1}}, {"data": {"n": True}}),
        ("log_event", {"data": {"symbol": "ibm"}}, {"data": {"symbol": "IBM"}}),
    ],
)
def test_different_requests_are_different(tool: str, one: Any, other: Any) -> None:
    assert params.canonical(tool, one) != params.canonical(tool, other)


def test_the_same_arguments_to_another_tool_are_another_request() -> None:
    args = {"symbols": ["IBM"]}
    assert params.canonical("get_quotes", args) != params.canonical("get_fundamentals", args)


def test_a_symbol_weighted_twice_is_refused() -> None:
    error = refused(lambda: params.canonical("get_risk", {"weights": {"ibm": 1, "IBM": 2}}))
    assert "second time" in error.message


def test_arguments_that_nest_without_end_are_refused() -> None:
    data: Any = 1
    for _ in range(300):
        data = {"a": [data]}
    assert "nest deeper" in refused(lambda: params.canonical("log_event", {"data": data})).message


def test_long_arguments_are_refused_before_they_are_put_in_order() -> None:
    """Done on the event loop, 250,000 members of an event's data held it for 1.3 seconds."""
    data: dict[str, Any] = {f"member {number}": {} for number in range(100_000)}
    assert "131072 bytes" in refused(lambda: params.canonical("log_event", {"data": data})).message


def test_members_are_sorted_by_utf_16_code_units() -> None:
    # RFC 8785 §3.2.3: the emoji's surrogates sort before U+FB33, though its code point is larger.
    request = params.canonical("log_event", {"data": {"\ufb33": 1, "😂": 2, "€": 3, "1": 4}})
    assert list(json.loads(request)["arguments"]["data"]) == ["1", "€", "😂", "\ufb33"]


@settings(derandomize=True, deadline=None, database=None, max_examples=200)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.integers(0, 6))
def test_trailing_zeros_never_change_a_request(value: Decimal, zeros: int) -> None:
    padded = Decimal(f"{value:f}{'0' * zeros}")
    assert params.canonical("log_event", {"data": {"n": value}}) == params.canonical(
        "log_event", {"data": {"n": padded}}
    )
    assert (
        json.loads(params.canonical("log_event", {"data": {"n": value}}))["arguments"]["data"]["n"] == value
    )


@settings(derandomize=True, deadline=None, database=None, max_examples=300)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.decimals(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
        max_leaves=6,
    )
)
def test_no_trade_list_is_anything_but_trades_or_a_refusal(items: Any) -> None:
    broken = ([{**BUY, "quantity": items}], [{**LIMIT, "price": items, "symbol": items}])
    for listed in (items, [items], *broken):
        assert code_of(listed) in (None, "INVALID_INPUT")
