"""Whatever is asked, the exchange answers or refuses in its own codes; it never breaks."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.local.support import START, build
from tracedesk.exchange.local.answering import Asked, answer
from tracedesk.exchange.local.errors import Refused
from tracedesk.exchange.local.exchange import LocalExchange
from tracedesk.exchange.local.limits import Limits, Rule
from tracedesk.exchange.local.methods import BY_NAME, METHODS, Method
from tracedesk.primitives import json
from tracedesk.primitives.time import MILLISECOND, ManualClock

NOW = str(START // MILLISECOND)
LIKELY = [
    *(
        "BTCUSDT",
        "ETHUSDT",
        "NOPE",
        "BUY",
        "SELL",
        "LIMIT",
        "MARKET",
        "LIMIT_MAKER",
        "STOP_LOSS_LIMIT",
        "TAKE_PROFIT",
    ),
    *(
        "GTC",
        "IOC",
        "FOK",
        "1m",
        "1M",
        "1h",
        "7d",
        "FULL",
        "MINI",
        "TRADING",
        "HALT",
        "true",
        "false",
        "-1:00",
        "8",
    ),
    *(
        "0",
        "1",
        "2",
        "5",
        "0.1",
        "0.00001",
        "50000.00",
        "49999.5",
        "50001",
        "1000000",
        "99999999999",
        NOW,
        "100",
    ),
    *(
        '["BTCUSDT"]',
        "[]",
        "ACK",
        "RESULT",
        "EXPIRE_TAKER",
        "DECREMENT",
        "STOP_ON_FAILURE",
        "ALLOW_FAILURE",
        "mine",
    ),
]
values = st.sampled_from(LIKELY) | st.text(max_size=8)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Method, dict[str, str]]:
    """A method and parameters, most of them its own and many of them sensible."""
    method = draw(st.sampled_from(METHODS))
    names = [parameter.name for parameter in method.parameters]
    sent = {
        each.name: draw(values) for each in method.parameters if each.required and draw(st.integers(0, 9))
    }
    sent |= draw(st.dictionaries(st.sampled_from([*names, "stranger"]), values, max_size=6))
    if "symbol" in names and draw(st.booleans()):
        sent["symbol"] = "BTCUSDT"
    return method, sent


def _exchange() -> LocalExchange:
    clock = ManualClock(START)
    return build(clock, limits=Limits(clock, (Rule("REQUEST_WEIGHT", "MINUTE", 1, 10**9),)))


async def _outcome(exchange: LocalExchange, method: Method, sent: dict[str, str]) -> tuple[int, Any]:
    """Status and body, as a session of `ann` gets them."""
    session = exchange.keys.of("ann")[0]
    timed = {**sent, "timestamp": NOW} if method.permission else sent
    try:
        body, _ = await answer(exchange, method, Asked("127.0.0.1", timed, "", None, session=session))
    except Refused as refused:
        return refused.status, refused.document()
    return 200, body


@settings(max_examples=80, deadline=None)
@given(st.lists(requests(), min_size=5, max_size=40))
def test_no_request_breaks_the_exchange(asked: list[tuple[Method, dict[str, str]]]) -> None:
    async def main() -> None:
        exchange = _exchange()
        exchange.keys.issue("ann")
        for method, sent in asked:
            status, body = await _outcome(exchange, method, sent)
            assert status == 200 or (400 <= status < 500 and body["code"] < -1000), (method.name, sent, body)
            json.dumps(body)
        for asset in ("BTC", "USDT"):
            assert sum(total for (_, held), total in exchange.venue.totals().items() if held == asset) == 0
        assert (await _outcome(exchange, BY_NAME["depth"], {"symbol": "BTCUSDT"}))[0] == 200

    asyncio.run(main())


def test_every_method_has_one_name_and_one_route() -> None:
    assert len(BY_NAME) == len(METHODS)
    assert len({(method.verb, method.path) for method in METHODS}) == len(METHODS)
    assert {method.permission for method in METHODS if method.verb != "GET"} == {"TRADE"}
