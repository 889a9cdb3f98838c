"""Our index as a process of its own: `python -m benchmarks.codegraph_ours ROOT GRAPH CPUS [FILES]`.

CPUS are numbers with commas between; FILES lists one path a line, relative to ROOT, and without it the whole
tree is indexed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import PROC, children, peak_kib, reading
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.store import Store
from tracedesk.primitives.paths import Jail


def main(root: str, graph: str, cpus: str, listed: str | None = None) -> dict[str, Any]:
    """Index once into a new graph, and say what it cost."""
    os.sched_setaffinity(0, set(map(int, cpus.split(","))))
    files = [] if listed is None else Path(listed).read_text(encoding="utf-8").splitlines()
    with Store(Path(graph)) as store:
        wall, cpu = time.perf_counter(), _cpu()
        report = index_project(store, Jail([root]), root, files)
        seconds, spent, peak = time.perf_counter() - wall, _cpu() - cpu, _peak_mb(len(cpus.split(",")))
    return {
        "wall_s": seconds,
        "cpu_s": spent,
        "rss_mb": peak,
        "files": len(report.indexed_files),
        "counts": dict(report.counts),
        "skipped": len(report.skipped),
    }


def _cpu() -> float:
    """Seconds of this process, of the children that ended, and of those that wait for more to parse."""
    used = os.times()
    own = {int(task.name) for task in (PROC / "self" / "task").iterdir()}
    living = sum(spent for thread, spent in reading(os.getpid()).items() if thread not in own)
    return used.user + used.system + used.children_user + used.children_system + living / 1e9


def _peak_mb(parsers: int) -> float:
    """At most so much was resident at once: our own peak, and as many times the largest parser's."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (peak_kib(os.getpid()) + parsers * max(ended, *map(peak_kib, children(os.getpid())), 0)) / 1024


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:5])))
