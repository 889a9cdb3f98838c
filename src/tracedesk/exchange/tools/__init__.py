"""The exchange tools by group: market, book, flow, account, orders and the desk itself."""

from tracedesk.exchange.tools import account, book, desk, flow, market, orders, prompts, resources
from tracedesk.exchange.tools.toolset import exchange

__all__ = ["account", "book", "desk", "exchange", "flow", "market", "orders", "prompts", "resources"]
