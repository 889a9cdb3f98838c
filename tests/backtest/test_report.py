"""The report: one page that needs nothing else, tells what was recorded, and hides no extreme."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backtest.files import opened
from tracedesk.backtest import charts, compare, report, story
from tracedesk.backtest.charts import COLUMNS, MARK, PLOT, Marks, Series
from tracedesk.backtest.positions import Positions
from tracedesk.backtest.recorder import Recorder
from tracedesk.home import Home
from tracedesk.primitives.time import DAY, SECOND, parse

START: Final = parse("2024-01-02T21:00:00Z").ns
HOSTILE: Final = "</title><script>alert(x)</script> {{figures}} <img src=x onerror=y> \u202e&amp;"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


def page(home: Home, run: str, name: str = "run") -> str:
    with opened(home, run) as recording:
        return report.page_of(recording, name).decode()


def bars(recorder: Recorder, closes: Iterable[Any], symbol: str = "AAPL") -> None:
    for number, close in enumerate(closes):
        recorder.market_data(START + number * DAY, symbol, {"Open": close, "Close": close})


def equity(recorder: Recorder, values: Iterable[Any]) -> None:
    for number, value in enumerate(values):
        recorder.state_change(START + number * DAY, "PnL", None, {"Equity": value})


@pytest.fixture
def run(home: Home) -> str:
    """Four bars, a curve that falls by a quarter, two executions, three rejections for two reasons."""
    with Recorder(home, "told", engine="mine 2") as recorder:
        bars(recorder, [Decimal(close) for close in ("10.00", "12.00", "9.00", "11.00")])
        equity(recorder, [Decimal(value) for value in ("1000.00", "1200.00", "900.00", "1100.50")])
        recorder.trade(START, "o-1", "AAPL", "Buy", 10, Decimal("10.00"), commission=Decimal("0.10"))
        fee = Decimal("0.2000000000000000000001")
        sold = (START + 3 * DAY, "o-2", "AAPL", "Sell", 10, Decimal("11.00"))
        recorder.trade(*sold, commission=fee, RealizedPnL=Decimal("9.80"))
        for number, reason in enumerate(("Insufficient margin", HOSTILE, "Insufficient margin")):
            recorder.order_rejected(START + DAY, f"r-{number}", reason, symbol="AAPL")
        return recorder.run_id


class Page(HTMLParser):
    """The tags and texts of a page; tags that are never closed or closed twice are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def figures(text: str) -> dict[str, str]:
    found = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)(?:<small>|</dd>)", text)
    return dict(found)


# --- the page ---------------------------------------------------------------------------------


