"""The resources as pages of Markdown; each says at which venue, as of when and how old."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracedesk.exchange import holdings, reading, shapes
from tracedesk.exchange.caller import Caller
from tracedesk.exchange.markdown import Number, number, own, page, plain, ratio, table
from tracedesk.exchange.units import units
from tracedesk.primitives import money, time

if TYPE_CHECKING:
    from tracedesk.exchange.accounts import Account
    from tracedesk.exchange.feeds.account import Account as AccountFeed
    from tracedesk.exchange.instruments import Instrument
    from tracedesk.exchange.provider import Provider

T = TypeVar("T")
_LEVELS: Final = 5
_HISTORY: Final = 50
_MODES: Final[Mapping[str, str]] = {
    "sim": "the local exchange, no real money",
    "read_only": "live data, no orders",
    "testnet": "Binance's test network, no real money",
    "live": "Binance, REAL MONEY",
}
_DAY: Final = (
    ("Last price", "last_price"),
    ("Change", "price_change"),
    ("Change in percent", "price_change_percent"),
    ("High", "high_price"),
    ("Low", "low_price"),
    ("Open", "open_price"),
    ("Weighted average", "weighted_avg_price"),
)


def stated(provider: Provider, age_ms: int | None, *more: str) -> str:
    """The line under a title: mode, time and age."""
    age = "age unknown" if age_ms is None else f"data age {age_ms} ms"
    parts = (
        f"Mode: **{provider.mode}** ({_MODES[provider.mode]})",
        f"as of {time.format(provider.now_ns() // time.MILLISECOND * time.MILLISECOND)}",
        age,
    )
    return " · ".join((*parts, *more))


# --- market -------------------------------------------------------------------------------------


async def market(provider: Provider, symbol: str, scope: str) -> str:
    """A market: 24 hours, the best levels and the spread."""
    found = await provider.market(symbol, scope)
    raw, ticker_age = await reading.latest_ticker(await provider.site(), found.symbol)
    if reading.is_fresh(found):
        bids, asks = found.sync.book.top(_LEVELS)
        age, source = found.sync.age_ms(), "followed"
    else:
        bids, asks = await _asked(provider, found.symbol)
        age, source = 0, f"asked just now, for the followed book is {found.status().state}"
    instrument = found.instrument
    return page(
        f"# {plain(instrument.symbol)}",
        stated(provider, max(ticker_age, age or 0)),
        f"{plain(instrument.base)} priced in {plain(instrument.quote)}, status {plain(instrument.status)}.",
        "## 24 hours",
        day_table(instrument, raw),
        f"## Order book, best {_LEVELS}",
        book_table(instrument, bids, asks),
        spread_line(instrument, bids, asks),
        f"Book: {source}.",
    )


async def _asked(
    provider: Provider, symbol: str
) -> tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]:
    raw = await (await provider.site()).client.public.depth(symbol, _LEVELS)
    with shapes.readable("book"):
        bids, asks = ([(units(p), units(q)) for p, q, *_ in raw[side]] for side in ("bids", "asks"))
    return bids, asks


def day_table(instrument: Instrument, ticker: Mapping[str, Any]) -> str:
    """The figures of 24 hours with the places of the symbol."""
    prices = [
        (own(label), number(ticker[name]) if "percent" in name else _price(instrument, ticker[name]))
        for label, name in _DAY
        if name in ticker
    ]
    volumes = [
        (Number(f"Volume ({plain(asset)})"), number(ticker[name]) if name in ticker else None)
        for asset, name in ((instrument.base, "volume"), (instrument.quote, "quote_volume"))
    ]
    volumes.append((own("Trades"), ticker.get("trades")))
    return table(("Measure", "Value"), [*prices, *volumes], right=(1,))


def _price(instrument: Instrument, text: str) -> Number:
    value = units(text.removeprefix("-"))
    return Number(("-" if text.startswith("-") else "") + instrument.price_text(value))


def book_table(
    instrument: Instrument, bids: Sequence[tuple[int, int]], asks: Sequence[tuple[int, int]]
) -> str:
    """Both sides beside each other, best first."""
    depth = max(len(bids), len(asks))
    rows = [(*_level(instrument, bids, i)[::-1], *_level(instrument, asks, i)) for i in range(depth)]
    return table(("Bid quantity", "Bid", "Ask", "Ask quantity"), rows, right=range(4))


def _level(
    instrument: Instrument, side: Sequence[tuple[int, int]], index: int
) -> tuple[Number | None, Number | None]:
    if index >= len(side):
        return None, None
    price, quantity = side[index]
    return Number(instrument.price_text(price)), Number(instrument.quantity_text(quantity))


def spread_line(
    instrument: Instrument, bids: Sequence[tuple[int, int]], asks: Sequence[tuple[int, int]]
) -> str:
    if not bids or not asks:
        return "Spread: none, for one side of the book is empty."
    bid, ask = bids[0][0], asks[0][0]
    bps = ratio(20_000 * (ask - bid) / (ask + bid), 4)
    return f"Spread: {instrument.price_text(ask - bid)} {plain(instrument.quote)} ({bps} bps of the mid)."


# --- account ------------------------------------------------------------------------------------


async def _followed(provider: Provider, caller: Caller) -> tuple[Account, AccountFeed]:
    account = await provider.account(caller)
    return account, await provider.leases.account(account, caller.scope)


async def balances(provider: Provider, caller: Caller) -> str:
    """Free, locked and total of every asset that is held."""
    account, feed = await _followed(provider, caller)
    rows = [
        (asset, *(number(money.from_units(value, 8), 8) for value in (b.free, b.locked, b.free + b.locked)))
        for asset, b in sorted(feed.balances.items())
        if b.free or b.locked
    ]
    return page(
        "# Balances",
        stated(provider, feed.status().age_ms, f"account {plain(account.name)}"),
        table(("Asset", "Free", "Locked", "Total"), rows, right=(1, 2, 3))
        if rows
        else "The account is empty.",
    )


async def valued(provider: Provider, caller: Caller) -> tuple[Account, int | None, list[holdings.Holding]]:
    """What the caller's account holds, valued at last prices."""
    account, feed = await _followed(provider, caller)
    amounts = {a: money.from_units(b.free + b.locked, 8) for a, b in feed.balances.items()}
    prices = holdings.last_prices(await (await provider.site()).client.public.ticker_prices())
    return account, feed.status().age_ms, holdings.valued(amounts, prices, provider.settings.quote)


