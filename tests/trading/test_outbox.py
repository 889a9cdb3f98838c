"""Orders to a broker that fails, times out and lies: what a call is told, and that the books stay true."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import Reply, run
from tests.trading.desks import Agent, agent
from tests.trading.ledgers import call, trading
from tests.trading.loopback_broker import FEES, LIES, PRICE, LoopbackBroker, Venue, venue
from tracedesk.market import Move, ReplayClock
from tracedesk.primitives.time import HOUR, Clock, ManualClock
from tracedesk.trading import audit, outbox
from tracedesk.trading.broker import Report, believed
from tracedesk.trading.clockwork import advance
from tracedesk.trading.draft import order_id
from tracedesk.trading.ledger import Entry, Ledger, New
from tracedesk.trading.model import Order, Trade

SHARE: Final = 10**9
WALL_NS: Final = 1_790_000_000_000_000_000
LIVE: Final = {"live_trading": True}
IBM: Final = {"symbol": "IBM", "action": "buy", "quantity": 10, "order_type": "market"}
AAPL: Final = {"symbol": "AAPL", "action": "buy", "quantity": 4, "order_type": "market"}
MSFT: Final = {"symbol": "MSFT", "action": "buy", "quantity": 6, "order_type": "market"}


def leg(id: str, number: int = 0) -> str:
    """The client id of a call's order."""
    return order_id("default", id, number)


@dataclass(slots=True)
class Desk(Agent):
    """An agent whose orders go to a venue."""

    home: Path = Path()

    async def trade(self, id: str, *legs: dict[str, Any], **more: Any) -> Reply:
        return await self.raw("trade_execute", id, trades=list(legs or (IBM,)), **more)

    async def answer(self, id: str, *legs: dict[str, Any], **more: Any) -> Any:
        reply = await self.trade(id, *legs, **more)
        return json.loads(json.dumps(reply.structured), parse_float=Decimal)["execution"]

    async def code(self, id: str, *legs: dict[str, Any], **more: Any) -> str:
        return (await self.trade(id, *legs, **more)).envelope["error"]["code"]

    async def entries(self) -> list[Entry]:
        """What was written since the account was opened."""
        return (await self.trader.ledger(lambda ledger: ledger.entries(limit=1_000)))[2:]

    async def kinds(self) -> list[str]:
        return [entry.kind for entry in await self.entries()]

    async def holdings(self) -> dict[str, int]:
        account = await self.trader.ledger(lambda ledger: ledger.portfolio("default"))
        return {symbol: position.quantity // SHARE for symbol, position in account.positions.items()}

    async def cash(self) -> int:
        return (await self.trader.ledger(lambda ledger: ledger.portfolio("default"))).cash

    def assert_sound(self) -> None:
        assert audit.verify(self.home / "ledger.db").faults == []


@asynccontextmanager
async def desk(
    home: Path, at: Venue | None, *, clock: Clock | None = None, arrives_s: float = 0.0, **table: Any
) -> AsyncGenerator[Desk]:
    async with agent(home, {**LIVE, **table}, clock=clock) as found:
        if at is not None:
            found.trader.broker = LoopbackBroker(at.port, answer_s=0.3, arrives_s=arrives_s)
        yield Desk(found.client, found.numbers, home)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Venue]:
    with venue(tmp_path_factory.mktemp("venue") / "orders.jsonl") as found:
        yield found


@pytest.fixture
def at(shared: Venue) -> Venue:
    """The venue, as quick as it can be; the ids of a test are its own."""
    shared.tell()
    return shared


@pytest.fixture
def id(request: pytest.FixtureRequest) -> str:
    """A tool_call_id that no other test uses."""
    return f"t{crc32(request.node.nodeid.encode())}"


def text(reply: Reply) -> str:
    return reply.json["result"]["content"][0]["text"]


def write_elsewhere(home: Path, entry: New) -> None:
    with Ledger(home / "ledger.db", clock=ManualClock(WALL_NS)) as other, other.writing() as writer:
        writer.append(entry)


async def close_the_market(found: Agent) -> None:
    def past_the_close(clock: ReplayClock) -> Move:
        return clock.set(clock.now_ns() + 8 * HOUR)

    trader = found.trader
    await trader.commit(lambda ledger: advance(ledger, trader.desk.payloads, trader.settings, past_the_close))


