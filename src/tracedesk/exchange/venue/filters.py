"""The filters of symbols, of the exchange and of assets; a bound of zero does not bind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.exchange.instruments import Filter, Instrument
from tracedesk.exchange.units import ONE, notional, units
from tracedesk.exchange.venue.accounts import Account
from tracedesk.exchange.venue.orders import CONTINGENT, NewOrder, VenueRefused

Average = Callable[[int], int | None]
"""The mean price of so many minutes, or the last price for none; `None` before the first trade."""

_ABOVE: Final = frozenset(
    {("BUY", "STOP_LOSS"), ("BUY", "STOP_LOSS_LIMIT"), ("SELL", "TAKE_PROFIT"), ("SELL", "TAKE_PROFIT_LIMIT")}
)
"""The stops that lie above the market."""


class FilterFailed(VenueRefused):
    """An order that a filter does not let pass."""

    def __init__(self, name: str, code: int = -1013) -> None:
        super().__init__(code, f"Filter failure: {name}")


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds and step of a number, in units."""

    least: int
    most: int
    step: int

    @classmethod
    def of(cls, published: Filter, least: str, most: str, step: str) -> Range:
        return cls(units(published[least]), units(published[most]), units(published[step]))

    def admits(self, value: int) -> bool:
        if value < self.least or (self.most and value > self.most):
            return False
        return not self.step or value % self.step == 0


