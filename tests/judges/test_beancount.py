"""Exported ledgers before beancount: it takes them as they are, and nothing that is a cent off."""

from __future__ import annotations

import random
import re
import string
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.judges.install import BEANCOUNT
from tests.trading.ledgers import OPEN_NS, SHARE, open_ledger, opening, placing, script, trading, write
from tracedesk.primitives.time import DAY
from tracedesk.trading import book
from tracedesk.trading.export import beancount
from tracedesk.trading.ledger import New
from tracedesk.trading.model import Fill, Side
from tracedesk.trading.units import notional

pytestmark = pytest.mark.judge

_LINE = re.compile(r"^(  (?:Assets|Income|Expenses|Equity)\S+  )(-?[0-9.]+)( USD)$", re.MULTILINE)
_TOTAL = re.compile(r"(@@ )([0-9.]+)( USD)$", re.MULTILINE)
_BALANCE = re.compile(r"(^[0-9-]+ balance \S+  )(-?[0-9.]+)( ~ 0 \S+)$", re.MULTILINE)


SIDES: tuple[Side, ...] = ("buy", "sell")


def _exported(tmp_path: Path, entries: list[New]) -> str:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        write(ledger, entries)
        return "".join(beancount(ledger))


def _complaints(tmp_path: Path, text: str) -> str:
    path = tmp_path / "ledger.beancount"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [BEANCOUNT.require("venv", "bin", "bean-check"), path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


def test_a_ledger_with_trades_sales_a_split_and_a_dividend_is_accepted(tmp_path: Path) -> None:
    text = _exported(tmp_path, script())
    assert {"split", "dividend", "trade", "fill"} <= set(re.findall(r'\* "(\w+)"', text))
    assert _complaints(tmp_path, text) == ""


@pytest.mark.parametrize("figures", [_LINE, _TOTAL, _BALANCE], ids=["line", "total", "balance"])
def test_any_figure_that_is_a_cent_off_is_rejected(tmp_path: Path, figures: re.Pattern[str]) -> None:
    text = _exported(tmp_path, script())
    found = list(figures.finditer(text))
    assert len(found) >= 5
    for match in random.Random(1).sample(found, 4):
        changed = f"{match[1]}{Decimal(match[2]) + Decimal('0.01')}{match[3]}"
        assert _complaints(tmp_path, text[: match.start()] + changed + text[match.end() :]), match[0]


def test_every_name_is_one_that_beancount_takes(tmp_path: Path) -> None:
    symbols = [
        *string.ascii_uppercase,
        "TRUE",
        "FALSE",
        "NULL",
        "^GSPC",
        "EURUSD=X",
        "BRK.B",
        "BRK-B",
        "9988.HK",
    ]
    symbols += ["A.", "A-", "-A", ".", "=", "0", "S'A", "aapl", 'a"b\\c', "ABCDEFGHIJKLMNO", "A" * 60, "日本"]
    accounts = ["default", "Default", "DEFAULT", "a b", "é", "-", "X-a", "9", 'q"\\', "a:b"]
    entries = [opening(account) for account in accounts]
    entries += [trading(f"s{n}", symbol) for n, symbol in enumerate(symbols)]
    entries += [trading(f"a{n}", account=account) for n, account in enumerate(accounts)]
    entries += [replace(trading('"o\\"\n\x00\x1b'), call=None, kind='k"\\\n')]
    assert _complaints(tmp_path, _exported(tmp_path, entries)) == ""


def test_any_fractions_at_any_prices_are_accepted(tmp_path: Path) -> None:
    dice = random.Random(4)
    entries = [opening(cash=10**12)]
    for n in range(300):
        symbol, side = dice.choice(("IBM", "MSFT", "^X")), dice.choice(SIDES)
        size, price = (
            dice.randint(1, 10 ** dice.randint(1, 14)),
            100 * dice.randint(1, 10 ** dice.randint(1, 8)),
        )
        done = Fill(f"o{n}", symbol, side, size, price, notional(size, price), dice.randint(0, 300))
        moment = OPEN_NS + dice.randint(0, 40) * DAY
        entries.append(placing(done, f"o{n}", "filled", clock_ns=moment))
        if n % 25 == 0:
            entries.append(
                New("split", "default", moment, postings=book.for_split("IBM", dice.randint(1, SHARE)))
            )
            entries.append(New("dividend", "default", moment, postings=book.for_dividend("IBM", -n)))
    assert _complaints(tmp_path, _exported(tmp_path, entries)) == ""


def test_an_empty_ledger_is_accepted(tmp_path: Path) -> None:
    assert _complaints(tmp_path, _exported(tmp_path, [])) == ""
