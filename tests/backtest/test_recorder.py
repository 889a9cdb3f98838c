"""The recorder: what was acknowledged is there, whatever threads, crashes and kills do."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from scripts.proof.record import Recorder as Proofs
from tests.backtest.streams import START_NS, causal, record
from tests.backtest.test_projection import tables
from tests.judges.size import Size
from tests.support import ROOT
from tracedesk.backtest import Recorder, RecordingError, native, recorder, runs, schema
from tracedesk.backtest.bodies import nanoseconds
from tracedesk.backtest.model import EventType
from tracedesk.catalog import Catalog
from tracedesk.home import Home
from tracedesk.journal import Journal, Reader, verify
from tracedesk.journal.sqlite import connect
from tracedesk.primitives import json
from tracedesk.primitives.ids import uuid7
from tracedesk.primitives.time import ManualClock
from tracedesk.prune import plan, prune

BOUND = 30.0
EVENT = {"RiskType": "x"}


def entry(home: Path, run: str) -> Any:
    with Catalog(Home.open(home)) as catalog:
        return catalog.get(run)


def stored(path: Path) -> list[Any]:
    """The journal's events, exactly parsed."""
    with Reader(path) as reader:
        name = reader.streams()[0].name
        return [(e.seq, e.kind, e.time_ns, json.loads(e.body), e.parent) for e in reader.events(name)]


def projected(path: Path) -> dict[str, Any]:
    with closing(connect(path, read_only=True)) as connection:
        native.attach(connection)
        return tables(connection)


def test_a_run_is_there_with_everything_once_the_block_ends(tmp_path: Path) -> None:
    samples = list(causal(2_500))
    clock = ManualClock(START_NS)
    with Recorder(tmp_path, "sma", engine="mine", config={"period": 10, "fee": 0.1}, clock=clock) as run:
        record(run, samples)
        clock.advance(60)
    assert stored(run.path) == [
        (seq, s.type.name, s.time_ns, s.properties, s.parent) for seq, s in enumerate(samples, 1)
    ]
    assert verify(run.path).faults == []
    found = entry(tmp_path, run.run_id)
    assert (found.name, found.kind, found.status, found.events) == ("sma", "mine", "ended", 2_500)
    assert (found.created_ns, found.ended_ns) == (START_NS, START_NS + 60 * 10**9)
    assert found.meta["config"] == {"period": 10, "fee": Decimal("0.1")}
    assert found.meta["configHash"] == runs.config_hash({"fee": Decimal("0.1"), "period": 10})
    assert len(found.meta["configHash"]) == 64