def test_the_page_asks_for_nothing_from_anywhere_and_runs_nothing(home: Home, run: str) -> None:
    text = page(home, run)
    found = Page(text)
    assert not {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object", "base", "form"}
    for _, attributes in found.tags:
        assert not [name for name in attributes if name in ("src", "href") or name.startswith("on")]
    assert not re.search(r"url\(|@import|https?://", text)
    policy = next(a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_page_can_be_read_in_the_dark(home: Home, run: str) -> None:
    text = page(home, run)
    assert "prefers-color-scheme: dark" in text
    assert 'name="color-scheme" content="light dark"' in text


def test_a_runs_own_words_are_shown_and_never_obeyed(home: Home, run: str) -> None:
    text = page(home, run, HOSTILE)
    found = Page(text)
    shown = HOSTILE.replace("\u202e", "")
    assert "\u202e" not in text
    assert found.texts.count(shown) == 2, "the heading and the reason"
    assert sum("{{figures}}" in each for each in found.texts) >= 3


def test_the_figures_are_those_of_the_run(home: Home, run: str) -> None:
    assert figures(page(home, run)) == {
        "final equity": "1,100.50",
        "change": "+100.50",
        "return": "+10.05%",
        "largest drawdown": "-25.00%",
        "executions": "2",
        "Sharpe ratio": "not given",
        "trades closed at a profit": "1 of 1",
        "commission": "0.3000000000000000000001",
        "rejected orders": "3",
        "invalid events": "0",
    }


def test_the_report_has_the_sharpe_ratio_and_the_trades_of_compare_runs(home: Home) -> None:
    with Recorder(home, "compared") as recorder:
        equity(recorder, [10_000 + 7 * day * (day % 3 - 1) for day in range(90) if day % 7 < 5])
        for number, gain in enumerate((9, -4, 0, 5)):
            recorder.trade(START + number, number, "A", "Sell", 1, 1, commission=1, RealizedPnL=gain)
    with opened(home, recorder.run_id) as recording:
        measured = compare.measure(recording).body()
    shown = figures(page(home, recorder.run_id))
    assert shown["Sharpe ratio"] == f"{measured['sharpe']:.2f}"
    assert shown["trades closed at a profit"] == "2 of 3"
    assert (measured["closings"], measured["winRate"]) == (3, Decimal("0.666667"))


def test_rejections_are_counted_by_reason_the_most_frequent_first(home: Home, run: str) -> None:
    text = page(home, run)
    section = text.split("<h2>Rejections by reason</h2>")[1].split("</section>")[0]
    rows = re.findall(r'<td class="w">(.*?)</td><td class="n">(\d+)</td>', section)
    assert [count for _, count in rows] == ["2", "1"]
    assert rows[0][0] == "Insufficient margin"
    assert f"tracedesk://backtest/{run}/11" in section


def test_executions_and_rejections_are_marked_on_the_price(home: Home, run: str) -> None:
    found = Page(page(home, run))
    kinds = [attributes["class"] for tag, attributes in found.tags if tag == "g"]
    assert sorted(kind or "" for kind in kinds) == ["mark buy", "mark rejected", "mark sell"]
    assert any(text.startswith("buy 10 AAPL at 10.00, 2024-01-02T21:00:00Z, event 9") for text in found.texts)


def test_events_are_counted_by_type_and_severity(home: Home, run: str) -> None:
    text = page(home, run)
    section = text.split("<h2>Events</h2>")[1]
    rows = re.findall(r'<td>(\w+)</td><td class="n">(\d+)</td>', section)
    assert rows[:2] == [("StateChange", "4"), ("MarketDataEvent", "4")]
    assert dict(rows)["OrderRejection"] == "3"


def test_the_same_run_gives_the_same_page(home: Home, run: str) -> None:
    assert page(home, run) == page(home, run)


def test_every_chart_is_well_formed(home: Home, run: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page(home, run), re.DOTALL)
    assert len(drawings) == 3
    for drawing in drawings:
        assert tree.fromstring(drawing.replace("&nbsp;", " ")).tag == "svg"


def test_a_run_without_events_still_has_a_page(home: Home) -> None:
    with Recorder(home, "empty") as recorder:
        pass
    text = page(home, recorder.run_id)
    Page(text)
    assert "No order was rejected." in text
    assert "neither its equity nor its profit" in text


def test_a_running_run_has_a_page_of_what_is_recorded(home: Home) -> None:
    with Recorder(home, "running", fast=True) as recorder:
        equity(recorder, [1000, 1010])
        recorder.flush()
        text = page(home, recorder.run_id)
        assert '<span class="badge running">running</span>' in text
        assert "Made from 2 events" in text


def test_without_equity_the_engines_own_profit_is_drawn(home: Home) -> None:
    with Recorder(home, "pnl") as recorder:
        for number, total in enumerate((0, 50, -25)):
            recorder.state_change(START + number * DAY, "PnL", None, {"Total": total})
    text = page(home, recorder.run_id)
    assert "<h2>Profit and loss</h2>" in text
    assert figures(text) | {"profit and loss": "-25", "largest drawdown": "-75.00"} == figures(text)


def test_without_either_the_profits_of_all_positions_are_summed(home: Home) -> None:
    with Recorder(home, "positions") as recorder:
        for number, (symbol, profit) in enumerate((("A", "10.5"), ("B", "-3"), ("A", "0.25"))):
            recorder.position(START + number * DAY, symbol, 1, realized=Decimal(profit), unrealized=1)
    text = page(home, recorder.run_id)
    assert "<h2>Profit of positions</h2>" in text
    assert figures(text)["profit and loss"] == "-0.75"


def test_a_curve_that_touches_zero_tells_its_falls_in_money(home: Home) -> None:
    with Recorder(home, "ruin") as recorder:
        equity(recorder, [100, -20, 40])
    assert figures(page(home, recorder.run_id))["largest drawdown"] == "-120.00"


def test_a_price_that_no_picture_can_hold_is_left_out(home: Home) -> None:
    with Recorder(home, "odd") as recorder:
        bars(recorder, [Decimal("10"), Decimal("1E+400"), "9.5", None, True, "n/a"])
    drawings = re.findall(r'<polyline class="price" points="([^"]*)"', page(home, recorder.run_id))
    assert [len(points.split()) for points in drawings] == [2]


@pytest.mark.parametrize(
    "closes",
    [
        (1.7e308, -1.7e308, 5.0),
        (5e-324, 0),
        (Decimal("1.0000000000000001"), Decimal("1.0000000000000003")),
        (1.7e308, 1.6e308),
        (Decimal("1E-300"), Decimal("2E-300")),
    ],
)
def test_extreme_prices_are_drawn_inside_the_picture(home: Home, closes: tuple[Any, ...]) -> None:
    with Recorder(home, "extreme") as recorder:
        bars(recorder, closes)
        for number, close in enumerate(closes):
            recorder.trade(START + number, f"o{number}", "AAPL", "Buy", 1, close)
            recorder.order_rejected(START + number, f"r{number}", "no", symbol="AAPL", price=close)
    text = page(home, recorder.run_id)
    assert "nan" not in text.lower().replace("finance", "")
    (points,) = re.findall(r'<polyline class="price" points="([^"]*)"', text)
    assert len(points.split()) == len(closes)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert all(0 <= height <= 400 for height in heights)


@pytest.mark.parametrize("values", [("1E+95", "-1E+95"), ("1E-95", "2E-95", "1E-95"), ("0", "1E-95")])
def test_extreme_equity_has_a_curve_and_a_drawdown(home: Home, values: tuple[str, ...]) -> None:
    with Recorder(home, "extreme") as recorder:
        equity(recorder, map(Decimal, values))
    Page(page(home, recorder.run_id))


def test_thousands_of_bars_make_a_small_page_that_says_what_was_left_out(home: Home) -> None:
    with Recorder(home, "long") as recorder:
        bars(recorder, (100 + number % 50 for number in range(20_000)))
        for number in range(2_000):
            recorder.trade(START + number * DAY, f"o-{number}", "AAPL", "Buy", 1, 100)
    text = page(home, recorder.run_id)
    assert len(text) < 300_000
    assert f"20,000 values, about {-(-20_000 // COLUMNS)} to a column" in text
    marks = text.count('<g class="mark buy">')
    assert f"executions: 2,000, in {marks} marks" in text
    assert marks <= PLOT // MARK + 1


def test_many_symbols_are_drawn_by_their_executions_and_the_rest_is_counted(home: Home) -> None:
    with Recorder(home, "wide") as recorder:
        for number in range(12):
            for _ in range(number):
                recorder.trade(START, "o", f"S{number:02}", "Buy", 1, 100)
    text = page(home, recorder.run_id)
    assert re.findall(r"<h3>(S\d+)", text) == [f"S{number:02}" for number in range(11, 3, -1)]
    assert "3 more symbols" in text


# --- lines ------------------------------------------------------------------------------------


def series(values: list[float], step: int = SECOND) -> Series:
    made = Series()
    for number, value in enumerate(values):
        made.add(START + number * step, value)
    return made


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=400), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_a_reduced_line_keeps_the_first_lowest_highest_and_last_of_every_column(
    values: list[float], columns: int
) -> None:
    whole = series(values)
    window = charts.frame(whole.times[0], whole.times[-1], whole.values, 200)
    kept = list(charts.reduced(whole, window, columns))
    points = list(zip(whole.times, whole.values, strict=True))
    assert kept == sorted(set(kept) & set(points), key=lambda point: point[0])
    by_column: dict[int, list[tuple[int, float]]] = {}
    for point in points:
        by_column.setdefault((point[0] - window.start) * columns // (window.end - window.start), []).append(
            point
        )
    for found in by_column.values():
        own = {value for _, value in found}
        here = [value for ns, value in kept if found[0][0] <= ns <= found[-1][0]]
        assert {min(own), max(own)} <= set(here)
        assert (here[0], here[-1]) == (found[0][1], found[-1][1])
    assert len(kept) <= max(4 * (columns + 1), 2 * columns)


def exact_curve(values: Iterable[Decimal]) -> story.Curve:
    made = story.Curve()
    for number, value in enumerate(values):
        made.add(START + number, value)
    return made


AMOUNTS: Final = st.lists(st.decimals(1, 10**6, places=8), min_size=1, max_size=50)


@given(AMOUNTS)
def test_a_drawdown_is_the_fall_from_the_highest_value_before(values: list[Decimal]) -> None:
    shares, money = (story.drawdown(exact_curve(values), relative=relative) for relative in (True, False))
    for number, value in enumerate(values):
        peak = max(values[: number + 1])
        assert money.values[number] == float(value - peak)
        assert shares.values[number] == pytest.approx(
            float(Fraction(value - peak) / Fraction(peak)), rel=1e-15
        )


@given(AMOUNTS)
def test_the_deepest_fall_is_the_exact_one(values: list[Decimal]) -> None:
    curve = exact_curve(values)
    falls = [(value - peak, peak) for n, value in enumerate(values) if (peak := max(values[: n + 1]))]
    assert story.deepest(curve, relative=False).amount == min(amount for amount, _ in falls)
    amount, peak = story.deepest(curve, relative=True)
    assert Fraction(amount) / Fraction(peak) == min(Fraction(a) / Fraction(p) for a, p in falls)


def test_a_fall_that_no_binary_float_can_hold_is_told_to_the_last_digit(home: Home) -> None:
    """In binary64 the fall would lose its cents."""
    with Recorder(home, "fine") as recorder:
        equity(recorder, [Decimal("100000000000000000.02"), Decimal("-0.01"), Decimal("0.00")])
    text = page(home, recorder.run_id)
    assert figures(text)["largest drawdown"] == "-100,000,000,000,000,000.03"
    assert 'title="-100000000000000000.03"' in text


@pytest.mark.parametrize(
    ("values", "gain", "fall"),
    [
        (("80000", "80002"), "+0.00%", "0.00%"),
        (("80000", "80004"), "+0.00%", "0.00%"),
        (("80000", "80012"), "+0.02%", "0.00%"),
        (("80000", "79996"), "-0.00%", "-0.00%"),
        (("80000", "79988"), "-0.02%", "-0.02%"),
        (("80000", "79988.0000000000000000001"), "-0.01%", "-0.01%"),
        (("80000", "79987.9999999999999999999"), "-0.02%", "-0.02%"),
    ],
)
def test_a_percentage_is_rounded_half_to_even_from_the_exact_one(
    home: Home, values: tuple[str, str], gain: str, fall: str
) -> None:
    with Recorder(home, "halves") as recorder:
        equity(recorder, map(Decimal, values))
    found = figures(page(home, recorder.run_id))
    assert (found["return"], found["largest drawdown"]) == (gain, fall)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4), st.booleans())
