"""Rank that flows along references and imports, against a plain computation of the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegraph.rank.cases import Shop
from tracedesk.codegraph.graph.schema import FILE_IMPORTS_FILE, rows_of
from tracedesk.codegraph.graph.store import Project
from tracedesk.codegraph.rank import links
from tracedesk.codegraph.rank.links import RESTART, Links
from tracedesk.journal.sqlite import Connection

FILES = 6
PROJECT = Project(1, "/p", "v", "x", 0, 0)
Edges = Sequence[tuple[int, int]]


def graph_of(imports: Edges, references: Edges = ()) -> Connection:
    made = cast("Connection", apsw.Connection(":memory:"))
    made.execute("CREATE TABLE edge(kind INTEGER, src INTEGER, dst INTEGER)")
    made.executemany("INSERT INTO edge VALUES(?, ?, ?)", [(FILE_IMPORTS_FILE, a, b) for a, b in imports])
    rows = [(1, rows_of(a)[0] + n, rows_of(b)[0] + n) for n, (a, b) in enumerate(references)]
    made.executemany("INSERT INTO edge VALUES(?, ?, ?)", rows)
    return made


def by_steps(imports: Edges, seeds: Sequence[tuple[int, float]]) -> dict[int, float]:
    """The same by many whole rounds: every import is worth as much, in both directions; without what a seed
    has of itself."""
    sides = {
        file: {b for a, b in imports if a == file} | {a for a, b in imports if b == file}
        for file in range(FILES)
    }
    waiting = dict.fromkeys(range(FILES), 0.0)
    for file, weight in seeds:
        waiting[file] += weight / sum(weight for _, weight in seeds)
    rank = dict.fromkeys(range(FILES), 0.0)
    for _ in range(200):
        passed = dict.fromkeys(range(FILES), 0.0)
        for file, amount in waiting.items():
            rank[file] += RESTART * amount
            for other in sides[file]:
                passed[other] += (1 - RESTART) * amount / len(sides[file])
        waiting = passed
    for file, weight in seeds:
        rank[file] -= RESTART * weight / sum(weight for _, weight in seeds)
    return rank


_edges = st.lists(
    st.tuples(st.integers(0, FILES - 1), st.integers(0, FILES - 1)).filter(lambda edge: edge[0] < edge[1]),
    unique=True,
    max_size=12,
)


@given(_edges, st.integers(0, FILES - 1), st.integers(0, FILES - 1))
@settings(deadline=None)
def test_pushed_long_enough_rank_is_what_whole_rounds_give(imports: Edges, one: int, other: int) -> None:
    seeds = list({one: 2.0, other: 1.0}.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "PUSHES", 2_000)
        found = Links().reached(graph_of(imports), PROJECT, seeds)
    exact = by_steps(imports, seeds)
    assert all(found.get(file, 0.0) == pytest.approx(rank, abs=1e-6) for file, rank in exact.items())


@given(_edges, st.integers(0, FILES - 1))
def test_files_get_no_more_rank_than_a_seed_passes_on_and_one_without_neighbours_none(
    imports: Edges, seed: int
) -> None:
    found = Links().reached(graph_of(imports), PROJECT, [(seed, 5.0)])
    assert sum(found.values()) <= 1 - RESTART + 1e-9
    assert bool(found) == any(seed in edge for edge in imports)


def test_many_references_pass_more_than_one_but_not_as_many_times_more() -> None:
    found = Links().reached(graph_of([], [(1, 2)] * 9 + [(3, 1)]), PROJECT, [(1, 1.0)])
    assert found[3] < found[2] < 9 * found[3]


def test_a_file_that_the_best_one_uses_is_found_though_no_word_leads_to_it(tmp_path: Path) -> None:
    shop = Shop(
        tmp_path,
        {
            "till.py": "from ledger import enter\n\ndef ring_up(amount):\n    enter(amount)\n",
            "ledger.py": "def enter(amount):\n    print(amount)\n",
            "stray.py": "def nothing():\n    return None\n",
        },
    )
    hits = {hit.path: hit for hit in shop.search("the till does not ring").hits}
    assert list(hits) == ["till.py", "ledger.py"]
    assert set(hits["ledger.py"].parts) == {"links"}
    assert hits["ledger.py"].score < 0.2
    shop.close()
