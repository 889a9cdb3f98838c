"""The catalog of runs: an index that its files can always bring back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.home.filling import NOW, Filled
from tests.support import BOUND, ROOT
from tracedesk.catalog import VERSION, Catalog, CatalogError, Run, UnknownRun, describe, rebuild
from tracedesk.home import Home
from tracedesk.journal import Entry, Journal
from tracedesk.journal.sqlite import connect


def _run(id: str, created_ns: int = NOW, **more: object) -> Run:
    return Run(id=id, file=f"runs/{id}.db", name=id, kind="native", created_ns=created_ns, **more)  # pyright: ignore[reportArgumentType]


def test_a_run_is_added_changed_found_and_forgotten(home: Home) -> None:
    with Catalog(home) as catalog:
        catalog.add(_run("a", meta={"symbols": ["AAPL"]}))
        assert catalog.get("a") == _run("a", meta={"symbols": ["AAPL"]})
        changed = catalog.update("a", status="ended", ended_ns=NOW + 1, events=12)
        assert catalog.get("a") == changed
        assert (changed.status, changed.events, changed.meta) == ("ended", 12, {"symbols": ["AAPL"]})
        assert catalog.forget("a")
        assert not catalog.forget("a")
        with pytest.raises(UnknownRun, match="no run 'a'"):
            catalog.get("a")
        with pytest.raises(UnknownRun):
            catalog.update("a", events=1)


def test_runs_are_listed_newest_first_by_state_and_engine_and_page_by_page(home: Home) -> None:
    with Catalog(home) as catalog:
        for n in range(7):
            catalog.add(_run(f"r{n}", NOW + n // 2, status="ended" if n % 2 else "running"))
        ids = [run.id for run in catalog.list()]
        assert ids == ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]
        assert [run.id for run in catalog.list(status="ended")] == ["r5", "r3", "r1"]
        assert catalog.list(kind="other") == []
        paged: list[str] = []
        last: Run | None = None
        while page := catalog.list(after=last, limit=2):
            paged += [run.id for run in page]
            last = page[-1]
        assert paged == ids


def test_a_rebuild_reads_streams_and_seals(filled: Filled) -> None:
    home = filled.home
    filled.stream(
        home.run_file("a"), "main", [b"{}"] * 5, kind="backtest", meta={"name": "Mine", "engine": "zipline"}
    )
    filled.run("b", events=2, status="crashed")
    with Journal(filled.run("c", events=4)) as journal:
        journal.prune("c")
    with Journal(home.run_file("d")) as journal:
        journal.open("d", "backtest", {"cash": 1})
        journal.seal("d", "ended", {"finalEquity": 2})
    assert rebuild(home).runs == 4
    with Catalog(home) as catalog:
        runs = {run.id: run for run in catalog.list()}
    assert (runs["a"].name, runs["a"].kind, runs["a"].status, runs["a"].events) == (
        "Mine",
        "zipline",
        "running",
        5,
    )
    assert (runs["b"].status, runs["b"].events, runs["b"].ended_ns) == ("crashed", 2, NOW)
    assert (runs["c"].status, runs["c"].events, runs["c"].pruned) == ("ended", 4, True)
    assert runs["d"].meta == {"cash": 1, "finalEquity": 2}
    assert {run.file for run in runs.values()} == {f"runs/{id}.db" for id in "abcd"}


def test_a_rebuild_passes_over_what_is_no_run_and_names_what_cannot_be_read(filled: Filled) -> None:
    filled.run("good")
    (filled.home.runs / "torn.db").write_bytes(b"not a database at all" * 100)
    with Journal(filled.home.run_file("begun")):
        pass
    found = rebuild(filled.home)
    assert (found.runs, found.unreadable) == (1, ("torn.db",))


def test_a_missing_older_or_damaged_catalog_comes_back_from_the_runs(filled: Filled) -> None:
    filled.run("a")
    with Catalog(filled.home) as catalog:
        assert [run.id for run in catalog.list()] == ["a"]
    old = connect(filled.home.catalog)
    old.execute(f"DROP TABLE run; CREATE TABLE run(id); PRAGMA user_version = {VERSION - 1}")
    old.close()
    with Catalog(filled.home) as catalog:
        assert [run.id for run in catalog.list()] == ["a"]
    filled.home.catalog.write_bytes(b"rubbish " * 1000)
    assert rebuild(filled.home).runs == 1
    with Catalog(filled.home) as catalog:
        assert [run.id for run in catalog.list()] == ["a"]


def test_a_catalog_of_a_newer_schema_is_refused(home: Home) -> None:
    Catalog(home).close()
    newer = connect(home.catalog)
    newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    with pytest.raises(CatalogError, match="update tracedesk"):
        Catalog(home)


_ADDER = """
import sys
from pathlib import Path
from tracedesk.catalog import Catalog, Run
from tracedesk.home import Home
with Catalog(Home.open(Path(sys.argv[1]))) as catalog:
    for n in range(25):
        id = f"{sys.argv[2]}-{n}"
        catalog.add(Run(id, f"runs/{id}.db", id, "native", n))
        catalog.update(id, events=n, status="ended")
