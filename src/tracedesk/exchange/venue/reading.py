"""What can be asked of the venue; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping

from tracedesk.exchange.venue.accounts import HOUSE, Account, AccountState
from tracedesk.exchange.venue.checks import check_both, check_either
from tracedesk.exchange.venue.engine import Engine
from tracedesk.exchange.venue.listings import Listing
from tracedesk.exchange.venue.market import Market
from tracedesk.exchange.venue.orders import Amendment, Fill, OrderState, PreventedMatch, VenueRefused
from tracedesk.exchange.venue.store import Store
from tracedesk.primitives.time import Clock


class Reading:
    """The questions to a venue."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._ns = 0
        self._store = store
        self._accounts: dict[str, Account] = {}
        self._markets: dict[str, Market] = {}

    def account(self, name: str) -> AccountState:
        return self._account(name).state()

    def accounts(self) -> tuple[str, ...]:
        """The users' accounts."""
        return tuple(name for name in self._accounts if name not in HOUSE)

    def totals(self) -> dict[tuple[str, str], int]:
        """What every account, the house's own among them, holds of every asset; each asset sums to zero."""
        return {
            (account.name, asset): total
            for account in self._accounts.values()
            for asset, total in account.total.items()
            if total
        }

    def order(
        self, account: str, symbol: str, *, order_id: int | None = None, client_order_id: str | None = None
    ) -> OrderState:
        """One order, open or not; by a client order id the newest that bore it."""
        owner, market = self._account(account), self._market(symbol)
        check_either(order_id, client_order_id)
        if order_id is not None:
            found = self._store.order(owner.id, market.symbol, order_id)
        else:
            found = self._store.order_by_client(owner.id, market.symbol, client_order_id or "")
        if found is None:
            raise VenueRefused(-2013, "Order does not exist.")
        check_both(found.client_order_id, client_order_id)
        return found

    def quantity_ahead(self, symbol: str, order_id: int) -> int | None:
        """The quantity before an order in its queue; `None` where it does not rest or has no queue."""
        market = self._markets.get(symbol)
        return None if market is None else market.quantity_ahead(order_id)

    def open_orders(self, account: str, symbol: str | None = None) -> tuple[OrderState, ...]:
        """Open orders by number."""
        owner = self._account(account)
        if symbol is not None:
            self._market(symbol)
        found = (each for each in owner.orders.values() if symbol in (None, each.symbol))
        return tuple(each.state() for each in sorted(found, key=lambda each: each.id))

    def all_orders(
        self,
        account: str,
        symbol: str,
        *,
        from_id: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        limit: int = 500,
    ) -> tuple[OrderState, ...]:
        """Orders of any status from an id or a time on, else the most recent."""
        owner, market = self._account(account), self._market(symbol)
        return self._store.orders(owner.id, market.symbol, from_id, start_ns, end_ns, limit)

    def my_trades(
        self,
        account: str,
        symbol: str,
        *,
        order_id: int | None = None,
        from_id: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        limit: int = 500,
    ) -> tuple[Fill, ...]:
        """Fills from an id or a time on, else the most recent."""
        owner, market = self._account(account), self._market(symbol)
        return self._store.fills(owner.id, market.symbol, order_id, from_id, start_ns, end_ns, limit)

    def prevented_matches(
        self,
        account: str,
        symbol: str,
        *,
        id: int | None = None,
        order_id: int | None = None,
        from_id: int | None = None,
        limit: int = 500,
    ) -> tuple[PreventedMatch, ...]:
        """Trades with itself that an account was kept from."""
        owner, market = self._account(account), self._market(symbol)
        return self._store.prevented(owner.id, market.symbol, id, order_id, from_id, limit)

    def amendments(
        self,
        account: str,
        symbol: str,
        order_id: int,
        *,
        from_execution_id: int | None = None,
        limit: int = 500,
    ) -> tuple[Amendment, ...]:
        """How an order was made smaller, oldest first."""
        owner, market = self._account(account), self._market(symbol)
        return self._store.amendments(owner.id, market.symbol, order_id, from_execution_id, limit)

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {symbol: market.listing for symbol, market in self._markets.items()}

    def status(self, symbol: str) -> str:
        return self._market(symbol).status

    def books(self, symbol: str) -> Engine:
        """The book of a symbol, to be read."""
        return self._market(symbol).engine

    def last_update_id(self, symbol: str) -> int:
        return self._market(symbol).updates.last

    def last_trade_id(self, symbol: str) -> int:
        """The number of the last trade; one below the first before there is any."""
        return self._market(symbol).trades.last

    def last_price(self, symbol: str) -> int | None:
        return self._market(symbol).last_price

    def average_price(self, symbol: str, minutes: int = 5) -> int | None:
        """The mean price by volume; the last price where nothing traded in those minutes."""
        return self._market(symbol).average(self._now(), minutes)

    def _account(self, name: str) -> Account:
        account = self._accounts.get(name)
        if account is None or name in HOUSE:
            raise VenueRefused(-2015, "Invalid API-key, IP, or permissions for action.")
        return account

    def _market(self, symbol: str) -> Market:
        market = self._markets.get(symbol)
        if market is None:
            raise VenueRefused(-1121, "Invalid symbol.")
        return market

    def _now(self) -> int:
        """The clock, which for the venue never goes back."""
        self._ns = max(self._ns, self._clock.now_ns())
        return self._ns
