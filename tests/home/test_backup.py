"""Backups: made while others write, checked, and used as homes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import pytest

from tests.home import older
from tests.home.filling import Filled
from tests.support import BOUND, ROOT
from tests.trading.ledgers import open_ledger, script, unguarded, write
from tracedesk.backup import MANIFEST, BackupError, Manifest, back_up, check, read_manifest
from tracedesk.catalog import Catalog
from tracedesk.home import FOLDERS, FORMAT, Home, HomeInUse, HomeTooNew, alone
from tracedesk.journal import Entry, Journal, Reader, verify
from tracedesk.journal.sqlite import connect
from tracedesk.wire.auth import Tokens

PAGE = b'{"text":"%s"}' % (b"x" * 3000)


def _names(manifest: Manifest) -> list[str]:
    return [item.path for item in manifest.items]


def _complete(filled: Filled) -> Home:
    """A home with one of everything."""
    home = filled.home
    filled.stream(home.trace, "calls-2026-10", [b"{}"] * 5, status="ended", days=40)
    filled.stream(home.trace, "calls-2026-11", [b'{"n":1}'] * 7)
    filled.run("r1", events=4)
    filled.run("r2", events=2, status=None)
    with Catalog(home) as catalog:
        catalog.rebuild()
    filled.payload(b"a body")
    (home.campaign("c1")).mkdir()
    (home.campaign("c1") / "corpus.txt").write_text("one\n")
    (home.inbox / "hook.json").write_text("{}")
    (home.path / "tracedesk.toml").write_text("port = 3100\n")
    (home.path / "token").write_text(older.SECRET)
    (home.path / "notes.txt").write_text("bought on Monday\n")
    return home


# --- what is in it -----------------------------------------------------------------------------


def test_a_backup_holds_everything_but_locks_logs_sockets_and_hosts(filled: Filled, tmp_path: Path) -> None:
    home = _complete(filled)
    (home.path / "tokens.lock").write_text("")
    (home.logs / "tracedesk.log").write_text("line\n")
    (home.run / "exchange-1.json").write_text("{}")
    (home.path / ".token.123").write_text("half")
    made = back_up(home.path, tmp_path / "copy")
    assert _names(made) == [
        "campaigns/c1/corpus.txt",
        "catalog.db",
        "format.json",
        "inbox/hook.json",
        "notes.txt",
        f"payloads/{'/'.join(filled.payload(b'a body').parts[-2:])}",
        "runs/r1.db",
        "runs/r2.db",
        "trace.db",
        "tracedesk.toml",
    ]
    kept = {
        p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*") if p.is_file()
    }
    assert kept == {*_names(made), MANIFEST}
    assert (made.journals, made.events, made.left_out) == (3, 18, ())
    assert read_manifest(tmp_path / "copy") == made


def test_a_backup_holds_no_live_credential_and_names_what_it_leaves_out(
    filled: Filled, tmp_path: Path
) -> None:
    home = _complete(filled)
    secrets = {
        "token": older.SECRET,
        "tokens.json": '[{"name": "owner", "sha256": "ab", "scopes": []}]',
        "anchor.key": "k" * 32,
        "keys/binance": "api_key = a1B2c3D4e5F6g7H8\nsecret = q9W8e7R6t5Y4u3I2\n",
        "keys/ed25519": "-----BEGIN PRIVATE KEY-----\n" + "a1B2" * 16 + "\n-----END PRIVATE KEY-----\n",
    }
    for name, text in secrets.items():
        (home.path / name).parent.mkdir(exist_ok=True)
        (home.path / name).write_text(text)
    made = back_up(home.path, tmp_path / "copy")
    assert made.credentials == tuple(sorted(secrets))
    assert read_manifest(tmp_path / "copy") == made
    assert check(tmp_path / "copy").is_sound
    everything = b"".join(p.read_bytes() for p in (tmp_path / "copy").rglob("*") if p.is_file())
    assert not [name for name, text in secrets.items() if text.encode() in everything]


def test_a_restored_home_makes_tokens_of_its_own(filled: Filled, tmp_path: Path) -> None:
    home = _complete(filled)
    before = Tokens(home.path).owner()
    back_up(home.path, tmp_path / "copy")
    restored = Tokens(tmp_path / "copy")
    assert restored.list() == ()
    assert restored.owner() != before
    assert restored.verify(before) is None
    assert Tokens(home.path).verify(before) is not None


def test_everything_in_a_backup_is_for_its_owner_alone(filled: Filled, tmp_path: Path) -> None:
    back_up(_complete(filled).path, tmp_path / "copy")
    paths = [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_file()} == {0o600}


def test_the_manifest_has_sizes_digests_heads_and_the_format(filled: Filled, tmp_path: Path) -> None:
    home = _complete(filled)
    with Journal(home.trace) as journal:
        journal.prune("calls-2026-10")
    made = back_up(home.path, tmp_path / "copy")
    trace = next(item for item in made.items if item.path == "trace.db")
    with Reader(home.trace) as reader:
        head = reader.head("calls-2026-11")
    assert trace.heads == {
        "calls-2026-10": {"pruned": True},
        "calls-2026-11": {"seq": 7, "hash": head.hash.hex()},
    }
    assert (trace.kind, trace.bytes) == ("journal", (tmp_path / "copy" / "trace.db").stat().st_size)
    assert made.home_format == FORMAT


def test_links_are_followed_at_the_top_and_named_where_they_are_not(filled: Filled, tmp_path: Path) -> None:
    home = filled.home
    elsewhere = tmp_path / "disk"
    home.runs.rename(elsewhere)
    home.runs.symlink_to(elsewhere)
    filled.run("far")
    (home.campaigns / "link").symlink_to(tmp_path)
    os.mkfifo(home.campaigns / "pipe")
    made = back_up(home.path, tmp_path / "copy")
    assert "runs/far.db" in _names(made)
    assert made.left_out == ("campaigns/link", "campaigns/pipe")


def test_a_database_that_is_none_is_copied_as_it_is(filled: Filled, tmp_path: Path) -> None:
    (filled.home.runs / "torn.db").write_bytes(b"no database" * 500)
    made = back_up(filled.home.path, tmp_path / "copy")
    assert (tmp_path / "copy" / "runs" / "torn.db").read_bytes() == b"no database" * 500
    assert next(item for item in made.items if item.path == "runs/torn.db").kind == "file"
    assert check(tmp_path / "copy").is_sound


def test_a_home_of_an_older_format_is_backed_up_as_it_is(tmp_path: Path) -> None:
    path = older.first_desk(tmp_path / "home")
    made = back_up(path, tmp_path / "copy")
    assert made.home_format == 0
    assert not (path / "format.json").exists()
    Home.open(tmp_path / "copy")


# --- while others write ------------------------------------------------------------------------


@contextmanager
def _writing(file: Path, stream: str) -> Generator[IO[str]]:
    """A process that appends without pause; what it yields are the seqs it acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.home.writer", str(file), stream],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield cast("IO[str]", process.stdout)
    finally:
        process.communicate(timeout=BOUND)
    assert process.returncode == 0


