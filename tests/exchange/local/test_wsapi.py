"""The WebSocket API over a real socket: requests, sessions and user data."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.exchange.local.support import LIMIT, START, Bench, Wire, bench, connected, only, sign
from tests.support import BOUND
from tracedesk.exchange.local.auth import Key
from tracedesk.exchange.local.limits import Limits, Rule
from tracedesk.primitives.time import MILLISECOND, Clock

Body = Callable[[Bench, Wire], Coroutine[Any, Any, None]]
ORDER = {**LIMIT, "price": "49000.00", "quantity": "0.1"}
NOW = START // MILLISECOND


def run(body: Body, limits: Callable[[Clock], Limits] | None = None, path: str = "/ws-api/v3") -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * BOUND), bench(limits=limits) as on, connected(on, path) as wire:
            await body(on, wire)

    asyncio.run(main())


# --- requests -----------------------------------------------------------------------------------


def test_a_request_gets_its_id_its_result_and_what_the_limits_are() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        for request_id in (7, "a-b", None):
            answer = await wire.say({"id": request_id, "method": "time"})
            assert (answer["id"], answer["status"], answer["result"]) == (
                request_id,
                200,
                {"serverTime": NOW},
            )
        # Connecting cost two, each question one.
        assert answer["rateLimits"] == [
            {
                "rateLimitType": "REQUEST_WEIGHT",
                "interval": "MINUTE",
                "intervalNum": 1,
                "limit": 6000,
                "count": 5,
            }
        ]
        assert (await wire.call("v3/ping"))["result"] == {}

    run(body)


def test_limits_are_left_out_when_asked_to() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        assert "rateLimits" not in await wire.call("ping")
        assert "rateLimits" in await wire.call("ping", returnRateLimits=True)

    run(body, path="/ws-api/v3?returnRateLimits=false")


def test_the_market_can_be_asked_about() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        depth = (await wire.call("depth", symbol="BTCUSDT", limit=1))["result"]
        assert depth["bids"] == [["50000.00000000", "1.00000000"]]
        both = (await wire.call("ticker.price", symbols=["BTCUSDT", "ETHUSDT"]))["result"]
        assert [each["symbol"] for each in both] == ["BTCUSDT", "ETHUSDT"]
        assert (await wire.call("klines", symbol="BTCUSDT", interval="1m"))["result"] == []
        assert (await wire.call("exchangeInfo", symbol="BTCUSDT"))["result"]["symbols"][0][
            "status"
        ] == "TRADING"

    run(body)


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        '{"method":"ping"}',
        '{"id":true,"method":"ping"}',
        '{"id":1}',
        '{"id":1,"method":"ping","params":[]}',
        '{"id":1,"method":"ping","params":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}",
        '{"id":1,"method":"ping","params":{"a":' + "[" * 990 + "]" * 990 + "}}",
        f'{{"id":{"9" * 5_000},"method":"ping"}}',
        f'{{"id":{"9" * 30},"method":"ping"}}',
        '{"id":NaN,"method":"ping"}',
        '{"id":"\\ud800","method":"ping"}',
        '{"id":1,"method":"ticker.price","params":{"symbol":"\\ud800"}}',
        '{"id":1,"method":"account.status","params":{"apiKey":"k","timestamp":1,"signature":"\\ud800"}}',
    ],
)
def test_what_is_no_request_is_refused(said: str) -> None:
    async def body(on: Bench, wire: Wire) -> None:
        answer = await wire.say(said)
        assert (answer["id"], answer["status"], answer["error"]["code"]) == (None, 400, -1135)
        assert (await wire.call("ping"))["status"] == 200

    run(body)


def test_errors_carry_the_venues_codes() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        cases = [
            (await wire.call("wish"), 400, -1020),
            (await wire.call("depth"), 400, -1102),
            (await wire.call("depth", symbol="NOPE"), 400, -1121),
            (await wire.call("account.status", timestamp=NOW), 401, -2014),
            (
                await wire.call("account.status", apiKey=on.key.api_key, timestamp=NOW, signature="00"),
                400,
                -1022,
            ),
            (await wire.signed("account.status", timestamp=NOW - 6000), 400, -1021),
            (await wire.signed("order.place", **{**ORDER, "quantity": "100"}), 400, -2010),
            (
                await wire.signed("order.place", on.exchange.keys.issue("ann", only("USER_DATA")), **ORDER),
                401,
                -2015,
            ),
        ]
        for number, (answer, status, code) in enumerate(cases):
            assert (answer["status"], answer["error"]["code"]) == (status, code), number

    run(body)


def test_an_order_lives_over_the_socket_as_over_rest() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        assert (await wire.signed("order.test", **ORDER))["result"] == {}
        placed = await wire.signed("order.place", **ORDER, newClientOrderId="mine")
        assert placed["result"]["status"] == "NEW"
        counts = {(each["rateLimitType"], each["interval"]): each["count"] for each in placed["rateLimits"]}
        assert counts == {("ORDERS", "SECOND"): 1, ("ORDERS", "DAY"): 1, ("REQUEST_WEIGHT", "MINUTE"): 3}
        number = placed["result"]["orderId"]
        status = await wire.signed("order.status", symbol="BTCUSDT", orderId=number)
        assert status["result"] == (await on.signed("GET", "order", symbol="BTCUSDT", orderId=number)).body
        assert [each["orderId"] for each in (await wire.signed("openOrders.status"))["result"]] == [number]
        replaced = await wire.signed(
            "order.cancelReplace",
            **{**ORDER, "price": "48000"},
            cancelReplaceMode="STOP_ON_FAILURE",
            cancelOrderId=number,
        )
        second = replaced["result"]["newOrderResponse"]["orderId"]
        smaller = await wire.signed(
            "order.amend.keepPriority", symbol="BTCUSDT", orderId=second, newQty="0.05"
        )
        assert smaller["result"]["amendedOrder"]["qty"] == "0.05000000"
        gone = await wire.signed("order.cancel", symbol="BTCUSDT", orderId=second)
        assert gone["result"]["status"] == "CANCELED"
        assert [each["status"] for each in (await wire.signed("allOrders", symbol="BTCUSDT"))["result"]] == [
            "CANCELED"
        ] * 2
        failed = await wire.signed(
            "order.cancelReplace", **ORDER, cancelReplaceMode="ALLOW_FAILURE", cancelOrderId=second
        )
        assert (failed["status"], failed["error"]["code"], failed["error"]["data"]["newOrderResult"]) == (
            409,
            -2021,
            "SUCCESS",
        )
        swept = await wire.signed("openOrders.cancelAll", symbol="BTCUSDT")
        assert [each["status"] for each in swept["result"]] == ["CANCELED"]

    run(body)


def test_numbers_of_a_request_keep_the_digits_that_were_signed() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        said = {**ORDER, "apiKey": on.key.api_key, "timestamp": NOW, "recvWindow": "5000.5"}
        text = "&".join(f"{name}={value}" for name, value in sorted({**said, "price": "49000.10"}.items()))
        request = json.dumps(
            {
                "id": 1,
                "method": "order.place",
                "params": {**said, "price": 0, "signature": sign(on.key, text)},
            }
        )
        answer = await wire.say(
            request.replace('"price": 0', '"price": 49000.10').replace('"5000.5"', "5000.5")
        )
        assert answer["result"]["price"] == "49000.10000000"

    run(body)


def test_over_the_limit_the_answer_says_when_to_come_back() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        assert (await wire.call("ping"))["status"] == 200
        spent = await wire.call("ping")
        left = 60_000 - NOW % 60_000
        assert spent["status"] == 429
        assert spent["error"]["data"] == {"serverTime": NOW, "retryAfter": NOW + left}

    run(body, lambda clock: Limits(clock, (Rule("REQUEST_WEIGHT", "MINUTE", 1, 3),)))


@pytest.mark.parametrize(("kind", "placed"), [("drop_before", 0), ("drop_after", 1)])
def test_a_fault_cuts_the_socket_before_or_after_the_order_stands(kind: str, placed: int) -> None:
    async def body(on: Bench, wire: Wire) -> None:
        on.exchange.faults.set({"kind": kind, "on": "order.place"})
        with pytest.raises(AssertionError):
            await wire.signed("order.place", **ORDER)
        assert wire.socket.closed
        assert len((await on.signed("GET", "openOrders")).body) == placed

    run(body)


# --- user data ----------------------------------------------------------------------------------


async def _events(wire: Wire, number: int) -> list[dict[str, Any]]:
    return [(await wire.read())["event"] for _ in range(number)]


def test_an_account_hears_of_its_orders_and_balances() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        assert (await wire.signed("userDataStream.subscribe.signature"))["result"] == {"subscriptionId": 0}
        placed = (await on.limit("49000.00", "0.1", newClientOrderId="mine")).body["orderId"]
        new, position = await _events(wire, 2)
        assert (new["e"], new["x"], new["X"], new["w"]) == ("executionReport", "NEW", "NEW", True)
        assert (new["c"], new["i"]) == ("mine", placed)
        assert (new["n"], new["N"], new["t"], new["T"], new["V"]) == ("0", None, -1, NOW, "EXPIRE_MAKER")
        assert position == {
            "e": "outboundAccountPosition",
            "E": NOW,
            "u": NOW,
            "B": [
                {"a": "BTC", "f": "10.00000000", "l": "0.00000000"},
                {"a": "USDT", "f": "995100.00000000", "l": "4900.00000000"},
            ],
        }
        await on.signed("DELETE", "order", symbol="BTCUSDT", orderId=placed, newClientOrderId="stop-it")
        gone, _ = await _events(wire, 2)
        assert (gone["x"], gone["c"], gone["C"]) == ("CANCELED", "stop-it", "mine")
        await on.limit("50001.00", "0.5")
        new, trade, position = await _events(wire, 3)
        assert (trade["x"], trade["X"], trade["m"]) == ("TRADE", "FILLED", False)
        assert (trade["l"], trade["L"], trade["Y"]) == ("0.50000000", "50001.00000000", "25000.50000000")
        assert (trade["n"], trade["N"]) == ("0.00050000", "BTC")
        assert {row["a"] for row in position["B"]} == {"BTC", "USDT"}
        on.exchange.venue.deposit("ann", "ETH", 5)
        deposit = next(each for each in await _events(wire, 2) if each["e"] == "balanceUpdate")
        assert (deposit["a"], deposit["d"]) == ("ETH", "0.00000005")

    run(body)


def test_no_account_hears_of_another() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        bob = on.exchange.keys.issue("bob")
        await wire.signed("userDataStream.subscribe.signature")
        await wire.signed("userDataStream.subscribe.signature", bob)
        await on.signed("POST", "order", bob, **ORDER)
        heard = [await wire.read() for _ in range(2)]
        assert {each["subscriptionId"] for each in heard} == {1}
        assert (await wire.call("session.subscriptions"))["result"] == [
            {"subscriptionId": 0},
            {"subscriptionId": 1},
        ]

    run(body)


def test_subscriptions_end_one_by_one_or_all_at_once() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        bob = on.exchange.keys.issue("bob")
        assert (await wire.call("userDataStream.unsubscribe"))["error"]["code"] == -2036
        await wire.signed("userDataStream.subscribe.signature")
        again = await wire.signed("userDataStream.subscribe.signature")
        assert again["error"] == {"code": -2035, "msg": "User Data Stream subscription already active."}
        await wire.signed("userDataStream.subscribe.signature", bob)
        await wire.socket.send_json(
            {"id": 9, "method": "userDataStream.unsubscribe", "params": {"subscriptionId": 0}}
        )
        said = [await wire.read(), await wire.read()]
        ended = {"subscriptionId": 0, "event": {"e": "eventStreamTerminated", "E": NOW}}
        assert ended in said
        assert (await wire.call("session.status"))["result"]["userDataStream"] is True
        await wire.call("userDataStream.unsubscribe")
        assert (await wire.call("session.status"))["result"]["userDataStream"] is False
        third = await wire.signed("userDataStream.subscribe.signature")
        assert third["result"] == {"subscriptionId": 2}

    run(body)


# --- sessions -----------------------------------------------------------------------------------


def _pair(on: Bench) -> tuple[Key, Ed25519PrivateKey]:
    private = Ed25519PrivateKey.generate()
    shape = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = private.public_key().public_bytes(serialization.Encoding.PEM, shape).decode()
    return on.exchange.keys.register("ann", pem), private


async def _log_on(wire: Wire, key: Key, private: Ed25519PrivateKey) -> Any:
    payload = f"apiKey={key.api_key}&timestamp={NOW}"
    signature = base64.b64encode(private.sign(payload.encode())).decode()
    return await wire.call("session.logon", apiKey=key.api_key, timestamp=NOW, signature=signature)


def test_a_session_that_is_logged_on_signs_nothing_more() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        key, private = _pair(on)
        logon = (await _log_on(wire, key, private))["result"]
        assert (logon["apiKey"], logon["authorizedSince"], logon["userDataStream"]) == (
            key.api_key,
            NOW,
            False,
        )
        assert (await wire.call("account.status", timestamp=NOW))["result"]["accountType"] == "SPOT"
        assert (await wire.call("account.status"))["error"]["code"] == -1102
        assert (await wire.call("userDataStream.subscribe"))["result"] == {"subscriptionId": 0}
        placed = await wire.call("order.place", **ORDER, timestamp=NOW)
        assert placed["result"]["status"] == "NEW"
        await wire.socket.send_json({"id": 99, "method": "session.logout"})
        said = [await wire.read() for _ in range(2)]
        assert any(each.get("event", {}).get("e") == "eventStreamTerminated" for each in said)
        assert (await wire.call("account.status", timestamp=NOW))["error"]["code"] == -2014

    run(body)


def test_a_session_ends_with_its_key() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        key, private = _pair(on)
        await _log_on(wire, key, private)
        on.exchange.keys.revoke(key.api_key)
        assert (await wire.call("account.status", timestamp=NOW))["error"]["code"] == -2015

    run(body)


def test_only_key_pairs_of_ed25519_log_on() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        refused = await wire.signed("session.logon")
        assert (refused["status"], refused["error"]["msg"]) == (400, "HMAC_SHA256 API key is not supported.")
        assert (await wire.call("userDataStream.subscribe"))["error"]["code"] == -2015

    run(body)


def test_a_malformed_frame_may_come_before_an_event() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        await wire.signed("userDataStream.subscribe.signature")
        on.exchange.faults.set({"kind": "malformed", "on": "userDataStream"})
        await on.limit("49000.00", "0.1")
        broken = await wire.socket.receive(5)
        assert broken.type is aiohttp.WSMsgType.TEXT
        with pytest.raises(ValueError, match="Expecting value"):
            json.loads(broken.data)
        assert (await wire.read())["event"]["e"] == "executionReport"

    run(body)


def test_fields_that_only_some_orders_have_are_shown_for_those() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        await wire.signed("userDataStream.subscribe.signature")
        iceberg = (
            await on.limit("49000.00", "0.1", icebergQty="0.01", strategyId="7", strategyType="1000000")
        ).body
        assert (iceberg["icebergQty"], iceberg["strategyId"], iceberg["strategyType"]) == (
            "0.01000000",
            7,
            1000000,
        )
        assert not {"stopPrice", "trailingDelta", "preventedMatchId", "expiryReason"} & set(iceberg)
        report, _ = await _events(wire, 2)
        assert (report["F"], report["j"], report["J"], report["W"]) == ("0.01000000", 7, 1000000, NOW)
        assert not {"d", "D", "v", "A", "eR"} & set(report)
        await on.limit("50001.00", "0.01")
        await _events(wire, 3)
        stop = {
            "symbol": "BTCUSDT",
            "side": "SELL",
            "type": "STOP_LOSS",
            "quantity": "0.1",
            "trailingDelta": "100",
        }
        trailing = (await on.signed("POST", "order", **stop, newOrderRespType="RESULT")).body
        assert (trailing["trailingDelta"], trailing["workingTime"], "stopPrice" in trailing) == (
            100,
            -1,
            True,
        )
        report, _ = await _events(wire, 2)
        assert (report["d"], report["w"], "W" in report) == (100, False, False)
        expired = (await on.limit("49000.00", "0.1", timeInForce="FOK")).body
        assert (expired["status"], expired["expiryReason"]) == ("EXPIRED", "UNFILLED_FOK_ORDER_EXPIRED")
        heard = await _events(wire, 3)
        assert heard[1]["eR"] == "UNFILLED_FOK_ORDER_EXPIRED"

    run(body)


def test_a_prevented_trade_is_reported_with_its_counterpart() -> None:
    async def body(on: Bench, wire: Wire) -> None:
        await wire.signed("userDataStream.subscribe.signature")
        resting = (await on.limit("50000.50", "0.1")).body["orderId"]
        await _events(wire, 2)
        await on.limit("50000.50", "0.1", side="SELL", selfTradePreventionMode="EXPIRE_TAKER")
        heard = await _events(wire, 3)
        report = next(each for each in heard if each.get("x") == "TRADE_PREVENTION")
        assert (report["X"], report["A"], report["B"]) == ("EXPIRED_IN_MATCH", "0.10000000", "0.10000000")
        assert (report["U"], report["Cs"], report["pL"]) == (resting, "BTCUSDT", "50000.50000000")

    run(body)
