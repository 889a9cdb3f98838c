"""Cancelling everything where the venue fails: tried until it is confirmed, and told truthfully."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.orders.desks import Trader, trader
from tests.exchange.orders.test_halting import DROPPED
from tests.support import BOUND, run
from tracedesk.errors import ToolError
from tracedesk.exchange.orders.desk import OrderDesk, Pace
from tracedesk.exchange.orders.party import Party
from tracedesk.exchange.orders.switch import FILE, rearm


class Twisted:
    """A client whose list of open orders is what a test says."""

    def __init__(self, venue: Any, told: Any) -> None:
        self._venue = venue
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._venue, name)

    async def open_orders(self, symbol: str | None = None) -> Any:
        if isinstance(self._told, Exception):
            raise self._told
        return self._told


def _desk(it: Trader, *parties: Party) -> OrderDesk:
    """Another desk of the home that signs for these accounts."""
    return OrderDesk(it.home, it.desk.settings, it.clock, None, lambda: parties, pace=Pace(asks=(0.0,)))


def _sweep(it: Trader) -> dict[str, Any]:
    found = it.desk.status()["sweep"]
    assert found is not None
    return found


@pytest.mark.parametrize("by", ["tool", "file"])
def test_a_halt_is_carried_out_when_the_venue_is_back(tmp_path: Path, by: str) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            it.venue.cancel_lies.extend(DROPPED)
            if by == "tool":
                await it.desk.kill("stop")
            else:
                (tmp_path / FILE).touch()
                assert _sweep(it)["confirmed"] is False
                await it.desk.look()
            assert len(it.venue.resting()) == 1
            assert (_sweep(it)["confirmed"], _sweep(it)["tries"]) == (False, 1)
            assert _sweep(it)["failed"][0].startswith("sim/main: ")
            it.clock.advance(1)
            await it.desk.look()
            assert it.venue.resting() == []
            assert (_sweep(it)["confirmed"], _sweep(it)["failed"], _sweep(it)["cancelled"]) == (True, [], 1)
            assert it.kinds()[-4:] == ["halt", "swept", "report", "swept"]
            assert it.entries()[-1][1]["confirmed"] is True
            before = len(it.kinds())
            it.clock.advance(100)
            await it.desk.look()
            assert len(it.kinds()) == before

    run(main())


def test_a_venue_that_stays_away_is_asked_ever_more_seldom_and_the_ledger_told_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            it.venue.cancel_lies.extend(DROPPED * 8)
            await it.desk.kill("stop")
            began, tried = it.clock.monotonic(), list[float]()
            for _ in range(122):
                tries = _sweep(it)["tries"]
                await it.desk.look()
                if _sweep(it)["tries"] > tries:
                    tried.append(it.clock.monotonic() - began)
                it.clock.advance(1)
            assert tried == [1, 3, 7, 15, 31, 61, 91, 121]
            assert it.venue.resting() == []
            assert it.kinds().count("swept") == 2

    run(main())


def test_rearming_ends_what_a_halt_has_left_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            it.venue.cancel_lies.extend(DROPPED)
            await it.desk.kill("stop")
            rearm(tmp_path)
            it.clock.advance(60)
            await it.desk.look()
            assert len(it.venue.resting()) == 1
            assert it.desk.status()["sweep"] is None

    run(main())


@pytest.mark.parametrize("told", [{}, None, "", [{}], RuntimeError("inside")])
def test_only_an_empty_list_of_orders_confirms_and_one_account_keeps_no_other_from_it(
    tmp_path: Path, told: Any
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            odd = replace(it.party, account="sim/odd", venue=Twisted(it.party.venue, told))
            desk = _desk(it, odd, it.party)
            found = await desk.kill("stop")
            await desk.stop()
            assert it.venue.resting() == []
            assert [each.partition(":")[0] for each in found["failed"]] == ["sim/odd"]
            assert found["confirmed"] is False

    run(main())


def test_orders_of_an_account_that_cannot_be_signed_for_are_told_until_it_can(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            parties: list[Party] = []
            desk = OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: parties)
            told = await desk.kill("stop")
            assert told["confirmed"] is False
            assert "cannot be signed for" in told["failed"][0]
            parties.append(it.party)
            it.clock.advance(1)
            await desk.look()
            assert it.venue.resting() == []
            assert (desk.status()["sweep"] or {})["confirmed"] is True
            await desk.stop()

    run(main())


def test_accounts_of_others_are_counted_and_not_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            it.venue.lies.append("late")
            await it.refusal()
            odd = replace(it.party, account="sim/odd", venue=Twisted(it.party.venue, {}))
            desk = _desk(it, it.party, odd)
            told = await desk.kill("stop", sees=lambda account: account == "sim/mine")
            assert (told["cancelled"], told["failed"], told["unresolved"]) == ([], [], [])
            assert told["of_others"] == {"cancelled": 1, "failed": 2}
            assert told["confirmed"] is False
            assert "sim/" not in str(desk.status(sees=lambda account: account == "sim/mine"))
            assert "sim/odd" in str(desk.status())
            assert "principal" not in it.entries()[-1][1]
            await desk.stop()

    run(main())


def test_a_desk_that_may_cancel_nothing_confirms_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, mode="read_only") as it:
            told = await it.desk.kill("stop")
            assert told["confirmed"] is False
            assert "read_only" in told["failed"][0]

    run(main())


def test_a_silence_is_carried_out_though_somebody_calls_again_and_nothing_is_added_before(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            await it.place()
            token = (await it.preview())["preview_token"]
            it.venue.cancel_lies.extend(DROPPED)
            it.clock.advance(60)
            await it.desk.look()
            assert (_sweep(it)["cause"], _sweep(it)["confirmed"]) == ("dead_man", False)
            it.desk.alive()
            refused = await it.refusal(token=token)
            assert (refused.code, (refused.details or {})["account"]) == ("VENUE_UNAVAILABLE", "sim/main")
            it.clock.advance(1)
            await it.desk.look()
            assert it.venue.resting() == []
            assert _sweep(it)["confirmed"] is True
            assert it.kinds()[-3:] == ["dead_man", "report", "dead_man"]
            assert (await it.place())["status"] == "NEW"
            assert it.desk.status()["dead_man"] == {"seconds": 60, "armed": True}

    run(main())


def test_an_order_that_is_placed_while_a_silence_is_carried_out_arms_the_timer(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            await it.place()
            it.clock.advance(60)

            async def gather() -> None:
                """What comes after the accounts at hand were cleared."""
                if it.venue.taken.total() == 1:
                    await it.place()

            it.desk._gather = gather  # pyright: ignore[reportPrivateUsage]
            await it.desk.look()
            assert len(it.venue.resting()) == 1
            it.clock.advance(60)
            await it.desk.look()
            assert it.venue.resting() == []

    run(main())


def test_orders_of_an_earlier_desk_are_cancelled_after_a_silence_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            await it.place()
            later = _desk(it, it.party)
            await later.start()
            async with asyncio.timeout(BOUND):
                while it.kinds()[-1] != "dead_man":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await later.stop()
            assert it.venue.resting() == []

    run(main())


def test_an_unexpected_fault_while_accounts_are_opened_keeps_none_from_being_cleared(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()

            async def gather() -> None:
                raise KeyError("filterType")

            it.desk._gather = gather  # pyright: ignore[reportPrivateUsage]
            told = await it.desk.kill("stop")
            assert it.venue.resting() == []
            assert told["failed"] == ["other accounts: they could not be opened (KeyError)"]
            with pytest.raises(ToolError):
                await it.preview()

    run(main())
