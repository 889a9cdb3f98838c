"""A file of a home replaced by an older copy of itself, which its own hash chain cannot show."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.support import BOUND, run
from tests.trading.desks import agent
from tracedesk import rollback
from tracedesk.journal import verify
from tracedesk.trading import audit

FILES = ("ledger.db", "trace.db")
_COMMAND = {"ledger.db": "ledger", "trace.db": "trace"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return make_shell(tmp_path)


def trade(home: Path, count: int, first: int = 1) -> None:
    """Open a desk, buy so many times, and close it; each call is in the trace before the next trade."""

    async def main() -> None:
        async with agent(home) as found:
            trace = found.client.desk.witnesses.trace.own
            for number in range(first, first + count):
                before, _ = trace.snapshot()
                await found.buy("IBM", 1, f"buy-{number}")
                async with asyncio.timeout(BOUND):
                    while trace.snapshot()[0] == before:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)

    run(main())


def keep(home: Path, folder: Path) -> Callable[[str], None]:
    """Copy both files aside; the result puts one of them back."""
    folder.mkdir()
    for path in (path for file in FILES for path in home.glob(f"{file}*")):
        shutil.copy(path, folder / path.name)

    def put_back(file: str) -> None:
        for path in home.glob(f"{file}*"):
            path.unlink()
        for path in folder.glob(f"{file}*"):
            shutil.copy(path, home / path.name)

    return put_back


def chains_are_sound(home: Path) -> bool:
    return verify(home / "trace.db").is_sound and audit.verify(home / "ledger.db").is_sound


@pytest.mark.parametrize("file", FILES)
def test_a_file_put_back_from_before_five_acknowledged_trades_is_found(shell: Shell, file: str) -> None:
    trade(shell.home, 2)
    put_back = keep(shell.home, shell.user / "kept")
    trade(shell.home, 5, first=3)
    assert shell(_COMMAND[file], "verify").code == 0
    put_back(file)
    assert chains_are_sound(shell.home)
    done = shell(_COMMAND[file], "verify")
    assert done.code == 1
    assert "were written" in done.out
    checked = shell("--json", "doctor", TRACEDESK_PORT="0")
    found = {check["check"]: check for check in checked.json["checks"]}
    assert checked.code == 1
    assert found["rollback"]["status"] == "fail"
    assert file in found["rollback"]["detail"]


@pytest.mark.parametrize("file", FILES)
def test_a_deleted_file_is_found(shell: Shell, file: str) -> None:
    trade(shell.home, 2)
    for path in shell.home.glob(f"{file}*"):
        path.unlink()
    done = shell(_COMMAND[file], "verify")
    assert done.code == 1
    assert "missing" in done.out + done.err
    assert shell("doctor", TRACEDESK_PORT="0").code == 1


@pytest.mark.parametrize("file", FILES)
def test_a_desk_that_goes_on_after_a_rollback_does_not_hide_it(shell: Shell, file: str) -> None:
    trade(shell.home, 2)
    put_back = keep(shell.home, shell.user / "kept")
    trade(shell.home, 3, first=3)
    put_back(file)
    trade(shell.home, 8, first=10)
    assert chains_are_sound(shell.home)
    assert {loss.file for loss in rollback.check(shell.home)} >= {file}
    assert shell(_COMMAND[file], "verify").code == 1


def test_a_home_that_lost_nothing_raises_no_alarm(shell: Shell) -> None:
    for number in range(4):
        trade(shell.home, 2, first=1 + 2 * number)
        assert rollback.check(shell.home) == []
    assert shell("ledger", "verify").code == shell("trace", "verify").code == 0


def test_both_files_put_back_together_are_left_to_the_anchor(shell: Shell) -> None:
    trade(shell.home, 2)
    put_back = keep(shell.home, shell.user / "kept")
    trade(shell.home, 3, first=3)
    for file in FILES:
        put_back(file)
    assert rollback.check(shell.home) == []
