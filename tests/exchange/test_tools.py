"""The tools as an agent calls them: every one of them, over a real exchange on the wire."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.exchange.desks import BUY, Agent, agent, text
from tests.exchange.test_watches import Ear
from tests.support import HELLO, rpc, run, until
from tracedesk import contracts
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.credentials.keys import Keys
from tracedesk.exchange.leases import Leases
from tracedesk.exchange.units import units
from tracedesk.exchange.watches import Watches
from tracedesk.toolsets import load
from tracedesk.wire.auth import Tokens
from tracedesk.wire.publish import describe

ORIGIN = [
    "get_ticker", "get_orderbook", "get_recent_trades", "get_klines", "get_exchange_info", "get_avg_price",
    "get_account", "get_my_trades", "place_order", "get_order", "cancel_order", "get_open_orders",
    "get_all_orders", "orderbook_l1", "orderbook_l2", "orderbook_health", "get_order_flow",
    "get_volume_profile", "detect_market_anomalies", "get_microstructure_health", "get_liquidity_vacuums",
]  # fmt: skip
ADDED = ["connect", "preview_order", "provider_status", "kill_switch", "generate_market_report"]
MARKET = {"symbol": "BTCUSDT"}
READS: list[tuple[str, dict[str, Any]]] = [
    ("get_ticker", MARKET),
    ("get_orderbook", MARKET),
    ("get_recent_trades", MARKET),
    ("get_klines", {**MARKET, "interval": "1m"}),
    ("get_exchange_info", MARKET),
    ("get_avg_price", MARKET),
    ("get_account", {}),
    ("get_my_trades", MARKET),
    ("get_open_orders", {}),
    ("get_all_orders", MARKET),
    ("orderbook_l1", MARKET),
    ("orderbook_l2", MARKET),
    ("orderbook_health", MARKET),
    ("get_order_flow", MARKET),
    ("get_volume_profile", MARKET),
    ("detect_market_anomalies", MARKET),
    ("get_microstructure_health", MARKET),
    ("get_liquidity_vacuums", MARKET),
    ("connect", {}),
    ("provider_status", {}),
    ("generate_market_report", MARKET),
]


def test_the_origins_21_tools_and_five_more_are_declared() -> None:
    _, exchange = load(["exchange"])
    assert sorted(exchange.tools) == sorted([*ORIGIN, *ADDED]) == sorted(contracts.names("exchange"))


def test_the_toolsets_part_of_the_list_fits_into_20_kb() -> None:
    _, exchange = load(["exchange"])
    entries = [describe(tool, "2026-07-28") for tool in exchange.tools.values()]
    assert len(json.dumps(entries, separators=(",", ":"))) <= 20_000


def test_importing_the_tools_imports_nothing_heavy() -> None:
    program = (
        "import sys, tracedesk.exchange.tools as t; "
        "print([m for m in ('aiohttp', 'cryptography', 'numpy', 'grpc') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_tool_that_reads_answers_by_its_contract_and_names_the_mode(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            for tool, arguments in READS:
                answer = await owner.call(tool, **arguments)
                assert answer["mode"] == "testnet", tool

    run(main())


def test_market_data_is_what_the_exchange_has(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            ticker = await client.call("get_ticker", symbol="btcusdt")
            assert (ticker["symbol"], ticker["last_price"]) == ("BTCUSDT", "50001.00000000")
            book = await client.call("get_orderbook", symbol="BTCUSDT", limit=5)
            assert book["bids"][0] == ["50000.00", "1.00000"]
            assert book["asks"][0] == ["50001.00", "0.90000"]
            trades = await client.call("get_recent_trades", symbol="BTCUSDT", limit=1)
            row = dict(zip(trades["columns"], trades["rows"][0], strict=True))
            assert (row["price"], row["quantity"], row["buyer_is_maker"]) == (
                "50001.00000000",
                "0.10000000",
                False,
            )
            assert row["time"].endswith("Z")
            candles = await client.call("get_klines", symbol="BTCUSDT", interval="1h")
            rows = [dict(zip(candles["columns"], row, strict=True)) for row in candles["rows"]]
            traded = [(row["close"], row["trades"]) for row in rows if row["trades"]]
            assert traded == [("50001.00000000", 1)]
            assert (await client.call("get_avg_price", symbol="BTCUSDT"))["price"] == "50001.00000000"

    run(main())


def test_a_followed_book_is_told_from_the_stream_and_keeps_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            assert (await client.call("get_orderbook", symbol="BTCUSDT"))["source"] == "rest"
            before = await client.call("orderbook_l1", symbol="BTCUSDT")
            assert (before["best_bid"], before["best_ask"]) == ("50000.00", "50001.00")
            client.market.exchange.venue.flow_limit("BTCUSDT", "BUY", units("50000.50"), units("3"))
            market = client.provider.link.current.feeds.market("BTCUSDT")  # pyright: ignore[reportOptionalMemberAccess]
            assert market is not None
            await until(
                lambda: (
                    market.touch() is not None and market.sync.book.best_bid() == (5000050000000, 300000000)
                )
            )
            book = await client.call("get_orderbook", symbol="BTCUSDT", limit=5)
            assert (book["source"], book["bids"][0]) == ("stream", ["50000.50", "3.00000"])
            levels = await client.call("orderbook_l2", symbol="BTCUSDT", depth_levels=5)
            assert levels["bids"][0] == ["50000.50", "3.00000"]
            assert (levels["bid_volume"], levels["ask_volume"]) == ("11.00000", "7.90000")

    run(main())


def test_the_rules_of_a_symbol_and_the_list_of_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            [rules] = (await client.call("get_exchange_info", symbol="ethbtc"))["symbols"]
            assert (rules["base"], rules["quote"]) == ("ETH", "BTC")
            assert {each["filterType"] for each in rules["filters"]} >= {
                "PRICE_FILTER",
                "LOT_SIZE",
                "NOTIONAL",
            }
            listed = (await client.call("get_exchange_info"))["symbols"]
            assert {"symbol": "BTCUSDT", "status": "TRADING", "base": "BTC", "quote": "USDT"} in listed

    run(main())


def test_a_long_list_of_symbols_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, max_tokens=60) as client:
            seen: list[str] = []
            cursor: dict[str, Any] = {}
            while True:
                answer = await client.call("get_exchange_info", **cursor)
                seen += [row["symbol"] for row in answer["symbols"]]
                if not answer["truncated"]:
                    break
                cursor = {"cursor": answer["nextCursor"]}
            assert len(seen) == len(set(seen))
            assert {"BTCUSDT", "ETHBTC"} <= set(seen)
            assert cursor

    run(main())


def test_too_little_data_is_a_result_that_says_what_is_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for tool in ("get_order_flow", "get_volume_profile", "detect_market_anomalies"):
                answer = await client.call(tool, symbol="BTCUSDT")
                assert answer["status"] == "insufficient_data", tool
                assert answer["needed"], tool
                assert {"window_requested", "window_covered", "method", "sample_size"} <= answer.keys(), tool

    run(main())


def test_an_order_is_previewed_placed_seen_and_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            placed = await owner.placed()
            assert (placed["status"], placed["mode"], placed["account"]) == ("NEW", "testnet", "testnet/main")
            [order] = (await owner.call("get_open_orders"))["orders"]
            assert (order["order_id"], order["client_order_id"]) == (
                placed["order_id"],
                placed["client_order_id"],
            )
            assert order["placed_at"].endswith("Z")
            by_id = await owner.call("get_order", symbol="BTCUSDT", order_id=placed["order_id"])
            named = placed["client_order_id"]
            assert by_id == await owner.call("get_order", symbol="BTCUSDT", orig_client_order_id=named)
            gone = await owner.call("cancel_order", symbol="btcusdt", order_id=placed["order_id"])
            assert gone["mode"] == "testnet"
            assert (await owner.call("get_open_orders", symbol="BTCUSDT"))["orders"] == []
            [past] = (await owner.call("get_all_orders", symbol="BTCUSDT"))["orders"]
            assert past["status"] == "CANCELED"

    run(main())


def test_a_fill_is_in_trades_and_balances(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            market = {"symbol": "BTCUSDT", "side": "BUY", "order_type": "MARKET", "quantity": "0.01"}
            token = (await owner.call("preview_order", **market))["preview_token"]
            assert (await owner.call("place_order", **market, preview_token=token))["status"] == "FILLED"
            trades = await owner.call("get_my_trades", symbol="BTCUSDT")
            row = dict(zip(trades["columns"], trades["rows"][0], strict=True))
            assert (row["side"], row["price"], row["quantity"]) == ("BUY", "50001.00000000", "0.01000000")
            held = {row["asset"]: row for row in (await owner.call("get_account"))["balances"]}
            assert held["BTC"]["total"] == "10.00999000"

    run(main())


def test_an_orders_audit_is_a_reference_that_can_be_followed(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            placed = await owner.placed()
            source = await owner.call("get_source", ref=placed["ref"])
            assert placed["client_order_id"] in text(source)
            assert (
                "error"
                in (await client.raw("get_source", ref=placed["ref"])).json["result"]["content"][0]["text"]
            )

    run(main())


def test_an_orders_audit_is_for_who_placed_it_and_the_owner_in_every_mode(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            tokens = Tokens(tmp_path)
            trader = client.bearing(tokens.issue("trader", ("read", "trade")))
            other = client.bearing(tokens.issue("other", ("read", "trade")))
            reader = client.bearing(tokens.issue("reader", ("read",)))
            placed = await trader.placed()
            cancelled = await trader.call(
                "cancel_order", symbol="BTCUSDT", orig_client_order_id=placed["client_order_id"]
            )
            refs = (placed["intent_ref"], placed["ref"], cancelled["ref"])
            own = (await other.placed())["ref"]
            killed = await trader.call("kill_switch", reason="enough")
            refs = (*refs, killed["ref"])
            for ref in refs:
                for allowed in (trader, client.owner()):
                    assert await allowed.finds(ref), ref
                for stranger in (client, reader, other):
                    await stranger.call("provider_status")
                    assert not await stranger.finds(ref), ref
            assert await other.finds(own)
            assert not await trader.finds(own)
        async with agent(tmp_path, {"mode": "sim"}) as client:
            for ref in refs:
                assert await client.owner().finds(ref)
                assert not await client.finds(ref)

    run(main())


def test_the_kill_switch_cancels_everything_and_refuses_what_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            await owner.placed()
            killed = await owner.call("kill_switch", reason="enough for today")
            assert killed["halted"]["reason"] == "enough for today"
            assert len(killed["cancelled"]) == 1
            assert (await owner.call("get_open_orders"))["orders"] == []
            assert (await owner.refused("preview_order", **BUY))["code"] == "HALTED"
            assert (await owner.call("provider_status"))["orders"]["halted"]["reason"] == "enough for today"

    run(main())


@pytest.mark.parametrize("mode", ["testnet", "live"])
def test_clients_and_probes_are_told_the_mode_before_they_ask(tmp_path: Path, mode: str) -> None:
    async def main() -> None:
        async with agent(tmp_path, mode=mode) as client:
            money = "yes" if mode == "live" else "no"
            discovered = (await client.client.modern("server/discover")).json["result"]
            assert f"exchange (mode: {mode}, real money: {money}): call" in discovered["instructions"]
            begun = (await client.client.post("/mcp", rpc("initialize", HELLO))).json["result"]
            assert begun["instructions"] == discovered["instructions"]
            health = (await client.client.request("GET", "/health")).json
            assert health["settings"] == {"exchange": {"mode": mode, "real money": money}}

    run(main())


def test_orders_without_an_outcome_are_told_to_whom_they_concern(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"mode": "sim"}) as client:
            own = client.provider.accounts
            own.bring("anonymous", Keys("k" * 32, secret="s" * 32))
            mine = (await own.of(Caller.of_scope("anonymous", None))).name
            seen = {
                (who, name): own.knows(Caller.of_scope(f"{who}:x", None if who == "anonymous" else who), name)
                for who in ("anonymous", "owner")
                for name in ("sim/default", "live/main", mine)
            }
            assert [name for (who, name), yes in seen.items() if who == "anonymous" and yes] == [
                "sim/default"
            ]
            assert [name for (who, name), yes in seen.items() if who == "owner" and not yes] == [mine]
            assert own.knows(Caller.of_scope("anonymous", None), mine)

    run(main())


def test_what_only_looks_like_a_symbol_is_none_and_reaches_no_venue(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            for name in ("btcu\u017fdt", "\u00e9" * 3_000, "BTC USDT&x=1"):
                for tool, more in (
                    ("get_ticker", {}),
                    ("orderbook_l1", {}),
                    ("cancel_order", {"order_id": 1}),
                ):
                    error = await owner.refused(tool, symbol=name, **more)
                    assert error["code"] == "INVALID_SYMBOL", (tool, name)
                    assert len(error["message"]) < 300
            ledger = client.provider.orders.ledger
            assert (
                ledger.resolve(f"tracedesk://exchange/{time.strftime('orders-%Y-%m', time.gmtime())}/1")
                is None
            )

    run(main())


def test_a_round_that_fails_is_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with agent(tmp_path):
            rounds = list[str]()

            def fails(self: object) -> None:
                rounds.append(type(self).__name__)
                raise KeyError("filterType")

            async def fails_too(self: object) -> None:
                fails(self)

            monkeypatch.setattr(Leases, "sweep", fails)
            monkeypatch.setattr(Watches, "renew", fails_too)
            await until(lambda: rounds.count("Leases") > 1 and rounds.count("Watches") > 1)
            monkeypatch.undo()

    run(main())


def test_strangers_make_room_for_who_has_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"max_markets": 2}) as client:
            ear = Ear("binance://market/ethusdt", "anonymous", None)
            await client.provider.watches.begin(ear, "ethusdt")
            await client.call("orderbook_health", symbol="SOLUSDT")
            assert (await client.refused("orderbook_health", symbol="BTCUSDT"))["code"] == "LIMIT_EXCEEDED"
            owner = client.owner()
            assert (await owner.call("preview_order", **BUY))["preview_token"]
            feeds = (await client.provider.site()).feeds
            assert {market.symbol for market in feeds.markets()} == {"BTCUSDT", "SOLUSDT"}
            await owner.call("orderbook_health", symbol="SOLUSDT")
            assert (await owner.refused("orderbook_health", symbol="ETHUSDT"))["code"] == "LIMIT_EXCEEDED"
            client.provider.ended("principal:owner")
            await client.provider.watches.renew()
            told = len(ear.times)
            await until(lambda: len(ear.times) > told)

    run(main())


def test_a_stranger_does_not_keep_the_dead_mans_timer_from_running_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            alive = list[str]()
            monkeypatch.setattr(client.provider.orders, "alive", lambda: alive.append("yes"))
            for tool, arguments in (
                *READS[:2],
                ("orderbook_l1", MARKET),
                ("provider_status", {}),
                ("connect", {}),
            ):
                await client.call(tool, **arguments)
                assert alive == [], tool
                await client.owner().call(tool, **arguments)
                assert alive, tool
                alive.clear()

    run(main())


def test_an_order_without_an_answer_is_told_from_what_this_desk_knows_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            token = (await owner.call("preview_order", **BUY))["preview_token"]
            client.market.exchange.faults.set({"kind": "drop_before", "on": "order.place", "times": 1})
            lost = await owner.refused("place_order", **BUY, preview_token=token)
            assert lost["code"] == "OUTCOME_UNKNOWN"
            name = lost["details"]["client_order_id"]
            told = await owner.call("get_order", symbol="BTCUSDT", orig_client_order_id=name)
            assert (told["source"], told["order"]["status"]) == ("ledger", "UNKNOWN")
            assert (told["order"]["quantity"], told["order"]["executed_quantity"]) == ("0.01", "0")
            assert await owner.finds(told["order"]["ref"])
            for wrong in ({"symbol": "ETHUSDT"}, {"orig_client_order_id": "td-" + "0" * 32}):
                asked = {"symbol": "BTCUSDT", "orig_client_order_id": name, **wrong}
                assert (await owner.refused("get_order", **asked))["code"] == "INVALID_PARAMETER"

    run(main())


def test_a_desk_that_reads_only_serves_no_tool_that_trades(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"profiles": {}, "profile": ""}, mode="read_only") as client:
            names = {t["name"] for t in (await client.client.modern("tools/list")).json["result"]["tools"]}
            assert names.isdisjoint({"preview_order", "place_order", "cancel_order", "kill_switch"})
            assert (await client.call("get_ticker", symbol="BTCUSDT"))["mode"] == "read_only"

    run(main())


def test_what_trades_needs_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for tool in ("preview_order", "place_order", "cancel_order", "kill_switch"):
                reply = await client.raw(tool, **BUY)
                assert reply.status == 401, tool
                assert "trade" in reply.json["error"]["message"]

    run(main())


def test_the_status_tells_the_venue_its_limits_and_what_is_followed(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            fresh = await client.call("provider_status")
            assert fresh["venue"] == {"name": "testnet", "connected": False}
            assert fresh["markets"] == []
            await client.call("orderbook_l2", symbol="BTCUSDT")
            known = await client.call("provider_status")
            assert known["venue"]["limits"]["weight_limit"] == 6000
            assert [market["symbol"] for market in known["markets"]] == ["BTCUSDT"]
            assert known["real_money"] is False
            assert "caps" not in known["orders"]
            assert "caps" in (await client.owner().call("provider_status"))["orders"]

    run(main())


def test_the_21st_market_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"max_markets": 1}) as client:
            session = await client.session()
            first = await session.client.post("/mcp", _call("orderbook_l2", symbol="BTCUSDT"))
            assert first.json["result"]["isError"] is False
            refused = await client.refused("orderbook_l2", symbol="ETHUSDT")
            assert refused["code"] == "LIMIT_EXCEEDED"
            assert "close a session" in refused["message"]

    run(main())


def test_a_market_is_let_go_with_the_last_session_that_follows_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            sessions = [await client.session() for _ in range(2)]
            for session in sessions:
                await session.client.post("/mcp", _call("orderbook_l2", symbol="BTCUSDT"))
            assert client.provider.link.current is not None
            market = client.provider.link.current.feeds.market("BTCUSDT")
            assert market is not None
            assert len(market.holders) == 2
            await _leave(sessions[0])
            assert len(market.holders) == 1
            await _leave(sessions[1])
            assert market.holders == set()

    run(main())


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


async def _leave(session: Agent) -> None:
    assert (await session.client.request("DELETE", "/mcp")).status in (200, 204)
