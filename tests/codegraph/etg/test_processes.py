"""Several processes on one trace: what all deliver is logged once, what each does is paired."""

from __future__ import annotations

from pathlib import Path

from tests.codegraph.etg.bench import Bench
from tests.codegraph.etg.rows import tables
from tests.codegraph.etg.workers import log_the_same
from tests.journal.workers import together
from tracedesk.journal import verify

PROCESSES = 4
EVENTS = 15


def test_an_event_that_every_process_delivers_is_logged_once(tmp_path: Path) -> None:
    answers = together(PROCESSES, log_the_same, tmp_path, EVENTS)
    for n in range(EVENTS):
        told = [mine[n] for mine in answers]
        assert len({ref for ref, _ in told}) == 1, "all are told of the same event"
        assert sorted(duplicate for _, duplicate in told) == [False, *[True] * (PROCESSES - 1)]
    bench = Bench(tmp_path)
    view = bench.view("shared")
    assert len(view.events) == EVENTS + 2 * PROCESSES * EVENTS
    assert {call.pairing for call in view.tool_calls} == {"exact"}
    assert len(view.tool_calls) == PROCESSES * EVENTS
    before = tables(bench.path)
    bench.etg.rebuild()
    assert tables(bench.path) == before
    assert verify(bench.path).is_sound
    bench.etg.close()
