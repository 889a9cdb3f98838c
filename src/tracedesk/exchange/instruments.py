"""What is traded and by which rules: one symbol of `exchangeInfo`, its numbers in units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from tracedesk.exchange.units import text, units

Filter = Mapping[str, Any]
_UPPER: Final = str.maketrans(ascii_lowercase, ascii_uppercase)


@dataclass(frozen=True, slots=True)
class Instrument:
    """A symbol with its assets, steps and filters."""

    symbol: str
    base: str
    quote: str
    status: str
    tick: int
    """The step of prices, in units; 0 where any price is allowed."""
    step: int
    """The step of quantities, in units; 0 where any quantity is allowed."""
    order_types: tuple[str, ...]
    filters: Mapping[str, Filter] = field(default_factory=dict[str, Filter])
    """As published, by `filterType`."""

    @classmethod
    def of(cls, published: Mapping[str, Any]) -> Instrument:
        """The instrument that one entry of `exchangeInfo.symbols` describes."""
        filters: dict[str, Filter] = {each["filterType"]: each for each in published.get("filters", ())}
        return cls(
            symbol=published["symbol"],
            base=published["baseAsset"],
            quote=published["quoteAsset"],
            status=published["status"],
            tick=units(filters.get("PRICE_FILTER", {}).get("tickSize", "0")),
            step=units(filters.get("LOT_SIZE", {}).get("stepSize", "0")),
            order_types=tuple(published.get("orderTypes", ())),
            filters=filters,
        )

    @property
    def is_trading(self) -> bool:
        return self.status == "TRADING"

    @property
    def price_places(self) -> int:
        return _places(self.tick)

    @property
    def quantity_places(self) -> int:
        return _places(self.step)

    def price_text(self, price: int) -> str:
        """A price with the places of the tick, or with all where it lies between ticks."""
        return _shown(price, self.price_places)

    def quantity_text(self, quantity: int) -> str:
        return _shown(quantity, self.quantity_places)


def named(given: str) -> str:
    """A symbol as venues list it: ASCII letters in upper case, and no other letter taken for one."""
    return given.strip().translate(_UPPER)


def _places(step: int) -> int:
    """The places that multiples of a step need."""
    if step == 0:
        return 8
    places = 8
    while places and step % 10 == 0:
        step //= 10
        places -= 1
    return places


def _shown(value: int, places: int) -> str:
    return text(value, places) if value % 10 ** (8 - places) == 0 else text(value)
