"""Venues that are killed while they trade, and the audit of what they leave.

A victim opens the venue of a file, and for every command that came back it says what it was told: the
order, its fills, the last number of a report, and one word for all that users have. What was told must be
in the file after the kill; the file may also hold the one command that was being answered.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.exchange.venue.support import FUNDS, SYMBOL, entry
from tests.journal.forks import Server, fork_server, say, say_ready, serve
from tracedesk.exchange.units import units
from tracedesk.exchange.venue.accounts import Account
from tracedesk.exchange.venue.events import Event, Traded
from tracedesk.exchange.venue.listings import Listing
from tracedesk.exchange.venue.orders import NewOrder, OrderResult, VenueRefused
from tracedesk.exchange.venue.store import Batch, Store
from tracedesk.exchange.venue.venue import Venue
from tracedesk.primitives import json
from tracedesk.primitives.time import SystemClock

NAMES: Final = ("ann", "bob")
LISTING: Final = Listing.of(entry())
_LINGER_SECONDS: Final = 0.004
_MOST_COMMANDS: Final = 24


class Late(Store):
    """A naive store: it answers first, and writes several commands together."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._waiting: list[tuple[Batch, list[tuple[Account, str]], int]] = []

    def commit(self, batch: Batch, accounts: Iterable[tuple[Account, str]], execution: int) -> None:
        self._waiting.append((batch, list(accounts), execution))
        self.commands += 1
        if len(self._waiting) == 4:
            self.commands -= len(self._waiting)
            with self.connection:
                for each in self._waiting:
                    super().commit(*each)
            self._waiting.clear()


class Parts(Store):
    """A naive store: it writes the money of a command in one transaction and its orders in another."""

    def commit(self, batch: Batch, accounts: Iterable[tuple[Account, str]], execution: int) -> None:
        super().commit(replace(batch, orders={}, fills=[]), accounts, execution)
        self.commands -= 1
        super().commit(replace(batch, postings=[], opened=[], prevented=[], amendments=[]), (), execution)


STORES: Final = {"ours": Store, "late": Late, "parts": Parts}


# --- the victim --------------------------------------------------------------------------------


def live(line: str) -> None:
    kind, path, seed = line.split(" ")
    dice = random.Random(seed)
    venue = Venue([LISTING], SystemClock(), store := STORES[kind](Path(path)))
    trades: list[int] = []

    def hear(event: Event) -> None:
        if isinstance(event, Traded):
            trades.append(event.id)

    venue.listen(hear)
    for name in NAMES:
        venue.open_account(name, FUNDS)
    say_ready()
    while True:
        told = _act(venue, dice)
        # Every trade that was published is told, also those of the background flow.
        say(json.dumps(told | {"trades": trades[-1:], "commands": store.commands, "state": state(venue)}))


def _act(venue: Venue, dice: random.Random) -> dict[str, Any]:
    if dice.random() < 0.5:
        side: Any = dice.choice(["BUY", "SELL"])
        price, quantity = dice.randint(9_900, 10_100) * units("0.01"), dice.randint(1, 3_000) * units("0.001")
        venue.flow_limit(SYMBOL, side, price, quantity)
        return {"order": None, "fills": []}
    name = dice.choice(NAMES)
    try:
        found = venue.open_orders(name)
        if len(found) > 4 and dice.random() < 0.7:
            return {"order": venue.cancel(name, SYMBOL, order_id=dice.choice(found).id).order.id, "fills": []}
        return _told(venue.place(name, _order(dice)))
    except VenueRefused:
        return {"order": None, "fills": []}


def _order(dice: random.Random) -> NewOrder:
    side: Any = dice.choice(["BUY", "SELL"])
    quantity = dice.randint(1, 3_000) * units("0.001")
    if dice.random() < 0.3:
        return NewOrder(SYMBOL, side, "MARKET", quantity=quantity)
    price = dice.randint(9_900, 10_100) * units("0.01")
    return NewOrder(SYMBOL, side, "LIMIT", quantity=quantity, price=price, time_in_force="GTC")


def _told(result: OrderResult) -> dict[str, Any]:
    return {"order": result.order.id, "fills": [each.trade_id for each in result.fills]}


def state(venue: Venue) -> str:
    """One word for what users have: balances, and their latest orders with what became of them."""
    orders = [
        (each.id, each.status, each.executed, each.prevented)
        for name in NAMES
        for each in venue.all_orders(name, SYMBOL, limit=40)
    ]
    balances = [sorted(venue.account(name).balances.items()) for name in NAMES]
    return hashlib.sha256(repr((orders, balances)).encode()).hexdigest()


