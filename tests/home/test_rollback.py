"""A file of a home replaced by an older copy of itself, which its own hash chain cannot show."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, make_shell
from tests.journal.powerloss import recording
from tests.support import BOUND, ROOT, run
from tests.trading.desks import agent
from tests.trading.ledgers import WALL_NS, opening
from tracedesk import rollback
from tracedesk.backup import back_up, check
from tracedesk.home import Home
from tracedesk.journal import Entry, Journal, verify
from tracedesk.journal.sqlite import connect
from tracedesk.primitives.time import ManualClock
from tracedesk.rollback import Witnesses
from tracedesk.trading import audit
from tracedesk.trading.ledger import Ledger

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


# --- no false alarms ---------------------------------------------------------------------------


@contextmanager
def writers(home: Path, first: int) -> Generator[None]:
    """Two processes that trade and log until they are killed."""
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.home.pair_writer", str(home)]
    started = [
        subprocess.Popen([*command, str(number)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number in (first, first + 1)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_two_desks_killed_while_they_trade_raise_no_alarm(tmp_path: Path) -> None:
    for number in range(0, 12, 2):
        with writers(tmp_path / "home", number):
            assert rollback.check(tmp_path / "home") == []
        assert rollback.check(tmp_path / "home") == []
    assert chains_are_sound(tmp_path / "home")


def test_backups_made_while_two_desks_trade_raise_no_alarm(tmp_path: Path) -> None:
    home = Home.open(tmp_path / "home")
    with writers(home.path, 1):
        for number in range(5):
            back_up(home.path, tmp_path / f"backup-{number}")
    for number in range(5):
        assert rollback.check(tmp_path / f"backup-{number}") == []
        assert check(tmp_path / f"backup-{number}").faults == []


def test_a_trade_between_the_copies_of_the_two_files_is_in_neither(tmp_path: Path) -> None:
    home = Home.open(tmp_path / "home")
    witnesses = Witnesses.of(home.path)
    with (
        Journal(home.trace, witness=witnesses.trace) as journal,
        Ledger(home.ledger, clock=ManualClock(WALL_NS), witness=witnesses.ledger) as ledger,
    ):
        journal.open("calls", "calls")

        def trade_and_log(number: int) -> None:
            with ledger.writing() as writer:
                writer.append(opening(f"account {number}"))
            journal.append("calls", [Entry("call", number, b"{}")])

        def between(done: int, total: int, name: str) -> None:
            if name in FILES:
                trade_and_log(next(numbers))

        numbers = count()
        trade_and_log(next(numbers))
        back_up(home.path, tmp_path / "backup", progress=between)
    assert next(numbers) > 3
    assert rollback.check(tmp_path / "backup") == []


def test_a_home_put_back_from_its_backup_goes_on_without_an_alarm(shell: Shell) -> None:
    trade(shell.home, 2)
    back_up(shell.home, shell.user / "backup")
    trade(shell.home, 3, first=3)
    shutil.rmtree(shell.home)
    shutil.copytree(shell.user / "backup", shell.home)
    assert rollback.check(shell.home) == []
    trade(shell.home, 3, first=10)
    assert rollback.check(shell.home) == []


def test_a_ledger_without_stored_heads_is_sound_and_one_with_a_changed_guard_is_not(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path, clock=ManualClock(WALL_NS)).close()
    assert audit.verify(path).is_sound
    witness = Witnesses.of(tmp_path).ledger
    Ledger(path, clock=ManualClock(WALL_NS), witness=witness).close()
    assert audit.verify(path).is_sound
    connection = connect(path)
    connection.execute("DROP TRIGGER remembered_head_never_goes_back")
    connection.close()
    (fault,) = audit.verify(path).faults
    assert "remembered_head_never_goes_back" in fault.problem


def test_storing_the_other_files_heads_adds_no_sync(tmp_path: Path) -> None:
    def syncs(folder: Path, *, together: bool) -> int:
        folder.mkdir()
        witnesses = Witnesses.of(folder)
        with recording(folder.name) as disk:
            journal = Journal(
                folder / "trace.db", vfs=folder.name, witness=witnesses.trace if together else None
            )
            ledger = Ledger(
                folder / "ledger.db",
                clock=ManualClock(WALL_NS),
                vfs=folder.name,
                witness=witnesses.ledger if together else None,
            )
            journal.open("calls", "calls")
            disk.steps.clear()
            for number in range(10):
                with ledger.writing() as writer:
                    writer.append(opening(f"account {number}"))
                journal.append("calls", [Entry("call", number, b"{}")])
            found = sum(step.what == "sync" for step in disk.steps)
            journal.close()
            ledger.close()
        return found

    assert syncs(tmp_path / "together", together=True) == syncs(tmp_path / "alone", together=False)
