"""One account at the venue is one account here, whatever it is called: its limits, its turns, its orders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.orders.desks import LIMIT, START_NS, Trader, trader
from tests.support import run
from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import VenueError
from tracedesk.exchange.orders.caps import Usage
from tracedesk.exchange.orders.desk import OrderDesk
from tracedesk.exchange.orders.identity import Identity, of_key, place_of
from tracedesk.exchange.orders.ledger import Intent, Ledger, Moved, News
from tracedesk.exchange.orders.party import Party, Venue
from tracedesk.exchange.orders.report import State
from tracedesk.journal import verify
from tracedesk.primitives.time import ManualClock

KEY, OTHER = of_key("k" * 64), of_key("o" * 64)
OLD_FILE = """
DROP INDEX exchange_order_identity;
ALTER TABLE exchange_order DROP COLUMN identity;
DROP TABLE exchange_mark;
"""
"""Makes of a ledger what it was before marks were kept."""


def intent(id: str, identity: Identity, notional: int = 500) -> Intent:
    facts: dict[str, Any] = {"quote": "USDT", "notional": notional, "venue_ms": 1, "body": {}}
    return Intent(
        id, identity.name, identity.venue, "BTCUSDT", "BUY", "LIMIT", 10, **facts, marks=identity.marks
    )


def ledger(home: Path) -> Ledger:
    return Ledger(home / "trace.db", ManualClock(START_NS))


def free(_: Usage) -> None: ...


def twin(it: Trader, name: str = "sim/twin", marks: tuple[str, ...] = (KEY,)) -> Trader:
    """The same caller with another name for an account."""
    return replace(it, party=replace(it.party, account=name, marks=marks, place="venue"))


def test_a_key_is_not_told_by_its_mark_and_all_addresses_of_a_venue_are_one_place() -> None:
    assert "k" * 8 not in KEY
    assert of_key("k" * 64) == KEY != OTHER
    doors = {place_of(f"https://{host}.binance.com") for host in ("api", "api1", "api4", "api-gcp")}
    assert doors == {"api.binance.com"}
    assert place_of("https://api.binance.us") == "api.binance.us"
    assert place_of("http://127.0.0.1:4001") == place_of("http://localhost:4002") == "this machine"


def test_two_names_of_a_key_share_what_was_sent_and_another_key_does_not(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    kept.intend(intent("1", Identity("sim/a", (KEY,))), free)
    kept.intend(intent("2", Identity("sim/b", (KEY,)), 70), free)
    for name in ("sim/a", "sim/b", "sim/new"):
        assert kept.usage(Identity(name, (KEY,)), "USDT") == Usage(2, 570)
        assert [o.client_order_id for o in kept.unresolved(Identity(name, (KEY,)))] == ["1", "2"]
    assert kept.usage(Identity("sim/c", (OTHER,)), "USDT") == Usage(0, 0)
    assert kept.identity(Identity("sim/a", (KEY,))) == kept.identity(Identity("sim/b", (KEY,)))


def test_two_keys_that_the_venue_numbers_alike_are_one_account_from_then_on(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    one, two = Identity("sim/a", (KEY,)), Identity("sim/b", (OTHER,))
    kept.intend(intent("1", one), free)
    kept.intend(intent("2", two), free)
    assert kept.usage(one, "USDT") == Usage(1, 500)
    kept.join(one.numbered("venue", 7))
    assert kept.usage(two, "USDT") == Usage(1, 500)
    assert kept.usage(two.numbered("venue", 7), "USDT") == Usage(2, 1000)
    kept.join(two.numbered("venue", 7))
    kept.join(two.numbered("venue", 7))
    kept.close()
    again = ledger(tmp_path)
    for each in (one, two):
        assert again.usage(each, "USDT") == Usage(2, 1000)
    assert again.identity(one) == again.identity(two)
    assert again.usage(Identity("sim/c", (of_key("c" * 64),)).numbered("venue", 8), "USDT") == Usage(0, 0)
    assert again.usage(Identity("sim/c", (of_key("c" * 64),)).numbered("elsewhere", 7), "USDT") == Usage(0, 0)
    assert verify(tmp_path / "trace.db").faults == []


def test_a_name_that_has_a_new_key_still_counts_and_settles_what_it_sent(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    kept.intend(intent("1", Identity("live/main", (KEY,))), free)
    rotated = Identity("live/main", (OTHER,))
    assert kept.usage(rotated, "USDT") == Usage(1, 500)
    assert [order.client_order_id for order in kept.unresolved(rotated)] == ["1"]


def test_orders_from_before_marks_were_kept_go_along_with_their_name(tmp_path: Path) -> None:
    old = ledger(tmp_path)
    old.intend(intent("1", Identity("live/main")), free)
    old.intend(intent("2", Identity("live/other"), 3), free)
    old.tell(News("1", State("NEW", 5)))
    old.close()
    with apsw.Connection(str(tmp_path / "trace.db")) as file:
        cast("Any", file).execute(OLD_FILE)
    kept, main = ledger(tmp_path), Identity("live/main", (KEY,))
    assert kept.usage(main, "USDT") == Usage(1, 500)
    assert [order.client_order_id for order in kept.open(main)] == ["1"]
    assert [order.client_order_id for order in kept.unresolved()] == ["2"]
    kept.join(main)
    assert kept.usage(Identity("live/twin", (KEY,)), "USDT") == Usage(1, 500)
    assert kept.usage(Identity("live/other", (OTHER,)), "USDT") == Usage(1, 3)
    kept.intend(intent("3", Identity("live/twin", (KEY,))), free)
    assert kept.usage(main, "USDT") == Usage(2, 1000)
    kept.close()
    assert verify(tmp_path / "trace.db").faults == []


_SENT = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("klm"), st.none() | st.integers(1, 2)), max_size=12
)


@settings(max_examples=25, deadline=None)
@given(_SENT)
def test_whatever_was_seen_together_counts_together(sent: list[tuple[str, str, int | None]]) -> None:
    """Against a model that keeps sets of marks."""
    accounts: list[set[str]] = []
    orders: list[tuple[str, str]] = []
    with TemporaryDirectory() as folder:
        kept = ledger(Path(folder))
        for index, (name, key, number) in enumerate(sent):
            identity = Identity(name, (of_key(key),)).numbered("venue", number)
            kept.intend(intent(str(index), identity), free)
            orders.append((name, of_key(key)))
            accounts = _joined(accounts, set(identity.marks))
        for name in "abcd":
            for key in "klm":
                one = next((each for each in accounts if of_key(key) in each), {of_key(key)})
                count = sum(1 for whose, mark in orders if whose == name or mark in one)
                found = kept.usage(Identity(name, (of_key(key),)), "USDT")
                assert found == Usage(count, 500 * count)
        kept.close()


def _joined(accounts: Iterable[set[str]], marks: set[str]) -> list[set[str]]:
    apart = [each for each in accounts if not each & marks]
    return [*apart, marks.union(*(each for each in accounts if each & marks))]


# --- the desk -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "value"), [("max_orders_per_minute", 2), ("max_day_notional", 1000), ("max_open_orders", 2)]
)
def test_a_cap_is_not_doubled_by_another_name(tmp_path: Path, cap: str, value: int) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={cap: value}) as it:
            one, two = twin(it, "sim/main"), twin(it)
            await one.place()
            await two.place()
            for each in (one, two):
                refused = await each.refusal()
                assert (refused.code, (refused.details or {})["cap"]) == ("LIMIT_EXCEEDED", cap)
            assert len(it.venue.taken) == 2

    run(main())


def test_a_cap_is_not_doubled_by_another_key_of_the_account(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path, caps={"max_orders_per_minute": 1}) as it:
            it.venue.number = 7
            await twin(it, "sim/main").place()
            refused = await twin(it, "sim/twin", (OTHER,)).refusal()
            assert (refused.code, (refused.details or {})["cap"]) == (
                "LIMIT_EXCEEDED",
                "max_orders_per_minute",
            )
            it.venue.number = 8
            assert (await twin(it, "sim/third", (of_key("3" * 64),)).place())["status"] == "NEW"

    run(main())


def test_two_names_take_turns(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.gate = asyncio.Event()
            one, two = twin(it, "sim/main"), twin(it)
            placing = asyncio.create_task(one.place())
            await it.venue.arrived.wait()
            with pytest.raises(ToolError, match="Another call is sending"):
                async with it.desk.turn(two.party, 0):
                    raise AssertionError
            it.venue.gate.set()
            assert (await placing)["status"] == "NEW"

    run(main())


def test_nothing_is_added_under_one_name_while_an_order_of_another_is_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.lies.append("drop_before")
            assert (await twin(it, "sim/main").refusal()).code == "OUTCOME_UNKNOWN"
            refused = await twin(it).refusal()
            assert "earlier order(s) of this account" in refused.message

    run(main())


def test_what_the_stream_of_one_name_tells_is_known_of_the_orders_of_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            placed = await twin(it, "sim/main").place()
            report = {
                **it.venue.orders[placed["client_order_id"]],
                "status": "CANCELED",
                "origClientOrderId": placed["client_order_id"],
            }
            await it.desk.observe(Identity("sim/stranger", (OTHER,)), report)
            assert [order.state.status for order in it.desk.ledger.open()] == ["NEW"]
            await it.desk.observe(twin(it).party.identity, report)
            assert it.desk.ledger.open() == []

    run(main())


class _Refused:
    """A venue that takes no key."""

    def __getattr__(self, name: str) -> object:
        async def refuse(*_: object, **__: object) -> object:
            raise VenueError(-2015, "Invalid API-key, IP, or permissions for action.", 401)

        return refuse


@pytest.mark.parametrize("first", [True, False])
def test_a_key_that_is_refused_does_not_keep_its_account_from_being_cleared(
    tmp_path: Path, first: bool
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            good = twin(it, "sim/main").party
            bad = replace(good, account="sim/key-0", venue=_Refused())
            parties: list[Party] = [bad, good] if first else [good, bad]
            desk = OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: parties)
            await twin(it, "sim/main").place()
            told = await desk.kill("enough")
            assert (told["confirmed"], told["failed"]) == (True, [])
            assert it.venue.resting() == []
            await desk.stop()

    run(main())


def test_after_a_silence_nothing_is_added_under_another_name_before_the_account_is_cleared(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path, dead_man_seconds=60) as it:
            it.venue.number = 7
            parties = [twin(it, "sim/main").party]
            desk = OrderDesk(tmp_path, it.desk.settings, it.clock, it.calls, lambda: parties)
            one = replace(twin(it, "sim/main"), desk=desk)
            other = replace(twin(it, "sim/twin", (OTHER,)), desk=desk)
            await other.preview()
            await one.place()
            it.venue.cancel_lies.extend(("drop_before",) * 9)
            it.clock.advance(61)
            await desk.look()
            for each in (one, other):
                with pytest.raises(ToolError, match="are being cancelled"):
                    await each.preview()
            it.venue.cancel_lies.clear()
            it.clock.advance(60)
            await desk.look()
            assert it.venue.resting() == []
            assert (await other.place(LIMIT))["status"] == "NEW"
            await desk.stop()

    run(main())


# --- accounts that only look alike, and accounts that change ----------------------------------------


def test_hosts_are_one_place_only_where_they_are_doors_of_one_venue() -> None:
    assert place_of("http://10.1.2.3:80") == "10.1.2.3" != place_of("http://10.9.2.3:80")
    assert place_of("https://api.one.co.uk") != place_of("https://api.two.co.uk")
    assert place_of("https://api1.one.co.uk") == place_of("https://api2.one.co.uk")
    assert place_of("https://demo-api.binance.com") != place_of("https://api.binance.com")


def test_a_number_is_only_a_venues_own(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    kept.intend(intent("1", Identity("testnet/main", (KEY,)).numbered("this machine", 7)), free)
    sim = Identity("sim/main", (OTHER,)).numbered("this machine", 7)
    kept.join(sim)
    assert kept.usage(sim, "USDT") == Usage(0, 0)
    assert kept.identity(sim) != kept.identity(Identity("testnet/main", (KEY,)))


def test_an_order_is_only_asked_about_at_its_venue_though_its_key_is_used_at_another(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    kept.intend(intent("1", Identity("testnet/main", (KEY,))), free)
    sim = Identity("sim/main", (KEY,))
    assert kept.usage(sim, "USDT") == Usage(1, 500)
    assert (kept.unresolved(sim), kept.order_of(sim, "1")) == ([], None)
    kept.tell(News("1", State("NEW", 5)))
    assert kept.open(sim) == []
    assert [order.client_order_id for order in kept.open(Identity("testnet/twin", (KEY,)))] == ["1"]


def test_an_order_at_one_venue_is_not_told_as_absent_by_another_that_numbers_accounts_alike(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path, mode="testnet") as one:
            one.venue.number = 7
            one.venue.lies.append("drop_after")
            one.venue.silences = 9
            assert (await twin(one, "testnet/main").refusal()).code == "OUTCOME_UNKNOWN"
            [name] = one.venue.taken
            one.clock.advance(40)
            async with trader(tmp_path, clock=one.clock, mode="sim") as two:
                two.venue.number = 7
                assert (await twin(two, "sim/main", (OTHER,)).place())["status"] == "NEW"
            found = one.desk.ledger.order(name)
            assert found is not None
            assert (found.state.status, one.venue.orders[name]["status"]) == ("UNKNOWN", "NEW")

    run(main())


class _Held:
    """A venue whose answer about what rests is held up on its way."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self.there, self.gate = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._venue, name)

    async def open_orders(self, symbol: str | None = None) -> Any:
        found = await self._venue.open_orders(symbol)
        self.there.set()
        await self.gate.wait()
        return found


