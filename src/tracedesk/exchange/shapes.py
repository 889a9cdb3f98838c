"""The venue's documents in the words of the tools: snake_case, times in ISO 8601, money as decimal text."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final, cast

from tracedesk.exchange.client.errors import Unreachable
from tracedesk.primitives import money, time

_AMOUNT: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?")

_TICKER: Final[Mapping[str, str]] = {
    "lastPrice": "last_price",
    "priceChange": "price_change",
    "priceChangePercent": "price_change_percent",
    "weightedAvgPrice": "weighted_avg_price",
    "openPrice": "open_price",
    "highPrice": "high_price",
    "lowPrice": "low_price",
    "volume": "volume",
    "quoteVolume": "quote_volume",
    "bidPrice": "bid_price",
    "bidQty": "bid_quantity",
    "askPrice": "ask_price",
    "askQty": "ask_quantity",
    "count": "trades",
}
_ORDER: Final[Mapping[str, str]] = {
    "symbol": "symbol",
    "orderId": "order_id",
    "clientOrderId": "client_order_id",
    "side": "side",
    "type": "order_type",
    "status": "status",
    "timeInForce": "time_in_force",
    "price": "price",
    "stopPrice": "stop_price",
    "origQty": "quantity",
    "executedQty": "executed_quantity",
    "cummulativeQuoteQty": "quote_quantity",
    "selfTradePreventionMode": "self_trade_prevention",
    "workingTime": "working_since",
    "time": "placed_at",
    "updateTime": "updated_at",
}
_TIMES: Final = frozenset(("workingTime", "time", "updateTime"))


@contextmanager
def readable(name: str) -> Generator[None]:
    """Report an answer of the venue that has another shape as VENUE_UNAVAILABLE, without its text."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as fault:
        raise Unreachable(f"its {name} cannot be read ({type(fault).__name__})") from None


def amount(value: Any) -> str:
    """Return a decimal number of the venue with the digits it came with; raises ValueError for other text."""
    if isinstance(value, str) and _AMOUNT.fullmatch(value):
        return value
    raise ValueError("a text that is not a decimal number")


def whole(value: Any) -> int:
    """Return a whole number of the venue; raises ValueError for anything else."""
    if type(value) is int:
        return value
    raise ValueError("a value that is not a whole number")


def at(ms: int) -> str:
    """A venue's milliseconds (or microseconds) as a time."""
    return time.format(ms * (time.MICROSECOND if ms >= 10**14 else time.MILLISECOND))


def ticker(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A 24 hour ticker."""
    found: dict[str, Any] = {
        name: (whole if name == "trades" else amount)(raw[key]) for key, name in _TICKER.items() if key in raw
    }
    if "last_price" not in found:
        raise KeyError("lastPrice")
    edges = {
        name: at(int(raw[key]))
        for key, name in (("openTime", "open_time"), ("closeTime", "close_time"))
        if key in raw
    }
    return {**found, **edges}


def order(raw: Mapping[str, Any]) -> dict[str, Any]:
    """An order in any state."""
    return {
        name: at(int(raw[key])) if key in _TIMES else raw[key]
        for key, name in _ORDER.items()
        if key in raw and not (key in _TIMES and int(raw[key]) < 0)
    }


TRADE_COLUMNS: Final = ["id", "time", "price", "quantity", "buyer_is_maker"]


def trade(raw: Mapping[str, Any]) -> list[Any]:
    price, quantity = amount(raw["price"]), amount(raw["qty"])
    return [whole(raw["id"]), at(int(raw["time"])), price, quantity, raw["isBuyerMaker"] is True]


OWN_TRADE_COLUMNS: Final = [
    "id", "order_id", "time", "side", "price", "quantity", "quote_quantity", "fee", "fee_asset", "is_maker",
]  # fmt: skip


def own_trade(raw: Mapping[str, Any]) -> list[Any]:
    side = "BUY" if raw["isBuyer"] else "SELL"
    paid = [raw["commission"], raw["commissionAsset"], raw["isMaker"]]
    return [
        raw["id"],
        raw["orderId"],
        at(int(raw["time"])),
        side,
        raw["price"],
        raw["qty"],
        raw["quoteQty"],
        *paid,
    ]


KLINE_COLUMNS: Final = [
    "open_time", "open", "high", "low", "close", "volume", "close_time", "quote_volume", "trades",
    "taker_buy_volume", "taker_buy_quote_volume",
]  # fmt: skip


def kline(raw: Sequence[Any]) -> list[Any]:
    traded = [amount(raw[7]), whole(raw[8]), *map(amount, raw[9:11])]
    return [at(int(raw[0])), *map(amount, raw[1:6]), at(int(raw[6])), *traded]


def texts(value: Any) -> Any:
    """A document whose exact decimals are text, as everywhere in this toolset."""
    if isinstance(value, Decimal):
        return money.to_text(value)
    if isinstance(value, dict):
        return {key: texts(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [texts(item) for item in cast("Sequence[Any]", value)]
    return value
