"""The day's loss: what the day began with counts, whatever was sold or bought since."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from tests.support import run
from tests.trading.desks import Agent, agent
from tests.trading.test_limits_walks import broken, code, leg, move
from tracedesk.market import ReplayClock
from tracedesk.primitives.time import parse

LOOSE: Final = {"max_position_weight": 1, "max_order_notional": 1_000_000, "max_var_95_1d": 1}
TABLE: Final[dict[str, Any]] = {"limits": LOOSE, "clock": "2013-01-23T15:00:00Z"}
"""The day before AAPL opens a tenth lower."""


async def fall(found: Agent, at: str) -> None:
    await found.buy("AAPL", 150)
    await move(found, lambda clock: clock.set(parse(at).ns))


def test_selling_what_was_lost_with_does_not_end_the_days_loss(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, TABLE) as found:
            await fall(found, "2013-01-24T15:00:00Z")
            assert await broken(found, leg("IBM", "buy", 1)) == ["max_daily_loss"]
            assert await code(found, leg("AAPL", "sell", 150)) is None
            assert await broken(found, leg("IBM", "buy", 1)) == ["max_daily_loss"]

    run(main())


def test_a_sale_at_the_open_itself_is_the_days_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, TABLE) as found:
            await fall(found, "2013-01-24T14:30:00Z")
            assert await code(found, leg("AAPL", "sell", 150)) is None
            assert await broken(found, leg("IBM", "buy", 1)) == ["max_daily_loss"]

    run(main())


def test_what_is_bought_at_the_open_has_not_lost_what_was_lost_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, TABLE) as found:
            await move(found, ReplayClock.to_close)
            await move(found, ReplayClock.to_open)
            assert await code(found, leg("AAPL", "buy", 150)) is None
            assert await code(found, leg("IBM", "buy", 1)) is None

    run(main())


def test_the_split_of_an_open_is_no_loss(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"limits": LOOSE, "clock": "2005-02-25T15:00:00Z"}) as found:
            await found.buy("AAPL", 500)
            await move(found, ReplayClock.to_close)
            await move(found, ReplayClock.to_open)
            (row,) = (await found.call("get_portfolio"))["portfolio"]["positions"]
            assert Decimal(row["quantity"]) == 1000
            assert await code(found, leg("IBM", "buy", 1)) is None

    run(main())