class Filters:
    """The rules of one symbol, read once."""

    def __init__(self, instrument: Instrument, exchange: Iterable[Filter], assets: Mapping[str, int]) -> None:
        self._of = instrument.filters
        self._instrument = instrument
        self._exchange: dict[str, Filter] = {each["filterType"]: each for each in exchange}
        self._assets = assets
        self.price = self._range("PRICE_FILTER", "minPrice", "maxPrice", "tickSize")
        self.lot = self._range("LOT_SIZE", "minQty", "maxQty", "stepSize")
        self.market_lot = self._range("MARKET_LOT_SIZE", "minQty", "maxQty", "stepSize")

    def _range(self, name: str, least: str, most: str, step: str) -> Range:
        published = self._of.get(name)
        return Range.of(published, least, most, step) if published else Range(0, 0, 0)

    @property
    def quantity_step(self) -> int:
        """The step that market orders by amount keep to."""
        return max(self.lot.step, self.market_lot.step, 1)

    def check(self, order: NewOrder, quantity: int, average: Average, account: Account) -> None:
        """Refuse an order that any filter holds back; `quantity` is what a market order by amount came to."""
        self._check_prices(order)
        self._check_percent(order, average)
        self._check_lots(order, quantity)
        self._check_trailing(order)
        self._check_notional(order, quantity, average)
        if not account.is_house:
            self._check_position(order, quantity, account)
            self._check_counts(order, account)

    def _check_prices(self, order: NewOrder) -> None:
        for price in (order.price, order.stop_price):
            if price is not None and not self.price.admits(price):
                raise FilterFailed("PRICE_FILTER")

    def _check_percent(self, order: NewOrder, average: Average) -> None:
        if order.price is None:
            return
        whole = self._of.get("PERCENT_PRICE")
        if whole:
            self._check_within("PERCENT_PRICE", order.price, whole, "multiplier", average)
        sided = self._of.get("PERCENT_PRICE_BY_SIDE")
        if sided:
            prefix = "bidMultiplier" if order.side == "BUY" else "askMultiplier"
            self._check_within("PERCENT_PRICE_BY_SIDE", order.price, sided, prefix, average)

    def _check_within(self, name: str, price: int, published: Filter, prefix: str, average: Average) -> None:
        mean = average(published["avgPriceMins"])
        if mean is None:
            return
        high, low = units(published[prefix + "Up"]), units(published[prefix + "Down"])
        if not mean * low <= price * ONE <= mean * high:
            raise FilterFailed(name)

    def _check_lots(self, order: NewOrder, quantity: int) -> None:
        for value in (quantity, order.iceberg_quantity):
            if value is not None and not self.lot.admits(value):
                raise FilterFailed("LOT_SIZE")
        if order.iceberg_quantity is not None:
            parts = -(-quantity // order.iceberg_quantity)
            if parts > self._bound("ICEBERG_PARTS", "limit", parts):
                raise FilterFailed("ICEBERG_PARTS")
        if order.price is None and not self.market_lot.admits(quantity):
            raise FilterFailed("MARKET_LOT_SIZE")

    def _check_trailing(self, order: NewOrder) -> None:
        published = self._of.get("TRAILING_DELTA")
        if order.trailing_delta is None or published is None:
            return
        where = "Above" if (order.side, order.type) in _ABOVE else "Below"
        low, high = published[f"minTrailing{where}Delta"], published[f"maxTrailing{where}Delta"]
        if not low <= order.trailing_delta <= high:
            raise FilterFailed("TRAILING_DELTA")

    def _check_notional(self, order: NewOrder, quantity: int, average: Average) -> None:
        for name in ("MIN_NOTIONAL", "NOTIONAL"):
            published = self._of.get(name)
            if published:
                self._check_amount(name, published, order, quantity, average)
        amount = order.quote_quantity or notional(order.price or average(0) or 0, quantity)
        for asset, value in ((self._instrument.base, quantity), (self._instrument.quote, amount)):
            if value > self._assets.get(asset, value):
                raise FilterFailed("MAX_ASSET")

    def _check_amount(
        self, name: str, published: Filter, order: NewOrder, quantity: int, average: Average
    ) -> None:
        price = order.price if order.price is not None else average(published["avgPriceMins"])
        if price is None:
            return
        amount = order.quote_quantity or notional(price, quantity)
        is_market = order.price is None
        at_least = published.get("applyMinToMarket", published.get("applyToMarket", True)) or not is_market
        at_most = published.get("applyMaxToMarket", True) or not is_market
        least, most = units(published["minNotional"]), units(published.get("maxNotional", "0"))
        if (at_least and amount < least) or (at_most and most and amount > most):
            raise FilterFailed(name)

    def _check_position(self, order: NewOrder, quantity: int, account: Account) -> None:
        published = self._of.get("MAX_POSITION")
        if order.side != "BUY" or not published:
            return
        bids = sum(each.remaining for each in account.orders.values() if _buys(each.asked, order.symbol))
        position = account.total[self._instrument.base] + bids + quantity
        if position > units(published["maxPosition"]):
            raise FilterFailed("MAX_POSITION")

    def _check_counts(self, order: NewOrder, account: Account) -> None:
        everywhere = [each.asked for each in account.orders.values()]
        here = [each for each in everywhere if each.symbol == order.symbol]
        for prefix, published, asked in (("", self._of, here), ("EXCHANGE_", self._exchange, everywhere)):
            _check_count(published, f"{prefix}MAX_NUM_ORDERS", "maxNumOrders", len(asked))
            if order.type in CONTINGENT:
                algo = sum(each.type in CONTINGENT for each in asked)
                _check_count(published, f"{prefix}MAX_NUM_ALGO_ORDERS", "maxNumAlgoOrders", algo)
            if order.iceberg_quantity:
                icebergs = sum(bool(each.iceberg_quantity) for each in asked)
                _check_count(published, f"{prefix}MAX_NUM_ICEBERG_ORDERS", "maxNumIcebergOrders", icebergs)

    def check_amendment(self, quantity: int, order: NewOrder, amendments: int) -> None:
        """Refuse a new quantity that the filters hold back, or one amendment too many."""
        if amendments >= self._bound("MAX_NUM_ORDER_AMENDS", "maxNumOrderAmends", amendments + 1):
            raise FilterFailed("MAX_NUM_ORDER_AMENDS", -2038)
        if not self.lot.admits(quantity):
            raise FilterFailed("LOT_SIZE", -2038)
        for name in ("MIN_NOTIONAL", "NOTIONAL"):
            least = self._of.get(name, {}).get("minNotional")
            if least and order.price and notional(order.price, quantity) < units(least):
                raise FilterFailed(name, -2038)

    def _bound(self, name: str, key: str, unbound: int) -> int:
        published: Mapping[str, Any] | None = self._of.get(name)
        return published[key] if published else unbound


def _buys(order: NewOrder, symbol: str) -> bool:
    return order.side == "BUY" and order.symbol == symbol


def _check_count(published: Mapping[str, Filter], name: str, key: str, count: int) -> None:
    bound = published.get(name)
    if bound and count >= bound[key]:
        raise FilterFailed(name)
