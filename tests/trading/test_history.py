"""`get_history`: every bar can be read, in pages, and a split is no fall."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from tests.support import run
from tests.trading.desks import Agent, agent
from tests.trading.sources import loopback
from tracedesk.journal.cursor import Cursor
from tracedesk.primitives.time import parse
from tracedesk.trading import clockwork

D = Decimal
AT: Final = {"clock": "2000-06-21T15:00:00Z"}
"""Inside the session in which Apple's shares were split 2:1."""


async def move(found: Agent, to: str) -> None:
    trader = found.trader
    payloads, settings = trader.desk.payloads, trader.settings
    at = parse(to).ns
    await trader.commit(lambda ledger: clockwork.advance(ledger, payloads, settings, lambda c: c.set(at)))


async def pages(found: Agent, **asked: Any) -> list[Any]:
    """All pages of a series, the newest first."""
    answers = [await found.call("get_history", **asked)]
    while "nextCursor" in answers[-1]:
        answers.append(await found.call("get_history", **asked, cursor=answers[-1]["nextCursor"]))
    return answers


def rows_of(answer: Mapping[str, Any]) -> list[Any]:
    if "table" not in answer:
        return [list(row.values()) for row in answer["history"]]
    assert answer["history"] == []
    return list(answer["table"]["rows"])


def test_every_bar_can_be_read_by_cursor_in_both_formats(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            wholes: list[list[Any]] = []
            for format in ("bars", "table"):
                answers = await pages(found, symbol="IBM", period="max", format=format)
                assert {answer["total_rows"] for answer in answers} == {3209}
                assert [answer["truncated"] for answer in answers] == [True] * (len(answers) - 1) + [False]
                whole = [row for answer in reversed(answers) for row in rows_of(answer)]
                assert len(whole) == len({row[0] for row in whole}) == 3209
                assert whole == sorted(whole)
                wholes.append(whole)
            objects, table = wholes
            assert [[row[0][:10], *row[1:]] for row in objects] == table

    run(main())


def test_a_table_holds_what_the_token_budget_holds(tmp_path: Path) -> None:
    async def main() -> None:
        for budget in (8_000, 1_000):
            async with agent(tmp_path / str(budget), max_tokens=budget) as found:
                reply = await found.raw("get_history", symbol="IBM", period="max", format="table")
                answer = reply.json["result"]["structuredContent"]
                assert answer["table"]["columns"][0] == "session"
                assert budget // 2 < len(reply.json["result"]["content"][0]["text"]) / 3 < budget
        assert len(answer["table"]["rows"]) < 50

    run(main())


def test_start_and_end_narrow_the_period_to_the_bars_that_begin_between_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            asked = {"symbol": "IBM", "period": "max", "start": "2005-03-01", "end": "2005-03-08"}
            days = [row["timestamp"][:10] for row in (await found.call("get_history", **asked))["history"]]
            assert days == [f"2005-03-0{day}" for day in (1, 2, 3, 4, 7, 8)]
            asked |= {"start": "2005-03-01T14:30:00.000000001Z", "end": "2005-03-04T09:29:59-05:00"}
            days = [row["timestamp"][:10] for row in (await found.call("get_history", **asked))["history"]]
            assert days == ["2005-03-02", "2005-03-03"]

    run(main())


def test_dates_that_cannot_be_read_are_refused_with_their_place(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str, str, str]] = [
        ({"start": "soon"}, "INVALID_INPUT", "start", "is not a time"),
        ({"start": "2005-03-01T10:00"}, "INVALID_INPUT", "start", "has no zone"),
        ({"end": "2012-12-04"}, "INVALID_INPUT", "end", "after the market's clock"),
        ({"start": "2012-12-04"}, "INVALID_INPUT", "start", "after the market's clock"),
        ({"start": "2005-03-02", "end": "2005-03-01"}, "INVALID_INPUT", "start", "after the end"),
        ({"start": "2005-03-01", "period": "1y"}, "INVALID_INPUT", "start", "Ask for period 'max'"),
        ({"start": "2005-03-05", "end": "2005-03-06"}, "DATA_UNAVAILABLE", "start", "no bar of it"),
        ({"cursor": "next"}, "INVALID_INPUT", "cursor", "not of this series"),
    ]

    async def main() -> None:
        async with agent(tmp_path) as found:
            for asked, code, place, text in cases:
                refused = await found.refused("get_history", **{"symbol": "IBM", "period": "max", **asked})
                error = refused["error"]
                assert (error["code"], error["details"]["path"]) == (code, [place]), asked
                assert text in error["message"]

    run(main())


