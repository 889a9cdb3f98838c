"""Limits of requests: weight, raw requests, orders of an account, and bans.

Requests are counted by address, as Binance does, or by account: then a program without a key of the home can
use up nothing, and nobody is banned for it.

Intervals are those of the calendar: a minute's limit is whole again when the minute on the clock is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracedesk.exchange.local import errors
from tracedesk.primitives.time import DAY, MILLISECOND, MINUTE, SECOND, Clock

By = Literal["account", "address"]
Kind = Literal["REQUEST_WEIGHT", "ORDERS", "RAW_REQUESTS", "CONNECTIONS"]
Interval = Literal["SECOND", "MINUTE", "DAY"]

_NS: Final[dict[Interval, int]] = {"SECOND": SECOND, "MINUTE": MINUTE, "DAY": DAY}


@dataclass(frozen=True, slots=True)
class Rule:
    """At most so many within each interval."""

    kind: Kind
    interval: Interval
    number: int
    limit: int

    @property
    def span_ns(self) -> int:
        return _NS[self.interval] * self.number

    @property
    def span(self) -> str:
        return f"{self.number} {self.interval}"

    @property
    def letters(self) -> str:
        """As headers name the interval."""
        return f"{self.number}{self.interval[0]}"

    def document(self, count: int | None = None) -> dict[str, Any]:
        shape = {"rateLimitType": self.kind, "interval": self.interval, "intervalNum": self.number}
        return {**shape, "limit": self.limit, **({} if count is None else {"count": count})}


RULES: Final = (
    Rule("REQUEST_WEIGHT", "MINUTE", 1, 6_000),
    Rule("ORDERS", "SECOND", 10, 100),
    Rule("ORDERS", "DAY", 1, 200_000),
    Rule("RAW_REQUESTS", "MINUTE", 5, 300_000),
)
CONNECTIONS: Final = Rule("CONNECTIONS", "MINUTE", 5, 300)
"""Connection attempts of an address; not among the published rules."""
KEPT_BACK: Final = Rule("RAW_REQUESTS", "MINUTE", 1, 600)
"""Requests that cancel an account's orders, or look them up, beyond every other limit."""
PATIENCE: Final = 10
"""Requests refused with 429 within one interval, after which the caller is banned."""
FIRST_BAN_NS: Final = 2 * MINUTE
LONGEST_BAN_NS: Final = 3 * DAY
MAKER_CREDIT: Final = 5
"""What the first fill of a resting order takes off the count of unfilled orders; a taker's takes one."""


