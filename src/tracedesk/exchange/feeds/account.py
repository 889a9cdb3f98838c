"""One account, live: its balances and open orders, from its own events and from asking.

Events are applied as they come. Asking replaces everything; what came while the answer was under way is
applied again where it is newer, and an order that a report has closed does not come back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tracedesk.exchange.client.client import Client
from tracedesk.exchange.client.errors import ClientError, RateLimited, Unreachable, VenueError
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.client.waiting import ended, within
from tracedesk.exchange.feeds.orders import OPEN, order_of
from tracedesk.exchange.feeds.throttle import Throttle
from tracedesk.exchange.units import units
from tracedesk.primitives.supervision import persist

State = Literal["starting", "live", "refreshing", "disconnected", "refused"]
Order = dict[str, Any]
Event = dict[str, Any]

_PAUSE: Final = 1.0
_LONGEST: Final = 60.0
_CLOSED: Final = 2_000
"""Closed orders that are remembered, so that a late answer does not bring them back."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account has of one asset, in units."""

    free: int
    locked: int


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """How far the account's picture can be trusted."""

    state: State
    age_ms: int | None
    """Since the last event or answer."""
    refreshed_ns: int | None
    reconnects: int
    last_error: str | None

    def document(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "age_ms": self.age_ms,
            "reconnects": self.reconnects,
            "last_error": self.last_error,
        }


