"""The native part and Python: either writes runs that the other tells alike, whatever an engine emits."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.backtest.desks import agent
from tests.backtest.streams import START_NS, causal
from tests.backtest.test_recorder import projected, record
from tests.support import run
from tracedesk.backtest import Recorder, native, runs, schema
from tracedesk.backtest.bodies import DEEPEST, encode, plain
from tracedesk.backtest.model import EventType
from tracedesk.backtest.query import Recording
from tracedesk.backtest.schema import ORDER_TEXT, POSITION_TEXT, SYMBOL_TEXT
from tracedesk.home import Home
from tracedesk.journal import Journal, Reader, verify
from tracedesk.journal.sqlite import connect
from tracedesk.primitives.natively import SWITCH

pytestmark = pytest.mark.skipif(native.core() is None, reason="the native part is not installed")


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Where the native part is not there."""
    monkeypatch.setenv(SWITCH, "off")
    return monkeypatch


def version(path: Path) -> int:
    with closing(connect(path, read_only=True)) as connection:
        return schema.version(connection)


def test_either_way_a_run_has_the_same_journal_and_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = list(causal(9_000))
    with Recorder(tmp_path, "native") as one:
        record(one, samples)
    monkeypatch.setenv(SWITCH, "off")
    with Recorder(tmp_path, "python") as other:
        record(other, samples)
    monkeypatch.delenv(SWITCH)
    assert (version(one.path), version(other.path)) == (schema.PACKED, schema.ROWS)
    assert projected(one.path) == projected(other.path)
    assert verify(one.path).faults == []
    query = "SELECT id, kind, time_ns, parent, body FROM event ORDER BY id"
    with Reader(one.path) as mine, Reader(other.path) as theirs:
        assert list(mine.connection.execute(query)) == list(theirs.connection.execute(query))
        sealed, counted = mine.seal(one.run_id), theirs.seal(other.run_id)
    assert sealed is not None
    assert counted is not None
    for name in ("events", "firstTimeNs", "lastTimeNs", "counts"):
        assert sealed.manifest[name] == counted.manifest[name]


async def told(home: Path, run_id: str) -> list[Any]:
    """What a desk tells about a causal run."""
    async with agent(home) as desk:
        by_type = {"runId": run_id, "eventType": "TradeExecution", "pageSize": 50}
        about = {"runId": run_id, "entityType": "SecuritySymbol", "entityValue": "sym01", "format": "table"}
        by_order = {"runId": run_id, "entityType": "OrderId", "entityValue": causal_order()}
        at = {"runId": run_id, "timestamp": "2024-01-02T14:40:00Z"}
        return [
            (await desk.call("get_events_by_type", **by_type, pageIndex=3))["events"],
            (await desk.call("get_events_by_entity", **by_order))["events"],
            (await desk.call("get_events_by_entity", **about))["tables"],
            (await desk.call("get_state_snapshot", **at))["state"],
        ]


def test_a_packed_run_is_told_alike_by_a_desk_without_the_native_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recorder(tmp_path, "x") as rec:
        record(rec, causal(6_000))
    natively = run(told(tmp_path, rec.run_id))
    monkeypatch.setenv(SWITCH, "off")
    assert run(told(tmp_path, rec.run_id)) == natively
    assert len(natively[0]) == 50
    assert all(natively)


def causal_order() -> str:
    return next(sample.properties["OrderId"] for sample in causal(600) if "OrderId" in sample.properties)


def test_a_native_part_of_another_version_is_told_of_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "VERSION", "0.1.0")
    monkeypatch.setattr(native, "installed", native.installed.__wrapped__)
    with Recorder(tmp_path, "x") as rec:
        record(rec, causal(100))
    assert version(rec.path) == schema.ROWS
    assert "run `make setup`" in caplog.text


def test_every_text_is_found_among_many_and_no_other(tmp_path: Path) -> None:
    """So many that some are looked for in one place, and that they fill several shelves."""
    names = [f"{number:x}" for number in range(90_000)]
    with Recorder(tmp_path, "x") as rec:
        for name in names:
            rec.order_cancelled(START_NS, name)
        rec.order_cancelled(START_NS, "SYM", symbol="SYM")
    with Reader(rec.path) as reader:
        recording = Recording.of(reader, rec.run_id)
        assert recording is not None
        assert [recording.text(ORDER_TEXT, name) for name in names] == list(range(1, 90_001))
        both = [recording.text(kind, "SYM") for kind in (SYMBOL_TEXT, ORDER_TEXT)]
        assert both == [90_001, 90_002]
        assert {recording.text(kind, "0") for kind in (SYMBOL_TEXT, POSITION_TEXT)} == {None}
        assert all(recording.text(ORDER_TEXT, f"-{name}") is None for name in names[::100])


