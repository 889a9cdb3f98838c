"""Prices over splits against other sources of the same shares and against pandas; a file of Yahoo's."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import subprocess
import zipfile
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from scripts.proof.record import Recorder
from tests.judges.install import MARKET, PRICES
from tests.judges.size import Size
from tracedesk.market import ADJUSTED_PLACES, Dividend, Split, View, calendar
from tracedesk.primitives.time import ManualClock, format, parse
from tracedesk.trading.sources.candles import gather
from tracedesk.trading.sources.embedded import Embedded
from tracedesk.trading.sources.files import Files
from tracedesk.trading.sources.seam import Candle, History

pytestmark = pytest.mark.judge

D = Decimal
HALF_A_CENT: Final = D("0.005")
UNIT: Final = 10.0**-ADJUSTED_PLACES
"""Rounding of our restated prices, and what sums and products of binary64 leave of a price of theirs."""
VEGA: Final = ("vega_datasets-0.9.0-py3-none-any.whl", "vega_datasets/_data/stocks.csv")
SKFOLIO: Final = ("skfolio-1.12.2-py3-none-any.whl", "skfolio/datasets/data/sp500_dataset.csv.gz")
GOOGL: Final = ("gym_anytrading-2.0.0-py3-none-any.whl", "gym_anytrading/datasets/data/STOCKS_GOOGL.csv")
SPLIT_DAYS: Final = {"AAPL": ("2000-06-21", "2005-02-28"), "MSFT": ("2003-02-18",)}
FREQUENCIES: Final = {"1d": "", "1wk": "W-SUN", "1mo": "M", "3mo": "Q-DEC"}

_RESTATE: Final = """
import json, sys
import pandas
told = json.load(sys.stdin)
answers = []
for case in told["cases"]:
    frame = pandas.DataFrame(case["rows"], columns=["day", "open", "high", "low", "close", "volume"])
    frame["day"] = pandas.to_datetime(frame["day"])
    factor = pandas.Series(1.0, index=frame.index)
    for day, new, old in case["splits"]:
        factor[frame["day"] < pandas.Timestamp(day)] *= old / new
    for name in ("open", "high", "low", "close"):
        frame[name] = frame[name].astype(float) * factor
    frame["volume"] = frame["volume"] / factor
    found = {}
    for interval, frequency in told["frequencies"].items():
        spans = frame["day"].dt.to_period(frequency) if frequency else frame["day"]
        rules = {"day": "first", "open": "first", "high": "max", "low": "min", "close": "last"}
        rules["volume"] = "sum"
        joined = frame.groupby(spans).agg(rules)
        joined["day"] = joined["day"].dt.strftime("%Y-%m-%d")
        found[interval] = joined.values.tolist()
    answers.append(found)
