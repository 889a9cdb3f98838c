"""Hundreds of orders through kills, cuts, skewed clocks, bans, errors after acceptance and garbage."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scripts.proof.record import Recorder
from tests.exchange.orders.network import TROUBLES
from tests.exchange.orders.storm import FAULTS, GARBAGE, check, storm
from tests.judges.size import Size


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_no_order_is_doubled_or_lost_in_many_rounds_and_callers_are_told_the_truth(
    tmp_path: Path, size: Size, prove: Recorder
) -> None:
    rounds, kills = size.of(judge=(500, 20), prove=(1_000, 40))

    async def main() -> None:
        async with storm(tmp_path, rounds=rounds, accounts=60, kills=kills, seed=2026) as it:
            fates = await check(it)
            print(dict(fates), dict(it.held_back), dict(it.hits), it.killed, it.skewed)
            assert fates.total() >= rounds
            assert it.killed >= kills
            assert it.skewed > 0
            # Each kind of trouble has met orders, or nothing is shown of it.
            assert all(it.hits[fault["kind"]] >= 10 for fault in FAULTS)
            assert it.hits[GARBAGE["kind"]] > 0
            met = {trouble for network in it.networks for trouble in network.met}
            assert met == set(TROUBLES) - {"none"}
            assert {fate.partition(" -> ")[0] for fate in fates} >= {
                "placed",
                "OUTCOME_UNKNOWN",
                "RATE_LIMITED",
            }

    asyncio.run(asyncio.wait_for(main(), size.of(judge=800, prove=3_000)))
    prove.record("exchange-faults", 0, seeds=[2026], details={"rounds": rounds, "kills": kills})
