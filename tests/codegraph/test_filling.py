"""Vectors made in a process of its own: the same ones, and what a cancel or a kill leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.codegraph.processes import children
from tests.codegraph.test_indexer import many
from tracedesk.codegraph.embed.chunks import ProjectChunks
from tracedesk.codegraph.embed.fill import Filler, fill
from tracedesk.codegraph.embed.shelf import shelf
from tracedesk.codegraph.embed.vectors import Vectors
from tracedesk.codegraph.filling import MODULE, beside
from tracedesk.codegraph.graph.index import index_project
from tracedesk.codegraph.graph.store import Store
from tracedesk.primitives.paths import Jail


class Home:
    """A home with one indexed project."""

    def __init__(self, folder: Path, files: int) -> None:
        self.path = folder / "home"
        self.root = str(many(folder / "many", files))
        self.store = Store(self.path / "graph.db")
        index_project(self.store, Jail([self.root]), self.root, [], workers=1)
        self.chunks = ProjectChunks(self.store, self.root)
        self.keys = list(self.chunks.keys())

    def share(self) -> float:
        return shelf(self.path)[0].coverage(self.keys).share


def test_vectors_made_beside_are_those_made_here(tmp_path: Path) -> None:
    home = Home(tmp_path, 60)
    seen: list[tuple[str, int, int]] = []

    def note(model: str, done: int, total: int) -> None:
        seen.append((model, done, total))

    beside(home.path, home.store.path)(home.root, note, lambda: False)
    assert home.share() == 1
    there = shelf(home.path)[0]
    assert {model for model, *_ in seen} == {there.model}
    here = Vectors(tmp_path / "here", there.embedder)
    fill(here, home.chunks)
    assert np.array_equal(there.get(home.keys), here.get(home.keys))
    assert children(os.getpid(), MODULE) == []
    home.store.close()


def test_a_cancel_leaves_no_process_and_what_was_kept(tmp_path: Path) -> None:
    home = Home(tmp_path, 600)
    steps: list[int] = []

    def note(model: str, done: int, total: int) -> None:
        steps.append(done)

    beside(home.path, home.store.path)(home.root, note, lambda: bool(steps))
    assert children(os.getpid(), MODULE) == []
    assert home.share() >= steps[0] / len(home.keys) > 0
    beside(home.path, home.store.path)(home.root, note, lambda: False)
    assert home.share() == 1
    home.store.close()


def test_a_killed_filling_is_told_in_the_log_and_the_next_one_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path, 600)

    def kill(model: str, done: int, total: int) -> None:
        for child in children(os.getpid(), MODULE):
            os.kill(child, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="exit code -9"):
        beside(home.path, home.store.path)(home.root, kill, lambda: False)
    assert f"{MODULE} ended with -9" in caplog.text
    filler = Filler(beside(home.path, home.store.path))
    filler.ask(home.root)
    assert filler.wait(60)
    filler.close()
    assert home.share() == 1
    home.store.close()
