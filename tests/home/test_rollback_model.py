"""Any history of two desks on two files: what a rollback loses is found, and nothing else is."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.trading.ledgers import WALL_NS, opening
from tracedesk import rollback
from tracedesk.backup import copy_database
from tracedesk.journal import Entry, Journal, StreamSealed
from tracedesk.journal.heads import stored
from tracedesk.journal.sqlite import connect
from tracedesk.primitives.time import ManualClock
from tracedesk.rollback import LEDGER, TRACE, Witnesses
from tracedesk.trading.ledger import Ledger, New

STREAMS = ("calls-1", "etg-1", "orders-1")
DESKS = st.integers(0, 1)


class Undone(Exception):
    """Ends a transaction without a commit."""


class Process:
    """One desk's two open files, and the witnesses that both share."""

    def __init__(self, home: Path) -> None:
        self.witnesses = Witnesses.of(home)
        clock = ManualClock(WALL_NS)
        self.journal = Journal(home / TRACE, clock, witness=self.witnesses.trace)
        self.ledger = Ledger(home / LEDGER, clock=clock, witness=self.witnesses.ledger)

    def close(self) -> None:
        self.journal.close()
        self.ledger.close()


class TwoDesks(RuleBasedStateMachine):
    """Commits, failures, restarts, prunes and backups of two desks; at every step a rollback is tried."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.home = self.folder / "home"
        self.home.mkdir()
        self.desks = [Process(self.home), Process(self.home)]
        self.accounts = 0
        self.backups: list[Path] = []

    @rule(desk=DESKS, stream=st.sampled_from(STREAMS), count=st.integers(1, 3))
    def log(self, desk: int, stream: str, count: int) -> None:
        journal = self.desks[desk].journal
        try:
            journal.open(stream, "calls")
            journal.append(stream, [Entry("call", 1, b"{}")] * count)
        except StreamSealed:
            pass

    @rule(desk=DESKS)
    def trade(self, desk: int) -> None:
        with self.desks[desk].ledger.writing() as writer:
            writer.append(self._entry())

    @rule(desk=DESKS)
    def fail_to_trade(self, desk: int) -> None:
        with suppress(Undone), self.desks[desk].ledger.writing() as writer:
            writer.append(self._entry())
            raise Undone

    @rule(desk=DESKS, stream=st.sampled_from(STREAMS))
    def fail_to_log(self, desk: int, stream: str) -> None:
        def fail(*_: Any) -> None:
            raise Undone

        journal = self.desks[desk].journal
        try:
            journal.open(stream, "calls")
            with pytest.raises(Undone):
                journal.append(stream, [Entry("call", 1, b"{}")], beside=fail)
        except StreamSealed:
            pass

    @rule(desk=DESKS)
    def restart(self, desk: int) -> None:
        self.desks[desk].close()
        self.desks[desk] = Process(self.home)

    @rule(stream=st.sampled_from(STREAMS))
    def prune(self, stream: str) -> None:
        journal = self.desks[0].journal
        journal.open(stream, "calls")
        journal.seal(stream)
        journal.prune(stream)

    @rule()
    def back_up(self) -> None:
        target = self.folder / f"backup-{len(self.backups)}"
        target.mkdir()
        with rollback.snapshot(self.home) as opened:
            for name, connection in opened.items():
                copy_database(self.home / name, target / name, None, connection)
        assert rollback.check(target) == []
        self.backups.append(target)

    @rule(number=st.integers(0, 20), file=st.sampled_from((TRACE, LEDGER)))
    def put_one_file_back(self, number: int, file: str) -> None:
        """In a copy of the home; found exactly when the other file stores a head that is gone."""
        if not self.backups:
            return
        backup = self.backups[number % len(self.backups)]
        trial = self._copied()
        wanted = self._stored(trial / (LEDGER if file == TRACE else TRACE))
        (trial / file).unlink()
        shutil.copy(backup / file, trial / file)
        has = self._heads(trial / file)
        lost = {name for name, seq in wanted.items() if has.get(name, 0) < seq}
        assert {loss.stream for loss in rollback.check(trial)} == lost
        shutil.rmtree(trial)

    @rule()
    def delete_a_file(self) -> None:
        for file, other in ((TRACE, LEDGER), (LEDGER, TRACE)):
            trial = self._copied()
            (trial / file).unlink()
            assert bool(rollback.check(trial)) == bool(self._stored(trial / other))
            shutil.rmtree(trial)

    @rule(number=st.integers(0, 20))
    def put_both_files_back(self, number: int) -> None:
        if self.backups:
            assert rollback.check(self.backups[number % len(self.backups)]) == []

    @invariant()
    def a_home_that_lost_nothing_raises_no_alarm(self) -> None:
        if hasattr(self, "home"):
            assert rollback.check(self.home) == []

    def teardown(self) -> None:
        if hasattr(self, "desks"):
            for desk in self.desks:
                desk.close()
            shutil.rmtree(self.folder)

    def _entry(self) -> New:
        self.accounts += 1
        return opening(f"account {self.accounts}")

    def _copied(self) -> Path:
        trial = self.folder / "trial"
        trial.mkdir()
        for name in (TRACE, LEDGER):
            copy_database(self.home / name, trial / name)
        return trial

    @staticmethod
    def _stored(path: Path) -> dict[str, int]:
        connection = connect(path, read_only=True)
        found = {stream: head.seq for stream, head in stored(connection).items()}
        connection.close()
        return found

    @staticmethod
    def _heads(path: Path) -> dict[str, int]:
        connection = connect(path, read_only=True)
        query = (
            "SELECT 'entries', max(seq) FROM entry"
            if path.name == LEDGER
            else "SELECT name, coalesce((SELECT max(last) FROM batch WHERE batch.id >> 40 = stream.id), "
            "(SELECT json_extract(CAST(manifest AS TEXT), '$.events') FROM seal WHERE stream = stream.id)) "
            "FROM stream"
        )
        found = {name: seq or 0 for name, seq in connection.execute(query)}
        connection.close()
        return found


TestTwoDesks = TwoDesks.TestCase
TestTwoDesks.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
