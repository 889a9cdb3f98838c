"""Every filter lets pass what lies on its bounds and holds back what lies beside them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exchange.venue.support import SYMBOL, Bench, asking, entry, with_filter, without_filters
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.filters import FilterFailed
from tracedesk.exchange.venue.listings import Listing, default
from tracedesk.exchange.venue.orders import NewOrder, VenueRefused


def _limit(quantity: str, price: str, side: str = "BUY", **asked: Any) -> NewOrder:
    return asking(side, "LIMIT", quantity, price=price, tif="GTC", **asked)


def _judge(bench: Bench, asked: NewOrder) -> str | None:
    """The filter that holds an order back."""
    try:
        bench.venue.test("ann", asked)
    except FilterFailed as refusal:
        return f"{refusal.code} {refusal.message}".removeprefix("-1013 Filter failure: ")
    return None


PRICE = with_filter("PRICE_FILTER", minPrice="20.00000000", maxPrice="200.00000000", tickSize="0.05000000")
LOT = with_filter("LOT_SIZE", minQty="0.01000000", maxQty="9.00000000", stepSize="0.01000000")
MARKET_LOT = with_filter("MARKET_LOT_SIZE", minQty="0.50000000", maxQty="2.00000000", stepSize="0.25000000")
PERCENT = with_filter("PERCENT_PRICE", multiplierUp="1.3000", multiplierDown="0.7000", avgPriceMins=5)
SIDED = with_filter(
    "PERCENT_PRICE_BY_SIDE",
    bidMultiplierUp="1.2",
    bidMultiplierDown="0.2",
    askMultiplierUp="5",
    askMultiplierDown="0.8",
    avgPriceMins=1,
)
NOTIONAL = with_filter(
    "NOTIONAL",
    minNotional="10.00000000",
    applyMinToMarket=True,
    maxNotional="1000.00000000",
    applyMaxToMarket=False,
    avgPriceMins=5,
)
LEAST = with_filter("MIN_NOTIONAL", minNotional="10.00000000", applyToMarket=False, avgPriceMins=0)
PARTS = with_filter("ICEBERG_PARTS", limit=10)
TRAILING = with_filter(
    "TRAILING_DELTA",
    minTrailingAboveDelta=10,
    maxTrailingAboveDelta=200,
    minTrailingBelowDelta=30,
    maxTrailingBelowDelta=400,
)

CASES: list[tuple[dict[str, Any], NewOrder, str | None]] = [
    (PRICE, _limit("1", "20"), None),
    (PRICE, _limit("1", "19.95"), "PRICE_FILTER"),
    (PRICE, _limit("1", "200"), None),
    (PRICE, _limit("1", "200.05"), "PRICE_FILTER"),
    (PRICE, _limit("1", "100.01"), "PRICE_FILTER"),
    (PRICE, asking("SELL", "STOP_LOSS", "1", stop="50.01"), "PRICE_FILTER"),
    (LOT, _limit("0.01", "100"), None),
    (LOT, _limit("0.005", "100"), "LOT_SIZE"),
    (LOT, _limit("9", "100"), None),
    (LOT, _limit("9.01", "100"), "LOT_SIZE"),
    (LOT, _limit("1.015", "100"), "LOT_SIZE"),
    (LOT, _limit("1", "100", iceberg="0.505"), "LOT_SIZE"),
    (MARKET_LOT, asking("BUY", "MARKET", "0.5"), None),
    (MARKET_LOT, asking("BUY", "MARKET", "0.25"), "MARKET_LOT_SIZE"),
    (MARKET_LOT, asking("BUY", "MARKET", "2.25"), "MARKET_LOT_SIZE"),
    (MARKET_LOT, asking("BUY", "MARKET", "0.6"), "MARKET_LOT_SIZE"),
    (MARKET_LOT, _limit("0.25", "100"), None),
    (PERCENT, _limit("1", "130"), None),
    (PERCENT, _limit("1", "130.01"), "PERCENT_PRICE"),
    (PERCENT, _limit("1", "70"), None),
    (PERCENT, _limit("1", "69.99"), "PERCENT_PRICE"),
    (SIDED, _limit("1", "120"), None),
    (SIDED, _limit("1", "120.01"), "PERCENT_PRICE_BY_SIDE"),
    (SIDED, _limit("1", "19.99"), "PERCENT_PRICE_BY_SIDE"),
    (SIDED, _limit("1", "120.01", "SELL"), None),
    (SIDED, _limit("1", "79.99", "SELL"), "PERCENT_PRICE_BY_SIDE"),
    (NOTIONAL, _limit("0.1", "100"), None),
    (NOTIONAL, _limit("0.1", "99.99"), "NOTIONAL"),
    (NOTIONAL, _limit("10", "100"), None),
    (NOTIONAL, _limit("10", "100.01"), "NOTIONAL"),
    (NOTIONAL, asking("BUY", "MARKET", "0.099"), "NOTIONAL"),
    (NOTIONAL, asking("BUY", "MARKET", "11"), None),
    (NOTIONAL, asking("BUY", "MARKET", quote="9.99"), "NOTIONAL"),
    (LEAST, _limit("0.1", "99.99"), "MIN_NOTIONAL"),
    (LEAST, asking("BUY", "MARKET", "0.001"), None),
    (PARTS, _limit("1", "100", iceberg="0.1"), None),
    (PARTS, _limit("1.001", "100", iceberg="0.1"), "ICEBERG_PARTS"),
    (TRAILING, asking("BUY", "STOP_LOSS", "1", trailing=10), None),
    (TRAILING, asking("BUY", "STOP_LOSS", "1", trailing=9), "TRAILING_DELTA"),
    (TRAILING, asking("SELL", "TAKE_PROFIT", "1", trailing=201), "TRAILING_DELTA"),
    (TRAILING, asking("SELL", "STOP_LOSS", "1", trailing=29), "TRAILING_DELTA"),
    (TRAILING, asking("BUY", "TAKE_PROFIT", "1", trailing=400), None),
    (TRAILING, asking("BUY", "TAKE_PROFIT", "1", trailing=401), "TRAILING_DELTA"),
    (without_filters("PRICE_FILTER"), _limit("1", "100.00000001"), None),
    (without_filters("LOT_SIZE"), _limit("0.00123", "100"), None),
]


@pytest.mark.parametrize(("rules", "asked", "failed"), CASES)
def test_a_filter_holds_back_what_lies_beyond_its_bounds(
    rules: dict[str, Any], asked: NewOrder, failed: str | None
) -> None:
    bench = Bench(rules)
    # The last price and the mean price are 100 exactly, and the book can serve market orders.
    step = Listing.of(rules).instrument.step or units("0.001")
    bench.venue.flow_limit(SYMBOL, "SELL", units("100"), 2 * step)
    bench.venue.flow_market(SYMBOL, "BUY", 2 * step)
    bench.venue.flow_limit(SYMBOL, "SELL", units("100"), units("5"))
    assert _judge(bench, asked) == failed


def test_the_mean_price_is_that_of_the_minutes_the_filter_names() -> None:
    bench = Bench(PERCENT)
    for price, quantity in (("50", "3"), ("100", "1")):
        bench.flow("SELL", quantity, price)
        bench.venue.flow_market(SYMBOL, "BUY", units(quantity))
        bench.clock.advance(200)
    assert bench.venue.average_price(SYMBOL, 5) == units("100")
    assert bench.venue.average_price(SYMBOL, 10) == units("62.5")
    bench.clock.advance(200)
    assert bench.venue.average_price(SYMBOL, 5) == units("100")
    assert _judge(bench, _limit("1", "69.99")) == "PERCENT_PRICE"


def test_before_the_first_trade_no_price_is_too_far() -> None:
    assert _judge(Bench(PERCENT), _limit("1", "9999")) is None


def _counting(name: str, key: str, bench: Bench, asked: NewOrder, fine: NewOrder) -> None:
    for _ in range(2):
        bench.venue.place("ann", asked)
    with pytest.raises(VenueRefused, match=f"Filter failure: {name}$"):
        bench.venue.place("ann", asked)
    bench.venue.place("ann", fine)
    bench.venue.place("bob", asked)


STOP = asking("SELL", "STOP_LOSS", "1", stop="50")
PLAIN = _limit("1", "40")
ICEBERG = _limit("1", "40", iceberg="0.5")


@pytest.mark.parametrize("where", ["symbol", "exchange"])
@pytest.mark.parametrize(
    ("name", "key", "asked"),
    [
        ("MAX_NUM_ALGO_ORDERS", "maxNumAlgoOrders", STOP),
        ("MAX_NUM_ICEBERG_ORDERS", "maxNumIcebergOrders", ICEBERG),
    ],
)
def test_open_orders_of_a_kind_are_counted_per_account(
    where: str, name: str, key: str, asked: NewOrder
) -> None:
    if where == "symbol":
        _counting(name, key, Bench(with_filter(name, **{key: 2})), asked, PLAIN)
    else:
        rule = {"filterType": "EXCHANGE_" + name, key: 2}
        _counting("EXCHANGE_" + name, key, Bench(exchange_filters=[rule]), asked, PLAIN)


def test_open_orders_of_all_kinds_are_counted_on_the_symbol_and_on_the_exchange() -> None:
    other = entry(symbol="ETHUSDT", baseAsset="ETH")
    on_symbol = Bench(with_filter("MAX_NUM_ORDERS", maxNumOrders=2), other)
    for asked in (STOP, PLAIN):
        on_symbol.venue.place("ann", asked)
    with pytest.raises(VenueRefused, match=r"Filter failure: MAX_NUM_ORDERS$"):
        on_symbol.venue.place("ann", PLAIN)
    on_symbol.venue.place("ann", _limit("1", "40", symbol="ETHUSDT"))
    everywhere = Bench(
        entry(), other, exchange_filters=[{"filterType": "EXCHANGE_MAX_NUM_ORDERS", "maxNumOrders": 1}]
    )
    everywhere.venue.place("ann", PLAIN)
    with pytest.raises(VenueRefused, match=r"Filter failure: EXCHANGE_MAX_NUM_ORDERS$"):
        everywhere.venue.place("ann", _limit("1", "40", symbol="ETHUSDT"))


def test_a_position_counts_what_is_held_and_what_is_bid_for() -> None:
    bench = Bench(with_filter("MAX_POSITION", maxPosition="1003.00000000"))
    bench.venue.place("ann", _limit("2", "100"))
    assert _judge(bench, _limit("1", "100")) is None
    assert _judge(bench, _limit("1.001", "100")) == "MAX_POSITION"
    assert _judge(bench, _limit("1.001", "100", "SELL")) is None


def test_an_asset_may_have_a_limit_per_order() -> None:
    bench = Bench(asset_limits={"BTC": units("5"), "USDT": units("300")})
    assert _judge(bench, _limit("5", "60")) is None
    assert _judge(bench, _limit("5.001", "50")) == "MAX_ASSET"
    assert _judge(bench, _limit("4", "75.01")) == "MAX_ASSET"


def test_the_default_symbols_publish_rules_that_the_venue_itself_reads() -> None:
    for listing in default():
        instrument = listing.instrument
        assert instrument.is_trading
        assert instrument.tick > 0 < instrument.step
        assert instrument.symbol == instrument.base + instrument.quote
        assert listing.default_prevention in listing.preventions
