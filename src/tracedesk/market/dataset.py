"""The embedded bars: files checked against their digests and decoded when a symbol is first asked for."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import accumulate
from operator import add, sub
from pathlib import Path
from typing import Any

from tracedesk.market.actions import Action, Dividend, Split
from tracedesk.market.bars import Bars, Columns
from tracedesk.primitives import money

FOLDER = Path(__file__).parent / "data"
FIRST_SESSION = date(2000, 3, 1)
LAST_SESSION = date(2013, 3, 1)
"""The first and last session that any embedded symbol has a bar for."""

FORMAT = 1
_MAGIC = b"TDBARS\x00\x01"
_HEAD = struct.Struct("<HII")


class DamagedData(RuntimeError):
    """A file of the market data is missing or is not the one that was shipped."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the market data file {name} {problem}; install tracedesk again")


class Dataset(Mapping[str, Bars]):
    """Every symbol of a folder of market data, decoded on first use and kept."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._decoded: dict[str, Bars] = {}

    def __getitem__(self, symbol: str) -> Bars:
        if symbol not in self.manifest["symbols"]:
            raise KeyError(symbol)
        if symbol not in self._decoded:
            self._decoded[symbol] = self._decode(symbol)
        return self._decoded[symbol]

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest["symbols"])

    def __len__(self) -> int:
        return len(self.manifest["symbols"])

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The digests, the source, and each symbol's rows and span."""
        document: dict[str, Any] = json.loads(_read(self._folder / "manifest.json"))
        if document["format"] != FORMAT:
            raise DamagedData("manifest.json", f"has format {document['format']}, not {FORMAT}")
        return document

    @cached_property
    def _actions(self) -> dict[str, tuple[Action, ...]]:
        lines = self._checked("actions.csv").decode("ascii").splitlines()[1:]
        fields = [line.split(",") for line in lines]
        return {symbol: tuple(_action(*rest) for name, *rest in fields if name == symbol) for symbol in self}

    def _decode(self, symbol: str) -> Bars:
        columns = decode(self._checked(f"{symbol}.bars"))
        return Bars(symbol, columns, self._actions[symbol])

    def _checked(self, name: str) -> bytes:
        content = _read(self._folder / name)
        if hashlib.sha256(content).hexdigest() != self.manifest["sha256"][name]:
            raise DamagedData(name, "does not match its digest")
        return content


EMBEDDED = Dataset()
"""The data that ships with the package; nothing is read before a symbol is asked for."""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedData(path.name, f"cannot be read ({error.strerror})") from error


def _action(ex_date: str, kind: str, value: str) -> Action:
    day = date.fromisoformat(ex_date)
    if kind == "dividend":
        return Dividend(day, money.parse(value))
    new, old = map(int, value.split(":"))
    return Split(day, new, old)


# --- the format, told in docs/market.md ---------------------------------------------------------


@dataclass(slots=True)
class _Reader:
    """Takes little-endian columns off a file, one after the other."""

    content: bytes
    at: int = 0

    def take(self, code: str, count: int) -> array[int]:
        column: array[int] = array(code)
        end = self.at + count * column.itemsize
        column.frombytes(self.content[self.at : end])
        self.at = end
        if sys.byteorder == "big":
            column.byteswap()
        return column


def decode(content: bytes) -> Columns:
    """Return the columns of a symbol's file."""
    if not content.startswith(_MAGIC):
        raise ValueError("the file does not begin as a file of bars does")
    count, first_day, first_open = _HEAD.unpack_from(content, len(_MAGIC))
    reader = _Reader(content, len(_MAGIC) + _HEAD.size)
    days = accumulate(reader.take("B", count), initial=first_day)
    next(days)
    gaps, moves = reader.take("h", count), reader.take("h", count)
    closes = list(accumulate(map(add, gaps, moves), initial=first_open))[1:]
    opens = list(map(sub, closes, moves))
    highs = map(add, map(max, opens, closes), reader.take("H", count))
    lows = map(sub, map(min, opens, closes), reader.take("H", count))
    volumes = reader.take("I", count)
    whole = [_hundreds(column) for column in (opens, highs, lows, closes, volumes)]
    for column in whole:
        _add_rests(column, reader)
    return Columns(array("q", days), *whole)


def _hundreds(column: Iterator[int] | list[int] | array[int]) -> array[int]:
    return array("q", [value * 100 for value in column])


def _add_rests(column: array[int], reader: _Reader) -> None:
    (count,) = reader.take("H", 1)
    for index, rest in zip(reader.take("H", count), reader.take("B", count), strict=True):
        column[index] += rest
