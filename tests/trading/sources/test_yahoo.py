"""Yahoo through yfinance: how its frames are read and what its failures mean, with a stand-in for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import pytest

from tests.trading.sources.parts import at
from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.primitives import json
from tracedesk.primitives.time import DAY, SECOND
from tracedesk.trading.sources.yahoo import Yahoo

T = TypeVar("T")

NOW = at("2026-03-04T16:00:00Z")
"""A Wednesday, 11:00 in New York."""


class Column(list[float]):
    def tolist(self) -> list[float]:
        return list(self)


class Frame:
    """As much of a data frame as is read: stamps and columns."""

    def __init__(self, stamps: list[datetime], closes: list[float]) -> None:
        self.index = stamps
        self.closes = closes

    @property
    def empty(self) -> bool:
        return not self.index

    def __repr__(self) -> str:
        return f"Frame({self.index}, {self.closes})"

    def __getitem__(self, name: str) -> Column:
        step = {"Open": 0.0, "High": 1.0, "Low": -1.0, "Close": 0.0, "Adj Close": -0.5}
        if name == "Volume":
            return Column([1000.0] * len(self.closes))
        return Column([close + step[name] for close in self.closes])


def _named(name: str, base: type[Exception] = Exception, **facts: Any) -> Exception:
    error = type(name, (base,), {"__module__": "yfinance.exceptions"})(
        "possibly delisted; no price data found"
    )
    for fact, value in facts.items():
        setattr(error, fact, value)
    return error


class Package(ModuleType):
    """A stand-in for the package: what its tickers do is set by each test."""

    def __init__(self) -> None:
        super().__init__("yfinance")
        self.config = SimpleNamespace(debug=SimpleNamespace(hide_exceptions=True))
        self.act: Callable[[], Any] = lambda: Frame([], [])
        self.facts: dict[str, Any] = {}
        self.articles: list[Any] = []
        self.asked: list[dict[str, Any]] = []

    def Ticker(self, symbol: str) -> Any:
        def history(**asked: Any) -> Any:
            assert self.config.debug.hide_exceptions is False
            self.asked.append({"symbol": symbol, **asked})
            answer = self.act()
            if isinstance(answer, Exception):
                raise answer
            return answer

        def get_news(count: int) -> list[Any]:
            return self.articles[:count]

        return SimpleNamespace(
            history=history,
            get_history_metadata=lambda: self.facts,
            info=self.facts,
            get_news=get_news,
        )


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    stand_in = Package()
    monkeypatch.setitem(sys.modules, "yfinance", stand_in)
    return stand_in


def ask(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def yahoo() -> Yahoo:
    return Yahoo(system_clock=True)


def days(*closes: float, last: date = date(2026, 3, 4)) -> Frame:
    """Daily rows that end with a day, stamped at midnight in New York (standard time)."""
    sessions = calendar.sessions(last - timedelta(days=30), last)[-len(closes) :]
    return Frame([datetime(s.year, s.month, s.day, 5, tzinfo=UTC) for s in sessions], list(closes))


def test_a_quote_is_the_last_trade_against_the_session_before(package: Package) -> None:
    package.act = lambda: days(10.5, 11.25, 12.0)
    package.facts = {
        "regularMarketPrice": 12.345678949,
        "regularMarketTime": NOW // SECOND - 60,
        "regularMarketVolume": 7,
    }
    fetch = ask(yahoo().quotes(["ACME"], NOW))
    quote = fetch.values["ACME"]
    assert (quote.price, quote.previous_close, quote.volume) == (Decimal("12.345679"), Decimal("11.25"), 7)
    assert quote.as_of_ns == NOW - 60 * SECOND
    assert json.loads(fetch.body)["symbols"]["ACME"]["price"] == Decimal("12.345678949")
    assert package.asked[0]["auto_adjust"] is False


def test_daily_columns_hold_adjusted_closes_of_closed_sessions(package: Package) -> None:
    package.act = lambda: days(10.0, 11.0, 12.0, 13.0)
    series = ask(yahoo().daily(["ACME"], 2, NOW)).values["ACME"]
    assert [date.fromordinal(day) for day in series.days] == [date(2026, 3, 2), date(2026, 3, 3)]
    assert series.adjusted.tolist() == [10.5, 11.5]


def test_history_leaves_out_the_session_in_progress_and_makes_weeks_itself(package: Package) -> None:
    package.act = lambda: days(*range(10, 25))
    bars = ask(yahoo().history("ACME", "5d", "1d", NOW)).values["ACME"]
    assert (len(bars), bars[-1].start_ns) == (5, calendar.open_ns(date(2026, 3, 3)))
    assert (bars[-1].close, bars[-1].adjusted_close) == (Decimal("23.00"), Decimal("22.5"))
    weeks = ask(yahoo().history("ACME", "1mo", "1wk", NOW)).values["ACME"]
    assert weeks[-1].start_ns == calendar.open_ns(date(2026, 2, 23))
    assert {asked["interval"] for asked in package.asked} == {"1d"}


def test_minutes_come_as_they_are_without_the_one_that_forms(package: Package) -> None:
    begin = datetime(2026, 3, 4, 15, 50, tzinfo=UTC)
    stamps = [begin + timedelta(minutes=5 * at) for at in range(3)]
    package.act = lambda: Frame(stamps, [10.0, 11.0, 12.0])
    bars = ask(yahoo().history("ACME", "1d", "5m", NOW)).values["ACME"]
    assert [bar.start_ns for bar in bars] == [at("2026-03-04T15:50:00Z"), at("2026-03-04T15:55:00Z")]
    assert bars[0].adjusted_close == bars[0].close


def test_rows_that_are_not_numbers_are_not_rows(package: Package) -> None:
    package.act = lambda: days(10.0, float("nan"), 12.0, 13.0)
    assert len(ask(yahoo().daily(["ACME"], 9, NOW)).values["ACME"].days) == 2


MISSING = type("YFTickerMissingError", (Exception,), {"__module__": "yfinance.exceptions"})


def _status(status: int, text: str) -> Exception:
    return _named("HTTPError", OSError, response=SimpleNamespace(status_code=status, text=text))


def _no_prices(reason: str | None) -> Exception:
    return _named("YFPricesMissingError", MISSING, yahoo_reason=reason)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (_named("YFRateLimitError"), "RATE_LIMITED"),
        (_named("DNSError", OSError), "NETWORK_ERROR"),
        (type("CurlError", (Exception,), {"__module__": "curl_cffi.curl"})("timed out"), "NETWORK_ERROR"),
        (_named("YFDataException"), "NETWORK_ERROR"),
        (TimeoutError(), "NETWORK_ERROR"),
        (_named("YFTickerMissingError"), "INVALID_SYMBOL"),
        (_no_prices("No data found, symbol may be delisted"), "INVALID_SYMBOL"),
        (_no_prices(None), "DATA_UNAVAILABLE"),
        (_no_prices("Data doesn't exist for startDate"), "DATA_UNAVAILABLE"),
        (_named("YFTzMissingError", MISSING), "DATA_UNAVAILABLE"),
        (_status(404, "Quote not found for symbol: ACME"), "INVALID_SYMBOL"),
        (_status(404, "no such page"), "DATA_UNAVAILABLE"),
        (_status(401, "Invalid crumb"), "DATA_UNAVAILABLE"),
        (_status(429, ""), "RATE_LIMITED"),
        (_status(503, ""), "NETWORK_ERROR"),
        (KeyError("chart"), "DATA_UNAVAILABLE"),
        (Frame([], []), "DATA_UNAVAILABLE"),
        (None, "DATA_UNAVAILABLE"),
    ],
    ids=repr,
)  # fmt: skip
def test_each_failure_is_called_what_it_is(package: Package, failure: Any, code: str) -> None:
    package.act = lambda: failure
    for work in (
        yahoo().quotes(["ACME"], NOW),
        yahoo().daily(["ACME"], 5, NOW),
        yahoo().history("ACME", "5d", "1d", NOW),
    ):
        assert ask(work).failures["ACME"].code == code


def test_one_symbol_s_failure_leaves_the_others(package: Package) -> None:
    package.facts = {"regularMarketPrice": 12.0, "regularMarketTime": NOW // SECOND}
    frames: list[Any] = [days(10.0, 11.0), KeyError("x")]
    package.act = lambda: frames.pop(0)
    fetch = ask(yahoo().quotes(["ACME", "BETA"], NOW))
    assert len(fetch.values) == len(fetch.failures) == 1


def test_without_the_package_the_answer_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yfinance", None)
    error = ask(yahoo().quotes(["ACME"], NOW)).failures["ACME"]
    assert error.code == "DATA_UNAVAILABLE"
    assert "pip install 'tracedesk[yahoo]'" in error.message


def test_in_a_replay_it_is_refused_before_anything_is_asked(package: Package) -> None:
    replay = Yahoo(system_clock=False)
    for work in (replay.quotes(["A"], NOW), replay.daily(["A"], 5, NOW), replay.news(["A"], NOW - DAY, NOW)):
        with pytest.raises(ToolError, match=r'trading\.clock = "system"') as caught:
            ask(work)
        assert caught.value.code == "DATA_UNAVAILABLE"
    assert package.asked == []


def test_news_are_the_stories_in_the_window(package: Package) -> None:
    def article(title: Any, when: str) -> dict[str, Any]:
        return {"content": {"title": title, "pubDate": when, "provider": {"displayName": "Wire"}}}

    package.articles = [
        article("Old", "2026-03-02T12:00:00Z"),
        article("First", "2026-03-04T12:00:00Z"),
        article("Second", "2026-03-04T13:00:00Z"),
        article("Future", "2026-03-05T13:00:00Z"),
        article(None, "2026-03-04T13:00:00Z"),
    ]
    stories = ask(yahoo().news(["ACME"], NOW - DAY, NOW)).values["ACME"]
    assert [(story.headline, story.source) for story in stories] == [("Second", "Wire"), ("First", "Wire")]


def test_ratios_take_what_yahoo_tells_and_give_a_reason_for_the_rest(package: Package) -> None:
    package.facts = {
        "trailingPE": 31.5, "debtToEquity": 145.25, "currentRatio": None, "grossMargins": float("inf"),
        "mostRecentQuarter": 1767139200, "financialCurrency": "USD",
    }  # fmt: skip
    ratios = ask(yahoo().fundamentals(["ACME"], NOW)).values["ACME"]
    assert dict(ratios.values) == {"pe_ratio": Decimal("31.5"), "debt_to_equity": Decimal("1.4525")}
    assert set(ratios.missing) == {"peg_ratio", "ev_ebitda", "roic", "gross_margin", "current_ratio"}
    assert (ratios.period_end, ratios.currency) == (date(2025, 12, 31), "USD")
    package.facts = {"trailingPE": None}
    assert ask(yahoo().fundamentals(["ACME"], NOW)).failures["ACME"].code == "DATA_UNAVAILABLE"
