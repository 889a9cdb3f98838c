"""Verifying: what a sound journal reports, and what a verification may disturb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journal.samples import entries, fill, raw
from tracedesk.journal import Fault, Journal, append, verify
from tracedesk.journal import sqlite as journal_sqlite
from tracedesk.journal.sqlite import BusyError
from tracedesk.journal.stream import every


def test_a_sound_journal_is_counted_stream_by_stream(journal: Journal, path: Path) -> None:
    fill(journal)
    report = verify(path)
    assert (report.streams, report.events, report.pruned, report.faults) == (5, 22, 1, [])
    assert report.heads.keys() == {"growing", "empty", "sealed", "hollow"}


def test_heads_change_with_every_batch_and_with_nothing_else(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    heads = [verify(path).heads["a"], verify(path).heads["a"]]
    journal.append("a", entries(2))
    heads += [verify(path).heads["a"], verify(path).heads["a"]]
    assert heads[0] == heads[1] != heads[2] == heads[3]


def test_progress_is_told_in_events(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    for _ in range(3):
        journal.append("a", entries(4))
    told: list[int] = []
    verify(path, progress=told.append)
    assert told == [4, 8, 12]


def test_a_missing_or_foreign_file_is_a_fault_not_a_crash(path: Path) -> None:
    assert verify(path).faults == [Fault("", None, f"the file cannot be read: there is no journal at {path}")]
    path.write_bytes(b"Dear diary, " * 100)
    assert not verify(path).is_sound
    path.write_bytes(b"")
    assert not verify(path).is_sound


def _append_one(journal: Journal) -> None:
    journal.append("a", entries(1))


def test_a_writer_goes_on_while_its_journal_is_verified(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    for _ in range(5):
        journal.append("a", entries(3))
    report = verify(path, progress=lambda _: _append_one(journal))
    assert (report.events, report.is_sound) == (15, True), "it checks the state it began with"
    assert verify(path).events == 20


def test_a_file_kept_from_being_read_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(path).close()
    monkeypatch.setattr(journal_sqlite, "BUSY_SECONDS", 0.05)
    with raw(path) as holder:
        assert holder.pragma("locking_mode", "EXCLUSIVE") == "exclusive"
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BusyError):
            verify(path)


def test_verifying_writes_nothing(journal: Journal, path: Path) -> None:
    fill(journal)
    journal.close()
    before = path.read_bytes()
    assert verify(path).is_sound
    assert path.read_bytes() == before


def test_a_stream_of_the_first_framing_goes_on_in_it_and_is_verified_beside_new_ones(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "FRAMING", 1)
    journal.open("old", "run")
    journal.append("old", entries(3))
    monkeypatch.undo()
    journal.close()
    with Journal(path) as later:
        later.open("new", "run")
        later.open("calls", "calls", framing=3)
        for name in ("old", "new", "calls"):
            later.append(name, entries(2))
        framings = {stream.name: stream.framing for stream in every(later.connection)}
    assert framings == {"old": 1, "new": 2, "calls": 3}
    assert verify(path).is_sound
    with raw(path) as connection:
        connection.execute("DROP TRIGGER event_is_never_changed")
        connection.execute("UPDATE event SET time_ns = time_ns + 1 WHERE id IN (SELECT min(id) FROM event)")
    assert [fault.stream for fault in verify(path).faults if fault.stream] == ["old"]