def test_seqs_come_at_once_and_are_durable_after_a_flush(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x", batch=10_000, seconds=3_600) as run:
        seqs = [run.emit("RiskEvent", START_NS + n, EVENT) for n in range(5)]
        assert seqs == [1, 2, 3, 4, 5]
        assert stored(run.path) == []
        assert run.durable == 0
        assert run.flush() == 5
        assert run.durable == 5
        assert len(stored(run.path)) == 5


def test_events_that_nobody_flushes_reach_the_disk_by_themselves(tmp_path: Path) -> None:
    arrived = threading.Event()

    class Watched(Recorder):
        def _append(self, taken: Any) -> None:
            super()._append(taken)
            arrived.set()

    with Watched(tmp_path, "x", batch=10_000, seconds=0.01) as run:
        run.emit("RiskEvent", START_NS, EVENT)
        assert arrived.wait(BOUND)
        assert len(stored(run.path)) == 1


def test_a_failing_backtest_leaves_a_crashed_run_with_its_traceback(tmp_path: Path) -> None:
    run = Recorder(tmp_path, "x")

    def backtest() -> None:
        with run:
            run.emit("RiskEvent", START_NS, EVENT)
            raise ZeroDivisionError("no volume")

    with pytest.raises(ZeroDivisionError):
        backtest()
    found = entry(tmp_path, run.run_id)
    assert (found.status, found.events) == ("crashed", 1)
    assert found.meta["error"] == "ZeroDivisionError: no volume"
    assert "test_recorder.py" in found.meta["traceback"]
    with Reader(run.path) as reader:
        seal = reader.seal(run.run_id)
    assert seal is not None
    assert 'raise ZeroDivisionError("no volume")' in seal.manifest["traceback"]


def test_a_closed_run_takes_nothing_more_and_closes_once(tmp_path: Path) -> None:
    run = Recorder(tmp_path, "x")
    run.close()
    run.close()
    with pytest.raises(RecordingError, match="closed"):
        run.emit("RiskEvent", START_NS, EVENT)
    with pytest.raises(RecordingError, match="closed"):
        run.flush()


@pytest.mark.parametrize("parent", [0, -1, 2, 99])
def test_a_parent_must_be_an_earlier_event(tmp_path: Path, parent: int) -> None:
    with Recorder(tmp_path, "x") as run:
        run.emit("RiskEvent", START_NS, EVENT)
        with pytest.raises(ValueError, match="parent"):
            run.emit("RiskEvent", START_NS, EVENT, parent=parent)
        assert run.emit("RiskEvent", START_NS, EVENT, parent=1) == 2


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"type": "Trade"}, "TradeExecution"),
        ({"time": 1.5}, "not exact"),
        ({"time": "yesterday"}, "not a time"),
        ({"time": 2**63}, "64-bit"),
        ({"properties": {"a": float("nan")}}, "nan"),
        ({"properties": {"a": Decimal("NaN")}}, "NaN"),
        ({"properties": {"a": Decimal("1E+9999")}}, "6144"),
        ({"properties": {"a": object()}}, "object"),
        ({"severity": "Fatal"}, "Warning"),
        ({"category": "Fun"}, "Execution"),
        ({"guid": "7"}, "UUID"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_a_remedy_and_costs_no_seq(
    tmp_path: Path, wrong: dict[str, Any], told: str
) -> None:
    with Recorder(tmp_path, "x") as run:
        right: dict[str, Any] = {"type": "RiskEvent", "time": START_NS, "properties": EVENT}
        with pytest.raises((ValueError, TypeError), match=told):
            run.emit(**{**right, **wrong})
        assert run.emit(**right) == 1
    assert entry(tmp_path, run.run_id).status == "ended"


def test_numbers_keep_their_digits(tmp_path: Path) -> None:
    row = {
        "a": Decimal("175.50"),
        "b": Decimal("0.123456789012345678"),
        "c": 2**80,
        "d": 0.1,
        "e": Decimal("1E-9"),
    }
    with Recorder(tmp_path, "x") as run:
        run.emit("RiskEvent", START_NS, row)
        run.emit("RiskEvent", START_NS, b'{ "a": 175.50, "n": {"b": 1.000} }')
    with Reader(run.path) as reader:
        bodies = [event.body for event in reader.events(run.run_id)]
    assert bodies == [
        b'{"a":175.50,"b":0.123456789012345678,"c":1208925819614629174706176,"d":0.1,"e":0.000000001}',
        b'{"a":175.50,"n":{"b":1.000}}',
    ]


def test_later_changes_of_the_caller_s_objects_change_nothing(tmp_path: Path) -> None:
    row: dict[str, Any] = {"RiskType": "x", "deep": {"n": [1]}}
    flat = {"RiskType": "x", "SecuritySymbol": "AAPL"}
    with Recorder(tmp_path, "x", batch=10_000, seconds=3_600) as run:
        run.emit("RiskEvent", START_NS, row)
        run.emit("OrderCancelled", START_NS, flat)
        flat["SecuritySymbol"] = "MSFT"
        row["deep"]["n"].append(2)
        row["RiskType"] = 5
    assert stored(run.path)[0][3] == {"RiskType": "x", "deep": {"n": [1]}}
    found = projected(run.path)
    assert [p[1] for p in found["path"] if p[0] == EventType.RiskEvent] == [
        "$.RiskType",
        "$.deep",
        "$.deep.n",
    ]
    assert found["fact"][1][6] == (1, "AAPL")


class Side(Enum):
    BUY = "Buy"


def test_values_of_engines_become_json_s_own(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "price": np.float64(1.5),
        "size": np.int64(7),
        "side": Side.BUY,
        "at": datetime(2024, 1, 2, tzinfo=UTC),
    }
    row |= {"id": UUID(int=5), "pair": (1, 2), "flag": np.bool_(True)}
    with Recorder(tmp_path, "x") as run:
        run.emit("RiskEvent", START_NS, row)
    assert stored(run.path)[0][3] == {
        "price": Decimal("1.5"),
        "size": 7,
        "side": "Buy",
        "at": "2024-01-02T00:00:00Z",
        "id": str(UUID(int=5)),
        "pair": [1, 2],
        "flag": True,
    }


@pytest.mark.parametrize(
    "moment",
    [
        START_NS,
        "2024-01-02T14:30:00Z",
        "2024-01-02T09:30:00-05:00",
        datetime(2024, 1, 2, 14, 30),
        datetime(2024, 1, 2, 9, 30, tzinfo=timezone(timedelta(hours=-5))),
        np.datetime64("2024-01-02T14:30:00"),
        np.int64(START_NS),
    ],
)
def test_a_time_may_be_given_in_any_exact_form(moment: Any) -> None:
    assert nanoseconds(moment) == START_NS
    assert nanoseconds(date(2024, 1, 2)) == START_NS - (14 * 60 + 30) * 60 * 10**9


def test_malformed_properties_are_kept_with_an_error(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as run:
        for text in (b'{"a":', b"[1]", b'{"a":1,"a":2}', b"\xff"):
            run.emit("TradeExecution", START_NS, text)
    assert [row[3] for row in stored(run.path)] == [
        {"_raw": '{"a":'},
        {"_raw": "[1]"},
        {"_raw": '{"a":1,"a":2}'},
        {"_raw": "\\xff"},
    ]
    found = projected(run.path)
    assert [fact[11] for fact in found["fact"]] == [2, 2, 2, 2]
    assert [json.loads(faults)[0]["Error"] for _, faults in found["fault"]] == ["Malformed JSON"] * 4


def test_events_outside_the_run_s_time_and_too_large_ones_are_kept_and_marked(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x", start=START_NS, end=START_NS + 10) as run:
        for time in (START_NS - 1, START_NS, START_NS + 10, START_NS + 11):
            run.emit("RiskEvent", time, EVENT)
        run.emit("RiskEvent", START_NS, {**EVENT, "blob": "x" * 1_000_000})
    faults = {
        event & 0xFF: [f["Error"] for f in json.loads(found)] for event, found in projected(run.path)["fault"]
    }
    assert faults == {
        1: ["Outside the run's time range"],
        4: ["Outside the run's time range"],
        5: ["Larger than 1 MB"],
    }


def test_the_helpers_record_the_properties_of_the_contract(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as run:
        bar = run.market_data(START_NS, "AAPL", {"Close": 1})
        sma = run.indicator(
            START_NS, "SMA", Decimal("1.5"), symbol="AAPL", parameters={"Period": 10}, parent=bar
        )
        order = run.order_placed(START_NS, "o1", "AAPL", "Buy", 100, price=2, parent=sma)
        fill = run.trade(START_NS, "o1", "AAPL", "Buy", 100, 2, commission=Decimal("1.00"), parent=order)
        run.position(START_NS, "AAPL", 100, 2, unrealized=0, realized=0, parent=fill)
        run.order_rejected(START_NS, "o2", "margin", symbol="AAPL", quantity=5, parent=sma)
        run.order_cancelled(START_NS, "o3", reason="expired")
        run.state_change(START_NS, "PnL", 1, 2, reason="fill", parent=fill)
        run.risk(START_NS, "MaxLoss", threshold=5, current=6, action="halt")
    found = stored(run.path)
    assert [(kind, parent) for _, kind, _, _, parent in found] == [
        ("MarketDataEvent", None),
        ("IndicatorCalculation", bar),
        ("OrderPlaced", sma),
        ("TradeExecution", order),
        ("PositionUpdate", fill),
        ("OrderRejection", sma),
        ("OrderCancelled", None),
        ("StateChange", fill),
        ("RiskEvent", None),
    ]
    assert found[3][3] == {
        "OrderId": "o1",
        "SecuritySymbol": "AAPL",
        "Direction": "Buy",
        "Quantity": 100,
        "Price": 2,
        "Commission": Decimal("1.00"),
    }
    assert found[5][3] == {
        "OrderId": "o2",
        "SecuritySymbol": "AAPL",
        "RejectionReason": "margin",
        "RequestedQuantity": 5,
    }
    assert projected(run.path)["fault"] == []


# --- threads


def test_eight_threads_on_one_recorder_lose_nothing_and_keep_their_own_order(tmp_path: Path) -> None:
    each = 2_000
    seqs: list[list[int]] = [[] for _ in range(8)]

    def work(thread: int) -> None:
        last = None
        for n in range(each):
            last = run.emit("RiskEvent", START_NS + n, {"RiskType": f"t{thread}", "n": n}, parent=last)
            seqs[thread].append(last)

    with Recorder(tmp_path, "x", batch=100) as run:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
    assert sorted(seq for own in seqs for seq in own) == list(range(1, 8 * each + 1))
    found = stored(run.path)
    for thread, own in enumerate(seqs):
        assert [found[seq - 1][3] for seq in own] == [{"RiskType": f"t{thread}", "n": n} for n in range(each)]
        assert [found[seq - 1][4] for seq in own] == [None, *own[:-1]]
    assert verify(run.path).faults == []


def test_a_slow_disk_makes_emit_wait_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MOST_WAITING", 50)
    gate = threading.Event()
    most = 0

    class Slow(Recorder):
        def _append(self, taken: Any) -> None:
            assert gate.wait(BOUND)
            super()._append(taken)

    with Slow(tmp_path, "x", batch=10) as run:
        emitter = threading.Thread(target=lambda: record(run, causal(500)))
        emitter.start()
        emitter.join(0.2)
        assert emitter.is_alive(), "it waits for the disk"
        most = run._scribe.waiting  # pyright: ignore[reportPrivateUsage]
        gate.set()
        emitter.join(BOUND)
        assert not emitter.is_alive()
    assert most <= 50
    assert len(stored(run.path)) == 500


def test_a_disk_that_fails_is_told_at_the_next_event_and_the_run_is_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorder(tmp_path, "x")
    run.emit("RiskEvent", START_NS, EVENT)
    run.flush()

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Journal, "_appended", full)
    run.emit("RiskEvent", START_NS, EVENT)
    with pytest.raises(RecordingError, match="no space left"):
        run.flush()
    with pytest.raises(RecordingError, match="no space left"):
        run.emit("RiskEvent", START_NS, EVENT)
    with pytest.raises(RecordingError, match="no space left"):
        run.close()
    found = entry(tmp_path, run.run_id)
    assert (found.status, found.events, found.meta["notRecorded"]) == ("crashed", 1, 1)


# --- other processes


def test_another_process_reads_a_running_run(tmp_path: Path) -> None:
    code = """
import sys
from tests.backtest.test_recorder import Path, projected
print(len(projected(Path(sys.argv[1]))["fact"]))
"""
    with Recorder(tmp_path, "x") as run:
        record(run, causal(300))
        run.flush()
        done = subprocess.run(
            [sys.executable, "-c", code, str(run.path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=True,
        )
        assert done.stdout == "300\n"
        assert entry(tmp_path, run.run_id).status == "running"
        assert runs.settle(Home.open(tmp_path)) == runs.Settled(), "its recorder lives"


def _kill(home: Path, run: str, mode: str, seconds: float, flushes: int) -> int:
    """Let a recorder live for some flushes and a moment more; returns what it acknowledged."""
    command = [sys.executable, "-m", "tests.backtest.victim", str(home), run, mode]
    acknowledged = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        for line in islice(victim.stdout, flushes):
            acknowledged = int(line)
        killer = threading.Timer(seconds, victim.kill)
        killer.start()
        for line in victim.stdout:
            acknowledged = int(line) if line.endswith("\n") else acknowledged
        killer.join()
    return acknowledged


def _kills(tmp_path: Path, modes: Iterable[str], seed: int) -> None:
    dice = random.Random(seed)
    home = Home.open(tmp_path)
    expected = list(causal(20_000))
    for mode in modes:
        run = uuid7()
        acknowledged = _kill(tmp_path, run, mode, dice.uniform(0, 0.05), dice.randint(1, 20))
        assert entry(tmp_path, run).status == "running"
        settled = runs.settle(home)
        assert settled.crashed == (run,)
        assert settled.indexed == ((run,) if mode == "fast" else ())
        found = stored(home.run_file(run))
        assert 97 <= acknowledged <= len(found)
        assert [row[3] for row in found] == [s.properties for s in expected[: len(found)]]
        assert verify(home.run_file(run)).faults == []
        crashed = entry(tmp_path, run)
        assert (crashed.status, crashed.events, crashed.meta["reason"]) == ("crashed", len(found), runs.DIED)
        _check_tables(home, run)
        assert runs.settle(home) == runs.Settled(), "once is enough"


def _check_tables(home: Home, run: str) -> None:
    while_recording = projected(home.run_file(run))
    with Journal(home.run_file(run)) as journal:
        runs.index(journal, journal.open(run, "backtest"))
    assert projected(home.run_file(run)) == while_recording


def test_killed_recorders_lose_nothing_acknowledged_and_are_settled_as_crashed(tmp_path: Path) -> None:
    _kills(tmp_path, ("live", "fast", "live", "fast"), 1)


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_many_killed_recorders_lose_nothing_acknowledged(tmp_path: Path, size: Size, prove: Proofs) -> None:
    pairs = size.of(judge=50, prove=200)
    _kills(tmp_path, ("live", "fast") * pairs, 2)
    prove.record("backtest-kills", 0, seeds=[2], details={"kills": 2 * pairs})


def test_the_next_recorder_of_a_home_settles_what_died_before(tmp_path: Path) -> None:
    run = uuid7()
    _kill(tmp_path, run, "live", 0, 1)
    with Recorder(tmp_path, "x") as mine:
        assert entry(tmp_path, run).status == "crashed"
        assert entry(tmp_path, mine.run_id).status == "running"


def test_a_process_that_never_closes_its_run_leaves_it_whole_and_crashed(tmp_path: Path) -> None:
    code = """
import sys
from tests.backtest.streams import Recorder, causal, record
run = Recorder(sys.argv[1], "x", seconds=3600)
record(run, causal(50))
print(run.run_id)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    found = entry(tmp_path, done.stdout.strip())
    assert (found.status, found.events) == ("crashed", 50)
    assert "never closed" in found.meta["reason"]


def test_two_settlers_do_not_meet(tmp_path: Path) -> None:
    run = uuid7()
    _kill(tmp_path, run, "fast", 0, 2)
    home = Home.open(tmp_path)
    settled: list[runs.Settled] = []
    threads = [threading.Thread(target=lambda: settled.append(runs.settle(home))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert [one.unreadable for one in settled] == [()] * 4
    assert sum(len(one.crashed) for one in settled) == 1
    _check_tables(home, run)


# --- fast runs


def test_a_fast_run_has_the_same_tables_once_it_is_closed(tmp_path: Path) -> None:
    samples = list(causal(9_000))
    with Recorder(tmp_path, "slow") as slow:
        record(slow, samples)
    with Recorder(tmp_path, "fast", fast=True) as fast:
        record(fast, samples)
        fast.flush()
        with Reader(fast.path) as reader:
            assert not schema.is_indexed(reader.connection)
            native.attach(reader.connection)
            assert list(reader.connection.execute("SELECT count(*) FROM fact")) == [(0,)]
    assert projected(fast.path) == projected(slow.path)
    with Reader(fast.path) as one, Reader(slow.path) as other:
        assert schema.is_indexed(one.connection)
        query = "SELECT name, sql FROM sqlite_master ORDER BY name"
        assert list(one.connection.execute(query)) == list(other.connection.execute(query))


def test_an_unfinished_build_is_done_again(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x", fast=True) as run:
        record(run, causal(500))
    before = projected(run.path)
    with Journal(run.path) as journal, journal.connection:
        journal.connection.execute("UPDATE recording SET indexed = 0, pid = 1, started = 'long ago'")
        journal.connection.execute("DELETE FROM text WHERE event % 2")
    assert runs.settle(Home.open(tmp_path)).indexed == (run.run_id,)
    assert projected(run.path) == before
    assert entry(tmp_path, run.run_id).status == "ended"


# --- around it


def test_a_run_id_may_be_chosen_once(tmp_path: Path) -> None:
    run = "A1B2C3D4-E5F6-7890-ABCD-EF1234567890"
    with Recorder(tmp_path, "x", run_id=run) as mine:
        assert mine.run_id == run.lower()
    with pytest.raises(ValueError, match="run_id"):
        Recorder(tmp_path, "x", run_id=run)


def test_the_default_home_is_the_environment_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEDESK_HOME", str(tmp_path / "mine"))
    with Recorder(name="x") as run:
        pass
    assert run.path.parent.parent == tmp_path / "mine"


def test_a_pruned_run_leaves_no_rows_behind(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as run:
        record(run, causal(9_000))
        run.emit("RiskEvent", START_NS, {}, guid=str(UUID(int=1)))
    home = Home.open(tmp_path)
    prune(home, plan(home))
    with Reader(run.path) as reader:
        kept = {"sqlite_sequence", "stream", "seal", "tombstone", "recording"}
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = {name for (name,) in reader.connection.execute(query)} - kept
        assert {"given", "text", "event"} < tables
        for table in tables:
            assert list(reader.connection.execute(f"SELECT count(*) FROM {table}")) == [(0,)], table
    assert entry(tmp_path, run.run_id).pruned


def test_what_was_given_beside_the_journal_is_bound_to_the_seal(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as run:
        run.emit("RiskEvent", START_NS, EVENT, severity="Error", category="Portfolio")
    with closing(connect(run.path)) as connection, connection:
        sealed = entry(tmp_path, run.run_id).meta["givenHash"]
        assert runs.given_hash(connection) == sealed
        connection.execute("UPDATE given SET severity = 4")
        assert runs.given_hash(connection) != sealed


def test_a_recorder_refuses_to_work_in_a_fork(tmp_path: Path) -> None:
    with Recorder(tmp_path, "x") as run:
        pid = run._pid  # pyright: ignore[reportPrivateUsage]
        run._pid = pid + 1  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(RecordingError, match="fork"):
            run.flush()
        run._pid = pid  # pyright: ignore[reportPrivateUsage]
        assert run.emit(EventType.RiskEvent, START_NS, EVENT) == 1
