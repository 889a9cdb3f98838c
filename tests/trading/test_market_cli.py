"""`tracedesk market`: the real command shows and moves the clock, and desks see it with their next call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.support import run
from tests.trading.desks import agent


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


def settings(shell: Shell, text: str) -> None:
    shell.home.mkdir(exist_ok=True)
    (shell.home / "tracedesk.toml").write_text(text)


# --- show ----------------------------------------------------------------------------------------


def test_a_new_home_stands_inside_an_open_session(shell: Shell) -> None:
    shown = shell("market", "show", "--json").json
    assert (shown["clock"], shown["open"]) == ("2012-12-03T15:30:00Z", True)
    assert shown["quotes"] == {
        "AAPL": "593.65",
        "FB": "27.9999",
        "GOOG": "702.24",
        "IBM": "190.76",
        "MSFT": "26.78",
    }
    text = shell("market", "show").out
    assert text.startswith("The clock stands at 2012-12-03T15:30:00Z; the exchange is open.\n")
    assert "IBM     190.76   open of 2012-12-03\n" in text


def test_a_closed_exchange_says_when_it_opens(shell: Shell) -> None:
    settings(shell, '[trading]\nclock = "2012-12-22T12:00:00Z"\n')
    shown = shell("market", "show", "--json").json
    assert (shown["open"], shown["nextOpen"]) == (False, "2012-12-24T14:30:00Z")
    assert "the exchange is closed until 2012-12-24T14:30:00Z" in shell("market", "show").out


def test_at_the_replay_s_end_no_open_is_promised(shell: Shell) -> None:
    settings(shell, '[trading]\nclock = "2013-03-01T22:00:00Z"\n')
    shown = shell("market", "show", "--json").json
    assert (shown["open"], shown["nextOpen"]) == (False, None)
    assert "the exchange is closed, and the replay ends before it opens again" in shell("market", "show").out


def test_moves_of_the_clock_say_in_the_ledger_where_from(shell: Shell) -> None:
    shell("market", "advance", "--by", "30m")
    whats = [row["what"] for row in shell("ledger", "show", "--json").json["shown"]]
    assert whats == [
        "the clock stands at 2012-12-03T15:30:00Z",
        "+100000.00 USD",
        "the clock moved here from 2012-12-03T15:30:00Z",
    ]


def test_the_system_s_clock_is_shown_and_cannot_be_moved(shell: Shell) -> None:
    settings(shell, '[trading]\nclock = "system"\n[trading.providers]\nquotes = []\nhistory = []\n')
    shown = shell("market", "show", "--json").json
    assert shown["clock"] > "2026"
    assert "quotes" not in shown
    done = shell("market", "advance", "--open")
    assert (done.code, done.out) == (1, "")
    assert "system's clock" in done.err


# --- advance -------------------------------------------------------------------------------------


def test_the_clock_moves_by_each_of_its_ways_and_each_move_is_an_entry(shell: Shell) -> None:
    moves = [
        (("--by", "30m"), "2012-12-03T16:00:00Z", 0),
        (("--close",), "2012-12-03T21:00:00Z", 1),
        (("--open",), "2012-12-04T14:30:00Z", 0),
        (("--to", "2012-12-06T10:00-05:00"), "2012-12-06T15:00:00Z", 2),
        (("--by", "1w"), "2012-12-13T15:00:00Z", 5),
    ]
    for seq, (words, to, closed) in enumerate(moves, start=3):
        moved = shell("market", "advance", *words, "--json").json
        assert (moved["to"], moved["sessionsClosed"]) == (to, closed)
        (entry,) = moved["entries"]
        assert (entry["kind"], entry["clock"]) == ("clock", to)
        assert entry["ref"] == f"tracedesk://trading/ledger/{seq}"
    assert shell("market", "show", "--json").json["clock"] == "2012-12-13T15:00:00Z"
    assert shell("market", "advance", "--close").out == (
        "The clock stands at 2012-12-13T21:00:00Z; 1 session closed.\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Say one of --to TIME, --by SPAN, --open, --close."),
        (("--open", "--close"), "Say one of"),
        (("--by", "1d", "--open"), "Say one of"),
        (("--by", "1y"), "--by takes a span like 30m, 6h, 5d or 2w, not '1y'."),
        (("--by", "-5m"), "--by takes a span"),
        (("--by", "0d"), "--by takes a span of a minute or more, such as 30m, 6h, 5d or 2w, not '0d'."),
        (("--to", "tomorrow"), "--to:"),
        (("--to", "2012-12-05T10:00"), "--to: '2012-12-05T10:00' has no zone"),
    ],
)
def test_misuse_exits_2_and_says_what_fits(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    done = shell("market", "advance", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert not (shell.home / "ledger.db").exists()


def test_bad_settings_exit_2_and_name_the_place(shell: Shell) -> None:
    settings(shell, '[trading]\nclock = "noon"\n')
    done = shell("market", "show")
    assert (done.code, done.out) == (2, "")
    assert "trading.clock must be replay, system, or a time inside the replay" in done.err


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("2012-12-01T00:00:00Z", "moves forward only"),
        ("2013-03-04T15:00:00Z", "outside the replay"),
    ],
)
def test_a_move_that_the_replay_does_not_allow_exits_1_and_moves_nothing(
    shell: Shell, to: str, sentence: str
) -> None:
    done = shell("market", "advance", "--to", to)
    assert (done.code, done.out) == (1, "")
    assert sentence in done.err
    assert shell("market", "show", "--json").json["clock"] == "2012-12-03T15:30:00Z"


# --- beside a desk -------------------------------------------------------------------------------


def test_a_desk_sees_the_new_time_and_what_it_brought_with_its_next_call(shell: Shell) -> None:
    async def main() -> None:
        async with agent(shell.home) as found:
            await found.buy("MSFT", 100)
            leg = {"symbol": "IBM", "action": "buy", "quantity": 5}
            rests = [
                {**leg, "order_type": "limit", "price": 190, "time_in_force": "gtc"},
                {**leg, "order_type": "limit", "price": 150, "time_in_force": "day"},
            ]
            await found.call("trade_execute", trades=rests)
            words = ("market", "advance", "--to", "2013-02-20T15:00:00Z")
            done = await asyncio.to_thread(shell, *words, "--json")
            kinds = [entry["kind"] for entry in done.json["entries"]]
            assert kinds == ["fill", "order", "dividend", "dividend", "clock"]
            portfolio = (await found.call("get_portfolio"))["portfolio"]
            assert portfolio["as_of"] == "2013-02-20T15:00:00Z"
            assert [(p["symbol"], p["quantity"]) for p in portfolio["positions"]] == [
                ("IBM", 5),
                ("MSFT", 100),
            ]
            orders = (await found.call("list_trade_orders", status="all"))["orders"]
            assert [order["status"] for order in orders] == ["expired", "filled", "filled"]
            assert (await found.call("ledger_verify"))["sound"] is True

    run(main())


def test_a_move_shows_what_it_brought_about(shell: Shell) -> None:
    async def main() -> None:
        async with agent(shell.home) as found:
            await found.buy("MSFT", 100)

    run(main())
    text = shell("market", "advance", "--to", "2013-02-20T15:00:00Z").out
    assert "4      dividend  default  2013-02-19T14:30:00Z" in text
    assert text.endswith("The clock stands at 2013-02-20T15:00:00Z; 53 sessions closed.\n")