# --- the killer --------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What so many kills showed."""

    kills: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    """Kills after which the file held a command that nobody was told of."""
    problems: list[str] = field(default_factory=list[str])


def kill_venues(folder: Path, kind: str, kills: int, seed: int = 1) -> Tally:
    """Kill venues of one file one after the other, auditing the file after each, until a problem shows."""
    tally, dice, path = Tally(), random.Random(seed), folder / "venue.db"
    highest = Counter[str]()
    with fork_server("tests.exchange.venue.crash") as server:
        while tally.kills < kills and not tally.problems:
            said = _kill_one(server, f"{kind} {path} {seed}-{tally.kills}", dice)
            tally.kills += 1
            tally.acknowledged += len(said)
            _audit(path, said, highest, tally)
    return tally


def _kill_one(server: Server, line: str, dice: random.Random) -> list[dict[str, Any]]:
    """What a venue said before it was killed at a random moment."""
    pid = server.begin(line)
    said: list[dict[str, Any]] = []
    for _ in range(dice.randint(0, _MOST_COMMANDS)):
        answer = server.lines.next()
        assert answer is not None, "the venue stopped answering"
        said.append(json.loads(answer))
    time.sleep(dice.random() * _LINGER_SECONDS)
    os.kill(pid, signal.SIGKILL)
    while (last := server.lines.next()) != "dead":
        assert last is not None, "the venue did not die"
        said.append(json.loads(last))
    return said


def _audit(path: Path, said: list[dict[str, Any]], highest: Counter[str], tally: Tally) -> None:
    venue = Venue([LISTING], SystemClock(), store := Store(path))
    try:
        tally.problems += [
            *_lost(venue, store, said, tally),
            *_unsound(venue, store),
            *_repeated(venue, said, highest),
        ]
    finally:
        venue.close()


def _lost(venue: Venue, store: Store, said: list[dict[str, Any]], tally: Tally) -> Iterable[str]:
    orders = {each.id for name in NAMES for each in venue.all_orders(name, SYMBOL, limit=100_000)}
    fills = {each.trade_id for name in NAMES for each in venue.my_trades(name, SYMBOL, limit=100_000)}
    for each in said:
        if each["order"] is not None and each["order"] not in orders:
            yield f"order {each['order']} was told and is lost"
        yield from (f"trade {id} was told and is lost" for id in each["fills"] if id not in fills)
    more = store.commands - said[-1]["commands"] if said else 0
    if more < 0:
        yield f"{-more} commands were told and are lost"
    if more > 1:
        yield f"the file is {more} commands ahead of what was told"
    if said and not more and said[-1]["state"] != state(venue):
        yield "the file has another state than was told"
    tally.unanswered += more == 1


def _unsound(venue: Venue, store: Store) -> Iterable[str]:
    totals = venue.totals()
    for asset in FUNDS:
        if sum(total for (_, each), total in totals.items() if each == asset):
            yield f"{asset} is not conserved"
    if {key: amount for key, amount in store.posted().items() if amount} != totals:
        yield "balances are not the sums of the postings"
    for name in NAMES:
        executed = {each.id: each.executed for each in venue.all_orders(name, SYMBOL, limit=100_000)}
        filled = Counter[int]()
        for fill in venue.my_trades(name, SYMBOL, limit=100_000):
            filled[fill.order_id] += fill.quantity
        if {id: quantity for id, quantity in executed.items() if quantity} != dict(filled):
            yield f"{name}'s orders do not agree with the fills"
        bought = sum(
            (each.quantity if each.is_buyer else -each.quantity)
            - (each.commission if each.commission_asset == "BTC" else 0)
            for each in venue.my_trades(name, SYMBOL, limit=100_000)
        )
        held = totals.get((name, "BTC"), 0)
        if held != FUNDS["BTC"] + bought:
            yield f"{name} holds other money than the fills say"
        if min(min(pair) for pair in venue.account(name).balances.values()) < 0:
            yield f"{name} has less than nothing"


def _repeated(venue: Venue, said: list[dict[str, Any]], highest: Counter[str]) -> Iterable[str]:
    """Numbers that were told must not be given again."""
    for each in said:
        highest["order"] = max(highest["order"], each["order"] or 0)
        highest["trade"] = max(highest["trade"], *each["trades"], *each["fills"], 0)
    order = venue.flow_limit(SYMBOL, "BUY", units("0.01"), units("0.001"))
    if order <= highest["order"]:
        yield f"order {order} was given twice"
    if venue.last_trade_id(SYMBOL) < highest["trade"]:
        yield f"trade {venue.last_trade_id(SYMBOL) + 1} will be given twice"


if __name__ == "__main__":
    serve(live)
