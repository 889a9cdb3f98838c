"""A live account: balances and open orders as the venue has them, also after a cut, and nobody else's."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.exchange.client.scripted import Bench, Peer, Said, bench, run, soon
from tests.exchange.client.test_signing import KEY, SECRET
from tests.exchange.feeds.support import Local, local
from tests.exchange.local.support import eventually
from tracedesk.exchange.client.errors import VenueError
from tracedesk.exchange.client.signing import Credentials
from tracedesk.exchange.feeds.account import Account, Balance
from tracedesk.exchange.feeds.feeds import Feeds
from tracedesk.exchange.units import units

ORDER: Final[dict[str, Any]] = {
    "symbol": "BTCUSDT",
    "side": "BUY",
    "type": "LIMIT",
    "timeInForce": "GTC",
    "quantity": "0.5",
    "price": "49000",
}


async def _live(given: Local, holder: str = "h") -> Account:
    account = await given.feeds.account(given.credentials, holder)
    await eventually(lambda: account.status().state == "live")
    return account


def test_orders_and_balances_follow_the_accounts_own_events() -> None:
    async def main() -> None:
        async with local() as given:
            account = await _live(given)
            assert account.balances == {"BTC": Balance(units("10"), 0), "USDT": Balance(units("1000000"), 0)}
            assert account.info["canTrade"] is True
            rest = given.client.signed(given.credentials)
            placed = await rest.new_order(**ORDER, newClientOrderId="mine-1")
            await eventually(lambda: placed["orderId"] in account.open_orders)
            await eventually(lambda: account.balances["USDT"] == Balance(units("975500"), units("24500")))
            assert list(account.open_orders.values()) == _shape(await rest.open_orders(), account)
            await rest.cancel_order("BTCUSDT", origClientOrderId="mine-1")
            await eventually(lambda: account.open_orders == {})
            await eventually(lambda: account.balances["USDT"] == Balance(units("1000000"), 0))

    run(main())


def _shape(asked: list[Any], account: Account) -> list[Any]:
    """What REST says, with the members that reports have too."""
    names = next(iter(account.open_orders.values())).keys()
    assert names <= asked[0].keys()
    return [{name: order[name] for name in names} for order in asked]


def test_what_happened_during_a_cut_is_asked_for_when_events_come_again() -> None:
    async def main() -> None:
        async with local() as given:
            account = await _live(given)
            rest = given.client.signed(given.credentials)
            kept = await rest.new_order(**ORDER)
            filled = await rest.new_order(**ORDER | {"price": "49990", "quantity": "0.1"})
            await eventually(lambda: len(account.open_orders) == 2)
            given.exchange.cut()
            await eventually(lambda: account.status().state == "disconnected")
            given.exchange.venue.flow_limit("BTCUSDT", "SELL", units("49990"), units("100"))
            assert filled["orderId"] in account.open_orders
            await given.until(lambda: account.status().state == "live")
            assert list(account.open_orders) == [kept["orderId"]]
            assert account.balances["BTC"].free > units("10.09")
            assert account.status().reconnects == 1

    run(main())


def test_reports_are_passed_on_as_they_came_and_changes_are_told() -> None:
    async def main() -> None:
        async with local() as given:
            account = await _live(given)
            reports: list[dict[str, Any]] = []
            told: list[Account] = []
            stop = account.on_report(reports.append)
            account.listen(told.append)
            rest = given.client.signed(given.credentials)
            await rest.new_order(**ORDER, newClientOrderId="mine-2")
            await eventually(lambda: len(reports) == 1)
            assert (reports[0]["e"], reports[0]["c"], reports[0]["X"]) == ("executionReport", "mine-2", "NEW")
            await given.until(lambda: bool(told))
            assert told[0] is account
            stop()
            await rest.cancel_open_orders("BTCUSDT")
            await eventually(lambda: account.open_orders == {})
            assert len(reports) == 1

    run(main())


def test_accounts_are_shared_by_equal_credentials_and_by_no_others() -> None:
    async def main() -> None:
        async with local() as given:
            account = await _live(given, "ann")
            assert await given.feeds.account(given.credentials, "bob") is account
            forged = Credentials.of(given.bench.key.api_key, "not the secret")
            other = await given.feeds.account(forged, "eve")
            assert other is not account
            with pytest.raises(VenueError) as refusal:
                await soon(other.ready(5.0))
            assert refusal.value.code == "CREDENTIALS_REQUIRED"
            assert (other.status().state, other.balances, other.open_orders) == ("refused", {}, {})

    run(main())


def test_the_last_holder_ends_the_account_at_once_and_its_key_is_let_go() -> None:
    async def main() -> None:
        async with local() as given:
            account = await _live(given, "ann")
            await given.feeds.account(given.credentials, "bob")
            given.feeds.release_all("ann")
            assert account.status().state == "live"
            given.feeds.release_account(given.credentials, "bob")
            assert given.feeds.status()["accounts"] == 0
            await eventually(lambda: account.balances == {})
            assert given.client._rest.keys() <= {None}  # pyright: ignore[reportPrivateUsage]

    run(main())


# --- answers and events that cross ------------------------------------------------------------------


def _report(id: int, status: str, updated: int, **more: Any) -> dict[str, Any]:
    text = dict.fromkeys("pqzQZPF", "1.00000000")
    fixed = {
        "s": "BTCUSDT",
        "g": -1,
        "f": "GTC",
        "o": "LIMIT",
        "S": "BUY",
        "O": 1,
        "w": True,
        "V": "NONE",
        "C": "",
    }
    own = {"i": id, "c": f"c{id}", "X": status, "x": status, "T": updated, "I": updated}
    return {"e": "executionReport", "E": updated, **text, **fixed, **own, **more}


def _order(id: int, updated: int) -> dict[str, Any]:
    return {"orderId": id, "symbol": "BTCUSDT", "updateTime": updated, "status": "NEW"}


def _position(updated: int, free: str) -> dict[str, Any]:
    return {
        "e": "outboundAccountPosition",
        "E": updated,
        "u": updated,
        "B": [{"a": "BTC", "f": free, "l": "0"}],
    }


def _account_answer(updated: int, free: str) -> Said:
    balances = [{"asset": "BTC", "free": free, "locked": "0.00000000"}]
    return Said(body={"updateTime": updated, "canTrade": True, "balances": balances})


async def _opened(given: Bench) -> tuple[Account, Peer]:
    """An account whose events come in while the answer about its orders hangs."""
    given.venue.script("GET", "account", _account_answer(100, "5.00000000"))
    given.venue.script("GET", "openOrders", "hang")
    account = await Feeds(given.client).account(Credentials.of(KEY, SECRET), "h")
    peer = await given.venue.peer()
    message = await peer.next()
    await peer.say({"id": message["id"], "status": 200, "result": {"subscriptionId": 0}})
    await soon(given.venue.hung.wait())
    return account, peer


async def _hear(account: Account, peer: Peer, *events: dict[str, Any]) -> None:
    for event in events:
        heard = asyncio.Event()
        stop = account.on_report(lambda _, heard=heard: heard.set())
        await peer.say({"subscriptionId": 0, "event": event})
        if event["e"] == "executionReport":
            await soon(heard.wait())
        stop()


def test_events_that_cross_with_the_answer_are_applied_where_they_are_newer() -> None:
    async def main() -> None:
        async with bench() as given:
            account, peer = await _opened(given)
            given.venue.script("GET", "account", _account_answer(100, "5.00000000"))
            given.venue.script(
                "GET", "openOrders", "cut", Said(body=[_order(1, 90), _order(2, 95), _order(3, 99)])
            )
            await peer.say({"subscriptionId": 0, "event": _position(99, "4.00000000")})
            await peer.say({"subscriptionId": 0, "event": _position(101, "6.00000000")})
            await _hear(
                account,
                peer,
                _report(2, "FILLED", 96),
                _report(3, "PARTIALLY_FILLED", 102),
                _report(4, "NEW", 103),
                _report(5, "NEW", 104),
                _report(5, "CANCELED", 105, c="cancel", C="c5"),
            )
            given.venue.release.set()
            await given.clock.pass_sleep(0.1, 0.25)
            await given.clock.pass_sleep(0.25, 0.5)
            assert await soon(account.ready(5.0))
            assert sorted(account.open_orders) == [1, 3, 4]
            assert account.open_orders[3]["status"] == "PARTIALLY_FILLED"
            assert account.balances == {"BTC": Balance(units("6"), 0)}
            await account.stop()

    run(main())


def test_an_order_that_a_report_has_closed_does_not_come_back_with_a_late_answer() -> None:
    async def main() -> None:
        async with bench() as given:
            account, peer = await _opened(given)
            given.venue.always("GET", "account", lambda asked: _account_answer(100, "5.00000000"))
            given.venue.always("GET", "openOrders", lambda asked: Said(body=[_order(7, 1)]))
            await _hear(account, peer, _report(7, "CANCELED", 50, C="c7"))
            given.venue.release.set()
            await given.clock.pass_sleep(0.1, 0.25)
            assert await soon(account.ready(5.0))
            assert account.open_orders == {}
            await soon(account.refresh())
            assert account.open_orders == {}
            await account.stop()

    run(main())


def test_a_difference_of_a_balance_has_the_sum_asked_for() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.script(
                "GET", "account", _account_answer(1, "5.00000000"), _account_answer(2, "7.00000000")
            )
            given.venue.always("GET", "openOrders", lambda asked: Said(body=[]))
            account = await Feeds(given.client).account(Credentials.of(KEY, SECRET), "h")
            peer = await given.venue.peer()
            message = await peer.next()
            await peer.say({"id": message["id"], "status": 200, "result": {"subscriptionId": 0}})
            assert await soon(account.ready(5.0))
            await peer.say(
                {"subscriptionId": 0, "event": {"e": "balanceUpdate", "a": "BTC", "d": "2.0", "T": 2}}
            )
            await eventually(lambda: account.balances == {"BTC": Balance(units("7"), 0)})
            await account.stop()

    run(main())


def test_an_event_that_cannot_be_read_is_told_and_survived() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.always("GET", "account", lambda asked: _account_answer(1, "5.00000000"))
            given.venue.always("GET", "openOrders", lambda asked: Said(body=[]))
            account = await Feeds(given.client).account(Credentials.of(KEY, SECRET), "h")
            peer = await given.venue.peer()
            message = await peer.next()
            await peer.say({"id": message["id"], "status": 200, "result": {"subscriptionId": 0}})
            assert await soon(account.ready(5.0))
            for broken in (
                {"e": "executionReport", "i": 1},
                {"e": "outboundAccountPosition", "B": [7]},
                {"e": None},
            ):
                await peer.say({"subscriptionId": 0, "event": broken})
            await _hear(account, peer, _report(9, "NEW", 9))
            assert list(account.open_orders) == [9]
            await account.stop()

    run(main())


def test_an_account_that_cannot_be_asked_is_not_live_and_is_asked_again() -> None:
    async def main() -> None:
        async with bench() as given:
            given.venue.always("GET", "account", lambda asked: Said(400, {"code": -1016, "msg": "Closed."}))
            account = await Feeds(given.client).account(Credentials.of(KEY, SECRET), "h")
            peer = await given.venue.peer()
            message = await peer.next()
            await peer.say({"id": message["id"], "status": 200, "result": {"subscriptionId": 0}})
            await given.clock.asleep(1.0, 1.0)
            assert account.status().state == "starting"
            assert "Closed" in (account.status().last_error or "")
            given.venue.always("GET", "account", lambda asked: _account_answer(1, "5.00000000"))
            given.venue.always("GET", "openOrders", lambda asked: Said(body=[]))
            given.clock.advance(1.0)
            assert await soon(account.ready(5.0))
            await account.stop()

    run(main())