def _grown(reader: Reader, stream: str) -> int:
    """Wait, with a bound, for the stream to grow; return how far it reaches."""
    seq = reader.head(stream).seq
    deadline = time.monotonic() + BOUND
    while (now := reader.head(stream).seq) == seq:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return now


def test_what_was_acknowledged_before_the_backup_began_is_in_it_and_its_chain_holds(
    filled: Filled, tmp_path: Path
) -> None:
    home = filled.home
    filled.stream(home.trace, "old", [PAGE] * 1_500)
    steps: list[int] = []
    with _writing(home.trace, "calls") as trace, _writing(home.run_file("r1"), "r1") as run:
        before = int(trace.readline()), int(run.readline())
        with Reader(home.trace) as watcher:

            def between_steps(*_: object) -> None:
                # Another commit before each step: the copy must neither tear nor start over.
                steps.append(_grown(watcher, "calls"))

            made = back_up(home.path, tmp_path / "copy", progress=between_steps)
    assert len(steps) > 5
    heads = {name: head for item in made.items for name, head in (item.heads or {}).items()}
    assert before[0] <= heads["calls"]["seq"] < steps[-1]
    assert heads["r1"]["seq"] >= before[1]
    assert heads["old"]["seq"] == 1_500
    assert check(tmp_path / "copy").is_sound
    assert verify(home.trace).is_sound


# --- whole or not at all -----------------------------------------------------------------------


