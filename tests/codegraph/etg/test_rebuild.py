"""Projections made anew: whoever comes next goes on where another stopped, and nothing is logged twice."""

from __future__ import annotations

import random

import pytest

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tests.codegraph.etg.rows import tables
from tracedesk.codegraph.etg import rebuild, schema
from tracedesk.codegraph.etg.model import NewEvent
from tracedesk.journal import Journal, verify


def _thirty(bench: Bench) -> None:
    for n in range(30):
        payload = {"message": f"step {n}", "graph_version": "v", "files": [f"{n}.py"]}
        bench.log(f"a{n % 4}", "checkpoint", payload, timestamp_ns=NOON + n * SECOND, event_id=str(n))


def _stopped_halfway(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rebuild that was killed leaves."""
    monkeypatch.setattr(rebuild, "_EVENTS", 7)
    with Journal(bench.path, bench.clock) as journal, journal.connection:
        schema.empty(journal.connection)
        rebuild.fill(journal.connection, 1)


def test_one_who_logs_finishes_a_rebuild_that_was_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _thirty(bench)
    before = tables(bench.path)
    _stopped_halfway(bench, monkeypatch)
    assert bench.log("a2", "checkpoint", event_id="22").duplicate, (
        "it is known although it was not filled in yet"
    )
    assert tables(bench.path) == before


def test_one_who_reads_finishes_a_rebuild_that_was_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _thirty(bench)
    before = bench.view("a3")
    _stopped_halfway(bench, monkeypatch)
    assert bench.view("a3") == before


def test_tables_of_another_format_are_made_anew(bench: Bench) -> None:
    _thirty(bench)
    before = tables(bench.path)
    bench.etg.close()
    with Journal(bench.path, bench.clock) as journal:
        journal.connection.execute("UPDATE etg_meta SET value = '0' WHERE key = 'format'")
        journal.connection.execute("DROP TABLE attempt_file")
    assert len(bench.view("a0").events) == 8
    assert tables(bench.path) == before
    assert verify(bench.path).is_sound


def test_events_that_a_desk_without_marks_has_taken_in_are_taken_in_once(bench: Bench) -> None:
    _thirty(bench)
    before = tables(bench.path)
    with Journal(bench.path, bench.clock) as journal:
        journal.connection.execute("UPDATE etg_mark SET seq = seq - 5")
    assert bench.log("a2", "checkpoint", event_id="22").duplicate
    assert tables(bench.path) == before
    bench.etg.rebuild()
    assert tables(bench.path) == before


def test_a_trace_of_calls_alone_gets_its_tables(bench: Bench) -> None:
    Journal(bench.path, bench.clock).close()
    assert bench.find("a") is None


def test_very_many_late_starts_and_ends_of_one_batch_are_paired_once(bench: Bench) -> None:
    events = [
        NewEvent(
            "a",
            kind,
            {"tool": "shell", "arguments": {"n": n}, "status": "ok"},
            timestamp_ns=NOON + (2 * n + (kind == "tool_end")) * SECOND,
        )
        for n in range(600)
        for kind in ("tool_start", "tool_end")
    ]
    random.Random(1).shuffle(events)
    bench.etg.log_many(events)
    assert bench.rows("SELECT pairing, count(*) FROM tool_call GROUP BY 1") == [("inferred", 600)]