class Account:
    """The account of one key; only who holds key and secret gets at it."""

    def __init__(self, credentials: Credentials, client: Client, *, throttle: float) -> None:
        self.credentials = credentials
        self.holders: set[str] = set()
        self.balances: dict[str, Balance] = {}
        self.open_orders: dict[int, Order] = {}
        self.info: dict[str, Any] = {}
        """The rest of what the venue says of the account, such as what it may do."""
        self.last_error: str | None = None
        self._client = client
        self._clock = client.clock
        self._rest = client.signed(credentials)
        self._user_data = client.user_data(credentials, self)
        self._throttle = Throttle(client.clock, throttle)
        self._reports: list[Callable[[Event], None]] = []
        self._connected: bool | None = None
        self._refusal: VenueError | None = None
        self._refreshed_ns: int | None = None
        self._current = asyncio.Event()
        """Set while the caches are those of the account."""
        self._heard: float | None = None
        self._since: list[Event] | None = None
        """Events since an answer was asked for; None while none is."""
        self._closed: deque[int] = deque(maxlen=_CLOSED)
        self._asking = asyncio.Lock()
        self._outdated = False
        """Whether an answer that was asked for before now may miss something."""
        self._refreshing: asyncio.Task[None] | None = None

    # --- its life

    def start(self) -> None:
        self._user_data.start()

    async def stop(self) -> None:
        """Hear and know no more."""
        await self._user_data.close()
        if self._refreshing is not None:
            await ended(self._refreshing)
        await self._throttle.close()
        self._reports.clear()
        self.balances.clear()
        self.open_orders.clear()

    # --- what is asked

    def status(self) -> AccountStatus:
        age = None if self._heard is None else int((self._clock.monotonic() - self._heard) * 1000)
        reconnects = self._user_data.status.reconnects
        return AccountStatus(self._state(), age, self._refreshed_ns, reconnects, self.last_error)

    def _state(self) -> State:
        if self._refusal is not None:
            return "refused"
        if self._connected is False:
            return "disconnected"
        if self._current.is_set():
            return "live"
        return "starting" if self._refreshed_ns is None else "refreshing"

    async def ready(self, seconds: float) -> bool:
        """Whether events come in and the caches are complete, waited for so long.

        Raises the venue's refusal where it does not accept the credentials.
        """
        if not self._current.is_set() and self._refusal is None:
            try:
                await within(self._clock, seconds, self._current.wait())
            except TimeoutError:
                return False
        if self._refusal is not None:
            raise self._refusal
        return self._current.is_set() and bool(self._connected)

    def listen(self, listener: Callable[[Account], None]) -> Callable[[], None]:
        """Be told of changes, a few times a second at most; what is returned ends it."""
        return self._throttle.listen(lambda: listener(self))

    def on_report(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Hear every `executionReport` as it came; what is returned ends it."""
        self._reports.append(listener)
        return lambda: self._reports.remove(listener)

    # --- the account's own events

    def live(self) -> None:
        self._connected = True
        self._current.clear()
        self._refresh_soon()

    def lost(self, reason: str) -> None:
        self._connected = False
        self._current.clear()
        self.last_error = reason
        self._throttle.changed()

    def refused(self, refusal: VenueError) -> None:
        self._refusal = refusal
        self.last_error = refusal.message
        self._current.set()
        self._throttle.changed()

    def event(self, data: Event, received_ns: int) -> None:
        self._apply(data)
        if self._since is not None:
            self._since.append(data)
        self._heard = self._clock.monotonic()
        if data.get("e") == "executionReport":
            for listener in tuple(self._reports):
                listener(data)
        self._throttle.changed()

    def _apply(self, data: Event) -> None:
        match data.get("e"):
            case "executionReport":
                self._take_report(data)
            case "outboundAccountPosition":
                self._take_balances(_balances(data, "B", ("a", "f", "l")))
            case "balanceUpdate" | "externalLockUpdate":
                # These tell a difference; the sum is asked for.
                self._refresh_soon()
            case _:
                pass

    def _take_report(self, report: Event) -> None:
        order = order_of(report)
        id = cast(int, order["orderId"])
        known = self.open_orders.get(id)
        if known is not None and order["updateTime"] < known["updateTime"]:
            return
        if order["status"] in OPEN and id not in self._closed:
            self.open_orders[id] = order
        elif order["status"] not in OPEN:
            self.open_orders.pop(id, None)
            self._closed.append(id)

    def _take_balances(self, changed: dict[str, Balance]) -> None:
        self.balances.update(changed)

    # --- asking

    async def refresh(self) -> None:
        """Ask for everything now; raises what keeps the venue from answering."""
        async with self._asking:
            self._outdated = False
            self._since = since = list[Event]()
            try:
                info = await self._rest.account(omitZeroBalances=True)
                orders = await self._rest.open_orders()
                self._replace(info, orders, since)
            except (KeyError, TypeError, ValueError) as fault:
                self._outdated = True
                raise Unreachable(
                    f"its answer about the account cannot be read ({type(fault).__name__})"
                ) from None
            except BaseException:
                self._outdated = True
                raise
            finally:
                self._since = None

    def _replace(self, info: dict[str, Any], orders: list[Any], since: Iterable[Event]) -> None:
        found = _balances(info, "balances", ("asset", "free", "locked"))
        updated = int(info.get("updateTime", 0))
        self.open_orders = {
            int(each["orderId"]): each for each in orders if each["orderId"] not in self._closed
        }
        self.balances = found
        self.info = {name: value for name, value in info.items() if name != "balances"}
        for event in tuple(since):
            if event.get("e") != "outboundAccountPosition" or int(event.get("u", 0)) >= updated:
                self._apply(event)
        self._refreshed_ns = self._clock.now_ns()
        self._heard = self._clock.monotonic()
        if self._connected and not self._outdated:
            self._current.set()
        self._throttle.changed()

    def _refresh_soon(self) -> None:
        self._outdated = True
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refreshed())

    async def _refreshed(self) -> None:
        try:
            await persist("account refresh", self._renewed)
        finally:
            self._refreshing = None

    async def _renewed(self) -> None:
        """Ask until the venue answers, ever more slowly."""
        failures = 0
        while self._outdated and not await self._asked():
            failures += 1
            seconds = min(_LONGEST, _PAUSE * 2 ** min(failures - 1, 10))
            await self._clock.sleep_until(self._clock.monotonic() + seconds)

    async def _asked(self) -> bool:
        """Whether the caches are renewed, or never will be."""
        try:
            await self.refresh()
            return not self._outdated
        except RateLimited as limited:
            self.last_error = limited.message
            await self._clock.sleep_until(self._clock.monotonic() + limited.retry_after)
            return False
        except VenueError as refusal:
            if refusal.code != "CREDENTIALS_REQUIRED":
                self.last_error = refusal.message
                return False
            self.refused(refusal)
        except ClientError as fault:
            self.last_error = fault.message
            return False
        return True


def _balances(document: dict[str, Any], member: str, names: tuple[str, str, str]) -> dict[str, Balance]:
    asset, free, locked = names
    try:
        rows = document[member]
        return {row[asset]: Balance(units(row[free]), units(row[locked])) for row in rows}
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not the balances of an account: {type(fault).__name__}") from None
