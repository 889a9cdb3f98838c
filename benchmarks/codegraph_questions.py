"""How long questions to a graph take, in process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from tracedesk.codegraph.graph.neighbours import around_file, around_symbol
from tracedesk.codegraph.graph.store import Store, project_at
from tracedesk.codegraph.rank.files import Question, Ranker
from tracedesk.journal.sqlite import Connection

T = TypeVar("T")


def measure(graph: Path, root: str, count: int) -> dict[str, list[float]]:
    """The waits of so many questions of each kind, in milliseconds."""
    dice = random.Random(2)
    with Store(graph) as store, store.reading() as connection:
        project = project_at(connection, root)
        assert project is not None
        names = dice.choices(_column(connection, "SELECT DISTINCT name FROM symbol ORDER BY name"), k=count)
        paths = dice.choices(
            _column(connection, "SELECT path FROM file WHERE deleted = 0 ORDER BY path"), k=count
        )
        ranker, asked = Ranker(), [" ".join(dice.sample(names, min(3, len(names)))) for _ in range(count)]
        return {
            "search for files": _waits(
                map(Question, asked), lambda question: ranker.search(connection, None, project, question)
            ),
            "neighbours of a symbol": _waits(names, lambda name: around_symbol(connection, project.id, name)),
            "neighbours of a file": _waits(paths, lambda path: around_file(connection, project.id, path)),
        }


def _column(connection: Connection, query: str) -> list[str]:
    return [row[0] for row in connection.execute(query)]


def _waits(asked: Iterable[T], ask: Callable[[T], object]) -> list[float]:
    waits: list[float] = []
    for one in asked:
        began = time.perf_counter()
        ask(one)
        waits.append((time.perf_counter() - began) * 1e3)
    return waits