async def worth(provider: Provider, caller: Caller) -> str:
    """Every holding and what it is worth in the quote asset."""
    account, age, found = await valued(provider, caller)
    return page(
        "# Holdings",
        stated(provider, age, f"account {plain(account.name)}"),
        f"Valued in **{plain(provider.settings.quote)}** at last prices.",
        worth_table(found, provider.settings.quote),
    )


def worth_table(found: Sequence[holdings.Holding], quote: str) -> str:
    """Holdings with their worth and share, and the sum of those that could be valued."""
    if not found:
        return "The account is empty."
    total = sum((h.worth for h in found if h.worth is not None), Decimal(0))
    rows = [
        (
            h.asset,
            number(h.amount, 8),
            _shown(h.price),
            _shown(h.worth),
            _share(h.worth, total),
            Number(" and ".join(map(plain, h.way.split(" and ")))) if h.way else own("no price"),
        )
        for h in found
    ]
    body = table(
        ("Asset", "Amount", "Price", f"Worth ({plain(quote)})", "Share %", "By"), rows, right=range(1, 5)
    )
    return f"{body}\n\nTotal: {number(total, 8)} {plain(quote)}."


def _shown(value: Decimal | None) -> Number | None:
    return None if value is None else number(value, 8)


def _share(worth: Decimal | None, total: Decimal) -> Number | None:
    return None if worth is None or not total else number(worth * 100 / total, 2)


# --- orders -------------------------------------------------------------------------------------

_ORDER_HEADS: Final = ("Order", "Symbol", "Side", "Type", "Price", "Quantity", "Executed", "Status", "Placed")


async def open_orders(provider: Provider, caller: Caller) -> str:
    """Orders that rest."""
    account, feed = await _followed(provider, caller)
    found = [shapes.order(raw) for raw in feed.open_orders.values()]
    return page(
        "# Open orders",
        stated(provider, feed.status().age_ms, f"account {plain(account.name)}"),
        order_table(found) if found else "No order is open.",
    )


async def history(provider: Provider, symbol: str, caller: Caller) -> str:
    """The newest orders of a symbol in any state."""
    _, instrument = await reading.known(provider, symbol)
    account = await provider.account(caller)
    rows = await account.rest.all_orders(instrument.symbol, limit=_HISTORY)
    found = [shapes.order(raw) for raw in reversed(rows)]
    return page(
        f"# Orders of {plain(instrument.symbol)}",
        stated(provider, 0, f"account {plain(account.name)}", f"the newest {_HISTORY} at most, newest first"),
        order_table(found) if found else "There were no orders.",
    )


def order_table(orders: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            o["order_id"],
            o["symbol"],
            o["side"],
            o["order_type"],
            number(o["price"]),
            number(o["quantity"]),
            number(o["executed_quantity"]),
            o["status"],
            Number(o.get("placed_at", "")),
        )
        for o in orders
    ]
    return table(_ORDER_HEADS, rows, right=(0, 4, 5, 6))


async def within(seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`, or TimeoutError."""
    async with asyncio.timeout(seconds):
        return await work