def test_any_values_have_a_window_with_an_axis_in_which_they_lie(values: list[float], zero: bool) -> None:
    window = charts.frame(0, 10, values, 200, zero=zero)
    for value in values:
        assert charts.TOP - 0.1 <= window.y(value) <= 200 - charts.BOTTOM + 0.1
    drawing = charts.svg(window, "any", "", percent=zero)
    assert "nan" not in drawing
    assert "inf" not in drawing


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12), st.integers(1, 12))
def test_an_axis_has_round_values_inside_the_window(low: float, width: float, count: int) -> None:
    high = low + width
    if not high > low or width < abs(low) * 1e-9:
        return
    values = charts.nice(low, high, count)
    assert len(values) <= count + 2
    assert all(low - width * 1e-6 <= value <= high + width * 1e-6 for value in values)
    step = values[1] - values[0] if len(values) > 1 else 1.0
    texts = charts.labels(values, step)
    assert len(texts) == len(values)


@pytest.mark.parametrize(
    ("start", "end", "first"),
    [
        ("2024-01-02T09:30:00Z", "2024-01-02T09:30:20Z", "09:30:00"),
        ("2024-01-02T09:31:00Z", "2024-01-02T16:00:00Z", "10:00"),
        ("2024-01-02T00:00:00Z", "2024-01-09T00:00:00Z", "01-02"),
        ("2023-12-20T00:00:00Z", "2024-02-09T00:00:00Z", "2023-12-21"),
        ("2007-07-02T00:00:00Z", "2009-03-31T00:00:00Z", "2007-10"),
        ("2000-03-01T00:00:00Z", "2013-03-01T00:00:00Z", "2002"),
    ],
)
def test_a_time_axis_names_round_instants(start: str, end: str, first: str) -> None:
    found = charts.instants(parse(start).ns, parse(end).ns)
    assert found[0][1] == first
    assert 3 <= len(found) <= 10
    assert all(parse(start).ns <= ns <= parse(end).ns for ns, _ in found)


