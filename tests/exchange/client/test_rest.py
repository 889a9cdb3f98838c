"""REST: what is sent, what is repeated, and what an answer that is none means."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from tests.exchange.client.scripted import Asked, Bench, Said, Script, bench, run, soon
from tests.exchange.client.test_signing import KEY, SECRET
from tracedesk.exchange.client import http
from tracedesk.exchange.client.client import TIMEOUT
from tracedesk.exchange.client.errors import (
    ClientError,
    CredentialsRequired,
    OutcomeUnknown,
    RateLimited,
    Unreachable,
    VenueError,
)
from tracedesk.exchange.client.rest import Rest
from tracedesk.exchange.client.signing import Credentials

ORDER: Final[dict[str, Any]] = {"symbol": "BTCUSDT", "side": "BUY", "type": "MARKET", "quantity": "1"}
BAD_TIME: Final = Said(
    400, {"code": -1021, "msg": "Timestamp for this request is outside of the recvWindow."}
)


def _rest(given: Bench) -> Rest:
    return given.client.signed(Credentials.of(KEY, SECRET))


def _verifies(asked: Asked) -> bool:
    """Whether the signature is of exactly the bytes that arrived before it."""
    payload, _, signature = asked.payload.partition("&signature=")
    return hmac.new(SECRET.encode(), payload.encode(), hashlib.sha256).hexdigest() == signature


async def _refusal(call: Any) -> ClientError:
    with pytest.raises(ClientError) as refusal:
        await soon(call)
    return refusal.value


async def _repetitions(given: Bench, call: Any) -> tuple[Any, list[float]]:
    """The outcome of a call whose pauses are let pass, and how long they were."""
    task = asyncio.ensure_future(call)
    pauses: list[float] = []
    while True:
        napping = asyncio.ensure_future(given.clock.asleep(0.01, 4.0))
        hung = asyncio.ensure_future(given.venue.hung.wait())
        await asyncio.wait({task, napping, hung}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            pauses.append(napping.result() if napping.done() else TIMEOUT)
            given.clock.advance(pauses[-1])
            given.venue.hung.clear()
        napping.cancel()
        hung.cancel()
        if task.done():
            return (task.exception() or task.result()), pauses


# --- signing and time -------------------------------------------------------------------------------


def test_every_kind_of_request_is_signed_over_the_bytes_that_are_sent() -> None:
    async def main() -> None:
        async with bench() as given:
            rest = _rest(given)
            given.venue.always("GET", "openOrders", lambda asked: Said(body=[]))
            await rest.order("１２３４５６", origClientOrderId="a b/c+d")
            await rest.open_orders()
            await rest.new_order(**ORDER | {"symbol": "１２３４５６"})
            await rest.cancel_order("BTCUSDT", orderId=7)
            await rest.amend_keep_priority(symbol="BTCUSDT", orderId=7, newQty="0.5")
            signed = [each for each in given.venue.asked if each.path != "time"]
            assert [each.method for each in signed] == ["GET", "GET", "POST", "DELETE", "PUT"]
            assert all(_verifies(each) and each.headers["X-MBX-APIKEY"] == KEY for each in signed)
            assert signed[0].params["symbol"] == "１２３４５６"
            assert signed[0].params["origClientOrderId"] == "a b/c+d"

    run(main())


def test_a_request_is_good_for_five_seconds_unless_told_otherwise() -> None:
    async def main() -> None:
        async with bench() as given:
            rest = _rest(given)
            await rest.new_order(**ORDER)
            await rest.new_order(**ORDER, recvWindow=1500)
            windows = [each.params["recvWindow"] for each in given.venue.asked if each.path == "order"]
            assert windows == ["5000", "1500"]
            assert all(
                each.payload.count("recvWindow") == 1 for each in given.venue.asked if each.path == "order"
            )

    run(main())


def test_a_key_is_not_sent_with_public_requests() -> None:
    async def main() -> None:
        async with bench() as given:
            await _rest(given).depth("BTCUSDT", 10)
            assert "X-MBX-APIKEY" not in given.venue.last("GET", "depth").headers
            assert given.venue.last("GET", "depth").query == "symbol=BTCUSDT&limit=10"

    run(main())


def test_a_signed_call_without_credentials_is_refused_before_it_is_sent() -> None:
    async def main() -> None:
        async with bench() as given:
            with pytest.raises(CredentialsRequired, match="connect"):
                await given.client.public.new_order(**ORDER)
            assert given.venue.asked == []

    run(main())


def test_the_time_stamp_follows_a_venue_whose_clock_is_ten_seconds_ahead() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.skew_ms = 10_000
            # One answer among the samples is absurd; the median does not care.
            given.venue.script("GET", "time", Said(body={"serverTime": 1}))
            await _rest(given).account()
            stamp = int(given.venue.last("GET", "account").params["timestamp"])
            assert stamp == given.clock.now_ns() // 1_000_000 + 10_000
            assert given.venue.count("GET", "time") == 5
            assert given.client.time.offset_ms == 10_000

    run(main())


def test_a_refused_time_stamp_is_measured_again_and_the_order_is_sent_once_more() -> None:
    async def main() -> None:
        async with bench() as given:
            rest = _rest(given)
            await rest.account()
            given.venue.skew_ms = -10_000
            given.venue.script("POST", "order", BAD_TIME, Said(body={"orderId": 1}))
            assert await rest.new_order(**ORDER) == {"orderId": 1}
            assert given.venue.count("POST", "order") == 2
            stamp = int(given.venue.last("POST", "order").params["timestamp"])
            assert stamp == given.clock.now_ns() // 1_000_000 - 10_000

    run(main())


def test_a_time_stamp_that_stays_refused_is_told_and_not_tried_a_third_time() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.script("POST", "order", BAD_TIME, BAD_TIME)
            refusal = await _refusal(_rest(given).new_order(**ORDER))
            assert isinstance(refusal, VenueError)
            assert refusal.venue_code == -1021
            assert "NTP" in refusal.message
            assert given.venue.count("POST", "order") == 2

    run(main())


# --- reads are repeated -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        "cut",
        Said(500, {}),
        Said(503, b"<html>busy</html>"),
        Said(400, {"code": -1007, "msg": "Timeout waiting for response from backend server."}),
        Said(400, {"code": -1008, "msg": "Server is currently overloaded."}),
        Said(200, b"{torn"),
        Said(200, []),
        Said(302, {}, {"Location": "/api/v3/ping"}),
    ],
)
def test_a_read_is_repeated_with_growing_pauses(fault: Script) -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.script("GET", "depth", fault, fault, Said(body={"lastUpdateId": 1}))
            outcome, pauses = await _repetitions(given, given.client.public.depth("BTCUSDT"))
            assert outcome == {"lastUpdateId": 1}
            assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] <= 0.5

    run(main())


def test_a_read_that_fails_three_times_says_that_the_venue_cannot_be_reached() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.always("GET", "depth", lambda asked: "cut")
            outcome, pauses = await _repetitions(given, given.client.public.depth("BTCUSDT"))
            assert isinstance(outcome, Unreachable)
            assert outcome.code == "VENUE_UNAVAILABLE"
            assert len(pauses) == 2
            assert given.venue.count("GET", "depth") == 3

    run(main())


def test_a_read_without_an_answer_is_given_up_after_its_time_and_repeated() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.script("GET", "depth", "hang", Said(body={"lastUpdateId": 1}))
            outcome, pauses = await _repetitions(given, given.client.public.depth("BTCUSDT"))
            assert outcome == {"lastUpdateId": 1}
            assert pauses[0] == TIMEOUT

    run(main())


def test_a_refusal_is_an_answer_and_is_not_repeated() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.script("GET", "depth", Said(400, {"code": -1121, "msg": "Invalid symbol."}))
            refusal = await _refusal(given.client.public.depth("NOPE"))
            assert (refusal.code, given.venue.count("GET", "depth")) == ("INVALID_SYMBOL", 1)

    run(main())


# --- orders are not ---------------------------------------------------------------------------------

WRITES: Final[dict[str, Callable[[Rest], Coroutine[Any, Any, Any]]]] = {
    "POST order": lambda rest: rest.new_order(**ORDER),
    "DELETE order": lambda rest: rest.cancel_order("BTCUSDT", orderId=1),
    "DELETE openOrders": lambda rest: rest.cancel_open_orders("BTCUSDT"),
    "POST order/cancelReplace": lambda rest: rest.cancel_replace(**ORDER),
    "PUT order/amend/keepPriority": lambda rest: rest.amend_keep_priority(
        symbol="BTCUSDT", orderId=1, newQty="1"
    ),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "fault",
    [
        "cut",
        "hang",
        Said(502, b"bad gateway"),
        Said(408, b""),
        Said(408, {"code": -2010, "msg": "Said too late."}),
        Said(400, b"<html>"),
        Said(404, {"error": "no such page"}),
        Said(503, {"code": -1008, "msg": "Server is currently overloaded."}),
        Said(400, {"code": -1007, "msg": "Timeout waiting for response from backend server."}),
        Said(400, {"code": -1006, "msg": "An unexpected response was received from the message bus."}),
        Said(200, b"{torn"),
        Said(200, 7),
        Said(307, {}, {"Location": "/api/v3/order"}),
    ],
)
def test_a_write_without_a_clear_answer_has_an_unknown_outcome_and_is_sent_once(
    write: str, fault: Script
) -> None:
    async def main() -> None:
        async with bench() as given:
            rest = _rest(given)
            await rest.account()  # the clock is measured, and a connection is open to be cut
            method, path = write.split()
            given.venue.script(method, path, fault)
            outcome, _ = await _repetitions(given, WRITES[write](rest))
            assert isinstance(outcome, OutcomeUnknown)
            assert outcome.code == "OUTCOME_UNKNOWN"
            assert "do not send it again" in outcome.message
            assert given.venue.count(method, path) == 1

    run(main())


def test_a_write_that_never_left_is_certain_not_to_have_happened() -> None:
    async def main() -> None:
        async with bench() as given:
            rest = _rest(given)
            await rest.account()
            await given.client._http.close()  # pyright: ignore[reportPrivateUsage]
            from tracedesk.exchange.client.client import Client
            from tracedesk.exchange.client.venue import Endpoints

            nobody = Client(Endpoints("sim", "http://127.0.0.1:9", "", ""), clock=given.clock)
            nobody.time.measured_ns = given.clock.now_ns()
            refusal = await _refusal(nobody.signed(Credentials.of(KEY, SECRET)).new_order(**ORDER))
            assert isinstance(refusal, Unreachable)
            assert "Connect" in refusal.message or "connection" in refusal.message
            await nobody.close()

    run(main())


def test_half_a_cancel_replace_tells_which_half_was_done() -> None:
    async def main() -> None:
        async with bench() as given:
            halves: dict[str, Any] = {
                "cancelResult": "SUCCESS",
                "newOrderResult": "FAILURE",
                "newOrderResponse": {"code": -2010},
            }
            body = {"code": -2021, "msg": "Order cancel-replace partially failed.", "data": halves}
            given.venue.script("POST", "order/cancelReplace", Said(409, body))
            refusal = await _refusal(_rest(given).cancel_replace(**ORDER))
            assert isinstance(refusal, VenueError)
            assert refusal.data == halves
            halves["newOrderResponse"] = {"code": -1007, "msg": "Timeout"}
            given.venue.script("POST", "order/cancelReplace", Said(409, body))
            assert isinstance(await _refusal(_rest(given).cancel_replace(**ORDER)), OutcomeUnknown)

    run(main())


@pytest.mark.parametrize(
    ("status", "venue_code", "text", "code"),
    [
        (400, -1013, "Filter failure: LOT_SIZE", "FILTER_FAILURE"),
        (400, -2010, "Account has insufficient balance for requested action.", "INSUFFICIENT_BALANCE"),
        (400, -2010, "Market is closed.", "INVALID_PARAMETER"),
        (400, -1121, "Invalid symbol.", "INVALID_SYMBOL"),
        (401, -2015, "Invalid API-key, IP, or permissions for action.", "CREDENTIALS_REQUIRED"),
        (400, -1022, "Signature for this request is not valid.", "CREDENTIALS_REQUIRED"),
        (400, -1016, "This service is no longer available.", "VENUE_UNAVAILABLE"),
        (403, 0, "", "INVALID_PARAMETER"),
    ],
)
def test_a_refusal_keeps_the_venues_words_and_names_a_remedy(
    status: int, venue_code: int, text: str, code: str
) -> None:
    async def main() -> None:
        async with bench() as given:
            body = {"code": venue_code, "msg": text} if venue_code else b"<html>blocked</html>"
            given.venue.script("POST", "order", Said(status, body))
            refusal = await _refusal(_rest(given).new_order(**ORDER))
            assert isinstance(refusal, VenueError)
            assert (refusal.code, refusal.venue_code, refusal.status) == (code, venue_code, status)
            assert text in refusal.message
            assert "Remedy: " in refusal.message
            assert given.venue.count("POST", "order") == 1

    run(main())


# --- limits -----------------------------------------------------------------------------------------

TOO_MUCH: Final = {"code": -1003, "msg": "Too much request weight used."}


def test_a_read_waits_as_long_as_the_venue_says_and_is_sent_again() -> None:
    async def main() -> None:
        async with bench(patience=3.0) as given:
            given.venue.script("GET", "depth", Said(429, TOO_MUCH, {"Retry-After": "2"}), Said(body={"a": 1}))
            outcome, pauses = await _repetitions(given, given.client.public.depth("BTCUSDT"))
            assert (outcome, pauses) == ({"a": 1}, [2.0])

    run(main())


@pytest.mark.parametrize(
    ("status", "banned", "headers", "seconds"),
    [
        (429, False, {"Retry-After": "30"}, 30.0),
        (429, False, {}, 10.0),
        (418, True, {"Retry-After": "600"}, 600.0),
        (418, True, {}, 120.0),
    ],
)
def test_nothing_is_sent_while_the_venue_wants_to_be_left_alone(
    status: int, banned: bool, headers: dict[str, str], seconds: float
) -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.script("GET", "depth", Said(status, TOO_MUCH, headers))
            first = await _refusal(given.client.public.depth("BTCUSDT"))
            second = await _refusal(given.client.public.ping())
            assert isinstance(first, RateLimited)
            assert isinstance(second, RateLimited)
            assert (first.retry_after, first.banned) == (seconds, banned)
            assert (second.sent, second.banned, second.code) == (False, banned, "RATE_LIMITED")
            assert len(given.venue.asked) == 1
            assert given.client.limits.document()["banned"] is banned
            given.clock.advance(seconds)
            await given.client.public.ping()
            assert "banned" not in given.client.limits.document()

    run(main())


def test_an_order_that_met_a_limit_was_not_placed_and_is_not_sent_again() -> None:
    async def main() -> None:
        async with bench(patience=60.0) as given:
            given.venue.script("POST", "order", Said(429, TOO_MUCH, {"Retry-After": "1"}))
            refusal = await _refusal(_rest(given).new_order(**ORDER))
            assert isinstance(refusal, RateLimited)
            assert refusal.sent
            assert given.venue.count("POST", "order") == 1

    run(main())


def test_a_cancel_replace_that_met_a_limit_half_way_says_what_was_done() -> None:
    async def main() -> None:
        async with bench(patience=0.0) as given:
            halves = {"cancelResult": "SUCCESS", "newOrderResult": "FAILURE"}
            body = {"code": -2021, "msg": "Order cancel-replace partially failed.", "data": halves}
            given.venue.script("POST", "order/cancelReplace", Said(429, body, {"Retry-After": "9"}))
            refusal = await _refusal(_rest(given).cancel_replace(**ORDER))
            assert isinstance(refusal, VenueError)
            assert (refusal.data, refusal.status) == (halves, 429)
            later = await _refusal(_rest(given).cancel_replace(**ORDER))
            assert isinstance(later, RateLimited)
            assert (later.sent, later.retry_after) == (False, 9.0)
            given.clock.advance(9.0)
            nothing = {**body, "data": {"cancelResult": "FAILURE", "newOrderResult": "NOT_ATTEMPTED"}}
            given.venue.script("POST", "order/cancelReplace", Said(429, nothing))
            assert isinstance(await _refusal(_rest(given).cancel_replace(**ORDER)), RateLimited)

    run(main())


def test_too_many_orders_of_one_account_stops_its_orders_and_nothing_else() -> None:
    async def main() -> None:
        async with bench(patience=0.0) as given:
            rest, other = _rest(given), given.client.signed(Credentials.of(KEY, SECRET[::-1]))
            too_many = Said(429, {"code": -1015, "msg": "Too many new orders."}, {"Retry-After": "9"})
            given.venue.script("POST", "order", too_many)
            await _refusal(rest.new_order(**ORDER))
            refusal = await _refusal(rest.new_order(**ORDER))
            assert isinstance(refusal, RateLimited)
            assert (refusal.sent, refusal.retry_after) == (False, 9.0)
            await rest.order("BTCUSDT", orderId=1)
            await other.new_order(**ORDER)
            given.clock.advance(9.0)
            await rest.new_order(**ORDER)

    run(main())


def test_a_request_that_would_break_the_limit_is_refused_before_the_venue_does() -> None:
    async def main() -> None:
        async with bench() as given:
            used = Said(headers={"X-MBX-USED-WEIGHT-1M": "5600"})
            given.venue.script("GET", "ping", used)
            await given.client.public.ping()
            refusal = await _refusal(given.client.public.depth("BTCUSDT", 5000))
            assert isinstance(refusal, RateLimited)
            assert not refusal.sent
            assert "6000 REQUEST_WEIGHT per 1 MINUTE" in refusal.message
            assert given.venue.count("GET", "depth") == 0
            await given.client.public.depth("BTCUSDT", 100)
            given.clock.advance(refusal.retry_after)  # the venue's next minute has begun
            await given.client.public.depth("BTCUSDT", 5000)

    run(main())


def test_limits_are_those_that_the_venue_publishes() -> None:
    async def main() -> None:
        async with bench(patience=0.0) as given:
            rules = [
                {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 100},
                {"rateLimitType": "RAW_REQUESTS", "interval": "MINUTE", "intervalNum": 5, "limit": 10},
                {"rateLimitType": "ORDERS", "interval": "SECOND", "intervalNum": 10, "limit": 2},
            ]
            given.venue.script("GET", "exchangeInfo", Said(body={"rateLimits": rules}))
            await given.client.public.exchange_info()
            assert given.client.limits.weight_limit == 100
            counted = Said(headers={"X-MBX-ORDER-COUNT-10S": "2"})
            given.venue.script("POST", "order", counted)
            rest = _rest(given)
            await rest.new_order(**ORDER)
            refusal = await _refusal(rest.new_order(**ORDER))
            assert "2 ORDERS per 10 SECOND" in refusal.message
            assert given.client.limits.order_counts(Credentials.of(KEY, SECRET).fingerprint) == {
                "2 ORDERS per 10 SECOND": 2
            }
            for _ in range(4):  # six of ten requests are spent: the order and five samples of the clock
                await given.client.public.ping()
            refusal = await _refusal(given.client.public.ping())
            assert "10 RAW_REQUESTS per 5 MINUTE" in refusal.message

    run(main())


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_of_any_size_is_not_taken_in(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(http, "LARGEST", 2**20)
    fits, huge = b'{"pad":"' + b"x" * (2**20 - 10) + b'"}', b" " * 2**24

    def said(body: bytes) -> Said:
        if packed:
            return Said(body=gzip.compress(body, 1), headers={"Content-Encoding": "gzip"})
        return Said(body=body)

    async def main() -> None:
        async with bench() as given:
            given.venue.script("POST", "order", said(fits), said(huge), Said(body={"orderId": 1}))
            assert len(fits) == 2**20
            assert len((await soon(_rest(given).new_order(**ORDER)))["pad"]) == 2**20 - 10
            refusal = await _refusal(_rest(given).new_order(**ORDER))
            assert isinstance(refusal, OutcomeUnknown)
            assert refusal.reason == "the answer is larger than 1 MiB"
            assert await soon(_rest(given).new_order(**ORDER)) == {"orderId": 1}

    run(main())
