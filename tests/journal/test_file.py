"""Journal files: who may read them, and what is not one."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.journal.samples import entries, raw
from tracedesk.journal import Journal, JournalError, Reader, file, verify


@pytest.fixture
def open_umask() -> Generator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_the_file_and_what_sqlite_puts_beside_it_are_for_the_owner_only(path: Path) -> None:
    with Journal(path) as journal:
        journal.open("a", "run")
        journal.append("a", entries(1))
        with Reader(path):
            found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert found == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


@pytest.mark.usefixtures("open_umask")
def test_a_file_that_others_could_read_is_closed_to_them_before_anything_is_written(path: Path) -> None:
    path.touch(0o666)
    with Journal(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.with_name("journal.db-wal").stat().st_mode) == 0o600


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs" / "deep" / "a.db") as journal:
        journal.open("a", "run")
    assert verify(journal.path).streams == 1


def test_commits_reach_the_disk_before_they_return(journal: Journal) -> None:
    assert journal.connection.pragma("journal_mode") == "wal"
    assert journal.connection.pragma("synchronous") == 2


def test_a_journal_with_smaller_pages_goes_on_as_it_is(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "FORMAT", replace(file.FORMAT, page=4096))
        with Journal(path) as old:
            old.open("a", "run")
            old.append("a", entries(100))
            assert old.connection.pragma("page_size") == 4096
    with Journal(path) as journal:
        assert journal.append("a", entries(100)) == range(101, 201)
        assert journal.connection.pragma("page_size") == 4096
    assert verify(path).is_sound
    with Journal(path.with_name("new.db")) as new:
        assert new.connection.pragma("page_size") == 8192


def test_another_programs_database_is_refused_and_left_as_it_was(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1)")
    before, mode = path.read_bytes(), path.stat().st_mode
    with pytest.raises(JournalError, match="another program's database"):
        Journal(path)
    with pytest.raises(JournalError, match="not a journal"):
        Reader(path)
    assert (path.read_bytes(), path.stat().st_mode) == (before, mode)
    assert os.listdir(path.parent) == [path.name]


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 100)
    for opener in (Journal, Reader):
        with pytest.raises(JournalError, match="not a journal"):
            opener(path)
    assert path.read_bytes() == b"Dear diary, " * 100


def test_a_reader_never_makes_a_file(path: Path) -> None:
    with pytest.raises(JournalError, match="no journal"):
        Reader(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("begun", ["", "PRAGMA journal_mode = WAL"])
def test_a_file_whose_maker_was_killed_is_no_journal_yet_and_its_next_writer_makes_it(
    path: Path, begun: str
) -> None:
    path.touch()
    with raw(path) as connection:
        connection.execute(begun)
    with pytest.raises(JournalError, match=r"no journal at .* yet"):
        Reader(path)
    with Journal(path) as journal:
        journal.open("a", "run")
        journal.append("a", entries(1))
    assert verify(path).is_sound


def test_a_closed_journal_is_one_file(path: Path) -> None:
    with Journal(path) as journal:
        journal.open("a", "run")
        journal.append("a", entries(10))
    assert os.listdir(path.parent) == [path.name]
    assert verify(path).events == 10


def test_toolsets_may_keep_their_own_tables_in_the_file(journal: Journal, path: Path) -> None:
    journal.connection.execute("CREATE TABLE projection(x); CREATE INDEX by_x ON projection(x)")
    assert verify(path).is_sound
