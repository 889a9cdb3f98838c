"""The `[exchange]` table: what is taken, and what is said of what is not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tracedesk.exchange import settings
from tracedesk.exchange.settings import BadExchangeSetting

LIVE: dict[str, Any] = {"mode": "live", "live_trading": True, "allowed_symbols": ["btcusdt"]}
LOOPBACK = {
    "rest": "http://127.0.0.1:1",
    "streams": "ws://127.0.0.1:1",
    "ws_api": "ws://127.0.0.1:1/ws-api/v3",
}


def test_without_a_table_the_desk_trades_at_its_own_exchange_and_nowhere_else() -> None:
    found = settings.read({})
    assert (found.mode, found.venue, found.live_trading, found.header_credentials) == (
        "sim",
        "sim",
        False,
        False,
    )


def test_a_read_only_desk_reads_the_live_market() -> None:
    assert settings.read({"mode": "read_only"}).venue == "live"


def test_numbers_are_exact_and_symbols_upper_case() -> None:
    found = settings.read({"caps": {"collar_bps": 0.1}, "allowed_symbols": ["btcusdt"]})
    assert found.caps.collar_bps == Decimal("0.1")
    assert found.allowed_symbols == ("BTCUSDT",)


@pytest.mark.parametrize("lock", ["live_trading", "allowed_symbols"])
def test_live_without_one_of_its_locks_opened_does_not_start(lock: str) -> None:
    table = {name: value for name, value in LIVE.items() if name != lock}
    with pytest.raises(BadExchangeSetting, match=lock):
        settings.read(table)
    assert settings.read(LIVE).mode == "live"


def test_live_needs_every_cap() -> None:
    with pytest.raises(BadExchangeSetting, match=r"caps\.max_day_notional"):
        settings.read({**LIVE, "caps": {"max_day_notional": 0}})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"mode": "prod"}, "one of sim, read_only, testnet, live"),
        ({"nonsense": 1}, "is not a setting"),
        ({"caps": {"collar_bps": -1}}, "not negative"),
        ({"caps": 3}, "must be a table"),
        ({"dead_man_seconds": True}, "a whole number"),
        ({"header_credentials": "yes"}, "true or false"),
        ({"symbols": "BTCUSDT"}, "a list of symbols"),
        ({"sim": {"port": 70000}}, "sim.port"),
        ({"profile": "../x"}, "letters, digits"),
        ({"profiles": {"a b": {}}}, "letters, digits"),
        ({"profiles": {"a": {}}}, "needs either file"),
        ({"profiles": {"a": {"api_key_env": "A", "secret_env": "B", "file": "c"}}}, "needs either file"),
        ({"profiles": {"a": {"api_key_env": "A", "secret_env": "B", "private_key_file": "c"}}}, "keep one"),
        ({"profiles": {"a": {"file": "c", "mode": "sim"}}}, "one of testnet, live"),
        ({"profiles": {"a": {"secret": "c"}}}, "is not a setting"),
        ({"addresses": {"rest": "http://example.com"}}, "https://"),
        ({"addresses": {"rest": "https://example.com"}}, "together"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadExchangeSetting, match=problem):
        settings.read(table)


BINANCE = {
    "rest": "https://api.binance.com",
    "streams": "wss://stream.binance.com:9443",
    "ws_api": "wss://ws-api.binance.com/ws-api/v3",
}
TEST_NETWORK = {
    "rest": "https://testnet.binance.vision",
    "streams": "wss://stream.testnet.binance.vision",
    "ws_api": "wss://ws-api.testnet.binance.vision/ws-api/v3",
}


@pytest.mark.parametrize("mode", ["sim", "testnet"])
def test_without_the_locks_of_live_orders_go_nowhere_with_real_money(mode: str) -> None:
    places = LOOPBACK if mode == "sim" else TEST_NETWORK
    assert settings.read({"mode": mode, "addresses": places}).addresses.given
    for name, address in BINANCE.items():
        with pytest.raises(BadExchangeSetting, match=rf"addresses\.{name} is .*binance\.com.*{mode}"):
            settings.read({"mode": mode, "addresses": {**places, name: address}})
    for other in ("https://testnet.binance.vision.example.com", "https://nottestnet.binance.vision"):
        with pytest.raises(BadExchangeSetting, match="alone"):
            settings.read({"mode": mode, "addresses": {**places, "rest": other}})
    assert settings.read({**LIVE, "addresses": BINANCE}).addresses.given
    assert settings.read({"mode": "read_only", "addresses": BINANCE}).addresses.given


def test_plain_addresses_are_taken_on_this_machine_alone() -> None:
    assert settings.read({"addresses": LOOPBACK}).addresses.given
    for name, address in (("streams", "ws://10.0.0.1:1"), ("ws_api", "http://127.0.0.1:1")):
        with pytest.raises(BadExchangeSetting, match=name):
            settings.read({"addresses": {**LOOPBACK, name: address}})
