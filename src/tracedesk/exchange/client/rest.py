"""The venue's REST calls: signed, weighed, timed; reads are repeated when that may help, writes never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson

from tracedesk.exchange.client.calling import Caller, Request
from tracedesk.exchange.client.errors import Unreachable
from tracedesk.exchange.client.signing import Value

Document = dict[str, Any]
Rows = list[Any]
Given = Value | None
"""A parameter; None leaves it out."""

_DEPTH: Final = ((100, 5), (500, 25), (1_000, 50), (5_000, 250))


class Rest(Caller):
    """The calls of one venue by one account, or by nobody.

    Parameters have the venue's names; answers are its JSON, with prices and quantities as text.
    """

    # --- public

    async def ping(self) -> Document:
        return await self._read("ping")

    async def server_time(self) -> int:
        """The venue's clock in milliseconds, asked now."""
        return int((await self._read("time"))["serverTime"])

    def now_ms(self) -> int:
        """The venue's clock by the offset found last."""
        return self.time.now_ms()

    async def exchange_info(
        self, symbol: str | None = None, symbols: Sequence[str] | None = None
    ) -> Document:
        """The rules of all symbols, or of some; its limits are the ones kept to from now on."""
        some: dict[str, Given] = {"symbol": symbol, "symbols": _listed(symbols), "showPermissionSets": False}
        info = await self._read("exchangeInfo", 20, some)
        try:
            self.limits.published(info.get("rateLimits", ()))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Unreachable("its listing of limits cannot be read") from None
        return info

    async def depth(self, symbol: str, limit: int = 100) -> Document:
        weight = next((weight for most, weight in _DEPTH if limit <= most), _DEPTH[-1][1])
        return await self._read("depth", weight, {"symbol": symbol, "limit": limit})

    async def trades(self, symbol: str, limit: int | None = None) -> Rows:
        return await self._rows("trades", 25, {"symbol": symbol, "limit": limit})

    async def historical_trades(self, symbol: str, **params: Given) -> Rows:
        return await self._rows("historicalTrades", 25, {"symbol": symbol, **params})

    async def agg_trades(self, symbol: str, **params: Given) -> Rows:
        return await self._rows("aggTrades", 4, {"symbol": symbol, **params})

    async def klines(self, symbol: str, interval: str, **params: Given) -> Rows:
        return await self._rows("klines", 2, {"symbol": symbol, "interval": interval, **params})

    async def ui_klines(self, symbol: str, interval: str, **params: Given) -> Rows:
        return await self._rows("uiKlines", 2, {"symbol": symbol, "interval": interval, **params})

    async def avg_price(self, symbol: str) -> Document:
        return await self._read("avgPrice", 2, {"symbol": symbol})

    async def ticker_24hr(self, symbol: str) -> Document:
        return await self._read("ticker/24hr", 2, {"symbol": symbol})

    async def tickers_24hr(self, symbols: Sequence[str] | None = None) -> Rows:
        """Several symbols, or all."""
        count = len(symbols) if symbols is not None else 101
        weight = 2 if count <= 20 else 40 if count <= 100 else 80
        return await self._rows("ticker/24hr", weight, {"symbols": _listed(symbols)})

    async def ticker(self, symbol: str, **params: Given) -> Document:
        """Statistics over a rolling window."""
        return await self._read("ticker", 4, {"symbol": symbol, **params})

    async def ticker_price(self, symbol: str) -> Document:
        return await self._read("ticker/price", 2, {"symbol": symbol})

    async def ticker_prices(self, symbols: Sequence[str] | None = None) -> Rows:
        return await self._rows("ticker/price", 4, {"symbols": _listed(symbols)})

    async def book_ticker(self, symbol: str) -> Document:
        return await self._read("ticker/bookTicker", 2, {"symbol": symbol})

    # --- the account's, reading

    async def account(self, **params: Given) -> Document:
        return await self._read("account", 20, params, signed=True)

    async def order(self, symbol: str, **params: Given) -> Document:
        """One order, by `orderId` or `origClientOrderId`."""
        return await self._read("order", 4, {"symbol": symbol, **params}, signed=True)

    async def open_orders(self, symbol: str | None = None) -> Rows:
        return await self._rows("openOrders", 6 if symbol else 80, {"symbol": symbol}, signed=True)

    async def all_orders(self, symbol: str, **params: Given) -> Rows:
        return await self._rows("allOrders", 20, {"symbol": symbol, **params}, signed=True)

    async def my_trades(self, symbol: str, **params: Given) -> Rows:
        weight = 5 if params.get("orderId") is not None else 20
        return await self._rows("myTrades", weight, {"symbol": symbol, **params}, signed=True)

    async def order_rate_limit(self) -> Rows:
        return await self._rows("rateLimit/order", 40, signed=True)

    async def commission(self, symbol: str) -> Document:
        return await self._read("account/commission", 20, {"symbol": symbol}, signed=True)

    async def my_filters(self, symbol: str) -> Document:
        return await self._read("myFilters", 40, {"symbol": symbol}, signed=True)

    # --- the account's, changing something

    async def new_order(self, **params: Given) -> Document:
        """Place an order; sent once, whatever happens."""
        return await self._write("POST", "order", params, orders=1)

    async def test_order(self, **params: Given) -> Document:
        """Have an order checked and not placed, which may be repeated."""
        weight = 20 if params.get("computeCommissionRates") else 1
        request = Request("POST", "order/test", _given(params), weight, signed=True)
        return cast(Document, await self.call(request))

    async def cancel_order(self, symbol: str, **params: Given) -> Document:
        """Cancel one order, by `orderId` or `origClientOrderId`."""
        return await self._write("DELETE", "order", {"symbol": symbol, **params})

    async def cancel_open_orders(self, symbol: str) -> Rows:
        """Cancel all orders on a symbol."""
        request = Request("DELETE", "openOrders", {"symbol": symbol}, 1, signed=True, effect=True, rows=True)
        return cast(Rows, await self.call(request))

    async def cancel_replace(self, **params: Given) -> Document:
        """Cancel an order and place another; a half-done one is a `VenueError` with `data`."""
        return await self._write("POST", "order/cancelReplace", params, orders=1)

    async def amend_keep_priority(self, **params: Given) -> Document:
        """Lower an order's quantity; it keeps its place in the queue."""
        return await self._write("PUT", "order/amend/keepPriority", params, weight=4)

    # --- inside

    async def _read(
        self, path: str, weight: int = 1, params: Mapping[str, Given] | None = None, *, signed: bool = False
    ) -> Document:
        return cast(
            Document, await self.call(Request("GET", path, _given(params or {}), weight, signed=signed))
        )

    async def _rows(
        self, path: str, weight: int = 1, params: Mapping[str, Given] | None = None, *, signed: bool = False
    ) -> Rows:
        request = Request("GET", path, _given(params or {}), weight, signed=signed, rows=True)
        return cast(Rows, await self.call(request))

    async def _write(
        self, method: str, path: str, params: Mapping[str, Given], *, weight: int = 1, orders: int = 0
    ) -> Document:
        request = Request(method, path, _given(params), weight, signed=True, effect=True, orders=orders)
        return cast(Document, await self.call(request))


def _given(params: Mapping[str, Given]) -> dict[str, Value]:
    return {name: value for name, value in params.items() if value is not None}


def _listed(symbols: Sequence[str] | None) -> str | None:
    return orjson.dumps(list(symbols)).decode() if symbols is not None else None