@pytest.mark.parametrize("older", [True, False])
def test_an_account_that_turns_out_to_be_another_meanwhile_sends_no_order_beyond_its_caps(
    tmp_path: Path, older: bool
) -> None:
    """Two keys whose number is not known yet are judged side by side, each in a turn of its own."""

    async def main() -> None:
        async with trader(tmp_path, caps={"max_open_orders": 1}) as it:
            one, two = twin(it, "sim/main"), twin(it, "sim/twin", (OTHER,))
            if older:  # then the first key's identity is the one that stays
                await it.desk.adopt(one.party.identity)
            await it.desk.adopt(two.party.identity)
            tokens = [(await each.preview())["preview_token"] for each in (one, two)]
            it.venue.number = 7
            held = _Held(one.party.venue)
            slow = replace(one, party=replace(one.party, venue=held))
            placing = asyncio.create_task(slow.place(token=tokens[0]))
            await held.there.wait()
            assert (await two.place(token=tokens[1]))["status"] == "NEW"
            held.gate.set()
            with pytest.raises(ToolError, match="Nothing was sent"):
                await placing
            assert len(it.venue.resting()) == 1
            refused = await one.refusal()
            assert (refused.code, (refused.details or {})["cap"]) == ("LIMIT_EXCEEDED", "max_open_orders")

    run(main())


