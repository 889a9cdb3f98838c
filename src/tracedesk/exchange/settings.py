"""The `[exchange]` table of tracedesk.toml: the venue, who may trade there, and how much."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from tracedesk import tables
from tracedesk.tables import BadTable

Mode = Literal["sim", "read_only", "testnet", "live"]
MODES: Final[tuple[Mode, ...]] = ("sim", "read_only", "testnet", "live")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
"""What a profile may be called."""
_TEST_NETWORK: Final = "testnet.binance.vision"
_LAST_PORT: Final = 65_535
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class BadExchangeSetting(BadTable):
    """A value of `[exchange]` that cannot be used, with what fits."""


@dataclass(frozen=True, slots=True)
class Caps:
    """`[exchange.caps]`: judged before anything is sent; 0 switches a cap off, which live does not allow."""

    max_order_notional: Decimal = Decimal("10000")
    """The most one order may be worth, in the quote asset of its symbol."""
    max_day_notional: Decimal = Decimal("100000")
    """The most that all orders of a UTC day may be worth together, by quote asset."""
    max_orders_per_minute: int = 30
    """The most orders within a minute."""
    max_open_orders: int = 50
    """The most orders that may rest at once."""
    collar_bps: Decimal = Decimal("500")
    """How far a limit price may lie from the mid, in hundredths of a percent."""
    max_slippage_bps: Decimal = Decimal("100")
    """How much worse than the mid a market order may be expected to fill, in hundredths of a percent."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """`[exchange.addresses]`: another place that speaks the venue's wire; empty keeps the mode's own.

    For `sim` it is on this machine, for `testnet` also at Binance's test network.
    """

    rest: str = ""
    """Such as https://api.example.com; plain http only on this machine."""
    streams: str = ""
    """Such as wss://stream.example.com; plain ws only on this machine."""
    ws_api: str = ""
    """Such as wss://ws-api.example.com/ws-api/v3."""

    @property
    def given(self) -> bool:
        return bool(self.rest)


@dataclass(frozen=True, slots=True)
class Sim:
    """`[exchange.sim]`: the local exchange of this home."""

    port: int = 0
    """The port it listens on, on this machine only; 0 takes any free one."""
    seed: int = 1
    """What the background flow is drawn from; the same seed is the same market."""
    replay: str = ""
    """A recording to replay instead of seeded flow."""
    queue: Literal["risk-averse", "none"] = "risk-averse"
    """Queue model of a replay: orders wait behind recorded quantities, or are filled by the first trade."""
    idle_seconds: int = 1800
    """How long nobody uses an exchange that was started on demand before it ends by itself; 0 never does."""
    limits: Literal["account", "address"] = "account"
    """Count requests by account, or as Binance by address, where any program gets this machine banned."""


@dataclass(frozen=True, slots=True)
class Profile:
    """`[exchange.profiles.NAME]`: where the credentials of one account are found, never they themselves."""

    mode: Literal["testnet", "live"] = "testnet"
    """The venue the account is at: testnet or live."""
    api_key_env: str = ""
    """The environment variable that holds the API key."""
    secret_env: str = ""
    """The environment variable that holds the HMAC secret."""
    file: str = ""
    """A file with `api_key = …` and `secret = …` lines, readable by its owner alone (0600)."""
    private_key_file: str = ""
    """An Ed25519 private key in PEM, readable by its owner alone; used instead of a secret."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Everything in `[exchange]`, with its default."""

    mode: Mode = "sim"
    """sim (our own exchange), read_only (live data, no orders), testnet or live."""
    live_trading: bool = False
    """Whether live orders may be sent at all; live also needs a profile, allowed symbols and every cap."""
    profile: str = ""
    """The profile of callers that chose none; empty is `default` at the local exchange, else the one of
    BINANCE_API_KEY."""
    allowed_symbols: tuple[str, ...] = tables.list_of("symbols")
    """The symbols that may be traded; empty allows all, which live does not."""
    symbols: tuple[str, ...] = tables.list_of("symbols", "BTCUSDT", "ETHUSDT")
    """The markets that come first in completions; `warm` follows them from the start."""
    warm: bool = False
    """Whether the markets of `symbols` are followed from the start, not when first asked for."""
    quote: str = "USDT"
    """The asset that holdings are valued in."""
    max_markets: int = 20
    """The most markets that are followed at once."""
    header_credentials: bool = False
    """Whether a handshake may bring credentials in X-Binance-Api-Key and X-Binance-Api-Secret."""
    confirm: Literal["live", "always", "never"] = "live"
    """When a person must confirm an order: live orders, all orders, or none (consent given here)."""
    preview_seconds: int = 30
    """How long a preview can be placed."""
    dead_man_seconds: int = 0
    """Cancel all open orders when no call came for so long to any desk on the home; 0 never does."""
    microstructure: bool = True
    """Whether the prompt market_microstructure_analysis is served."""
    caps: Caps = field(default_factory=Caps)
    """The order caps."""
    sim: Sim = field(default_factory=Sim)
    """The local exchange."""
    addresses: Addresses = field(default_factory=Addresses)
    """Where the venue is, if elsewhere."""
    profiles: Mapping[str, Profile] = field(default_factory=dict[str, Profile])
    """Accounts by name: each is a table `[exchange.profiles.NAME]` with mode, api_key_env, secret_env, file
    and private_key_file."""

    @property
    def venue(self) -> Literal["sim", "testnet", "live"]:
        """Whose market it is: a read-only desk reads the live one."""
        return "live" if self.mode == "read_only" else self.mode


