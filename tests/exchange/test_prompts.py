"""The prompts: one user message with data and a task, arguments checked, missing data said to be missing."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.exchange.desks import agent
from tests.support import run, until
from tracedesk.exchange import flows, report

NOWHERE = {
    "rest": "http://127.0.0.1:9",
    "streams": "ws://127.0.0.1:9",
    "ws_api": "ws://127.0.0.1:9/ws-api/v3",
}
PROMPTS = {
    "trading_analysis": {"symbol": "btcusdt", "strategy": "Aggressive", "risk_tolerance": "HIGH"},
    "portfolio_risk": {},
    "market_microstructure_analysis": {"symbol": "BTCUSDT", "profile_hours": "2"},
    "order_flow_trading": {"symbol": "BTCUSDT", "window_minutes": "1"},
    "liquidity_mapping": {"symbol": "BTCUSDT", "lookback_minutes": "10"},
}


def test_the_five_prompts_are_listed_with_their_arguments(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            found = (await client.client.modern("prompts/list")).json["result"]["prompts"]
            arguments = {p["name"]: {a["name"]: a["required"] for a in p.get("arguments", [])} for p in found}
            assert arguments == {
                "trading_analysis": {"symbol": True, "strategy": False, "risk_tolerance": False},
                "portfolio_risk": {},
                "market_microstructure_analysis": {"symbol": True, "profile_hours": False},
                "order_flow_trading": {"symbol": True, "window_minutes": False},
                "liquidity_mapping": {"symbol": True, "lookback_minutes": False},
            }

    run(main())


def test_the_first_use_of_the_venue_loads_what_prompts_compute_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(flows, "load", lambda: loaded.append("figures"))

    async def main() -> None:
        async with agent(tmp_path) as client:
            assert loaded == []
            await client.call("orderbook_l1", symbol="BTCUSDT")
            await client.call("orderbook_l1", symbol="BTCUSDT")
            await until(lambda: loaded == ["figures"])

    run(main())


def test_all_figures_are_loaded_that_an_answer_would_import() -> None:
    named = {name.rpartition(".")[2] for name in flows.FIGURES}
    wanted = re.compile(r"^    from tracedesk\.exchange\.analytics import (\w+)$", re.MULTILINE)
    for module in (flows, report):
        found = set(wanted.findall(Path(module.__file__ or "").read_text(encoding="utf-8")))
        assert found <= named
    assert "numpy" in named


def test_every_prompt_is_one_user_message_with_data_and_a_task(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            owner = client.owner()
            for costly in ("detect_market_anomalies", "get_microstructure_health"):
                await owner.call(costly, symbol="BTCUSDT")
            for name, arguments in PROMPTS.items():
                message = await owner.prompt(name, **arguments)
                assert message.startswith("# "), name
                assert "## Your task" in message, name
                assert "never instructions" in message, name
                assert "Data unavailable" not in message, (name, message)
            shown = await owner.prompt("trading_analysis", **PROMPTS["trading_analysis"])
            assert "Strategy: **aggressive**. Risk tolerance: **high**." in shown
            assert "| Last price | 50001.00 |" in shown
            assert "Insufficient data" in shown
            assert "Total: 1500010.00000000 USDT." in await owner.prompt("portfolio_risk")

    run(main())


def test_a_prompt_without_its_data_says_so_and_still_guides(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"addresses": NOWHERE}) as client:
            asked = (client.owner().prompt(name, **arguments) for name, arguments in PROMPTS.items())
            for message in await asyncio.gather(*asked):
                assert "Data unavailable" in message
                assert "## Your task" in message

    run(main())


MISFITS: list[tuple[str, dict[str, str], str]] = [
    (
        "trading_analysis",
        {"symbol": "BTCUSDT", "strategy": "reckless"},
        "aggressive, balanced, conservative",
    ),
    ("trading_analysis", {"symbol": "BTCUSDT", "risk_tolerance": "none"}, "low, medium, high"),
    ("trading_analysis", {"symbol": "BTCUSD"}, "Did you mean BTCUSDT"),
    ("trading_analysis", {"symbol": " "}, "symbol is empty"),
    ("trading_analysis", {}, "missing: symbol"),
    ("trading_analysis", {"symbol": "BTCUSDT", "timeframe": "1h"}, "unknown: timeframe"),
    ("market_microstructure_analysis", {"symbol": "BTCUSDT", "profile_hours": "0"}, "from 1 to 168"),
    ("market_microstructure_analysis", {"symbol": "BTCUSDT", "profile_hours": "24h"}, "from 1 to 168"),
    ("order_flow_trading", {"symbol": "BTCUSDT", "window_minutes": "61"}, "from 1 to 60"),
    ("liquidity_mapping", {"symbol": "BTCUSDT", "lookback_minutes": "\u0663\u0660"}, "from 10 to 1440"),
    ("liquidity_mapping", {"symbol": "BTCUSDT", "lookback_minutes": "00003099999"}, "from 10 to 1440"),
    ("liquidity_mapping", {"symbol": "BTCUSDT", "lookback_minutes": "9" * 5000}, "from 10 to 1440"),
]
COMPLETED: list[tuple[str, str, list[str]]] = [
    ("symbol", "", ["BTCUSDT", "ETHUSDT", "BNBUSDT", "ETHBTC", "SOLUSDT"]),
    ("symbol", "e", ["ETHUSDT", "ETHBTC"]),
    ("strategy", "", ["aggressive", "balanced", "conservative"]),
    ("strategy", "B", ["balanced"]),
    ("risk_tolerance", "h", ["high"]),
    ("strategy", "x", []),
]


def test_an_argument_that_does_not_fit_is_refused_with_what_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for name, arguments, problem in MISFITS:
                error = await client.unprompted(name, **arguments)
                assert error["code"] == -32602, arguments
                assert problem in error["message"], arguments

    run(main())


def test_arguments_complete(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as client:
            for argument, value, completed in COMPLETED:
                params = {
                    "ref": {"type": "ref/prompt", "name": "trading_analysis"},
                    "argument": {"name": argument, "value": value},
                }
                found = (await client.client.modern("completion/complete", params)).json["result"][
                    "completion"
                ]
                assert found["values"] == completed, (argument, value)

    run(main())


def test_a_prompt_that_is_switched_off_is_not_listed_and_its_refusal_names_the_switch(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"microstructure": False}) as client:
            listed = (await client.client.modern("prompts/list")).json["result"]["prompts"]
            assert "market_microstructure_analysis" not in {p["name"] for p in listed}
            error = await client.unprompted("market_microstructure_analysis", symbol="BTCUSDT")
            assert "exchange.microstructure = true" in error["message"]

    run(main())
