"""A short storm; `tests/judges/test_exchange_faults.py` has the long one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.exchange.orders.storm import check, storm


def test_no_order_is_doubled_or_lost_while_exchange_and_network_fail(tmp_path: Path) -> None:
    async def main() -> None:
        async with storm(tmp_path, rounds=30, accounts=24, kills=1, seed=7) as it:
            fates = await check(it)
            assert fates.total() >= 30
            assert it.killed >= 1
            assert {fate.partition(" -> ")[0] for fate in fates} >= {"placed", "OUTCOME_UNKNOWN"}

    asyncio.run(asyncio.wait_for(main(), 100))
