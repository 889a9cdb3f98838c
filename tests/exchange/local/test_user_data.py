"""From user data alone a client knows what it has: balances, open orders and fills, whatever happened."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.local.support import Bench, Wire, bench, connected
from tests.support import BOUND
from tracedesk.exchange.local.auth import Key
from tracedesk.exchange.local.limits import Limits, Rule
from tracedesk.primitives.time import Clock

OPEN = ("NEW", "PARTIALLY_FILLED")
Step = dict[str, Any]

prices = st.sampled_from(["49999", "50000.2", "50000.5", "50000.8", "50002"])
quantities = st.sampled_from(["0.01", "0.1", "0.5", "1.5"])
sides = st.sampled_from(["BUY", "SELL"])


def _step(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    who = st.sampled_from(["ann", "ann", "bob"])
    return st.fixed_dictionaries({"who": who, "side": sides, **fields})


steps = st.one_of(
    _step(
        type=st.just("LIMIT"),
        price=prices,
        quantity=quantities,
        timeInForce=st.sampled_from(["GTC", "IOC", "FOK"]),
    ),
    _step(type=st.just("LIMIT"), price=prices, quantity=quantities, timeInForce=st.just("GTC")),
    _step(type=st.just("LIMIT_MAKER"), price=prices, quantity=quantities),
    _step(type=st.just("MARKET"), quantity=quantities),
    _step(type=st.just("STOP_LOSS"), stopPrice=prices, quantity=quantities),
    _step(
        type=st.just("STOP_LOSS_LIMIT"),
        stopPrice=prices,
        price=prices,
        quantity=quantities,
        timeInForce=st.just("GTC"),
    ),
    _step(do=st.just("cancel"), pick=st.integers(0, 9)),
    _step(do=st.just("amend"), pick=st.integers(0, 9), newQty=quantities),
    _step(do=st.just("replace"), pick=st.integers(0, 9), price=prices, quantity=quantities),
    _step(do=st.just("cancel_all")),
    _step(do=st.just("flow"), price=prices, quantity=quantities),
)


@dataclass(slots=True)
class Known:
    """What one account can tell from its events."""

    balances: dict[str, tuple[str, str]]
    orders: dict[int, str] = field(default_factory=dict[int, str])
    filled: dict[int, Decimal] = field(default_factory=dict[int, Decimal])
    executions: list[int] = field(default_factory=list[int])

    def take(self, event: dict[str, Any]) -> None:
        if event["e"] == "outboundAccountPosition":
            self.balances |= {row["a"]: (row["f"], row["l"]) for row in event["B"]}
        elif event["e"] == "executionReport":
            self._report(event)

    def _report(self, event: dict[str, Any]) -> None:
        number = event["i"]
        self.orders[number] = event["X"]
        self.filled[number] = self.filled.get(number, Decimal(0)) + Decimal(event["l"])
        self.executions.append(event["I"])
        assert self.filled[number] == Decimal(event["z"])


async def _do(on: Bench, keys: dict[str, Key], step: Step) -> None:
    key, kind = keys[step["who"]], step.get("do")
    named = {"symbol": "BTCUSDT"}
    if kind is None:
        sent = {name: value for name, value in step.items() if name != "who"}
        await on.signed("POST", "order", key, **named, **sent, newOrderRespType="ACK")
    elif kind == "flow":
        price, quantity = int(Decimal(step["price"]) * 10**8), int(Decimal(step["quantity"]) * 10**8)
        on.exchange.venue.flow_limit("BTCUSDT", step["side"], price, quantity)
    elif kind == "cancel_all":
        await on.signed("DELETE", "openOrders", key, **named)
    else:
        await _change(on, key, step)


async def _change(on: Bench, key: Key, step: Step) -> None:
    """Do something to one of the open orders, if there is any."""
    found = (await on.signed("GET", "openOrders", key, symbol="BTCUSDT")).body
    if not found:
        return
    number = found[step["pick"] % len(found)]["orderId"]
    if step["do"] == "cancel":
        await on.signed("DELETE", "order", key, symbol="BTCUSDT", orderId=number)
    elif step["do"] == "amend":
        await on.signed(
            "PUT", "order/amend/keepPriority", key, symbol="BTCUSDT", orderId=number, newQty=step["newQty"]
        )
    else:
        order = {"side": step["side"], "type": "LIMIT", "timeInForce": "GTC", "quantity": step["quantity"]}
        terms = {
            "symbol": "BTCUSDT",
            "price": step["price"],
            "cancelReplaceMode": "ALLOW_FAILURE",
            "cancelOrderId": number,
        }
        await on.signed("POST", "order/cancelReplace", key, **order, **terms)


async def _told(wire: Wire) -> list[dict[str, Any]]:
    """Every event up to now: the answer to a question comes after them."""
    events: list[dict[str, Any]] = []
    answer = await wire.say({"id": "now", "method": "ping"})
    while answer.get("id") != "now":
        events.append(answer["event"])
        answer = await wire.read()
    return events


def _wide(clock: Clock) -> Limits:
    return Limits(clock, (Rule("REQUEST_WEIGHT", "MINUTE", 1, 10**6),))


async def _balances(on: Bench, key: Key) -> dict[str, tuple[str, str]]:
    rows = (await on.signed("GET", "account", key)).body["balances"]
    return {row["asset"]: (row["free"], row["locked"]) for row in rows}


@settings(max_examples=30, deadline=None)
@given(st.lists(steps, min_size=30, max_size=50))
def test_user_data_tells_all_that_the_account_has(script: list[Step]) -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * BOUND), bench(limits=_wide) as on, connected(on, "/ws-api/v3") as wire:
            keys = {"ann": on.key, "bob": on.exchange.keys.issue("bob")}
            known = Known(await _balances(on, on.key))
            await wire.signed("userDataStream.subscribe.signature")
            for step in script:
                await _do(on, keys, step)
                on.advance(0.01)
            for event in await _told(wire):
                known.take(event)
            await _agrees(on, known)

    asyncio.run(main())


async def _agrees(on: Bench, known: Known) -> None:
    assert known.balances == await _balances(on, on.key)
    listed = {each["orderId"]: each for each in (await on.signed("GET", "allOrders", symbol="BTCUSDT")).body}
    assert known.orders == {number: each["status"] for number, each in listed.items()}
    assert known.filled == {number: Decimal(each["executedQty"]) for number, each in listed.items()}
    opened = (await on.signed("GET", "openOrders", symbol="BTCUSDT")).body
    assert [each["orderId"] for each in opened] == sorted(
        n for n, status in known.orders.items() if status in OPEN
    )
    assert known.executions == sorted(set(known.executions))
    trades = (await on.signed("GET", "myTrades", symbol="BTCUSDT")).body
    assert sum((Decimal(each["qty"]) for each in trades), Decimal(0)) == sum(
        known.filled.values(), Decimal(0)
    )
