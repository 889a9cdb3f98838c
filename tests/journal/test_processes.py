"""Several processes on one file: writers beside writers, readers beside writers."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from tests.journal.samples import raw
from tests.journal.workers import append_to_both, create_at_once, together, write_or_follow
from tracedesk.journal import Journal, verify

BATCHES = 40
SIZE = 5


def test_eight_processes_append_to_one_file_at_once(path: Path) -> None:
    done = list(chain.from_iterable(together(8, append_to_both, path, BATCHES, SIZE)))
    report = verify(path)
    assert report.faults == []
    assert (report.streams, report.events) == (9, 2 * 8 * BATCHES * SIZE)
    for name in (*(f"own-{n}" for n in range(8)), "shared"):
        spans = sorted((first, last) for stream, first, last in done if stream == name)
        seqs = list(chain.from_iterable(range(first, last + 1) for first, last in spans))
        assert seqs == list(range(1, len(seqs) + 1)), "each acknowledged seq once, and none missing"


def test_processes_that_make_the_same_new_file_at_once_share_it(tmp_path: Path) -> None:
    files = 12
    got = together(4, create_at_once, tmp_path, files)
    for n in range(files):
        assert sorted(seqs[n] for seqs in got) == [1, 2, 3, 4]
        assert verify(tmp_path / f"{n}.db").is_sound
    assert not list(tmp_path.glob(".*")), "no half-made file is left"


def test_readers_in_other_processes_follow_a_writer_and_miss_nothing(path: Path) -> None:
    batches = 60
    with Journal(path) as journal:
        journal.open("a", "run")
    _, *followed = together(4, write_or_follow, path, batches)
    assert followed == [list(range(1, batches * 7 + 1))] * 3


def test_a_reader_never_makes_a_writer_wait(path: Path) -> None:
    with Journal(path) as journal, raw(path) as reader:
        journal.open("a", "run")
        reader.execute("BEGIN; SELECT * FROM stream")
        journal.open("b", "run")
        assert list(reader.execute("SELECT name FROM stream")) == [("a",)]
        reader.execute("COMMIT")
        assert len(list(reader.execute("SELECT name FROM stream"))) == 2
