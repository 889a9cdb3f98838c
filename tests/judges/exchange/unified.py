# pyright: basic, reportMissingImports=false
"""Runs in the judges' environment: ccxt and ccxt.pro against an exchange, given as JSON on stdin.

`trade` goes through market data, an account and the life of orders; `watch` follows a book and prints a line
for each state of it, until stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import ccxt
import ccxt.pro

SYMBOL = "BTC/USDT"
DEPTH = 10


def connect(given: dict[str, str]) -> Any:
    """ccxt's Binance, pointed at the exchange."""
    exchange = ccxt.pro.binance(
        {
            "apiKey": given.get("api_key", ""),
            "secret": given.get("secret", ""),
            "enableRateLimit": False,
            "options": {
                "defaultType": "spot",
                "fetchMarkets": {"types": ["spot"]},
                "fetchCurrencies": False,
                "fetchMargins": False,
            },
        }
    )
    urls = exchange.urls["api"]
    urls["public"] = urls["private"] = given["rest"] + "/api/v3"
    urls["ws"]["spot"] = given["streams"] + "/ws"
    urls["ws"]["ws-api"]["spot"] = given["ws_api"]
    return exchange


async def trade(given: dict[str, str]) -> dict[str, Any]:
    exchange = connect(given)
    try:
        return await _trade(exchange)
    finally:
        await exchange.close()


async def _trade(exchange: Any) -> dict[str, Any]:
    await exchange.load_markets()
    market = exchange.market(SYMBOL)
    ticker = await exchange.fetch_ticker(SYMBOL)
    book = await exchange.fetch_order_book(SYMBOL, 20)
    price = round(book["bids"][0][0] * 0.9)
    seen: dict[str, Any] = {
        "precision": market["precision"],
        "least": market["limits"]["cost"]["min"],
        "ticker": {name: ticker[name] for name in ("bid", "ask", "last", "baseVolume")},
        "book": book,
        "trades": len(await exchange.fetch_trades(SYMBOL, limit=20)),
        "candles": len(await exchange.fetch_ohlcv(SYMBOL, "1m", limit=10)),
        "skew": await exchange.load_time_difference(),
        "balance": (await exchange.fetch_balance())["USDT"],
    }
    seen["orders"] = await _orders(exchange, price)
    seen["pro"] = await _pro(exchange, price)
    seen["refused"] = await _refused(exchange, price)
    return seen


async def _orders(exchange: Any, price: float) -> dict[str, Any]:
    """Orders over REST."""
    resting = await exchange.create_order(SYMBOL, "limit", "buy", 0.01, price)
    found = await exchange.fetch_order(resting["id"], SYMBOL)
    opened = await exchange.fetch_open_orders(SYMBOL)
    edited = await exchange.edit_order(resting["id"], SYMBOL, "limit", "buy", 0.02, price)
    cancelled = await exchange.cancel_order(edited["id"], SYMBOL)
    market = await exchange.create_order(SYMBOL, "market", "buy", 0.01)
    stop = await exchange.create_order(SYMBOL, "limit", "sell", 0.01, price, {"stopLossPrice": price + 1})
    swept = await exchange.cancel_all_orders(SYMBOL)
    trades = await exchange.fetch_my_trades(SYMBOL)
    return {
        "resting": resting["status"],
        "found": found["status"],
        "open": [each["id"] for each in opened],
        "edited": [edited["status"], edited["amount"]],
        "cancelled": cancelled["status"],
        "market": [market["status"], market["filled"], market["fee"] or market["fees"]],
        "stop": [stop["type"], stop["triggerPrice"], [each["id"] for each in swept] == [stop["id"]]],
        "trades": [[each["order"] == market["id"], each["amount"], each["side"]] for each in trades],
    }


async def _pro(exchange: Any, price: float) -> dict[str, Any]:
    """Orders and balances as they happen, with orders sent over the WebSocket API."""
    orders = asyncio.ensure_future(exchange.watch_orders(SYMBOL))
    await _authenticated(exchange)
    placed = await exchange.create_order_ws(SYMBOL, "limit", "buy", 0.01, price)
    seen = [_seen(await asyncio.wait_for(orders, 10), placed)]
    balances = asyncio.ensure_future(exchange.watch_balance())
    orders = asyncio.ensure_future(exchange.watch_orders(SYMBOL))
    await asyncio.sleep(0)
    await exchange.cancel_order_ws(placed["id"], SYMBOL)
    seen.append(_seen(await asyncio.wait_for(orders, 10), placed))
    balance = await asyncio.wait_for(_released(exchange, balances), 10)
    trades = await asyncio.wait_for(exchange.watch_trades(SYMBOL), 10)
    ticker = await asyncio.wait_for(exchange.watch_ticker(SYMBOL), 10)
    candles = await asyncio.wait_for(exchange.watch_ohlcv(SYMBOL, "1m"), 10)
    return {
        "placed": placed["status"],
        "seen": seen,
        "balance": balance["USDT"],
        "trades": len(trades),
        "ticker": ticker["low"] <= ticker["last"] <= ticker["high"],
        "candles": len(candles),
    }


async def _released(exchange: Any, balances: Any) -> Any:
    """The balance that the order holds nothing of any more; the one of its placing may come first."""
    while (balance := await balances)["USDT"]["used"]:
        balances = exchange.watch_balance()
    return balance


def _seen(orders: Any, placed: Any) -> list[Any]:
    """Whether the newest report is of the order, and its status; ccxt changes the same object later."""
    return [orders[-1]["id"] == placed["id"], orders[-1]["status"]]


async def _authenticated(exchange: Any) -> None:
    """Wait until the subscription to user data is confirmed."""
    await exchange.authenticate({"type": "spot"})


async def _refused(exchange: Any, price: float) -> dict[str, str]:
    mistakes = {
        "balance": lambda: exchange.create_order(SYMBOL, "limit", "buy", 100, price),
        "unknown": lambda: exchange.cancel_order("1", SYMBOL),
        "missing": lambda: exchange.fetch_order("1", SYMBOL),
        "small": lambda: exchange.create_order(SYMBOL, "limit", "buy", 0.00001, price),
    }
    return {name: await _name_of(mistake) for name, mistake in mistakes.items()}


async def _name_of(mistake: Any) -> str:
    try:
        await mistake()
    except ccxt.BaseError as error:
        return type(error).__name__
    return "accepted"


async def watch(given: dict[str, str]) -> None:
    """Follow the book; ccxt raises when it lost its place, and begins anew when asked again."""
    exchange = connect(given)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    try:
        await exchange.load_markets()
        while not ended.done():
            with suppress(TimeoutError):
                await _watch_once(exchange)
    finally:
        await exchange.close()


async def _watch_once(exchange: Any) -> None:
    try:
        book = await asyncio.wait_for(exchange.watch_order_book(SYMBOL), 2)
        # ccxt hands out prices and quantities as floats whose shortest text is the venue's decimal.
        sides = {
            side: [[repr(cell) for cell in level[:2]] for level in book[side][:DEPTH]]
            for side in ("bids", "asks")
        }
        print(json.dumps({"nonce": book["nonce"], **sides}), flush=True)
    except ccxt.BaseError as error:
        print(json.dumps({"lost": type(error).__name__}), flush=True)


def main() -> None:
    given = json.loads(sys.stdin.readline())
    if sys.argv[1] == "watch":
        asyncio.run(watch(given))
    else:
        json.dump(asyncio.run(trade(given)), sys.stdout)


if __name__ == "__main__":
    main()
