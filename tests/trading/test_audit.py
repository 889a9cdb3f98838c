"""The audit: what it finds, and the one thing that only a remembered head finds."""

from __future__ import annotations

import gc
import random
import shutil
import tracemalloc
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.journal.tamper import flip_the_file
from tests.trading.ledgers import (
    TABLES,
    Tampering,
    flip_a_cell,
    open_ledger,
    rows,
    script,
    trading,
    unguarded,
    write,
)
from tracedesk.journal.sqlite import Connection, SQLiteError, connect
from tracedesk.trading import audit
from tracedesk.trading.ledger import GENESIS, Ledger, gather
from tracedesk.trading.schema import CHILDREN, link


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pristine") / "ledger.db"
    with open_ledger(path) as ledger:
        write(ledger, script())
    return path


@pytest.fixture
def copy(pristine: Path, tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    shutil.copy(pristine, path)
    return path


@pytest.fixture
def opened(copy: Path) -> Generator[Ledger]:
    with open_ledger(copy) as ledger:
        yield ledger


def _visible(path: Path) -> object:
    """All that a program can read in the ledger; or that it cannot."""
    connection = connect(path)
    try:
        return rows(connection)
    except (SQLiteError, ValueError):
        return "unreadable"
    finally:
        connection.close()


def test_an_untouched_ledger_is_sound(opened: Ledger) -> None:
    report = audit.verify(opened.path)
    assert report.faults == []
    assert (report.entries, report.head) == (15, opened.head()[1].hex())


def test_an_empty_ledger_is_sound(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        report = audit.verify(ledger.path)
    assert (report.is_sound, report.entries, report.head) == (True, 0, GENESIS.hex())


def test_a_ledger_is_checked_while_it_is_written(opened: Ledger) -> None:
    with opened.writing() as writer:
        writer.append(trading("o9"))
        assert audit.verify(opened.path).entries == 15
    assert audit.verify(opened.path).entries == 16


def test_what_is_no_ledger_is_not_sound(tmp_path: Path) -> None:
    assert not audit.verify(tmp_path / "none.db").is_sound
    (tmp_path / "text.db").write_text("nothing of the kind\n" * 300)
    assert not audit.verify(tmp_path / "text.db").is_sound


def test_progress_counts_the_entries(copy: Path) -> None:
    seen: list[int] = []
    audit.verify(copy, progress=seen.append)
    assert seen == [15]


# --- flipped bits


def test_each_of_1000_flipped_bits_in_ledger_rows_is_found(pristine: Path, tmp_path: Path) -> None:
    path, dice, before = tmp_path / "ledger.db", random.Random(1), _visible(pristine)
    missed: list[str] = []
    touched: set[str] = set()
    for _ in range(1_000):
        shutil.copy(pristine, path)
        what = flip_a_cell(path, dice)
        touched.add(what.split(".")[0])
        assert _visible(path) != before, what
        if audit.verify(path).is_sound:
            missed.append(what)
    assert missed == []
    assert touched == set(TABLES)


def test_no_flipped_bit_of_the_file_changes_what_is_read_unnoticed(pristine: Path, tmp_path: Path) -> None:
    path, dice, before = tmp_path / "ledger.db", random.Random(2), _visible(pristine)
    changed, missed = 0, list[int]()
    for _ in range(300):
        shutil.copy(pristine, path)
        at = flip_the_file(path, dice)
        report = audit.verify(path)
        if _visible(path) != before:
            changed += 1
            missed += [at] if report.is_sound else []
    assert missed == []
    assert changed > 20, "enough of the file is in use"


# --- tampering


def _run(*statements: str) -> Tampering:
    def apply(connection: Connection) -> None:
        for statement in statements:
            list(connection.execute(statement))
            assert connection.changes() or statement.startswith(("DROP", "CREATE"))

    return apply


def _swap(connection: Connection) -> None:
    for table, key in (("entry", "seq"), *((table, "entry") for table in CHILDREN)):
        for was, becomes in ((4, -1), (5, 4), (-1, 5)):
            connection.execute(f"UPDATE {table} SET {key} = ? WHERE {key} = ?", (becomes, was))


def _one_cent(connection: Connection) -> None:
    """Cash out of nothing, with the cache told of it too."""
    connection.execute("UPDATE posting SET units = units + 1 WHERE entry = 4 AND book = 'cash'")


TAMPERINGS: dict[str, Tampering] = {
    "two entries swapped": _swap,
    "a cent added": _one_cent,
    "an entry dropped": _run("DELETE FROM entry WHERE seq = 9"),
    "the first entry dropped": _run("DELETE FROM entry WHERE seq = 1"),
    "an entry added": _run("INSERT INTO entry SELECT 16, kind, account, 0, 0, body, hash FROM entry LIMIT 1"),
    "an entry before the first": _run("INSERT INTO entry VALUES(0, '', '', 0, 0, x'7b7d', zeroblob(32))"),
    "an entry at the lowest seq": _run(f"UPDATE entry SET seq = {-(2**63)} WHERE seq = 1"),
    "a posting dropped": _run("DELETE FROM posting WHERE entry = 4 AND line = 0"),
    "a posting of no units added": _run("INSERT INTO posting VALUES(8, 0, 'default', 'cash', 'USD', 0)"),
    "a posting of no entry": _run("INSERT INTO posting VALUES(99, 0, 'default', 'cash', 'USD', 0)"),
    "two postings swapped": _run(
        "UPDATE posting SET line = 9 WHERE entry = 4 AND line = 0",
        "UPDATE posting SET line = 0 WHERE entry = 4 AND line = 1",
        "UPDATE posting SET line = 1 WHERE entry = 4 AND line = 9",
    ),
    "a call's answer changed": _run("UPDATE call SET response = x'7b7d' WHERE entry = 4"),
    "a refusal's code dropped": _run("UPDATE call SET code = NULL WHERE entry = 8"),
    "a call dropped": _run("DELETE FROM call WHERE entry = 8"),
    "a call added": _run("INSERT INTO call VALUES(9, 'default', 'x', 'x', '', x'', '', NULL, x'')"),
    "an edge dropped": _run("DELETE FROM edge WHERE entry = 4"),
    "a state of no order": _run("INSERT INTO order_state VALUES(9, 0, 'default', 'none', 'open', 0, NULL)"),
    "a fill of no order": _run("INSERT INTO fill VALUES(9, 0, 'none', 'A', 'buy', 1, 1, 1, 1)"),
    "an order dropped": _run("DELETE FROM trade_order WHERE id = 'o1'"),
    "a fill dropped": _run("DELETE FROM fill WHERE order_id = 'o1'"),
    "the cache's cash changed": _run(
        "UPDATE holding SET body = CAST(replace(body, '[', '[1') AS BLOB) WHERE account = 'default'"
    ),
    "the cache's row dropped": _run("DELETE FROM holding WHERE account = 'default'"),
    "a cached account of nobody": _run("INSERT INTO holding VALUES('nobody', 0, 0, x'')"),
    "the cached day's cash changed": _run("UPDATE day SET body = CAST(replace(body, '[', '[1') AS BLOB)"),
    "the cached day moved": _run("UPDATE day SET through_ns = through_ns - 1"),
    "the cached day dropped": _run("DELETE FROM day"),
    "a cached day of nobody": _run("INSERT INTO day VALUES('nobody', 0, x'')"),
    "a cached open order dropped": _run("DELETE FROM open_order"),
    "an order that is done cached as open": _run("INSERT INTO open_order VALUES('default', 4, 0, 4, 0)"),
    "a guard dropped": _run("DROP TRIGGER posting_is_never_changed"),
    "a guard replaced by one that guards nothing": _run(
        "DROP TRIGGER fill_is_never_removed",
        "CREATE TRIGGER fill_is_never_removed BEFORE DELETE ON fill WHEN 0 BEGIN SELECT 1; END",
    ),
    "a trigger added": _run("CREATE TRIGGER theirs AFTER INSERT ON fill BEGIN DELETE FROM holding; END"),
    "a table dropped": _run("DROP TABLE edge"),
    "an index dropped": _run("DROP INDEX fill_of_order"),
}  # fmt: skip


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_found(copy: Path, tampering: str) -> None:
    with unguarded(copy) as connection:
        TAMPERINGS[tampering](connection)
    assert not audit.verify(copy).is_sound


@pytest.mark.parametrize("size", [0, 50, 100, 4096, -4096, -2000, -100])
def test_a_truncated_file_is_found(copy: Path, size: int) -> None:
    copy.write_bytes(copy.read_bytes()[:size])
    assert not audit.verify(copy).is_sound


@pytest.mark.parametrize("garbage", [b"x", b"\0" * 4096, b"garbage" * 5000])
def test_garbage_at_the_end_of_the_file_is_found(copy: Path, garbage: bytes) -> None:
    with copy.open("ab") as file:
        file.write(garbage)
    assert not audit.verify(copy).is_sound


# --- what a forger who knows the chain cannot hide

FORGERIES: dict[str, tuple[Tampering, str]] = {
    "a cent": (_one_cent, "do not balance"),
    "a price": (
        _run(
            "UPDATE posting SET units = units + 5 WHERE entry = 4 AND book = 'market' AND asset = 'USD'",
            "UPDATE posting SET units = units - 5 WHERE entry = 4 AND book = 'cash'",
        ),
        "not those of the fills",
    ),
    "a fill that no state knows": (
        _run("INSERT INTO fill VALUES(9, 0, 'o4', 'MSFT', 'buy', 7, 0, 0, 0)"),
        "last state",
    ),
    "a state that claims more": (_run("UPDATE order_state SET filled = 1 WHERE entry = 4"), "last state"),
    "a posting moved to another account": (
        _run("UPDATE posting SET account = 'second account' WHERE entry = 4"),
        "another account",
    ),
    "a state moved to another account": (
        _run("UPDATE order_state SET account = 'second account' WHERE entry = 4"),
        "another account",
    ),
    "an open order that was cancelled": (
        _run("UPDATE order_state SET status = 'open' WHERE entry = 14"),
        "cached open orders",
    ),
    "a dividend doubled": (
        _run("UPDATE posting SET units = units * 2 WHERE entry = 12"),
        "cached portfolio",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_chain_does_not_make_false_figures_sound(copy: Path, forgery: str) -> None:
    tamper, words = FORGERIES[forgery]
    with unguarded(copy) as connection:
        tamper(connection)
        _chain_anew(connection)
    faults = audit.verify(copy).faults
    assert any(words in fault.problem for fault in faults), faults
    assert not any("not what was written" in fault.problem for fault in faults)


def _chain_anew(connection: Connection) -> None:
    head = GENESIS
    for written in gather(connection, range(1, 16)):
        head = link(head, written)
        connection.execute("UPDATE entry SET hash = ? WHERE seq = ?", (head, written.entry[0]))


# --- what a report says


def test_every_changed_entry_is_named(copy: Path) -> None:
    with unguarded(copy) as connection:
        connection.execute("UPDATE entry SET body = x'7b7d' WHERE seq IN (4, 9)")
    assert [(f.seq, f.problem) for f in audit.verify(copy).faults] == [
        (4, "the entry is not what was written"),
        (9, "the entry is not what was written"),
    ]


def test_the_faults_of_a_ruined_ledger_are_bounded(copy: Path) -> None:
    with open_ledger(copy) as ledger:
        write(ledger, [replace(trading(f"x{n}"), call=None) for n in range(80)])
    with unguarded(copy) as connection:
        connection.execute("UPDATE entry SET at_ns = 0")
    assert len(audit.verify(copy).faults) == audit.FAULTS


def test_entries_cut_off_at_the_end_are_found_by_a_remembered_head(copy: Path) -> None:
    remembered = audit.verify(copy).head
    with unguarded(copy) as connection:
        for table in CHILDREN:
            connection.execute(f"DELETE FROM {table} WHERE entry = 15")
        connection.execute("DELETE FROM entry WHERE seq = 15")
    with open_ledger(copy) as ledger, ledger.writing() as writer:
        writer.rebuild()
    cut = audit.verify(copy)
    assert cut.faults == [], "nothing in the file says that there was more"
    assert cut.head != remembered


def test_the_audit_takes_no_more_memory_for_a_longer_ledger(tmp_path: Path) -> None:
    """Eight times the entries; the least of three peaks, as the collector's moment moves each a little."""
    peaks = [min(_peak(path) for _ in range(3)) for path in (_long(tmp_path, 400), _long(tmp_path, 3_200))]
    assert peaks[1] < 1.2 * peaks[0], peaks


def _long(folder: Path, count: int) -> Path:
    path = folder / f"{count}.db"
    with open_ledger(path) as ledger, ledger.writing() as writer:
        for new in (*script()[:2], *(trading(f"m{n}") for n in range(count))):
            writer.append(new)
    return path


def _peak(path: Path) -> int:
    gc.collect()
    tracemalloc.start()
    assert audit.verify(path).is_sound
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
