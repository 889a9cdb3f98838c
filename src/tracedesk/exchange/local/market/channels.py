"""Names of streams: which market, and what of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from tracedesk.exchange.local.market.intervals import DAY, HOUR, INTERVALS

Kind = Literal[
    "trade", "aggTrade", "bookTicker", "depth", "partial", "kline", "mini", "ticker", "rolling", "average"
]
WINDOWS: Final = {"1h": HOUR, "4h": 4 * HOUR, "1d": DAY}
"""The windows that have streams."""
_EAST: Final = "@+08:00"
_PLAIN: Final[dict[str, Kind]] = {
    "trade": "trade",
    "aggTrade": "aggTrade",
    "bookTicker": "bookTicker",
    "miniTicker": "mini",
    "ticker": "ticker",
    "avgPrice": "average",
}
_DEPTH: Final = re.compile(r"depth(5|10|20)?(@100ms|@1000ms)?")


class UnknownStream(KeyError):
    """No stream has this name."""

    def __str__(self) -> str:
        return f"There is no stream {self.args[0]!r}; one of a market is named like btcusdt@depth@100ms."


@dataclass(frozen=True, slots=True)
class Channel:
    """One stream of a market, without the market's name."""

    kind: Kind
    levels: int = 0
    fast: bool = False
    interval: str = ""
    """Of candles, or the window of a rolling ticker."""
    offset: int = 0
    """Milliseconds east of UTC by which candles open."""


def split(name: str) -> tuple[str, Channel]:
    """The symbol, in capitals, and the channel of a stream's name."""
    symbol, at, rest = name.partition("@")
    channel = parse(rest) if at else None
    if channel is None or not symbol or symbol != symbol.lower():
        raise UnknownStream(name)
    return symbol.upper(), channel


def parse(rest: str) -> Channel | None:
    """The channel of what follows the symbol."""
    if (kind := _PLAIN.get(rest)) is not None:
        return Channel(kind)
    if (match := _DEPTH.fullmatch(rest)) is not None:
        levels = int(match[1] or 0)
        return Channel("partial" if levels else "depth", levels, match[2] == "@100ms")
    name, _, which = rest.partition("_")
    if name == "ticker" and which in WINDOWS:
        return Channel("rolling", interval=which)
    if name == "kline":
        interval = which.removesuffix(_EAST)
        offset = 8 * HOUR if interval != which else 0
        return Channel("kline", interval=interval, offset=offset) if interval in INTERVALS else None
    return None
