"""`tracedesk ledger`: for people and programs, with exit codes that scripts can trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Shell, shell
from tests.trading.ledgers import open_ledger, script, unguarded, write

__all__ = ["shell"]


@pytest.fixture
def traded(shell: Shell) -> Shell:
    """A home with a ledger."""
    shell.home.mkdir(parents=True, exist_ok=True)
    with open_ledger(shell.home / "ledger.db") as ledger:
        write(ledger, script())
    return shell


def test_show_says_what_each_account_has_and_lists_the_newest_entries(traded: Shell) -> None:
    done = traded("ledger", "show", "--limit", "3")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "default: cash 92876.00 (realised 90.00, dividends 69.00, fees 3.00)",
        "SYMBOL  QUANTITY  AVG PRICE",
        "MSFT    260       28.00",
        "",
        "second account: cash 46999.00 (realised 0.00, dividends 0.00, fees 1.00)",
        "SYMBOL  QUANTITY  AVG PRICE",
        "BRK.B   3         1000.00",
        "",
        "ENTRY  MARKET TIME           ACCOUNT  KIND    WHAT",
        "13     2013-03-02T14:30:00Z  default  fill    sell 40 MSFT at 30.00",
        "14     2013-03-02T14:30:00Z  default  cancel  order o4 cancelled",
        "15     2013-03-02T14:30:00Z  default  trade   sell 20 IBM at 102.00",
    ]


def test_with_json_show_is_one_document(traded: Shell) -> None:
    document = traded("--json", "ledger", "show", "--account", "second account").json
    assert document["entries"] == 15
    assert document["clock"] == "2013-03-02T14:30:00Z"
    assert [account["account"] for account in document["accounts"]] == ["second account"]
    held = {"symbol": "BRK.B", "quantity": "3", "avgPrice": "1000.00"}
    assert document["accounts"][0]["positions"] == [held]
    assert [entry["entry"] for entry in document["shown"]] == [3, 6]


def test_an_account_that_is_not_there_is_named_with_those_that_are(traded: Shell) -> None:
    done = traded("ledger", "show", "--account", "nobody")
    assert done.code == 1
    assert "default, second account" in done.err


@pytest.mark.parametrize("words", [("show",), ("verify",), ("export", "--format", "csv")])
def test_a_home_without_a_ledger_says_so(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell("ledger", *words)
    assert done.code == 1
    assert "no ledger" in done.err
    assert shell("--json", "ledger", *words).json["error"]["code"] == "FAILED"


@pytest.mark.parametrize("words", [("show",), ("export", "--format", "csv")])
def test_a_file_that_is_no_ledger_is_refused(shell: Shell, words: tuple[str, ...]) -> None:
    shell.home.mkdir(parents=True, exist_ok=True)
    (shell.home / "ledger.db").write_text("nothing of the kind\n" * 200)
    done = shell("ledger", *words)
    assert done.code == 1
    assert "is not a ledger" in done.err


def test_an_untouched_ledger_verifies(traded: Shell) -> None:
    done = traded("ledger", "verify")
    assert done.code == 0
    assert "15 entries are sound" in done.out
    document = traded("--json", "ledger", "verify").json
    assert (document["sound"], document["entries"], document["faults"]) == (True, 15, [])
    assert document["head"] in done.out


def test_verify_exits_1_and_names_what_was_changed(traded: Shell) -> None:
    with unguarded(traded.home / "ledger.db") as connection:
        connection.execute("UPDATE posting SET units = units + 1 WHERE entry = 4 AND book = 'cash'")
    done = traded("ledger", "verify")
    assert done.code == 1
    assert "entry 4: the postings do not balance" in done.out
    assert "not what was written" in done.err


def test_export_writes_to_the_output_or_to_a_file(traded: Shell, tmp_path: Path) -> None:
    out = tmp_path / "ledger.beancount"
    printed = traded("ledger", "export", "--format", "beancount")
    written = traded("--json", "ledger", "export", "--format", "beancount", "--out", out)
    assert (printed.code, written.code) == (0, 0)
    assert out.read_text(encoding="utf-8") == printed.out
    assert "@@ 2030.00 USD" in printed.out
    assert written.json["bytes"] == out.stat().st_size
    assert written.json["entries"] == 15
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["ledger.beancount"]


@pytest.mark.parametrize("table", ["entries", "postings", "fills"])
def test_export_writes_any_table_as_csv(traded: Shell, table: str) -> None:
    done = traded("ledger", "export", "--format", "csv", "--table", table)
    assert done.out.startswith("entry,kind,account,market_time,")
    document = traded("--json", "ledger", "export", "--format", "csv", "--table", table).json
    assert (document["table"], document["text"]) == (table, done.out)


def test_what_cannot_be_exported_as_asked_is_a_usage_error(traded: Shell) -> None:
    for words in ((), ("--format", "xml"), ("--format", "beancount", "--table", "fills")):
        done = traded("ledger", "export", *words)
        assert done.code == 2, done.out


def test_a_file_that_cannot_be_written_leaves_what_was_there(traded: Shell, tmp_path: Path) -> None:
    done = traded("ledger", "export", "--format", "csv", "--out", tmp_path / "none" / "x.csv")
    assert done.code == 1
    assert not (tmp_path / "none").exists()
