"""Venues for tests: small markets with round numbers, and orders in few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tracedesk.exchange.units import units
from tracedesk.exchange.venue.events import Event
from tracedesk.exchange.venue.listings import Listing, publish
from tracedesk.exchange.venue.orders import NewOrder, OrderResult
from tracedesk.exchange.venue.store import Store
from tracedesk.exchange.venue.venue import Venue
from tracedesk.primitives.time import ManualClock

SYMBOL: Final = "BTCUSDT"
NOON: Final = 1_790_000_000_000_000_000
FUNDS: Final = {"BTC": units("1000"), "USDT": units("1000000")}


def entry(**changed: Any) -> dict[str, Any]:
    """The published rules of the test symbol: ticks of 0.01, steps of 0.001, nearly no other bounds."""
    found = publish(
        "BTC",
        "USDT",
        tick="0.01000000",
        step="0.00100000",
        max_price="1000000.00000000",
        max_quantity="10000.00000000",
        max_market="10000.00000000",
        min_notional="0.01000000",
        max_notional="0.00000000",
    )
    return found | {"defaultSelfTradePreventionMode": "NONE"} | changed


def with_filter(name: str, **values: Any) -> dict[str, Any]:
    """The published rules with one filter replaced or added."""
    rules = entry()
    rest = [each for each in rules["filters"] if each["filterType"] != name]
    return rules | {"filters": [*rest, {"filterType": name, **values}]}


def without_filters(*names: str) -> dict[str, Any]:
    rules = entry()
    return rules | {"filters": [each for each in rules["filters"] if each["filterType"] not in names]}


class Bench:
    """A venue with the accounts `ann` and `bob`, its clock, and everything it told."""

    def __init__(self, *listed: dict[str, Any], path: Path | None = None, **settings: Any) -> None:
        self.clock = ManualClock(NOON)
        self.path = path
        self.listed = [Listing.of(each) for each in (listed or (entry(),))]
        self.settings = settings
        self.events: list[Event] = []
        self.venue = self._open()
        for name in ("ann", "bob"):
            self.venue.open_account(name, FUNDS, maker=0, taker=0)
        self.events.clear()

    def _open(self) -> Venue:
        venue = Venue(self.listed, self.clock, Store(self.path) if self.path else None, **self.settings)
        venue.listen(self.events.append)
        return venue

    def reopen(self) -> Venue:
        """Close the venue and open it again from its file."""
        self.venue.close()
        self.venue = self._open()
        return self.venue

    def place(
        self, account: str, side: Any, type: Any, quantity: str | None = None, **asked: Any
    ) -> OrderResult:
        return self.venue.place(account, asking(side, type, quantity, **asked))

    def limit(self, account: str, side: Any, quantity: str, price: str, **asked: Any) -> OrderResult:
        return self.place(account, side, "LIMIT", quantity, price=price, **({"tif": "GTC"} | asked))

    def flow(self, side: Any, quantity: str, price: str) -> int:
        return self.venue.flow_limit(SYMBOL, side, units(price), units(quantity))

    def depth(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return self.venue.books(SYMBOL).depth()

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def asking(side: Any, type: Any, quantity: str | None = None, **asked: Any) -> NewOrder:
    """A request with its numbers as text."""

    def number(name: str) -> int | None:
        return units(asked[name]) if name in asked else None

    return NewOrder(
        symbol=asked.get("symbol", SYMBOL),
        side=side,
        type=type,
        quantity=units(quantity) if quantity is not None else None,
        price=number("price"),
        quote_quantity=number("quote"),
        time_in_force=asked.get("tif"),
        client_order_id=asked.get("id"),
        stop_price=number("stop"),
        trailing_delta=asked.get("trailing"),
        iceberg_quantity=number("iceberg"),
        prevention=asked.get("stp"),
        strategy_id=asked.get("strategy_id"),
        strategy_type=asked.get("strategy_type"),
    )
