"""Tickets: the fields that each type of order has, exactly read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.exchange.orders.desks import INSTRUMENT, LIMIT, MARKET
from tracedesk.errors import ToolError
from tracedesk.exchange.orders.ticket import Ticket

STOP = {**LIMIT, "order_type": "STOP_LOSS_LIMIT", "stop_price": "50100"}


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({**LIMIT, "symbol": " "}, "symbol"),
        ({**LIMIT, "symbol": "BTC USDT"}, "symbol"),
        ({**LIMIT, "symbol": "B" * 51}, "symbol"),
        ({**LIMIT, "side": "HOLD"}, "side"),
        ({**LIMIT, "order_type": "ICEBERG"}, "order_type"),
        ({**LIMIT, "quantity": "0"}, "quantity"),
        ({**LIMIT, "quantity": "-1"}, "quantity"),
        ({**LIMIT, "quantity": "0.000000001"}, "quantity"),
        ({**LIMIT, "quantity": "NaN"}, "quantity"),
        ({**LIMIT, "quantity": "1e300"}, "quantity"),
        ({**LIMIT, "quantity": None}, "quantity"),
        ({**LIMIT, "price": None}, "price"),
        ({**LIMIT, "price": "92000000000", "quantity": "2"}, "quantity"),
        ({**LIMIT, "stop_price": "1"}, "stop_price"),
        ({**LIMIT, "time_in_force": "DAY"}, "time_in_force"),
        ({**MARKET, "price": "1"}, "price"),
        ({**MARKET, "time_in_force": "GTC"}, "time_in_force"),
        ({**STOP, "stop_price": None}, "stop_price"),
        ({**LIMIT, "order_type": "LIMIT_MAKER", "time_in_force": "GTC"}, "time_in_force"),
    ],
)
def test_a_field_that_does_not_fit_is_named(order: dict[str, Any], field: str) -> None:
    with pytest.raises(ToolError) as refused:
        Ticket.of(order)
    assert refused.value.code == "INVALID_PARAMETER"
    assert refused.value.message.startswith(f"{field}: ")
    assert refused.value.details == {"field": field}


def test_the_venue_is_sent_its_own_names_and_the_places_of_the_instrument() -> None:
    assert Ticket.of(STOP).wire(INSTRUMENT) == {
        "symbol": "BTCUSDT",
        "side": "BUY",
        "type": "STOP_LOSS_LIMIT",
        "quantity": "0.01000",
        "price": "49900.00",
        "timeInForce": "GTC",
        "stopPrice": "50100.00",
    }


def test_numbers_may_be_text_whole_or_decimal_and_are_the_same_order() -> None:
    given = [{**LIMIT, "quantity": quantity} for quantity in ("2", "2.0", 2, Decimal("2.000"))]
    assert len({Ticket.of(order) for order in given}) == 1


def test_only_letters_of_ascii_have_an_upper_case() -> None:
    assert Ticket.of({**LIMIT, "symbol": " btcusdt"}).symbol == "BTCUSDT"
    assert Ticket.of({**LIMIT, "symbol": "btcu\u017fdt"}).symbol == "BTCU\u017fDT"


def test_a_difference_is_found_in_the_order_of_the_fields() -> None:
    first = Ticket.of(LIMIT)
    assert first.difference(Ticket.of(LIMIT)) is None
    assert first.difference(Ticket.of({**LIMIT, "quantity": "1", "price": "1"})) == "quantity"