def test_a_run_of_the_first_packed_kind_is_told_alike(tmp_path: Path) -> None:
    """Those files had an index over their texts."""
    with Recorder(tmp_path, "x") as rec:
        record(rec, causal(6_000))
    now = run(told(tmp_path, rec.run_id))
    with Journal(rec.path) as journal:
        journal.connection.execute("DROP TABLE named; CREATE UNIQUE INDEX older ON text(kind, value)")
    assert run(told(tmp_path, rec.run_id)) == now


@pytest.mark.parametrize("begun", ["natively", "by Python"])
def test_a_dead_run_is_completed_by_a_desk_of_the_other_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    """A fast one, whose tables were never made."""
    if begun == "by Python":
        monkeypatch.setenv(SWITCH, "off")
    with Recorder(tmp_path, "x", fast=True) as rec:
        record(rec, causal(5_000))
    expected = projected(rec.path)
    with Journal(rec.path) as journal, journal.connection:
        journal.connection.execute("UPDATE recording SET indexed = 0, pid = 1, started = 'long ago'")
    if begun == "by Python":
        monkeypatch.delenv(SWITCH)
    else:
        monkeypatch.setenv(SWITCH, "off")
    assert runs.settle(Home.open(tmp_path)).indexed == (rec.run_id,)
    assert version(rec.path) == (schema.PACKED if begun == "by Python" else schema.ROWS)
    assert projected(rec.path) == expected


@pytest.mark.usefixtures("off")
def test_a_finished_packed_run_is_left_as_it_is_without_the_native_part(
    tmp_path: Path, off: pytest.MonkeyPatch
) -> None:
    off.delenv(SWITCH)
    with Recorder(tmp_path, "x") as rec:
        record(rec, causal(100))
    off.setenv(SWITCH, "off")
    assert runs.settle(Home.open(tmp_path)) == runs.Settled()
    assert version(rec.path) == schema.PACKED


# --- what is emitted


class Colour(Enum):
    """An enum's value is what is recorded."""

    red = "red"


class Named(str):
    """A text of a class of its own."""


def _values() -> st.SearchStrategy[Any]:
    plain = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.decimals(allow_nan=True, allow_infinity=True),
        st.decimals(-1000, 1000, places=3),
        st.text(),
        st.text(alphabet='\x00\x08\t\n\x0c\r\x1f"\\/\x7f\ud800é€😀a'),
        st.sampled_from(
            [Colour.red, Named("x"), Decimal("1E+5"), Decimal("-0"), Decimal("-0.00"), 1e16, -0.0]
        ),
    )
    names = st.one_of(st.text(max_size=3), st.integers(0, 2), st.just(Named("n")))
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(names, inner, max_size=3),
            st.tuples(inner, inner),
        ),
        max_leaves=6,
    )


def outcome(folder: Path, properties: Mapping[Any, Any]) -> Any:
    """The body that is recorded, or why none is."""
    with Recorder(folder, "x", seconds=0) as rec:
        try:
            rec.emit(EventType.RiskEvent, START_NS, properties)
        except (TypeError, ValueError) as problem:
            return type(problem), str(problem)
    with Reader(rec.path) as reader:
        return list(reader.connection.execute("SELECT body FROM event"))


@given(properties=st.dictionaries(st.text(max_size=4), _values(), max_size=4))
@example(properties={"a": [[[[{}]]]], "b": {}, "c": []})
@example(properties={"deep": [[]] * 3, "number": 2**63 - 1, "other": -(2**63)})
@example(properties={"a": '\x00\x08\t\n\x0c\r\x1f"\\/\x7fé€😀', "b": Decimal("-0.00")})
def test_what_is_taken_at_once_has_the_very_bytes_that_python_writes(properties: dict[str, Any]) -> None:
    _check_bytes(properties)


def test_floats_of_every_size_have_the_bytes_that_python_writes() -> None:
    for exponent in range(-20, 25):
        for digits in ("1", "1.5", "-3.7", "9.999999999999999"):
            _check_bytes({"a": float(f"{digits}e{exponent}")})


def _check_bytes(properties: dict[str, Any]) -> None:
    core = native.core()
    assert core is not None
    tape = core.Tape(EventType, 10, 10)
    if tape.emit(EventType.RiskEvent, START_NS, properties, None):
        body = encode(plain(properties))
        packed = core.pack([EventType.RiskEvent], [START_NS], [body], [0], [])
        assert tape.take(10).link(b"", 1) == packed.link(b"", 1)
    else:
        assert _is_odd(properties)
        assert tape.waiting == 0


def _is_odd(value: Any) -> bool:
    """Whether Python has to look at a value: it converts, refuses, or is written with an exponent."""
    if type(value) is dict:
        members = cast("dict[Any, Any]", value)
        return any(type(name) is not str or _is_odd(name) or _is_odd(item) for name, item in members.items())
    if type(value) is list:
        return any(map(_is_odd, value))  # pyright: ignore[reportUnknownArgumentType]
    if type(value) is str:
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    if type(value) is int:
        return not -(2**63) <= value < 2**63
    if type(value) in (float, Decimal):
        return not str(value).strip("-").replace(".", "").isdecimal() or (
            type(value) is float and abs(value) < 1e-4
        )
    return value is not None and type(value) is not bool


