"""Files dropped into a folder: what they may say, and how they are refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from datetime import date
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest

from tests.support import BOUND
from tests.trading.sources.parts import NOW, at
from tracedesk.market import calendar
from tracedesk.primitives import json
from tracedesk.primitives.time import DAY
from tracedesk.trading.sources import bar_files, tables
from tracedesk.trading.sources.files import Files

T = TypeVar("T")

BARS = """\
date,open,high,low,close,volume,adjusted_close
2012-11-28,10.00,12.00,9.00,11.00,500,5.5
2012-11-29,11.00,13.00,10.00,12.00,600,6.125
2012-11-30,12.00,14.00,11.00,13.00,700,6.5
2012-12-03,13.50,15.00,12.00,14.00,800,14
"""


def ask(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def drop(folder: Path, name: str, text: str | bytes) -> Files:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Files(folder)


# --- bars -----------------------------------------------------------------------------------------


def test_bars_end_with_the_last_session_that_closed(tmp_path: Path) -> None:
    files = drop(tmp_path, "bars/ACME.csv", BARS)
    series = ask(files.daily(["ACME"], 2, NOW)).values["ACME"]
    assert [date.fromordinal(day) for day in series.days] == [date(2012, 11, 29), date(2012, 11, 30)]
    assert (series.adjusted.tolist(), series.volumes.tolist()) == ([6.125, 6.5], [600, 700])
    bars = ask(files.history("ACME", "max", "1d", NOW)).values["ACME"]
    assert (len(bars), bars[-1].close, bars[-1].start_ns) == (3, 13, calendar.open_ns(date(2012, 11, 30)))
    after = ask(files.history("ACME", "max", "1d", at("2012-12-03T21:00:00Z"))).values["ACME"]
    assert len(after) == 4


def test_a_quote_comes_from_the_open_of_the_session_in_progress_else_from_the_last_close(
    tmp_path: Path,
) -> None:
    files = drop(tmp_path, "bars/ACME.csv", BARS)
    inside = ask(files.quotes(["ACME"], NOW)).values["ACME"]
    assert (str(inside.price), inside.previous_close, inside.as_of_ns) == (
        "13.50",
        13,
        at("2012-12-03T14:30:00Z"),
    )
    before = ask(files.quotes(["ACME"], at("2012-12-03T14:29:59Z"))).values["ACME"]
    assert (before.price, before.previous_close, before.volume) == (13, 12, 700)
    none = ask(files.quotes(["ACME"], at("2012-11-27T15:00:00Z"))).failures["ACME"]
    assert none.code == "DATA_UNAVAILABLE"


def test_the_body_names_each_file_with_its_digest_and_shows_the_digits_as_written(tmp_path: Path) -> None:
    files = drop(tmp_path, "bars/ACME.csv", BARS)
    body = ask(files.daily(["ACME"], 3, NOW)).body
    assert b'"adjusted_close":[5.5,6.125,6.5]' in body
    assert json.loads(body)["files"] == {"bars/ACME.csv": sha256(BARS.encode()).hexdigest()}


def test_columns_may_be_in_any_order_and_the_adjusted_close_may_be_left_out(tmp_path: Path) -> None:
    text = "volume,close,low,high,open,date\n500,11,9,12,10,2012-11-28\r\n\n600,12,10,13,11,2012-11-29\n"
    files = drop(tmp_path, "bars/ACME.csv", "\ufeff" + text)
    fetch = ask(files.daily(["ACME"], 9, NOW))
    assert fetch.values["ACME"].adjusted.tolist() == [11.0, 12.0]
    assert json.loads(fetch.body)["symbols"]["ACME"]["adjusted_close"] == [11, 12]


def test_weeks_are_made_of_dropped_days(tmp_path: Path) -> None:
    (week,) = ask(drop(tmp_path, "bars/ACME.csv", BARS).history("ACME", "1mo", "1wk", NOW)).values["ACME"]
    assert (week.open, week.high, week.low, week.close, week.volume) == (10, 14, 9, 13, 1800)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    files = drop(tmp_path, "bars/ACME.csv", BARS)
    assert ask(files.quotes(["ACME"], NOW)).values["ACME"].price == Decimal("13.50")
    path = tmp_path / "bars/ACME.csv"
    path.write_text(BARS.replace("13.50", "13.75"), encoding="ascii")
    os.utime(path, ns=(1, 1))
    assert ask(files.quotes(["ACME"], NOW)).values["ACME"].price == Decimal("13.75")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("2012-12-01,1,1,1,1,1,1", "not a session"),
        ("2012-12-32,1,1,1,1,1,1", "must be a date"),
        ("2012-11-30,1,1,1,1,1,1", "does not come after"),
        ("2012-12-04,1,1,1,1,1", "6 cells, not 7"),
        ("2012-12-04,1,1,1,1,1.5,1", "whole number"),
        ("2012-12-04,1,1,1,1,-1,1", "whole number"),
        ("2012-12-04,NaN,1,1,1,1,1", "plain decimal"),
        ("2012-12-04,1e308,1,1,1,1,1", "plain decimal"),
        ("2012-12-04,1.1234567,2,1,1,1,1", "at most 6 places"),
        ("2012-12-04,2,1,1,1,1,1", "a high of 1"),
        ("2012-12-04,1,2,1.5,1,1,1", "a low of 1.5"),
        ("2012-12-04,0,1,0,1,1,1", "above zero"),
        ("2012-12-04,1,1,1,1,1,0", "above zero"),
        ("2012-12-04,1,1,1,1,1,é", "plain decimal"),
        ("1980-01-02,1,1,1,1,1,1", "outside the exchange calendar"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line_and_no_row_is_used(
    tmp_path: Path, row: str, problem: str
) -> None:
    files = drop(tmp_path, "bars/ACME.csv", BARS + row + "\n")
    fetch = ask(files.daily(["ACME"], 2, NOW))
    assert (fetch.values, fetch.failures["ACME"].code) == ({}, "DATA_UNAVAILABLE")
    assert "bars/ACME.csv line 6: " in fetch.failures["ACME"].message
    assert problem in fetch.failures["ACME"].message


@pytest.mark.parametrize("header", ["", "date,open", "date,open,high,low,close,volume,vwap", "date;open"])
def test_a_header_must_have_the_columns(tmp_path: Path, header: str) -> None:
    error = ask(drop(tmp_path, "bars/ACME.csv", header).daily(["ACME"], 2, NOW)).failures["ACME"]
    assert "line 1: the columns must be date,open,high,low,close,volume,[adjusted_close]" in error.message


def test_a_missing_file_is_told_with_its_place(tmp_path: Path) -> None:
    files = Files(tmp_path / "market")
    errors = {
        "daily": ask(files.daily(["ACME"], 2, NOW)).failures["ACME"],
        "quotes": ask(files.quotes(["ACME"], NOW)).failures["ACME"],
        "news": ask(files.news(["ACME"], NOW - DAY, NOW)).failures["ACME"],
        "fundamentals": ask(files.fundamentals(["ACME"], NOW)).failures["ACME"],
    }
    assert {error.code for error in errors.values()} == {"DATA_UNAVAILABLE"}
    assert "looked for in market/bars/ACME.csv in the home" in errors["daily"].message
    assert "market/quotes.csv or market/bars/ACME.csv in the home" in errors["quotes"].message
    assert "market/news in the home" in errors["news"].message
    assert "market/fundamentals.csv or market/fundamentals.jsonl" in errors["fundamentals"].message
    assert not any(str(tmp_path) in error.message for error in errors.values())


def test_a_bad_file_is_told_without_where_the_home_is(tmp_path: Path) -> None:
    drop(tmp_path / "in" / "here", "bars/ACME.csv", "nonsense")
    error = ask(Files(tmp_path / "in" / "here", "in/here").daily(["ACME"], 2, NOW)).failures["ACME"]
    assert "In in/here in the home: bars/ACME.csv line 1" in error.message
    assert str(tmp_path) not in error.message


def test_equal_bars_make_equal_bodies(tmp_path: Path) -> None:
    files = drop(tmp_path, "bars/ACME.csv", BARS)
    first, later = (ask(files.daily(["ACME"], 3, when)).body for when in (NOW, NOW + DAY // 24))
    assert first == later
    assert json.loads(first)["session"] == "2012-11-30"


# --- files that are none --------------------------------------------------------------------------


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link_to_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_fifo, _link_to_endless, _folder])
@pytest.mark.parametrize("name", ["bars/PIPE.csv", "quotes.csv", "fundamentals.csv", "news/PIPE.rss"])
def test_only_a_regular_file_is_read(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    make(tmp_path / name)
    kinds = {"bars": Files.quotes, "quot": Files.quotes, "fund": Files.fundamentals}
    files = Files(tmp_path)
    asked = kinds[name[:4]](files, ["PIPE"], NOW) if name[:4] in kinds else files.news(["PIPE"], 0, NOW)
    error = ask(asyncio.wait_for(asked, BOUND)).failures["PIPE"]
    assert (error.code, f"{name} is not a regular file" in error.message) == ("DATA_UNAVAILABLE", True)


def test_who_waits_for_a_slow_file_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(tmp_path, "bars/SLOW.csv", BARS)
    files, begun, release = drop(tmp_path, "bars/ACME.csv", BARS), Event(), Event()
    parse = bar_files.bars

    def slow(name: str, raw: bytes) -> bar_files.Bars:
        if "SLOW" in name:
            begun.set()
            assert release.wait(BOUND)
        return parse(name, raw)

    async def scene() -> None:
        waiting = asyncio.create_task(files.daily(["SLOW"], 2, NOW))
        await asyncio.to_thread(begun.wait, BOUND)
        other = await asyncio.wait_for(files.daily(["ACME"], 2, NOW), BOUND)
        assert (set(other.values), waiting.done()) == ({"ACME"}, False)
        release.set()
        assert set((await waiting).values) == {"SLOW"}

    monkeypatch.setattr(bar_files, "bars", slow)
    try:
        ask(scene())
    finally:
        release.set()


def test_a_file_past_the_bound_is_not_read_even_if_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LARGEST_FILE", len(BARS) - 1)
    files = drop(tmp_path, "bars/ACME.csv", BARS)
    error = ask(files.daily(["ACME"], 2, NOW)).failures["ACME"]
    assert f"has {len(BARS)} bytes; at most {len(BARS) - 1}" in error.message
    path = tmp_path / "bars" / "ACME.csv"
    short = os.stat_result((*path.stat()[:6], 5, *path.stat()[7:]))
    monkeypatch.setattr(os, "fstat", lambda _: short)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(tables.BadFile, match="grows while it is read"):
        tables.read("bars/ACME.csv", path)


@pytest.mark.parametrize("symbol", ["../ACME", "acme", "A/B", "", "A" * 16, "A\x00"])
def test_a_symbol_cannot_lead_out_of_the_folder(tmp_path: Path, symbol: str) -> None:
    drop(tmp_path, "ACME.csv", BARS)
    (tmp_path / "in").mkdir()
    assert ask(Files(tmp_path / "in").daily([symbol], 2, NOW)).failures[symbol].code == "INVALID_SYMBOL"


def test_one_bad_file_does_not_spoil_the_others(tmp_path: Path) -> None:
    drop(tmp_path, "bars/BAD.csv", "nonsense")
    fetch = ask(drop(tmp_path, "bars/ACME.csv", BARS).daily(["ACME", "BAD"], 2, NOW))
    assert (set(fetch.values), set(fetch.failures)) == ({"ACME"}, {"BAD"})


def test_minutes_are_not_there(tmp_path: Path) -> None:
    error = ask(drop(tmp_path, "bars/ACME.csv", BARS).history("ACME", "5d", "5m", NOW)).failures["ACME"]
    assert (error.code, "'1d'" in error.message) == ("DATA_UNAVAILABLE", True)


def test_a_clock_past_the_calendar_is_told(tmp_path: Path) -> None:
    late = at("2031-01-02T15:00:00Z")
    error = ask(drop(tmp_path, "bars/ACME.csv", BARS).daily(["ACME"], 2, late)).failures["ACME"]
    assert (error.code, "calendar" in error.message) == ("DATA_UNAVAILABLE", True)


# --- quotes ---------------------------------------------------------------------------------------

QUOTES = """\
symbol,time,price,previous_close,volume,bid,ask
ACME,2012-12-03T15:29:00Z,13.60,13,900,13.59,13.61
ACME,2012-12-03T15:31:00Z,99,,,,
ACME,2012-12-03T15:00:00Z,13.55,,,,
"""


def test_the_last_row_up_to_the_clock_holds_if_it_is_newer_than_the_bars(tmp_path: Path) -> None:
    drop(tmp_path, "quotes.csv", QUOTES)
    fetch = ask(drop(tmp_path, "bars/ACME.csv", BARS).quotes(["ACME"], NOW))
    quote = fetch.values["ACME"]
    assert (str(quote.price), quote.previous_close, quote.volume) == ("13.60", 13, 900)
    assert (str(quote.bid), str(quote.ask)) == ("13.59", "13.61")
    assert list(json.loads(fetch.body)["files"]) == ["quotes.csv"]
    later = ask(Files(tmp_path).quotes(["ACME"], at("2012-12-04T14:00:00Z"))).values["ACME"]
    assert (later.price, later.volume) == (14, 800)


@pytest.mark.parametrize(
    "row",
    ["ACME,2012-12-03T15:29:00,1,,,,", "acme,2012-12-03T15:29:00Z,1,,,,", "ACME,2012-12-03,1,,,,",
     'A"B,x,1,,,,', "ACME,2012-12-03T15:29:00Z,,,,,", "ACME,2012-12-03T15:29:00Z,1,,1.5,,",
     "ACME,2012-12-03T15:29:00Z,1"],
)  # fmt: skip
def test_a_bad_quote_is_named_by_its_line(tmp_path: Path, row: str) -> None:
    error = ask(drop(tmp_path, "quotes.csv", QUOTES + row + "\n").quotes(["ACME"], NOW)).failures["ACME"]
    assert (error.code, "quotes.csv line 5" in error.message) == ("DATA_UNAVAILABLE", True)


# --- fundamentals ---------------------------------------------------------------------------------


def test_ratios_are_those_known_at_the_clock_and_each_gap_has_its_reason(tmp_path: Path) -> None:
    drop(
        tmp_path,
        "fundamentals.csv",
        "symbol,as_of,period_end,currency,pe_ratio,roic\n"
        "ACME,2012-10-20,2012-09-30,USD,14.5,\nACME,2012-12-03,2012-09-30,USD,99,0.5\n",
    )
    files = drop(
        tmp_path,
        "fundamentals.jsonl",
        '{"symbol":"ACME","as_of":"2012-11-01T12:00:00Z","pe_ratio":null,'
        '"roic":0.12,"missing":{"pe_ratio":"a loss"}}\n',
    )
    found = ask(files.fundamentals(["ACME"], NOW)).values["ACME"]
    assert (found.values, found.missing["pe_ratio"]) == ({"roic": Decimal("0.12")}, "a loss")
    early = ask(files.fundamentals(["ACME"], at("2012-10-25T00:00:00Z"))).values["ACME"]
    assert (early.values, early.period_end, early.currency) == (
        {"pe_ratio": Decimal("14.5")}, date(2012, 9, 30), "USD",
    )  # fmt: skip
    assert early.missing["roic"] == "not given by the provider"
    assert (
        ask(files.fundamentals(["ACME"], at("2012-10-20T12:00:00Z"))).failures["ACME"].code
        == "DATA_UNAVAILABLE"
    )


@pytest.mark.parametrize(
    "line",
    ['{"symbol":"ACME","as_of":"2012-11-01","pe_ratio":NaN}', '{"symbol":"ACME"}', "[]", "{",
     '{"symbol":"ACME","as_of":"2012-11-01","p_e":1}', '{"symbol":"ACME","as_of":"2012-11-01","roic":true}'],
)  # fmt: skip
def test_a_bad_line_of_json_is_named(tmp_path: Path, line: str) -> None:
    error = ask(drop(tmp_path, "fundamentals.jsonl", "\n" + line).fundamentals(["ACME"], NOW)).failures[
        "ACME"
    ]
    assert (error.code, "fundamentals.jsonl line 2" in error.message) == ("DATA_UNAVAILABLE", True)


# --- news -----------------------------------------------------------------------------------------


def test_stories_come_from_lines_and_feeds_newest_first_and_none_from_the_future(tmp_path: Path) -> None:
    drop(
        tmp_path,
        "news/desk.jsonl",
        '{"symbols":["ACME","IBM"],"headline":"Both","published":"2012-12-03T09:00:00Z","source":"Desk"}\n'
        '{"symbol":"ACME","headline":"Tomorrow","published":"2012-12-04T09:00:00Z"}\n'
        '{"symbol":"ACME","headline":"Long ago","published":"2012-12-01T09:00:00Z"}\n',
    )
    files = drop(
        tmp_path,
        "news/ACME.rss",
        "<rss><channel><title>Wire</title><item><title>Fed</title>"
        "<pubDate>Mon, 03 Dec 2012 05:00:00 -0500</pubDate></item></channel></rss>",
    )
    fetch = ask(files.news(["ACME", "IBM", "GOOG"], NOW - DAY, NOW))
    assert [(story.headline, story.source) for story in fetch.values["ACME"]] == [
        ("Fed", "Wire"),
        ("Both", "Desk"),
    ]
    assert [story.headline for story in fetch.values["IBM"]] == ["Both"]
    assert fetch.values["GOOG"] == ()
    assert set(json.loads(fetch.body)["files"]) == {"news/desk.jsonl", "news/ACME.rss"}


def test_a_bad_story_is_named_by_file_and_line(tmp_path: Path) -> None:
    good = '{"symbol":"ACME","headline":"x","published":"2012-12-03T09:00:00Z"}'
    bad = f'{good}\n{{"symbol":"ACME","headline":"no time"}}\n'
    error = ask(drop(tmp_path, "news/a.jsonl", bad).news(["ACME"], NOW - DAY, NOW)).failures["ACME"]
    assert "news/a.jsonl line 2: published" in error.message


def test_a_bad_feed_spoils_its_own_symbol_only(tmp_path: Path) -> None:
    drop(tmp_path, "news/IBM.xml", "<rss>\n<channel>")
    files = drop(
        tmp_path, "news/a.jsonl", '{"symbol":"ACME","headline":"x","published":"2012-12-03T09:00:00Z"}'
    )
    fetch = ask(files.news(["ACME", "IBM"], NOW - DAY, NOW))
    assert len(fetch.values["ACME"]) == 1
    assert "news/IBM.xml line 2" in fetch.failures["IBM"].message