print(json.dumps(answers))
"""
_READ: Final = """
import json, sys
import pandas
frame = pandas.read_csv(sys.argv[1], dtype=str)
print(json.dumps(frame[["Date", "Open", "High", "Low", "Close", "Volume", "Adj Close"]].values.tolist()))
"""


def packed(wheel: str, name: str) -> bytes:
    with zipfile.ZipFile(PRICES.require(wheel)) as opened:
        return opened.read(name)


def ask(script: str, *words: str, told: Any = None) -> Any:
    command = [str(MARKET.python), "-W", "ignore", "-c", script, *words]
    done = subprocess.run(
        command, input=json.dumps(told), capture_output=True, text=True, check=True, timeout=100
    )
    return json.loads(done.stdout)


def history(symbol: str, interval: str, clock: str) -> History:
    return asyncio.run(Embedded().history(symbol, "max", interval, parse(clock).ns)).values[symbol]


def test_monthly_closes_over_two_splits_are_those_of_vega(
    prove: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader(io.StringIO(packed(*VEGA).decode())))
    worst: dict[str, tuple[Decimal, int]] = {}
    for symbol in ("AAPL", "GOOG"):  # Neither paid a dividend in these years; the others' closes hold theirs.
        theirs = {
            datetime.strptime(row["date"], "%b %d %Y").strftime("%Y-%m"): D(row["price"])
            for row in rows
            if row["symbol"] == symbol
        }
        theirs.pop("2010-03")  # It was not over when the table was made.
        ours = {format(bar.start_ns)[:7]: bar.close for bar in history(symbol, "1mo", "2010-04-01T15:00:00Z")}
        off = [abs(ours[month] - price) for month, price in theirs.items() if month in ours]
        worst[symbol] = (max(off), len(off))
    with capsys.disabled():
        print("\nmonthly closes in shares of 2010, largest difference in dollars, months:", worst)
    assert all(most <= HALF_A_CENT and months > 60 for most, months in worst.values())
    prove.record("trading-splits-vega", float(max(most for most, _ in worst.values())), seeds=[])


def test_returns_around_each_split_are_those_of_skfolio() -> None:
    rows = csv.DictReader(io.StringIO(gzip.decompress(packed(*SKFOLIO)).decode()))
    theirs = {row["Date"]: row for row in rows}
    for symbol, days in SPLIT_DAYS.items():
        bars = {format(bar.start_ns)[:10]: bar.close for bar in history(symbol, "1d", "2013-03-01T22:00:00Z")}
        listed, paid = sorted(bars), _dividend_days(symbol)
        for day in days:
            at = listed.index(day)
            for before, after in zip(listed[at - 5 : at + 5], listed[at - 4 : at + 6], strict=True):
                if after in paid:  # Their closes are adjusted for dividends too.
                    continue
                old, new = D(theirs[before][symbol]), D(theirs[after][symbol])
                # Their closes have three places, and the rounding of both is in a return.
                rounding = D("0.0005") * (old + new) / (old * old)
                assert abs(bars[after] / bars[before] - new / old) <= rounding, (symbol, day, after)


def _dividend_days(symbol: str) -> set[str]:
    view = View(ManualClock(parse("2013-03-01T22:00:00Z").ns))
    return {each.ex_date.isoformat() for each in view.actions(symbol) if isinstance(each, Dividend)}


def test_random_bars_and_splits_are_restated_and_joined_as_pandas_does(
    size: Size, prove: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = range(size.of(judge=60, prove=600))
    cases = [_case(Random(seed)) for seed in seeds]
    asked = {"cases": [_shown(*case) for case in cases], "frequencies": FREQUENCIES}
    worst = 0.0
    for (daily, splits), found in zip(cases, ask(_RESTATE, told=asked), strict=True):
        for interval, rows in found.items():
            ours = gather(daily, interval, splits, "splits")
            # What is not over is no bar here.
            for bar, (day, *prices, volume) in zip(ours, rows[: len(ours)], strict=True):
                assert format(bar.start_ns)[:10] == day
                for own, other in zip((bar.open, bar.high, bar.low, bar.close), prices, strict=True):
                    worst = max(worst, abs(float(own) - other) / (UNIT * (1 + other)))
                days = sum(1 for each in daily if bar.start_ns <= each.start_ns)
                assert abs(bar.volume - D(volume)) <= D("0.5") * days + D(volume) * D("1e-12")
            assert len(rows) - len(ours) in (0, 1)
    with capsys.disabled():
        print(f"\nrestated prices against pandas, {len(cases)} series, in 1e-12 (1 + price): {worst:.2f}")
    assert worst <= 1
    prove.record("trading-splits-pandas", worst, seeds=list(seeds))


def _case(random: Random) -> tuple[list[Candle], list[Split]]:
    first = date.fromordinal(random.randrange(date(1991, 1, 1).toordinal(), date(2024, 1, 1).toordinal()))
    days = calendar.sessions(first, date.fromordinal(first.toordinal() + random.randrange(30, 400)))
    daily: list[Candle] = []
    for day in days:
        least = random.randrange(1, 10**8)
        others = [least + random.randrange(10**4) for _ in range(3)]
        opening, high, low, close = (
            D(units).scaleb(-4) for units in (others[0], max(others), least, others[1])
        )
        volume = random.randrange(10**9)
        daily.append(Candle(calendar.open_ns(day), opening, high, low, close, volume, close))
    ex_dates = random.sample(days, k=min(len(days), random.randrange(1, 6)))
    splits = [Split(day, random.randrange(1, 21), random.randrange(1, 21)) for day in sorted(ex_dates)]
    return daily, splits


def _shown(daily: list[Candle], splits: list[Split]) -> dict[str, Any]:
    rows = [
        [format(bar.start_ns)[:10], *map(str, (bar.open, bar.high, bar.low, bar.close)), bar.volume]
        for bar in daily
    ]
    return {"rows": rows, "splits": [[split.ex_date.isoformat(), split.new, split.old] for split in splits]}


def test_a_file_of_yahoo_has_the_digits_that_pandas_reads(tmp_path: Path) -> None:
    (tmp_path / "bars").mkdir()
    path = tmp_path / "bars" / "GOOGL.csv"
    path.write_bytes(packed(*GOOGL))
    now = parse("2026-01-02T15:00:00Z").ns
    ours = asyncio.run(Files(tmp_path).history("GOOGL", "max", "1d", now)).values["GOOGL"]
    theirs = ask(_READ, str(path))
    assert len(ours) == len(theirs) == 2335
    for bar, row in zip(ours, theirs, strict=True):
        figures = (bar.open, bar.high, bar.low, bar.close, bar.volume, bar.adjusted_close)
        assert (format(bar.start_ns)[:10], figures) == (row[0], tuple(map(D, row[1:])))
