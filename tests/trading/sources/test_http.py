"""A service of one's own: its wire, and what each way of failing becomes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.trading.sources import loopback
from tests.trading.sources.loopback import Act, Asked, ok, reply, running
from tests.trading.sources.parts import NOW, at, got, refused, turning
from tracedesk.errors import ToolError
from tracedesk.payloads import LARGEST, Payloads
from tracedesk.primitives.time import DAY, ManualClock, SystemClock
from tracedesk.trading.settings import Providers
from tracedesk.trading.sources.gate import Gate
from tracedesk.trading.sources.http import BadAddress, Http

QUOTE: dict[str, Any] = {"price": Decimal("10.50"), "as_of": "2012-12-03T15:29:00Z"}
THREE = ["2012-11-28", "2012-11-29", "2012-11-30"]


def _quotes(asked: Asked) -> dict[str, Any]:
    return {"symbols": dict.fromkeys(asked.symbols, QUOTE)}


def told(answer: Any) -> dict[str, Any]:
    return {"symbols": {"A": answer}}


def _failure(*script: Act) -> ToolError:
    """What a quote of A becomes."""

    async def scene() -> ToolError:
        async with running(*script) as service:
            try:
                fetch = await Http(service.url, timeout_s=0.5).quotes(["A"], NOW)
            except ToolError as error:
                return error
            return fetch.failures["A"]

    return asyncio.run(scene())


def test_quotes_are_read_as_the_wire_has_them() -> None:
    async def scene() -> None:
        full = {**QUOTE, "previous_close": Decimal("10.25"), "volume": 7, "bid": Decimal("10.49"), "ask": 11}
        async with running(ok({"symbols": {"A": full, "B": QUOTE}, "unknown": ["C"]})) as service:
            fetch = await Http(service.url).quotes(["A", "B", "C", "D"], NOW)
        a = fetch.values["A"]
        assert (str(a.price), str(a.previous_close), a.volume, str(a.bid), str(a.ask)) == (
            "10.50", "10.25", 7, "10.49", "11",
        )  # fmt: skip
        assert a.as_of_ns == at("2012-12-03T15:29:00Z")
        assert set(fetch.values) == {"A", "B"}
        assert {symbol: error.code for symbol, error in fetch.failures.items()} == {"C": "INVALID_SYMBOL"}
        assert b'"price":10.50' in fetch.body
        (asked,) = service.asked
        assert (asked.kind, asked.query["at"]) == ("quotes", "2012-12-03T15:30:00Z")

    asyncio.run(scene())


def test_every_kind_has_its_path() -> None:
    series = {
        "sessions": ["2012-11-29", "2012-11-30"],
        "adjusted_close": [1, Decimal("1.5")],
        "volume": [5, 6],
    }
    bars = [["2012-11-30T14:30:00Z", 10, 12, 9, 11, 500, Decimal("10.9")]]
    news = [
        {"headline": "Old", "published": "2012-12-03T09:00:00Z"},
        {"headline": "New\u202e \x1b[31mred", "published": "2012-12-03T10:00:00Z", "source": "Wire"},
        {"headline": "Tomorrow's", "published": "2012-12-04T09:00:00Z"},
        {"headline": "Last week's", "published": "2012-11-27T09:00:00Z"},
    ]
    ratios = {
        "as_of": "2012-11-01",
        "period_end": "2012-09-30",
        "currency": "USD",
        "pe_ratio": Decimal("12.3"),
    }
    answers = {"daily": series, "history": bars, "news": news, "fundamentals": ratios}

    async def scene() -> None:
        def answer(asked: Asked) -> Any:
            return told(answers[asked.kind])

        async with running(ok(answer)) as service:
            http = Http(service.url + "/")
            daily = (await http.daily(["A"], 2, NOW)).values["A"]
            assert (daily.adjusted.tolist(), daily.volumes.tolist()) == ([1.0, 1.5], [5, 6])
            (bar,) = (await http.history("A", "5d", "1d", NOW)).values["A"]
            assert (bar.close, bar.adjusted_close) == (11, Decimal("10.9"))
            stories = (await http.news(["A"], NOW - DAY, NOW)).values["A"]
            assert [story.headline for story in stories] == ["New red", "Old"]
            found = (await http.fundamentals(["A"], NOW)).values["A"]
            assert (found.values, found.currency) == ({"pe_ratio": Decimal("12.3")}, "USD")
            assert len(found.missing) == 6
        assert [(each.kind, sorted(each.query)) for each in service.asked] == [
            ("daily", ["at", "count", "symbols"]),
            ("history", ["at", "interval", "period", "symbols"]),
            ("news", ["at", "since", "symbols"]),
            ("fundamentals", ["at", "symbols"]),
        ]

    asyncio.run(scene())


@pytest.mark.parametrize(
    "lie",
    [
        told({**QUOTE, "as_of": "2012-12-03T15:31:00Z"}),
        told({**QUOTE, "as_of": "2012-12-03T15:29:00"}),
        told({**QUOTE, "price": -1}),
        told({**QUOTE, "price": 0}),
        told({**QUOTE, "price": True}),
        told({**QUOTE, "price": "NaN"}),
        told({**QUOTE, "price": Decimal("1.2345678")}),
        told({**QUOTE, "volume": Decimal("1.5")}),
        told({"price": 1}),
        told([1]),
        {"symbols": [1]},
        {"unknown": "A"},
        [],
        None,
    ],
)
def test_an_answer_that_cannot_be_true_is_not_used(lie: Any) -> None:
    error = _failure(ok(lie))
    assert error.code == "DATA_UNAVAILABLE"
    assert "A" in (error.details or {})["symbols"]


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        ("daily", {"sessions": ["2012-12-03"], "adjusted_close": [1], "volume": [1]}),
        ("daily", {"sessions": ["2012-11-30", "2012-11-29"], "adjusted_close": [1, 1], "volume": [1, 1]}),
        ("daily", {"sessions": ["2012-11-30"], "adjusted_close": [], "volume": [1]}),
        ("daily", {"sessions": THREE, "adjusted_close": [1] * 3, "volume": [1] * 3}),
        ("history", [["2012-12-03T14:30:00Z", 10, 12, 9, 11, 500, 11]]),
        ("history", [["2012-11-30T14:30:00Z", 10, 10, 9, 11, 500, 11]]),
        ("history", [["2012-11-30T14:30:00Z", 10, 12, 9, 11, 500]]),
        ("fundamentals", {"as_of": "2012-12-03", "pe_ratio": 1}),
        ("fundamentals", {"as_of": "2012-11-03", "pe_ratio": "Infinity"}),
        ("news", [{"headline": "", "published": "2012-12-03T10:00:00Z"}]),
        ("news", [{"headline": "Undated"}]),
    ],
)  # fmt: skip
def test_no_kind_believes_the_future_or_a_broken_row(kind: str, lie: Any) -> None:
    async def scene() -> None:
        async with running(ok(told(lie))) as service:
            http = Http(service.url)
            asks: dict[str, Callable[[], Any]] = {
                "daily": lambda: http.daily(["A"], 2, NOW),
                "history": lambda: http.history("A", "5d", "1d", NOW),
                "fundamentals": lambda: http.fundamentals(["A"], NOW),
                "news": lambda: http.news(["A"], NOW - DAY, NOW),
            }
            fetch = await asks[kind]()
        assert (fetch.values, fetch.failures["A"].code) == ({}, "DATA_UNAVAILABLE")

    asyncio.run(scene())


def test_a_denial_with_404_is_an_invalid_symbol_and_a_bare_404_is_nothing() -> None:
    assert _failure(reply(404, b'{"unknown": ["A"]}')).code == "INVALID_SYMBOL"
    for body in (b"", b"{}", b'{"unknown": ["B"]}', b"<html>"):
        assert _failure(reply(404, body)).code == "DATA_UNAVAILABLE"


def test_a_rate_limit_carries_the_wait_that_the_service_asks_for() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    waits = [
        (_failure(reply(429, b"", **headers)).details or {})["retry_after_s"]
        for headers in ({"Retry_After": "17"}, {"Retry_After": later}, {"Retry_After": "soon"}, {})
    ]
    assert (waits[0], waits[2], waits[3]) == (17, 60, 60)
    assert 80 < waits[1] <= 90
    assert _failure(reply(429)).code == "RATE_LIMITED"


@pytest.mark.parametrize(
    "act", [reply(503), reply(500, b"{}"), loopback.hang, loopback.close, loopback.break_off]
)
def test_what_comes_of_the_network_is_told_as_such(act: Act) -> None:
    error = _failure(act)
    assert (error.code, (error.details or {})["retryable"]) == ("NETWORK_ERROR", True)


@pytest.mark.parametrize(
    "act", [loopback.garbage, reply(302, b"", Location="/other"), reply(401), reply(200, b"\xff")]
)
def test_what_comes_of_the_service_is_told_as_such(act: Act) -> None:
    assert _failure(act).code == "DATA_UNAVAILABLE"


def test_a_port_where_nobody_listens_is_a_network_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ToolError) as caught:
            asyncio.run(Http(address).quotes(["A"], NOW))
    assert caught.value.code == "NETWORK_ERROR"


def test_an_endless_answer_is_cut_off() -> None:
    assert _failure(reply(200, b" " * (16 * LARGEST + 1))).code == "NETWORK_ERROR"


@pytest.mark.parametrize(
    "address",
    ["ftp://a", "http://", "http://user:secret@host", "http://a?x=1", "http://a#b", "http://a:port", "a"],
)
def test_an_address_must_be_one_that_can_be_asked(address: str) -> None:
    with pytest.raises(BadAddress) as caught:
        Http(address)
    assert "secret" not in str(caught.value)


def test_the_gate_asks_a_service_that_recovers_until_it_answers(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(reply(503), loopback.close, ok(_quotes)) as service:
            clock = ManualClock()
            desk = _gate(tmp_path, clock, service.url)
            answers = await turning(clock, desk.quotes(["A", "B"], NOW, "call-1"), step=0.01)
            assert got(answers["A"]).ref == got(answers["B"]).ref
            assert got(answers["A"]).provider == service.url
            assert len(service.asked) == 3

    asyncio.run(scene())


def test_the_gate_passes_on_a_rate_limit_without_asking_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(reply(429, Retry_After="9")) as service:
            desk = _gate(tmp_path, SystemClock(), service.url)
            error = refused((await desk.quotes(["A"], NOW, "1"))["A"])
            assert (error.code, (error.details or {})["retry_after_s"], len(service.asked)) == (
                "RATE_LIMITED",
                9,
                1,
            )

    asyncio.run(scene())


def _gate(folder: Path, clock: Any, url: str) -> Gate:
    settings = Providers(quotes=(url,), history=(), news=(), fundamentals=())
    return Gate({url: Http(url)}, settings, Payloads(folder), clock)