def test_an_order_that_was_sent_meanwhile_under_another_identity_is_not_overlooked(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    one, two = Identity("sim/a", (KEY,)), Identity("sim/b", (OTHER,))
    kept.join(one.numbered("venue", 7))
    seen = kept.seen(one, kept.identity(one))
    kept.intend(intent("1", two), free)
    kept.join(two.numbered("venue", 7))
    with pytest.raises(Moved):  # its own turn, and yet the account has sent
        kept.intend(intent("2", one.numbered("venue", 7)), free, seen)
    assert kept.order("2") is None
    again = kept.seen(one, kept.identity(one))
    assert kept.intend(intent("2", one.numbered("venue", 7)), free, again).identity == again.identity


def test_what_an_account_is_told_by_stays_whichever_key_is_asked_for(tmp_path: Path) -> None:
    kept = ledger(tmp_path)
    first, second = Identity("sim/a", (OTHER,)), Identity("sim/b", (KEY,))
    kept.intend(intent("1", first.numbered("venue", 7)), free)
    told_by = kept.identity(first)
    kept.join(second)
    kept.join(second.numbered("venue", 7))
    assert kept.identity(second) == kept.identity(first) == told_by


def test_a_name_with_an_old_and_a_new_key_has_one_turn_and_no_kill_is_confirmed_while_one_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.exchange.orders.sweeping.PATIENCE_S", 0.2)

    async def main() -> None:
        async with trader(tmp_path) as it:
            old, new = twin(it, "sim/main"), twin(it, "sim/main", (OTHER,))
            it.venue.gate = asyncio.Event()
            placing = asyncio.create_task(old.place())
            await it.venue.arrived.wait()
            desk = OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: [new.party])
            told = await desk.kill("enough")
            it.venue.gate.set()
            await placing
            assert (told["confirmed"], len(told["unresolved"])) == (False, 1)
            assert "still being sent" in told["failed"][0]
            it.clock.advance(60)
            await desk.look()
            assert it.venue.resting() == []
            assert (desk.status()["sweep"] or {})["confirmed"] is True
            await desk.stop()

    run(main())


