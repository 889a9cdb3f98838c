"""The embedded data: complete, equal to its source, aligned with the calendar, and refused when damaged."""

from __future__ import annotations

import hashlib
import shutil
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tracedesk.market import Dividend, Split, calendar
from tracedesk.market.bars import Bars
from tracedesk.market.dataset import (
    EMBEDDED,
    FIRST_SESSION,
    FOLDER,
    LAST_SESSION,
    DamagedData,
    Dataset,
    decode,
)
from tracedesk.primitives import money

LIMIT = 300_000
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".bars", ".csv"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "data"))


def test_five_symbols_have_their_sessions_and_no_more_than_300_kilobytes() -> None:
    assert {symbol: (len(bars), bars[0].session) for symbol, bars in EMBEDDED.items()} == {
        "AAPL": (3270, FIRST_SESSION),
        "FB": (196, date(2012, 5, 18)),
        "GOOG": (2148, date(2004, 8, 19)),
        "IBM": (3270, FIRST_SESSION),
        "MSFT": (3270, FIRST_SESSION),
    }
    assert {bars[-1].session for bars in EMBEDDED.values()} == {LAST_SESSION}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= LIMIT


@pytest.mark.parametrize("symbol", EMBEDDED)
def test_every_figure_of_every_row_has_the_sources_digest(symbol: str) -> None:
    bars, record = EMBEDDED[symbol], EMBEDDED.manifest["symbols"][symbol]
    assert (len(bars), str(bars[0].session)) == (record["rows"], record["first"])
    later = Fraction(record["source_last_adjusted_close"]) / Fraction(bars[-1].close)
    lines = "".join(_figures(bars, later))
    assert hashlib.sha256(lines.encode("ascii")).hexdigest() == record["source_figures_sha256"]


def _figures(bars: Bars, later: Fraction) -> list[str]:
    """The source's line of each row; its adjusted close, which also knows later actions, to nine digits."""
    return [
        f"{bar.session},{_plain(bar.open)},{_plain(bar.high)},{_plain(bar.low)},{_plain(bar.close)},"
        f"{bar.volume},{_plain(_nine_digits(Fraction(bar.adjusted_close) * later))}\n"
        for bar in bars
    ]


def _plain(number: Decimal) -> str:
    return money.to_text(money.trim(number))


def _nine_digits(value: Fraction) -> Decimal:
    return Context(prec=9).divide(Decimal(value.numerator), Decimal(value.denominator))


@pytest.mark.parametrize("symbol", EMBEDDED)
def test_a_symbols_rows_are_exactly_the_exchanges_sessions(symbol: str) -> None:
    bars = EMBEDDED[symbol]
    expected = calendar.sessions(bars[0].session, LAST_SESSION)
    assert tuple(map(date.fromordinal, bars.days)) == expected


@pytest.mark.parametrize("symbol", EMBEDDED)
def test_every_price_lies_between_the_low_and_the_high_and_every_session_traded(symbol: str) -> None:
    for bar in EMBEDDED[symbol]:
        assert 0 < bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high
        assert bar.volume > 0


def test_three_splits_and_92_dividends_of_whole_cents_are_known() -> None:
    actions = [(symbol, action) for symbol, bars in EMBEDDED.items() for action in bars.actions]
    assert [(symbol, action) for symbol, action in actions if isinstance(action, Split)] == [
        ("AAPL", Split(date(2000, 6, 21), 2, 1)),
        ("AAPL", Split(date(2005, 2, 28), 2, 1)),
        ("MSFT", Split(date(2003, 2, 18), 2, 1)),
    ]
    paid = {symbol: [a for a in EMBEDDED[symbol].actions if isinstance(a, Dividend)] for symbol in EMBEDDED}
    assert {s: len(p) for s, p in paid.items()} == {"AAPL": 3, "FB": 0, "GOOG": 0, "IBM": 52, "MSFT": 37}
    assert all(money.scale_of(d.amount) == 2 and d.amount > 0 for ds in paid.values() for d in ds)
    assert Dividend(date(2004, 11, 15), Decimal("3.08")) in paid["MSFT"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_one_changed_byte_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    symbol = name.removesuffix(".bars") if name.endswith(".bars") else "IBM"
    with pytest.raises(DamagedData, match=f"{name} does not match its digest; install tracedesk again"):
        Dataset(folder)[symbol]


@pytest.mark.parametrize("name", ["manifest.json", "IBM.bars"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DamagedData, match=f"{name} cannot be read"):
        Dataset(folder)["IBM"]


def test_data_of_another_format_is_refused(folder: Path) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="ascii").replace('"format": 1', '"format": 2'))
    with pytest.raises(DamagedData, match="has format 2, not 1"):
        Dataset(folder)["IBM"]
    with pytest.raises(ValueError, match="does not begin as a file of bars does"):
        decode(b"something else")


def test_a_symbol_needs_no_other_symbols_file_and_is_read_once(folder: Path) -> None:
    data = Dataset(folder)
    for name in FILES:
        if name not in ("FB.bars", "actions.csv"):
            (folder / name).unlink()
    first = data["FB"]
    (folder / "FB.bars").unlink()
    assert data["FB"] is first
    assert "TSLA" not in data


def test_the_licence_travels_with_the_data() -> None:
    note = (FOLDER / "LICENCE.md").read_text(encoding="utf-8")
    for fact in (EMBEDDED.manifest["source"]["attribution"], "public domain", "bokeh-sampledata 2026.1"):
        assert fact in note
