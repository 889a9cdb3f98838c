"""The caller's account for the tools and resources: balances, their worth, trades and orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from tracedesk.contract import Page
from tracedesk.exchange import shapes
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.client.errors import ClientError
from tracedesk.exchange.reading import bad_cursor, known, number, numbered
from tracedesk.primitives import money

if TYPE_CHECKING:
    from tracedesk.exchange.accounts import Account
    from tracedesk.exchange.provider import Provider

PLACES: Final = 8
"""Places of a worth that had to be divided or multiplied."""
BRIDGES: Final = ("BTC", "ETH", "BNB", "USDT", "USDC", "FDUSD")
"""Assets over which one is valued that is not traded against the quote asset."""

_RESTING: Final = ("NEW", "PARTIALLY_FILLED")


async def account(provider: Provider, caller: Caller, cursor: str | None = None) -> Page:
    if cursor == "":
        raise bad_cursor()
    found = await provider.account(caller)
    raw = await found.rest.account(omitZeroBalances=True)
    with shapes.readable("account"):
        held = (row for row in raw["balances"] if row["asset"] > (cursor or ""))
        rows = sorted(held, key=itemgetter("asset"))
        body: dict[str, Any] = {
            **head(provider, found),
            "balances": [balance(row) for row in rows],
            "can_trade": raw["canTrade"] is True,
            "commission": raw.get("commissionRates", {}),
            "warnings": _warnings(provider, raw),
            "age_ms": 0,
        }
    return Page(body, "balances", lambda kept: rows[kept - 1]["asset"])


def head(provider: Provider, account: Account) -> dict[str, Any]:
    return {"mode": provider.mode, "account": account.name}


def balance(row: Mapping[str, str]) -> dict[str, str]:
    total = money.parse(row["free"]) + money.parse(row["locked"])
    return {
        "asset": row["asset"],
        "free": row["free"],
        "locked": row["locked"],
        "total": money.to_text(total),
    }


def _warnings(provider: Provider, raw: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    if raw.get("canWithdraw") and provider.settings.venue != "sim":
        found.append("This key's account can withdraw: use a key without that permission.")
    if not raw["canTrade"]:
        found.append("This account may not trade.")
    return found


async def my_trades(provider: Provider, caller: Caller, args: Mapping[str, Any]) -> Page:
    begin = number(args.get("cursor"))
    begin = args.get("from_id") if begin is None else begin
    _, instrument = await known(provider, args["symbol"])
    found = await provider.account(caller)
    limit = args.get("limit", 100)
    rows = await found.rest.my_trades(instrument.symbol, limit=limit, fromId=begin)
    with shapes.readable("trades"):
        shown = [shapes.own_trade(row) for row in rows]
        ids = [int(row["id"]) for row in rows]
    body: dict[str, Any] = {
        **head(provider, found),
        "symbol": instrument.symbol,
        "columns": shapes.OWN_TRADE_COLUMNS,
        "rows": shown,
    }
    return numbered(body, "rows", ids, begin is not None and len(rows) == limit)


async def order(provider: Provider, caller: Caller, args: Mapping[str, Any]) -> dict[str, Any]:
    _, instrument = await known(provider, args["symbol"])
    found = await provider.account(caller)
    try:
        raw = await found.rest.order(
            instrument.symbol,
            orderId=args.get("order_id"),
            origClientOrderId=args.get("orig_client_order_id"),
        )
    except ClientError as silence:
        known_here = await provider.orders.known(found.name, args.get("orig_client_order_id", ""))
        if known_here is None or known_here["symbol"] != instrument.symbol:
            raise
        return {**head(provider, found), "order": known_here, "source": "ledger", "problem": silence.message}
    await provider.orders.observe(found.identity, raw)
    with shapes.readable("order"):
        shown = shapes.order(raw)
        resting = shapes.whole(raw["orderId"]) if raw["status"] in _RESTING else None
    if resting is not None:
        ahead = await provider.link.quantity_ahead(instrument.symbol, resting)
        shown |= {} if ahead is None else {"quantity_ahead": ahead}
    return {**head(provider, found), "order": shown}


async def open_orders(
    provider: Provider, caller: Caller, symbol: str | None, cursor: str | None = None
) -> Page:
    """By symbol and number, so that a page goes on after the last one whatever was filled meanwhile."""
    after = _place(cursor)
    name = None if symbol is None else (await known(provider, symbol))[1].symbol
    found = await provider.account(caller)
    told = await found.rest.open_orders(name)
    with shapes.readable("orders"):
        rows = sorted(told, key=_key)
        shown = rows if after is None else [row for row in rows if _key(row) > after]
        body: dict[str, Any] = {
            **head(provider, found),
            "orders": [shapes.order(row) for row in shown],
            "age_ms": 0,
        }
    for raw in rows:
        await provider.orders.observe(found.identity, raw)
    return Page(body, "orders", lambda kept: "{}:{}".format(*_key(shown[kept - 1])))


def _key(raw: Mapping[str, Any]) -> tuple[str, int]:
    return raw["symbol"], int(raw["orderId"])


def _place(cursor: str | None) -> tuple[str, int] | None:
    if cursor is None:
        return None
    symbol, _, last = cursor.rpartition(":")
    place = number(last)
    if not symbol or place is None:
        raise bad_cursor()
    return symbol, place


async def all_orders(provider: Provider, caller: Caller, args: Mapping[str, Any]) -> Page:
    begin = number(args.get("cursor"))
    _, instrument = await known(provider, args["symbol"])
    found = await provider.account(caller)
    limit = args.get("limit", 50)
    rows = await found.rest.all_orders(instrument.symbol, limit=limit, orderId=begin)
    with shapes.readable("orders"):
        body: dict[str, Any] = {
            **head(provider, found),
            "symbol": instrument.symbol,
            "orders": [shapes.order(row) for row in rows],
        }
        ids = [int(row["orderId"]) for row in rows]
    for raw in rows:
        await provider.orders.observe(found.identity, raw)
    return numbered(body, "orders", ids, begin is not None and len(rows) == limit)


# --- worth --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holding:
    """An asset, and what it is worth in the quote asset by the way of a last price."""

    asset: str
    amount: Decimal
    price: Decimal | None
    worth: Decimal | None
    way: str
    """The symbols whose last prices were used; empty where there is none."""


def valued(amounts: Mapping[str, Decimal], prices: Mapping[str, Decimal], quote: str) -> list[Holding]:
    """Every asset with its worth, the largest first; what cannot be valued comes last."""
    found = [_holding(asset, amount, prices, quote) for asset, amount in amounts.items() if amount]
    return sorted(found, key=lambda h: (h.worth is None, -(h.worth or 0), h.asset))


def _holding(asset: str, amount: Decimal, prices: Mapping[str, Decimal], quote: str) -> Holding:
    found = _price(asset, quote, prices)
    if found is None:
        return Holding(asset, amount, None, None, "")
    price, way = found
    return Holding(asset, amount, price, money.quantise(amount * price, PLACES), way)


def _price(asset: str, quote: str, prices: Mapping[str, Decimal]) -> tuple[Decimal, str] | None:
    if asset == quote:
        return Decimal(1), quote
    direct = _pair(asset, quote, prices)
    if direct is not None:
        return direct
    for bridge in BRIDGES:
        first, second = _pair(asset, bridge, prices), _pair(bridge, quote, prices)
        if first is not None and second is not None:
            return money.quantise(first[0] * second[0], PLACES), f"{first[1]} and {second[1]}"
    return None


def _pair(asset: str, quote: str, prices: Mapping[str, Decimal]) -> tuple[Decimal, str] | None:
    if straight := prices.get(f"{asset}{quote}"):
        return straight, f"{asset}{quote}"
    if turned := prices.get(f"{quote}{asset}"):
        return money.quantise(Decimal(1) / turned, PLACES), f"{quote}{asset}"
    return None


def last_prices(rows: Sequence[Mapping[str, str]]) -> dict[str, Decimal]:
    """The last price of every symbol that has one."""
    with shapes.readable("prices"):
        found = {row["symbol"]: money.parse(row["price"]) for row in rows}
    return {symbol: price for symbol, price in found.items() if price > 0}
