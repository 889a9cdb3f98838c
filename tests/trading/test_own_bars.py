"""Own bars in a desk: of a symbol that the embedded data have too, they alone price it in every answer; and
a symbol with a file is never called unknown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.support import run
from tests.trading.desks import Agent, agent
from tracedesk.market import calendar

PRICE: Final = Decimal("14.50")
EMBEDDED_OPEN: Final = Decimal("593.65")
"""AAPL at the default clock, by the embedded data."""
LEG: Final = {"symbol": "AAPL", "action": "buy", "quantity": 5}
GTC: Final = {
    "symbol": "IBM", "action": "buy", "quantity": 5, "order_type": "limit", "time_in_force": "gtc",
}  # fmt: skip


def drop(home: Path, symbol: str, first: date = date(1999, 1, 4), last: date = date(2018, 12, 31)) -> Path:
    """A file of a share that opens at `PRICE` each day and closes a little beside it."""
    folder = home / "market" / "bars"
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["date,open,high,low,close,volume"]
    for index, session in enumerate(calendar.sessions(first, last)):
        close = PRICE + Decimal(index % 7 - 3) / 100
        rows.append(f"{session},{PRICE},{PRICE + 1},{PRICE - 1},{close},1000000")
    path = folder / f"{symbol}.csv"
    path.write_text("\n".join(rows) + "\n", encoding="ascii")
    return path


async def price(found: Agent, symbol: str) -> Decimal:
    (quote,) = (await found.call("get_quotes", symbols=[symbol]))["quotes"]
    return quote["price"]


async def last_close(found: Agent, symbol: str) -> Decimal:
    told = await found.call("get_history", symbol=symbol, period="1mo")
    return told["history"][-1]["close"]


async def _refusals(found: Agent, symbol: str) -> list[dict[str, Any]]:
    """The refusals of each tool that needs a price of the symbol."""
    trade = {**LEG, "symbol": symbol}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("get_quotes", {"symbols": [symbol]}),
        ("get_history", {"symbol": symbol, "period": "1mo"}),
        ("trade_simulate", {"trades": [trade]}),
        ("trade_execute", {"trades": [{**trade, "order_type": "market"}]}),
    ]
    return [(await found.refused(tool, **arguments))["error"] for tool, arguments in asked]


@pytest.mark.parametrize(
    ("clock", "before", "n"),
    [
        ("1999-06-01T15:30:00Z", "1999-05-28", 101),
        ("2012-12-03T15:30:00Z", "2012-11-30", 252),
        ("2015-06-01T15:30:00Z", "2015-05-29", 252),
    ],
)
def test_every_answer_about_a_symbol_with_own_bars_rests_on_them(
    tmp_path: Path, clock: str, before: str, n: int
) -> None:
    drop(tmp_path, "AAPL")

    async def main() -> None:
        async with agent(tmp_path, {"clock": clock}) as found:
            assert await price(found, "AAPL") == PRICE
            assert abs(await last_close(found, "AAPL") - PRICE) < 1
            simulated = (await found.call("trade_simulate", trades=[LEG]))["simulation"]["trades"]
            executed = (await found.buy("AAPL", 5))["execution"]["trades"]
            for (traded,) in (simulated, executed):
                assert (traded["status"], traded["price"]) == ("filled", Decimal("14.5072"))
            (held,) = (await found.call("get_portfolio"))["portfolio"]["positions"]
            assert held["current_price"] == PRICE
            basis = (await found.call("get_risk"))["risk_metrics"]["basis"]
            assert (basis["last"], basis["n"]) == (before, n)

    run(main())


def test_symbols_without_own_bars_are_answered_as_before(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        told: list[Any] = []
        for home in (tmp_path / "without", tmp_path / "with"):
            home.mkdir()
            if home.name == "with":
                drop(home, "AAPL")
            async with agent(home) as found:
                told.append([await price(found, "IBM"), await last_close(found, "MSFT")])
        return told

    without, beside = run(main())
    assert without == beside


def test_a_file_counts_for_all_answers_as_soon_as_it_is_there_and_until_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            for _ in range(2):
                assert await price(found, "AAPL") == EMBEDDED_OPEN
                assert await last_close(found, "AAPL") == Decimal("585.28")
                path = drop(tmp_path, "AAPL")
                assert await price(found, "AAPL") == PRICE
                assert abs(await last_close(found, "AAPL") - PRICE) < 1
                path.unlink()

    run(main())


def test_own_bars_that_do_not_read_or_have_not_begun_are_named_and_not_passed_over(tmp_path: Path) -> None:
    drop(tmp_path, "AAPL", first=date(2015, 1, 2))
    drop(tmp_path, "MSFT").write_text("nonsense\n")

    async def main() -> None:
        async with agent(tmp_path) as found:
            for symbol, named in (("AAPL", "2015-01-02"), ("MSFT", "bars/MSFT.csv line 1")):
                for error in await _refusals(found, symbol):
                    assert error["code"] == "DATA_UNAVAILABLE", error
                    assert named in error["message"], error

    run(main())


@pytest.mark.parametrize("kind", ["quotes", "history"])
def test_files_named_for_one_kind_alone_take_no_symbol_over(tmp_path: Path, kind: str) -> None:
    drop(tmp_path, "AAPL")
    providers: Mapping[str, Any] = {"quotes": ["embedded"], "history": ["embedded"]} | {
        kind: ["embedded", "files"]
    }

    async def main() -> None:
        async with agent(tmp_path, {"providers": providers}) as found:
            assert await price(found, "AAPL") == EMBEDDED_OPEN
            assert await last_close(found, "AAPL") == Decimal("585.28")

    run(main())


def test_a_move_pays_no_embedded_dividend_on_a_share_with_own_bars_and_ends_its_resting_orders(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            await found.buy("IBM", 5)
            await found.call("trade_execute", trades=[{**GTC, "price": 150}])
            drop(tmp_path, "IBM")
            # IBM goes ex on 2013-02-06.
            done = await found.call("advance_clock", to="2013-02-07T15:00:00Z")
            assert [entry["kind"] for entry in done["entries"]] == ["order", "clock"]
            rows = (await found.call("list_trade_orders", status="all"))["orders"]
            (row,) = [row for row in rows if row["order_type"] == "limit"]
            assert (row["status"], row["reason"]) == ("cancelled", "OWN_BARS")
            traced = await found.call("get_portfolio")
            assert traced["portfolio"]["positions"][0]["current_price"] == PRICE
            error = (await found.refused("trade_execute", trades=[{**GTC, "price": 14}]))["error"]
            assert "priced by files" in error["message"]
            assert (await found.call("ledger_verify"))["sound"] is True

    run(main())


def test_the_command_shows_own_bars_in_place_of_embedded_ones(tmp_path: Path) -> None:
    shell: Shell = make_shell(tmp_path)
    shell.home.mkdir(exist_ok=True)
    drop(shell.home, "AAPL")
    shown = shell("market", "show", "--json").json["quotes"]
    assert (Decimal(shown["AAPL"]), set(shown)) == (PRICE, {"AAPL", "FB", "GOOG", "IBM", "MSFT"})
    assert shell("market", "show").out.count("AAPL") == 1


# --- files without an answer -----------------------------------------------------------------------


def test_a_file_whose_bars_lie_ahead_is_named_with_their_range_and_the_way_there(tmp_path: Path) -> None:
    drop(tmp_path, "TSLA", first=date(2018, 1, 2))

    async def main() -> None:
        async with agent(tmp_path) as found:
            for error in await _refusals(found, "TSLA"):
                assert error["code"] == "DATA_UNAVAILABLE", error
                assert (
                    "market/bars/TSLA.csv in the home has bars from 2018-01-02 to 2018-12-31"
                    in error["message"]
                )
                assert "advance_clock" in error["message"]
            await found.call("advance_clock", to="2018-06-01T15:00:00Z")
            assert await price(found, "TSLA") == PRICE

    run(main())


def test_a_file_without_a_row_is_named(tmp_path: Path) -> None:
    drop(tmp_path, "TSLA").write_text("Date,Open,High,Low,Close,Adj Close,Volume\n")

    async def main() -> None:
        async with agent(tmp_path) as found:
            for error in await _refusals(found, "TSLA"):
                assert error["code"] == "DATA_UNAVAILABLE", error
                assert "market/bars/TSLA.csv in the home has no rows" in error["message"]

    run(main())


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("spx.csv", "SPX"),
        ("^spx_d.csv", "^SPX"),
        ("TSLA (1).csv", "TSLA"),
        ("tsla.us.csv", "TSLA"),
        ("aapl.us.csv", "AAPL.US"),
        ("SPY.CSV", "SPY"),
    ],
)
def test_a_file_whose_name_no_symbol_has_is_named_with_the_name_it_needs(
    tmp_path: Path, name: str, symbol: str
) -> None:
    drop(tmp_path, "X").rename(tmp_path / "market" / "bars" / name)

    async def main() -> None:
        async with agent(tmp_path) as found:
            for error in await _refusals(found, symbol):
                assert error["code"] == "DATA_UNAVAILABLE", error
                assert name in error["message"]
                assert f"rename it to {symbol}.csv" in error["message"]
            for error in await _refusals(found, "SP"):
                assert error["code"] == "INVALID_SYMBOL", error

    run(main())
