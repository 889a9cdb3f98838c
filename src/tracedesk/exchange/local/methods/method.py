"""What can be asked of the exchange: one declaration for both of its request interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tracedesk.exchange.instruments import Instrument
from tracedesk.exchange.local import errors
from tracedesk.exchange.local.auth import Permission
from tracedesk.exchange.local.market import MarketData, Unit
from tracedesk.exchange.local.parameters import Parameter

if TYPE_CHECKING:
    from tracedesk.exchange.local.exchange import LocalExchange

Verb = Literal["GET", "POST", "PUT", "DELETE"]
Values = Mapping[str, Any]
Json = dict[str, Any] | list[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was admitted, authenticated and read."""

    exchange: LocalExchange
    values: Values
    account: str
    """Empty where no key is needed."""
    unit: Unit

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    @property
    def instrument(self) -> Instrument:
        """What the parameter `symbol` names."""
        return self.exchange.instrument(self.values["symbol"])

    @property
    def market(self) -> MarketData:
        """The market of `symbol`, which `symbolStatus` must fit."""
        instrument = self.instrument
        if self.get("symbolStatus", instrument.status) != instrument.status:
            raise errors.status_mismatch()
        return self.exchange.market.of(instrument.symbol)

    @property
    def symbol(self) -> str:
        return self.instrument.symbol


@dataclass(frozen=True, slots=True)
class Method:
    """A request by its two names, what it takes, what it costs and what it does."""

    name: str
    """In the WebSocket API."""
    verb: Verb
    path: str
    """In the REST API, below `/api/v3/`."""
    act: Callable[[Call], Json]
    parameters: tuple[Parameter, ...] = ()
    weight: int | Callable[[Values], int] = 1
    permission: Permission | None = None
    """What the key must allow; `None` where no key is needed."""
    places_order: bool = False
    free: bool = False
    """Whether a request that succeeds costs no weight."""

    def cost(self, values: Values) -> int:
        return self.weight if isinstance(self.weight, int) else self.weight(values)


SIGNED: Final = ("timestamp", "recvWindow", "signature")
"""Parameters of every request with a key, which belong to its security."""
