"""What a recorder refuses, and what becomes of a run whose closing, process or disk fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backtest.streams import START_NS
from tests.backtest.test_recorder import BOUND, EVENT, entry, stored
from tests.support import ROOT
from tracedesk.backtest import Recorder, RecordingError, native, runs
from tracedesk.catalog import Catalog
from tracedesk.home import Home
from tracedesk.journal import Journal
from tracedesk.journal.sqlite import connect
from tracedesk.primitives import json


def nested(depth: int) -> dict[str, Any]:
    """So many objects within one another."""
    inner: dict[str, Any] = {}
    for _ in range(depth - 1):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"severity": 7}, "Warning"),
        ({"severity": 0}, "Warning"),
        ({"category": 99}, "Execution"),
        ({"parent": 1.0}, "parent: 1.0 is no seq"),
        ({"parent": True}, "parent: True is no seq"),
        ({"parent": "1"}, "parent: '1' is no seq"),
        ({"faults": [{"x": 1}]}, "faults"),
        ({"faults": ["wrong"]}, "faults"),
        ({"faults": [{"Field": "a", "Error": "b", "Severity": "Grave"}]}, "Error or Warning"),
        ({"faults": [{"Field": "a", "Error": 1, "Severity": "Error"}]}, "texts"),
        ({"properties": nested(101)}, "deeper than 64"),
        ({"properties": {"a": [nested(63)]}}, "deeper than 64"),
    ],
)
def test_what_would_break_the_recording_or_its_answers_is_refused_at_once_and_costs_no_seq(
    tmp_path: Path, wrong: dict[str, Any], told: str
) -> None:
    with Recorder(tmp_path, "x") as run:
        right: dict[str, Any] = {"type": "RiskEvent", "time": START_NS, "properties": EVENT}
        assert run.emit(**right) == 1
        with pytest.raises(ValueError, match=told):
            run.emit(**{**right, **wrong})
        assert run.emit(**right) == 2
    assert entry(tmp_path, run.run_id).status == "ended"


def test_properties_of_the_greatest_depth_and_a_parent_of_numpy_are_recorded(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as run:
        first = run.emit("RiskEvent", START_NS, nested(64))
        run.emit("RiskEvent", START_NS, {"a": [nested(62)]}, parent=np.int64(first))  # pyright: ignore[reportArgumentType]
    assert [(event[3], event[4]) for event in stored(run.path)] == [
        (nested(64), None),
        ({"a": [nested(62)]}, 1),
    ]


GUID = "0d9c6e2a-7c1b-4f6e-9a53-1f2e3d4c5b6a"


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("batch", [1, 100])
def test_an_id_that_an_event_has_already_is_a_fault_of_the_next_that_brings_it(
    tmp_path: Path, fast: bool, batch: int
) -> None:
    with Recorder(tmp_path, "x", fast=fast, batch=batch) as run:
        fault = {"Field": "a", "Error": "b", "Severity": "Warning"}
        ids = [GUID, None, GUID.upper(), run.event_id(9), run.event_id(5)]
        for number, guid in enumerate(ids, 1):
            run.emit("RiskEvent", START_NS, EVENT, guid=guid, faults=[fault] if number == 3 else None)
            if batch == 1:
                run.flush()
    with closing(connect(run.path, read_only=True)) as connection:
        native.attach(connection)
        guids = [guid for (guid,) in connection.execute("SELECT guid FROM fact ORDER BY event")]
        found = {seq & 0xFF: json.loads(list_) for seq, list_ in connection.execute("SELECT * FROM fault")}
    assert guids == [bytes.fromhex(GUID.replace("-", "")), None, None, None, None]
    assert {seq: [one["Field"] for one in faults] for seq, faults in found.items()} == {
        3: ["a", "EventId"],
        4: ["EventId"],
    }
    assert f"{GUID} is the id of event 1 already" in found[3][1]["Error"]
    assert "is the id of event 9 already" in found[4][0]["Error"]


FORK = """
import os, sys, time
from tracedesk.backtest import Recorder, RecordingError
with Recorder(sys.argv[1], "x") as run:
    first = run.risk(1, "before")
    child = os.fork()
    if child == 0:
        try:
            run.risk(2, "in the fork")
        except RecordingError as problem:
            print(problem, flush=True)
            os._exit(7)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    run.risk(3, "after")
    run.flush()
