"""Background flow of the local exchange: seeded market makers, noise traders and trend followers."""

from tracedesk.exchange.local.flow.flow import Flow

__all__ = ["Flow"]