def test_times_that_step_back_are_drawn_in_order() -> None:
    mixed = Series()
    for ns, value in ((3, 3.0), (1, 1.0), (2, 2.0)):
        mixed.add(ns, value)
    assert list(mixed.sorted().values) == [1.0, 2.0, 3.0]


def test_a_mark_stands_at_the_mean_of_what_it_stands_for() -> None:
    marks = Marks(0, PLOT)
    for ns, price in ((0, 10.0), (2, 14.0), (MARK, 50.0)):
        marks.add(ns, price, "buy", f"at {price}")
    assert [(mark.ns, mark.value, mark.count, mark.words) for mark in marks] == [
        (1.0, 12.0, 2, "at 10.0"),
        (MARK, 50.0, 1, "at 50.0"),
    ]
    assert marks.count == 3


@pytest.mark.parametrize(("ids", "values"), [(("a", "b"), [5, 12, 7]), ((None, None), [5, 7, 0])])
def test_the_curve_of_positions_adds_up_those_that_are_held_side_by_side(
    home: Home, ids: tuple[str | None, str | None], values: list[int]
) -> None:
    with Recorder(home, "hedged") as recorder:
        for step, (id, gain) in enumerate([(ids[0], 5), (ids[1], 7), (ids[0], 0)]):
            recorder.position(START + step * DAY, "A", 1, 1, unrealized=gain, position_id=id)
    with opened(home, recorder.run_id) as recording:
        told = story.tell(story.events_of(recording), START, START + 2 * DAY, Positions.of(recording))
    assert told.held.values == values
