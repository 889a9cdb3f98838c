"""Tampering: what `verify` finds, and the one thing that only a remembered head finds."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journal.samples import entries, fill
from tests.journal.tamper import flip_a_cell, flip_the_file, unguarded, visible
from tracedesk.journal import Journal, Report, verify
from tracedesk.journal.file import SEQ_BITS, key
from tracedesk.journal.sqlite import Connection


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pristine") / "journal.db"
    with Journal(path) as journal:
        fill(journal)
    return path


@pytest.fixture
def copy(pristine: Path, path: Path) -> Path:
    shutil.copy(pristine, path)
    return path


def test_each_of_1000_flipped_bits_in_journal_rows_is_found(pristine: Path, path: Path) -> None:
    dice = random.Random(1)
    before = visible(pristine)
    missed: list[str] = []
    for _ in range(1_000):
        shutil.copy(pristine, path)
        what = flip_a_cell(path, dice)
        assert visible(path) != before, what
        if verify(path).is_sound:
            missed.append(what)
    assert missed == []


def test_no_flipped_bit_of_the_file_changes_what_is_read_unnoticed(pristine: Path, path: Path) -> None:
    dice = random.Random(2)
    before = visible(pristine)
    changed, missed = 0, list[int]()
    for _ in range(600):
        shutil.copy(pristine, path)
        at = flip_the_file(path, dice)
        report = verify(path)
        if visible(path) != before:
            changed += 1
            missed += [at] if report.is_sound else []
    assert missed == []
    assert changed > 50, "enough of the file is in use"


def _swap_two_events(connection: Connection) -> None:
    one, other = key(1, 2), key(1, 3)
    for was, becomes in ((one, -1), (other, one), (-1, other)):
        connection.execute("UPDATE event SET id = ? WHERE id = ?", (becomes, was))


def _swap_two_events_of_different_batches(connection: Connection) -> None:
    one, other = key(1, 5), key(1, 8)
    for was, becomes in ((one, -1), (other, one), (-1, other)):
        connection.execute("UPDATE event SET id = ? WHERE id = ?", (becomes, was))


def _run(*statements: str) -> Callable[[Connection], None]:
    def apply(connection: Connection) -> None:
        for statement in statements:
            list(connection.execute(statement))
            assert connection.changes() or statement.startswith(("DROP", "CREATE"))

    return apply


G = 1 << SEQ_BITS  # the first row of stream 1, "growing"
LATER = key(1, 8)
TAMPERINGS: dict[str, Callable[[Connection], None]] = {
    "two events swapped": _swap_two_events,
    "two events of different batches swapped": _swap_two_events_of_different_batches,
    "an event dropped": _run(f"DELETE FROM event WHERE id = {G + 3}"),
    "the last event dropped": _run(f"DELETE FROM event WHERE id = {G + 11}"),
    "an event added": _run(f"INSERT INTO event VALUES({G + 12}, 0, NULL, 'Trade', x'')"),
    "an event at seq 0": _run(f"INSERT INTO event VALUES({G}, 0, NULL, 'Trade', x'')"),
    "a batch dropped": _run(f"DELETE FROM batch WHERE id = {G + 6}"),
    "the last batch dropped, not its events": _run(f"DELETE FROM batch WHERE id = {LATER}"),
    "a batch dropped with its events": _run(
        f"DELETE FROM batch WHERE id = {G + 1}", f"DELETE FROM event WHERE id BETWEEN {G + 1} AND {G + 5}"
    ),
    "a batch duplicated": _run(f"INSERT INTO batch SELECT id + 1, last, hash FROM batch WHERE id = {LATER}"),
    "a batch appended twice": _run(
        f"INSERT INTO batch SELECT id + 4, last + 4, hash FROM batch WHERE id = {LATER}",
        "INSERT INTO event SELECT id + 4, time_ns, parent, kind, body FROM event "
        f"WHERE id BETWEEN {LATER} AND {2 * G}",
    ),
    "a batch that claims all seqs": _run(f"UPDATE batch SET last = {2**62} WHERE id = {G + 1}"),
    "a last batch that claims all seqs": _run(f"UPDATE batch SET last = {2**62} WHERE id = {LATER}"),
    "a stream renamed": _run("UPDATE stream SET name = 'other' WHERE id = 1"),
    "an empty stream renamed": _run("UPDATE stream SET name = 'other' WHERE id = 2"),
    "two streams' names swapped": _run(
        "UPDATE stream SET name = 'x' WHERE id = 1",
        "UPDATE stream SET name = 'growing' WHERE id = 2",
        "UPDATE stream SET name = 'empty' WHERE id = 1",
    ),
    "a stream's row dropped": _run("DELETE FROM stream WHERE id = 1"),
    "a parent where there was none": _run(f"UPDATE event SET parent = 0 WHERE id = {G + 1}"),
    "no parent where there was one": _run(f"UPDATE event SET parent = NULL WHERE id = {G + 6}"),
    "a kind too long to be one": _run(f"UPDATE event SET kind = hex(zeroblob(70000)) WHERE id = {G + 1}"),
    "a seal's status turned": _run("UPDATE seal SET status = 'crashed' WHERE stream = 3"),
    "a seal moved to another stream": _run("UPDATE seal SET stream = 1 WHERE stream = 3"),
    "a manifest that is no object": _run("UPDATE seal SET manifest = x'5b5d' WHERE stream = 5"),
    "an event after the seal": _run(f"INSERT INTO event VALUES({3 * G + 12}, 0, NULL, 'Trade', x'')"),
    "a tombstone dropped": _run("DELETE FROM tombstone WHERE stream = 5"),
    "a tombstone on a stream that has its events": _run(
        "INSERT INTO tombstone SELECT 3, pruned_ns, hash FROM tombstone"
    ),
    "an event of a pruned stream": _run(f"INSERT INTO event VALUES({5 * G + 1}, 0, NULL, 'Trade', x'')"),
    "a batch of a pruned stream": _run(f"INSERT INTO batch VALUES({5 * G + 1}, 1, zeroblob(32))"),
    "a guard dropped": _run("DROP TRIGGER event_is_never_changed"),
    "a guard replaced by one that guards nothing": _run(
        "DROP TRIGGER event_is_never_changed",
        "CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event WHEN 0 BEGIN SELECT 1; END",
    ),
    "a table dropped": _run("DROP TABLE tombstone"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_found(copy: Path, tampering: str) -> None:
    with unguarded(copy) as connection:
        TAMPERINGS[tampering](connection)
    assert not verify(copy).is_sound


@pytest.mark.parametrize("size", [0, 50, 100, 4096, -4096, -2000, -100])
def test_a_truncated_file_is_found(copy: Path, size: int) -> None:
    data = copy.read_bytes()
    copy.write_bytes(data[:size])
    assert not verify(copy).is_sound


@pytest.mark.parametrize("garbage", [b"x", b"\0" * 4096, b"garbage" * 5000])
def test_garbage_at_the_end_of_the_file_is_found(copy: Path, garbage: bytes) -> None:
    with copy.open("ab") as file:
        file.write(garbage)
    assert not verify(copy).is_sound


def test_the_fault_names_the_stream_and_the_batch(copy: Path) -> None:
    with unguarded(copy) as connection:
        connection.execute("UPDATE event SET body = x'00' WHERE id = ?", (key(3, 7),))
    assert [(fault.stream, fault.seq) for fault in verify(copy).faults] == [("sealed", 6)]


def test_a_fault_in_one_stream_does_not_hide_one_in_another(copy: Path) -> None:
    with unguarded(copy) as connection:
        connection.execute("UPDATE event SET body = x'00' WHERE id IN (?, ?)", (key(1, 9), key(3, 7)))
    assert [fault.stream for fault in verify(copy).faults] == ["growing", "sealed"]


def _cut_the_last_batch(path: Path) -> Report:
    with unguarded(path) as connection:
        connection.execute("DELETE FROM batch WHERE id = ?", (LATER,))
        connection.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", (LATER, key(1, 11)))
    return verify(path)


def test_a_last_batch_cut_off_with_its_events_is_found_by_a_remembered_head(copy: Path) -> None:
    remembered = verify(copy).heads["growing"]
    cut = _cut_the_last_batch(copy)
    assert cut.is_sound, "nothing in the file says that there was more"
    assert cut.heads["growing"] != remembered


def test_a_journal_rewritten_from_a_batch_on_is_found_by_a_remembered_head(copy: Path) -> None:
    remembered = verify(copy).heads["growing"]
    _cut_the_last_batch(copy)
    with Journal(copy) as journal:
        journal.append("growing", entries(4, 800))
    assert verify(copy).heads["growing"] != remembered
