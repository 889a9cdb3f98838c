"""What the venue lists: symbols as `exchangeInfo` publishes them, with what each allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.venue.orders import ORDER_TYPES, PREVENTIONS, Prevention

STATUSES: Final = ("TRADING", "END_OF_DAY", "HALT", "BREAK", "CANCEL_ONLY")


@dataclass(frozen=True, slots=True)
class Listing:
    """One symbol: its rules, and the document that publishes them."""

    instrument: Instrument
    published: Mapping[str, Any]

    @classmethod
    def of(cls, published: Mapping[str, Any]) -> Listing:
        """The listing that one entry of `exchangeInfo.symbols` describes."""
        return cls(Instrument.of(published), published)

    def allows(self, flag: str) -> bool:
        """Whether a flag such as `icebergAllowed` is set."""
        return bool(self.published.get(flag, False))

    @property
    def preventions(self) -> tuple[str, ...]:
        return tuple(self.published.get("allowedSelfTradePreventionModes", ("NONE",)))

    @property
    def default_prevention(self) -> Prevention:
        return self.published.get("defaultSelfTradePreventionMode", "NONE")


def publish(
    base: str,
    quote: str,
    *,
    tick: str,
    step: str,
    max_price: str,
    max_quantity: str,
    max_market: str,
    min_notional: str,
    max_notional: str,
) -> dict[str, Any]:
    """The `exchangeInfo` entry of a symbol that allows all that the venue can do."""
    return {
        "symbol": base + quote,
        "status": "TRADING",
        "baseAsset": base,
        "baseAssetPrecision": 8,
        "quoteAsset": quote,
        "quotePrecision": 8,
        "quoteAssetPrecision": 8,
        "baseCommissionPrecision": 8,
        "quoteCommissionPrecision": 8,
        "orderTypes": list(ORDER_TYPES),
        "icebergAllowed": True,
        "ocoAllowed": False,
        "otoAllowed": False,
        "opoAllowed": False,
        "quoteOrderQtyMarketAllowed": True,
        "allowTrailingStop": True,
        "cancelReplaceAllowed": True,
        "amendAllowed": True,
        "pegInstructionsAllowed": False,
        "isSpotTradingAllowed": True,
        "isMarginTradingAllowed": False,
        "filters": [
            {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": max_price, "tickSize": tick},
            {"filterType": "LOT_SIZE", "minQty": step, "maxQty": max_quantity, "stepSize": step},
            {"filterType": "ICEBERG_PARTS", "limit": 100},
            {
                "filterType": "MARKET_LOT_SIZE",
                "minQty": "0.00000000",
                "maxQty": max_market,
                "stepSize": "0.00000000",
            },
            {
                "filterType": "TRAILING_DELTA",
                "minTrailingAboveDelta": 10,
                "maxTrailingAboveDelta": 2000,
                "minTrailingBelowDelta": 10,
                "maxTrailingBelowDelta": 2000,
            },
            {
                "filterType": "PERCENT_PRICE_BY_SIDE",
                "bidMultiplierUp": "5",
                "bidMultiplierDown": "0.2",
                "askMultiplierUp": "5",
                "askMultiplierDown": "0.2",
                "avgPriceMins": 5,
            },
            {
                "filterType": "NOTIONAL",
                "minNotional": min_notional,
                "applyMinToMarket": True,
                "maxNotional": max_notional,
                "applyMaxToMarket": False,
                "avgPriceMins": 5,
            },
            {"filterType": "MAX_NUM_ORDERS", "maxNumOrders": 200},
            {"filterType": "MAX_NUM_ORDER_LISTS", "maxNumOrderLists": 20},
            {"filterType": "MAX_NUM_ALGO_ORDERS", "maxNumAlgoOrders": 5},
            {"filterType": "MAX_NUM_ORDER_AMENDS", "maxNumOrderAmends": 10},
        ],
        "permissions": [],
        "permissionSets": [["SPOT"]],
        "defaultSelfTradePreventionMode": "EXPIRE_MAKER",
        "allowedSelfTradePreventionModes": list(PREVENTIONS),
    }


def default() -> tuple[Listing, ...]:
    """The symbols of a venue that was told nothing else."""
    dollars = {
        "max_price": "1000000.00000000",
        "min_notional": "5.00000000",
        "max_notional": "9000000.00000000",
    }
    small = {"max_price": "922327.00000000", "min_notional": "0.00010000", "max_notional": "9000000.00000000"}
    lots = {"max_quantity": "9000.00000000", "max_market": "150.00000000"}
    many = {"max_quantity": "900000.00000000", "max_market": "15000.00000000"}
    entries = (
        publish("BTC", "USDT", tick="0.01000000", step="0.00001000", **dollars, **lots),
        publish("ETH", "USDT", tick="0.01000000", step="0.00010000", **dollars, **lots),
        publish("BNB", "USDT", tick="0.01000000", step="0.00100000", **dollars, **many),
        publish("SOL", "USDT", tick="0.01000000", step="0.00100000", **dollars, **many),
        publish("ETH", "BTC", tick="0.00001000", step="0.00010000", **small, **many),
    )
    return tuple(Listing.of(entry) for entry in entries)


EXCHANGE_FILTERS: Final[tuple[Mapping[str, Any], ...]] = (
    {"filterType": "EXCHANGE_MAX_NUM_ORDERS", "maxNumOrders": 1000},
    {"filterType": "EXCHANGE_MAX_NUM_ALGO_ORDERS", "maxNumAlgoOrders": 200},
    {"filterType": "EXCHANGE_MAX_NUM_ICEBERG_ORDERS", "maxNumIcebergOrders": 1000},
)
