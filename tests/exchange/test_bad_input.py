"""Bad input: each gets its code, its field and what to do; nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.exchange.desks import BUY, agent
from tests.support import run
from tracedesk.wire.auth import Tokens

BAD_URIS = [
    "binance://market/",
    "binance://market/btc%2Fusdt",
    "binance://market/btcusdt/extra",
    "binance://market/btcusdt?x=1",
    "binance://wallet/btcusdt",
    "binance://account/positions",
    "binance://orders/history",
    "binance:market/btcusdt",
]


def test_a_bad_uri_is_a_protocol_error_that_names_the_right_forms(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for uri in BAD_URIS:
                error = await client.unread(uri)
                assert error["code"] == -32602, uri
                assert "binance://market/{symbol}" in error["message"], uri
                assert error["data"]["error"]["code"] == "INVALID_PARAMETER", uri

    run(main())


def test_the_case_of_scheme_category_and_symbol_does_not_matter(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            assert (await client.read("BINANCE://Market/BtcUsdt")).startswith("# BTCUSDT\n")

    run(main())


def test_another_scheme_is_not_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            error = await client.unread("binances://market/btcusdt")
            assert "not found" in error["message"]

    run(main())


ASKING: list[tuple[str, dict[str, Any]]] = [
    ("get_ticker", {}),
    ("get_orderbook", {}),
    ("get_recent_trades", {}),
    ("get_klines", {"interval": "1m"}),
    ("get_exchange_info", {}),
    ("get_avg_price", {}),
    ("orderbook_l2", {}),
    ("get_order_flow", {}),
    ("generate_market_report", {}),
    ("get_my_trades", {}),
    ("get_order", {"order_id": 1}),
    ("get_all_orders", {}),
    ("preview_order", {k: v for k, v in BUY.items() if k != "symbol"}),
]


def test_an_unknown_symbol_is_refused_with_near_names(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for tool, more in ASKING:
                error = await client.owner().refused(tool, symbol="BTCUSD", **more)
                assert error["code"] == "INVALID_SYMBOL", tool
                assert "Did you mean BTCUSDT" in error["message"], tool
                assert "BTCUSDT" in error["details"]["near"], tool

    run(main())


def test_a_symbol_that_is_like_no_other_is_still_told_where_to_look(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for symbol in ("!", "x" * 200, "\u202eTDSUCTB", "'; DROP TABLE"):
                error = await client.refused("get_ticker", symbol=symbol)
                assert error["code"] == "INVALID_SYMBOL"
                assert "get_exchange_info" in error["message"]
            error = await client.unread("binance://market/nothing")
            assert error["data"]["error"]["code"] == "INVALID_SYMBOL"

    run(main())


FILTERED: list[tuple[dict[str, str], str]] = [
    ({"price": "49900.001"}, "PRICE_FILTER"),
    ({"quantity": "0.000001"}, "LOT_SIZE"),
    ({"quantity": "0.00001"}, "NOTIONAL"),
    ({"price": "1.00", "quantity": "100"}, "PERCENT_PRICE_BY_SIDE"),
]


def test_a_filter_that_fails_is_named_with_its_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"caps": {"collar_bps": 0}}) as client:
            for change, name in FILTERED:
                error = await client.owner().refused("preview_order", **{**BUY, **change})
                assert error["code"] == "FILTER_FAILURE", change
                assert error["details"]["filter"] == name
                assert error["details"]["field"] in error["message"]

    run(main())


def test_a_token_that_is_foreign_used_or_for_another_order_places_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            stranger = client.bearing(Tokens(tmp_path).issue("bob", ["read", "trade"]))
            foreign = (await owner.call("preview_order", **BUY))["preview_token"]
            told = await stranger.refused("place_order", **BUY, preview_token=foreign)
            assert told["code"] == "PREVIEW_INVALID"
            other = await owner.refused("place_order", **{**BUY, "quantity": "0.02"}, preview_token=foreign)
            assert other["code"] == "PREVIEW_INVALID"
            assert (await owner.refused("place_order", **BUY, preview_token="pv_x"))[
                "code"
            ] == "PREVIEW_INVALID"
            used = (await owner.call("preview_order", **BUY))["preview_token"]
            await owner.call("place_order", **BUY, preview_token=used)
            assert (await owner.refused("place_order", **BUY, preview_token=used))[
                "code"
            ] == "PREVIEW_INVALID"
            assert len((await owner.call("get_open_orders"))["orders"]) == 1

    run(main())


MISFITS: list[tuple[str, dict[str, Any], str]] = [
    ("get_klines", {"symbol": "BTCUSDT", "interval": "1m", "start_time": "yesterday"}, "start_time"),
    ("get_klines", {"symbol": "BTCUSDT", "interval": "7m"}, "interval"),
    ("get_klines", {"symbol": "BTCUSDT", "interval": "1m", "start_time": 2, "end_time": 1}, "start_time"),
    ("get_orderbook", {"symbol": "BTCUSDT", "limit": 7}, "limit"),
    ("get_recent_trades", {"symbol": "BTCUSDT", "limit": 1001}, "limit"),
    ("get_exchange_info", {"cursor": "-1"}, "cursor"),
    ("get_exchange_info", {"cursor": "99999"}, "cursor"),
    ("get_exchange_info", {"cursor": "9" * 5000}, "cursor"),
    ("orderbook_l2", {"symbol": "BTCUSDT", "depth_levels": 4}, "depth_levels"),
    ("get_order_flow", {"symbol": "BTCUSDT", "window_duration_secs": 301}, "window_duration_secs"),
    ("get_volume_profile", {"symbol": "BTCUSDT", "tick_size": "-1"}, "tick_size"),
    ("get_volume_profile", {"symbol": "BTCUSDT", "tick_size": "NaN"}, "tick_size"),
    ("connect", {"connection_id": "nothing"}, "connection_id"),
    ("connect", {"enter_keys": True}, "connection_id"),
    ("connect", {"api_key": "x"}, "api_key"),
    (
        "generate_market_report",
        {"symbol": "BTCUSDT", "options": {"include_sections": ["all"]}},
        "include",
    ),
]


def test_a_parameter_that_does_not_fit_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for tool, arguments, field in MISFITS:
                error = await client.refused(tool, **arguments)
                assert error["code"] == "INVALID_PARAMETER", arguments
                assert field in error["message"], arguments

    run(main())


def test_an_order_must_be_named_by_one_of_its_ids(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for tool in ("get_order", "cancel_order"):
                assert (await client.owner().refused(tool, symbol="BTCUSDT"))["code"] == "INVALID_PARAMETER"
                missing = await client.owner().refused(tool, symbol="BTCUSDT", order_id=424242)
                assert missing["code"] == "INVALID_PARAMETER"
                assert "order" in missing["message"]

    run(main())


def test_limits_of_the_venue_come_with_its_own_numbers(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            await client.call("get_ticker", symbol="BTCUSDT")
            client.market.exchange.faults.set({"kind": "limit", "on": "klines", "times": 0, "seconds": 7})
            error = await client.refused("get_klines", symbol="BTCUSDT", interval="1m")
            assert error["code"] == "RATE_LIMITED"
            assert error["details"]["retryAfterSeconds"] == 7, error

    run(main())


def test_a_venue_that_is_away_is_said_to_be_with_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        nowhere = {
            "rest": "http://127.0.0.1:9",
            "streams": "ws://127.0.0.1:9",
            "ws_api": "ws://127.0.0.1:9/ws-api/v3",
        }
        async with agent(tmp_path, {"addresses": nowhere}) as client:
            error = await client.refused("get_ticker", symbol="BTCUSDT")
            assert error["code"] == "VENUE_UNAVAILABLE"
            assert "provider_status" in error["message"]
            assert (await client.call("provider_status"))["mode"] == "testnet"

    run(main())
