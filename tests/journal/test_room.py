"""Room in the log: commits do not lengthen it, and nothing else is different."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.journal.samples import entries, raw, rows
from tracedesk.journal import Journal, verify
from tracedesk.journal.room import make_room

_SIZE = 2_000_000


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def test_commits_do_not_lengthen_a_log_that_has_room(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.append("a", entries(3))
    make_room(path, _SIZE)
    length = _log(path).stat().st_size
    assert length >= _SIZE
    for _ in range(20):
        journal.append("a", entries(1))
    assert _log(path).stat().st_size == length


def test_making_room_changes_nothing_in_the_file(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    journal.append("a", entries(3))
    with raw(path) as connection:
        before = rows(connection)
        tables = list(connection.execute("SELECT * FROM sqlite_master"))
        make_room(path, _SIZE)
        assert rows(connection) == before
        assert list(connection.execute("SELECT * FROM sqlite_master")) == tables
    assert verify(path).is_sound


def test_a_log_that_has_the_room_is_left_as_it_is(journal: Journal, path: Path) -> None:
    make_room(path, _SIZE)
    before = _log(path).read_bytes()
    make_room(path, _SIZE)
    assert _log(path).read_bytes() == before


def test_whoever_finds_the_file_and_a_log_with_room_finds_every_commit(
    journal: Journal, path: Path, tmp_path: Path
) -> None:
    journal.open("a", "run")
    make_room(path, _SIZE)
    for number in range(1, 30):
        journal.append("a", entries(1))
        left = tmp_path / f"left-{number}.db"
        shutil.copyfile(path, left)
        shutil.copyfile(_log(path), _log(left))
        report = verify(left)
        assert (report.events, report.faults) == (number, [])


def test_a_log_written_back_is_used_again_from_its_beginning(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    make_room(path, _SIZE)
    length = _log(path).stat().st_size
    for _ in range(100):
        journal.append("a", entries(10))
        journal.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    assert _log(path).stat().st_size == length
    assert verify(path).events == 1_000


def test_room_that_cannot_be_made_is_told_and_does_no_harm(journal: Journal, path: Path) -> None:
    journal.open("a", "run")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SIZE, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            make_room(path, 2 * _SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.append("a", entries(1)) == range(1, 2)
    assert verify(path).is_sound


def test_where_space_is_short_it_is_left_to_what_is_written(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.open("a", "run")
    length = _log(path).stat().st_size

    def nearly_full(_: int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=7 * _SIZE // 4096, f_frsize=4096)

    monkeypatch.setattr(os, "fstatvfs", nearly_full)
    with pytest.raises(OSError, match="are free"):
        make_room(path, _SIZE)
    assert _log(path).stat().st_size == length


def test_a_file_without_a_log_gets_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_room(tmp_path / "x.db", _SIZE)
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_lengthens_the_log_meanwhile_is_kept(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.open("a", "run")
    look = os.fstat

    def late(descriptor: int) -> os.stat_result:
        seen = look(descriptor)
        journal.append("a", entries(100))
        return seen

    monkeypatch.setattr(os, "fstat", late)
    make_room(path, _SIZE)
    monkeypatch.undo()
    events = verify(path).events
    shutil.copyfile(path, left := path.with_name("left.db"))
    shutil.copyfile(_log(path), _log(left))
    report = verify(left)
    assert (report.events, report.faults) == (events, [])
    assert events >= 200
