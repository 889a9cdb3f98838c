"""Files of bars in the shapes of Yahoo, Stooq and Binance: read exactly, or refused by their line."""

from __future__ import annotations

import asyncio
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.support import run
from tests.trading.desks import agent
from tests.trading.sources.parts import at
from tracedesk.trading.sources import bar_files
from tracedesk.trading.sources.bar_files import bars, span
from tracedesk.trading.sources.files import Files
from tracedesk.trading.sources.tables import BadFile

D = Decimal
YAHOO: Final = """\
Date,Open,High,Low,Close,Adj Close,Volume
1/4/1999,1229.229980,1248.810059,1219.099976,1228.099976,1228.099976,877000000
1/12/1999,null,null,null,null,null,null
1/13/1999,1239.510010,1247.750000,1205.459961,1234.400024,1200.123456789,931500000
"""
YFINANCE: Final = """\
Date,Open,High,Low,Close,Volume,Dividends,Stock Splits
2020-08-28 00:00:00-04:00,122.8431938,123.2786221,121.4347098,121.6583252,187630000,0.0,0.0
2020-08-31 00:00:00-04:00,124.3958302,127.7682036,122.8359054,125.7849197,225702700,0.0,4.0
"""
DOWNLOADED: Final = """\
Price,Adj Close,Close,High,Low,Open,Volume
Ticker,AAPL,AAPL,AAPL,AAPL,AAPL,AAPL
Date,,,,,,
2020-08-28,121.5,124.807503,126.442497,124.577499,126.012497,187630000
"""
STOOQ: Final = "Date,Open,High,Low,Close,Volume\n1984-09-07,0.100495,0.1017387,0.0992689,0.100495,98811715\n"
POLISH: Final = """\
Data,Otwarcie,Najwyzszy,Najnizszy,Zamkniecie,Wolumen
2012-11-30,12,14,11,13,700.25
2012-12-03,12,14,11,13,5
"""
BULK: Final = """\
<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>,<OPENINT>
AAPL.US,D,20121130,000000,17.7,17.9,17.6,17.85,439892841.862842,0
"""
HEAD: Final = (
    "open_time,open,high,low,close,volume,close_time,"
    "quote_volume,count,taker_buy_volume,taker_buy_quote_volume,ignore\n"
)
KLINES: Final = (
    "1735516800000,93738.20,95024.50,91530.45,92792.05,27619.42250000,1735603199999,2579380345.8,4512330,1,2,0\n"
    "1735603200000,92792.05,96250.00,92033.73,93576.00,19612.03389000,1735689599999,1843263294.1,3387213,1,2,0\n"
    "1735689600000000,93576.00,95151.15,92888.00,94591.79,10373.32613000,1735775999999999,975444262.6,1861163,1,2,0\n"
)


def read(text: str) -> list[Any]:
    found = bars("bars/X.csv", text.encode())
    return [found.row(at) for at in range(len(found.days))]


def test_yahoo_s_rows_are_sessions_with_prices_of_six_places() -> None:
    first, last = read(YAHOO)
    assert (first.session, last.session) == (date(1999, 1, 4), date(1999, 1, 13))
    assert (str(first.open), str(first.high), first.volume) == ("1229.22998", "1248.810059", 877_000_000)
    assert (last.close, last.adjusted_close) == (D("1234.400024"), D("1200.123456789"))


def test_frames_of_yfinance_are_read_by_the_day_at_the_exchange() -> None:
    first, last = read(YFINANCE)
    assert (first.session, last.session) == (date(2020, 8, 28), date(2020, 8, 31))
    assert (str(first.open), str(last.close)) == ("122.843194", "125.78492")
    (row,) = read(DOWNLOADED)
    assert (row.session, row.close, row.adjusted_close) == (date(2020, 8, 28), D("124.807503"), D("121.5"))


def test_stooq_s_files_are_read_in_each_of_their_forms() -> None:
    assert read(STOOQ.replace("1984-09-07", "2012-11-30"))[0].high == D("0.101739")
    assert [(row.session.day, row.volume) for row in read(POLISH)] == [(30, D("700.25")), (3, 5)]
    (row,) = read(BULK)
    assert (row.session, row.close, row.volume) == (date(2012, 11, 30), D("17.85"), D("439892841.862842"))


@pytest.mark.parametrize("head", ["", HEAD])
def test_klines_are_days_of_utc_in_milliseconds_and_in_microseconds(head: str) -> None:
    rows = read(head + KLINES)
    assert [row.session for row in rows] == [date(2024, 12, 30), date(2024, 12, 31), date(2025, 1, 1)]
    assert (str(rows[0].close), rows[0].volume) == ("92792.05", D("27619.4225"))


