"""The [trading] table: exact values in, clear refusals out."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell, shell  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.support import run
from tracedesk.config import Settings
from tracedesk.desk import open_desk
from tracedesk.trading.settings import BadTradingSetting, Trading, read


def test_an_empty_table_is_every_default() -> None:
    assert read({}) == Trading()


def test_values_are_taken_as_they_were_typed() -> None:
    found = read(
        {"cash": 250000.1, "limits": {"max_var_95_1d": 0.1, "max_orders_per_minute": 5}, "accounts": ["b"]}
    )
    assert found.cash == Decimal("250000.1")
    assert (found.limits.max_var_95_1d, found.limits.max_orders_per_minute) == (Decimal("0.1"), 5)
    assert found.limits.max_order_notional == Decimal(10000)
    assert found.accounts == ("b",)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"cahs": 1}, r"trading\.cahs is not a setting; there are account"),
        ({"cash": -1}, r"trading\.cash must be a number that is not negative"),
        ({"cash": "much"}, r"trading\.cash must be a number"),
        ({"cash": float("nan")}, r"trading\.cash must be a number"),
        ({"window": 1.5}, r"trading\.window must be a whole number"),
        ({"window": True}, r"trading\.window must be a whole number"),
        ({"state": "SLEEPING"}, r"trading\.state must be one of ACTIVE, REDUCING, HALTED"),
        ({"short_selling": 1}, r"trading\.short_selling must be true or false"),
        ({"accounts": "b"}, r"trading\.accounts must be a list of names"),
        ({"limits": 5}, r"trading\.limits must be a table"),
        ({"limits": {"max": 1}}, r"trading\.limits\.max is not a setting"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadTradingSetting, match=sentence):
        read(table)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[trading]\nstate = 'SLEEPING'\n", "trading.state must be one of ACTIVE"),
        ("[trading]\nclock = 'noon'\n", "trading.clock must be replay, system, or a time"),
        ("[trading]\nclock = '2026-01-01T00:00Z'\n", "outside the replay"),
        ("[trading.providers]\nquotes = ['bloomberg']\n", "names 'bloomberg'"),
    ],
)
def test_a_desk_does_not_start_on_a_bad_table(shell: Shell, text: str, sentence: str) -> None:  # noqa: F811
    shell.home.mkdir()
    (shell.home / "tracedesk.toml").write_text(text)
    done = shell("serve", "--stdio", input="")
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"window": 1}, r"trading\.window must be at least 2"),
        ({"clock": "1950-01-01"}, r"trading\.clock must be replay, system, or a time inside the replay"),
        ({"providers": {"news": ["rumours"]}}, r"trading\.providers\.news names 'rumours'"),
        ({"providers": {"folder": "../other"}}, r"trading\.providers\.folder must name a folder in the home"),
        ({}, r"trading\.providers\.folder must name a folder in the home, not 'market'"),
    ],
)
def test_a_desk_that_opens_late_refuses_at_once_what_the_ledger_could_not_be_opened_with(
    tmp_path: Path, table: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "home").mkdir()
    if not table:
        (tmp_path / "home" / "market").symlink_to(tmp_path)

    async def main() -> None:
        chosen = Settings(home=tmp_path / "home", toolsets=("trading",), tables={"trading": table})
        with pytest.raises(BadTradingSetting, match=sentence):
            async with open_desk(chosen, lazily=True):
                pass
        assert not (chosen.home / "ledger.db").exists()

    run(main())
