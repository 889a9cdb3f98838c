"""What the venue still allows: weights and counts of its own windows, so that we stop before it says so.

The venue counts by windows of its clock: a minute's count is zero again when the next minute begins.
Its answers tell the count of the window they fall in, for everyone at this address; what is under way
is added until its answer comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, Literal

from tracedesk.exchange.client.clock import ServerTime
from tracedesk.exchange.client.errors import RateLimited
from tracedesk.primitives.time import DAY, HOUR, MINUTE, SECOND, Clock, format

Counted = Literal["REQUEST_WEIGHT", "RAW_REQUESTS", "ORDERS"]

_UNITS: Final[Mapping[str, int]] = {"SECOND": SECOND, "MINUTE": MINUTE, "HOUR": HOUR, "DAY": DAY}
_LETTERS: Final[Mapping[str, str]] = {"S": "SECOND", "M": "MINUTE", "H": "HOUR", "D": "DAY"}
_HEADER: Final = re.compile(r"x-mbx-(used-weight|order-count)-([0-9]+)([smhd])", re.IGNORECASE)
KEPT_BACK: Final = 20
"""Share of a window, one in so many, that only cancelling, and finding what to cancel, may use."""
_SHORTEST_BAN: Final = 2 * 60.0
"""Seconds of the venue's shortest ban, taken where a 418 does not say how long."""
_BACK_OFF: Final = 10.0
"""Seconds to stay away after a 429 that does not say how long."""


@dataclass(slots=True)
class Window:
    """One limit of the venue: at most `limit` in each span of its clock."""

    counted: Counted
    unit: str
    number: int
    limit: int
    used: int = 0
    under_way: int = 0
    index: int = -1
    """Which span `used` belongs to."""

    @property
    def span_ns(self) -> int:
        return _UNITS[self.unit] * self.number

    @property
    def name(self) -> str:
        return f"{self.limit} {self.counted} per {self.number} {self.unit}"

    def at(self, now_ns: int) -> None:
        """Begin anew where the span has changed."""
        index = now_ns // self.span_ns
        if index != self.index:
            self.index, self.used = index, 0

    def over_by(self, amount: int, *, essential: bool) -> bool:
        kept_back = 0 if essential or self.counted == "ORDERS" else self.limit // KEPT_BACK
        return self.used + self.under_way + amount > self.limit - kept_back

    def seconds_left(self, now_ns: int) -> float:
        """Until the count is zero again."""
        return (self.span_ns - now_ns % self.span_ns) / SECOND


def _usual() -> list[Window]:
    """The limits taken for true until the venue has told its own."""
    return [Window("REQUEST_WEIGHT", "MINUTE", 1, 6_000)]


@dataclass(slots=True)
class Reservation:
    """What one request may cost, counted while it is under way."""

    held: list[tuple[Window, int, int]] = field(default_factory=list[tuple[Window, int, int]])
    """Windows, amounts, and the span of each in which the request went out."""

    def settle(self, *, sent: bool, told: Iterable[Window] = ()) -> None:
        """The request is over; what was sent counts, where the answer did not tell the whole count."""
        known = [id(window) for window in told]
        for window, amount, _ in self.held:
            window.under_way -= amount
            if sent and id(window) not in known:
                window.used += amount
        self.held.clear()

    def current(self, window: Window) -> bool:
        """Whether a count in the answer is certainly of the window's present span."""
        return all(index == window.index for held, _, index in self.held if held is window)


