"""The embedded market: real daily bars, the exchange's calendar, and a clock that replays them.

`View` is the only way to read bars, so that nothing after its instant can be read; see docs/market.md.
"""

from tracedesk.market import calendar
from tracedesk.market.actions import Action, Dividend, Split
from tracedesk.market.bars import ADJUSTED_PLACES, PRICE_PLACES, Bar, Bars
from tracedesk.market.clock import ClockError, Move, ReplayClock
from tracedesk.market.dataset import DamagedData
from tracedesk.market.view import NoBars, Quote, View

__all__ = [
    "ADJUSTED_PLACES",
    "PRICE_PLACES",
    "Action",
    "Bar",
    "Bars",
    "ClockError",
    "DamagedData",
    "Dividend",
    "Move",
    "NoBars",
    "Quote",
    "ReplayClock",
    "Split",
    "View",
    "calendar",
]