# --- answers that come -------------------------------------------------------------------------


def test_every_leg_is_answered_as_the_broker_says(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id, 1): "partial", leg(id, 2): "reject", leg(id, 3): "refuse"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            before = await found.cash()
            reply = await found.trade(id, IBM, AAPL, MSFT, {**MSFT, "quantity": 1})
            trades = reply.structured["execution"]["trades"]
            assert [trade["status"] for trade in trades] == ["filled", "partial", "rejected", "rejected"]
            assert [trade["quantity"] for trade in trades] == [10, 2, 0, 0]
            assert [trade.get("reject_code") for trade in trades[2:]] == ["NO_BORROW", "ACCOUNT_RESTRICTED"]
            assert [trade["order_id"] for trade in trades] == [leg(id, n) for n in range(4)]
            assert await found.holdings() == {"AAPL": 2, "IBM": 10}
            assert before - await found.cash() == 12 * PRICE // 10**4 + 2 * FEES
            assert await found.kinds() == ["intent", "trade"]
            assert text(await found.trade(id, IBM, AAPL, MSFT, {**MSFT, "quantity": 1})) == text(reply)
            assert [at.submissions[leg(id, n)] for n in range(4)] == [1, 1, 1, 1]
            found.assert_sound()

    run(main())


def test_the_account_after_is_valued_at_the_prices_the_batch_was_judged_on(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            answer = await found.answer(id)
            account = await found.call("get_portfolio")
            assert answer["portfolio_after"]["cash"] == account["portfolio"]["cash"]
            assert answer["portfolio_after"]["total_value"] == account["portfolio"]["total_value"]

    run(main())


def test_a_trade_leads_to_its_intent_its_prices_and_the_brokers_own_words(
    tmp_path: Path, at: Venue, id: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.answer(id)
            intent, trade = await found.entries()
            edges = {edge.relation: edge.ref for edge in trade.edges}
            assert edges["intent"] == f"tracedesk://trading/ledger/{intent.seq}"
            words = found.trader.desk.payloads.get(edges["reported_by"].rsplit("/", 1)[1])
            assert words is not None
            assert json.loads(words) == at.orders[leg(id)]
            assert {"priced_by", "risk_from", "recorded_as"} <= {edge.relation for edge in intent.edges}
            nodes = (await found.client.call("trace", {"ref": id, "depth": 4})).structured
            assert nodes["unresolved"] == []
            assert {edge.ref for edge in intent.edges} <= {node["ref"] for node in nodes["nodes"]}

    run(main())


def test_nothing_is_sent_before_the_intent_is_on_the_disk(tmp_path: Path, at: Venue, id: str) -> None:
    seen: list[Any] = []

    class Watched(LoopbackBroker):
        async def submit(self, order: Order) -> Report:
            with Ledger.read_only(tmp_path / "ledger.db") as ledger:
                seen.append(ledger.order(order.id))
            return await super().submit(order)

    async def main() -> None:
        async with desk(tmp_path, None) as found:
            found.trader.broker = Watched(at.port)
            await found.answer(id, IBM, AAPL)
            assert [(order.client_id, state.status) for order, state in seen] == [
                (leg(id), "sent"),
                (leg(id, 1), "sent"),
            ]

    run(main())


def test_a_leg_that_the_quote_rejects_is_not_sent(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            low = {**IBM, "order_type": "limit", "price": 1}
            answer = await found.answer(id, low, AAPL)
            assert [trade["status"] for trade in answer["trades"]] == ["rejected", "filled"]
            assert answer["trades"][0]["reject_code"] == "NOT_MARKETABLE"
            assert leg(id) not in at.submissions

    run(main())


# --- legs that lean on each other --------------------------------------------------------------

SALE: Final = {**IBM, "action": "sell", "quantity": 450}
WIDE: Final = {
    "max_position_weight": 1,
    "max_order_notional": 10**6,
    "max_var_95_1d": 1,
    "max_daily_loss": 1,
}


@pytest.mark.parametrize(
    ("became", "status", "reason", "bought"),
    [
        ("ok", "rejected", "INSUFFICIENT_FUNDS", 0),
        ("refuse", "rejected", "INSUFFICIENT_FUNDS", 0),
        ("reject", "rejected", "INSUFFICIENT_FUNDS", 0),
        ("fair", "filled", None, 140),
    ],
)
def test_a_purchase_is_sent_only_if_what_was_really_sold_pays_for_it(
    tmp_path: Path, at: Venue, id: str, became: str, status: str, reason: str | None, bought: int
) -> None:
    """The quote of IBM is near 190, the venue pays 20, and AAPL costs near 590."""
    first, second = f"{id}-1", f"{id}-2"
    fair = {**SALE, "order_type": "limit", "price": 185} if became == "fair" else SALE
    dear = {**AAPL, "quantity": 140, "order_type": "limit", "price": 600}

    async def main() -> None:
        async with desk(tmp_path, at, limits=WIDE) as found:
            await found.answer(first, {**IBM, "quantity": 450, "order_type": "limit", "price": 195})
            cash = await found.cash()
            at.tell({leg(second): became})
            trades = (await found.answer(second, fair, dear))["trades"]
            assert (trades[1]["status"], trades[1].get("reject_code")) == (status, reason)
            assert (leg(second, 1) in at.submissions) is bool(bought)
            assert (await found.holdings()).get("AAPL", 0) == bought
            assert await found.cash() >= 0
            assert (await found.cash() == cash) is (became in ("refuse", "reject"))
            assert await found.kinds() == ["intent", "trade"] * 2
            found.assert_sound()

    run(main())


@pytest.mark.parametrize("dear_first", [True, False])
def test_what_still_fits_is_sent_beside_a_leg_that_does_not(
    tmp_path: Path, at: Venue, id: str, dear_first: bool
) -> None:
    first, second = f"{id}-1", f"{id}-2"
    dear = {**AAPL, "quantity": 140}
    rest = [dear, MSFT] if dear_first else [MSFT, dear]

    async def main() -> None:
        async with desk(tmp_path, at, limits=WIDE) as found:
            await found.answer(first, {**IBM, "quantity": 450, "order_type": "limit", "price": 195})
            at.tell({leg(second): "refuse"})
            trades = (await found.answer(second, SALE, *rest))["trades"]
            became = {trade["symbol"]: trade["status"] for trade in trades}
            assert became == {"IBM": "rejected", "AAPL": "rejected", "MSFT": "filled"}
            assert await found.holdings() == {"IBM": 450, "MSFT": 6}
            found.assert_sound()

    run(main())


def test_shares_that_were_not_bought_are_not_sold(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "partial"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            trades = (await found.answer(id, IBM, {**IBM, "action": "sell"}))["trades"]
            assert [trade["status"] for trade in trades] == ["partial", "rejected"]
            assert trades[1]["reject_code"] == "INSUFFICIENT_POSITION"
            assert await found.holdings() == {"IBM": 5}
            assert leg(id, 1) not in at.submissions
            found.assert_sound()

    run(main())


def test_a_leg_that_breaks_a_limit_without_the_one_before_is_not_sent(
    tmp_path: Path, at: Venue, id: str
) -> None:
    """Half of IBM is sold before as much is bought again: without the sale, that is too much of it."""
    first, second = f"{id}-1", f"{id}-2"
    own = {**IBM, "quantity": 50, "order_type": "limit", "price": 195}

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.answer(first, own)
            at.tell({leg(second): "refuse"})
            trades = (await found.answer(second, {**IBM, "action": "sell", "quantity": 40}, own))["trades"]
            assert [trade["status"] for trade in trades] == ["rejected", "rejected"]
            assert trades[1]["reject_code"] == "RISK_LIMIT_EXCEEDED"
            assert await found.holdings() == {"IBM": 50}
            assert leg(second, 1) not in at.submissions

    run(main())


def test_legs_that_are_allowed_together_are_sent_one_by_one(tmp_path: Path, at: Venue, id: str) -> None:
    """A hundred of IBM are too much, and sixty are not."""

    async def main() -> None:
        async with desk(tmp_path, at, limits={"max_order_notional": 10**6}) as found:
            back = {**IBM, "action": "sell", "quantity": 40}
            trades = (await found.answer(id, MSFT, {**IBM, "quantity": 100}, back))["trades"]
            assert [trade["status"] for trade in trades] == ["filled"] * 3
            assert await found.code(f"{id}-2", {**IBM, "quantity": 40}) == "RISK_LIMIT_EXCEEDED"

    run(main())


def test_an_order_is_judged_on_all_that_a_broker_may_fill(tmp_path: Path, at: Venue, id: str) -> None:
    """On paper a thousandth of a day's volume is the most that fills; a broker knows no such cap."""

    async def main() -> None:
        thin = {"participation": 0.000001}
        async with desk(tmp_path, at, limits=WIDE, costs=thin) as found:
            assert await found.code(id, {**IBM, "quantity": 5_000}) == "INSUFFICIENT_FUNDS"
            assert leg(id) not in at.submissions

    run(main())


# --- answers that do not come ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "became"),
    [
        ("close-after", "filled"),
        ("hang-after", "filled"),
        ("garbage", "filled"),
        ("close-before", "rejected"),
        ("hang-before", "rejected"),
    ],
)
def test_silence_is_an_unknown_outcome_and_the_same_id_reconciles_it(
    tmp_path: Path, at: Venue, id: str, failure: str, became: str
) -> None:
    at.tell({leg(id): failure})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            error = (await found.trade(id)).envelope["error"]
            assert error["code"] == "OUTCOME_UNKNOWN"
            assert error["details"] == {
                "retryable": False,
                "order_ids": [leg(id)],
                "reconcile": "send the same tool_call_id again",
            }
            assert await found.kinds() == ["intent", "unknown"]
            assert await found.holdings() == {}
            at.tell({leg(id): "ok"})
            reply = await found.trade(id)
            (trade,) = reply.structured["execution"]["trades"]
            assert trade["status"] == became
            assert trade.get("reject_code") == (None if became == "filled" else "NEVER_ARRIVED")
            assert await found.holdings() == ({"IBM": 10} if became == "filled" else {})
            assert text(await found.trade(id)) == text(reply)
            assert await found.kinds() == ["intent", "unknown", "trade"]
            assert at.submissions[leg(id)] == 1
            found.assert_sound()

    run(main())


def test_what_is_known_is_booked_at_once_and_what_follows_a_silence_is_held_back(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id, 1): "close-after"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id, IBM, AAPL, MSFT) == "OUTCOME_UNKNOWN"
            assert await found.holdings() == {"IBM": 10}
            assert await found.kinds() == ["intent", "report", "unknown"]
            trades = (await found.answer(id, IBM, AAPL, MSFT))["trades"]
            assert [trade["status"] for trade in trades] == ["filled", "filled", "rejected"]
            assert [trade["price"] for trade in trades] == [20, 20, None]
            assert trades[2]["reject_code"] == "NOT_SENT"
            assert leg(id, 2) not in at.submissions
            assert await found.holdings() == {"AAPL": 4, "IBM": 10}
            found.assert_sound()

    run(main())


def test_what_the_time_of_the_call_is_too_short_for_is_not_sent(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH_S", 0.0)

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            trades = (await found.answer(id, IBM, AAPL))["trades"]
            assert [trade["reject_code"] for trade in trades] == ["NOT_SENT", "NOT_SENT"]
            assert leg(id) not in at.submissions

    run(main())


def test_a_broker_that_stays_silent_keeps_the_outcome_unknown_and_the_ledger_as_it_was(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            before = await found.kinds()
            assert [await found.code(id) for _ in range(3)] == ["OUTCOME_UNKNOWN"] * 3
            assert await found.kinds() == before
            at.tell({leg(id): "ok"})
            assert (await found.answer(id))["trades"][0]["status"] == "filled"
            assert at.submissions[leg(id)] == 1

    run(main())


def test_a_broker_that_cannot_be_reached_is_silent(tmp_path: Path, id: str) -> None:
    with venue(tmp_path / "orders.jsonl") as gone:
        pass

    async def main() -> None:
        async with desk(tmp_path / "home", gone) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            assert await found.code(id) == "OUTCOME_UNKNOWN"

    run(main())


def test_a_broker_that_was_started_again_still_knows_its_orders(tmp_path: Path, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path / "home", None) as found:
            with venue(tmp_path / "orders.jsonl") as first:
                first.tell({leg(id): "close-after"})
                found.trader.broker = LoopbackBroker(first.port)
                assert await found.code(id) == "OUTCOME_UNKNOWN"
            with venue(tmp_path / "orders.jsonl") as second:
                found.trader.broker = LoopbackBroker(second.port)
                assert (await found.answer(id))["trades"][0]["status"] == "filled"
                assert second.submissions == {}

    run(main())


def test_an_order_that_may_still_arrive_is_not_said_to_have_never_come(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id): "close-before"})
    clock = ManualClock(WALL_NS)

    async def main() -> None:
        async with desk(tmp_path, at, clock=clock, arrives_s=60) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            clock.advance(59)
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            clock.advance(1)
            assert (await found.answer(id))["trades"][0]["reject_code"] == "NEVER_ARRIVED"

    run(main())


def test_a_ledger_that_fails_after_the_send_is_an_unknown_outcome(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            with monkeypatch.context() as patch:

                def full(*_: object) -> None:
                    raise OSError("no space left")

                patch.setattr(outbox, "_book", full)
                assert await found.code(id) == "OUTCOME_UNKNOWN"
            assert (await found.answer(id))["trades"][0]["status"] == "filled"
            assert at.submissions[leg(id)] == 1

    run(main())


def test_an_order_of_another_broker_is_not_asked_for_at_this_one(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "close-before"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            found.trader.broker = LoopbackBroker(at.port, name="elsewhere")
            assert await found.code(id) == "OUTCOME_UNKNOWN"

    run(main())


# --- lies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_lie_is_silence_and_is_kept(tmp_path: Path, at: Venue, id: str, lie: str) -> None:
    at.tell({leg(id): lie})
    bounded = {**IBM, "order_type": "limit", "price": 1_000}

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            before = await found.cash()
            assert await found.code(id, bounded) == "OUTCOME_UNKNOWN"
            assert await found.code(id, bounded) == "OUTCOME_UNKNOWN"
            assert (await found.cash(), await found.holdings()) == (before, {})
            assert await found.kinds() == ["intent", "dispute", "unknown"], "the same lie is kept once"
            dispute = (await found.entries())[1]
            said = found.trader.desk.payloads.get(_ref(dispute, "reported_by").rsplit("/", 1)[1])
            assert said is not None
            assert json.loads(said) == {**at.orders[leg(id)], **LIES[lie]}
            assert dispute.body["problem"]
            assert _ref(dispute, "disputes") == f"tracedesk://trading/orders/{leg(id)}"
            at.tell({leg(id): "ok"})
            assert (await found.answer(id, bounded))["trades"][0]["status"] == "filled"
            assert await found.holdings() == {"IBM": 10}
            found.assert_sound()

    run(main())


def _ref(entry: Entry, relation: str) -> str:
    return next(edge.ref for edge in entry.edges if edge.relation == relation)


def test_an_order_that_never_came_and_was_traded_is_booked_as_a_surprise_and_disputed(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id): "never-came"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            reply = await found.trade(id)
            assert reply.structured["execution"]["trades"][0]["reject_code"] == "NEVER_ARRIVED"
            assert (await outbox.reconcile(found.trader)).surprises == []
            at.tell({leg(id): "ok"})
            assert (await outbox.reconcile(found.trader)).surprises == [leg(id)]
            assert await found.kinds() == ["intent", "unknown", "trade", "dispute", "surprise"]
            assert await found.holdings() == {"IBM": 10}
            assert await outbox.reconcile(found.trader) == outbox.Reconciled()
            assert text(await found.trade(id)) == text(reply), "an answer that was given stays"
            found.assert_sound()

    run(main())


@given(
    st.sampled_from(["market", "limit"]),
    st.sampled_from(["buy", "sell"]),
    st.sampled_from(["filled", "partial", "rejected"]),
    st.integers(-2, 12),
    st.one_of(st.none(), st.integers(-2, 300)),
    st.integers(-1, 2),
)
def test_only_what_can_be_true_of_an_order_is_believed(
    type: Any, side: Any, status: Any, traded: int, paid: int | None, fees: int
) -> None:
    order = Order("o", "a", Trade("IBM", side, 10, type, 200 if type == "limit" else None), 0, "o")
    heard = believed(order, Report("o", "IBM", status, traded, paid, fees))
    if heard.state is None:
        assert heard.problem
        return
    assert heard.state.filled == traded
    if heard.fill is None:
        assert (status, traded, fees) == ("rejected", 0, 0)
        return
    assert paid is not None
    assert 0 < traded <= 10
    assert (status == "filled") == (traded == 10)
    assert paid > 0
    assert fees >= 0
    if type == "limit":
        assert paid <= 200 if side == "buy" else paid >= 200


# --- ids, desks and accounts -------------------------------------------------------------------


def test_another_request_under_the_id_of_a_pending_one_is_a_conflict(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            before = await found.kinds()
            assert await found.code(id, AAPL) == "TOOL_CALL_ID_CONFLICT"
            assert await found.code(id, IBM, AAPL) == "TOOL_CALL_ID_CONFLICT"
            assert await found.kinds() == before
            assert at.submissions[leg(id)] == 1

    run(main())


def test_a_fill_is_booked_even_when_its_id_was_taken_in_the_meantime(
    tmp_path: Path, at: Venue, id: str
) -> None:
    class Overtaken(LoopbackBroker):
        async def submit(self, order: Order) -> Report:
            with (
                Ledger(tmp_path / "ledger.db", clock=ManualClock(WALL_NS)) as other,
                other.writing() as writer,
            ):
                writer.append(New("event", "default", WALL_NS, call=call(id)))
            return await super().submit(order)

    async def main() -> None:
        async with desk(tmp_path, None) as found:
            found.trader.broker = Overtaken(at.port)
            assert await found.code(id) == "TOOL_CALL_ID_CONFLICT"
            assert await found.kinds() == ["intent", "event", "report"]
            assert await found.holdings() == {"IBM": 10}
            found.assert_sound()

    run(main())


def test_nothing_is_added_to_an_account_with_an_unknown_order(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            before = await found.kinds()
            error = (await found.trade(f"{id}-2", AAPL)).envelope["error"]
            assert error["code"] == "NETWORK_ERROR"
            assert error["details"] == {"retryable": True, "order_ids": [leg(id)]}
            assert leg(f"{id}-2") not in at.submissions
            assert await found.kinds() == before
            at.tell({leg(id): "ok"})
            assert (await found.answer(f"{id}-2", AAPL))["trades"][0]["status"] == "filled"
            assert await found.holdings() == {"AAPL": 4, "IBM": 10}
            replay = await found.trade(id)
            assert replay.json["result"]["_meta"]["tracedesk/replayed"] is True, "answered on the way"

    run(main())


def test_two_desks_with_the_same_call_send_it_once_and_answer_alike(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell(delay_s=0.02)

    async def main() -> None:
        async with desk(tmp_path, at) as one, desk(tmp_path, at) as two:
            await one.answer(f"{id}-one")
            await two.answer(f"{id}-two")
            for n in range(5):
                replies = await asyncio.gather(
                    one.trade(f"{id}-{n}"), two.trade(f"{id}-{n}"), one.trade(f"{id}-{n}")
                )
                assert len({text(reply) for reply in replies}) == 1
                assert replies[0].structured["execution"]["trades"][0]["status"] == "filled"
                assert at.submissions[leg(f"{id}-{n}")] == 1
            assert await two.holdings() == {"IBM": 70}
            one.assert_sound()

    run(main())


def test_calls_of_one_account_are_sent_one_after_the_other(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell(delay_s=0.01)

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            replies = await asyncio.gather(*(found.trade(f"{id}-{n}") for n in range(4)))
            assert {r.structured["execution"]["trades"][0]["status"] for r in replies} == {"filled"}
            assert await found.kinds() == ["intent", "trade"] * 4

    run(main())


def test_a_desk_that_opens_answers_what_a_dead_one_left(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as dead:
            assert await dead.code(id) == "OUTCOME_UNKNOWN"
        at.tell({leg(id): "ok"})
        async with desk(tmp_path, at) as found:
            assert await outbox.reconcile(found.trader) == outbox.Reconciled(booked=[leg(id)])
            assert await found.holdings() == {"IBM": 10}
            reply = await found.trade(id)
            assert reply.json["result"]["_meta"]["tracedesk/replayed"] is True
            assert reply.structured["execution"]["trades"][0]["status"] == "filled"
            found.assert_sound()

    run(main())


def test_a_silent_broker_does_not_hold_up_a_desk_that_opens(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            assert await outbox.reconcile(found.trader) == outbox.Reconciled(unknown=[leg(id)])
            at.tell({leg(id): "ok"})
            with monkeypatch.context() as patch:
                patch.setattr(outbox, "BATCH_S", 0.0)
                assert await outbox.reconcile(found.trader) == outbox.Reconciled(unknown=[leg(id)])
            assert (await outbox.reconcile(found.trader)).booked == [leg(id)]

    run(main())


def test_a_call_that_waits_too_long_for_another_of_its_account_is_told_to_come_again(
    tmp_path: Path, at: Venue, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LOCK_S", 0.05)

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.answer(f"{id}-first")
            (lock,) = (tmp_path / "run").glob("outbox-*.lock")
            before = await found.kinds()
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                error = (await found.trade(id)).envelope["error"]
                assert await outbox.reconcile(found.trader) == outbox.Reconciled()
            assert error["code"] == "RATE_LIMITED"
            assert error["details"] == {"retryable": True, "retry_after_s": 1}
            assert await found.kinds() == before
            assert (await found.answer(id))["trades"][0]["status"] == "filled"

    run(main())


# --- what does not depend on the moment --------------------------------------------------------


def test_a_pending_call_is_reconciled_while_the_market_is_closed(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "close-after"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            await close_the_market(found)
            assert await found.code(f"{id}-2") == "MARKET_CLOSED"
            assert (await found.answer(id))["trades"][0]["status"] == "filled"

    run(main())


def test_a_pending_call_is_reconciled_after_its_simulation_is_forgotten(
    tmp_path: Path, at: Venue, id: str
) -> None:
    at.tell({leg(id): "close-after"})
    simulated = {"symbol": "IBM", "action": "buy", "quantity": 10}

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            await found.call("trade_simulate", "sim", trades=[simulated])
            assert await found.code(id, simulation_ref="sim") == "OUTCOME_UNKNOWN"
        async with desk(tmp_path, at) as found:
            assert (await found.answer(id, simulation_ref="sim"))["trades"][0]["status"] == "filled"

    run(main())


def test_a_simulation_is_answered_beside_a_pending_order(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            answer = await found.call(
                "trade_simulate", trades=[{"symbol": "AAPL", "action": "buy", "quantity": 1}]
            )
            assert answer["simulation"]["trades"][0]["status"] == "filled"

    run(main())


@pytest.mark.parametrize(("symbol", "is_quoted"), [("AAPL", True), ("ZZZ", False)])
def test_what_came_to_be_held_since_is_valued_by_its_quote_or_the_answer_waits(
    tmp_path: Path, at: Venue, id: str, symbol: str, is_quoted: bool
) -> None:
    at.tell({leg(id): "mute"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id) == "OUTCOME_UNKNOWN"
            write_elsewhere(tmp_path, trading("bought", symbol))
            at.tell({leg(id): "ok"})
            if not is_quoted:
                assert await found.code(id) == "DATA_UNAVAILABLE"
                assert await found.holdings() == {"IBM": 10, symbol: 10}, "it is booked all the same"
                write_elsewhere(tmp_path, trading("sold", symbol, "sell"))
            assert (await found.answer(id))["trades"][0]["status"] == "filled"
            assert await found.holdings() == ({"IBM": 10, symbol: 10} if is_quoted else {"IBM": 10})
            found.assert_sound()

    run(main())


# --- refusals ----------------------------------------------------------------------------------


def test_a_broker_without_its_owners_consent_gets_nothing(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, at, live_trading=False) as found:
            error = (await found.trade(id)).envelope["error"]
            assert (error["code"], error["details"]) == ("EXECUTION_DISABLED", {"retryable": False})
            assert await found.kinds() == []
            assert leg(id) not in at.submissions

    run(main())


@pytest.mark.parametrize("until", ["day", "gtc"])
def test_an_order_that_would_rest_at_the_broker_is_refused(
    tmp_path: Path, at: Venue, id: str, until: str
) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            resting = {**IBM, "order_type": "limit", "price": 1, "time_in_force": until}
            error = (await found.trade(id, AAPL, resting)).envelope["error"]
            assert error["code"] == "INVALID_INPUT"
            assert error["details"]["path"] == ["trades", 1, "time_in_force"]
            assert await found.kinds() == []
            assert leg(id) not in at.submissions

    run(main())


def test_what_the_limits_forbid_is_not_sent(tmp_path: Path, at: Venue, id: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, at) as found:
            assert await found.code(id, {**IBM, "quantity": 400}) == "RISK_LIMIT_EXCEEDED"
            assert await found.kinds() == ["refusal"]
            assert leg(id) not in at.submissions

    run(main())
