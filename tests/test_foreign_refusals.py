"""Orders planted in what venues, compilers, contracts and brokers say: refusals quote them."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.exchange import desks as exchange
from tests.fixtures.foreign import judged, spoken
from tests.fixtures.injections import INJECTIONS
from tests.fuzz import desks as fuzz
from tests.support import run
from tracedesk.errors import ToolError
from tracedesk.exchange.client.errors import RateLimited, VenueError
from tracedesk.exchange.client.rest import Rest
from tracedesk.exchange.instruments import Instrument
from tracedesk.fuzz.artifacts import document
from tracedesk.fuzz.config import Config
from tracedesk.fuzz.project import Project
from tracedesk.fuzz.reach import ANYWHERE
from tracedesk.fuzz.spec import choose
from tracedesk.trading.sources.http import Http

CODES = (-1013, -1021, -1121, -2010, -2011, 0)


@pytest.mark.parametrize("code", CODES)
def test_a_venues_words_are_quoted_in_a_refusal(code: int) -> None:
    for order in INJECTIONS:
        for words in (order, f"Filter failure: {order}", order * 20):
            assert spoken({"message": VenueError(code, words, 400).message}, {}) == [], words


def test_a_venues_words_are_quoted_where_it_takes_no_more_requests() -> None:
    for order in INJECTIONS:
        assert spoken(RateLimited(order * 20, 3.0, sent=True).message, {}) == []
    ours = RateLimited("The venue's limit of orders is used up.", 3.0, sent=False).message
    assert ours == "The venue's limit of orders is used up. Nothing was done. Try again in 3 s."


def test_a_refusal_that_names_no_filter_is_one_all_the_same() -> None:
    assert VenueError(-1013, "Filter failure: ", 400).code == "FILTER_FAILURE"


def test_a_venue_gives_no_orders_in_the_desks_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter(INJECTIONS * 2)

    async def refused(*_: Any, **__: Any) -> Any:
        raise VenueError(-2011, next(said), 400)

    listed = Instrument.of

    def strange(published: Any) -> Instrument:
        order = INJECTIONS[0]
        return listed({**published, "baseAsset": order, "quoteAsset": order, "status": order})

    async def main() -> list[Any]:
        found: list[Any] = []
        async with exchange.agent(tmp_path) as agent:
            owner = agent.owner()
            monkeypatch.setattr(Rest, "order", refused)
            for _ in INJECTIONS:
                reply = await owner.raw("get_order", symbol="BTCUSDT", order_id=1)
                envelope = judged("get_order", reply, found)
                assert envelope["error"]["details"]["venueMessage"]
            monkeypatch.setattr(Instrument, "of", strange)
            for symbol in ("BTCUSDT",):
                found += spoken(await owner.read(f"binance://market/{symbol.lower()}"), {})
                found += spoken(await owner.prompt("trading_analysis", symbol=symbol), {})
                judged("preview_order", await owner.raw("preview_order", **exchange.BUY), found)
        return found

    assert run(main()) == []


_REVERTING = """# pragma version ~=0.4.0
@deploy
def __init__():
    raise "%s"

@external
@view
def echidna_true() -> bool:
    return True
"""
_WRONG = """# pragma version ~=0.4.0
# %s
@external
def f() -> uint256:
    return "%s"
"""


def _plain(order: str) -> str:
    return order.encode("ascii", "ignore").decode().replace('"', "").replace("\\", " ")


def test_a_contract_gives_no_orders_in_the_desks_voice(tmp_path: Path) -> None:
    orders = [order for order in map(_plain, INJECTIONS[:180:20]) if order.strip()]
    for number, order in enumerate(orders):
        (tmp_path / f"Reverting{number}.vy").write_text(_REVERTING % order)
        (tmp_path / f"Wrong{number}.vy").write_text(_WRONG % (order, order))

    async def main() -> list[Any]:
        found: list[Any] = []
        async with fuzz.agent(tmp_path / "home", tmp_path) as agent:
            for number in range(len(orders)):
                for name in (f"Reverting{number}.vy", f"Wrong{number}.vy"):
                    reply = await agent.raw("start_campaign", {"path": str(tmp_path / name)})
                    assert reply.json["result"]["isError"], reply
                    judged("start_campaign", reply, found)
        return found

    assert run(main()) == []


def test_an_artifact_gives_no_orders_in_the_desks_voice(tmp_path: Path) -> None:
    found: list[Any] = []
    for order in INJECTIONS:
        broken: dict[str, Any] = {
            "errors": [{"severity": "error", "formattedMessage": order, "message": order}],
            "contracts": {"a.sol": {order: order}},
        }
        file = tmp_path / "output.json"
        file.write_text(json.dumps(broken))
        with pytest.raises(ToolError) as refused:
            document(file, tmp_path, ANYWHERE)
        found += spoken({"message": refused.value.message}, {})
        contract: dict[str, Any] = {
            "abi": [],
            "evm": {"bytecode": {"object": "00"}, "deployedBytecode": {"object": "00"}},
        }
        file.write_text(json.dumps({"contracts": {"a.sol": {order: contract, order + "2": contract}}}))
        reading = document(file, tmp_path, ANYWHERE)
        project = Project(tmp_path, reading.contracts, reading.sources)
        with pytest.raises(ToolError) as refused:
            choose(project, "none", Config())
        _, warnings = choose(project, None, Config())
        assert warnings
        found += spoken({"message": refused.value.message, "warnings": list(warnings)}, {})
    assert found == []


def test_a_data_service_gives_no_orders_in_the_desks_voice() -> None:
    said = iter(INJECTIONS)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"{next(said)}\r\n\r\n".encode())
        writer.close()

    async def main() -> list[Any]:
        found: list[Any] = []
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            service = Http(f"http://127.0.0.1:{port}")
            for _ in INJECTIONS:
                with pytest.raises(ToolError) as refused:
                    await service.quotes(["AAPL"], time.time_ns())
                found += spoken({"message": refused.value.message}, {})
        return found

    assert run(main()) == []