@pytest.mark.parametrize(
    "properties",
    [
        {"a": (1, 2), "b": {3}, "c": Colour.red, "d": Named("x")},
        {"a": 2**64, "b": -(2**70), "c": 1e300, "d": Decimal("1E+5")},
        {"a": float("nan")},
        {"a": {"b": Decimal("Infinity")}},
        {"a": "\ud800"},
        {1: 2},
        {"a": {1: 2}},
        {"a": object()},
        {"a": Decimal("9" * 7_000), "b": None},
        {},
    ],
)
def test_odd_properties_are_written_or_refused_as_python_does(tmp_path: Path, properties: Any) -> None:
    natively = outcome(tmp_path, properties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "off")
        assert outcome(tmp_path, properties) == natively


@pytest.mark.parametrize("depth", [DEEPEST - 1, DEEPEST, DEEPEST + 1])
def test_nesting_has_one_bound_on_either_way(tmp_path: Path, depth: int) -> None:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    natively = outcome(tmp_path, {"a": value})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "off")
        assert outcome(tmp_path, {"a": value}) == natively
    assert isinstance(natively, tuple) == (depth > DEEPEST)


@pytest.mark.parametrize(
    "event",
    [
        ("RiskEvent", START_NS, None),
        (1, START_NS, None),
        (EventType.RiskEvent, 2**63, None),
        (EventType.RiskEvent, -(2**63) - 1, None),
        (EventType.RiskEvent, "2024-01-02T14:30:00Z", None),
        (EventType.RiskEvent, 1.5, None),
        (EventType.RiskEvent, START_NS, 0),
        (EventType.RiskEvent, START_NS, -1),
        (EventType.RiskEvent, START_NS, 1),
        (EventType.RiskEvent, START_NS, True),
        (EventType.RiskEvent, START_NS, "1"),
        (EventType.RiskEvent, START_NS, 2**64),
    ],
)
def test_any_frame_is_taken_or_refused_as_python_does(tmp_path: Path, event: tuple[Any, Any, Any]) -> None:
    def tried() -> Any:
        kind, time, parent = event
        with Recorder(tmp_path, "x") as rec:
            try:
                return rec.emit(kind, time, {"RiskType": "a"}, parent=parent)
            except (TypeError, ValueError) as problem:
                return type(problem), str(problem)

    natively = tried()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "off")
        assert tried() == natively


def test_an_object_that_changes_after_it_was_emitted_changes_nothing(tmp_path: Path) -> None:
    inner = [1]
    held: dict[str, Any] = {"RiskType": "a", "list": inner}
    with Recorder(tmp_path, "x") as rec:
        rec.emit(EventType.RiskEvent, START_NS, held)
        inner.append(2)
        held["RiskType"] = "b"
    with Reader(rec.path) as reader:
        assert [event.body for event in reader.events(rec.run_id)] == [b'{"RiskType":"a","list":[1]}']


def test_quick_and_slow_events_of_many_threads_keep_each_thread_s_order(tmp_path: Path) -> None:
    each = 3_000

    def work(number: int) -> None:
        for n in range(each):
            kind: Any = EventType.RiskEvent if n % 3 else "RiskEvent"
            severity = "Error" if n % 7 == 0 else None
            rec.emit(kind, START_NS + n, {"RiskType": str(number), "n": n}, severity=severity)

    with Recorder(tmp_path, "x", batch=50) as rec:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with closing(connect(rec.path, read_only=True)) as connection:
        native.attach(connection)
        query = (
            "SELECT body ->> 'RiskType', body ->> 'n', f.severity FROM event e JOIN fact f ON f.event = e.id "
            "ORDER BY e.id"
        )
        found = list(connection.execute(query))
    for number in range(4):
        own = [(n, severity) for thread, n, severity in found if thread == str(number)]
        assert own == [(n, 2 if n % 7 else 1) for n in range(each)]
    assert verify(rec.path).faults == []


COLLECTED = """
import gc, sys, threading, time
from decimal import Decimal
from tracedesk.backtest import EventType, Recorder

price = Decimal("1.5")

class Loop:
    def __del__(self):
        held.clear()
        time.sleep(0.01)

held = {"a": price, "b": price}

def work():
    gc.disable()
    loop = Loop()
    loop.me = loop
    del loop
    junk = [[] for _ in range(2000)]
    emit, kind = run.emit, EventType.RiskEvent
    gc.enable()
    emit(kind, 1, held)

with Recorder(sys.argv[1], "x") as run:
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        run.emit(EventType.RiskEvent, 2, {"RiskType": "x"})
print("done")
"""


def test_a_collection_never_runs_while_an_event_is_written_down(tmp_path: Path) -> None:
    """The first decimal of a thread makes its context, which may start one, and its finalizers with it."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECTED, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "done\n", done.stderr
