"""Symbols as they are published, read into units."""

from __future__ import annotations

from tests.exchange.venue.support import entry, without_filters
from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.units import units


def test_steps_and_places_come_from_the_filters() -> None:
    found = Instrument.of(entry())
    assert (found.symbol, found.base, found.quote) == ("BTCUSDT", "BTC", "USDT")
    assert (found.tick, found.step) == (units("0.01"), units("0.001"))
    assert (found.price_places, found.quantity_places) == (2, 3)
    assert found.is_trading
    assert "LIMIT_MAKER" in found.order_types


def test_a_symbol_without_steps_shows_all_places() -> None:
    found = Instrument.of(without_filters("PRICE_FILTER", "LOT_SIZE"))
    assert (found.tick, found.step, found.price_places, found.quantity_places) == (0, 0, 8, 8)


def test_numbers_are_shown_with_the_places_of_their_step() -> None:
    found = Instrument.of(entry())
    assert found.price_text(units("50000")) == "50000.00"
    assert found.quantity_text(units("0.5")) == "0.500"
    assert found.price_text(units("0.005")) == "0.00500000"


def test_a_step_of_one_or_more_has_no_places() -> None:
    rules = entry()
    rules["filters"] = [
        {"filterType": "LOT_SIZE", "minQty": "10", "maxQty": "1000", "stepSize": "10.00000000"}
    ]
    found = Instrument.of(rules | {"status": "BREAK"})
    assert found.quantity_places == 0
    assert found.quantity_text(units("120")) == "120"
    assert not found.is_trading