@asynccontextmanager
async def repointed(it: Trader, folder: Path, number: int | None = 8) -> AsyncGenerator[Trader]:
    """The name of an account with a key of another one."""
    async with trader(folder, clock=it.clock) as other:
        other.venue.number = number
        party = replace(it.party, account="sim/main", marks=(OTHER,), place="venue", venue=other.party.venue)
        yield replace(it, party=party, venue=other.venue)


@pytest.mark.parametrize("number", [None, 8])
def test_an_order_is_not_told_as_absent_by_another_account_that_has_its_name_now(
    tmp_path: Path, number: int | None
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.number = number and 7
            it.venue.lies.append("drop_after")
            it.venue.silences = 9
            assert (await twin(it, "sim/main").refusal()).code == "OUTCOME_UNKNOWN"
            [name] = it.venue.taken
            it.clock.advance(40)
            async with repointed(it, tmp_path / "other", number) as now:
                refused = await now.refusal()
                assert refused.code == "VENUE_UNAVAILABLE"
                assert f"{name} went out with another key under the name sim/main" in refused.message
                desk = OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: [now.party])
                told = await desk.kill("enough")
                assert (told["confirmed"], len(told["failed"])) == (False, 1)
                await desk.stop()
            assert [order.state.status for order in it.desk.ledger.unresolved()] == ["UNKNOWN"]
            it.venue.silences = 0
            assert await it.desk.settle(twin(it, "sim/main").party) == []
            assert [order.client_order_id for order in it.desk.ledger.open()] == [name]

    run(main())


