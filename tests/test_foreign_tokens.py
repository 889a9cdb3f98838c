"""What the marks of strangers' text cost: at most three tokens in a hundred over answers of all toolsets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.backtest import desks as runs
from tests.codegraph import desks as code
from tests.exchange import desks as exchange
from tests.exchange.test_tools import READS
from tests.fuzz import desks as fuzz
from tests.support import Reply, run
from tests.trading import desks as trading
from tracedesk import foreign
from tracedesk.primitives.tokens import count

MOST: Final = 0.03


class Cost:
    """Tokens of answers as a model reads them, by toolset: with the marks of strangers' text, and without."""

    def __init__(self) -> None:
        self.bare: Counter[str] = Counter()
        self.marked: Counter[str] = Counter()

    def note(self, toolset: str, reply: Reply) -> Any:
        result = reply.json["result"]
        text = "".join(block.get("text", "") for block in result["content"])
        declared = result["_meta"].get(foreign.META_KEY)
        written = "" if declared is None else json.dumps({foreign.META_KEY: declared}, separators=(",", ":"))
        self.bare[toolset] += count(text.replace(foreign.OPENING, "").replace(foreign.CLOSING, ""))
        self.marked[toolset] += count(text) + (count(written) if written else 0)
        return result.get("structuredContent")

    def growth(self, toolset: str | None = None) -> float:
        bare = self.bare.total() if toolset is None else self.bare[toolset]
        marked = self.marked.total() if toolset is None else self.marked[toolset]
        return marked / bare - 1


async def _codegraph(folder: Path, cost: Cost) -> None:
    root = str(code.shop(folder / "shop"))
    async with code.agent(folder / "home", folder) as agent:

        async def ask(tool: str, **arguments: Any) -> Any:
            return cost.note("codegraph", await agent.raw(tool, arguments))

        index = await ask("graph_index_project", project_root=root, files=["."])
        await ask("graph_context_for_files", project_root=root, files=index["indexed_files"])
        for words in ("session of a user", "refresh", "cart total", "clock"):
            await ask("graph_search", project_root=root, query=words)
            await ask("graph_neighbors", project_root=root, symbol=words.split()[0])
        for number in range(6):
            event = {"attempt_id": f"a{number}", "project_root": root, "kind": "checkpoint"}
            note = {"message": f"sessions end too early, try {number}", "files": ["app/session.py"]}
            await ask("etg_log_event", **event, payload=note)
        await ask("etg_query_similar_attempts", query="session ends early")
        await ask("etg_get_attempt", attempt_id="a1")
        await ask("etg_timeline")


async def _backtest(folder: Path, cost: Cost) -> None:
    id = runs.story(folder)
    async with runs.agent(folder) as agent:

        async def ask(tool: str, **arguments: Any) -> Any:
            return cost.note("backtest", await agent.raw(tool, **arguments))

        for kind in ("TradeExecution", "PositionUpdate", "IndicatorCalculation", "OrderRejection"):
            page = await ask("get_events_by_type", runId=id, eventType=kind)
            await ask("explain_event", runId=id, eventId=page["events"][0]["eventId"])
        for tool in ("describe_run", "query_event_sequence", "get_validation_errors"):
            await ask(tool, runId=id)
        await ask("list_backtest_runs")
        await ask("get_state_snapshot", runId=id, timestamp="2025-01-02T15:00:00Z")


async def _exchange(folder: Path, cost: Cost) -> None:
    async with exchange.agent(folder) as agent:
        owner = agent.owner()
        await owner.placed()
        for tool, arguments in READS:
            cost.note("exchange", await owner.raw(tool, **arguments))
        cost.note("exchange", await owner.raw("preview_order", **exchange.BUY))
        cost.note("exchange", await owner.raw("get_order", symbol="BTCUSDT", order_id=7))


async def _trading(folder: Path, cost: Cost) -> None:
    (folder / "market" / "news").mkdir(parents=True)
    story = {"symbol": "AAPL", "published": "2012-12-03T12:00:00Z", "source": "The Wire"}
    lines = [
        {**story, "headline": f"Apple sells {n} million phones", "summary": "More than was expected. " * 6}
        for n in range(10)
    ]
    (folder / "market" / "news" / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    async with trading.agent(folder, {"providers": {"news": ["files"]}}) as agent:

        async def ask(tool: str, **arguments: Any) -> Any:
            return cost.note("trading", await agent.raw(tool, **arguments))

        trade = {"symbol": "AAPL", "action": "buy", "quantity": 10, "order_type": "market"}
        await ask("get_news", symbols=["AAPL"], hours_back=48)
        await ask("trade_execute", trades=[trade, {**trade, "symbol": "IBM"}])
        await ask("list_trade_orders", status="all")
        await ask("get_quotes", symbols=["AAPL", "IBM", "MSFT"])
        await ask("get_history", symbol="AAPL")
        for tool in ("get_portfolio", "get_risk", "ledger_verify"):
            await ask(tool)


async def _fuzz(folder: Path, cost: Cost) -> None:
    async with fuzz.agent(folder / "home", folder) as agent:

        async def ask(tool: str, **arguments: Any) -> Any:
            return cost.note("fuzz", await agent.raw(tool, arguments))

        given = {"path": str(fuzz.vault(folder)), "seed": fuzz.SEED, "workers": 1}
        await ask("start_campaign", **given, testLimit=fuzz.ENDLESS, timeout=300)
        await agent.until("get_reproducers", lambda a: bool(a["reproducers"]))
        await agent.until("read_logs", lambda a: len(a["events"]) >= 25)
        for tool in ("campaign_status", "target", "read_logs", "show_coverage", "dump_lcov"):
            await ask(tool)
        for tool in ("get_reproducers", "inspect_corpus_transactions", "get_corpus_size"):
            await ask(tool)
        await ask("execute_sequence", sequence=["set_fee(13)", "deposit()"], trace=True)
        await ask("stop_campaign")


def test_marks_cost_three_tokens_in_a_hundred_at_most(tmp_path: Path) -> None:
    cost = Cost()
    for toolset in (_codegraph, _backtest, _exchange, _trading, _fuzz):
        (folder := tmp_path / toolset.__name__).mkdir()
        with fuzz.no_host_left(folder / "home"):
            run(toolset(folder, cost))
    stated = {name: f"{cost.bare[name]} tokens, {cost.growth(name):+.1%}" for name in cost.bare}
    print(stated, cost.growth())
    assert cost.growth() <= MOST, (f"{cost.growth():+.1%}", stated)
