"""Disk figures: bytes by kind, streams by state, and what doctor makes of them."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.home.filling import Filled
from tracedesk.cli import health, selftest
from tracedesk.cli.health import Finding, examine
from tracedesk.disk import KINDS, sizes, streams
from tracedesk.home import FORMAT, Home
from tracedesk.journal import Journal


def test_every_byte_is_counted_once_under_its_kind(filled: Filled) -> None:
    home = filled.home
    filled.payload(b"p" * 11)
    (home.logs / "tracedesk.log").write_bytes(b"l" * 7)
    home.campaign("c1").mkdir()
    (home.campaign("c1") / "corpus").write_bytes(b"c" * 5)
    (home.graph).write_bytes(b"g" * 3)
    (home.ledger).write_bytes(b"d" * 2)
    (home.path / "trace.db.old").write_bytes(b"o" * 13)
    with Journal(home.trace) as journal:
        journal.open("now", "calls")
        found = sizes(home.path)
        wal = Path(f"{home.trace}-wal").stat().st_size
        trace = sum(file.stat().st_size for file in home.path.glob("trace.db*") if file.suffix != ".old")
    filled.run("r1")
    runs = sum(file.stat().st_size for file in home.runs.iterdir())
    assert tuple(found.kinds) == KINDS
    assert found.wal == wal > 0
    assert found.kinds["trace"] == trace
    assert [found.kinds[k] for k in ("payloads", "logs", "campaigns", "graph", "ledger")] == [11, 7, 5, 3, 2]
    assert found.kinds["other"] == 13 + (home.path / "format.json").stat().st_size
    after = sizes(home.path)
    assert after.kinds["runs"] == runs
    assert after.total == sum(file.stat().st_size for file in home.path.rglob("*") if file.is_file())


def test_streams_are_counted_by_state_and_unreadable_journals_are_named(filled: Filled) -> None:
    filled.run("open", status=None)
    filled.run("ended")
    with Journal(filled.run("pruned")) as journal:
        journal.prune("pruned")
    (filled.home.runs / "torn.db").write_bytes(b"nothing" * 900)
    found = streams(filled.home)
    assert (found.journals, found.streams, found.sealed, found.pruned) == (3, 3, 2, 1)
    assert found.unreadable == ["runs/torn.db"]


# --- doctor ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "me").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("TRACEDESK_PORT", "0")
    monkeypatch.setattr(selftest, "self_test", lambda: (3, 0.1))


def _of(home: Home, check: str) -> list[Finding]:
    return [finding for finding in examine(home.path) if finding.check == check]


def test_doctor_says_what_takes_the_space_and_how_the_journals_stand(filled: Filled) -> None:
    filled.run("r1")
    filled.payload(b"p" * 2_000)
    (disk,) = _of(filled.home, "disk")
    assert "payloads 2.0 KB" in disk.detail
    assert disk.figures is not None
    assert disk.figures["kinds"]["payloads"] == 2_000
    assert {"free", "total", "wal"} <= disk.figures.keys()
    (journals,) = _of(filled.home, "journals")
    assert journals.detail.startswith("1 streams in 1 files, 1 sealed, 0 pruned; write-ahead logs")
    assert journals.document()["figures"]["sealed"] == 1


def _always(value: object, *_: object) -> object:
    return value


def test_doctor_warns_below_a_gibibyte_free(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(filled.home.path)
    for free, status in ((1 << 30, "ok"), ((1 << 30) - 1, "warn"), (1_000_000, "fail")):
        monkeypatch.setattr(health.shutil, "disk_usage", partial(_always, usage._replace(free=free)))
        assert [finding.status for finding in _of(filled.home, "disk")] == [status]


def test_doctor_finds_a_journal_that_cannot_be_read(filled: Filled) -> None:
    filled.home.trace.write_bytes(b"nothing" * 900)
    (journals,) = _of(filled.home, "journals")
    assert (journals.status, "not readable: trace.db" in journals.detail) == ("fail", True)


@pytest.mark.parametrize(
    ("text", "status", "detail"),
    [
        (f'{{"format": {FORMAT}, "createdAt": "", "writtenBy": "x"}}', "ok", f"private, format {FORMAT}"),
        ('{"format": 9, "createdAt": "", "writtenBy": "x"}', "fail", "has format 9; this tracedesk knows"),
        (None, "ok", f"format 0, which the next serve brings to {FORMAT}"),
        ("{", "fail", "is damaged"),
    ],
)
def test_doctor_says_the_format_and_whether_it_fits(
    tmp_path: Path, text: str | None, status: str, detail: str
) -> None:
    home = Home(tmp_path / "home")
    home.path.mkdir(mode=0o700)
    if text is not None:
        (home.path / "format.json").write_text(text)
    (found,) = _of(home, "home")
    assert found.status == status
    assert detail in found.detail
