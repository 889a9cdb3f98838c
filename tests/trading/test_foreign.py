"""Orders planted in news, data files, data services, brokers and logged events: none is the desk's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.fixtures.foreign import distinct, judged, spoken, tools_of
from tests.fixtures.injections import INJECTIONS
from tests.support import run
from tests.trading import desks
from tests.trading.outbox_desks import LIVE
from tracedesk.errors import ToolError
from tracedesk.market.clock import FIRST_NS
from tracedesk.trading.broker import BrokerRefused, BrokerSilent, Report
from tracedesk.trading.model import Order
from tracedesk.trading.sources.files import Files
from tracedesk.trading.sources.http import Http

AT = "2012-12-03T12:00:00Z"
BUY = {"symbol": "AAPL", "action": "buy", "quantity": 1, "order_type": "market"}
PROVIDERS = {"news": ["files"], "fundamentals": ["files"]}


def _dropped(folder: Path) -> None:
    """News and fundamentals whose every text is an order."""
    (folder / "news").mkdir(parents=True)
    with (folder / "news" / "feed.jsonl").open("w") as file:
        for number, order in enumerate(INJECTIONS):
            story = {"symbol": ("AAPL", "IBM")[number % 2], "headline": order, "published": AT}
            file.write(json.dumps({**story, "summary": order, "source": order}) + "\n")
    row = {"symbol": "AAPL", "as_of": AT, "pe_ratio": 12, "missing": {"eps": INJECTIONS[0]}}
    (folder / "fundamentals.jsonl").write_text(json.dumps(row) + "\n")


class Lying:
    """A broker whose words are all one order."""

    name = "lying"
    answer_s = 5.0
    arrives_s = 0.0

    def __init__(self) -> None:
        self.order = ""
        self.fate = "refused"

    async def submit(self, order: Order) -> Report:
        if self.fate == "refused":
            raise BrokerRefused(self.order)
        if self.fate == "silent":
            raise BrokerSilent(self.order)
        return self._report(order.client_id, order.trade.symbol)

    async def lookup(self, client_id: str) -> Report | None:
        if self.fate == "silent":
            raise BrokerSilent(self.order)
        return None if self.fate == "refused" else self._report(client_id, "AAPL")

    def _report(self, client_id: str, symbol: str) -> Report:
        told: dict[str, Any] = {"client_id": client_id, "symbol": symbol, "status": "rejected"}
        told |= {"reason": self.order} if self.fate == "reason" else {self.fate: self.order}
        return Report(**told)


def test_news_brokers_and_notes_give_no_orders_in_the_desks_voice(tmp_path: Path) -> None:
    found: list[Any] = []
    asked: set[str] = set()
    _dropped(tmp_path / "market")

    async def main() -> None:
        table = {**LIVE, "providers": PROVIDERS}
        async with desks.agent(tmp_path, table, max_tokens=1_000_000) as agent:

            async def ask(tool: str, **arguments: Any) -> Any:
                asked.add(tool)
                return judged(tool, await agent.raw(tool, **arguments), found)

            news = await ask("get_news", symbols=["AAPL", "IBM"], hours_back=48)
            assert len(news["news"]) > 50
            await ask("get_fundamentals", symbols=["AAPL"])
            noted: Any = None
            for order in INJECTIONS:
                noted = await ask("log_event", event_type="signal", data={"note": order, order: 1})
            refs: list[str] = [*news["source_refs"], noted["event_id"], *noted["source_refs"]]
            for ref in refs:
                for tool in ("get_source", "trace"):
                    judged(tool, await agent.client.call(tool, {"ref": ref}), found)
            broker = agent.trader.broker = cast("Any", Lying())
            for fate in ("refused", "reason", "symbol", "client_id", "status", "silent"):
                for order in INJECTIONS[:: 1 if fate in ("refused", "reason") else 7]:
                    broker.fate, broker.order = fate, order
                    await ask("trade_execute", trades=[BUY])
                    await ask("list_trade_orders", status="all", limit=3)
                    broker.fate = "refused"
                    await ask("trade_execute", trades=[BUY])
            await ask("cancel_trade_order", order_id="none")
            await ask("get_quotes", symbols=["AAPL"])
            await ask("get_history", symbol="AAPL")
            await ask("get_risk")
            await ask("advance_clock", by="1d")
            await ask("get_portfolio")
            await ask("trade_simulate", trades=[{"symbol": "AAPL", "action": "buy", "quantity": 10**6}])
            await ask("ledger_verify")
            stats = (await agent.client.modern("resources/read", {"uri": "tracedesk://trading/stats"})).json
            found.extend(("stats", *each) for each in spoken(stats["result"]["contents"], {}))

    run(main())
    assert distinct(found) == {}
    assert asked == tools_of("trading")


def _broken(order: str) -> Iterator[tuple[str, str, str]]:
    """Files that a refusal speaks of: the kind, the file's name, and its text."""
    plain = " ".join(order.replace(",", " ").replace('"', "").split())
    text = json.dumps(order)
    yield "quotes", "quotes.csv", f"{plain},time,price\n"
    yield "quotes", "quotes.csv", f"symbol,time,price\n{plain},{AT},1\n"
    yield "quotes", "quotes.csv", f"symbol,time,price\nAAPL,{plain},1\n"
    yield "quotes", "quotes.csv", f"symbol,time,price\nAAPL,{AT},{plain}\n"
    yield "daily", "bars/AAPL.csv", f"{plain}\n"
    yield "daily", "bars/AAPL.csv", f"date,open,high,low,close,volume\n{plain},1,1,1,1,1\n"
    for head, row in (
        ("Date,Open,High,Low,Close,Volume\n", "{},1,1,1,1,1\n"),
        ("Date,Open,High,Low,Close,Volume\n1/1/2012,1,1,1,1,1\n13/1/2012,1,1,1,1,1\n", "{},1,1,1,1,1\n"),
        ("Date,Open,High,Low,Close,Volume\n", "2012-11-30,1,1,1,1,{}\n"),
        ("<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>\n", "A,{},20121130,0,1,1,1,1,1\n"),
        ("open_time,open,high,low,close,volume,close_time\n", "{},1,1,1,1,1,1\n"),
        ("open_time,open,high,low,close,volume,close_time\n", "1735516800000,1,1,1,1,1,{}\n"),
    ):
        yield "daily", "bars/AAPL.csv", head + row.format(plain)
    yield "daily", "bars/AAPL.csv", f"date,open,high,low,close,volume\n2012-11-30,{plain},1,1,1,1\n"
    yield "daily", "bars/AAPL.csv", f"date,open,high,low,close,volume\n2012-11-30,1,1,1,1,{plain}\n"
    yield "fundamentals", "fundamentals.jsonl", f'{{"symbol": "AAPL", "as_of": "{AT}", {text}: 1}}\n'
    yield "fundamentals", "fundamentals.jsonl", f'{{"symbol": "AAPL", "as_of": {text}}}\n'
    yield "fundamentals", "fundamentals.jsonl", f'{{"symbol": {text}, "as_of": "{AT}"}}\n'
    yield "fundamentals", "fundamentals.jsonl", f'{{"symbol": "AAPL", "as_of": "{AT}", "pe_ratio": {text}}}\n'
    yield (
        "fundamentals",
        "fundamentals.jsonl",
        f'{{"symbol": "AAPL", "period_end": {text}, "as_of": "{AT}"}}\n',
    )
    yield "fundamentals", "fundamentals.jsonl", f"{plain}\n"
    yield "news", "news/a.jsonl", f'{{"symbol": "AAPL", "headline": "x", "published": {text}}}\n'
    yield "news", "news/a.jsonl", f'{{"symbol": {text}, "headline": "x", "published": "{AT}"}}\n'
    safe = plain.replace("<", " ").replace(">", " ").replace("&", " ")
    yield "news", "news/AAPL.rss", f"<x{safe.replace(' ', '_')}/>"
    feed = "<rss><channel><item><title>x</title><pubDate>{}</pubDate></item></channel></rss>"
    yield "news", "news/AAPL.rss", feed.format(safe)


