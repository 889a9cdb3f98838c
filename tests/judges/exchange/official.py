# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""Runs in the judges' environment: the venue's own client against an exchange, given as JSON on stdin.

Prints what it saw as JSON. Every answer went through the client's own models, which refuse a wrong type.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

from binance_common.configuration import (
    ConfigurationRestAPI,
    ConfigurationWebSocketAPI,
    ConfigurationWebSocketStreams,
)
from binance_common.errors import Error as BinanceError
from binance_sdk_spot.spot import Spot

SYMBOL = "BTCUSDT"
LIMIT = {"symbol": SYMBOL, "side": "BUY", "type": "LIMIT", "time_in_force": "GTC"}
PACE = 0.25
"""Seconds between messages to the stream server, which takes five each second."""
TIMEOUT = 20_000


def plain(model: Any) -> Any:
    if isinstance(model, list):
        return [plain(each) for each in model]
    if hasattr(model, "actual_instance"):
        return plain(model.actual_instance)
    return model.to_dict() if hasattr(model, "to_dict") else model


def public(rest: Any) -> dict[str, Any]:
    """Each question about the market once."""
    asked = {
        "time": rest.time(),
        "info": rest.exchange_info(symbol=SYMBOL),
        "depth": rest.depth(symbol=SYMBOL, limit=50),
        "trades": rest.get_trades(symbol=SYMBOL, limit=20),
        "historical": rest.historical_trades(symbol=SYMBOL, limit=5),
        "aggregates": rest.agg_trades(symbol=SYMBOL, limit=20),
        "klines": rest.klines(symbol=SYMBOL, interval="1m", limit=30),
        "average": rest.avg_price(symbol=SYMBOL),
        "day": rest.ticker24hr(symbol=SYMBOL),
        "trading_day": rest.ticker_trading_day(symbol=SYMBOL),
        "window": rest.ticker(symbol=SYMBOL, window_size="1h"),
        "price": rest.ticker_price(symbol=SYMBOL),
        "book": rest.ticker_book_ticker(symbol=SYMBOL),
    }
    return {name: plain(response.data()) for name, response in asked.items()}


def private(rest: Any) -> dict[str, Any]:
    asked = {
        "account": rest.get_account(omit_zero_balances=True),
        "commission": rest.account_commission(symbol=SYMBOL),
        "filters": rest.my_filters(symbol=SYMBOL),
        "counts": rest.rate_limit_order(),
    }
    return {name: plain(response.data()) for name, response in asked.items()}


def life(rest: Any, price: float) -> dict[str, Any]:
    """An order from its test to its end, a second that replaces it, and one that fills at once."""
    seen: dict[str, Any] = {}
    rest.order_test(**LIMIT, quantity=0.01, price=price)
    placed = rest.new_order(**LIMIT, quantity=0.01, price=price, new_client_order_id="judge-1").data()
    seen["placed"] = plain(placed)
    seen["queried"] = plain(rest.get_order(symbol=SYMBOL, order_id=placed.order_id).data())
    seen["open"] = plain(rest.get_open_orders(symbol=SYMBOL).data())
    seen["amended"] = plain(
        rest.order_amend_keep_priority(
            symbol=SYMBOL, new_qty=0.008, order_id=placed.order_id, new_client_order_id="judge-2"
        ).data()
    )
    replaced = rest.order_cancel_replace(
        **LIMIT,
        cancel_replace_mode="STOP_ON_FAILURE",
        cancel_order_id=placed.order_id,
        quantity=0.01,
        price=price - 1,
    ).data()
    seen["replaced"] = plain(replaced)
    second = replaced.new_order_response.order_id
    seen["cancelled"] = plain(rest.delete_order(symbol=SYMBOL, order_id=second).data())
    filled = rest.new_order(symbol=SYMBOL, side="BUY", type="MARKET", quantity=0.02).data()
    seen["filled"] = plain(filled)
    seen["fills"] = plain(rest.my_trades(symbol=SYMBOL, order_id=filled.order_id).data())
    seen["all"] = plain(rest.all_orders(symbol=SYMBOL).data())
    return seen


def refusals(rest: Any, price: float) -> dict[str, str]:
    """What a few mistakes get."""
    mistakes = {
        "symbol": lambda: rest.depth(symbol="NOPE"),
        "filter": lambda: rest.new_order(**LIMIT, quantity=0.01, price=price + 0.001),
        "balance": lambda: rest.new_order(**LIMIT, quantity=100, price=price),
        "unknown": lambda: rest.delete_order(symbol=SYMBOL, order_id=1),
    }
    return {name: refused(mistake) for name, mistake in mistakes.items()}


def refused(mistake: Any) -> str:
    try:
        mistake()
    except BinanceError as error:
        return str(error)
    return "accepted"


