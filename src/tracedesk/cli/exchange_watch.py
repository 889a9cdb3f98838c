"""What `exchange watch` shows: the book as a ladder, the flow of the last minute, the newest trades."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracedesk.cli.console import Console, print_json
from tracedesk.errors import ToolError
from tracedesk.exchange.settings import Exchange
from tracedesk.primitives import time
from tracedesk.primitives.text import sanitize_terminal

if TYPE_CHECKING:
    from tracedesk.exchange.client.streams import Frame, Gap
    from tracedesk.exchange.feeds.market import Market
    from tracedesk.exchange.link import Site

Document = dict[str, Any]
WINDOW: Final = 60
"""Seconds that the flow looks back."""
READY: Final = 15.0
"""Seconds in which a book must come into step."""
FIRST_LOOK: Final = 1.5
"""Seconds that a single picture waits for some flow."""
_TRADES: Final = 12
_SIDE: Final = 42
"""The width of the panels beside the book; together they fit a terminal of 80."""
_BAR: Final = 12
_TICKS: Final = "▁▂▃▄▅▆▇█"
_SPARK: Final = 26
_BUY: Final = "green"
_SELL: Final = "red"


# --- what is seen ------------------------------------------------------------------------------


def look(market: Market, levels: int, venue: str, now_ns: int) -> Document:
    """One market at a moment, in texts and whole numbers."""
    instrument = market.instrument
    bids, asks = market.sync.book.top(levels)
    shown = [(instrument.price_text(p), instrument.quantity_text(q)) for p, q in bids]
    offered = [(instrument.price_text(p), instrument.quantity_text(q)) for p, q in asks]
    status = market.status()
    return {
        "symbol": market.symbol,
        "venue": venue,
        "time": time.format(now_ns),
        "state": status.state,
        "ageMs": status.age_ms,
        "lastUpdateId": status.last_update_id,
        "resyncs": status.resyncs,
        **_touch(market),
        "bids": shown,
        "asks": offered,
        "ticker": _ticker(market),
        "flow": _flow(market, now_ns),
        "trades": _trades(market, now_ns),
        "mids": _mids(market, now_ns),
    }


def _touch(market: Market) -> Document:
    bid, ask = market.sync.book.best_bid(), market.sync.book.best_ask()
    if bid is None or ask is None:
        return {"spread": None, "spreadBps": None, "imbalance": None}
    from tracedesk.exchange.analytics.quotes import imbalance

    return {
        "spread": market.instrument.price_text(ask[0] - bid[0]),
        "spreadBps": round(20_000 * (ask[0] - bid[0]) / (ask[0] + bid[0]), 3),
        "imbalance": _rounded(imbalance(market.sync.book, 5)),
    }


def _ticker(market: Market) -> Document | None:
    day = market.ticker
    if day is None:
        return None
    names = ("lastPrice", "priceChangePercent", "highPrice", "lowPrice", "volume", "quoteVolume")
    return {name: day.get(name) for name in names}


def _flow(market: Market, now_ns: int) -> Document:
    """The order flow of the last minute, as far as it was seen."""
    from tracedesk.exchange.analytics.flow import order_flow
    from tracedesk.exchange.analytics.span import Span

    since, tape = now_ns - WINDOW * time.SECOND, market.tape
    span = Span.of(since, now_ns, tape.touched.coverage, tape.printed.coverage)
    known = span.covered
    touches = tape.touches(known.from_ns, known.to_ns)
    return order_flow(touches, tape.prints(known.from_ns, known.to_ns), span).document()


def _trades(market: Market, now_ns: int) -> list[Document]:
    """The newest trades, newest first."""
    prints = market.tape.prints(now_ns - WINDOW * time.SECOND, now_ns + time.MINUTE)
    rows = zip(
        prints.ns[-_TRADES:].tolist(),
        prints.price[-_TRADES:].tolist(),
        prints.quantity[-_TRADES:].tolist(),
        prints.maker[-_TRADES:].tolist(),
        strict=True,
    )
    instrument = market.instrument
    made = [
        {
            "time": time.format(ns),
            "side": "SELL" if maker else "BUY",
            "price": instrument.price_text(price),
            "quantity": instrument.quantity_text(quantity),
        }
        for ns, price, quantity, maker in rows
    ]
    return made[::-1]


def _mids(market: Market, now_ns: int) -> list[str]:
    """The mid price over the last minute, a few dozen points of it."""
    touches = market.tape.touches(now_ns - WINDOW * time.SECOND, now_ns)
    step = max(1, len(touches) // _SPARK)
    pairs = zip(touches.bid[::step].tolist(), touches.ask[::step].tolist(), strict=True)
    return [market.instrument.price_text((bid + ask) // 2) for bid, ask in pairs if bid and ask]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


# --- how it is drawn ---------------------------------------------------------------------------


def picture(seen: Document) -> Any:
    """The document as rich draws it; everything from outside is text, never markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    body = Table.grid(padding=(0, 1))
    body.add_row(_book(seen), _side(seen))
    return Group(_head(seen), body, Text(sanitize_terminal(_foot(seen)), style="dim"))