async def _refusal(provider: Any, kind: str) -> str:
    asked = {"news": (0, FIRST_NS * 2), "daily": (5, FIRST_NS * 2)}.get(kind, (FIRST_NS * 2,))
    try:
        fetch = await getattr(provider, kind)(["AAPL"], *asked)
    except ToolError as error:
        return error.message
    return fetch.failures["AAPL"].message


def test_a_broken_data_file_gives_no_orders_in_the_desks_voice(tmp_path: Path) -> None:
    found: list[Any] = []
    for number, order in enumerate(INJECTIONS):
        for place, (kind, name, text) in enumerate(_broken(order)):
            if (number + place) % 5:
                continue  # each place meets forty orders, of each kind and disguise some
            folder = tmp_path / f"{number}-{place}"
            file = folder / name
            file.parent.mkdir(parents=True)
            file.write_text(text)
            said = asyncio.run(_refusal(Files(folder), kind))
            found += [(f"{kind} {place}", *each) for each in spoken({"message": said}, {})]
    assert distinct(found) == {}


@pytest.mark.parametrize("field", ["price", "as_of", "volume", "previous_close", "bid", "ask", "unknown"])
def test_a_lying_data_service_gives_no_orders_in_the_desks_voice(field: str) -> None:
    from tests.trading.sources.loopback import ok, running

    found: list[Any] = []
    honest = {"price": 10, "as_of": AT}
    acts = [ok({"symbols": {"AAPL": {**honest, field: order}}, "unknown": [order]}) for order in INJECTIONS]

    async def main() -> None:
        async with running(*acts) as service:
            provider = Http(service.url)
            for _ in INJECTIONS:
                try:
                    fetch = await provider.quotes(["AAPL"], FIRST_NS * 2)
                except ToolError as error:
                    found.extend(spoken({"message": error.message}, {}))
                else:
                    failed = [failure.message for failure in fetch.failures.values()]
                    found.extend(spoken({"messages": failed}, {}))

    run(main())
    assert found == []
