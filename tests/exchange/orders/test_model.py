"""A desk and a lying venue, in any order of events, against what truly happened at the venue.

Whatever is lost, late, doubled, denied or killed: every order is sent at most once, every order that the
venue took is in the ledger, and the ledger never says more than can be known.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.exchange.orders.desks import LIMIT, MARKET, Trader, trader
from tests.exchange.orders.lying import Lie
from tests.judges.size import Size
from tracedesk.errors import ToolError
from tracedesk.exchange.orders.desk import OrderDesk
from tracedesk.exchange.orders.previews import client_order_id
from tracedesk.exchange.orders.report import ABSENT, FINAL, OPEN, UNRESOLVED
from tracedesk.exchange.orders.switch import rearm

LIES: Final[tuple[Lie, ...]] = (
    "truth",
    "truth",
    "drop_before",
    "drop_after",
    "error_before",
    "error_after",
    "refuse",
    "limit",
    "malformed",
    "page",
    "other_order",
    "twice",
    "echo",
    "late",
    "unclear",
)
ORDERS: Final[tuple[Mapping[str, Any], ...]] = (LIMIT, MARKET, {**LIMIT, "side": "SELL", "price": "50100"})


NOTHING = cast("Any", multiple())  # pyright: ignore[reportUnknownVariableType]


class Died(BaseException):
    """The process ends here."""


class Dying:
    """The client of a process that dies at its next order: before it goes out, or when it has."""

    def __init__(self, venue: Any, after: bool) -> None:
        self._venue = venue
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._venue, name)

    async def new_order(self, **params: Any) -> Any:
        if self._after:
            with suppress(ToolError):
                await self._venue.new_order(**params)
        raise Died


class DeskAndVenue(RuleBasedStateMachine):
    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.it: Trader = self.runner.run(self.stack.enter_async_context(trader(self.home)))
        self.sent: set[str] = set()
        """Every id under which an order may have gone out."""
        self.denied: set[str] = set()
        """Orders that the venue has denied while it had them, for longer than anybody can wait."""
        self.clean: set[str] = set()
        """Orders that the caller was told are not at the venue."""

    def teardown(self) -> None:
        try:
            self.runner.run(self._everything_is_known_in_the_end())
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()
            shutil.rmtree(self.home)

    # --- what happens

    @rule(target=tokens, order=st.sampled_from(ORDERS), lie=st.sampled_from(LIES), silences=st.integers(0, 4))
    def place(self, order: Mapping[str, Any], lie: Lie, silences: int) -> Any:
        return self._place(order, lie, silences, forget=False)

    @rule(target=tokens, order=st.sampled_from(ORDERS))
    def place_and_be_denied(self, order: Mapping[str, Any]) -> Any:
        return self._place(order, "drop_after", 0, forget=True)

    @rule(
        target=tokens,
        order=st.sampled_from(ORDERS),
        after=st.booleans(),
        lie=st.sampled_from(("truth", "late")),
    )
    def die(self, order: Mapping[str, Any], after: bool, lie: Lie) -> Any:
        self.it.venue.lies.append(lie)
        whole = self.it.party
        shown = self._preview(order)
        if shown is None:
            self.it.venue.lies.clear()
            return NOTHING
        token, name = shown
        self.it.party = replace(whole, venue=Dying(whole.venue, after))
        try:
            self.runner.run(self.it.place(order, token=token))
        except Died:
            self.sent.add(name)
        except ToolError:
            self.clean.add(name)
        self.it.party = whole
        self.it.venue.lies.clear()
        self.runner.run(self._restart())
        return (order, token)

    @rule(used=tokens)
    def place_again(self, used: tuple[Mapping[str, Any], str]) -> None:
        """A token that was sent is never sent again; one that was not may still be."""
        order, token = used
        name = client_order_id(self.it.party.scope, token)
        try:
            self.runner.run(self.it.place(order, token=token))
        except ToolError as problem:
            self._told(problem, name)
        else:
            assert name not in self.sent
            self.clean.discard(name)
            self.sent.add(name)

    @rule(seconds=st.sampled_from((1, 3, 10, 31)))
    def wait(self, seconds: int) -> None:
        self.it.clock.advance(seconds)

    @rule()
    def deliver(self) -> None:
        self.it.venue.deliver()

    @rule()
    def reconcile(self) -> None:
        self.runner.run(self.it.desk.reconcile())

    @rule()
    def look(self) -> None:
        self.runner.run(self.it.desk.look())

    @rule()
    def trade_with_what_rests(self) -> None:
        for order in self.it.venue.resting()[:1]:
            self.it.venue.fill(order["clientOrderId"])

    @rule(lie=st.sampled_from(("truth", "drop_after", "drop_before")))
    def cancel(self, lie: Lie) -> None:
        for order in self.it.desk.ledger.open()[:1]:
            self.it.venue.cancel_lies.append(lie)
            told = self.runner.run(self._cancelled(order.client_order_id))
            truth = self.it.venue.orders[order.client_order_id]["status"]
            assert (
                told == "OUTCOME_UNKNOWN" or told == truth or (told, truth) == ("INVALID_PARAMETER", "FILLED")
            )
        self.it.venue.cancel_lies.clear()

    @rule()
    def kill_and_rearm(self) -> None:
        told = self.runner.run(self.it.desk.kill("a test"))
        assert self.it.venue.resting() == []
        # What may still arrive is no confirmed end; everything else is.
        assert (told["failed"] == []) == told["confirmed"] == (told["unresolved"] == [])
        rearm(self.home)

    @rule()
    def restart(self) -> None:
        self.runner.run(self._restart())

    @rule()
    def remember(self) -> None:
        self.it.venue.forgotten.clear()

    # --- how it happens

    def _preview(self, order: Mapping[str, Any]) -> tuple[str, str] | None:
        try:
            shown = self.runner.run(self.it.preview(order))
        except ToolError:
            return None
        return shown["preview_token"], shown["client_order_id"]

    def _place(self, order: Mapping[str, Any], lie: Lie, silences: int, *, forget: bool) -> Any:
        shown = self._preview(order)
        if shown is None:
            return NOTHING
        token, name = shown
        venue = self.it.venue
        # A venue takes the id of an order that is over once more, so only what rests is doubled here.
        venue.lies.append("truth" if lie == "twice" and order is MARKET else lie)
        venue.silences = silences
        if forget:
            venue.forgotten.add(name)
            self.denied.add(name)
        try:
            placed = self.runner.run(self.it.place(order, token=token))
        except ToolError as problem:
            self._told(problem, name)
        else:
            assert placed["status"] == venue.orders[name]["status"]
            self.sent.add(name)
        venue.lies.clear()
        venue.silences = 0
        return (order, token)

    async def _cancelled(self, name: str) -> str:
        """The status that a cancel is answered with, or the code it is refused with."""
        try:
            told = await self.it.desk.cancel(self.it.party, self.it.call(), "BTCUSDT", client_order_id=name)
        except ToolError as problem:
            return problem.code
        return told["status"]

    def _told(self, problem: ToolError, name: str) -> None:
        """What an error says of the order is so."""
        known = self.it.desk.ledger.order(name)
        if problem.code == "PREVIEW_INVALID" and known is not None:
            return
        if problem.code == "OUTCOME_UNKNOWN":
            assert known is not None
            assert known.state.status == "UNKNOWN"
            self.sent.add(name)
            return
        self.clean.add(name)

    async def _restart(self) -> None:
        await self.it.desk.stop()
        old = self.it.desk
        self.it.desk = OrderDesk(
            self.home, old.settings, old.clock, self.it.calls, lambda: [self.it.party], pace=old.pace
        )
        await self.it.desk.reconcile()

    async def _everything_is_known_in_the_end(self) -> None:
        venue = self.it.venue
        venue.forgotten.clear()
        venue.deliver()
        self.it.clock.advance(60)
        await self.it.desk.reconcile()
        assert self.it.desk.ledger.unresolved() == []
        for name in self.sent:
            order = self.it.desk.ledger.order(name)
            assert order is not None
            truth = venue.orders.get(name)
            if truth is None:
                assert order.state.status in ABSENT, order
            else:
                assert order.state.status == truth["status"], (order, truth)
        self.it.assert_sound()

    # --- what is always so

    @invariant()
    def no_order_is_sent_twice(self) -> None:
        assert all(times == 1 for times in self.it.venue.posted.values())
        assert all(times == 1 for times in self.it.venue.taken.values())

    @invariant()
    def no_order_is_lost(self) -> None:
        for name in self.it.venue.orders:
            assert self.it.desk.ledger.order(name) is not None

    @invariant()
    def the_ledger_says_no_more_than_is_so(self) -> None:
        venue = self.it.venue
        for name in self.sent | self.clean:
            order = self.it.desk.ledger.order(name)
            if order is None:
                continue
            status, truth = order.state.status, venue.orders.get(name)
            if status in ABSENT:
                assert truth is None or (name in self.denied and status == "NEVER_ARRIVED")
            elif status in FINAL:
                assert truth is not None
                assert truth["status"] == status
            elif status in OPEN:
                assert truth is not None
            else:
                assert status in UNRESOLVED

    @invariant()
    def what_was_told_to_be_absent_is_absent(self) -> None:
        assert not self.clean & set(self.it.venue.orders)


def _settings(examples: int, steps: int) -> settings:
    unhealthy = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=unhealthy
    )


class TestDeskAndVenue(DeskAndVenue.TestCase):
    settings = _settings(12, 25)


@pytest.mark.judge
@pytest.mark.timeout(600)
def test_desk_and_venue_agree_for_long(size: Size) -> None:
    run_state_machine_as_test(DeskAndVenue, settings=_settings(size.of(judge=120, prove=600), 40))
