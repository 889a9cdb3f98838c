"""Exports: beancount text whose every transaction balances, and CSV that says the same."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trading.ledgers import open_ledger, opening, script, trading, write
from tracedesk.trading import export
from tracedesk.trading.ledger import Ledger

_AMOUNT = re.compile(r"^  \S+  (-?[0-9.]+) (\S+)(?: @@ ([0-9.]+) USD)?$", re.MULTILINE)
_TRANSACTION = re.compile(r'^([0-9-]{10}) \* "(.*)" "(.*)"$')


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[Ledger]:
    with open_ledger(tmp_path / "ledger.db") as opened:
        write(opened, script())
        yield opened


def _transactions(ledger: Ledger) -> list[str]:
    blocks = "".join(export.beancount(ledger)).split("\n\n")
    return [block for block in blocks if _TRANSACTION.match(block.splitlines()[0])]


def _weights(block: str) -> dict[str, Decimal]:
    """What a transaction leaves over by commodity, by beancount's rules."""
    sums: dict[str, Decimal] = {}
    for units, asset, total in _AMOUNT.findall(block):
        weight = Decimal(total).copy_sign(Decimal(units)) if total else Decimal(units)
        unit = "USD" if total else asset
        sums[unit] = sums.get(unit, Decimal(0)) + weight
    return {asset: units for asset, units in sums.items() if units}


def test_every_entry_that_moved_something_is_a_transaction_that_balances(ledger: Ledger) -> None:
    blocks = _transactions(ledger)
    moved = [entry.seq for entry in ledger.walk() if entry.postings]
    assert [int(re.findall(r"^  entry: (\d+)$", block, re.MULTILINE)[0]) for block in blocks] == moved
    assert [_weights(block) for block in blocks] == [{}] * len(moved)


def test_a_trade_is_written_with_the_whole_sum_it_cost(ledger: Ledger) -> None:
    assert _transactions(ledger)[2].splitlines() == [
        '2013-03-01 * "trade" "buy 10 IBM at 203.00"',
        "  entry: 4",
        '  call: "call-o1"',
        "  Assets:Default:Positions  10 IBM @@ 2030.00 USD",
        '    order: "o1"',
        "  Assets:Default:Cash  -2031.00 USD",
        "  Expenses:Default:Fees  1.00 USD",
    ]


def test_splits_and_dividends_are_transactions_too(ledger: Ledger) -> None:
    split, dividend = (_transactions(ledger)[n].splitlines() for n in (5, 6))
    assert split[2:] == ["  Assets:Default:Positions  10 IBM", "  Equity:Default:Splits  -10 IBM"]
    assert dividend[0] == '2013-03-02 * "dividend" "+69.00 USD of MSFT"'
    assert dividend[2:] == ["  Assets:Default:Cash  69.00 USD", "  Income:Default:Dividends  -69.00 USD"]


def test_the_last_lines_state_what_each_account_has(ledger: Ledger) -> None:
    lines = [line for line in "".join(export.beancount(ledger)).splitlines() if " balance " in line]
    assert lines == [
        "2013-03-03 balance Assets:Default:Cash  92876.00 ~ 0 USD",
        "2013-03-03 balance Assets:Default:Positions  0 ~ 0 IBM",
        "2013-03-03 balance Assets:Default:Positions  260 ~ 0 MSFT",
        "2013-03-03 balance Assets:X-second-20account:Cash  46999.00 ~ 0 USD",
        "2013-03-03 balance Assets:X-second-20account:Positions  3 ~ 0 BRK.B",
    ]


def test_every_account_is_opened_before_it_is_used(ledger: Ledger) -> None:
    text = "".join(export.beancount(ledger))
    opened = set(re.findall(r"^\S+ open (\S+)$", text, re.MULTILINE))
    used = set(re.findall(r"^  ((?:Assets|Expenses|Income|Equity)\S+)", text, re.MULTILINE))
    assert used == opened


def test_an_empty_ledger_is_a_file_without_transactions(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "empty.db") as ledger:
        text = "".join(export.beancount(ledger))
        assert [line.split()[0] for line in text.splitlines()] == ["option", "option"]
        assert len(list(export.table(ledger, "postings"))) == 1


@given(st.lists(st.text(max_size=8), min_size=2, max_size=2, unique=True))
def test_no_two_names_become_the_same_and_each_is_one_that_beancount_reads(names: list[str]) -> None:
    accounts, symbols = map(export.component, names), map(export.commodity, names)
    assert len(set(accounts)) == 2
    assert len(set(symbols)) == 2
    for name in names:
        assert re.fullmatch(r"[A-Z][A-Za-z0-9-]*", export.component(name))
        if name:
            assert re.fullmatch(r"[A-Z](?:[A-Z0-9.'_-]*[A-Z0-9])?", export.commodity(name))


def test_texts_cannot_break_out_of_their_quotes(tmp_path: Path) -> None:
    hostile = 'o"\n2013-03-01 open Assets:Mine ; \\'
    with open_ledger(tmp_path / "hostile.db") as ledger:
        write(ledger, [opening(), replace(trading(hostile), kind=hostile, call=None)])
        lines = "".join(export.beancount(ledger)).splitlines()
    assert not any(line.startswith("2013-03-01 open Assets:Mine") for line in lines)
    assert '    order: "o\\"\N{REPLACEMENT CHARACTER}2013-03-01 open Assets:Mine ; \\\\"' in lines


# --- CSV


def _rows(ledger: Ledger, name: export.Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(export.table(ledger, name)), newline="")))


def test_the_entries_are_listed_with_their_calls_and_hashes(ledger: Ledger) -> None:
    rows = _rows(ledger, "entries")
    assert len(rows) == 15
    assert rows[7]["code"] == "MARKET_CLOSED"
    assert rows[-1]["hash"] == ledger.head()[1].hex()
    assert rows[0]["market_time"] == "2013-03-01T14:30:00Z"


def test_the_postings_sum_to_zero_for_each_entry_and_asset(ledger: Ledger) -> None:
    sums: dict[tuple[str, str], Decimal] = {}
    for row in _rows(ledger, "postings"):
        key = row["entry"], row["asset"]
        sums[key] = sums.get(key, Decimal(0)) + Decimal(row["amount"])
    assert len(sums) > 10
    assert not any(sums.values())


def test_the_fills_cost_what_the_cash_lost(ledger: Ledger) -> None:
    rows = [row for row in _rows(ledger, "fills") if row["account"] == "default"]
    assert [row["order"] for row in rows] == ["o1", "o2", "o4", "o5"]
    spent = sum(Decimal(row["total_cost"]) for row in rows)
    assert Decimal("100000.00") - spent + Decimal("69.00") == Decimal("92876.00")


def test_a_text_with_commas_quotes_and_lines_stays_one_cell(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "hostile.db") as ledger:
        write(ledger, [opening('a,"b"\nc')])
        assert [row["account"] for row in _rows(ledger, "postings")] == ['a,"b"\nc'] * 2


def test_an_export_is_written_a_line_at_a_time(ledger: Ledger) -> None:
    lines = export.table(ledger, "entries")
    assert next(lines).startswith("entry,")
    write(ledger, [trading("o9")])
    assert len(list(lines)) == 16, "entries are read as they are written out"