def test_rows_from_before_the_calendar_are_left_out_and_the_answer_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "market" / "bars"
    folder.mkdir(parents=True)
    (folder / "OLD.csv").write_text(STOOQ + "2012-11-30,12,14,11,13,700\n", encoding="ascii")

    async def main() -> None:
        async with agent(tmp_path) as found:
            answer = await found.call("get_history", symbol="OLD", period="max")
            assert [row["timestamp"][:10] for row in answer["history"]] == ["2012-11-30"]
            (note,) = answer["notes"]
            assert note == (
                "bars/OLD.csv: rows left out from before 1990-01-01, where the exchange's calendar begins: 1."
            )

    run(main())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the columns must be"),
        ("Date,Open,High,Low,Close\n2012-11-30,1,1,1,1\n", "line 1: the columns must be"),
        ("Date,Open,High,Low,Close,Volume,Rating\n", "line 1: the columns must be"),
        ("Date,Open,High,Low,Close,Volume,open\n", "line 1: the columns must be"),
        ('{"t": 1}\n', "line 1: the columns must be"),
        (YAHOO + "2012-11-30,1,1,1,1,1,1\n", "line 5: date must be written as the rows before"),
        (YAHOO + "1/15/1999,1,1,1,1,1\n", "line 5: 6 cells, not 7"),
        (
            YAHOO + "1/16/1999,1,1,1,1,1,1\n",
            "line 5: 1999-01-16 is not a session of the exchange (weekend); bars of a market that never",
        ),
        (YAHOO + "1/18/1999,1,1,1,1,1,1\n", "line 5: 1999-01-18 is not a session of the exchange (Martin"),
        (YAHOO + "1/13/1999,1,1,1,1,1,1\n", "line 5: 1999-01-13 does not come after"),
        (YAHOO + "1/14/1999,1,1,1,1,0,1\n", "line 5: adjusted_close must be above zero"),
        (YAHOO + "1/14/1999,null,1,1,1,1,1\n", "line 5: null is not a plain decimal"),
        (YAHOO + "1/14/1999,2,1,1,1,1,1\n", "line 5: the bar has a high of 1"),
        (YAHOO.split("1/12")[0], "line 2: 1/4/1999 does not say which number is the month"),
        (YFINANCE.replace("31 00:00", "31 09:30"), "line 3: date must be a day"),
        (BULK.replace(",D,", ",60,"), "line 2: <PER> must be D"),
        (
            KLINES.replace("1735603200000", "1735606800000"),
            "line 2: open_time 1735606800000 is not a midnight",
        ),
        (
            KLINES.replace("1735603199999", "1735520399999"),
            "line 1: close_time 1735520399999 is not the end of",
        ),
        (KLINES.replace("1735603199999", "soon"), "line 1: close_time must be milliseconds"),
        (KLINES.replace("27619.42250000", "-1"), "line 1: volume -1 is not a plain decimal"),
    ],
)
def test_what_does_not_read_is_refused_by_its_line(text: str, problem: str) -> None:
    with pytest.raises(BadFile, match=r"^bars/X\.csv ") as caught:
        bars("bars/X.csv", text.encode())
    assert f"bars/X.csv {problem}" in str(caught.value)


def test_damaged_files_are_read_or_refused_by_their_name_and_nothing_else() -> None:
    random = Random(11)
    texts = [
        each.encode() for each in (YAHOO, YFINANCE, DOWNLOADED, STOOQ, POLISH, BULK, HEAD + KLINES, KLINES)
    ]
    pieces = [
        b"9",
        b".",
        b",",
        b'"',
        b"\n",
        b"/",
        b"-",
        b"\xff",
        b"e",
        b"null",
        b"",
        b"9" * 20,
        b"9999-12-31",
    ]
    read_whole = 0
    refusals: list[str] = []
    for _ in range(2_000):
        damaged = bytearray(random.choice(texts))
        first = random.randrange(len(damaged))
        damaged[first : first + random.randrange(3)] = random.choice(pieces)
        try:
            found = bars("bars/X.csv", bytes(damaged))
        except BadFile as refused:
            refusals.append(str(refused))
            continue
        rows = [found.row(at) for at in range(len(found.days))]
        assert all(0 < row.low <= row.close <= row.high and row.volume >= 0 for row in rows)
        read_whole += 1
    assert [text for text in refusals if not text.startswith("bars/X.csv ")] == []
    assert 100 < read_whole < 1_900


