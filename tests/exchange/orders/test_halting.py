"""The kill switch and the dead man's timer."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.exchange.orders.desks import MARKET, trader
from tests.exchange.orders.lying import Lie
from tests.support import BOUND, run
from tracedesk.errors import ToolError
from tracedesk.exchange.orders import desk as desks
from tracedesk.exchange.orders.halting import SIGNAL
from tracedesk.exchange.orders.party import Party, View
from tracedesk.exchange.orders.switch import FILE, rearm
from tracedesk.primitives.redaction import Secrets
from tracedesk.primitives.time import SystemClock

DROPPED: Final[tuple[Lie, ...]] = ("drop_before",) * 6
"""As often as cancelling everything is tried."""


def test_the_switch_cancels_everything_and_blocks_orders_until_the_operator_rearms(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            names = [(await it.place())["client_order_id"] for _ in range(2)]
            token = (await it.preview())["preview_token"]
            told = await it.desk.kill("something is wrong", it.call("kill_switch"))
            assert told["mode"] == "sim"
            assert told["halted"]["reason"] == "something is wrong"
            assert len(told["cancelled"]) == 2
            assert told["failed"] == told["unresolved"] == []
            assert told["confirmed"] is True
            assert it.venue.resting() == []
            assert {it.venue.orders[name]["status"] for name in names} == {"CANCELED"}
            assert it.desk.ledger.open() == []
            assert (await it.refusal()).code == "HALTED"
            assert (await it.refusal(token=token)).code == "HALTED"
            halted = rearm(tmp_path)
            assert halted is not None
            assert halted.reason == "something is wrong"
            assert (await it.place())["status"] == "NEW"
            it.assert_sound()

    run(main())


def test_a_halt_outlives_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.desk.kill("enough")
            venue, clock = it.venue, it.clock
        async with trader(tmp_path, venue=venue, clock=clock) as it:
            refused = await it.refusal()
            assert refused.code == "HALTED"
            assert "rearm" in refused.message
            assert it.desk.status()["halted"]["reason"] == "enough"
            assert it.desk.status()["sends_orders"] is False

    run(main())


def test_a_file_in_the_home_is_the_switch_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            (tmp_path / FILE).touch()
            assert (await it.refusal()).code == "HALTED"
            await it.desk.look()
            assert it.venue.resting() == []
            assert it.kinds()[-3:] == ["halt", "report", "swept"]
            before = len(it.kinds())
            await it.desk.look()
            assert len(it.kinds()) == before

    run(main())


def test_a_signal_is_the_switch_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            started = desks.OrderDesk(
                tmp_path,
                it.desk.settings,
                SystemClock(),
                None,
                lambda: [it.party],
                pace=desks.Pace(watch=0.02),
            )
            await started.start()
            os.kill(os.getpid(), SIGNAL)
            async with asyncio.timeout(BOUND):
                while it.venue.resting() or "swept" not in it.kinds():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await it.refusal()).code == "HALTED"
            await started.stop()

    run(main())


def test_an_order_that_is_being_sent_while_the_switch_is_thrown_is_cancelled_as_well(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            placing = asyncio.ensure_future(it.place())
            await it.venue.arrived.wait()
            killing = asyncio.ensure_future(it.desk.kill("now"))
            while not (tmp_path / FILE).exists():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            it.venue.gate.set()
            name = (await placing)["client_order_id"]
            await killing
            assert it.venue.orders[name]["status"] == "CANCELED"
            assert it.venue.resting() == []

    run(main())


def test_a_halt_while_an_order_is_being_judged_keeps_it_from_being_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            token = (await it.preview(MARKET))["preview_token"]

            async def look(symbol: str) -> View:
                it.desk.switch.throw("in between", "signal")
                return it.market.view()

            halted = replace(it, party=replace(it.party, look=look))
            assert (await halted.refusal(MARKET, token=token)).code == "HALTED"
            assert not it.venue.posted
            assert it.kinds() == []

    run(main())


def test_an_order_that_turns_up_after_the_halt_is_cancelled_when_it_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("late")
            assert (await it.refusal()).code == "OUTCOME_UNKNOWN"
            told = await it.desk.kill("stop")
            assert len(told["unresolved"]) == 1
            it.clock.advance(3)
            it.venue.deliver()
            assert len(it.venue.resting()) == 1
            await it.desk.look()
            assert it.venue.resting() == []
            assert it.desk.ledger.unresolved() == []

    run(main())


def test_accounts_that_nobody_has_used_are_opened_to_be_cleared(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            opened: list[Party] = []

            async def gather() -> None:
                opened.append(it.party)
                raise ToolError("VENUE_UNAVAILABLE", "another one does not answer")

            fresh = desks.OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: opened, gather=gather)
            told = await fresh.kill("stop")
            assert len(told["cancelled"]) == 1
            assert it.venue.resting() == []
            assert told["failed"] == ["other accounts: another one does not answer"]
            assert told["confirmed"] is False
            await fresh.stop()

    run(main())


def test_a_secret_in_a_reason_is_written_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            secrets = Secrets()
            secrets.add("hunter2hunter2hunter2")
            desk = desks.OrderDesk(
                tmp_path, it.desk.settings, it.clock, None, lambda: [it.party], secrets=secrets
            )
            told = await desk.kill("my key hunter2hunter2hunter2 leaked")
            await desk.stop()
            assert "redacted" in told["halted"]["reason"]

    run(main())
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"hunter2" not in file.read_bytes(), file


def test_a_disk_that_takes_nothing_does_not_keep_the_switch_from_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()

            def full(*_: object, **__: object) -> None:
                raise OSError(28, "No space left on device")

            for name in ("note", "tell", "unresolved", "open"):
                monkeypatch.setattr(it.desk.ledger, name, full)
            told = await it.desk.kill("stop")
            assert it.venue.resting() == []
            assert len(told["cancelled"]) == 1
            assert told["ref"] is None
            assert it.desk.switch.halt is not None
            # What the ledger cannot tell of may be on its way.
            assert told["confirmed"] is False
            monkeypatch.undo()
            it.clock.advance(60)
            await it.desk.look()
            assert (it.desk.status()["sweep"] or {})["confirmed"] is True

    run(main())


def test_what_could_not_be_cancelled_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            it.venue.cancel_lies.extend(DROPPED)
            told = await it.desk.kill("stop")
            assert told["cancelled"] == []
            assert told["failed"][0].startswith("sim/main: ")
            assert told["confirmed"] is False
            assert len(it.venue.resting()) == 1

    run(main())


def test_orders_that_the_ledger_knows_are_cancelled_though_the_venue_does_not_list_them(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            await it.place()
            it.venue.blind = True
            told = await it.desk.kill("stop")
            assert it.venue.resting() == []
            assert len(told["cancelled"]) == 1
            assert len(told["failed"]) == 1

    run(main())


def test_a_cancel_is_allowed_while_halted_because_it_takes_risk_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.cancel_lies.extend(DROPPED)
            placed = await it.place()
            await it.desk.kill("stop")
            cancelled = await it.desk.cancel(
                it.party, it.call("cancel_order"), "BTCUSDT", order_id=placed["order_id"]
            )
            assert cancelled["status"] == "CANCELED"

    run(main())


def test_the_dead_mans_timer_cancels_what_rests_when_nobody_calls(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            await it.place()
            it.clock.advance(59)
            it.desk.alive()
            it.clock.advance(59)
            await it.desk.look()
            assert len(it.venue.resting()) == 1
            it.clock.advance(1)
            await it.desk.look()
            assert it.venue.resting() == []
            assert it.kinds()[-1] == "dead_man"
            before = len(it.kinds())
            it.clock.advance(600)
            await it.desk.look()
            assert len(it.kinds()) == before
            assert (await it.place())["status"] == "NEW"

    run(main())


def test_a_desk_that_nobody_calls_leaves_orders_while_another_of_its_home_is_called(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            await it.place()
            async with trader(tmp_path, venue=it.venue, clock=it.clock, dead_man_seconds=60) as silent:
                await silent.place()
                for _ in range(4):
                    it.clock.advance(30)
                    it.desk.alive()
                    await silent.desk.look()
                assert len(it.venue.resting()) == 2
                it.clock.advance(60)
                await silent.desk.look()
                assert it.venue.resting() == []

    run(main())


@pytest.mark.parametrize("mark", [b"", b"no number", b"\xff", b"1e300"])
def test_a_mark_that_says_nothing_does_not_keep_the_timer_from_running_out(
    mark: bytes, tmp_path: Path
) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            await it.place()
            (tmp_path / "run").mkdir(exist_ok=True)
            (tmp_path / "run" / "exchange.heard").write_bytes(mark)
            it.clock.advance(60)
            await it.desk.look()
            assert it.venue.resting() == []

    run(main())


def test_cancelling_is_answered_with_mode_and_state_and_the_ledger_knows(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place()
            call = it.call("cancel_order")
            told = await it.desk.cancel(it.party, call, "BTCUSDT", client_order_id=placed["client_order_id"])
            assert (told["mode"], told["status"]) == ("sim", "CANCELED")
            assert told["client_order_id"] == placed["client_order_id"]
            assert call.recorded
            assert it.kinds() == ["intent", "outcome", "cancel", "report", "cancelled"]
            with pytest.raises(ToolError) as refused:
                await it.desk.cancel(it.party, it.call(), "BTCUSDT", order_id=placed["order_id"])
            assert refused.value.code == "INVALID_PARAMETER"
            assert it.kinds()[-1] == "cancel_refused"

    run(main())


def test_a_cancel_whose_answer_was_lost_is_learnt_from_the_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await it.place()
            it.venue.cancel_lies.append("drop_after")
            told = await it.desk.cancel(it.party, it.call(), "BTCUSDT", order_id=placed["order_id"])
            assert told["status"] == "CANCELED"
            other = await it.place()
            it.venue.cancel_lies.append("drop_before")
            with pytest.raises(ToolError) as unknown:
                await it.desk.cancel(it.party, it.call(), "BTCUSDT", order_id=other["order_id"])
            assert unknown.value.code == "OUTCOME_UNKNOWN"

    run(main())


def test_a_cancel_names_one_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            both: tuple[dict[str, Any], ...] = ({}, {"order_id": 1, "client_order_id": "td-1"})
            for which in both:
                with pytest.raises(ToolError) as refused:
                    await it.desk.cancel(it.party, it.call(), "BTCUSDT", **which)
                assert refused.value.code == "INVALID_PARAMETER"
            with pytest.raises(ToolError) as refused:
                await it.desk.cancel(it.party, it.call(), "\u00e9" * 3000, order_id=1)
            assert refused.value.code == "INVALID_PARAMETER"
            assert it.kinds() == []

    run(main())


def test_the_account_is_told_apart_by_desks_of_one_home(tmp_path: Path) -> None:
    """Two desks of a home share the lock: their orders of one account go out one after the other."""

    async def main() -> None:
        async with trader(tmp_path) as it:
            other = desks.OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: [it.party])
            it.venue.gate = asyncio.Event()
            placing = asyncio.ensure_future(it.place(MARKET))
            await it.venue.arrived.wait()
            assert (await other.reconcile())["unresolved"][0]["status"] == "SENT"
            it.venue.gate.set()
            await placing
            assert (await other.reconcile())["unresolved"] == []
            await other.stop()

    run(main())
