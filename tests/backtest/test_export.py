"""Export: the same run gives the same bytes, whole or not at all, and they mean the same elsewhere."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backtest.files import exported, objects, opened, write
from tests.backtest.streams import causal
from tests.support import ROOT
from tracedesk.backtest import export
from tracedesk.backtest.importing import import_file
from tracedesk.backtest.parquet import ParquetMissing
from tracedesk.backtest.parquet import keep as keep_parquet
from tracedesk.backtest.recorder import Recorder
from tracedesk.home import Home
from tracedesk.primitives import json


def record(recorder: Recorder, count: int = 300) -> None:
    for sample in causal(count):
        recorder.emit(sample.type, sample.time_ns, sample.properties, parent=sample.parent)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


@pytest.fixture
def run(home: Home) -> str:
    """A recorded run with an odd event at its end."""
    with Recorder(home, "recorded") as recorder:
        record(recorder)
        recorder.emit("StateChange", 0, b'{"a":', category="Portfolio", severity="Debug")
        return recorder.run_id


def test_a_recorded_run_has_the_same_lines_in_another_home(tmp_path: Path, home: Home, run: str) -> None:
    found = exported(home, run)
    assert len(found) == 301
    other = Home.open(tmp_path / "other")
    import_file(other, write(tmp_path / "run.jsonl", found))
    assert exported(other, run) == found


def test_a_line_has_the_contracts_members_in_the_contracts_order(home: Home, run: str) -> None:
    first = json.loads(exported(home, run)[3])
    members = "eventId runId timestamp eventType severity category properties parentEventId validationErrors"
    assert list(first) == members.split()
    assert first["runId"] == run
    assert first["parentEventId"] == objects(home, run)[2]["eventId"]


def test_a_finer_category_keeps_its_name(home: Home, run: str) -> None:
    assert objects(home, run)[-1]["category"] == "Portfolio"


@pytest.mark.parametrize("fast", [False, True])
def test_a_running_run_is_exported_as_far_as_it_is_recorded(home: Home, fast: bool) -> None:
    with Recorder(home, "running", fast=fast) as recorder:
        record(recorder, 50)
        recorder.flush()
        early = exported(home, recorder.run_id)
        record(recorder, 50)
        recorder.flush()
        later = exported(home, recorder.run_id)
    assert len(early) == 50
    assert (later[:50], len(later)) == (early, 100)
    assert exported(home, recorder.run_id) == later


def test_a_packed_export_is_the_same_each_time(tmp_path: Path, home: Home, run: str) -> None:
    files = [tmp_path / f"{n}.jsonl.gz" for n in (1, 2)]
    for file in files:
        with opened(home, run) as recording:
            assert export.keep(export.jsonl(recording), file) == 301
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes()[4:8] == bytes(4), "no time in its header"
    assert gzip.decompress(files[0].read_bytes()) == b"".join(exported(home, run))


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    out.write_bytes(b"before\n")

    def broken() -> Iterator[bytes]:
        yield b"half\n"
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError):
        export.keep(broken(), out)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"run.jsonl": b"before\n"}


def test_parquet_without_its_library_says_what_to_install(
    tmp_path: Path, home: Home, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with opened(home, run) as recording, pytest.raises(ParquetMissing, match=r"tracedesk\[parquet\]"):
        keep_parquet(recording, tmp_path / "run.parquet")
    assert not (tmp_path / "run.parquet").exists()


_READ = """
import json, sys
import pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
rows = table.to_pylist()
for row in rows:
    del row["timestamp"]
times = table.column("timestamp").cast("int64").to_pylist()
facts = json.loads(table.schema.metadata[b"tracedesk"])
print(json.dumps({"rows": rows, "times": times, "facts": facts}))
"""


@pytest.mark.judge
def test_a_parquet_file_read_by_pyarrow_holds_the_events_with_every_digit(
    tmp_path: Path, home: Home, run: str
) -> None:
    from tests.judges.install import PARQUET

    out = tmp_path / "run.parquet"
    environment = {
        **os.environ,
        "PYTHONPATH": str(PARQUET.require("packages")),
        "TRACEDESK_HOME": str(home.path),
    }
    command = [sys.executable, "-m", "tracedesk.cli", "backtest", "export", run]
    subprocess.run(
        [*command, "--format", "parquet", "--out", str(out)],
        env=environment,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    read = subprocess.run(
        [sys.executable, "-c", _READ, str(out)], env=environment, capture_output=True, check=True, timeout=60
    )
    found = json.loads(read.stdout)
    wanted = objects(home, run)
    assert found["facts"]["runId"] == run
    assert [row["eventId"] for row in found["rows"]] == [one["eventId"] for one in wanted]
    assert [row["parentEventId"] for row in found["rows"]] == [one["parentEventId"] for one in wanted]
    for row, one in zip(found["rows"], wanted, strict=True):
        assert json.loads(row["properties"]) == one["properties"]
        assert row["symbol"] == one["properties"].get("SecuritySymbol")
        names = ("eventType", "severity", "category")
        assert [row[name] for name in names] == [one[name] for name in names]
    with opened(home, run) as recording:
        rows = recording.connection.execute("SELECT time_ns FROM event ORDER BY id")
        assert found["times"] == [ns for (ns,) in rows]
