"""Loggers in processes of their own, all let go at the same moment."""

from __future__ import annotations

from pathlib import Path

from tests.codegraph.etg.bench import NOON, SECOND, Bench
from tests.journal.workers import wait_for_the_others
from tracedesk.codegraph.etg.model import NewEvent


def log_the_same(number: int, folder: Path, count: int) -> list[tuple[str, bool]]:
    """Log the events that all others log too, and starts and ends of one's own: (reference, duplicate)."""
    bench = Bench(folder)
    wait_for_the_others()
    answers: list[tuple[str, bool]] = []
    for n in range(count):
        shared = {"message": f"shared {n}", "graph_version": "v"}
        logged = bench.etg.log(NewEvent("shared", "checkpoint", shared, timestamp_ns=NOON + n * SECOND))
        answers.append((logged.ref, logged.duplicate))
        bench.start("shared", f"tool-{number}", {"n": n}, call_id=f"{number}-{n}")
        bench.end("shared", f"tool-{number}", call_id=f"{number}-{n}")
        bench.etg.catch_up()
    bench.etg.close()
    return answers
