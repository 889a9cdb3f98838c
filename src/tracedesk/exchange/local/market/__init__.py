"""Market data of the local exchange: trades, candles, tickers and depth as streams and snapshots."""

from tracedesk.exchange.local.market.channels import UnknownStream
from tracedesk.exchange.local.market.intervals import INTERVALS
from tracedesk.exchange.local.market.market import MarketData
from tracedesk.exchange.local.market.markets import Markets
from tracedesk.exchange.local.market.messages import Message, Sink, Unit

__all__ = ["INTERVALS", "MarketData", "Markets", "Message", "Sink", "Unit", "UnknownStream"]