"""


def test_several_processes_write_the_catalog_at_once_from_its_first_moment(home: Home) -> None:
    command = [sys.executable, "-c", _ADDER, str(home.path)]
    writers = [subprocess.Popen([*command, str(n)], cwd=ROOT) for n in range(4)]
    assert [writer.wait(BOUND) for writer in writers] == [0] * 4
    with Catalog(home) as catalog:
        found = catalog.list(status="ended")
    assert len(found) == 100
    assert all(run.events == int(run.id.split("-")[1]) for run in found)


class Recorded(RuleBasedStateMachine):
    """Runs are recorded, sealed, pruned and forgotten; a rebuild always finds what the files say."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.home = Home.open(Path(self.folder.name, "home"))
        self.catalog = Catalog(self.home)
        self.events: dict[str, int] = {}
        self.states: dict[str, str] = {}

    def teardown(self) -> None:
        self.catalog.close()
        self.folder.cleanup()

    def _some(self, n: int, *states: str) -> str | None:
        ids = [id for id, state in self.states.items() if state in states]
        return ids[n % len(ids)] if ids else None

    @rule()
    def begin(self) -> None:
        id = f"r{len(self.states)}"
        with Journal(self.home.run_file(id)) as journal:
            journal.open(id, "backtest")
        run = describe(self.home, self.home.run_file(id))
        assert run is not None
        self.catalog.add(run)
        self.events[id], self.states[id] = 0, "running"

    @rule(n=st.integers(0, 99), count=st.integers(1, 3))
    def record(self, n: int, count: int) -> None:
        if (id := self._some(n, "running")) is not None:
            with Journal(self.home.run_file(id)) as journal:
                journal.append(id, [Entry("bar", 1, b"{}")] * count)
            self.events[id] += count

    @rule(n=st.integers(0, 99), status=st.sampled_from(["ended", "crashed"]))
    def seal(self, n: int, status: str) -> None:
        if (id := self._some(n, "running")) is not None:
            with Journal(self.home.run_file(id)) as journal:
                journal.seal(id, status)  # pyright: ignore[reportArgumentType]
            self.states[id] = status

    @rule(n=st.integers(0, 99))
    def prune(self, n: int) -> None:
        if (id := self._some(n, "ended", "crashed")) is not None:
            with Journal(self.home.run_file(id)) as journal:
                journal.prune(id)

    @rule(n=st.integers(0, 99))
    def forget(self, n: int) -> None:
        if (id := self._some(n, "running", "ended", "crashed")) is not None:
            self.catalog.forget(id)

    @invariant()
    def a_rebuild_finds_everything(self) -> None:
        self.catalog.rebuild()
        found = {run.id: (run.events, run.status) for run in self.catalog.list()}
        assert found == {id: (self.events[id], self.states[id]) for id in self.states}


TestRecorded = Recorded.TestCase
TestRecorded.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