def _head(seen: Document) -> Any:
    from rich.text import Text

    day: Document = seen["ticker"] or {}
    change = str(day.get("priceChangePercent") or "0")
    style = _SELL if change.startswith("-") else _BUY
    head = Text(sanitize_terminal(f"{seen['symbol']}  "), style="bold")
    if day:
        head.append(sanitize_terminal(_short(str(day["lastPrice"]))), style=f"bold {style}")
        head.append(sanitize_terminal(f"  {change} %"), style=style)
        spot = f"  24 h {_short(str(day['lowPrice']))} – {_short(str(day['highPrice']))}"
        volume = str(day["volume"]).partition(".")[0]
        head.append(sanitize_terminal(f"{spot}  volume {volume}"), style="dim")
    return head


def _book(seen: Document) -> Any:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    most = max((float(q) for _, q in (*seen["bids"], *seen["asks"])), default=1.0) or 1.0
    grid = Table.grid(padding=(0, 1))
    for justify in ("right", "right", "left"):
        grid.add_column(justify=justify)
    for price, quantity in reversed(seen["asks"]):
        grid.add_row(Text(price, style=_SELL), Text(quantity), Text(_bar(float(quantity), most), style=_SELL))
    grid.add_row(*(Text(cell, style="dim") for cell in _spread(seen)))
    for price, quantity in seen["bids"]:
        grid.add_row(Text(price, style=_BUY), Text(quantity), Text(_bar(float(quantity), most), style=_BUY))
    return Panel(grid, title="Book", title_align="left", border_style="dim", expand=False)


def _side(seen: Document) -> Any:
    from rich.console import Group

    return Group(_flow_panel(seen), _trades_panel(seen))


def _flow_panel(seen: Document) -> Any:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    flow = seen["flow"]
    grid = Table.grid(padding=(0, 2))
    covered = flow["window_covered"]["seconds"]
    title = f"Flow of {covered:.0f} s"
    if flow.get("status") == "insufficient_data":
        grid.add_row(Text("not enough seen yet", style="dim"))
    else:
        buys, sells = str(flow["buy_volume"]), str(flow["sell_volume"])
        grid.add_row("Bought", Text(f"{_short(buys)}  ({flow['buy_trades']})", style=_BUY))
        grid.add_row("Sold", Text(f"{_short(sells)}  ({flow['sell_trades']})", style=_SELL))
        grid.add_row("", _balance(float(buys), float(sells)))
        grid.add_row("OFI", Text(_short(str(flow["ofi"]))))
        grid.add_row("Direction", Text(sanitize_terminal(str(flow["flow_direction"]))))
        grid.add_row("VPIN", Text("–" if flow["vpin"] is None else f"{flow['vpin']:.2f}"))
    grid.add_row("Imbalance", Text("–" if seen["imbalance"] is None else f"{seen['imbalance']:+.2f}"))
    grid.add_row("Mid", Text(_spark([float(mid) for mid in seen["mids"]]), style="cyan"))
    return Panel(grid, title=title, title_align="left", border_style="dim", width=_SIDE)


def _trades_panel(seen: Document) -> Any:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for made in seen["trades"]:
        style = _BUY if made["side"] == "BUY" else _SELL
        clock = made["time"][11:23].rstrip("Z")
        side = Text(made["side"].lower(), style=style)
        grid.add_row(Text(clock, style="dim"), side, Text(made["price"], style=style), Text(made["quantity"]))
    return Panel(grid, title="Trades", title_align="left", border_style="dim", width=_SIDE)


def _spread(seen: Document) -> tuple[str, str, str]:
    if seen["spread"] is None:
        return "spread", "–", ""
    return "spread", str(seen["spread"]), f"{seen['spreadBps']:.3f} bps"


def _foot(seen: Document) -> str:
    age = "" if seen["ageMs"] is None else f", {seen['ageMs']} ms old"
    return f"{seen['venue']}: {seen['state']}{age}, update {seen['lastUpdateId']}, {seen['resyncs']} resyncs"


def _bar(quantity: float, most: float) -> str:
    return "█" * max(1, round(_BAR * (quantity / most) ** 0.5))


def _balance(buys: float, sells: float) -> Any:
    """How much of the volume was bought, as two halves of a bar."""
    from rich.text import Text

    whole = buys + sells
    part = round(_BAR * buys / whole) if whole else _BAR // 2
    return Text("█" * part, style=_BUY) + Text("█" * (_BAR - part), style=_SELL)


