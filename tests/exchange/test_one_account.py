"""One account of a real exchange under several names: its limits hold for all of them together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.exchange.desks import BUY, Agent, agent
from tests.exchange.local.support import eventually
from tests.support import run
from tracedesk.exchange.credentials.keys import Keys
from tracedesk.exchange.orders.ledger import Intent, Ledger, News
from tracedesk.exchange.orders.report import State
from tracedesk.exchange.units import units
from tracedesk.home import Home
from tracedesk.primitives.time import SystemClock
from tracedesk.wire.auth import Tokens

TWINS: Final = {
    "main": {"mode": "testnet", "file": "main.keys"},
    "twin": {"mode": "testnet", "file": "main.keys"},
}
ONE: Final = {"max_orders_per_minute": 1}


async def capped(client: Agent, **order: Any) -> str:
    """The cap that refuses an order."""
    refused = await client.refused("preview_order", **{**BUY, **order})
    assert refused["code"] == "LIMIT_EXCEEDED", refused
    return refused["details"]["cap"]


@pytest.mark.parametrize(
    ("cap", "value"), [("max_orders_per_minute", 1), ("max_day_notional", 900), ("max_open_orders", 1)]
)
def test_two_profiles_with_one_key_share_every_cap(tmp_path: Path, cap: str, value: int) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"profiles": TWINS, "caps": {cap: value}}) as client:
            owner = client.owner()
            await owner.placed()
            assert (await owner.call("connect", profile="twin"))["account"] == "testnet/twin"
            assert await capped(owner) == cap

    run(main())


def test_what_one_profile_sent_counts_for_the_other_after_a_restart_and_with_a_new_key(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"profiles": TWINS}) as client:
            await client.owner().placed()
        async with agent(tmp_path, {"profiles": TWINS, "caps": {"max_day_notional": 900}}) as client:
            owner = client.owner()
            await owner.call("connect", profile="twin")
            assert await capped(owner) == "max_day_notional"

    run(main())


def test_two_keys_of_one_account_share_its_caps_and_those_of_another_do_not(tmp_path: Path) -> None:
    async def main() -> None:
        second = {"mode": "testnet", "file": "second.keys"}
        third = {"mode": "testnet", "file": "third.keys"}
        profiles = {"main": TWINS["main"], "second": second, "third": third}
        async with agent(tmp_path, {"profiles": profiles, "caps": ONE}) as client:
            for name, account in (("second", "ann"), ("third", "bob")):
                key = client.market.exchange.keys.issue(account)
                file = tmp_path / f"{name}.keys"
                file.write_text(f"api_key = {key.api_key}\nsecret = {key.material}\n")
                file.chmod(0o600)
            owner = client.owner()
            await owner.placed()
            await owner.call("connect", profile="second")
            assert await capped(owner) == "max_orders_per_minute"
            await owner.call("connect", profile="third")
            assert (await owner.placed())["account"] == "testnet/third"

    run(main())


def test_a_key_that_a_caller_brings_has_the_limits_of_its_account(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"caps": ONE}) as client:
            owner, key = client.owner(), client.market.key
            await owner.placed()
            client.provider.accounts.bring("principal:owner", Keys(key.api_key, secret=key.material))
            assert (await owner.call("get_account"))["account"].startswith("testnet/key-")
            assert await capped(owner) == "max_orders_per_minute"

    run(main())


def test_the_kill_switch_clears_an_account_of_two_names_and_holds_for_both(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"profiles": TWINS}) as client:
            owner = client.owner()
            await owner.placed()
            await owner.call("connect", profile="twin")
            await owner.placed()
            told = await owner.call("kill_switch", reason="enough")
            assert (len(told["cancelled"]), told["failed"], told["confirmed"]) == (2, [], True)
            for profile in ("main", "twin"):
                await owner.call("connect", profile=profile)
                assert (await owner.call("get_open_orders"))["orders"] == []
                assert (await owner.refused("preview_order", **BUY))["code"] == "HALTED"

    run(main())


def test_an_account_is_heard_under_one_name_when_its_other_name_has_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner, key = client.owner(), client.market.key
            placed = await owner.placed(price="50000.00")
            tokens = Tokens(tmp_path)
            other = client.bearing(tokens.issue("other", ("read", "write", "trade")))
            client.provider.accounts.bring("principal:other", Keys(key.api_key, secret=key.material))
            assert (await other.call("preview_order", **BUY))["account"].startswith("testnet/key-")
            await other.call("connect", end=True)
            account = await client.provider.accounts.profile("main")
            assert account.site.feeds.status()["accounts"] == 1
            assert account.site.client.signed(account.credentials) is account.rest
            client.market.exchange.venue.flow_market("BTCUSDT", "SELL", units("5"))
            name = placed["client_order_id"]

            def is_filled() -> bool:
                found = client.provider.orders.ledger.order(name)
                return found is not None and found.state.status == "FILLED"

            await eventually(is_filled)

    run(main())


def test_place_order_is_answered_before_its_deadline_and_its_order_is_found_by_its_id(tmp_path: Path) -> None:
    """In real time, at a venue that takes longer than the call has."""

    async def main() -> None:
        async with agent(tmp_path) as client:
            owner, tools = client.owner(), client.client.desk.registry.tools
            token = (await owner.call("preview_order", **BUY))["preview_token"]
            tools["place_order"] = replace(tools["place_order"], deadline=4.0)
            faults = client.market.exchange.faults
            slow = faults.set({"kind": "delay_after", "on": "order.place", "seconds": 3.5})
            error = await owner.refused("place_order", **BUY, preview_token=token)
            assert (error["code"], slow.hit) == ("OUTCOME_UNKNOWN", 1)
            name = error["details"]["client_order_id"]
            assert f"orig_client_order_id {name}" in error["message"]
            found = await owner.call("get_order", symbol="BTCUSDT", orig_client_order_id=name)
            assert (found["order"]["status"], found["order"]["client_order_id"]) == ("NEW", name)
            again = await owner.refused("place_order", **BUY, preview_token=token)
            assert again["code"] == "PREVIEW_INVALID"
            await eventually(lambda: not client.provider.orders.ledger.unresolved())
            assert len((await owner.call("get_open_orders"))["orders"]) == 1
            source = await owner.call("get_source", ref=error["details"]["ref"])
            assert source["kind"] == "order_intent"

    run(main())


def test_orders_from_before_keys_were_marked_count_for_every_name_of_their_account(tmp_path: Path) -> None:
    async def main() -> None:
        facts: dict[str, Any] = {"quote": "USDT", "notional": units("600"), "venue_ms": 1, "body": {}}
        ledger = Ledger(Home.open(tmp_path).trace, SystemClock())
        old = Intent("td-1", "testnet/main", "testnet", "BTCUSDT", "BUY", "LIMIT", units("0.01"), **facts)
        ledger.intend(old, lambda _: None)
        ledger.tell(News("td-1", State("FILLED", 1, units("0.01"), units("600"))))
        ledger.close()
        async with agent(tmp_path, {"profiles": TWINS, "caps": {"max_day_notional": 1000}}) as client:
            owner = client.owner()
            await owner.call("connect", profile="twin")
            assert await capped(owner) == "max_day_notional"

    run(main())
