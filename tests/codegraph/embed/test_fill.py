"""Filling missing vectors: all of them, in short steps, with progress, each text once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.codegraph.embed.test_vectors import Dice, held_by_another
from tests.codegraph.graph.projects import Desk
from tests.support import BOUND, wait_until
from tracedesk.codegraph.embed.chunks import ProjectChunks
from tracedesk.codegraph.embed.fill import Filler, fill, here
from tracedesk.codegraph.embed.vectors import Vectors


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write({f"m{n}.py": f'"""Module {n}."""\n\ndef f{n}(x):\n    return x + {n}\n' for n in range(60)})
    desk.index(workers=0)
    return desk


def chunks_of(desk: Desk) -> ProjectChunks:
    return ProjectChunks(desk.store, str(desk.root))


class Counting(Dice):
    """Counts the texts it is given."""

    texts = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return super().embed(texts)


def test_every_chunk_gets_the_vector_of_its_text(desk: Desk) -> None:
    vectors = Vectors(desk.home / "vectors", Dice())
    chunks = chunks_of(desk)
    numbers = chunks.keys()
    steps: list[tuple[int, int]] = []
    filled = fill(vectors, chunks, progress=lambda done, total: steps.append((done, total)))
    assert (filled.state, filled.added) == ("filled", len(numbers))
    assert filled.coverage.share == 1
    assert steps[-1] == (len(numbers), len(numbers))
    texts = [text for text in chunks.texts(list(numbers.values())) if text is not None]
    assert len(texts) == len(numbers) >= 60
    assert np.allclose(vectors.get(list(numbers)), Dice().embed(texts), atol=0.01)


def test_a_chunk_that_did_not_change_is_never_embedded_again(desk: Desk) -> None:
    embedder = Counting()
    vectors = Vectors(desk.home / "vectors", embedder)
    fill(vectors, chunks_of(desk))
    before = embedder.texts
    desk.write({"m3.py": "def changed(x):\n    return x * 3\n"})
    desk.update(["m3.py"])
    filled = fill(vectors, chunks_of(desk))
    assert 0 < filled.added == embedder.texts - before <= 2
    assert filled.coverage.share == 1


def test_a_cancel_ends_after_the_step_and_keeps_what_was_done(desk: Desk) -> None:
    vectors = Vectors(desk.home / "vectors", Dice())
    steps: list[int] = []
    filled = fill(
        vectors,
        chunks_of(desk),
        progress=lambda done, total: steps.append(done),
        cancelled=lambda: bool(steps),
    )
    assert filled.state == "cancelled"
    assert 0 < filled.added == steps[0] < filled.coverage.chunks
    assert filled.coverage.embedded == filled.added


def test_a_chunk_that_went_meanwhile_is_passed_over(desk: Desk) -> None:
    class Going(ProjectChunks):
        def texts(self, numbers: Sequence[int]) -> list[str | None]:
            return [None, *super().texts(numbers)[1:]]

    filled = fill(Vectors(desk.home / "vectors", Dice()), Going(desk.store, str(desk.root)))
    assert filled.state == "filled"
    assert 0 < filled.added < filled.coverage.chunks


def test_two_that_fill_at_once_embed_every_text_once(desk: Desk) -> None:
    both = [Counting(), Counting()]
    chunks = chunks_of(desk)
    start = threading.Barrier(2)

    def work(embedder: Counting) -> None:
        # Both know that everything is missing before either has embedded anything.
        waits = iter([lambda: start.wait(30)])
        fill(Vectors(desk.home / "vectors", embedder), chunks, cancelled=lambda: [w() for w in waits] == [-1])

    threads = [threading.Thread(target=work, args=(embedder,)) for embedder in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    keys = list(chunks.keys())
    assert both[0].texts + both[1].texts == len(keys)
    assert Vectors(desk.home / "vectors", Dice()).coverage(keys).share == 1


def test_a_project_that_is_not_indexed_has_nothing_to_fill(desk: Desk) -> None:
    chunks = ProjectChunks(desk.store, "/nowhere")
    assert fill(Vectors(desk.home / "vectors", Dice()), chunks).document() == {
        "state": "filled",
        "added": 0,
        "model": "dice-1",
        "embedded": 0,
        "chunks": 0,
        "share": 0.0,
    }


def test_the_filler_fills_every_model_of_the_projects_it_is_told_of(desk: Desk) -> None:
    models = [Vectors(desk.home / "vectors", Dice(name)) for name in ("a", "b")]
    filler = Filler(here(models, lambda root: ProjectChunks(desk.store, root)))
    try:
        filler.ask(str(desk.root))
        filler.ask(str(desk.root))
        assert filler.wait(60)
        keys = list(chunks_of(desk).keys())
        assert [model.coverage(keys).share for model in models] == [1, 1]
        assert filler.status(str(desk.root)) == {"state": "idle"}
    finally:
        filler.close()


def test_the_filler_tells_how_far_it_is_and_stops_when_closed(desk: Desk) -> None:
    class Slow(Dice):
        entered = threading.Event()
        go = threading.Event()

        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if self.entered.is_set():
                self.go.wait(30)
            self.entered.set()
            return super().embed(texts)

    vectors = Vectors(desk.home / "vectors", Slow())
    filler = Filler(here([vectors], lambda root: ProjectChunks(desk.store, root)))
    filler.ask(str(desk.root))
    filler.ask("/another")
    assert Slow.entered.wait(30)
    assert filler.status("/another") == {"state": "waiting"}
    assert filler.status(str(desk.root))["state"] == "filling"
    closing = threading.Thread(target=filler.close)
    closing.start()
    wait_until(lambda: filler.status("/another") == {"state": "idle"})  # it has been told to stop
    Slow.go.set()
    closing.join(30)
    assert not closing.is_alive()
    assert vectors.coverage(list(chunks_of(desk).keys())).share < 1


def test_a_project_that_fails_does_not_stop_the_next(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    def chunks(root: str) -> ProjectChunks:
        if root == "/broken":
            raise OSError("gone")
        return ProjectChunks(desk.store, root)

    vectors = Vectors(desk.home / "vectors", Dice())
    filler = Filler(here([vectors], chunks))
    try:
        filler.ask("/broken")
        filler.ask(str(desk.root))
        assert filler.wait(60)
    finally:
        filler.close()
    assert "/broken were not filled" in caplog.text
    assert vectors.coverage(list(chunks_of(desk).keys())).share == 1


class Watched(Vectors):
    """Tells when one of its locks is asked for."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, Dice())
        self.asked = threading.Event()
        self._watched = name

    @contextmanager
    def _locked(self, suffix: str, cancelled: Callable[[], bool] | None = None) -> Generator[None]:
        if suffix == self._watched:
            self.asked.set()
        with super()._locked(suffix, cancelled):
            yield


@pytest.mark.parametrize("lock", [".filling", ".lock"])
def test_closing_never_waits_for_another_process(desk: Desk, lock: str) -> None:
    vectors = Watched(desk.home / "vectors", lock)
    filler = Filler(here([vectors], lambda root: ProjectChunks(desk.store, root)))
    with held_by_another(desk.home / "vectors" / f"dice-1{lock}"):
        filler.ask(str(desk.root))
        assert vectors.asked.wait(30)
        closing = threading.Thread(target=filler.close, daemon=True)
        closing.start()
        closing.join(BOUND)
        assert not closing.is_alive()
    assert vectors.coverage(list(chunks_of(desk).keys())).embedded == 0


def test_damaged_vectors_are_filled_anew(desk: Desk) -> None:
    vectors = Vectors(desk.home / "vectors", Dice())
    fill(vectors, chunks_of(desk))
    (desk.home / "vectors" / "dice-1.vectors").write_bytes(b"")
    assert vectors.coverage(list(chunks_of(desk).keys())).embedded == 0
    assert fill(vectors, chunks_of(desk)).coverage.share == 1