def test_no_kill_is_confirmed_while_an_order_rests_that_went_out_with_another_key_of_the_name(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.number = 7
            one = twin(it, "sim/main")
            await one.place()
            async with repointed(it, tmp_path / "other") as now:
                parties = [now.party]
                desk = OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: parties)
                told = await desk.kill("enough")
                assert (told["confirmed"], len(it.venue.resting())) == (False, 1)
                assert "another key of this name" in told["failed"][0]
                parties[:] = [one.party]
                it.clock.advance(60)
                await desk.look()
                assert (it.venue.resting(), (desk.status()["sweep"] or {})["confirmed"]) == ([], True)
                await desk.stop()

    run(main())


def test_a_new_key_of_the_same_account_settles_what_the_old_one_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            it.venue.number = 7
            it.venue.lies.append("drop_before")
            assert (await twin(it, "sim/main").refusal()).code == "OUTCOME_UNKNOWN"
            it.clock.advance(40)
            new = twin(it, "sim/main", (OTHER,))
            desk = OrderDesk(tmp_path, it.desk.settings, it.clock, None, lambda: [new.party])
            assert (await desk.reconcile())["unresolved"] == []
            await desk.stop()
            assert (await new.place())["status"] == "NEW"

    run(main())


def test_a_ledger_that_cannot_be_read_is_told_as_that_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with trader(tmp_path) as it:
            one = twin(it, "sim/main")
            placed = await one.place()
            token = (await one.preview())["preview_token"]

            def broken(_: Ledger) -> object:
                raise apsw.FullError("database or disk is full")

            monkeypatch.setattr(Ledger, "_opened", broken)
            name, call = placed["client_order_id"], one.call("cancel_order")
            for work in (
                one.preview(),
                one.place(token=token),
                one.place(token="unknown"),
                it.desk.cancel(one.party, call, "BTCUSDT", client_order_id=name),
            ):
                with pytest.raises(ToolError, match="Nothing was sent: the order ledger") as problem:
                    await work
                assert problem.value.code == "DATABASE_ERROR"
            monkeypatch.undo()
            assert (len(it.venue.posted), it.venue.cancels, len(it.venue.resting())) == (1, 0, 1)

    run(main())
