"""Filters: judged in whole numbers, on the border and one unit beside it, each with its remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.orders.desks import INSTRUMENT, LIMIT, MARKET, Market
from tracedesk.errors import ToolError
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.orders.filters import Standing, check
from tracedesk.exchange.orders.ticket import Ticket
from tracedesk.exchange.units import decimal, text, units

STOP = {**LIMIT, "order_type": "STOP_LOSS_LIMIT", "stop_price": "50100"}


def _check(
    order: dict[str, Any], market: Market | None = None, standing: Standing | None = None
) -> list[str]:
    return check(Ticket.of(order), (market or Market()).view(), standing or Standing())


def _fails(
    order: dict[str, Any], market: Market | None = None, standing: Standing | None = None
) -> tuple[str, str]:
    with pytest.raises(ToolError) as refused:
        _check(order, market, standing)
    assert refused.value.code == "FILTER_FAILURE"
    details = refused.value.details or {}
    assert refused.value.message.startswith(f"{details['field']}: {details['filter']}: ")
    return details["filter"], details["field"]


def test_an_order_that_fits_passes_every_filter_that_is_named() -> None:
    assert _check(LIMIT) == [
        "PRICE_FILTER",
        "LOT_SIZE",
        "MARKET_LOT_SIZE",
        "NOTIONAL",
        "PERCENT_PRICE_BY_SIDE",
        "MAX_NUM_ORDERS",
        "MAX_NUM_ALGO_ORDERS",
        "MAX_POSITION",
    ]


@pytest.mark.parametrize(
    ("changes", "filter", "field"),
    [
        ({"price": "49900.001"}, "PRICE_FILTER", "price"),
        ({"price": "0.001"}, "PRICE_FILTER", "price"),
        ({"price": "1000000.01"}, "PRICE_FILTER", "price"),
        ({"quantity": "0.000001"}, "LOT_SIZE", "quantity"),
        ({"quantity": "0.010001"}, "LOT_SIZE", "quantity"),
        ({"quantity": "9000.00001"}, "LOT_SIZE", "quantity"),
        ({"quantity": "0.0001", "price": "49999.99"}, "NOTIONAL", "quantity"),
        ({"price": "250000.01"}, "PERCENT_PRICE_BY_SIDE", "price"),
        ({"price": "9999.99"}, "PERCENT_PRICE_BY_SIDE", "price"),
        ({"order_type": "STOP_LOSS_LIMIT", "stop_price": "50100.005"}, "PRICE_FILTER", "stop_price"),
        ({"quantity": "500.00001"}, "NOTIONAL", "quantity"),
    ],
)
def test_a_value_one_unit_outside_is_refused_by_name(
    changes: dict[str, str], filter: str, field: str
) -> None:
    assert _fails({**LIMIT, **changes}) == (filter, field)


@pytest.mark.parametrize(
    "changes",
    [
        {"price": "250000", "quantity": "1"},
        {"price": "10000", "quantity": "0.0005"},
        {"quantity": "0.0001", "price": "50000"},
    ],
)
def test_a_value_on_the_border_passes(changes: dict[str, str]) -> None:
    assert _check({**LIMIT, **changes})


def test_a_market_order_has_a_lot_of_its_own_and_the_average_price_for_its_worth() -> None:
    assert _fails({**MARKET, "quantity": "100.00001"}) == ("MARKET_LOT_SIZE", "quantity")
    assert _fails({**MARKET, "quantity": "0.00009"}) == ("NOTIONAL", "quantity")
    assert _check({**MARKET, "quantity": "0.0001"})


def test_without_an_average_price_the_filters_that_need_it_are_left_to_the_venue() -> None:
    judged = _check({**LIMIT, "price": "400000"}, Market(average=None))
    assert "PERCENT_PRICE_BY_SIDE" not in judged


def test_orders_and_positions_are_counted_with_what_rests() -> None:
    stop = {"symbol": "BTCUSDT", "type": "STOP_LOSS_LIMIT", "side": "BUY", "origQty": "1", "executedQty": "0"}
    other = {**stop, "symbol": "ETHUSDT"}
    assert _fails(STOP, standing=Standing([stop, stop])) == ("MAX_NUM_ALGO_ORDERS", "symbol")
    assert _check(STOP, standing=Standing([stop, other]))
    assert _check(LIMIT, standing=Standing([stop, stop]))
    assert _fails(LIMIT, standing=Standing([stop] * 200)) == ("MAX_NUM_ORDERS", "symbol")
    held = Standing([{**stop, "executedQty": "0.5"}], units("499.49"))
    assert _check(LIMIT, standing=held)
    assert _fails({**LIMIT, "quantity": "0.01001"}, standing=held) == ("MAX_POSITION", "quantity")
    assert _check({**LIMIT, "side": "SELL", "quantity": "5"}, standing=held)


def test_a_symbol_that_is_not_trading_takes_nothing() -> None:
    closed = Market(instrument=replace(INSTRUMENT, status="BREAK"))
    assert _fails(LIMIT, closed) == ("STATUS", "symbol")
    few = Market(instrument=replace(INSTRUMENT, order_types=("LIMIT",)))
    assert _fails(MARKET, few) == ("ORDER_TYPES", "order_type")


def test_a_bound_of_zero_is_none() -> None:
    rules = {"filterType": "PRICE_FILTER", "minPrice": "0", "maxPrice": "0", "tickSize": "0"}
    free = Instrument("X", "B", "Q", "TRADING", 0, 0, (), {"PRICE_FILTER": rules})
    assert _check({**LIMIT, "symbol": "X", "price": "0.00000001"}, Market(instrument=free)) == [
        "PRICE_FILTER"
    ]


@given(st.integers(1, 10**14), st.sampled_from([1, 10**2, 10**6, 25 * 10**5]))
def test_the_value_that_a_refusal_offers_is_on_the_step_and_nearest(value: int, tick: int) -> None:
    rules = {"filterType": "PRICE_FILTER", "minPrice": "0", "maxPrice": "0", "tickSize": text(tick)}
    instrument = Instrument("X", "B", "Q", "TRADING", tick, 0, (), {"PRICE_FILTER": rules})
    order = {**LIMIT, "symbol": "X", "price": text(value)}
    if value % tick == 0:
        assert _check(order, Market(instrument=instrument)) == ["PRICE_FILTER"]
        return
    with pytest.raises(ToolError) as refused:
        _check(order, Market(instrument=instrument))
    low = value - value % tick
    assert f"use {decimal(low)} or {decimal(low + tick)}." in refused.value.message
