"""What was logged carried into its file: while others write, and without an end of the log's growth."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.codegraph.etg.bench import Bench
from tests.support import run, until
from tracedesk.codegraph.etg import log
from tracedesk.journal import Journal, verify
from tracedesk.journal.carrier import Carrier
from tracedesk.journal.file import SMALL_PAGE
from tracedesk.journal.room import log_size


def steps(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.log("a", "checkpoint", {"message": f"step {number}", "graph_version": "v"})


def carried(path: Path) -> None:
    carrier = Carrier(path)
    carrier.ask()
    carrier.close()


def test_what_was_logged_is_carried_and_the_log_begins_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_PAGES", 1_000)
    steps(bench, 20)
    ahead = bench.path.with_name(f"{bench.path.name}-wal")
    run(until(lambda: ahead.stat().st_size >= log_size(SMALL_PAGE, 1_000)))
    file, end = bench.path.stat().st_size, _end(ahead)
    carried(bench.path)
    assert bench.path.stat().st_size > file
    bench.clock.advance(10)
    steps(bench, 10)
    assert _end(ahead) == end


def _end(ahead: Path) -> int:
    """Where what was ever written to a log ends, and mere room begins."""
    return len(ahead.read_bytes().rstrip(b"\0"))


def test_it_waits_for_no_writer_and_no_writer_for_it(bench: Bench) -> None:
    steps(bench, 20)
    file = bench.path.stat().st_size
    with Journal(bench.path) as other, other.connection:
        carried(bench.path)
    assert bench.path.stat().st_size > file


def test_one_that_was_never_asked_closes(tmp_path: Path) -> None:
    Carrier(tmp_path / "trace.db").close()
    assert list(tmp_path.iterdir()) == []


def test_one_that_cannot_says_so_makes_no_file_and_carries_when_it_can(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "moved.db"
    carrier = Carrier(path)
    carrier.ask()
    run(until(lambda: "stays in the write-ahead log" in caplog.text))
    assert not path.exists()
    steps(bench, 20)
    file = bench.path.stat().st_size
    path.symlink_to(bench.path)
    carrier.ask()
    carrier.close()
    assert bench.path.stat().st_size > file


def test_a_log_that_somebody_has_cut_gets_its_room_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_PAGES", 1_000)
    ahead = bench.path.with_name(f"{bench.path.name}-wal")
    steps(bench, 5)
    run(until(lambda: ahead.stat().st_size >= log_size(SMALL_PAGE, 1_000)))
    with Journal(bench.path) as other:
        other.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert ahead.stat().st_size == 0
    bench.clock.advance(10)
    steps(bench, 5)
    run(until(lambda: ahead.stat().st_size >= log_size(SMALL_PAGE, 1_000)))


def test_where_no_thread_can_be_had_events_are_logged_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(log, "CARRY_PAGES", 40)
    monkeypatch.setattr(log, "MOST_PAGES", 80)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    steps(bench, 30)
    bench.etg.close()
    monkeypatch.undo()
    assert len(bench.view("a").events) == 30
    assert verify(bench.path).is_sound