TABLE: Final = Exchange
"""The root of the toolset's settings, for the reference."""


def read(table: Mapping[str, Any]) -> Exchange:
    """The settings of an `[exchange]` table; raises `BadExchangeSetting` for what does not fit."""
    own = {name: value for name, value in table.items() if name != "profiles"}
    found = tables.read(Exchange, own, "exchange", BadExchangeSetting)
    found = replace(
        found,
        allowed_symbols=tuple(map(str.upper, found.allowed_symbols)),
        symbols=tuple(map(str.upper, found.symbols)),
        profiles=_profiles(table.get("profiles", {})),
    )
    if found.sim.port > _LAST_PORT:
        raise BadExchangeSetting(f"exchange.sim.port must be 0 to {_LAST_PORT}, not {found.sim.port}")
    _check_addresses(found)
    if found.mode == "live":
        _check_live(found)
    if found.profile and not NAME.fullmatch(found.profile):
        raise BadExchangeSetting("exchange.profile must be a name of letters, digits, - and _")
    return found


def _check_live(found: Exchange) -> None:
    """Live trading fails closed: each lock is opened by hand, or nothing starts."""
    if not found.live_trading:
        raise BadExchangeSetting(
            'exchange.mode = "live" needs exchange.live_trading = true; to look, not trade, '
            'use mode = "read_only"'
        )
    if not found.allowed_symbols:
        raise BadExchangeSetting('exchange.mode = "live" needs exchange.allowed_symbols, such as ["BTCUSDT"]')
    if off := [f.name for f in fields(Caps) if not getattr(found.caps, f.name)]:
        raise BadExchangeSetting(
            f'exchange.mode = "live" needs every cap; set exchange.caps.{off[0]} above 0'
        )


def _check_addresses(found: Exchange) -> None:
    places = found.addresses
    given = {"rest": places.rest, "streams": places.streams, "ws_api": places.ws_api}
    if not any(given.values()):
        return
    for name, address in given.items():
        secure, plain = ("https", "http") if name == "rest" else ("wss", "ws")
        parts = urlsplit(address)
        local = parts.scheme == plain and parts.hostname in _LOOPBACK
        if not parts.hostname or not (parts.scheme == secure or local):
            raise BadExchangeSetting(
                f"exchange.addresses.{name} must begin with {secure}:// (or {plain}:// on this machine); "
                "give rest, streams and ws_api together"
            )
    for name, address in given.items():
        _check_place(found.mode, name, urlsplit(address).hostname or "")


def _check_place(mode: Mode, name: str, host: str) -> None:
    """Orders without the locks of live go nowhere but where there is no real money."""
    if mode in ("live", "read_only") or host in _LOOPBACK:
        return
    if mode == "testnet" and (host == _TEST_NETWORK or host.endswith(f".{_TEST_NETWORK}")):
        return
    fitting = "this machine" if mode == "sim" else f"this machine or {_TEST_NETWORK}"
    raise BadExchangeSetting(
        f'exchange.addresses.{name} is {host}, but exchange.mode = "{mode}" goes to {fitting} alone; for '
        'another place use mode = "live" with its locks, or "read_only"'
    )


def _profiles(value: Any) -> dict[str, Profile]:
    made: dict[str, Profile] = {}
    for name, table in tables.inner(value, "exchange.profiles", BadExchangeSetting).items():
        if not NAME.fullmatch(name):
            raise BadExchangeSetting(
                f"exchange.profiles.{name[:40]} must be named by letters, digits, - and _"
            )
        path = f"exchange.profiles.{name}"
        own = tables.inner(table, path, BadExchangeSetting)
        made[name] = tables.read(Profile, own, path, BadExchangeSetting)
        _check_profile(name, made[name])
    return made


def _check_profile(name: str, profile: Profile) -> None:
    by_variables = bool(profile.api_key_env) and bool(profile.secret_env or profile.private_key_file)
    if bool(profile.file) == by_variables:
        raise BadExchangeSetting(
            f"exchange.profiles.{name} needs either file, or api_key_env with secret_env or private_key_file"
        )
    if profile.secret_env and profile.private_key_file:
        raise BadExchangeSetting(f"exchange.profiles.{name} has a secret and a private key; keep one")
