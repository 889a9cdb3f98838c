"""Pruning: sealed streams go whole, manifests stay, nothing that is referred to goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.home.filling import NOW, Filled
from tracedesk import prune, sweep
from tracedesk.catalog import Catalog
from tracedesk.home import Home
from tracedesk.journal import Entry, Journal, Reader, StreamPruned, verify
from tracedesk.journal.sqlite import connect
from tracedesk.payloads import Payloads
from tracedesk.primitives.time import DAY

BIG = b'{"text":"%s"}' % (b"x" * 1_000)


def _chosen(filled: Filled, **how: object) -> list[str]:
    return [stream.name for stream in prune.plan(filled.home, clock=filled.clock, **how).streams]  # pyright: ignore[reportArgumentType]


def _prune(filled: Filled, days: float = 30, *, shrink: bool = False) -> prune.Outcome:
    chosen = prune.plan(filled.home, before_ns=NOW - int(days * DAY), clock=filled.clock)
    return prune.prune(filled.home, chosen, shrink=shrink, clock=filled.clock)


# --- what is chosen ----------------------------------------------------------------------------


def test_only_sealed_streams_that_ended_before_are_chosen_oldest_first(filled: Filled) -> None:
    trace = filled.home.trace
    filled.stream(trace, "open", [b"{}"], days=90)
    filled.stream(trace, "young", [b"{}"], status="ended", days=29)
    filled.stream(trace, "old", [b"{}"], status="ended", days=31)
    filled.run("older", days=60, status="crashed")
    assert _chosen(filled, before_ns=NOW - 30 * DAY) == ["older", "old"]
    assert _chosen(filled, before_ns=NOW - 30 * DAY, kinds=["backtest"]) == ["older"]


def test_down_to_a_size_takes_the_oldest_and_no_more_than_needed(filled: Filled) -> None:
    for n in range(5):
        filled.stream(filled.home.run_file(f"r{n}"), f"r{n}", [BIG] * 100, status="ended", days=10 - n)
    whole = sum(file.stat().st_size for file in filled.home.runs.glob("*.db"))
    assert _chosen(filled, down_to=whole) == []
    assert _chosen(filled, down_to=whole - 150_000) == ["r0", "r1"]
    assert _chosen(filled, down_to=0, before_ns=NOW - 9 * DAY) == ["r0"]


def test_the_ledger_is_never_pruned(filled: Filled) -> None:
    filled.stream(filled.home.ledger, "orders", [b"{}"], status="ended", days=400)
    assert _chosen(filled, before_ns=NOW) == []


def test_planning_changes_nothing(filled: Filled) -> None:
    filled.run("r1", days=60)
    filled.payload(b"lonely")
    chosen = prune.plan(filled.home, before_ns=NOW, clock=filled.clock)
    assert (len(chosen.streams), len(chosen.payloads)) == (1, 1)
    with Reader(filled.home.run_file("r1")) as reader:
        assert len(reader.events("r1")) == 3
    assert filled.payload(b"lonely").exists()


# --- what goes and what stays ------------------------------------------------------------------


def test_a_pruned_stream_leaves_its_manifest_and_a_smaller_file_that_verifies(filled: Filled) -> None:
    file = filled.stream(filled.home.run_file("r1"), "r1", [BIG] * 2_000, status="ended", days=60)
    with Catalog(filled.home) as catalog:
        assert not catalog.get("r1").pruned
    before = file.stat().st_size
    outcome = _prune(filled)
    assert [stream.name for stream in outcome.streams] == ["r1"]
    assert file.stat().st_size < before / 20
    assert outcome.freed >= before * 0.9
    assert verify(file).is_sound
    with Reader(file) as reader, pytest.raises(StreamPruned) as gone:
        reader.events("r1")
    assert gone.value.manifest["events"] == 2_000
    with Catalog(filled.home) as catalog:
        assert (catalog.get("r1").pruned, catalog.get("r1").events) == (True, 2_000)


def test_pruning_again_finds_nothing(filled: Filled) -> None:
    filled.run("r1", days=60)
    assert len(_prune(filled).streams) == 1
    again = _prune(filled)
    assert (again.streams, again.payloads, again.freed) == ([], 0, 0)


def test_a_journal_in_use_keeps_its_writers_and_its_other_streams(filled: Filled) -> None:
    trace = filled.home.trace
    filled.stream(trace, "old", [BIG] * 500, status="ended", days=60)
    with Journal(trace) as writer, Reader(trace) as reader:
        writer.open("now", "calls")
        writer.append("now", [Entry("call", 1, b"{}")] * 3)
        assert len(_prune(filled).streams) == 1
        assert writer.append("now", [Entry("call", 1, b"{}")]) == range(4, 5)
        assert len(reader.events("now")) == 4
    assert verify(trace).is_sound


def test_a_reader_that_stays_delays_the_shrinking_and_nobody_else(filled: Filled) -> None:
    trace = filled.home.trace
    filled.stream(trace, "old", [BIG] * 500, status="ended", days=60)
    before = trace.stat().st_size
    with Reader(trace) as reader:
        reader.connection.execute("BEGIN")
        assert len(reader.events("old")) == 500
        outcome = _prune(filled)
        assert outcome.notes == ["trace.db gets smaller once those who read it now are done."]
        assert len(reader.events("old")) == 500
    with Journal(trace) as journal:
        journal.open("now", "calls")
    assert trace.stat().st_size < before / 5
    assert verify(trace).is_sound


def test_a_large_journal_in_use_keeps_its_pages_for_its_next_events_unless_told(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "SMALL", 100_000)
    trace = filled.home.trace
    for n, name in enumerate(("first", "second")):
        filled.stream(trace, name, [BIG] * 200, status="ended", days=60 - 20 * n)
    filled.stream(trace, "now", [BIG] * 200)
    kept = _prune(filled, days=50)
    assert kept.reusable > 200_000
    assert kept.freed < 100_000
    shrunk = _prune(filled, days=30, shrink=True)
    assert (shrunk.reusable, shrunk.freed > 400_000) == (0, True)
    assert verify(trace).is_sound


def test_rows_of_projections_go_with_their_events(filled: Filled) -> None:
    trace = filled.home.trace
    filled.stream(trace, "old", [b"{}"] * 3, status="ended", days=60)
    filled.stream(trace, "now", [b"{}"] * 2)
    with Journal(trace) as journal:
        journal.connection.execute("CREATE TABLE call_index(id TEXT, event INTEGER)")
        journal.connection.execute("INSERT INTO call_index SELECT 'x' || id, id FROM event")
    _prune(filled)
    with Reader(trace) as reader:
        assert list(reader.connection.execute("SELECT count(*) FROM call_index")) == [(2,)]


def test_a_journal_that_cannot_be_pruned_is_a_note_and_the_others_still_go(filled: Filled) -> None:
    broken = filled.run("a", days=60)
    filled.run("b", days=60)
    chosen = prune.plan(filled.home, before_ns=NOW, clock=filled.clock)
    for suffix in ("-wal", "-shm"):
        Path(f"{broken}{suffix}").unlink(missing_ok=True)
    broken.write_bytes(b"gone" * 1000)
    outcome = prune.prune(filled.home, chosen, clock=filled.clock)
    assert [stream.name for stream in outcome.streams] == ["b"]
    assert any(note.startswith("a.db: ") for note in outcome.notes)


# --- payloads ----------------------------------------------------------------------------------


def _left(filled: Filled) -> set[str]:
    return {path.name for path in filled.home.payloads.glob("??/*")}


def test_payloads_go_when_nothing_refers_to_them_and_a_day_has_passed(filled: Filled) -> None:
    kept = filled.payload(b"cited")
    young = filled.payload(b"young", days=0.5)
    gone = filled.payload(b"lonely")
    filled.stream(filled.home.trace, "now", [b'{"result":{"sha256":"%s"}}' % kept.name.encode()])
    outcome = _prune(filled)
    assert _left(filled) == {kept.name, young.name}
    assert (outcome.payloads, outcome.freed) == (1, len(b"lonely"))
    assert not gone.exists()


def test_the_payloads_of_a_pruned_stream_go_with_it(filled: Filled) -> None:
    body = filled.payload(b"old result")
    shared = filled.payload(b"shared result")
    names = body.name.encode(), shared.name.encode()
    filled.stream(filled.home.trace, "old", [b'["%s","%s"]' % names], status="ended", days=60)
    filled.stream(filled.home.trace, "now", [b'["%s"]' % names[1]])
    chosen = prune.plan(filled.home, before_ns=NOW - 30 * DAY, clock=filled.clock)
    assert [payload.path for payload in chosen.payloads] == [body]
    _prune(filled)
    assert _left(filled) == {shared.name}


def test_a_reference_counts_wherever_it_stands(filled: Filled) -> None:
    """Any table of any database, a raw digest, stream metadata, a campaign's or the inbox's file."""
    home = filled.home
    one, two, three, four, five, gone = (filled.payload(b"%d" % n) for n in range(6))
    table = connect(home.ledger)
    table.execute("CREATE TABLE orders(note TEXT, digest BLOB)")
    table.execute("INSERT INTO orders VALUES(?, ?)", (f"see {one.name}", bytes.fromhex(two.name)))
    table.close()
    filled.stream(home.run_file("r1"), "r1", [b"{}"], meta={"source": three.name.upper()})
    home.campaign("c1").mkdir()
    (home.campaign("c1") / "plan.json").write_text(f'"tracedesk://payloads/{four.name}"')
    (home.inbox / "hook").write_text(five.name)
    (home.inbox / "empty").write_text("")
    _prune(filled)
    assert _left(filled) == {path.name for path in (one, two, three, four, five)}
    assert not gone.exists()


def test_events_that_are_not_text_keep_every_payload(filled: Filled) -> None:
    filled.payload(b"perhaps cited")
    filled.stream(filled.home.run_file("r1"), "r1", [b"\x1f\x8b\x00packed"])
    outcome = _prune(filled)
    assert len(_left(filled)) == 1
    assert outcome.notes == [
        "Payloads stay: r1.db has events that are not text, so none can be proved unreferenced."
    ]


def test_a_payload_taken_into_use_again_is_put_back(filled: Filled) -> None:
    path = filled.payload(b"again")
    (found,) = sweep.unreferenced(filled.home, NOW)
    filled.touch(path, days=0)
    assert not sweep.remove(found, NOW)
    assert path.read_bytes() == b"again"


def test_a_payload_that_is_written_again_counts_as_new(filled: Filled) -> None:
    path = filled.payload(b"again", days=9)
    (found,) = sweep.unreferenced(filled.home, NOW)
    assert Payloads(filled.home.payloads).put(b"again") == path.name
    assert not sweep.remove(found, NOW)
    assert sweep.unreferenced(filled.home, NOW) == []


def test_what_a_killed_sweep_moved_aside_comes_back(filled: Filled) -> None:
    path = filled.payload(b"body")
    path.rename(path.with_name(f".{path.name}.going"))
    half = path.with_name(f".{path.name}.4711")
    half.write_bytes(b"bo")
    filled.touch(half, days=2)
    sweep.tidy(filled.home.payloads, NOW)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


_FRAMES = st.sampled_from(
    ["%s", '{"sha256":"%s"}', "sha256%s", "0x%sff00", "é %s\n", "tracedesk://payloads/%s"]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cited=st.sets(st.integers(0, 7)), frame=_FRAMES, upper=st.booleans(), rest=st.text("0123456789abcdef"))
def test_exactly_what_no_event_names_is_unreferenced(
    cited: set[int], frame: str, upper: bool, rest: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        filled = Filled(Home.open(Path(folder, "home")))
        paths = [filled.payload(b"%d" % n) for n in range(8)]
        names = [paths[n].name.upper() if upper else paths[n].name for n in cited]
        filled.stream(filled.home.trace, "now", [(frame % name + rest).encode() for name in names] or [b"{}"])
        found = {payload.path for payload in sweep.unreferenced(filled.home, NOW)}
        assert found == {path for n, path in enumerate(paths) if n not in cited}


# --- any order ---------------------------------------------------------------------------------


class Pruned(RuleBasedStateMachine):
    """Streams grow, are sealed and pruned in any order; a plain model agrees, and every chain holds."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.filled = Filled(Home.open(Path(self.folder.name, "home")))
        self.events: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.gone: set[str] = set()

    def teardown(self) -> None:
        self.folder.cleanup()

    def _file(self, name: str) -> Path:
        return self.filled.home.trace if int(name[1:]) % 2 else self.filled.home.run_file(name)

    @rule(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        name = f"s{len(self.events)}"
        self.filled.stream(self._file(name), name, [b"{}"] * count)
        self.events[name] = count

    @rule(n=st.integers(0, 99), days=st.integers(1, 9))
    def seal(self, n: int, days: int) -> None:
        names = sorted(self.events.keys() - self.ended.keys())
        if names:
            name = names[n % len(names)]
            self.filled.stream(self._file(name), name, [b"{}"], status="ended", days=days)
            self.events[name] += 1
            self.ended[name] = days

    @rule(days=st.integers(0, 9), shrink=st.booleans())
    def prune(self, days: int, shrink: bool) -> None:
        due = {name for name, age in self.ended.items() if age > days and name not in self.gone}
        outcome = _prune(self.filled, days, shrink=shrink)
        assert {stream.name for stream in outcome.streams} == due
        self.gone |= due

    @invariant()
    def what_is_left_is_what_should_be(self) -> None:
        for name, count in self.events.items():
            with Reader(self._file(name)) as reader:
                assert reader.is_pruned(name) == (name in self.gone)
                if name not in self.gone:
                    assert len(reader.events(name)) == count
        for file in self.filled.home.databases():
            if file != self.filled.home.catalog:
                assert verify(file).is_sound


TestPruned = Pruned.TestCase
TestPruned.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