def test_a_file_of_another_shape_is_refused_with_the_shapes_there_are(tmp_path: Path) -> None:
    folder = tmp_path / "market" / "bars"
    folder.mkdir(parents=True)
    (folder / "SPX.csv").write_text("when,price\n2012-11-30,1\n", encoding="ascii")

    async def main() -> None:
        async with agent(tmp_path) as found:
            asked_of: dict[str, dict[str, Any]] = {
                "get_history": {"symbol": "SPX", "period": "max"},
                "get_quotes": {"symbols": ["SPX"]},
                "get_risk": {"weights": {"SPX": 1}},
                "trade_simulate": {"trades": [{"symbol": "SPX", "action": "buy", "quantity": 1}]},
            }
            for tool, asked in asked_of.items():
                error = (await found.refused(tool, **asked))["error"]
                assert (error["code"], error["details"]["file"]) == (
                    "DATA_UNAVAILABLE",
                    "market/bars/SPX.csv",
                )
                for text in ("bars/SPX.csv line 1", "Yahoo", "Stooq", "Binance"):
                    assert text in error["message"]
            error = (await found.refused("get_quotes", symbols=["NOPE"]))["error"]
            assert error["code"] == "INVALID_SYMBOL"

    run(main())


# --- a market that never closes ------------------------------------------------------------------


def test_a_day_of_utc_is_known_from_its_end_and_its_open_from_its_begin(tmp_path: Path) -> None:
    (tmp_path / "bars").mkdir()
    (tmp_path / "bars" / "BTCUSDT.csv").write_text(KLINES, encoding="ascii")
    files = Files(tmp_path)
    for moment, price, as_of, complete in (
        ("2024-12-31T00:00:00Z", "92792.05", "2024-12-31T00:00:00Z", 1),
        ("2024-12-31T23:59:59Z", "92792.05", "2024-12-31T00:00:00Z", 1),
        ("2025-01-01T00:00:00Z", "93576.00", "2025-01-01T00:00:00Z", 2),
        ("2025-01-02T00:00:00Z", "94591.79", "2025-01-02T00:00:00Z", 3),
    ):
        now = at(moment)
        quote = asyncio.run(files.quotes(["BTCUSDT"], now)).values["BTCUSDT"]
        assert (str(quote.price), quote.as_of_ns) == (price, at(as_of))
        assert len(asyncio.run(files.history("BTCUSDT", "max", "1d", now)).values["BTCUSDT"]) == complete
        assert len(asyncio.run(files.daily(["BTCUSDT"], 9, now)).values["BTCUSDT"].days) == complete
    month = asyncio.run(files.history("BTCUSDT", "max", "1mo", at("2025-01-01T00:00:00Z"))).values["BTCUSDT"]
    assert [(bar.start_ns, bar.volume) for bar in month] == [(at("2024-12-30T00:00:00Z"), D("47231.45639"))]


def test_an_agent_reads_and_trades_its_own_klines(tmp_path: Path) -> None:
    folder = tmp_path / "market" / "bars"
    folder.mkdir(parents=True)
    (folder / "BTCUSDT.csv").write_text(KLINES, encoding="ascii")

    async def main() -> None:
        async with agent(tmp_path, {"clock": "2024-12-31T15:00:00Z"}) as found:
            answer = await found.call("get_history", symbol="BTCUSDT", period="max", format="table")
            (row,) = answer["table"]["rows"]
            assert (answer["adjust"], row[0], row[5]) == ("source", "2024-12-30", D("27619.4225"))
            (leg,) = (await found.buy("BTCUSDT", 0.1))["execution"]["trades"]
            assert (leg["status"], leg["price"]) == ("filled", D("92838.446"))
            error = (await found.refused("get_history", symbol="BTCUSDT", period="max", adjust="splits"))[
                "error"
            ]
            assert (error["code"], error["details"]["path"]) == ("DATA_UNAVAILABLE", ["adjust"])

    run(main())


# --- the ends of all files -----------------------------------------------------------------------


def test_the_span_of_a_folder_is_that_of_all_files_that_read(tmp_path: Path) -> None:
    assert span(tmp_path) is None
    for name, text in (("BAD", "x\n"), ("OLD", STOOQ), ("SPX", YAHOO), ("BTC", KLINES), ("EMPTY", HEAD)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="ascii")
    assert span(tmp_path) == (date(1990, 1, 1), date(2025, 1, 1))
    assert bar_files.bars("OLD.csv", STOOQ.encode()).left_out == 1
