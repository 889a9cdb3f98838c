"""Legs that lean on each other: each is sent only if what the ones before it really became allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support import run
from tests.trading.loopback_broker import Venue
from tests.trading.outbox_desks import (
    AAPL,
    IBM,
    MSFT,
    desk,
    leg,
)

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
            trades = await found.trades(second, fair, dear)
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
            trades = await found.trades(second, SALE, *rest)
            became = {trade["symbol"]: trade["status"] for trade in trades}
            assert became == {"IBM": "rejected", "AAPL": "rejected", "MSFT": "filled"}
            assert await found.holdings() == {"IBM": 450, "MSFT": 6}
            found.assert_sound()

    run(main())


def test_shares_that_were_not_bought_are_not_sold(tmp_path: Path, at: Venue, id: str) -> None:
    at.tell({leg(id): "partial"})

    async def main() -> None:
        async with desk(tmp_path, at) as found:
            trades = await found.trades(id, IBM, {**IBM, "action": "sell"})
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
            trades = await found.trades(second, {**IBM, "action": "sell", "quantity": 40}, own)
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
            trades = await found.trades(id, MSFT, {**IBM, "quantity": 100}, back)
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
