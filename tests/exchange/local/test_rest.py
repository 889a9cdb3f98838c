"""REST requests over a real socket: routes, security, refusals, limits and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import pytest

from tests.exchange.local.support import LIMIT, START, Bench, bench, eventually, only, sign
from tests.support import BOUND
from tracedesk.exchange.local.limits import Limits, Rule
from tracedesk.exchange.local.methods import METHODS
from tracedesk.primitives.time import MILLISECOND, Clock

Body = Callable[[Bench], Coroutine[Any, Any, None]]
ORDER = {**LIMIT, "price": "49000.00", "quantity": "0.1"}


def run(body: Body, limits: Callable[[Clock], Limits] | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * BOUND), bench(limits=limits) as on:
            await body(on)

    asyncio.run(main())


# --- the market ---------------------------------------------------------------------------------


def test_every_public_route_answers_and_tells_what_it_cost() -> None:
    weights: dict[str, tuple[dict[str, str], int]] = {
        "ping": ({}, 1),
        "time": ({}, 1),
        "exchangeInfo": ({}, 20),
        "depth": ({"symbol": "BTCUSDT"}, 5),
        "trades": ({"symbol": "BTCUSDT"}, 25),
        "historicalTrades": ({"symbol": "BTCUSDT"}, 25),
        "aggTrades": ({"symbol": "BTCUSDT"}, 4),
        "klines": ({"symbol": "BTCUSDT", "interval": "1m"}, 2),
        "uiKlines": ({"symbol": "BTCUSDT", "interval": "1d", "timeZone": "8"}, 2),
        "avgPrice": ({"symbol": "BTCUSDT"}, 2),
        "ticker/24hr": ({"symbol": "BTCUSDT"}, 2),
        "ticker/tradingDay": ({"symbols": '["BTCUSDT","ETHUSDT"]'}, 8),
        "ticker/price": ({}, 4),
        "ticker/bookTicker": ({"symbol": "BTCUSDT"}, 2),
        "executionRules": ({"symbol": "BTCUSDT"}, 2),
        "historicalBlockTrades": ({"symbol": "BTCUSDT", "fromId": "1"}, 25),
        "ticker": ({"symbol": "BTCUSDT", "windowSize": "4h", "type": "MINI"}, 4),
    }

    async def body(on: Bench) -> None:
        spent = 0
        for path, (sent, weight) in weights.items():
            reply = await on.get(path, **sent)
            spent += weight
            assert reply.status == 200, (path, reply.body)
            assert reply.headers["x-mbx-used-weight-1m"] == str(spent), path
            assert reply.headers["x-mbx-used-weight"] == str(spent), path
        assert set(weights) | {"referencePrice"} == {each.path for each in METHODS if each.permission is None}

    run(body)


@pytest.mark.parametrize(
    ("limit", "weight"), [(100, 5), (101, 25), (500, 25), (1000, 50), (1001, 250), (9999, 250)]
)
def test_a_deeper_book_costs_more(limit: int, weight: int) -> None:
    async def body(on: Bench) -> None:
        reply = await on.get("depth", symbol="BTCUSDT", limit=limit)
        assert (reply.status, reply.headers["x-mbx-used-weight-1m"]) == (200, str(weight))

    run(body)


def test_the_book_is_shown_in_decimal_strings_best_first() -> None:
    async def body(on: Bench) -> None:
        reply = await on.get("depth", symbol="BTCUSDT", limit=2)
        assert reply.body["bids"] == [["50000.00000000", "1.00000000"], ["49999.00000000", "2.00000000"]]
        assert reply.body["asks"] == [["50001.00000000", "1.00000000"], ["50002.00000000", "2.00000000"]]

    run(body)


def test_symbols_are_listed_with_their_filters_and_the_limits_of_the_exchange() -> None:
    async def body(on: Bench) -> None:
        whole = (await on.get("exchangeInfo")).body
        assert [rule["rateLimitType"] for rule in whole["rateLimits"]] == [
            *("REQUEST_WEIGHT", "ORDERS", "ORDERS", "RAW_REQUESTS")
        ]
        one = (await on.get("exchangeInfo", symbol="BTCUSDT", showPermissionSets="false")).body["symbols"]
        assert [each["symbol"] for each in one] == ["BTCUSDT"]
        assert one[0]["permissionSets"] == []
        assert {"filterType": "PRICE_FILTER", "tickSize": "0.01000000"}.items() <= one[0]["filters"][
            0
        ].items()
        assert (await on.get("exchangeInfo", permissions="MARGIN")).body["symbols"] == []
        both = await on.get("exchangeInfo", symbol="BTCUSDT", symbols='["BTCUSDT"]')
        assert both.body["code"] == -1128

    run(body)


def test_a_halted_symbol_shows_its_status_everywhere() -> None:
    async def body(on: Bench) -> None:
        on.exchange.venue.set_status("ETHUSDT", "HALT")
        found = (await on.get("exchangeInfo", symbolStatus="HALT")).body["symbols"]
        assert [each["symbol"] for each in found] == ["ETHUSDT"]
        refused = await on.get("depth", symbol="ETHUSDT", symbolStatus="TRADING")
        assert refused.body["code"] == -1220
        prices = (await on.get("ticker/price", symbolStatus="HALT")).body
        assert [each["symbol"] for each in prices] == ["ETHUSDT"]

    run(body)


def test_times_can_be_asked_for_in_microseconds() -> None:
    async def body(on: Bench) -> None:
        reply = await on.ask("GET", "time", headers={"X-MBX-TIME-UNIT": "microsecond"})
        assert reply.body == {"serverTime": START // 1000}
        wrong = await on.ask("GET", "time", headers={"X-MBX-TIME-UNIT": "HOUR"})
        assert (wrong.status, wrong.body["code"]) == (400, -1194)

    run(body)


@pytest.mark.parametrize(
    ("path", "query", "code", "message"),
    [
        ("depth", "", -1102, "Mandatory parameter 'symbol' was not sent, was empty/null, or malformed."),
        ("depth", "symbol=NOPE", -1121, "Invalid symbol."),
        ("depth", "symbol=BTCUSDT&limit=x", -1100, None),
        ("depth", "symbol=BTCUSDT&limit=0", -1130, "Data sent for parameter 'limit' is not valid."),
        ("depth", "symbol=BTCUSDT&symbol=ETHUSDT", -1101, "Duplicate values for a parameter detected."),
        ("klines", "symbol=BTCUSDT&interval=7m", -1120, "Invalid interval."),
        ("ticker", "", -1102, "Param 'symbol' or 'symbols' must be sent, but both were empty/null!"),
        ("ticker/24hr", "symbol=BTCUSDT&type=HUGE", -1139, "Invalid ticker type."),
        ("referencePrice", "symbol=BTCUSDT", -2043, "This symbol doesn't have a reference price."),
        ("historicalBlockTrades", "symbol=NOPE&fromId=1", -1121, "Invalid symbol."),
        ("ping", "x=1", -1101, "Too many parameters; expected '0' and received '1'."),
        (
            "aggTrades",
            "symbol=BTCUSDT&fromId=1&startTime=1",
            -1128,
            "Combination of optional parameters invalid.",
        ),
    ],
)
def test_wrong_questions_get_the_venues_codes(path: str, query: str, code: int, message: str | None) -> None:
    async def body(on: Bench) -> None:
        reply = await on.ask("GET", path, query)
        assert (reply.status, reply.body["code"]) == (400, code)
        assert message in (None, reply.body["msg"])

    run(body)


def test_unknown_routes_and_methods_are_refused() -> None:
    async def body(on: Bench) -> None:
        assert (await on.ask("GET", "userDataStream")).status == 404
        assert (await on.ask("POST", "depth")).status == 405

    run(body)


def test_a_host_that_only_looks_like_the_exchanges_gets_nothing() -> None:
    async def body(on: Bench) -> None:
        own = on.address.rest.partition("://")[2]
        for host in (f"evil.test@{own}", f"evil.test\\@{own}", f"{own}/evil", "localhost:1", "127.0.0.1"):
            url = f"{on.address.rest}/api/v3/ping"
            async with on.http.get(url, headers={"Host": host}) as response:
                assert (host, response.status) == (host, 403)

    run(body)


def test_a_page_in_a_browser_gets_nothing() -> None:
    async def body(on: Bench) -> None:
        for headers in ({"Origin": "https://example.org"}, {"Host": "example.org"}, {"Host": "[::1"}):
            async with on.http.get(f"{on.address.rest}/api/v3/ping", headers=headers) as response:
                assert response.status == 403

    run(body)


# --- security -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 2, 7])
@pytest.mark.parametrize("signature_in_body", [False, True])
def test_an_order_may_be_sent_in_query_body_or_both(cut: int, signature_in_body: bool) -> None:
    async def body(on: Bench) -> None:
        pairs = list({**ORDER, "timestamp": on.stamp()}.items())
        parts = [urlencode(pairs[:cut]), urlencode(pairs[cut:])]
        signature = f"signature={sign(on.key, ''.join(parts))}"
        parts[signature_in_body] = "&".join(filter(None, (parts[signature_in_body], signature)))
        headers = {"X-MBX-APIKEY": on.key.api_key, "Content-Type": "application/x-www-form-urlencoded"}
        reply = await on.ask("POST", "order", parts[0], data=parts[1], headers=headers)
        assert (reply.status, reply.body.get("status")) == (200, "NEW"), reply.body

    run(body)


def test_the_query_wins_over_the_body() -> None:
    async def body(on: Bench) -> None:
        form = urlencode({**ORDER, "timestamp": on.stamp()})
        query = "price=48000.00"
        signature = sign(on.key, query + form)
        headers = {"X-MBX-APIKEY": on.key.api_key, "Content-Type": "application/x-www-form-urlencoded"}
        reply = await on.ask("POST", "order", query, data=f"{form}&signature={signature}", headers=headers)
        assert reply.body["price"] == "48000.00000000"

    run(body)


def test_keys_signatures_and_permissions_are_checked() -> None:
    async def body(on: Bench) -> None:
        query = urlencode({"timestamp": on.stamp()})
        key = {"X-MBX-APIKEY": on.key.api_key}
        reader = on.exchange.keys.issue("ann", only("USER_DATA"))
        cases = [
            (await on.ask("GET", "account", query), 401, -2014),
            (await on.ask("GET", "account", query, headers={"X-MBX-APIKEY": "x" * 64}), 401, -2015),
            (await on.ask("GET", "account", query, headers=key), 400, -1102),
            (await on.ask("GET", "account", f"{query}&signature=00", headers=key), 400, -1022),
            (await on.ask("GET", "account", f"signature={sign(on.key, '')}", headers=key), 400, -1102),
            (await on.signed("GET", "account", timestamp=on.stamp() + 1000), 400, -1021),
            (await on.signed("GET", "account", timestamp=on.stamp() - 5001), 400, -1021),
            (await on.signed("POST", "order", reader, **ORDER), 401, -2015),
            (await on.signed("GET", "account", reader), 200, None),
        ]
        for number, (reply, status, code) in enumerate(cases):
            assert (reply.status, reply.body.get("code")) == (status, code), number

    run(body)


def test_what_was_not_percent_encoded_before_it_was_signed_is_refused() -> None:
    async def body(on: Bench) -> None:
        plain = f"orderId=1&symbol=１２&timestamp={on.stamp()}"
        encoded = f"orderId=1&symbol={quote('１２')}&timestamp={on.stamp()}"
        headers = {"X-MBX-APIKEY": on.key.api_key}
        wrong = await on.ask("GET", "order", f"{encoded}&signature={sign(on.key, plain)}", headers=headers)
        assert wrong.body["code"] == -1022
        right = await on.ask("GET", "order", f"{encoded}&signature={sign(on.key, encoded)}", headers=headers)
        assert right.body["code"] == -1121

    run(body)


# --- orders -------------------------------------------------------------------------------------


def test_an_order_lives_from_its_placing_to_its_cancel() -> None:
    async def body(on: Bench) -> None:
        placed = await on.limit("49000.00", "0.1", newClientOrderId="mine")
        assert (placed.status, placed.body["status"], placed.body["fills"]) == (200, "NEW", [])
        assert placed.headers["x-mbx-order-count-10s"] == placed.headers["x-mbx-order-count-1d"] == "1"
        assert placed.headers["x-mbx-used-weight-1m"] == "0"
        found = (await on.signed("GET", "order", symbol="BTCUSDT", origClientOrderId="mine")).body
        assert (found["orderId"], found["isWorking"]) == (placed.body["orderId"], True)
        cancelled = (await on.signed("DELETE", "order", symbol="BTCUSDT", orderId=found["orderId"])).body
        assert (cancelled["status"], cancelled["origClientOrderId"]) == ("CANCELED", "mine")
        again = await on.signed("DELETE", "order", symbol="BTCUSDT", orderId=found["orderId"])
        assert (again.status, again.body) == (400, {"code": -2011, "msg": "Unknown order sent."})
        assert again.headers["x-mbx-used-weight-1m"] == "5"

    run(body)


def test_answers_are_as_detailed_as_asked_for() -> None:
    async def body(on: Bench) -> None:
        ack = (await on.limit("49000.00", "0.1", newOrderRespType="ACK")).body
        assert set(ack) == {"symbol", "orderId", "orderListId", "clientOrderId", "transactTime"}
        result = (await on.limit("49000.00", "0.1", newOrderRespType="RESULT")).body
        assert "fills" not in result
        assert result["origQty"] == "0.10000000"
        full = (await on.limit("50001.00", "0.5")).body
        assert [fill["qty"] for fill in full["fills"]] == ["0.50000000"]
        stop = {
            "symbol": "BTCUSDT",
            "side": "SELL",
            "type": "STOP_LOSS",
            "quantity": "0.1",
            "stopPrice": "49000",
        }
        assert set((await on.signed("POST", "order", **stop)).body) == set(ack)

    run(body)


def test_fills_and_balances_follow_a_trade() -> None:
    async def body(on: Bench) -> None:
        bought = (await on.limit("50001.00", "0.5")).body
        assert (bought["status"], bought["cummulativeQuoteQty"]) == ("FILLED", "25000.50000000")
        trade = (await on.signed("GET", "myTrades", symbol="BTCUSDT")).body[0]
        assert (trade["quoteQty"], trade["commission"], trade["commissionAsset"], trade["isMaker"]) == (
            *("25000.50000000", "0.00050000", "BTC", False),
        )
        account = (await on.signed("GET", "account")).body
        assert account["balances"] == [
            {"asset": "BTC", "free": "10.49950000", "locked": "0.00000000"},
            {"asset": "USDT", "free": "974999.50000000", "locked": "0.00000000"},
        ]

    run(body)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"side": "HOLD"}, -1117, "Invalid side."),
        ({"type": "WISH"}, -1116, "Invalid orderType."),
        ({"timeInForce": "DAY"}, -1115, "Invalid timeInForce."),
        ({"price": "49000.001"}, -1013, "Filter failure: PRICE_FILTER"),
        ({"price": "1.000000001"}, -1111, "Parameter 'price' has too much precision."),
        ({"quantity": "0.000001"}, -1013, "Filter failure: LOT_SIZE"),
        ({"quantity": "100"}, -2010, "Account has insufficient balance for requested action."),
        ({"type": "MARKET"}, -1106, None),
        ({"price": None}, -1102, "Mandatory parameter 'price' was not sent, was empty/null, or malformed."),
        ({"stopPrice": "1"}, -1106, "Parameter 'stopPrice' sent when not required."),
        ({"pegPriceType": "PRIMARY_PEG"}, -2010, "Pegged orders are not supported for this symbol."),
        ({"strategyType": "5"}, -1134, None),
        (
            {"colour": "red"},
            -1104,
            "Not all sent parameters were read; read '8' parameter(s) but was sent '9'.",
        ),
    ],
)
def test_wrong_orders_get_the_venues_codes(change: dict[str, Any], code: int, message: str | None) -> None:
    async def body(on: Bench) -> None:
        sent = {name: value for name, value in {**ORDER, **change}.items() if value is not None}
        reply = await on.signed("POST", "order", **sent)
        assert (reply.status, reply.body["code"]) == (400, code), reply.body
        assert message in (None, reply.body["msg"])
        tested = await on.signed("POST", "order/test", **sent)
        assert tested.body.get("code") == code or code == -2010
        assert (await on.signed("GET", "openOrders")).body == []

    run(body)


def test_a_test_order_changes_nothing() -> None:
    async def body(on: Bench) -> None:
        assert (await on.signed("POST", "order/test", **ORDER)).body == {}
        rates = (await on.signed("POST", "order/test", **ORDER, computeCommissionRates="true")).body
        assert rates["standardCommissionForOrder"] == {"maker": "0.00100000", "taker": "0.00100000"}
        assert (await on.signed("GET", "allOrders", symbol="BTCUSDT")).body == []

    run(body)


def test_replacing_tells_of_both_parts() -> None:
    async def body(on: Bench) -> None:
        replace = {**ORDER, "cancelReplaceMode": "STOP_ON_FAILURE"}
        first = (await on.limit("49000.00", "0.1")).body["orderId"]
        done = await on.signed(
            "POST", "order/cancelReplace", **{**replace, "price": "48000", "cancelOrderId": first}
        )
        assert (done.status, done.body["newOrderResponse"]["price"]) == (200, "48000.00000000")
        second = done.body["newOrderResponse"]["orderId"]
        failed = await on.signed("POST", "order/cancelReplace", **replace, cancelOrderId=first)
        assert (failed.status, failed.body["code"]) == (400, -2022)
        assert failed.body["data"]["newOrderResult"] == "NOT_ATTEMPTED"
        assert failed.body["data"]["newOrderResponse"] is None
        partly = await on.signed(
            "POST", "order/cancelReplace", **{**replace, "quantity": "50", "cancelOrderId": second}
        )
        assert (partly.status, partly.body["code"]) == (409, -2021)
        assert (partly.body["data"]["cancelResult"], partly.body["data"]["newOrderResult"]) == (
            "SUCCESS",
            "FAILURE",
        )
        assert partly.body["data"]["newOrderResponse"]["code"] == -2010
        other = await on.signed(
            "POST",
            "order/cancelReplace",
            **{**replace, "cancelReplaceMode": "ALLOW_FAILURE", "cancelOrderId": second},
        )
        assert (other.status, other.body["data"]["newOrderResponse"]["status"]) == (409, "NEW")

    run(body)


def test_an_order_is_made_smaller_and_its_amendments_are_listed() -> None:
    async def body(on: Bench) -> None:
        placed = (await on.limit("49000.00", "0.1", newClientOrderId="one")).body["orderId"]
        path, named = "order/amend/keepPriority", {"symbol": "BTCUSDT", "orderId": placed}
        amended = await on.signed("PUT", path, **named, newQty="0.05", newClientOrderId="two")
        assert amended.body["amendedOrder"]["qty"] == "0.05000000"
        assert amended.headers["x-mbx-used-weight-1m"] == "4"
        rows = (await on.signed("GET", "order/amendments", **named)).body
        assert [(row["origQty"], row["newQty"], row["newClientOrderId"]) for row in rows] == [
            ("0.10000000", "0.05000000", "two")
        ]

    run(body)


def test_all_open_orders_of_a_symbol_are_cancelled_at_once() -> None:
    async def body(on: Bench) -> None:
        for price in ("49000.00", "48000.00"):
            await on.limit(price, "0.1")
        gone = (await on.signed("DELETE", "openOrders", symbol="BTCUSDT")).body
        assert [each["status"] for each in gone] == ["CANCELED", "CANCELED"]
        assert (await on.signed("GET", "openOrders")).body == []

    run(body)


def test_a_prevented_trade_with_oneself_is_listed() -> None:
    async def body(on: Bench) -> None:
        await on.limit("50000.50", "0.1")
        sold = (await on.limit("50000.50", "0.1", side="SELL", selfTradePreventionMode="EXPIRE_TAKER")).body
        assert (sold["status"], sold["preventedQuantity"]) == ("EXPIRED_IN_MATCH", "0.10000000")
        rows = (await on.signed("GET", "myPreventedMatches", symbol="BTCUSDT", orderId=sold["orderId"])).body
        assert [row["selfTradePreventionMode"] for row in rows] == ["EXPIRE_TAKER"]
        bad = await on.signed("GET", "myPreventedMatches", symbol="BTCUSDT")
        assert bad.body["code"] == -1128

    run(body)


def test_orders_are_found_by_time_and_no_span_is_longer_than_a_day() -> None:
    async def body(on: Bench) -> None:
        await on.limit("49000.00", "0.1")
        now = on.stamp()
        asked = {"symbol": "BTCUSDT", "startTime": now, "endTime": now}
        assert len((await on.signed("GET", "allOrders", **asked)).body) == 1
        assert (
            await on.signed("GET", "allOrders", **{**asked, "startTime": now - 5, "endTime": now - 1})
        ).body == []
        long = await on.signed("GET", "allOrders", **{**asked, "endTime": now + 86_400_001})
        assert long.body == {"code": -1127, "msg": "More than 24 hours between startTime and endTime."}

    run(body)


# --- limits and faults --------------------------------------------------------------------------


def _tight(clock: Clock) -> Limits:
    return Limits(clock, (Rule("REQUEST_WEIGHT", "MINUTE", 1, 50), Rule("ORDERS", "SECOND", 10, 2)))


def test_too_much_weight_gets_429_and_then_418_with_retry_after() -> None:
    async def body(on: Bench) -> None:
        for _ in range(2):
            assert (await on.get("trades", symbol="BTCUSDT")).status == 200
        replies = [await on.get("ping") for _ in range(11)]
        assert [reply.status for reply in replies] == [429] * 10 + [418]
        assert replies[0].headers["retry-after"] == str(60 - START // 10**9 % 60)
        assert replies[-1].headers["retry-after"] == "120"
        assert {reply.body["code"] for reply in replies} == {-1003}
        on.advance(120)
        assert (await on.get("ping")).status == 200

    run(body, _tight)


def test_too_many_orders_get_429_and_a_replacement_may_only_cancel() -> None:
    async def body(on: Bench) -> None:
        first = (await on.limit("49000.00", "0.1")).body["orderId"]
        await on.limit("48000.00", "0.1")
        refused = await on.limit("47000.00", "0.1")
        assert (refused.status, refused.body["code"], refused.headers["retry-after"]) == (429, -1015, "10")
        replace = {**ORDER, "cancelReplaceMode": "STOP_ON_FAILURE", "cancelOrderId": first}
        assert (await on.signed("POST", "order/cancelReplace", **replace)).body["code"] == -1015
        only_cancelled = await on.signed(
            "POST", "order/cancelReplace", **replace, orderRateLimitExceededMode="CANCEL_ONLY"
        )
        assert (only_cancelled.status, only_cancelled.body["code"]) == (429, -2021)
        assert only_cancelled.body["data"]["cancelResult"] == "SUCCESS"
        counts = (await on.signed("GET", "rateLimit/order")).body
        assert [each["count"] for each in counts] == [2]
        on.advance(10)
        assert (await on.limit("47000.00", "0.1")).status == 200

    run(body, _tight)


def test_an_order_that_trades_leaves_the_count() -> None:
    async def body(on: Bench) -> None:
        for _ in range(3):
            reply = await on.limit("50002.00", "0.1")
            assert (reply.status, reply.headers["x-mbx-order-count-10s"]) == (200, "0")

    run(body, _tight)


@pytest.mark.parametrize(
    ("fault", "status", "code", "placed"),
    [
        ({"kind": "error_before", "status": 502}, 502, -1001, 0),
        ({"kind": "error_after", "status": 503}, 503, -1001, 1),
        ({"kind": "timeout_before"}, 408, -1007, 0),
        ({"kind": "timeout_after"}, 408, -1007, 1),
        ({"kind": "limit", "seconds": 7}, 429, -1003, 0),
        ({"kind": "ban", "seconds": 300}, 418, -1003, 0),
    ],
)
def test_a_fault_strikes_once_before_or_after_the_order_stands(
    fault: dict[str, Any], status: int, code: int, placed: int
) -> None:
    async def body(on: Bench) -> None:
        on.exchange.faults.set({"on": "order.place", **fault})
        reply = await on.limit("49000.00", "0.1")
        assert (reply.status, reply.body["code"]) == (status, code)
        assert reply.headers.get("retry-after") == (str(fault["seconds"]) if "seconds" in fault else None)
        assert len((await on.signed("GET", "openOrders")).body) == placed
        assert (await on.limit("49000.00", "0.1")).status == 200

    run(body)


@pytest.mark.parametrize(("kind", "placed"), [("drop_before", 0), ("drop_after", 1)])
def test_a_connection_is_cut_before_or_after_the_order_stands(kind: str, placed: int) -> None:
    async def body(on: Bench) -> None:
        on.exchange.faults.set({"kind": kind, "on": "order.place"})
        with pytest.raises(aiohttp.ClientConnectionError):
            await on.limit("49000.00", "0.1")
        assert len((await on.signed("GET", "openOrders")).body) == placed

    run(body)


def test_a_request_that_waited_past_its_window_is_not_acted_upon() -> None:
    async def body(on: Bench) -> None:
        on.exchange.faults.set({"kind": "delay_before", "on": "order.place", "seconds": 6})
        waiting = asyncio.create_task(on.limit("49000.00", "0.1"))
        await eventually(lambda: on.exchange.faults.document()["faults"][0]["hit"] == 1)
        on.advance(6)
        reply = await waiting
        assert (reply.body["code"], (await on.signed("GET", "openOrders")).body) == (-1021, [])

    run(body)


def test_a_skewed_exchange_refuses_who_trusts_the_true_time() -> None:
    async def body(on: Bench) -> None:
        on.exchange.faults.skew(10_000)
        assert (await on.get("time")).body["serverTime"] == START // MILLISECOND + 10_000
        assert (await on.signed("GET", "account")).body["code"] == -1021
        assert (await on.signed("GET", "account", timestamp=on.stamp() + 10_000)).status == 200
        on.exchange.faults.clear()
        assert (await on.signed("GET", "account")).status == 200

    run(body)


def test_a_stale_snapshot_stays_as_it_was_while_the_book_moves() -> None:
    async def body(on: Bench) -> None:
        on.exchange.faults.set({"kind": "stale_snapshot", "on": "BTCUSDT", "times": 2})
        before = (await on.get("depth", symbol="BTCUSDT")).body
        await on.limit("49999.50", "0.1")
        on.advance(1)
        assert (await on.get("depth", symbol="BTCUSDT")).body == before
        assert (await on.get("depth", symbol="BTCUSDT")).body["lastUpdateId"] > before["lastUpdateId"]

    run(body)


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "earthquake"},
        {"kind": "limit", "colour": "red"},
        {"kind": "limit", "every": 0},
        {"kind": "limit", "status": 200},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(document: dict[str, Any]) -> None:
    async def body(on: Bench) -> None:
        with pytest.raises(ValueError, match="fault"):
            on.exchange.faults.set(document)

    run(body)


def test_what_the_venue_does_not_have_is_empty() -> None:
    async def body(on: Bench) -> None:
        assert (await on.signed("GET", "openOrderList")).body == []
        assert (await on.signed("GET", "allOrderList", limit=5)).body == []
        assert (await on.signed("GET", "myAllocations", symbol="BTCUSDT")).body == []
        assert (await on.signed("POST", "orderList/oco", symbol="BTCUSDT")).status == 404

    run(body)


def test_a_failure_inside_is_a_5xx_whose_outcome_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    async def body(on: Bench) -> None:
        on.exchange.venue.close()
        reply = await on.limit("49000.00", "0.1")
        assert (reply.status, reply.body["code"]) == (500, -1000)
        assert "order.place could not be finished" in caplog.text
        assert on.key.material not in caplog.text

    run(body)


def _by_account(clock: Clock) -> Limits:
    return Limits(clock, (Rule("REQUEST_WEIGHT", "MINUTE", 1, 50),), by="account")


def test_programs_without_a_key_use_up_nothing_of_an_accounts_and_ban_nobody() -> None:
    async def body(on: Bench) -> None:
        assert {(await on.get("trades", symbol="BTCUSDT")).status for _ in range(12)} == {200}
        strange = {(await on.get("account", timestamp="1", signature="0" * 64)).status for _ in range(12)}
        assert strange <= {400, 401}
        assert (await on.signed("GET", "account")).status == 200

    run(body, _by_account)


@pytest.mark.parametrize("limits", [_tight, _by_account])
def test_orders_are_found_and_cancelled_beyond_every_limit_and_ban(limits: Callable[[Clock], Limits]) -> None:
    async def body(on: Bench) -> None:
        order = (await on.limit("49000.00", "0.1")).body["orderId"]
        statuses = [(await on.signed("GET", "account")).status for _ in range(20)]
        assert statuses[-1] == 418, statuses
        assert (await on.signed("GET", "openOrders")).status == 200
        assert (await on.signed("DELETE", "order", symbol="BTCUSDT", orderId=order)).status == 200
        assert (await on.limit("49000.00", "0.1")).status == 418
        forged = await on.get("openOrders", timestamp="1", signature="0" * 64)
        assert forged.status in (400, 401, 418)

    run(body, limits)