class Tally:
    """Counts of one rule by who is counted, each forgotten with its interval."""

    def __init__(self, rule: Rule, clock: Clock) -> None:
        self.rule = rule
        self._clock = clock
        self._index = -1
        self._counts: dict[Hashable, int] = {}

    def count(self, who: Hashable) -> int:
        return self._current().get(who, 0)

    def add(self, who: Hashable, number: int) -> None:
        """Count so many more, or fewer, but never below none."""
        counts = self._current()
        counts[who] = max(0, counts.get(who, 0) + number)

    def is_spent(self, who: Hashable) -> bool:
        return self.count(who) >= self.rule.limit

    def clear(self) -> None:
        """Forget everything that was counted."""
        self._counts = {}

    def retry_after_s(self) -> int:
        """Whole seconds until the next interval begins."""
        left = self.rule.span_ns - self._clock.now_ns() % self.rule.span_ns
        return -(-left // SECOND)

    def _current(self) -> dict[Hashable, int]:
        index = self._clock.now_ns() // self.rule.span_ns
        if index != self._index:
            self._index, self._counts = index, {}
        return self._counts


@dataclass(slots=True)
class Ban:
    """How an address behaved: bans so far, and until when the last one holds."""

    times: int = 0
    until_ns: int = 0


class Limits:
    """The limits of one exchange, counted on its clock."""

    def __init__(
        self,
        clock: Clock,
        rules: tuple[Rule, ...] = RULES,
        connections: Rule = CONNECTIONS,
        *,
        by: By = "address",
    ) -> None:
        self.rules = rules
        self._by = by
        self._clock = clock
        self._weight = [Tally(rule, clock) for rule in rules if rule.kind == "REQUEST_WEIGHT"]
        self._raw = [Tally(rule, clock) for rule in rules if rule.kind == "RAW_REQUESTS"]
        self._orders = [Tally(rule, clock) for rule in rules if rule.kind == "ORDERS"]
        self._connections = Tally(connections, clock)
        self._refusals = Tally(Rule("REQUEST_WEIGHT", "MINUTE", 1, PATIENCE), clock)
        self._kept_back = Tally(KEPT_BACK, clock)
        self._bans: defaultdict[str, Ban] = defaultdict(Ban)

    # --- requests -------------------------------------------------------------------------------

    def counted(self, address: str, account: str = "") -> str | None:
        """The one that a request is counted for: its address, or its account; None for nobody."""
        return address if self._by == "address" else account or None

    def admit(self, who: str | None, essential_of: str = "") -> None:
        """Count a request, or refuse it: 429 over a limit, 418 while banned.

        `essential_of` is the account whose orders it cancels or looks up: requests are kept back for that, so
        that nothing which others or the account itself did keeps an order from being cancelled.
        """
        if who is None:
            return
        try:
            self._admit(who)
        except errors.Refused:
            if not essential_of or self._kept_back.is_spent(essential_of):
                raise
            self._kept_back.add(essential_of, 1)

    def _admit(self, who: str) -> None:
        self._refuse_banned(who)
        for tally in self._raw:
            tally.add(who, 1)
        spent = next((tally for tally in (*self._weight, *self._raw) if self._is_over(tally, who)), None)
        if spent is not None:
            self._refuse(who, spent)

    def charge(self, who: str | None, weight: int) -> None:
        """Count what a request cost, once that is known."""
        for tally in self._weight if who is not None else ():
            tally.add(who, weight)

    def connect(self, address: str) -> None:
        """Count an attempt to open a socket, which names no account yet."""
        if self._by == "account":
            return
        self._refuse_banned(address)
        if self._connections.is_spent(address):
            rule = self._connections.rule
            raise errors.too_many_connections(rule.limit, rule.span, self._connections.retry_after_s())
        self._connections.add(address, 1)

    def ban(self, address: str) -> int:
        """Ban an address, longer each time, and return until when in nanoseconds."""
        ban = self._bans[address]
        ban.until_ns = self._clock.now_ns() + min(FIRST_BAN_NS << min(ban.times, 20), LONGEST_BAN_NS)
        ban.times += 1
        return ban.until_ns

    def unban(self) -> list[str]:
        """End every ban, and count refusals anew; returns the addresses and accounts that were banned."""
        now = self._clock.now_ns()
        found = sorted(who for who, ban in self._bans.items() if ban.until_ns > now)
        self._bans.clear()
        for tally in (*self._weight, *self._raw, self._connections, self._refusals, self._kept_back):
            tally.clear()
        return found

    def weights(self, who: str | None) -> list[tuple[Rule, int]]:
        return [(tally.rule, 0 if who is None else tally.count(who)) for tally in self._weight]

    def _is_over(self, tally: Tally, address: str) -> bool:
        # The raw request itself is counted already; weight is counted when the answer is known.
        over = tally.rule.limit + (1 if tally.rule.kind == "RAW_REQUESTS" else 0)
        return tally.count(address) >= over

    def _refuse(self, address: str, spent: Tally) -> None:
        self._refusals.add(address, 1)
        if self._refusals.count(address) > PATIENCE:
            self.ban(address)
            self._refuse_banned(address)
        refuse = errors.too_much_weight if spent.rule.kind == "REQUEST_WEIGHT" else errors.too_many_requests
        raise refuse(spent.rule.limit, spent.rule.span, spent.retry_after_s())

    def _refuse_banned(self, address: str) -> None:
        until = self._bans[address].until_ns if address in self._bans else 0
        left = until - self._clock.now_ns()
        if left > 0:
            raise errors.banned(until // MILLISECOND, -(-left // SECOND))

    # --- accounts -------------------------------------------------------------------------------

    def admit_order(self, account: str) -> None:
        """Refuse an order of an account that has too many unfilled ones in an interval."""
        spent = next((tally for tally in self._orders if tally.is_spent(account)), None)
        if spent is not None:
            raise errors.too_many_orders(spent.rule.limit, spent.rule.span, spent.retry_after_s())

    def count_order(self, account: str, number: int = 1) -> None:
        for tally in self._orders:
            tally.add(account, number)

    def first_fill(self, account: str, *, maker: bool) -> None:
        """Take an order that began to trade off the count of unfilled ones."""
        for tally in self._orders:
            tally.add(account, -(MAKER_CREDIT if maker else 1))

    def orders(self, account: str) -> list[tuple[Rule, int]]:
        return [(tally.rule, tally.count(account)) for tally in self._orders]
