"""Every request that the exchange answers, for both of its request interfaces."""

from __future__ import annotations

from typing import Final

from tracedesk.exchange.local.methods import absent, account, general, market, trading
from tracedesk.exchange.local.methods.method import SIGNED, Call, Json, Method, Verb

METHODS: Final = (*general.METHODS, *market.METHODS, *trading.METHODS, *account.METHODS, *absent.METHODS)
BY_NAME: Final = {method.name: method for method in METHODS}

__all__ = ["BY_NAME", "METHODS", "SIGNED", "Call", "Json", "Method", "Verb"]