def test_a_target_that_is_there_already_is_refused_unless_it_is_empty(filled: Filled, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    back_up(filled.home.path, tmp_path / "copy")
    with pytest.raises(BackupError, match="is there already"):
        back_up(filled.home.path, tmp_path / "copy")
    (tmp_path / "file").write_text("")
    with pytest.raises(BackupError, match="is there already"):
        back_up(filled.home.path, tmp_path / "file")


def test_a_target_in_the_home_is_refused(home: Home) -> None:
    with pytest.raises(BackupError, match="choose a folder outside it"):
        back_up(home.path, home.path / "copy")


def test_no_home_no_backup(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no home at"):
        back_up(tmp_path / "nowhere", tmp_path / "copy")


def test_a_home_of_a_newer_format_is_not_backed_up(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "format.json").write_text('{"format": 9, "createdAt": "", "writtenBy": "9"}')
    with pytest.raises(HomeTooNew):
        back_up(tmp_path / "home", tmp_path / "copy")


def test_too_little_room_is_said_before_anything_is_copied(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _complete(filled)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))  # pyright: ignore
    with pytest.raises(BackupError, match="has 1 bytes free, and the home has"):
        back_up(filled.home.path, tmp_path / "copy")
    assert not (tmp_path / "copy.partial").exists()


def test_a_backup_that_fails_leaves_nothing(filled: Filled, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(_complete(filled).path, tmp_path / "copy", progress=interrupt)
    assert [p.name for p in tmp_path.iterdir()] == ["home"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from tracedesk.backup import back_up
back_up(Path(sys.argv[1]), Path(sys.argv[2]), progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_killed_backup_is_never_taken_for_one(filled: Filled, tmp_path: Path) -> None:
    home = _complete(filled)
    command = [sys.executable, "-c", _KILLED, str(home.path), str(tmp_path / "copy")]
    assert subprocess.run(command, check=False, timeout=BOUND).returncode == -signal.SIGKILL
    assert not (tmp_path / "copy").exists()
    with pytest.raises(BackupError, match=r"copy\.partial is left of a backup that was cut off"):
        back_up(home.path, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy.partial")
    back_up(home.path, tmp_path / "copy")
    assert check(tmp_path / "copy").is_sound


def test_one_backup_or_prune_of_a_home_at_a_time(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracedesk.backup.alone", lambda path: alone(path, seconds=0.05))  # pyright: ignore
    with alone(filled.home.path), pytest.raises(HomeInUse):
        back_up(filled.home.path, tmp_path / "copy")


# --- checking ----------------------------------------------------------------------------------


@pytest.fixture
def copy(filled: Filled, tmp_path: Path) -> Path:
    back_up(_complete(filled).path, tmp_path / "copy")
    return tmp_path / "copy"


def test_checking_a_backup_changes_nothing_in_it(copy: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*")}
    found = check(copy)
    assert found.is_sound
    assert (found.files, found.events) == (10, 18)
    assert {p: p.stat().st_mtime_ns for p in copy.rglob("*")} == before


def test_a_flipped_byte_a_missing_and_an_added_file_are_found(copy: Path) -> None:
    notes = copy / "notes.txt"
    notes.write_bytes(bytes([notes.read_bytes()[0] ^ 1]) + notes.read_bytes()[1:])
    (copy / "runs" / "r1.db").unlink()
    (copy / "runs" / "r2.db-wal").write_bytes(b"more")
    faults = dict(check(copy).faults)
    assert faults == {
        "notes.txt": "it is not what was written: its digest differs",
        "runs/r1.db": "it is missing",
        "runs/r2.db-wal": "it is not in the manifest",
    }


def test_a_journal_that_was_broken_before_the_backup_is_found(filled: Filled, tmp_path: Path) -> None:
    """The digests are right: what is wrong was wrong already."""
    filled.run("r1")
    raw = connect(filled.home.run_file("r1"))
    raw.execute("DROP TRIGGER event_is_never_changed; UPDATE event SET body = x'7b7d' WHERE id & 255 = 2")
    raw.close()
    back_up(filled.home.path, tmp_path / "copy")
    faults = check(tmp_path / "copy").faults
    assert any("the batch that begins here is not what was written" in problem for _, problem in faults)


def test_a_folder_without_a_manifest_or_with_a_damaged_or_newer_one_is_no_backup(copy: Path) -> None:
    with pytest.raises(BackupError, match="is not a backup"):
        check(copy.parent)
    text = (copy / MANIFEST).read_text()
    (copy / MANIFEST).write_text(text[:-10])
    with pytest.raises(BackupError, match="is damaged"):
        check(copy)
    (copy / MANIFEST).write_text(text.replace('"format":1', '"format":2', 1))
    with pytest.raises(BackupError, match="newer tracedesk"):
        check(copy)


# --- restoring ---------------------------------------------------------------------------------


def test_a_backup_used_as_a_home_is_complete_and_goes_on(copy: Path, tmp_path: Path) -> None:
    restored = Home.open(copy)
    assert {name for name in FOLDERS if (copy / name).is_dir()} == set(FOLDERS)
    for file in (restored.trace, restored.run_file("r1"), restored.run_file("r2")):
        assert verify(file).is_sound
    with Journal(restored.trace) as journal:
        assert journal.append("calls-2026-11", [Entry("call", 1, b"{}")]) == range(8, 9)
    with Catalog(restored) as catalog:
        assert {run.id for run in catalog.list()} == {"r1", "r2"}
    assert verify(restored.trace).is_sound
    again = back_up(copy, tmp_path / "again")
    assert (again.events, check(tmp_path / "again").is_sound) == (19, True)


def test_a_ledger_that_was_broken_before_the_backup_is_found(home: Home, tmp_path: Path) -> None:
    with open_ledger(home.ledger) as ledger:
        write(ledger, script())
    back_up(home.path, tmp_path / "sound")
    assert check(tmp_path / "sound").faults == []
    with unguarded(home.ledger) as connection:
        connection.execute("UPDATE posting SET units = units + 1 WHERE entry = 4")
    back_up(home.path, tmp_path / "broken")
    assert {name for name, _ in check(tmp_path / "broken").faults} == {"ledger.db"}
