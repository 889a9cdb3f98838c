"""Runs our provider on the real yfinance, which this file's interpreter has; prints what came of it as JSON.

`unreachable`: everything goes through a proxy where nobody listens. `loopback`: the charts come from a server
on the loopback that speaks Yahoo's wire; only the addresses and the cookie are replaced.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Coroutine
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tracedesk.errors import ToolError
from tracedesk.market import calendar
from tracedesk.primitives.time import DAY, SECOND, parse
from tracedesk.trading.sources.yahoo import Yahoo

NOW = parse("2026-03-04T16:00:00Z").ns
DAYS = calendar.sessions(date(2026, 2, 2), date(2026, 3, 4))


def _chart(symbol: str) -> tuple[int, dict[str, Any]]:
    """Yahoo's answer about a symbol, named for what is wrong with it."""
    if symbol == "BUSY":
        return 429, {}
    if symbol == "GONE":
        error = {"code": "Not Found", "description": "No data found, symbol may be delisted"}
        return 404, {"chart": {"result": None, "error": error}}
    if symbol == "VOID":
        return 200, {"chart": {"result": [], "error": None}}
    closes = [100.1 + at for at in range(len(DAYS))]
    quote = {"open": closes, "close": closes, "volume": [1000] * len(DAYS)}
    quote |= {"high": [close + 1 for close in closes], "low": [close - 1 for close in closes]}
    meta = {
        "symbol": symbol, "currency": "USD", "instrumentType": "EQUITY", "priceHint": 2,
        "exchangeTimezoneName": "America/New_York", "timezone": "EST", "gmtoffset": -18000,
        "regularMarketPrice": 121.33, "regularMarketTime": NOW // SECOND - 30, "regularMarketVolume": 4321,
        "dataGranularity": "1d", "range": "", "validRanges": ["1d", "5d", "1mo", "max"],
    }  # fmt: skip
    adjusted = [{"adjclose": [close / 2 for close in closes]}]
    result = {
        "meta": meta,
        "timestamp": [calendar.open_ns(day) // SECOND for day in DAYS],
        "indicators": {"quote": [quote], "adjclose": adjusted},
    }
    return 200, {"chart": {"result": [result], "error": None}}


def _summary(symbol: str) -> tuple[int, dict[str, Any]]:
    error = {"code": "Not Found", "description": f"Quote not found for symbol: {symbol}"}
    return 404, {"quoteSummary": {"result": None, "error": error}}


class _Charts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        place, _, symbol = self.path.partition("?")[0].rpartition("/")
        status, answer = _chart(symbol) if place.endswith("/chart") else _summary(symbol)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


def _ask(work: Coroutine[Any, Any, Any]) -> dict[str, str]:
    """The code of each symbol's failure, or what its value looks like."""
    try:
        fetch = asyncio.run(work)
    except ToolError as error:
        return {"*": error.code}
    told = {symbol: _seen(value) for symbol, value in fetch.values.items()}
    return told | {symbol: error.code for symbol, error in fetch.failures.items()}


def _seen(value: Any) -> str:
    if hasattr(value, "price"):
        return f"{value.price} {value.previous_close} {value.volume} {value.as_of_ns}"
    if hasattr(value, "days"):
        return f"{len(value.days)} {date.fromordinal(value.days[-1])} {value.adjusted[-1]}"
    return f"{len(value)} {value[-1].start_ns} {value[-1].close} {value[-1].adjusted_close}"


def _unreachable() -> dict[str, Any]:
    import yfinance

    yfinance.config.network.proxy = "http://127.0.0.1:9"
    yahoo = Yahoo(system_clock=True)
    return {
        "quotes": _ask(yahoo.quotes(["ACME"], NOW)),
        "daily": _ask(yahoo.daily(["ACME"], 5, NOW)),
        "history": _ask(yahoo.history("ACME", "max", "1d", NOW)),
        "intraday": _ask(yahoo.history("ACME", "1d", "5m", NOW)),
        "news": _ask(yahoo.news(["ACME"], NOW - DAY, NOW)),
        "fundamentals": _ask(yahoo.fundamentals(["ACME"], NOW)),
    }


def _no_cookie(self: Any, timeout: float = 30) -> tuple[None, str]:
    return None, "basic"


def _loopback() -> dict[str, Any]:
    import yfinance.data

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Charts)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    for module in [each for name, each in sys.modules.items() if name.startswith("yfinance")]:
        for constant, value in list(vars(module).items()):
            if isinstance(value, str) and constant.endswith("_URL_"):
                setattr(module, constant, re.sub(r"https://[a-z0-9.]+", address, value))
    yfinance.data.YfData._get_cookie_and_crumb = _no_cookie
    yahoo = Yahoo(system_clock=True)
    symbols = ["ACME", "BUSY", "GONE", "VOID"]
    return {
        "quotes": _ask(yahoo.quotes(symbols, NOW)),
        "daily": _ask(yahoo.daily(symbols, 5, NOW)),
        "history": _ask(yahoo.history("ACME", "5d", "1d", NOW)),
        "weeks": _ask(yahoo.history("ACME", "1mo", "1wk", NOW)),
    }


if __name__ == "__main__":
    import yfinance

    # Its small databases go where the caller says, not to the user's cache.
    yfinance.set_tz_cache_location(str(Path(sys.argv[2])))
    print(json.dumps({"unreachable": _unreachable, "loopback": _loopback}[sys.argv[1]]()))