def _spark(values: Sequence[float]) -> str:
    """A line of little bars."""
    kept = values[-_SPARK:]
    if not kept:
        return ""
    low, high = min(kept), max(kept)
    span = (high - low) or 1.0
    return "".join(_TICKS[int((value - low) / span * (len(_TICKS) - 1))] for value in kept)


def _short(number: str) -> str:
    """A number without the zeros at its end."""
    return number.rstrip("0").rstrip(".") if "." in number else number


# --- the command -------------------------------------------------------------------------------


class Watch:
    """Shows one market of the venue that the settings name."""

    def __init__(self, home: Path, settings: Exchange, symbol: str, levels: int, every: float) -> None:
        self._home = home
        self._settings = settings
        self._symbol = symbol
        self._levels = levels
        self._every = every

    async def once(self, console: Console) -> None:
        """Show one picture, with a little flow in it."""
        async with _site(self._home, self._settings) as site:
            market = await self._market(site)
            await asyncio.sleep(FIRST_LOOK)
            self._print(console, self._look(site, market))

    async def run(self, console: Console) -> None:
        """Show pictures until interrupted."""
        async with _site(self._home, self._settings) as site:
            market = await self._market(site)
            if console.json or not sys.stdout.isatty():
                await self._lines(console, site, market)
            else:
                await self._paint(site, market)

    async def _lines(self, console: Console, site: Site, market: Market) -> None:
        while True:
            self._print(console, self._look(site, market))
            await asyncio.sleep(self._every)

    async def _paint(self, site: Site, market: Market) -> None:
        from rich.live import Live

        with Live(picture(self._look(site, market)), auto_refresh=False, screen=True) as live:
            while True:
                await asyncio.sleep(self._every)
                live.update(picture(self._look(site, market)), refresh=True)

    async def _market(self, site: Site) -> Market:
        market = await site.feeds.acquire(self._symbol, "watch")
        if not await market.ready(READY):
            reason = market.status().last_error or "no depth came"
            message = f"The book of {self._symbol} did not come into step within {READY:.0f} s: {reason}."
            raise ToolError("VENUE_UNAVAILABLE", message)
        return market

    def _look(self, site: Site, market: Market) -> Document:
        now = site.client.clock.now_ns() + site.client.time.offset_ns
        return look(market, self._levels, site.endpoints.name, now)

    def _print(self, console: Console, seen: Document) -> None:
        if console.json:
            print_json(json.dumps(seen, ensure_ascii=False))
            return
        from rich.console import Console as Terminal

        Terminal().print(picture(seen))


@asynccontextmanager
async def _site(home: Path, settings: Exchange) -> AsyncGenerator[Site]:
    from tracedesk.exchange.link import Link

    link = Link(home, settings, time.SystemClock())
    try:
        yield await link.site()
    finally:
        await link.close()


async def record_running(
    home: Path, settings: Exchange, symbol: str, path: Path, seconds: int
) -> dict[str, Any]:
    """Record the streams of a venue as they come; a break in them ends the recording with an error."""
    from tracedesk.exchange.book.recording import Recorder
    from tracedesk.exchange.client.streams import Gap
    from tracedesk.exchange.local.recorder import CHANNELS, SNAPSHOT_LEVELS

    counts: dict[str, int] = dict.fromkeys([*CHANNELS, "snapshot"], 0)
    async with _site(home, settings) as site:
        await site.feeds.listing.instrument(symbol)
        names = [f"{symbol.lower()}@{channel}" for channel in CHANNELS]
        with Recorder(path) as out:
            async for frame in _frames_for(site, names, seconds):
                if isinstance(frame, Gap):
                    if any(counts.values()):
                        raise ToolError(
                            "VENUE_UNAVAILABLE", f"The stream of {symbol} broke; record it again."
                        )
                    continue
                out.write(frame.received_ns, frame.raw)
                counts[frame.stream.partition("@")[2]] += 1
                if not counts["snapshot"] and counts["depth@100ms"]:
                    book = await site.client.public.depth(symbol, SNAPSHOT_LEVELS)
                    out.write(site.client.clock.now_ns(), book)
                    counts["snapshot"] = 1
    if not counts["snapshot"]:
        message = f"No depth of {symbol} came within {seconds} s, so that {path.name} cannot be replayed."
        raise ToolError("VENUE_UNAVAILABLE", message)
    return {"symbol": symbol, "seconds": seconds, "messages": counts}


async def _frames_for(site: Site, names: list[str], seconds: int) -> AsyncGenerator[Frame | Gap]:
    """What streams bring within some seconds, also where that is nothing."""
    frames = site.client.streams.frames(*names)
    ends = asyncio.get_running_loop().time() + seconds
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout_at(ends):
                frame = await anext(frames)
            yield frame
