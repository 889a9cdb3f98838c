"""The last 24 hours of a market: the stream's letters as REST's names."""

from __future__ import annotations

from typing import Any, Final

_NAMES: Final = {
    "s": "symbol",
    "p": "priceChange",
    "P": "priceChangePercent",
    "w": "weightedAvgPrice",
    "x": "prevClosePrice",
    "c": "lastPrice",
    "Q": "lastQty",
    "b": "bidPrice",
    "B": "bidQty",
    "a": "askPrice",
    "A": "askQty",
    "o": "openPrice",
    "h": "highPrice",
    "l": "lowPrice",
    "v": "volume",
    "q": "quoteVolume",
    "O": "openTime",
    "C": "closeTime",
    "F": "firstId",
    "L": "lastId",
    "n": "count",
}


def day_of(event: dict[str, Any]) -> dict[str, Any]:
    """A `24hrTicker` event in the shape of `ticker/24hr`; raises `ValueError` where a member is missing."""
    missing = _NAMES.keys() - event.keys()
    if missing:
        raise ValueError(f"not a 24hrTicker: without {', '.join(sorted(missing))}")
    return {name: event[letter] for letter, name in _NAMES.items()}