print(code, run.durable)
"""


def test_an_event_in_a_fork_of_the_recording_process_is_refused_and_not_lost_silently(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=BOUND
    )
    assert done.returncode == 0, done.stderr
    told, figures = done.stdout.splitlines()
    assert "make one after the fork" in told
    assert figures == "7 2"


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("place", ["seal", "close", "register"])
def test_closing_that_was_interrupted_is_completed_by_closing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, fast: bool
) -> None:
    run = Recorder(tmp_path, "x", fast=fast)
    run.emit("RiskEvent", START_NS, EVENT)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    owner, name = {
        "seal": (runs, "seal"),
        "close": (Journal, "close"),
        "register": (runs, "register"),
    }[place]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.close()
    with pytest.raises(RecordingError, match="closed"):
        run.emit("RiskEvent", START_NS, EVENT)
    run.close()
    run.close()
    found = entry(tmp_path, run.run_id)
    assert (found.status, found.events) == ("ended", 1)


def test_an_interrupt_while_closing_waits_for_the_writer_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorder(tmp_path, "x")
    wait = threading.Condition.wait
    caller = threading.current_thread()

    def interrupted(self: threading.Condition, timeout: float | None = None) -> bool:
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        return wait(self, timeout)

    with closing(connect(run.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(5_000):
            run.emit("RiskEvent", START_NS, EVENT)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Condition, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run.close()
        other.execute("COMMIT")
    run.close()
    found = entry(tmp_path, run.run_id)
    assert (found.status, found.events) == ("ended", 5_000)


def test_another_run_beside_a_run_has_its_home_and_engine_and_names_it_as_its_parent(tmp_path: Path) -> None:
    with Recorder(tmp_path, "sweep", engine="mine 1", config={"cash": 5, "fast": 1}) as first:
        with first.another("10/30", {"fast": 10}) as other:
            other.risk(1, "in the other")
        first.risk(2, "in the first")
    one, two = entry(tmp_path, first.run_id), entry(tmp_path, other.run_id)
    assert (one.events, two.events, two.status) == (1, 1, "ended")
    assert (two.meta["name"], two.meta["engine"]) == ("sweep 10/30", "mine 1")
    assert two.meta["config"] == {"cash": 5, "fast": 10}
    assert two.meta["parentRun"] == first.run_id


def test_a_batch_of_no_events_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch"):
        Recorder(tmp_path, "x", batch=0)
    assert not list(tmp_path.rglob("*.db"))


FULL = """
import resource, signal, sys
from tracedesk.backtest import Recorder, RecordingError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
run = Recorder(sys.argv[1], "x", batch=100)
emitted = 0
limit(1_000_000)
try:
    with run:
        try:
            while emitted < 200_000:
                run.risk(emitted, "x" * 200)
                emitted += 1
                if emitted == 1_000:
                    run.flush()
        finally:
            limit(4_096)
except RecordingError as problem:
    print(problem, *problem.__notes__, sep="\\n")
limit(resource.RLIM_INFINITY)
run.close("crashed")
print(emitted, run.durable)
"""


def test_a_full_disk_is_told_by_its_own_name_with_what_was_kept_and_closing_again_completes_the_run(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=BOUND
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, note, figures = done.stdout.splitlines()
    emitted, durable = map(int, figures.split())
    assert 1_000 <= durable < emitted < 200_000
    assert "can take no more events: IOError: disk I/O error" in first
    assert f"; {durable} of its {emitted} events are on the disk" in first
    assert note.startswith("the run could not be sealed: IOError: disk I/O error; ")
    assert str(tmp_path) in note
    (found,) = list((tmp_path / "runs").glob("*.db"))
    settled = entry(tmp_path, found.stem)
    assert (settled.status, settled.events, settled.meta["notRecorded"]) == (
        "crashed",
        durable,
        emitted - durable,
    )


def test_many_threads_that_prepare_a_new_catalog_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    def prepare(home: Home, start: threading.Barrier, problems: list[BaseException]) -> None:
        start.wait(BOUND)
        try:
            for _ in range(3):
                with Catalog(home) as catalog:
                    catalog.list()
        except BaseException as problem:
            problems.append(problem)

    for number in range(60):
        home, start, problems = Home.open(tmp_path / str(number)), threading.Barrier(4), list[BaseException]()
        threads = [threading.Thread(target=prepare, args=(home, start, problems)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
        assert problems == []
