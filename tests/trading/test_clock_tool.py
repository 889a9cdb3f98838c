"""`advance_clock`: an agent moves the replay clock, once per id, as the command does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from tests.cli.conftest import Shell, make_shell
from tests.support import run
from tests.trading.desks import Agent, agent
from tests.trading.loopback_broker import LoopbackBroker
from tracedesk.payloads import Payloads

LIMIT: Final = {
    "symbol": "IBM",
    "action": "buy",
    "quantity": 5,
    "order_type": "limit",
    "time_in_force": "gtc",
}
SPX: Final = """\
Date,Open,High,Low,Close,Adj Close,Volume
1999-01-04,1229.229980,1248.810059,1219.099976,1228.099976,1228.099976,877000000
2018-12-31,2498.939941,2509.239990,2482.820068,2506.850098,2506.850098,3442870000
"""


def drop(home: Path, symbol: str, text: str) -> None:
    folder = home / "market" / "bars"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{symbol}.csv").write_text(text, encoding="ascii")


async def count(found: Agent) -> int:
    return await found.trader.ledger(lambda ledger: ledger.head()[0])


def test_an_agent_moves_the_clock_by_each_of_its_ways_and_each_move_is_an_entry(tmp_path: Path) -> None:
    async def main() -> None:
        moves: list[tuple[dict[str, str], str, int, bool]] = [
            ({"by": "30m"}, "2012-12-03T16:00:00Z", 0, True),
            ({"to": "close"}, "2012-12-03T21:00:00Z", 1, False),
            ({"to": "open"}, "2012-12-04T14:30:00Z", 0, True),
            ({"to": "2012-12-06T10:00-05:00"}, "2012-12-06T15:00:00Z", 2, True),
            ({"by": "1w"}, "2012-12-13T15:00:00Z", 5, True),
        ]
        async with agent(tmp_path) as found:
            before = "2012-12-03T15:30:00Z"
            for asked, to, closed, is_open in moves:
                done = await found.call("advance_clock", **asked)
                assert (done["from"], done["to"], done["sessions_closed"]) == (before, to, closed)
                assert done["open"] is is_open
                (entry,) = done["entries"]
                assert (entry["kind"], entry["clock"]) == ("clock", to)
                assert entry["ref"].endswith(f"/{await count(found)}")
                assert (await found.call("get_portfolio"))["portfolio"]["as_of"] == to
                before = to
            assert (await found.call("ledger_verify"))["sound"] is True

    run(main())


def test_the_same_id_moves_the_clock_once_also_at_once_and_from_another_desk(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            raw = [found.raw("advance_clock", "next", by="1d") for _ in range(5)]
            bodies = {reply.json["result"]["content"][0]["text"] for reply in await asyncio.gather(*raw)}
            assert len(bodies) == 1
            entries = await count(found)
        async with agent(tmp_path) as other:
            again = await other.call("advance_clock", "next", by="1d")
            assert again["to"] == "2012-12-04T15:30:00Z"
            assert await count(other) == entries
            error = (await other.refused("advance_clock", "next", by="2d"))["error"]
            assert error["code"] == "TOOL_CALL_ID_CONFLICT"

    run(main())


def test_the_tool_and_the_command_bring_about_the_same(tmp_path: Path) -> None:
    async def placed(home: Path) -> None:
        async with agent(home) as found:
            await found.buy("MSFT", 100)
            orders = [{**LIMIT, "price": 190}, {**LIMIT, "price": 1}]
            await found.call("trade_execute", trades=orders)

    async def by_tool(home: Path) -> tuple[list[str], Any]:
        async with agent(home) as found:
            done = await found.call("advance_clock", "move", to="2013-02-28T12:00:00Z")
            return [e["kind"] for e in done["entries"]], await found.call("get_portfolio", "after")

    async def portfolio(home: Path) -> Any:
        async with agent(home) as found:
            return await found.call("get_portfolio", "after")

    one, two = tmp_path / "one", make_shell(tmp_path)
    for home in (one, two.home):
        run(placed(home))
    kinds, held = run(by_tool(one))
    moved = two("market", "advance", "--to", "2013-02-28T12:00:00Z", "--json").json
    assert kinds == [entry["kind"] for entry in moved["entries"]]
    assert {"fill", "dividend", "clock"} <= set(kinds)
    assert held["portfolio"] == run(portfolio(two.home))["portfolio"]


def test_a_step_that_cannot_be_is_refused_with_its_place_and_moves_nothing(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, str], str, str]] = [
        ({}, "to", "give either"),
        ({"to": "open", "by": "1d"}, "by", "give either"),
        ({"by": "1y"}, "by", "takes a span like"),
        ({"by": "0d"}, "by", "takes a span of a minute or more"),
        ({"by": "00m"}, "by", "such as 30m, 6h, 5d or 2w"),
        ({"to": "tomorrow"}, "to", "is not a time"),
        ({"to": "2012-12-05T10:00"}, "to", "has no zone"),
        ({"to": "2012-12-01T00:00:00Z"}, "to", "moves forward only"),
        ({"by": "9999w"}, "by", "outside the replay"),
    ]

    async def main() -> None:
        async with agent(tmp_path) as found:
            entries = await count(found)
            for asked, place, text in cases:
                error = (await found.refused("advance_clock", **asked))["error"]
                assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", [place]), asked
                assert text in error["message"]
            assert await count(found) == entries

    run(main())


def test_a_move_whose_evidence_cannot_be_kept_moves_nothing_and_may_be_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("IBM", 5)
            entries, store = await count(found), found.trader.desk.payloads
            found.trader.desk.payloads = Payloads(tmp_path / "payloads", largest=1)
            error = (await found.refused("advance_clock", "on", to="2013-02-20T15:00:00Z"))["error"]
            assert (error["code"], error["details"]["kind"]) == ("DATABASE_ERROR", "payloads_full")
            assert await count(found) == entries
            found.trader.desk.payloads = store
            done = await found.call("advance_clock", "on", to="2013-02-20T15:00:00Z")
            assert [entry["kind"] for entry in done["entries"]] == ["dividend", "clock"]

    run(main())


def test_a_clock_that_is_not_the_desk_s_to_move_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path / "paper") as found:
            found.trader.broker = LoopbackBroker(1)
            error = (await found.refused("advance_clock", by="1d"))["error"]
            assert (error["code"], "real broker" in error["message"]) == ("EXECUTION_DISABLED", True)
            found.trader.broker = None
        providers: dict[str, list[str]] = {"quotes": [], "history": []}
        async with agent(tmp_path / "live", {"clock": "system", "providers": providers}) as found:
            error = (await found.refused("advance_clock", by="1d"))["error"]
            assert (error["code"], "system's clock" in error["message"]) == ("EXECUTION_DISABLED", True)

    run(main())


def test_a_closed_exchange_names_the_tool_that_opens_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2012-12-03T22:00:00Z"}) as found:
            trade = {"symbol": "IBM", "action": "buy", "quantity": 1, "order_type": "market"}
            error = (await found.refused("trade_execute", trades=[trade]))["error"]
            assert (error["code"], "advance_clock" in error["message"]) == ("MARKET_CLOSED", True)
            await found.call("advance_clock", to="open")
            assert (await found.buy("IBM", 1))["execution"]["trades"][0]["status"] == "filled"

    run(main())


# --- the range -----------------------------------------------------------------------------------


def test_the_clock_runs_over_the_user_s_bars_too(tmp_path: Path) -> None:
    drop(tmp_path, "SPX", SPX)

    async def main() -> None:
        async with agent(tmp_path, {"clock": "1999-01-04T15:00:00Z"}) as found:
            (quote,) = (await found.call("get_quotes", symbols=["SPX"]))["quotes"]
            assert str(quote["price"]) == "1229.22998"
            await found.call("advance_clock", to="2018-12-31T15:00:00Z")
            assert (await found.buy("SPX", 1))["execution"]["trades"][0]["status"] == "filled"
            await found.call("advance_clock", to="2018-12-31T21:00:00Z")
            trade = {"symbol": "SPX", "action": "sell", "quantity": 1, "order_type": "market"}
            error = (await found.refused("trade_execute", trades=[trade]))["error"]
            assert error["details"]["next_open"] is None  # The last session there is has closed.
            error = (await found.refused("advance_clock", to="2019-01-02T15:00:00Z"))["error"]
            assert "it runs from 1999-01-04T14:30:00Z to 2019-01-02T14:29:59.999999999Z" in error["message"]

    run(main())


def test_a_file_that_does_not_read_widens_nothing_and_stops_nothing(tmp_path: Path) -> None:
    drop(tmp_path, "BAD", "nonsense\n")
    drop(tmp_path, "SPX", SPX)

    async def main() -> None:
        async with agent(tmp_path) as found:
            assert (await found.call("advance_clock", to="2015-06-01T15:30:00Z"))["open"] is True

    run(main())


def test_past_the_end_of_a_held_share_the_account_has_a_value_and_trades_others(tmp_path: Path) -> None:
    drop(tmp_path, "SPX", SPX)

    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("IBM", 5)
            await found.call("advance_clock", to="2018-12-31T15:00:00Z")
            (held,) = (await found.call("get_portfolio"))["portfolio"]["positions"]
            (quote,) = (await found.call("get_quotes", symbols=["IBM"]))["quotes"]
            assert held["current_price"] == quote["price"]
            assert quote["timestamp"] == "2013-03-01T21:00:00Z"
            assert (await found.buy("SPX", 1))["execution"]["trades"][0]["status"] == "filled"
            trade = {"symbol": "IBM", "action": "sell", "quantity": 5, "order_type": "market"}
            error = (await found.refused("trade_execute", trades=[trade]))["error"]
            assert (error["code"], "before this session opened" in error["message"]) == (
                "DATA_UNAVAILABLE",
                True,
            )

    run(main())


def test_the_command_shows_the_range_and_the_user_s_symbols(tmp_path: Path) -> None:
    shell: Shell = make_shell(tmp_path)
    shell.home.mkdir(exist_ok=True)
    drop(shell.home, "SPX", SPX)
    drop(shell.home, "BAD", "nonsense\n")
    drop(shell.home, "spx-1d", SPX.replace("1999", "1998"))
    assert shell("market", "advance", "--to", "2018-12-31T15:00:00Z").code == 0
    shown = shell("market", "show", "--json").json
    assert shown["replay"] == {"from": "1999-01-04T14:30:00Z", "to": "2019-01-02T14:29:59.999999999Z"}
    assert shown["quotes"]["SPX"] == "2498.939941"
    assert set(shown["refused"]) == {"BAD", "spx-1d.csv"}
    text = shell("market", "show").out
    assert "The replay runs from 1999-01-04T14:30:00Z to 2019-01-02T14:29:59.999999999Z.\n" in text
    assert "market/bars, 2018-12-31T14:30:00Z" in text
    assert "BAD.csv line 1: the columns must be" in text
    assert "spx-1d.csv" in text
    assert "name the file for one, in capitals" in text