def test_a_cursor_reads_its_own_series_as_it_was_and_never_the_future(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2005-02-25T15:00:00Z"}) as found:
            asked: dict[str, Any] = {"symbol": "AAPL", "period": "max"}
            first = await found.call("get_history", **asked)
            expected = await found.call("get_history", **asked, cursor=first["nextCursor"])
            await move(found, "2005-03-01T15:00:00Z")  # The next split was on 2005-02-28.
            again = await found.call("get_history", **asked, cursor=first["nextCursor"])
            assert again["history"] == expected["history"]
            assert again["splits"] == expected["splits"] == [{"ex_date": "2000-06-21", "ratio": "2:1"}]
            for other in ({"symbol": "IBM"}, {"adjust": "none"}, {"interval": "1wk"}, {"period": "10y"}):
                error = await found.refused("get_history", **{**asked, **other}, cursor=first["nextCursor"])
                assert error["error"]["details"]["path"] == ["cursor"]

    run(main())


def test_a_forged_cursor_cannot_look_ahead(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2005-02-25T15:00:00Z"}) as found:
            from tracedesk.trading.history import _series_of  # pyright: ignore[reportPrivateUsage]

            asked = {"symbol": "AAPL", "period": "max"}
            later = parse("2010-01-04T15:00:00Z").ns
            forged = Cursor(_series_of(asked), later, later).text()
            error = (await found.refused("get_history", **asked, cursor=forged))["error"]
            assert (error["code"], error["details"]["path"]) == ("INVALID_INPUT", ["cursor"])

    run(main())


# --- splits --------------------------------------------------------------------------------------


def test_prices_are_in_the_shares_of_the_clock_and_say_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            asked = {"symbol": "AAPL", "period": "max", "interval": "1mo", "end": "2000-07-01"}
            answer = await found.call("get_history", **asked)
            closes = [row["close"] for row in answer["history"][2:4]]
            # As traded: 84.00 in May, 52.38 in June, after 2:1; both times 1/2 for the 2:1 of 2005.
            assert closes == [D("21.00"), D("26.19")]
            assert answer["history"][3]["open"] == D("20.4375")
            assert answer["adjust"] == "splits"
            assert answer["splits"] == [
                {"ex_date": "2000-06-21", "ratio": "2:1"},
                {"ex_date": "2005-02-28", "ratio": "2:1"},
            ]

    run(main())


def test_no_split_after_the_clock_is_used(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {"clock": "2000-06-20T15:00:00Z"}) as found:
            asked = {"symbol": "AAPL", "period": "1mo"}
            before = await found.call("get_history", **asked)
            assert "splits" not in before
            await move(found, "2000-06-21T13:29:59Z")
            assert (await found.call("get_history", **asked))["history"][-1]["close"] == D("101.25")
            await move(found, "2000-06-21T13:30:00Z")  # Its ex-date opens.
            after = await found.call("get_history", **asked)
            assert after["history"][-1]["timestamp"] == "2000-06-20T13:30:00Z"
            assert after["history"][-1]["close"] == after["history"][-1]["adjusted_close"] == D("50.625")

    run(main())


def test_as_traded_is_there_on_demand_and_a_span_is_in_the_shares_of_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            asked = {"symbol": "AAPL", "period": "max", "interval": "1mo", "end": "2000-07-01"}
            answer = await found.call("get_history", **asked, adjust="none")
            assert answer["adjust"] == "none"
            assert "splits" not in answer
            assert [row["close"] for row in answer["history"][2:4]] == [D("84.00"), D("52.38")]
            days = await found.call(
                "get_history",
                symbol="AAPL",
                period="max",
                start="2000-06-20",
                end="2000-06-21",
                adjust="none",
            )
            assert [row["close"] for row in days["history"]] == [D("101.25"), D("55.63")]

    run(main())


# --- the other tools over a split ----------------------------------------------------------------


def test_a_volume_is_a_number_inside_a_session_and_names_the_session_it_is_of(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path) as found:
            (quote,) = (await found.call("get_quotes", symbols=["IBM"]))["quotes"]
            (bar,) = (await found.call("get_history", symbol="IBM", period="1d", interval="1d"))["history"]
            assert (quote["volume"], quote["volume_session"]) == (bar["volume"], "2012-11-30")
            await move(found, "2012-12-03T21:00:00Z")
            (quote,) = (await found.call("get_quotes", symbols=["IBM"]))["quotes"]
            assert isinstance(quote["volume"], int)
            assert "volume_session" not in quote
            (quote,) = (await found.call("get_quotes", symbols=["IBM"], fields=["price"]))["quotes"]
            assert set(quote) == {"symbol", "price", "timestamp"}

    run(main())


def test_on_a_splits_ex_date_volumes_count_in_the_new_shares(tmp_path: Path) -> None:
    async def main() -> None:
        async with agent(tmp_path, {**AT, "cash": 1_000_000_000}) as found:
            (quote,) = (await found.call("get_quotes", symbols=["AAPL"]))["quotes"]
            raw = await found.call("get_history", symbol="AAPL", period="1mo", adjust="none")
            new = await found.call("get_history", symbol="AAPL", period="1mo")
            last = raw["history"][-1]
            assert quote["volume"] == new["history"][-1]["volume"] == 2 * last["volume"]
            # One order takes a tenth of the average of the twenty sessions before, in shares of today.
            average = sum(2 * row["volume"] for row in raw["history"][-20:]) // 20
            trade = {"symbol": "AAPL", "action": "buy", "quantity": 900_000_000}
            simulated = await found.call("trade_simulate", trades=[trade])
            (leg,) = simulated["simulation"]["trades"]
            assert leg["quantity"] == average // 10

    run(main())


def test_a_service_without_a_bar_in_the_period_is_refused_with_and_without_dates(tmp_path: Path) -> None:
    async def main() -> None:
        async with loopback.running(loopback.ok({"symbols": {"ACME": []}})) as service:
            table = {"providers": {"history": [service.url]}}
            async with agent(tmp_path, table) as found:
                for dates in ({}, {"start": "2012-01-03"}):
                    asked = {"symbol": "ACME", "period": "1mo", "interval": "1d", **dates}
                    error = (await found.refused("get_history", **asked))["error"]
                    assert (error["code"], error.get("details", {}).get("path")) == (
                        "DATA_UNAVAILABLE",
                        ["start"],
                    ), error

    run(main())
