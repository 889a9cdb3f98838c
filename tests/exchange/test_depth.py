"""Books in answers: whole where there is room, else cut alike on both sides, with what was left out told."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.desks import Agent, agent
from tests.support import run
from tracedesk.exchange.depth import fitted, room
from tracedesk.exchange.units import units
from tracedesk.primitives import json
from tracedesk.primitives.tokens import estimate

_TICK = units("0.01")
_ROW = st.tuples(st.text("0123456789.", min_size=1, max_size=24), st.text("0123456789.", min_size=1)).map(
    list
)
_SIDE = st.lists(_ROW, max_size=60)


def deepen(client: Agent, bids: int, asks: int) -> None:
    """Let so many more levels rest on each side."""
    venue = client.market.exchange.venue
    for level in range(bids):
        venue.flow_limit("BTCUSDT", "BUY", units("49000") - level * _TICK, units("0.12345"))
    for level in range(asks):
        venue.flow_limit("BTCUSDT", "SELL", units("51000") + level * _TICK, units("0.12345"))


async def book(client: Agent, tool: str = "get_orderbook", **arguments: Any) -> tuple[dict[str, Any], int]:
    """A book, and how many tokens its answer is estimated to cost."""
    reply = await client.raw(tool, symbol="BTCUSDT", **arguments)
    return reply.structured, estimate(reply.json["result"]["content"][0]["text"])


def test_a_deep_book_is_cut_alike_on_both_sides_to_the_token_budget(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            deepen(client, 3000, 3000)
            raw = (await client.market.get("depth", symbol="BTCUSDT", limit=5000)).body
            found, tokens = await book(client, limit=5000)
            assert (found["truncated"], tokens <= 8000) == (True, True)
            kept = len(found["bids"])
            assert kept == len(found["asks"]) > 300
            assert found["bids"][0][0] == "50000.00"
            assert [float(p) for p, _ in found["bids"]] == [float(p) for p, _ in raw["bids"][:kept]]
            assert [float(p) for p, _ in found["asks"]] == [float(p) for p, _ in raw["asks"][:kept]]
            assert found["left_out"] == {s: len(raw[s]) - kept for s in ("bids", "asks")}
            # One more level of each side would not have fitted.
            more = {**found, **{s: [*found[s], found[s][-1]] for s in ("bids", "asks")}}
            assert estimate(json.dumps(more)) > 8000

    run(main())


def test_a_side_that_has_few_levels_leaves_its_room_to_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            deepen(client, 0, 3000)
            found, tokens = await book(client, limit=5000)
            assert tokens <= 8000
            assert found["left_out"]["bids"] == 0
            # About twice as many as where both sides are deep.
            assert len(found["asks"]) > 900
            assert len(found["asks"]) + found["left_out"]["asks"] > 3000

    run(main())


def test_a_book_that_fits_is_whole_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            deepen(client, 300, 300)
            found, _ = await book(client)
            assert (len(found["bids"]), len(found["asks"])) == (100, 100)
            assert found["truncated"] is False
            assert "left_out" not in found

    run(main())


@pytest.mark.parametrize(
    "limits", [{"max_tokens": 500}, {"max_bytes": 1500}, {"max_tokens": 10**6, "max_bytes": 20_000}]
)
def test_the_smaller_of_both_limits_holds_for_books_of_the_venue_and_of_the_stream(
    tmp_path: Path, limits: dict[str, int]
) -> None:
    async def main() -> None:
        async with agent(tmp_path, None, **cast("Any", limits)) as client:
            deepen(client, 900, 900)
            most = room(limits.get("max_tokens", 8000), limits.get("max_bytes", 1 << 20))
            for tool, arguments in (
                ("get_orderbook", {"limit": 1000}),
                ("orderbook_l2", {"depth_levels": 100}),
                ("get_orderbook", {"limit": 500}),
            ):
                reply = await client.raw(tool, symbol="BTCUSDT", **arguments)
                found = reply.structured
                assert len(reply.json["result"]["content"][0]["text"].encode()) <= most, tool
                if tool == "get_orderbook" or most < 5000:
                    assert found["truncated"] is True
                    assert found["left_out"]["bids"] == found["left_out"]["asks"] > 0
            assert found["source"] == "stream"

    run(main())


def test_totals_of_a_cut_book_are_of_all_levels_that_were_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            deepen(client, 200, 200)
            whole, _ = await book(client, "orderbook_l2", depth_levels=100)
        async with agent(tmp_path, max_tokens=400) as client:
            deepen(client, 200, 200)
            cut, tokens = await book(client, "orderbook_l2", depth_levels=100)
        assert tokens <= 400
        assert (whole["truncated"], cut["truncated"]) == (False, True)
        for name in ("bid_volume", "ask_volume", "imbalance"):
            assert cut[name] == whole[name]
        assert len(cut["bids"]) + cut["left_out"]["bids"] == len(whole["bids"]) == 100

    run(main())


@given(_SIDE, _SIDE, st.integers(0, 6000))
def test_what_is_kept_and_left_out_is_the_book_and_stays_within_the_room(
    bids: list[list[str]], asks: list[list[str]], most: int
) -> None:
    body = {"symbol": "BTCUSDT", "bids": bids, "asks": asks, "age_ms": 0}
    found = fitted(body, most)
    for side, levels in (("bids", bids), ("asks", asks)):
        kept = found[side]
        assert kept == levels[: len(kept)]
        assert len(kept) + found.get("left_out", {}).get(side, 0) == len(levels)
        assert kept or not levels
    lengths = [len(found[side]) for side, levels in (("bids", bids), ("asks", asks)) if found[side] != levels]
    assert len(set(lengths)) <= 1
    assert found["truncated"] is bool(lengths)
    assert len(json.dumps(found)) <= most or max(len(found["bids"]), len(found["asks"])) <= 1