async def sockets(api: Any, price: float) -> dict[str, Any]:
    """Orders and user data over the WebSocket API, each request signed."""
    events: list[Any] = []
    done = asyncio.Event()

    def heard(event: Any) -> None:
        events.append(plain(event))
        if "CANCELED" in json.dumps(events[-1], default=str):
            done.set()

    await api.create_connection()
    subscribed = await api.user_data_stream_subscribe_signature()
    subscribed.stream.on("message", heard)
    placed = (await api.order_place(**LIMIT, quantity=0.01, price=price)).data().result
    status = (await api.order_status(symbol=SYMBOL, order_id=placed.order_id)).data().result
    open_now = (await api.open_orders_status(symbol=SYMBOL)).data().result
    cancelled = (await api.order_cancel(symbol=SYMBOL, order_id=placed.order_id)).data().result
    await asyncio.wait_for(done.wait(), 10)
    account = (await api.account_status()).data().result
    depth = (await api.depth(symbol=SYMBOL, limit=5)).data().result
    await api.close_connection()
    found = {"placed": placed, "status": status, "open": open_now, "cancelled": cancelled, "account": account}
    return {**{name: plain(each) for name, each in found.items()}, "depth": plain(depth), "events": events}


async def session(api: Any) -> dict[str, Any]:
    """A session that is logged on with an Ed25519 key and then signs nothing."""
    await api.create_connection()
    logon = (await api.session_logon()).data().result
    status = (await api.session_status()).data().result
    subscribed = await api.user_data_stream_subscribe()
    account = (await api.account_status()).data().result
    logout = (await api.session_logout()).data().result
    await api.close_connection()
    found = {"logon": logon, "status": status, "account": account, "logout": logout}
    number = subscribed.response.data().result.subscription_id
    return {**{name: plain(each) for name, each in found.items()}, "subscription": number}


async def streams(api: Any) -> dict[str, Any]:
    """The first message of every kind of stream."""
    first: dict[str, Any] = {}
    await api.create_connection()
    wanted = {
        "aggTrade": lambda: api.agg_trade(symbol=SYMBOL),
        "trade": lambda: api.trade(symbol=SYMBOL),
        "kline": lambda: api.kline(symbol=SYMBOL, interval="1s"),
        "miniTicker": lambda: api.mini_ticker(symbol=SYMBOL),
        "ticker": lambda: api.ticker(symbol=SYMBOL),
        "window": lambda: api.rolling_window_ticker(symbol=SYMBOL, window_size="1h"),
        "bookTicker": lambda: api.book_ticker(symbol=SYMBOL),
        "avgPrice": lambda: api.avg_price(symbol=SYMBOL),
        "partial": lambda: api.partial_book_depth(symbol=SYMBOL, levels=5, update_speed="100ms"),
        "depth": lambda: api.diff_book_depth(symbol=SYMBOL, update_speed="100ms"),
        "all": lambda: api.all_mini_ticker(),
    }
    heard = {name: asyncio.Event() for name in wanted}

    def keep(name: str, data: Any) -> None:
        first.setdefault(name, plain(data))
        heard[name].set()

    for name, begin in wanted.items():
        stream = await begin()
        stream.on("message", partial(keep, name))
        await asyncio.sleep(PACE)
    await asyncio.wait_for(asyncio.gather(*(each.wait() for each in heard.values())), 25)
    await api.close_connection()
    return first


def main() -> None:
    given = json.load(sys.stdin)
    keys = {"api_key": given["api_key"], "api_secret": given["secret"]}
    rest = Spot(ConfigurationRestAPI(**keys, base_path=given["rest"], timeout=TIMEOUT, retries=0)).rest_api
    seen: dict[str, Any] = {"public": public(rest), "private": private(rest)}
    price = round(float(seen["public"]["book"]["bidPrice"]) * 0.9)
    seen["life"] = life(rest, price)
    seen["refusals"] = refusals(rest, price)
    api = ConfigurationWebSocketAPI(**keys, stream_url=given["ws_api"], timeout=TIMEOUT)
    seen["sockets"] = asyncio.run(sockets(Spot(config_ws_api=api).websocket_api, price))
    pair = ConfigurationWebSocketAPI(
        api_key=given["pair_key"],
        private_key=given["private_pem"],
        stream_url=given["ws_api"],
        timeout=TIMEOUT,
    )
    seen["session"] = asyncio.run(session(Spot(config_ws_api=pair).websocket_api))
    listening = ConfigurationWebSocketStreams(stream_url=given["streams"])
    seen["streams"] = asyncio.run(streams(Spot(config_ws_streams=listening).websocket_streams))
    json.dump(seen, sys.stdout, default=str)


if __name__ == "__main__":
    main()