class Limits:
    """The windows of one venue, shared by all who call it from here; order counts are kept per account."""

    def __init__(self, clock: Clock, time: ServerTime) -> None:
        self._clock = clock
        self._time = time
        self._shared = _usual()
        self._order_rules: list[Window] = []
        self._orders: dict[str, list[Window]] = {}
        self._closed_until = 0.0
        self._orders_closed: dict[str, float] = {}
        self.banned = False

    # --- what the venue tells

    def published(self, rate_limits: Iterable[Mapping[str, Any]]) -> None:
        """Take the limits over that `exchangeInfo` gives, keeping what is counted already."""
        known = {(each.counted, each.unit, each.number): each for each in self._shared}
        shared: list[Window] = []
        orders: list[Window] = []
        for each in rate_limits:
            key = (each["rateLimitType"], each["interval"], int(each["intervalNum"]))
            limit = int(each["limit"])
            if key[1] not in _UNITS:
                continue
            if key[0] == "ORDERS":
                orders.append(Window(*key, limit))
            elif key[0] in ("REQUEST_WEIGHT", "RAW_REQUESTS"):
                window = known.get(key) or Window(*key, limit)
                window.limit = limit
                shared.append(window)
        self._shared = shared or self._shared
        if [each.name for each in orders] != [each.name for each in self._order_rules]:
            self._order_rules = orders
            self._orders.clear()

    def answered(self, held: Reservation, headers: Mapping[str, str], account: str | None) -> None:
        """A request was answered: take over the counts that its headers tell."""
        told: list[Window] = []
        for name, value in headers.items():
            match = _HEADER.fullmatch(name)
            if match is None or not value.isdigit():
                continue
            counted: Counted = "REQUEST_WEIGHT" if match[1].lower() == "used-weight" else "ORDERS"
            for window in self._of(counted, account):
                if (window.unit, window.number) == (_LETTERS[match[3].upper()], int(match[2])):
                    window.at(self._time.now_ns())
                    # A count of the span that has just ended would block the one that has begun.
                    if held.current(window):
                        window.used = int(value)
                        told.append(window)
        held.settle(sent=True, told=told)

    def refused(self, retry_after: float | None, *, banned: bool, account: str | None = None) -> float:
        """The venue said 429 or 418: nothing, or no order of the account, is sent until then.

        Returns the seconds.
        """
        seconds = retry_after if retry_after is not None else (_SHORTEST_BAN if banned else _BACK_OFF)
        until = self._clock.monotonic() + seconds
        if account is not None:
            self._orders_closed[account] = max(until, self._orders_closed.get(account, 0.0))
            return seconds
        self._closed_until = max(self._closed_until, until)
        self.banned = banned
        return seconds

    # --- what we may do

    async def admit(
        self, weight: int, *, orders: int, account: str | None, patience: float, essential: bool = False
    ) -> Reservation:
        """Wait for room up to `patience` seconds, or refuse; what is admitted counts at once.

        What is essential has room that is kept back from everything else.
        """
        deadline = self._clock.monotonic() + patience
        while (blocked := self._blocked(weight, orders, account, essential)) is not None:
            message, seconds, banned = blocked
            if self._clock.monotonic() + seconds > deadline:
                raise RateLimited(message, seconds, sent=False, banned=banned)
            await self._clock.sleep_until(self._clock.monotonic() + seconds)
        return self._reserve(weight, orders, account)

    def _blocked(
        self, weight: int, orders: int, account: str | None, essential: bool
    ) -> tuple[str, float, bool] | None:
        """Why nothing can be sent now, for how many seconds, and whether it is a ban."""
        closed = self._closed_until - self._clock.monotonic()
        if closed > 0:
            return "The venue asked this address to stay away.", closed, self.banned
        self.banned = False
        closed = (
            self._orders_closed.get(account, 0.0) - self._clock.monotonic() if account and orders else 0.0
        )
        if closed > 0:
            return "The venue takes no more orders of this account for now.", closed, False
        now_ns = self._time.now_ns()
        for window, amount in self._costs(weight, orders, account):
            window.at(now_ns)
            if window.over_by(amount, essential=essential):
                return f"The venue's limit of {window.name} is used up.", window.seconds_left(now_ns), False
        return None

    def _reserve(self, weight: int, orders: int, account: str | None) -> Reservation:
        costs = [(window, amount, window.index) for window, amount in self._costs(weight, orders, account)]
        for window, amount, _ in costs:
            window.under_way += amount
        return Reservation(costs)

    def _costs(self, weight: int, orders: int, account: str | None) -> Iterable[tuple[Window, int]]:
        for window in self._shared:
            yield window, weight if window.counted == "REQUEST_WEIGHT" else 1
        if orders:
            for window in self._of("ORDERS", account):
                yield window, orders

    def _of(self, counted: Counted, account: str | None) -> list[Window]:
        if counted != "ORDERS":
            return [each for each in self._shared if each.counted == counted]
        if account is None:
            return []
        if account not in self._orders:
            rules = self._order_rules
            self._orders[account] = [Window("ORDERS", each.unit, each.number, each.limit) for each in rules]
        return self._orders[account]

    def forget(self, account: str) -> None:
        self._orders.pop(account, None)
        self._orders_closed.pop(account, None)

    # --- what is known

    @property
    def used_weight(self) -> int:
        """The weight used in the current minute, with what is under way."""
        return max((each.used + each.under_way for each in self._now("REQUEST_WEIGHT")), default=0)

    @property
    def weight_limit(self) -> int:
        return min((each.limit for each in self._now("REQUEST_WEIGHT")), default=0)

    def order_counts(self, account: str) -> dict[str, int]:
        """Unfilled orders counted against each limit of the account, as far as answers told."""
        now_ns = self._time.now_ns()
        windows = self._of("ORDERS", account)
        for window in windows:
            window.at(now_ns)
        return {window.name: window.used for window in windows}

    def _now(self, counted: Counted) -> list[Window]:
        now_ns = self._time.now_ns()
        windows = self._of(counted, None)
        for window in windows:
            window.at(now_ns)
        return windows

    @property
    def closed_seconds(self) -> float:
        """How long the venue still wants to be left alone."""
        return max(0.0, self._closed_until - self._clock.monotonic())

    def document(self) -> dict[str, Any]:
        closed = self.closed_seconds
        document: dict[str, Any] = {"used_weight": self.used_weight, "weight_limit": self.weight_limit}
        if closed:
            until = self._clock.now_ns() + ceil(closed) * SECOND
            document |= {"closed_until": format(until), "banned": self.banned}
        return document
